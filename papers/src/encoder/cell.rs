//! Everything that decides the result of one run, and the run.

use crate::encoder::pretrained::Pretrained;
use crate::encoder::sentences::{CONTEXT, Sentence, Task, sentences};
use crate::encoder::words;
use crate::support::args::typed;
use crate::support::paper::{self, Progress};
use crate::support::transformers::show::Deep;
use crate::support::transformers::{Examples, Layers, Normaliser, Outcome, Part, Recipe, train};
use emmy::nn::{Bert, BertConfig, ContraConfig, Dropout, Linear, Pass};
use emmy::ops::attention::Mask;
use emmy::{Error, Result, Tape, Var, init};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Everything that decides the result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub task: Task,
    /// The number of training sentences.
    pub examples: usize,
    #[serde(flatten)]
    pub recipe: Recipe,
    /// The weights to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Pretrained>,
}

/// The number of test sentences.
const TEST: usize = 1000;

/// The seed of the sentences, the same for all cells.
pub const SEED: u64 = 2023;

/// The sentences of a task.
pub struct Prepared {
    parts: [Vec<Sentence>; 2],
    classes: [Vec<usize>; 2],
}

/// An encoder with a map of its summary to classes.
#[derive(Debug, Clone)]
pub struct Classifier {
    bert: Bert<f32>,
    head: Linear<f32>,
}
emmy::module!(Classifier for f32: bert, head);

impl Cell {
    pub fn config(&self) -> BertConfig {
        let Recipe {
            depth,
            width,
            heads,
            ..
        } = self.recipe;
        let config = BertConfig::new(words::SYMBOLS, CONTEXT, depth, heads, width);
        BertConfig {
            block: self.recipe.block(config.block, ContraConfig::text_code),
            ..config
        }
    }

    fn model(&self) -> Result<Classifier> {
        let config = self.config();
        let rng = &mut init::rng(!self.recipe.seed);
        let mut bert = Bert::new(config, self.recipe.seed)?;
        self.recipe.begin(&mut bert);
        if let Some(weights) = &self.weights {
            weights.put_into(&mut bert)?;
        }
        let head = Linear::new(self.recipe.width, 2, true, rng);
        Ok(Classifier { bert, head })
    }
}

impl paper::Cell for Cell {
    type Data = Prepared;
    type Outcome = Outcome;

    fn title(&self) -> String {
        let weights = if self.weights.is_some() {
            ", pretrained"
        } else {
            ""
        };
        format!("{} {}{weights}", typed(&self.task), self.recipe.title())
    }

    fn cost(&self) -> u64 {
        self.recipe.cost(CONTEXT / 2)
    }

    fn steps(&self) -> u64 {
        self.recipe.steps as u64
    }

    fn data_key(&self) -> String {
        format!("{} {}", typed(&self.task), self.examples)
    }

    fn load(&self, _: Option<&Path>) -> Result<Prepared> {
        let parts = sentences(self.task, [self.examples, TEST], SEED);
        let classes = |part: &Vec<Sentence>| part.iter().map(|s| s.class).collect();
        let classes = [classes(&parts[0]), classes(&parts[1])];
        Ok(Prepared { parts, classes })
    }

    fn check(&self, _: &Prepared) -> Result<()> {
        self.recipe.check(CONTEXT)?;
        if self.recipe.variant.norm == Normaliser::ContraV2 {
            let rule = "a normaliser that compares tokens: features have padding in them";
            return Err(Error::invalid("--norm", rule, "contra-v2"));
        }
        self.config().validate()?;
        match self.weights {
            Some(_) => self.model().map(|_| ()),
            None => Ok(()),
        }
    }

    fn stopped(outcome: &Outcome) -> Option<&str> {
        outcome.stopped.as_deref()
    }

    fn run(&self, data: &Prepared, progress: &Progress) -> Result<Outcome> {
        train(&self.recipe, self.model()?, data, progress)
    }
}

impl Deep for Cell {
    fn recipe(&self) -> &Recipe {
        &self.recipe
    }
}

/// Sentences as one batch; the shorter ones are padded.
struct Batch {
    symbols: Vec<usize>,
    segments: Vec<usize>,
    lengths: Vec<usize>,
}

impl Batch {
    fn new<'a>(sentences: impl Iterator<Item = &'a Sentence> + Clone) -> Self {
        let longest = sentences.clone().map(|s| s.symbols.len()).max();
        let longest = longest.unwrap_or(0);
        let (mut symbols, mut segments, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for (k, sentence) in sentences.enumerate() {
            symbols.extend_from_slice(&sentence.symbols);
            symbols.resize((k + 1) * longest, words::PADDING);
            segments.extend_from_slice(&sentence.segments);
            segments.resize((k + 1) * longest, 0);
            lengths.push(sentence.symbols.len());
        }
        Self {
            symbols,
            segments,
            lengths,
        }
    }

    fn mask(&self) -> Mask {
        Mask::lengths(&self.lengths)
    }
}

impl Prepared {
    fn batch(&self, part: Part, rows: &[usize]) -> Batch {
        let [train, test] = &self.parts;
        let all = match part {
            Part::Train => train,
            Part::Test => test,
        };
        Batch::new(rows.iter().map(|&k| &all[k]))
    }
}

impl Examples<Classifier> for Prepared {
    fn classes(&self, part: Part) -> &[usize] {
        let [train, test] = &self.classes;
        match part {
            Part::Train => train,
            Part::Test => test,
        }
    }

    fn logits<'t>(
        &self,
        model: &Classifier,
        pass: &Pass<'t, '_, f32>,
        part: Part,
        rows: &[usize],
    ) -> Var<'t, f32> {
        let Classifier { bert, head } = model;
        let batch = self.batch(part, rows);
        let (symbols, segments) = (&batch.symbols, &batch.segments);
        let tokens = bert.forward(pass, symbols, segments, rows.len(), &batch.mask());
        let p = bert.config.block.dropout;
        let summary = Dropout { p }.forward(pass, bert.pooled(pass, tokens)).var();
        head.forward(pass, summary)
    }

    fn layers(&self, model: &Classifier, rows: &[usize]) -> Layers {
        let bert = &model.bert;
        let tape = Tape::new();
        let pass = Pass::eval(&tape, model);
        let batch = self.batch(Part::Test, rows);
        let x = bert.embedded(
            &pass,
            &batch.symbols,
            &batch.segments,
            rows.len(),
            &batch.mask(),
        );
        let blocks = bert.blocks.by_layer(&pass, x, &batch.mask());
        Layers::of(x, &blocks, &batch.lengths)
    }
}
