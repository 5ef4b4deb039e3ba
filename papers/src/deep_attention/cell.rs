//! Everything that decides the result of one run.

use crate::deep_attention::net::Place;
use crate::deep_attention::run::{Outcome, Prepared};
use crate::deep_attention::trees;
use crate::layers::{PublishedOptions, published};
use crate::support::args::{Float, typed};
use crate::support::paper::{self, Progress};
use crate::support::{memory, sizes};
use clap::ValueEnum;
use emmy::data::Dataset;
use emmy::nn::{
    Activation, AttentionOptions, Conv, EndMaps, GatedGraphOptions, GcniiOptions, GinOptions,
    GraphNetConfig, LipschitzNorm, Norm, PairNorm, TransformerOptions,
};
use emmy::optim::{Algorithm, Plateau};
use emmy::train::{BestBy, TrainConfig};
use emmy::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The kind of layer.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Graph convolution
    Gcn,
    /// Graph isomorphism network
    Gin,
    /// Gated graph network
    Ggnn,
    /// Graph attention
    Gat,
    /// Graph transformer
    Gt,
    /// Graph convolution with initial residual and identity map
    Gcnii,
}

/// The normaliser.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normaliser {
    /// None
    None,
    /// LipschitzNorm of the scores of attention, as the paper defines it
    Lipschitz,
    /// LipschitzNorm with the divisors of the published code
    LipschitzPublished,
    /// LayerNorm after each layer
    Layer,
    /// PairNorm after each layer
    Pair,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(self))
    }
}

impl fmt::Display for Normaliser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(self))
    }
}

impl Model {
    /// The name in the paper.
    pub fn printed(self) -> &'static str {
        match self {
            Self::Gcn => "GCN",
            Self::Gin => "GIN",
            Self::Ggnn => "GGNN",
            Self::Gat => "GAT",
            Self::Gt => "GT",
            Self::Gcnii => "GCNII",
        }
    }

    /// Whether its layers have scores of attention.
    pub fn attends(self) -> bool {
        matches!(self, Self::Gat | Self::Gt)
    }
}

/// The ending of the name of a network with residuals.
pub fn ending(residual: bool, place: Place) -> String {
    match (residual, place) {
        (false, _) => String::new(),
        (true, Place::Last) => "-res".to_owned(),
        (true, place) => format!("-res, {}", typed(&place)),
    }
}

impl Normaliser {
    /// The ending of a model's name in the paper.
    pub fn printed(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Lipschitz => "-Lip",
            Self::LipschitzPublished => "-Lip, published code",
            Self::Layer => "-Ln",
            Self::Pair => "-Pn",
        }
    }

    /// Whether it normalises scores of attention.
    pub fn is_of_scores(self) -> bool {
        matches!(self, Self::Lipschitz | Self::LipschitzPublished)
    }
}

/// Everything that decides the result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// A data set, or `trees-4`, trees of depth 4.
    pub dataset: String,
    /// The number of trees, if they are trees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<usize>,
    /// The percentage of the nodes outside the training set whose features are set to zero. The seed
    /// determines which nodes.
    pub missing: f64,
    /// Whether the rows of features sum to 1, although the published code uses features as published.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub normalized: bool,
    /// Whether linear maps start as in the published code, uniform in ±1/√inputs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub published_start: bool,
    pub model: Model,
    pub norm: Normaliser,
    pub residual: bool,
    /// Where residuals are added.
    #[serde(default, skip_serializing_if = "Place::is_last")]
    pub place: Place,
    /// Layers; for GGNN the steps of its one layer.
    pub layers: usize,
    /// Width of a head; heads are concatenated.
    pub width: usize,
    pub heads: usize,
    /// Dropout of the input of each layer, and of coefficients of attention.
    pub dropout: f64,
    pub attention_dropout: f64,
    pub lr: f64,
    pub weight_decay: f64,
    /// Whether the learning rate is divided by ten when the validation loss has not fallen for ten epochs.
    pub plateau: bool,
    pub epochs: usize,
    pub seed: u64,
    pub float: Float,
    /// Whether accuracies and the gradients of each layer are kept, for Figures 2 and 3.
    pub recorded: bool,
}

impl paper::Cell for Cell {
    type Data = Prepared;
    type Outcome = Outcome;

    fn title(&self) -> String {
        let missing = match self.missing {
            0.0 => String::new(),
            percent => format!(", {percent} % missing"),
        };
        let residual = ending(self.residual, self.place);
        let features = if self.normalized {
            ", rows sum to 1"
        } else {
            ""
        };
        let start = if self.published_start {
            ", published start"
        } else {
            ""
        };
        format!(
            "{} {}{}{residual} L={}{missing}{features}{start}, seed {}",
            self.dataset,
            self.model.printed(),
            self.norm.printed(),
            self.layers,
            self.seed
        )
    }

    /// The unit is one number of one neuron of one edge.
    fn cost(&self) -> u64 {
        let (n, edges) = match trees::depth(&self.dataset) {
            Some(depth) => {
                let n = trees::nodes(depth) as u64 * self.trees.unwrap_or(1) as u64;
                (n, n)
            }
            None => sizes::of(&self.dataset),
        };
        let width = self.width as u64
            * if self.model.attends() {
                self.heads as u64
            } else {
                1
            };
        let layers = (self.layers as u64).saturating_mul(width);
        let epoch = layers.saturating_mul(edges + n + n * width / 16);
        epoch.saturating_mul(self.epochs as u64).max(1)
    }

    fn steps(&self) -> u64 {
        self.epochs as u64
    }

    /// An outcome may have recorded more than this cell needs.
    fn is_answered_by(&self, other: &Self) -> bool {
        let same = Self {
            recorded: other.recorded,
            ..self.clone()
        };
        same == *other && (other.recorded || !self.recorded)
    }

    fn dataset(&self) -> Option<&str> {
        Some(&self.dataset)
    }

    /// The fields on which [`Prepared::new`] depends.
    fn data_key(&self) -> String {
        format!("{} {:?}", self.dataset, self.trees)
    }

    fn load(&self, folder: Option<&Path>) -> Result<Prepared> {
        Prepared::new(self, folder)
    }

    fn check(&self, data: &Prepared) -> Result<()> {
        let network = self.network(data.set())?;
        match self.float {
            Float::F32 => memory::check::<f32>(&network, data.set())?,
            Float::F64 => memory::check::<f64>(&network, data.set())?,
        }
        self.training().validate()
    }

    fn stopped(outcome: &Outcome) -> Option<&str> {
        outcome.stopped.as_deref()
    }

    fn run(&self, data: &Prepared, progress: &Progress) -> Result<Outcome> {
        match self.float {
            Float::F32 => self.train::<f32>(data, progress),
            Float::F64 => self.train::<f64>(data, progress),
        }
    }
}

impl Cell {
    /// The network of the cell, for a data set; [`DeepNet`](crate::deep_attention::net::DeepNet) has its
    /// order.
    ///
    /// # Errors
    /// If the normaliser is one of scores, and the model has none.
    pub fn network(&self, set: &Dataset) -> Result<GraphNetConfig> {
        if self.norm.is_of_scores() && !self.model.attends() {
            let rule = "a model with scores of attention, gat or gt";
            let what = format!("--norm {}", self.norm);
            return Err(Error::invalid(what, rule, self.model.to_string()));
        }
        let score_norm = |norm: LipschitzNorm| match self.norm {
            Normaliser::Lipschitz | Normaliser::LipschitzPublished => Some(norm),
            _ => None,
        };
        let (conv, layers) = match self.model {
            Model::Gcn => (Conv::GCN, self.layers),
            Model::Gin => {
                let options = GinOptions {
                    eps: true,
                    bias: true,
                };
                (Conv::Gin(options), self.layers)
            }
            Model::Ggnn => {
                let steps = self.layers;
                (Conv::GatedGraph(GatedGraphOptions { steps }), 1)
            }
            Model::Gat => {
                let options = AttentionOptions {
                    heads: self.heads,
                    dropout: self.attention_dropout,
                    score_norm: score_norm(LipschitzNorm::GAT),
                    ..AttentionOptions::DEFAULT
                };
                (Conv::Gat(options), self.layers)
            }
            Model::Gt => {
                let options = TransformerOptions {
                    heads: self.heads,
                    dropout: self.attention_dropout,
                    score_norm: score_norm(LipschitzNorm::DOT),
                    ..TransformerOptions::DEFAULT
                };
                (Conv::Transformer(options), self.layers)
            }
            Model::Gcnii => (Conv::Gcnii(GcniiOptions::DEFAULT), self.layers),
        };
        let conv = match self.norm {
            Normaliser::LipschitzPublished => published(conv, PublishedOptions::default()),
            _ => conv,
        };
        let config = GraphNetConfig {
            inputs: set.feature_count(),
            hidden: self.width,
            classes: set.classes,
            layers,
            conv,
            last: conv,
            ends: match self.model {
                Model::Gcnii => EndMaps::ACTIVATED,
                _ => EndMaps::LINEAR,
            },
            norm: match self.norm {
                Normaliser::Layer => Some(Norm::LAYER),
                Normaliser::Pair => Some(Norm::Pair(PairNorm::pyg(false))),
                _ => None,
            },
            residual: self.residual.then_some(1),
            activation: match self.model.attends() {
                true => Activation::Elu,
                false => Activation::Relu,
            },
            dropout: self.dropout,
            input_dropout: false,
            self_loops: matches!(self.model, Model::Gcn | Model::Gat | Model::Gcnii),
        };
        config.validate()?;
        Ok(config)
    }

    /// The training of the cell.
    pub fn training(&self) -> TrainConfig {
        TrainConfig {
            algorithm: Algorithm::ADAM,
            lr: self.lr,
            weight_decay: self.weight_decay,
            plateau: self.plateau.then(Plateau::default),
            epochs: self.epochs,
            best_by: BestBy::ACCURACY,
            seed: self.seed,
            ..TrainConfig::default()
        }
    }
}
