//! Everything that decides the result of one run, and the run.

use super::strokes::strokes;
use crate::support::paper::{self, Progress};
use crate::support::transformers::show::Deep;
use crate::support::transformers::{Examples, Layers, Outcome, Part, Recipe, train};
use emmy::data::images::{self, Images};
use emmy::nn::{ContraConfig, Pass, VisionConfig, VisionTransformer};
use emmy::ops::attention::Mask;
use emmy::{Error, Result, Tape, Tensor, Var};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that decides the result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// `mnist`, `fashion-mnist`, or `strokes`, which are generated.
    pub dataset: String,
    /// Side of a patch in pixels.
    pub patch: usize,
    #[serde(flatten)]
    pub recipe: Recipe,
}

/// The number of generated training images, and of test images.
const DRAWN: [usize; 2] = [8000, 1000];

/// The seed of the data, the same in all cells: the generated images, and the test digits that are held out.
const SEED: u64 = 2023;

/// The training and the test images of a data set.
pub struct Prepared {
    train: (Tensor<f32>, Vec<usize>),
    test: (Tensor<f32>, Vec<usize>),
    side: [usize; 2],
    classes: usize,
}

impl Prepared {
    fn new(train: &Images, test: &Images) -> Result<Self> {
        let of = |images: &Images| {
            let shape = [images.len(), 1, images.height, images.width];
            let rows = images.rows::<f32>();
            let rows = rows.to_shape(&shape[..]).expect("as many pixels");
            (rows.to_owned().into_shared(), images.classes_of())
        };
        let side = [train.height, train.width];
        if side != [test.height, test.width] {
            let rule = format!("{} × {} pixels, like the training images", side[0], side[1]);
            let found = format!("{} × {}", test.height, test.width);
            return Err(Error::invalid("test images", rule, found));
        }
        Ok(Self {
            train: of(train),
            test: of(test),
            side,
            classes: train.classes().max(test.classes()),
        })
    }

    /// If only the test images of a data set are there, a tenth of them are used for the test and the others
    /// for training.
    fn load(dataset: &str, folder: Option<&Path>) -> Result<Self> {
        if dataset == "strokes" {
            let all = strokes(DRAWN[0] + DRAWN[1], SEED);
            let part = |from: usize, to: usize| all.select(&(from..to).collect::<Vec<_>>());
            return Self::new(&part(0, DRAWN[0]), &part(DRAWN[0], DRAWN[0] + DRAWN[1]));
        }
        match images::load(folder, dataset, images::Part::Train) {
            Ok(train) => Self::new(&train, &images::load(folder, dataset, images::Part::Test)?),
            Err(error @ Error::NotFound { .. }) => {
                let all = images::load(folder, dataset, images::Part::Test);
                // If the test images are not found either, the message is about all.
                let Ok(all) = all else { return Err(error) };
                let (train, test) = all.split(all.len() / 10, SEED)?;
                crate::support::note(format_args!(
                    "{dataset}: only the test images were found; {} of them are for training, {} for the test",
                    train.len(),
                    test.len()
                ));
                Self::new(&train, &test)
            }
            Err(error) => Err(error),
        }
    }
}

impl Cell {
    /// The model, for images of these sides and classes.
    pub fn config(&self, side: [usize; 2], classes: usize) -> VisionConfig {
        let Recipe {
            depth,
            width,
            heads,
            ..
        } = self.recipe;
        let config = VisionConfig::new(side[0], 1, self.patch, classes, depth, heads, width);
        VisionConfig {
            image: side,
            block: self.recipe.block(config.block, ContraConfig::vision_code),
            ..config
        }
    }
}

impl paper::Cell for Cell {
    type Data = Prepared;
    type Outcome = Outcome;

    fn title(&self) -> String {
        format!("{} {}", self.dataset, self.recipe.title())
    }

    fn cost(&self) -> u64 {
        let patches = 28 / self.patch.max(1);
        self.recipe.cost(patches * patches + 1)
    }

    fn steps(&self) -> u64 {
        self.recipe.steps as u64
    }

    fn dataset(&self) -> Option<&str> {
        Some(&self.dataset)
    }

    fn load(&self, folder: Option<&Path>) -> Result<Prepared> {
        Prepared::load(&self.dataset, folder)
    }

    fn check(&self, data: &Prepared) -> Result<()> {
        let patches = |pixels: usize| pixels / self.patch.max(1);
        self.recipe
            .check(patches(data.side[0]) * patches(data.side[1]) + 1)?;
        self.config(data.side, data.classes).validate()
    }

    fn stopped(outcome: &Outcome) -> Option<&str> {
        outcome.stopped.as_deref()
    }

    fn run(&self, data: &Prepared, progress: &Progress) -> Result<Outcome> {
        let config = self.config(data.side, data.classes);
        let mut model = VisionTransformer::new(config, self.recipe.seed)?;
        self.recipe.begin(&mut model);
        train(&self.recipe, model, data, progress)
    }
}

impl Deep for Cell {
    fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}

type Model = VisionTransformer<f32>;

impl Prepared {
    fn images<'t>(&self, pass: &Pass<'t, '_, f32>, part: Part, rows: &[usize]) -> Var<'t, f32> {
        let (images, _) = match part {
            Part::Train => &self.train,
            Part::Test => &self.test,
        };
        let all = pass.tape().constant(images.clone());
        all.index_select(0, rows)
    }
}

impl Examples<Model> for Prepared {
    fn classes(&self, part: Part) -> &[usize] {
        match part {
            Part::Train => &self.train.1,
            Part::Test => &self.test.1,
        }
    }

    fn logits<'t>(
        &self,
        model: &Model,
        pass: &Pass<'t, '_, f32>,
        part: Part,
        rows: &[usize],
    ) -> Var<'t, f32> {
        model.forward(pass, self.images(pass, part, rows))
    }

    fn layers(&self, model: &Model, rows: &[usize]) -> Layers {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, model);
        let x = model.embedded(&pass, self.images(&pass, Part::Test, rows));
        let blocks = model.blocks.by_layer(&pass, x, &Mask::none());
        Layers::of(x, &blocks, &vec![x.shape()[1]; rows.len()])
    }
}
