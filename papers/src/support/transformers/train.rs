//! The training of a recipe.

use super::layers::Layers;
use super::recipe::Recipe;
use crate::support::diverged;
use crate::support::paper::Progress;
use emmy::nn::{Module, Pass, parameter_count};
use emmy::train::{Batches, Loss, Metrics, Observer, Point, Task, Trainer, metrics};
use emmy::{Result, Tape, Var};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Training examples and test examples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Train,
    Test,
}

/// Examples with classes, for a model.
pub trait Examples<M> {
    /// The classes of a part.
    fn classes(&self, part: Part) -> &[usize];

    /// The logits `[rows, classes]` of some examples.
    fn logits<'t>(
        &self,
        model: &M,
        pass: &Pass<'t, '_, f32>,
        part: Part,
        rows: &[usize],
    ) -> Var<'t, f32>;

    /// The measures by layer on some test examples.
    fn layers(&self, model: &M, rows: &[usize]) -> Layers;
}

/// The number of test examples on which measures per layer are computed.
const LOOKED_AT: usize = 16;

/// The number of test examples that are computed together.
pub const TOGETHER: usize = 100;

/// The outcome of a run. An accuracy is `None` if the training diverged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Test accuracy after the last step.
    pub test_acc: Option<f64>,
    /// The correlation of classes and predictions: Matthews' for two classes, Gorodkin's for more.
    pub test_mcc: Option<f64>,
    pub test_loss: Option<f64>,
    /// The mean training loss of the last tenth of the steps.
    pub final_loss: Option<f64>,
    pub parameters: usize,
    /// Why the training ended early.
    pub stopped: Option<String>,
    /// The measures of the model before its first step, and after its last.
    pub start: Layers,
    pub end: Layers,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.test_acc {
            Some(accuracy) => write!(f, "{:.1} %", 100.0 * accuracy)?,
            None if self.stopped.is_none() => write!(f, "without an accuracy")?,
            None => write!(f, "diverged")?,
        }
        let rank = |layers: &Layers| layers.last_rank().unwrap_or(f64::NAN);
        let (start, end) = (rank(&self.start), rank(&self.end));
        write!(f, ", rank {start:.1} at the start, {end:.1} at the end")
    }
}

/// Examples as a task of one epoch.
struct Course<'a, E> {
    examples: &'a E,
    recipe: &'a Recipe,
}

impl<M: Module<f32>, E: Examples<M>> Task<f32, M> for Course<'_, E> {
    type Batch = Vec<usize>;

    /// The examples in a new order again and again, until there are enough steps.
    fn batches(&self, seed: u64) -> impl Iterator<Item = Vec<usize>> {
        let count = self.examples.classes(Part::Train).len();
        let size = self.recipe.batch.min(count);
        let shuffled = Batches::new(count, size).shuffled();
        let rounds = (0_u64..).flat_map(move |round| shuffled.of(seed.wrapping_add(round)));
        let whole = rounds.filter(move |batch| batch.len() == size);
        whole.take(self.recipe.steps)
    }

    fn loss<'t>(&self, model: &M, pass: &Pass<'t, '_, f32>, rows: &Vec<usize>) -> Loss<'t, f32> {
        let logits = self.examples.logits(model, pass, Part::Train, rows);
        let all = self.examples.classes(Part::Train);
        let classes: Vec<usize> = rows.iter().map(|&k| all[k]).collect();
        logits.cross_entropy(&classes, None).into()
    }

    fn evaluate(&self, model: &M) -> Metrics {
        let classes = self.examples.classes(Part::Test);
        let tested = self.recipe.tested.unwrap_or(classes.len());
        let classes = &classes[..tested.min(classes.len())];
        let order: Vec<usize> = (0..classes.len()).collect();
        let (mut loss, mut found) = (0.0, Vec::new());
        for rows in order.chunks(TOGETHER) {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, model);
            let logits = self.examples.logits(model, &pass, Part::Test, rows);
            let wanted = &classes[rows[0]..rows[0] + rows.len()];
            let mean = logits.cross_entropy(wanted, None).item();
            loss += f64::from(mean) * rows.len() as f64;
            found.extend(metrics::predictions(&logits.value()));
        }
        let all = vec![true; classes.len()];
        Metrics::from([
            ("val_loss", loss / classes.len() as f64),
            ("val_acc", metrics::accuracy_of(&found, classes, &all)),
            ("val_mcc", correlation(&found, classes)),
        ])
    }
}

/// (c s − Σ p_k t_k) / √((s² − Σ p_k²)(s² − Σ t_k²)) for s examples, of which c are predicted correctly, p_k
/// are predicted as class k and t_k are of class k; 0 if only one class is predicted. Gorodkin, "Comparing
/// two K-category assignments by a K-category correlation coefficient", 2004; for two classes it is Matthews'
/// coefficient.
fn correlation(found: &[Option<usize>], classes: &[usize]) -> f64 {
    let count = classes.iter().max().map_or(0, |k| k + 1);
    let (mut p, mut t, mut right) = (vec![0.0; count], vec![0.0; count], 0.0);
    for (found, &class) in found.iter().zip(classes) {
        t[class] += 1.0;
        if let Some(place) = found.and_then(|k| p.get_mut(k)) {
            *place += 1.0;
        }
        right += f64::from(u8::from(*found == Some(class)));
    }
    let s = classes.len() as f64;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let below = (s * s - dot(&p, &p)) * (s * s - dot(&t, &t));
    match below > 0.0 {
        true => (right * s - dot(&p, &t)) / below.sqrt(),
        false => 0.0,
    }
}

/// Counts steps.
struct Counting<'a, 'b>(&'a Progress<'b>);

impl<M> Observer<f32, M> for Counting<'_, '_> {
    fn before_step(&mut self, _: &Point<'_, f32>) -> Result<()> {
        self.0.step()
    }
}

/// Trains a new model of the recipe.
///
/// # Errors
/// If the settings are not valid. A loss that becomes infinite is an outcome, not an error.
pub fn train<M: Module<f32>, E: Examples<M>>(
    recipe: &Recipe,
    model: M,
    examples: &E,
    progress: &Progress,
) -> Result<Outcome> {
    let course = Course { examples, recipe };
    let parameters = parameter_count(&model);
    let looked_at = LOOKED_AT.min(examples.classes(Part::Test).len());
    let looked_at: Vec<usize> = (0..looked_at).collect();
    let start = examples.layers(&model, &looked_at);
    if recipe.steps == 0 {
        let metrics = course.evaluate(&model);
        return Ok(Outcome {
            test_acc: Some(metrics["val_acc"]),
            test_mcc: Some(metrics["val_mcc"]),
            test_loss: Some(metrics["val_loss"]),
            final_loss: None,
            parameters,
            stopped: None,
            end: start.clone(),
            start,
        });
    }
    let mut trainer = Trainer::new(model, recipe.training())?;
    let fitted = trainer.fit_observed(&course, Counting(progress));
    let history = trainer.history();
    let stopped = diverged(fitted, history);
    let metric = |name: &str| {
        let last = history.last().filter(|_| stopped.is_none());
        last.map(|last| last.metrics[name])
    };
    let last: Vec<f64> = (history.steps.iter().rev())
        .take((recipe.steps / 10).max(1))
        .map(|step| step.loss)
        .collect();
    let final_loss = last.iter().sum::<f64>() / last.len() as f64;
    Ok(Outcome {
        test_acc: metric("val_acc"),
        test_mcc: metric("val_mcc"),
        test_loss: metric("val_loss"),
        final_loss: final_loss.is_finite().then_some(final_loss),
        parameters,
        start,
        end: examples.layers(trainer.model(), &looked_at),
        stopped,
    })
}
