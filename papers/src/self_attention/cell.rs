//! Everything that decides the result of one run.

use crate::self_attention::run::Outcome;
use crate::support::args::typed;
use crate::support::memory::Blocks;
use crate::support::paper::{self, Progress};
use crate::support::texts;
use clap::ValueEnum;
use emmy::Result;
use emmy::data::text::{self, Text};
use emmy::lipschitz::Lp;
use emmy::nn::{AttentionConfig, Contraction, LanguageConfig, Role};
use emmy::optim::{AdamW, Algorithm, Clip};
use emmy::train::{BestBy, TrainConfig};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Attention heads.
pub const HEADS: usize = 4;
/// Characters that a model sees, and windows of them per step.
pub const CONTEXT: usize = 64;
pub const BATCH: usize = 12;
/// Steps between two evaluations.
pub const INTERVAL: u32 = 50;

/// The kind of attention.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attention {
    /// By dot products
    Dot,
    /// By distances, with one weight for queries and keys and the values of the paper's Theorem 3.2
    L2,
    /// The same divided by its Lipschitz bound in the ∞-norm
    Contractive,
    /// By distances, with one weight for queries and keys and values as those of dot products
    L2Plain,
}

impl Attention {
    /// The kinds of the table.
    pub const ALL: [Self; 3] = [Self::Dot, Self::L2, Self::Contractive];

    pub fn printed(self) -> &'static str {
        match self {
            Self::Dot => "dot product",
            Self::L2 => "L2, W_Q = W_K",
            Self::Contractive => "contractive L2",
            Self::L2Plain => "L2, plain values",
        }
    }

    pub fn typed(self) -> String {
        typed(&self)
    }
}

/// The text.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dataset {
    /// Penn Treebank, character by character
    Ptb,
    /// Tiny Shakespeare
    Shakespeare,
    /// Alice's Adventures in Wonderland, which needs no file
    Alice,
}

impl Dataset {
    pub fn typed(self) -> String {
        typed(&self)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ptb => "ptb",
            Self::Shakespeare => "shakespeare",
            Self::Alice => "alice",
        }
    }
}

/// Everything that decides the result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub dataset: Dataset,
    pub attention: Attention,
    pub layers: u32,
    pub width: u32,
    pub steps: u32,
    pub lr: f64,
    /// W_O of each attention is multiplied by this at the start; 0 is a start without attention.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub branch: f64,
    /// The output of each attention is multiplied by this, in training and tests; 0 is no attention at all.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub factor: f64,
    pub seed: u64,
}

fn one() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde asks for
fn is_one(x: &f64) -> bool {
    *x == 1.0
}

impl paper::Cell for Cell {
    type Data = Text;
    type Outcome = Outcome;

    fn title(&self) -> String {
        let (set, attention) = (self.dataset.name(), self.attention.printed());
        let (layers, lr, scales) = (self.layers, self.lr, self.scales());
        let seed = self.seed;
        format!("{set} {attention} L={layers} η={lr}{scales}, seed {seed}")
    }

    /// The unit is one number of one neuron of one character.
    fn cost(&self) -> u64 {
        let width = u64::from(self.width);
        let layer = 12 * width * width + width * CONTEXT as u64;
        u64::from(self.layers) * layer * u64::from(self.steps)
    }

    fn steps(&self) -> u64 {
        u64::from(self.steps.div_ceil(INTERVAL))
    }

    fn dataset(&self) -> Option<&str> {
        Some(self.dataset.name())
    }

    fn load(&self, folder: Option<&Path>) -> Result<Text> {
        match self.dataset {
            Dataset::Ptb => text::penn_treebank(folder),
            Dataset::Shakespeare => text::tiny_shakespeare(folder),
            Dataset::Alice => Ok(texts::alice()),
        }
    }

    fn check(&self, text: &Text) -> Result<()> {
        self.network(text).validate()?;
        let blocks = Blocks {
            layers: self.layers as usize,
            width: self.width as usize,
            heads: HEADS,
            tokens: CONTEXT,
            examples: BATCH,
            evaluated: BATCH,
            steps: self.steps as usize,
        };
        blocks.check::<f32>()?;
        self.training().validate()
    }

    fn stopped(outcome: &Outcome) -> Option<&str> {
        outcome.stopped.as_deref()
    }

    fn run(&self, text: &Text, progress: &Progress) -> Result<Outcome> {
        self.train(text, progress)
    }
}

impl Cell {
    /// What the runs of a table have in common, for its title.
    pub fn settings(&self) -> String {
        let (set, scales) = (self.dataset.name(), self.scales());
        let (width, steps, lr) = (self.width, self.steps, self.lr);
        format!(", {set}, width {width}, {steps} steps, η {lr}{scales}")
    }

    /// The factors of attention that are not 1.
    fn scales(&self) -> String {
        let mut out = String::new();
        if self.branch != 1.0 {
            out += &format!(", W_O × {} at the start", self.branch);
        }
        if self.factor != 1.0 {
            out += &format!(", attention × {}", self.factor);
        }
        out
    }

    /// The model.
    pub fn network(&self, text: &Text) -> LanguageConfig {
        let (layers, width) = (self.layers as usize, self.width as usize);
        let mut config = LanguageConfig::gpt(text.symbol_count(), CONTEXT, layers, HEADS, width);
        config.block.norm_first = false;
        let plain = config.block.attention;
        config.block.attention = match self.attention {
            Attention::Dot => plain,
            Attention::L2 => AttentionConfig::l2(width, HEADS),
            Attention::L2Plain => AttentionConfig {
                metric_values: false,
                ..AttentionConfig::l2(width, HEADS)
            },
            Attention::Contractive => AttentionConfig {
                contraction: Some(Contraction {
                    tokens: Some(CONTEXT),
                    ..Contraction::new(1.0, Lp::Inf)
                }),
                ..AttentionConfig::l2(width, HEADS)
            },
        };
        config
    }

    /// The training, an epoch per evaluation.
    pub fn training(&self) -> TrainConfig {
        TrainConfig {
            algorithm: Algorithm::AdamW(AdamW {
                beta1: 0.9,
                beta2: 0.99,
                eps: 1e-8,
            }),
            lr: self.lr,
            weight_decay: 0.1,
            decay_roles: Some(vec![Role::Weight, Role::Table]),
            clip: Some(Clip::GlobalNorm(1.0)),
            epochs: self.steps.div_ceil(INTERVAL) as usize,
            best_by: BestBy::LOSS,
            seed: self.seed,
            ..TrainConfig::default()
        }
    }
}
