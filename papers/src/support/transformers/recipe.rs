//! The settings that decide a run, except its data.

use super::train::TOGETHER;
use crate::support::args::typed;
use crate::support::memory::Blocks;
use clap::ValueEnum;
use emmy::nn::contra::After;
use emmy::nn::{
    BlockConfig, BlockContra, ContraConfig, ContraPlace, Module, Norm, Role, entries_mut,
};
use emmy::optim::{Algorithm, Clip, Decay, Schedule, Unit};
use emmy::train::TrainConfig;
use emmy::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The method against collapse.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// Nothing
    None,
    /// ContraNorm of the published code: scores of unit rows (BERT: (1 + s) x − s P x, ViT: x − s P x)
    Contra,
    /// ContraNorm of the paper, Eq. (9)
    ContraPaper,
    /// ContraNorm-v2 of the paper, Eq. (30)
    ContraV2,
}

/// The place of ContraNorm in a block.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On the output of self-attention, before it is added, Appendix E
    BeforeResidual,
    /// On the sum of self-attention and its residual, Appendix E
    AfterResidual,
    /// In front of every norm, as in the published code for ViT
    BeforeNorms,
}

impl fmt::Display for Normaliser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(self))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(self))
    }
}

/// ContraNorm in a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    pub norm: Normaliser,
    /// Its place and its scale s; `None` without ContraNorm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub s: Option<f64>,
}

impl Variant {
    /// No ContraNorm.
    pub const NONE: Self = Self {
        norm: Normaliser::None,
        place: None,
        s: None,
    };

    /// ContraNorm in a place; [`NONE`](Self::NONE) without a normaliser.
    pub fn new(norm: Normaliser, place: Place, s: f64) -> Self {
        match norm {
            Normaliser::None => Self::NONE,
            _ => Self {
                norm,
                place: Some(place),
                s: Some(s),
            },
        }
    }

    /// The name in tables: `none`, `contra after-residual`.
    pub fn name(&self) -> String {
        match self.place {
            Some(place) => format!("{} {place}", self.norm),
            None => self.norm.to_string(),
        }
    }

    /// Whether the paper's numbers are of this variant: none, or that of its code with its s.
    pub fn is_printed(&self, s: f64) -> bool {
        match self.norm {
            Normaliser::None => true,
            Normaliser::Contra => self.s == Some(s),
            Normaliser::ContraPaper | Normaliser::ContraV2 => false,
        }
    }

    /// ContraNorm without the LayerNorm of Eq. (9), since the block has one; `published` is the form of the
    /// code for this model.
    fn form(&self, published: fn(f64) -> ContraConfig) -> Option<ContraConfig> {
        let s = self.s?;
        let form = match self.norm {
            Normaliser::None => return None,
            Normaliser::Contra => published(s),
            Normaliser::ContraPaper => ContraConfig::new(s),
            Normaliser::ContraV2 => ContraConfig::v2(s),
        };
        Some(ContraConfig {
            after: After::Nothing,
            ..form
        })
    }
}

/// The settings that decide a run, except its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Blocks.
    pub depth: usize,
    #[serde(flatten)]
    pub variant: Variant,
    pub width: usize,
    pub heads: usize,
    /// The standard deviation of the weights at the start.
    pub std: f64,
    pub dropout: f64,
    pub steps: usize,
    /// Examples of a step.
    pub batch: usize,
    pub lr: f64,
    pub weight_decay: f64,
    /// The number of test examples that are used, from the first one; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tested: Option<usize>,
    pub seed: u64,
}

impl Recipe {
    /// The settings of a small model before those of the user. `width` is that of the published model: the
    /// standard deviation of the weights gives them the same gain, 0.02 √(`width` / 32).
    pub fn small(depth: usize, variant: Variant, width: usize, weight_decay: f64) -> Self {
        Self {
            depth,
            variant,
            width: 32,
            heads: 4,
            std: 0.02 * (width as f64 / 32.0).sqrt(),
            dropout: 0.0,
            steps: 400,
            batch: 32,
            lr: 1e-3,
            weight_decay,
            tested: None,
            seed: 0,
        }
    }

    /// Puts dropout and ContraNorm into the blocks of a model.
    pub fn block(&self, block: BlockConfig, published: fn(f64) -> ContraConfig) -> BlockConfig {
        let block = block.with_dropout(self.dropout);
        let Some(norm) = self.variant.form(published) else {
            return block;
        };
        let place = match self.variant.place {
            None => return block,
            Some(Place::BeforeResidual) => ContraPlace::BeforeResidual,
            Some(Place::AfterResidual) => ContraPlace::AfterResidual,
            Some(Place::BeforeNorms) => {
                let eps = match block.norm {
                    Norm::Layer { eps, .. } => eps,
                    _ => 1e-5,
                };
                let after = After::LayerNorm { eps };
                return BlockConfig {
                    norm: Norm::Contra(ContraConfig { after, ..norm }),
                    ..block
                };
            }
        };
        BlockConfig {
            contra: Some(BlockContra { norm, place }),
            ..block
        }
    }

    /// Scales the weights of a new model, which are N(0, 0.02²), to the standard deviation of the recipe.
    pub fn begin(&self, model: &mut impl Module<f32>) {
        let factor = (self.std / 0.02) as f32;
        for entry in entries_mut(model) {
            if matches!(entry.role, Role::Weight | Role::Table) {
                *entry.tensor = entry.tensor.mapv(|w| factor * w).into_shared();
            }
        }
    }

    /// One epoch of the given number of steps: AdamW with a rate that rises in the first tenth and falls as a
    /// cosine to 0; only matrices decay; gradients are clipped at norm 1.
    pub fn training(&self) -> TrainConfig {
        let warm_up = self.steps / 10;
        TrainConfig {
            algorithm: Algorithm::ADAMW,
            lr: self.lr,
            weight_decay: self.weight_decay,
            decay_roles: Some(vec![Role::Weight]),
            clip: Some(Clip::GlobalNorm(1.0)),
            schedule: Schedule {
                warm_up,
                then: Decay::Cosine {
                    over: (self.steps - warm_up).max(1),
                    end: 0.0,
                },
                unit: Unit::Steps,
            },
            epochs: 1,
            seed: self.seed,
            ..TrainConfig::default()
        }
    }

    /// The approximate work for an example of the given number of tokens, forward and backward, in
    /// multiply-adds.
    pub fn cost(&self, tokens: usize) -> u64 {
        let [depth, width, tokens] = [self.depth, self.width, tokens].map(|n| n as u64);
        let contra = if self.variant.place.is_some() { 2 } else { 0 };
        let token = 12 * width * width + (2 + contra) * tokens * width;
        let examples = (self.steps as u64).saturating_mul(self.batch as u64);
        examples
            .saturating_mul(3 * depth * tokens)
            .saturating_mul(token)
            .max(1)
    }

    /// Refuses settings with which no run is possible, on examples of the given number of tokens.
    ///
    /// # Errors
    /// The message names the option, or the memory that the training needs.
    pub fn check(&self, tokens: usize) -> Result<()> {
        for (option, value) in [("--std", self.std), ("--lr", self.lr)] {
            if !(value.is_finite() && value >= 0.0) {
                let rule = "a finite number, at least 0";
                return Err(Error::invalid(option, rule, value.to_string()));
            }
        }
        if !self.width.is_multiple_of(self.heads) {
            let rule = format!("a multiple of the {} heads", self.heads);
            return Err(Error::invalid("--width", rule, self.width.to_string()));
        }
        let blocks = Blocks {
            layers: self.depth,
            width: self.width,
            heads: self.heads,
            tokens,
            examples: self.batch,
            evaluated: TOGETHER,
            steps: self.steps,
        };
        blocks.check::<f32>()?;
        self.training().validate()
    }

    /// The settings in a few words: `L=12 contra after-residual s=0.2, seed 0`.
    pub fn title(&self) -> String {
        let scale = self.variant.s.map_or(String::new(), |s| format!(" s={s}"));
        let name = self.variant.name();
        format!("L={} {name}{scale}, seed {}", self.depth, self.seed)
    }
}
