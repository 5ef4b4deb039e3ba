//! The options of the command line, and the text and the training that they choose.

use crate::support::args::{Figures, Float, MOST_SEED, folder, probability, threads};
use crate::support::{note, texts};
use clap::builder::{ArgPredicate, NonEmptyStringValueParser, RangedU64ValueParser};
use clap::{Args, ValueEnum};
use emmy::data::text::{self, Symbol, Text};
use emmy::nn::Role;
use emmy::optim::{AdamW, Algorithm, Clip, Decay, Schedule, Unit};
use emmy::train::{BestBy, TrainConfig};
use emmy::{Error, Result};
use std::path::PathBuf;

/// Train a model that writes text character by character
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct Cli {
    /// Folder with the texts; alone it stands for --dataset shakespeare [default with --dataset: $EMMY_DATA,
    /// then the user's cache directory]
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub data: Option<PathBuf>,

    /// Text [default: shakespeare with --data, else alice]
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<Dataset>,

    /// Any text file in UTF-8: the first nine tenths are for training, the rest for validation
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "dataset"])]
    pub text: Option<PathBuf>,

    /// Kind of model: attention by dot products, by distances, by distances with one weight for queries and
    /// keys; or long short-term memory; or a model with a certified Lipschitz constant
    #[arg(long, default_value = "transformer")]
    pub model: Model,

    /// Characters whose vectors are concatenated before the first layer of the certified model [default: 10]
    #[arg(long, value_name = "K", value_parser = count())]
    pub window: Option<usize>,

    /// Number of layers [default: 4; without a text 2]
    #[arg(long, value_name = "L", value_parser = count(), hide_default_value = true)]
    #[arg(default_value = "2", default_value_ifs = with_text("4"))]
    pub layers: usize,

    /// Width of the layers [default: 128; without a text 64]
    #[arg(long, value_name = "WIDTH", value_parser = count(), hide_default_value = true)]
    #[arg(default_value = "64", default_value_ifs = with_text("128"))]
    pub width: usize,

    /// Attention heads, which divide the width [default: 4]
    #[arg(long, value_name = "H", value_parser = count())]
    pub heads: Option<usize>,

    /// The most characters that the model sees
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count())]
    pub context: usize,

    /// Distance between the windows of the last evaluation, at most N of --context. Each window but the first
    /// predicts only its last S characters, so that it sees at least N - S before them [default: N]
    #[arg(long, value_name = "S", value_parser = count())]
    pub stride: Option<usize>,

    /// Windows of text per step
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = count())]
    pub batch: usize,

    /// Steps of the training [default: 2000; without a text 3000]
    #[arg(long, value_name = "N", value_parser = count(), hide_default_value = true)]
    #[arg(default_value = "3000", default_value_ifs = with_text("2000"))]
    pub steps: usize,

    /// Largest learning rate [default: 0.001; without a text 0.004]
    #[arg(long, value_name = "RATE", hide_default_value = true)]
    #[arg(default_value = "0.004", default_value_ifs = with_text("0.001"))]
    pub lr: f64,

    /// Schedule of the learning rate: constant; or, after a warm-up of 100 steps (at most a tenth of all
    /// steps), along a cosine to a tenth, or proportional to one over the square root of the steps
    #[arg(long, default_value = "cosine")]
    pub schedule: Course,

    /// Norms before each part of a block, or after each residual [default: pre]
    #[arg(long)]
    pub norm: Option<NormOrder>,

    /// Dropout
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = probability)]
    pub dropout: f64,

    /// Steps between two evaluations
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = count())]
    pub eval_interval: usize,

    /// Batches of windows per part of the text in an evaluation, spread evenly over the part; the same each
    /// time
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = count())]
    pub eval_batches: usize,

    /// Measure the conservation laws at every step, not only at the first step after an evaluation. At each
    /// evaluation, show the Lipschitz constant with respect to the embedded characters, and the effective
    /// rank by layer
    #[arg(long)]
    pub watch: bool,

    /// Seed
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,

    /// Threads, at most 256; 0 for one per processor. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    pub threads: usize,

    /// Type of the numbers
    #[arg(long, default_value = "f32")]
    pub float: Float,

    /// Save a checkpoint in this file after each evaluation and at the end
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Continue from this checkpoint
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// Write with the model of this checkpoint and train nothing; or, if a text is named, begin a new training
    /// on it with these weights. The text may have only the symbols that the model has learnt
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "mean_of"])]
    pub load: Option<PathBuf>,

    /// Train nothing, but evaluate the mean of the logits of certified models. The files are checkpoints
    /// (--save) of trainings with the options that are given here and different seeds
    #[arg(long, value_name = "FILE", num_args = 1..)]
    #[arg(conflicts_with_all = ["save", "resume", "watch", "summary"])]
    pub mean_of: Vec<PathBuf>,

    /// Characters of the sample
    #[arg(long, value_name = "N", default_value_t = 300)]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000_000))]
    pub sample: usize,

    /// Temperature of the sample: logits are divided by it; 0 for the most likely character each time
    #[arg(long, value_name = "T", default_value_t = 0.8, value_parser = temperature)]
    #[arg(allow_negative_numbers = true)]
    pub temperature: f64,

    /// Draw each character of the sample from this number of most likely characters
    #[arg(long, value_name = "K", default_value_t = 200, value_parser = count())]
    pub top_k: usize,

    /// Beginning of the sample [default: a new line, or the first character of the text if it has one line]
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub prompt: Option<String>,

    /// Print one JSON object per evaluation and a summary to standard output, everything else to standard
    /// error
    #[arg(long)]
    pub json: bool,

    /// Folder for figures; none to draw none
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub figures: Figures,

    /// Print the layers of the model, the shapes of their outputs and their parameters, before the training
    #[arg(long)]
    pub summary: bool,
}

const NOTES: &str = "\
Losses are in nats per character. At the end the model of the best evaluation (the smallest validation loss)
is evaluated on all of the validation text and of the test text, if there is one, in windows that do not
overlap (see --stride), and on equally many windows of the training text. It then writes a sample (--sample).
A transformer that has filled its context continues from the last half of it.

With a text the training is nanoGPT's recipe for a laptop: AdamW with beta2 0.99, weight decay 0.1 of matrices only,
gradients clipped at a norm of 1.

Exit code: 0; 1 if an error stops the program, the training diverges, or a figure cannot be written; 2 for a
wrong argument.";

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// Tiny Shakespeare, tinyshakespeare/input.txt
    #[value(alias = "tinyshakespeare")]
    Shakespeare,
    /// Penn Treebank, ptb/ptb.*.txt, character by character
    Ptb,
    /// Alice's Adventures in Wonderland, which needs no file
    Alice,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    Transformer,
    L2,
    L2Tied,
    /// L2 attention with the values of its theorem, divided by its Lipschitz bound
    Contractive,
    Lstm,
    /// Contractive attention and normalised feed-forward layers, of constant 2 over the embedded input
    Certified,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    Fixed,
    Cosine,
    WarmupSqrt,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormOrder {
    Pre,
    Post,
}

/// The default of an option if a text is named. Without one the program is a demonstration, which ends in half
/// a minute.
fn with_text(value: &'static str) -> [(&'static str, ArgPredicate, &'static str); 3] {
    ["data", "dataset", "text"].map(|named| (named, ArgPredicate::IsPresent, value))
}

fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn temperature(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    match value.is_finite() && value >= 0.0 {
        true => Ok(value.abs()),
        false => Err("not a finite number from 0 up".to_owned()),
    }
}

impl Cli {
    /// The text to learn. If none was named, a line on standard error says which text it is.
    pub fn text(&self) -> Result<Text> {
        if let Some(path) = &self.text {
            return text::from_file(path);
        }
        let folder = self.data.as_deref();
        match (self.dataset, folder) {
            (Some(Dataset::Shakespeare), _) | (None, Some(_)) => text::tiny_shakespeare(folder),
            (Some(Dataset::Ptb), _) => text::penn_treebank(folder),
            (Some(Dataset::Alice), _) => Ok(texts::alice()),
            (None, None) => {
                let alice = texts::alice();
                note(format_args!(
                    "no text was given (--data DIR, --dataset NAME or --text FILE): \
                     learning Alice's Adventures in Wonderland, {} characters. With the default options this takes about \
                     30 s on two processors",
                    alice.train.len() + alice.validation.len()
                ));
                Ok(alice)
            }
        }
    }

    /// Whether there is a model but no text to train it on.
    pub fn only_writes(&self) -> bool {
        let named = self.text.is_some() || self.data.is_some() || self.dataset.is_some();
        self.load.is_some() && !named
    }

    /// The beginning of the sample.
    pub fn prompt(&self, text: &Text) -> Result<Vec<Symbol>> {
        match &self.prompt {
            Some(prompt) => text.encode("--prompt", prompt),
            None => match text.encode("--prompt", "\n") {
                Ok(line) => Ok(line),
                // If there is no text, the first symbol.
                Err(_) => Ok(vec![text.train.first().copied().unwrap_or_default()]),
            },
        }
    }

    /// The training, of as many epochs as there are evaluations.
    pub fn training(&self) -> TrainConfig {
        TrainConfig {
            algorithm: Algorithm::AdamW(AdamW {
                beta1: 0.9,
                beta2: 0.99,
                eps: 1e-8,
            }),
            lr: self.lr,
            weight_decay: 0.1,
            // Parameters with one axis (gains and biases) do not decay.
            decay_roles: Some(vec![Role::Weight, Role::Table]),
            clip: Some(Clip::GlobalNorm(1.0)),
            schedule: self.course(),
            epochs: self.steps.div_ceil(self.eval_interval),
            best_by: BestBy::LOSS,
            seed: self.seed,
            ..TrainConfig::default()
        }
    }

    fn course(&self) -> Schedule {
        let warm_up = 100.min(self.steps / 10);
        let (warm_up, then) = match self.schedule {
            Course::Fixed => (0, Decay::Constant),
            Course::Cosine => {
                let over = self.steps - warm_up;
                (warm_up, Decay::Cosine { over, end: 0.1 })
            }
            Course::WarmupSqrt => {
                let over = warm_up.max(1);
                (warm_up, Decay::InverseSqrt { over })
            }
        };
        Schedule {
            warm_up,
            then,
            unit: Unit::Steps,
        }
    }

    /// The name of the kind of model.
    pub fn model_name(&self) -> String {
        let name = self
            .model
            .to_possible_value()
            .expect("no variant is skipped");
        name.get_name().to_owned()
    }

    /// Refuses options that the model does not have.
    pub fn check(&self) -> Result<()> {
        for (option, is_given) in [
            ("--heads", self.heads.is_some()),
            ("--norm", self.norm.is_some()),
        ] {
            if self.model == Model::Lstm && is_given {
                let rule = "a model with attention";
                return Err(Error::invalid(option, rule, self.model_name()));
            }
        }
        for (option, is_given, fits) in [
            (
                "--norm",
                self.norm.is_some(),
                self.model != Model::Certified,
            ),
            (
                "--window",
                self.window.is_some(),
                self.model == Model::Certified,
            ),
            (
                "--mean-of",
                !self.mean_of.is_empty(),
                self.model == Model::Certified,
            ),
        ] {
            if is_given && !fits {
                let rule = "a model with this option";
                return Err(Error::invalid(option, rule, self.model_name()));
            }
        }
        if self.model != Model::Lstm && !self.width.is_multiple_of(self.heads()) {
            let rule = format!("a multiple of the {} heads", self.heads());
            return Err(Error::invalid("--width", rule, self.width.to_string()));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            let rule = "a probability from 0 to below 1";
            let found = self.dropout.to_string();
            return Err(Error::invalid("--dropout", rule, found));
        }
        if self.stride() > self.context {
            let rule = format!("at most the context, {}", self.context);
            let found = self.stride().to_string();
            return Err(Error::invalid("--stride", rule, found));
        }
        Ok(())
    }

    pub fn stride(&self) -> usize {
        self.stride.unwrap_or(self.context)
    }

    pub fn heads(&self) -> usize {
        self.heads.unwrap_or(4)
    }
}
