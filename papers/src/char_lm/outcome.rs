//! The outcome of a training: lines of JSON, tables, a figure.

use crate::char_lm::cli::Cli;
use crate::char_lm::evaluate::Quality;
use crate::char_lm::look::Look;
use crate::char_lm::watch::Watch;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::{figures, say};
use emmy::Result;
use emmy::data::text::Text;
use emmy::train::{History, Record};
use serde::Serialize;
use std::f64::consts::LN_2;
use std::time::Instant;

/// The head of the table of [measurements](Measurement).
pub const HEAD: &str = "  step   training      validation          ms per
         nats   bits   nats   bits   step
         per character per character";

/// An evaluation: a line of JSON.
#[derive(Serialize, Debug)]
pub struct Measurement {
    step: usize,
    /// Nats per character over the windows of the evaluations.
    train_loss: f64,
    val_loss: f64,
    /// The learning rate of the last step.
    lr: f64,
    /// The median time per step so far, without evaluations; null before the second step of an interval.
    ms_per_step: Option<f64>,
    /// Since the program began to train, evaluations included.
    seconds: f64,
    /// The measurements of `--watch`.
    #[serde(flatten)]
    look: Option<Look>,
}

impl Measurement {
    /// The same with the measurements of `--watch`.
    pub fn with(self, look: Option<Look>) -> Self {
        Self { look, ..self }
    }

    pub fn new(history: &History, record: &Record, pace: Option<f64>, start: Instant) -> Self {
        Self {
            step: record.steps,
            train_loss: record.metrics["train_loss"],
            val_loss: record.metrics["val_loss"],
            lr: history.steps.last().map_or(f64::NAN, |step| step.lr),
            ms_per_step: pace,
            seconds: start.elapsed().as_secs_f64(),
            look: None,
        }
    }

    /// Prints it.
    pub fn tell(&self, cli: &Cli) -> Result<()> {
        if cli.json {
            return print_json(self);
        }
        let [train, validation] = [self.train_loss, self.val_loss];
        let pace = self
            .ms_per_step
            .map_or("-".to_owned(), |ms| format!("{ms:.1}"));
        say(format_args!(
            "{:>6}  {train:>5.3}  {:>5.3}  {validation:>5.3}  {:>5.3}  {pace:>5}",
            self.step,
            train / LN_2,
            validation / LN_2,
        ))?;
        let Some(look) = &self.look else {
            return Ok(());
        };
        let number = |x: Option<f64>| x.map_or("none".to_owned(), |x| format!("{x:.3}"));
        let ranks: Vec<String> = (look.effective_rank.iter())
            .map(|rank| format!("{rank:.1}"))
            .collect();
        say(format_args!(
            "        Lipschitz constant found {}, proven {}; effective rank by layer {}",
            number(look.lipschitz_lower),
            number(look.lipschitz_upper),
            ranks.join(" ")
        ))
    }
}

/// The last line of JSON.
#[derive(Serialize, Debug)]
pub struct Outcome {
    pub summary: bool,
    pub model: String,
    pub dataset: String,
    pub parameters: usize,
    /// The number of trained models whose mean this is.
    pub members: usize,
    /// The steps taken; those of all members of a mean.
    pub steps: usize,
    /// The steps of the best evaluation; null if the training diverged, and for a mean.
    pub best_step: Option<usize>,
    /// That of the model of the best evaluation, or of the mean.
    #[serde(flatten)]
    pub quality: Quality,
    /// The median time per step, without evaluations; null if fewer than two steps were made here.
    pub ms_per_step: Option<f64>,
    /// Since the program began to train or to read the members, evaluations included.
    pub seconds: f64,
    /// The largest relative δ over all conservation laws and all measured steps; null if no step was
    /// measured.
    pub max_delta: Option<f64>,
    /// Why the training diverged; null if it did not.
    pub stopped: Option<String>,
}

impl Outcome {
    /// Prints it; without a watch nothing about laws.
    pub fn tell(&self, cli: &Cli, watch: Option<&Watch>) -> Result<()> {
        if cli.json {
            print_json(self)?;
        }
        // The error message that follows gives the reason.
        if self.stopped.is_some() {
            return Ok(());
        }
        let (steps, quality) = (self.steps, &self.quality);
        let mut told = match (self.best_step, self.members) {
            (Some(step), _) => format!("\nafter {step} of {steps} steps, the best evaluation:"),
            (None, 1) => format!("\nafter {steps} steps:"),
            (None, members) => format!(
                "\nmean of {members} trained models, {} parameters:",
                self.parameters
            ),
        };
        for (part, loss) in [
            ("training", quality.train_loss),
            ("validation", quality.val_loss),
            ("test", quality.test_loss),
        ] {
            if let Some(loss) = loss {
                let bits = loss / LN_2;
                told += &format!("\n  {part:<11}{loss:.4} nats, {bits:.4} bits per character");
            }
        }
        for (part, accuracy) in [
            ("validation", quality.val_accuracy),
            ("test", quality.test_accuracy),
        ] {
            if let Some(accuracy) = accuracy {
                told += &format!(
                    "\n  {part:<11}{:.2} % of the characters predicted",
                    100.0 * accuracy
                );
            }
        }
        if let Some(c) = &quality.certificate {
            told += &format!(
                "\nLipschitz constant of the logits over the embedded characters, 2-norm: \
                 proven ≤ {:.4}, found ≥ {:.4} (at the text {:.4})\n\
                 embedded characters are {:.4e} apart in the mean (K {:.4e}); half of the predictions provably \
                 stay if a sequence moves by {:.2e} of that",
                c.lipschitz_upper,
                c.lipschitz_lower,
                c.lipschitz_at_text,
                c.embedded_distance,
                c.embedded_scale,
                c.certified_radius,
            );
        }
        told += &match watch.map(Watch::worst) {
            Some(Some(worst)) => format!(
                "\nlargest relative δ {:.1e}: {}, number {}",
                worst.delta,
                worst.law,
                worst.neuron + 1
            ),
            Some(None) => "\nno conservation law was checked".to_owned(),
            None => String::new(),
        };
        let pace = self.ms_per_step.map_or(String::new(), |ms| {
            format!(", {ms:.2} ms per step (median)")
        });
        told += &format!("\n{:.1} s{pace}", self.seconds);
        cli.tell(told)
    }
}

/// Draws the losses over the steps, and prints the path.
pub fn draw(cli: &Cli, text: &Text, history: &History) -> Result<()> {
    let curve = |name: &str, colour: usize, points: Vec<(f64, f64)>| Series {
        name: name.into(),
        colour: COLOURS[colour],
        mark: Mark::Line(points),
    };
    let metric = |name: &str| -> Vec<(f64, f64)> {
        let records = history.records.iter();
        records.map(|r| (r.steps as f64, r.metrics[name])).collect()
    };
    // A step's loss is that of the point where it begins.
    let steps = history.steps.iter();
    let batches = steps.map(|s| ((s.step - 1) as f64, s.loss)).collect();
    let panel = Panel {
        title: String::new(),
        x: Axis::new("step"),
        y: Axis::new("nats per character"),
        series: vec![
            curve("batch of the step", 6, batches),
            curve("training", 0, metric("train_loss")),
            curve("validation", 1, metric("val_loss")),
        ],
    };
    let model = cli.model_name();
    let source: String = (text
        .source
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default()
        .chars())
    .map(|c| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    })
    .collect();
    let name = format!("{source}-{model}-L{}-seed{}", cli.layers, cli.seed);
    let title = format!(
        "{model} on {source}, {} layers, seed {}",
        cli.layers, cli.seed
    );
    let paths = figures::write(&cli.figures, &name, (720, 420), &title, 1, &[panel])?;
    match paths.first() {
        Some(path) => cli.tell(format_args!("figure: {}", path.display())),
        None => Ok(()),
    }
}

fn print_json(value: &impl Serialize) -> Result<()> {
    say(serde_json::to_string(value).expect("numbers and strings"))
}
