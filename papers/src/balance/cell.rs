//! Everything that decides the result of one run.

use crate::balance::run::{Outcome, Prepared};
use crate::layers::Omega;
use crate::support::args::{Float, check_loss_threshold};
use crate::support::paper::{self, Progress};
use crate::support::{memory, sizes};
use emmy::data::Dataset;
use emmy::nn::{Activation, Conv, GraphNetConfig};
use emmy::optim::Algorithm;
use emmy::train::{BestBy, TrainConfig};
use emmy::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The rule of the updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    Sgd,
    Adam,
}

/// The kind of layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Gcn,
    Gat,
    Gatv2 { shared: bool },
}

impl Kind {
    fn conv(self) -> Conv {
        match self {
            Self::Gcn => Conv::GCN,
            Self::Gat => Conv::GAT,
            Self::Gatv2 { shared } => Conv::gatv2(shared),
        }
    }
}

/// The measure, on the validation nodes, by which the best epoch is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Select {
    Accuracy,
    Loss,
}

/// Everything that decides the result of one run. Equal cells are run once, even if several tables
/// need them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub dataset: String,
    /// Whether heterophilic graphs are read as directed, as the published code does.
    pub directed: bool,
    pub split: usize,
    /// Whether isolated nodes are removed from the masks.
    pub without_isolated: bool,
    /// Whether features are used as published, although the paper's code makes rows sum to one.
    #[serde(default)]
    pub raw_features: bool,
    pub conv: Kind,
    /// ω of ωGAT.
    #[serde(default)]
    pub omega: Option<Omega>,
    pub layers: usize,
    /// Width of a hidden layer, the sum over its heads.
    pub width: usize,
    pub heads: usize,
    pub output_heads: usize,
    pub activation: Activation,
    pub bias: bool,
    pub dropout: f64,
    pub input_dropout: bool,
    pub init: String,
    pub optimizer: Rule,
    pub lr: f64,
    pub weight_decay: f64,
    pub epochs: usize,
    pub loss_threshold: Option<f64>,
    pub patience: Option<usize>,
    pub select: Select,
    pub seed: u64,
    pub float: Float,
    /// δ, c, gradients and changes are recorded once per this number of epochs, for the figures on
    /// training dynamics; `None` records nothing.
    pub record_every: Option<usize>,
}

impl paper::Cell for Cell {
    type Data = Prepared;
    type Outcome = Outcome;

    fn title(&self) -> String {
        let Self {
            dataset,
            init,
            layers,
            seed,
            ..
        } = self;
        let rule = match self.optimizer {
            Rule::Sgd => "sgd",
            Rule::Adam => "adam",
        };
        let mut title = format!("{dataset} {rule} L={layers} {init}");
        // The differences from the network of most tables.
        for (differs, what) in [
            (self.conv == Kind::Gcn, "GCN".to_owned()),
            (self.conv == Kind::Gat, "GAT".to_owned()),
            (
                self.conv == Kind::Gatv2 { shared: false },
                "separate weights".to_owned(),
            ),
            (self.omega.is_some(), "ω".to_owned()),
            (self.width != 64, format!("width {}", self.width)),
            (self.heads > 1, format!("{} heads", self.heads)),
            (self.activation == Activation::Elu, "ELU".to_owned()),
            (self.dropout > 0.0, format!("dropout {}", self.dropout)),
            (
                self.weight_decay > 0.0,
                format!("weight decay {}", self.weight_decay),
            ),
        ] {
            if differs {
                title += &format!(", {what}");
            }
        }
        format!("{title}, seed {seed}")
    }

    /// The unit is one number of one neuron of one edge.
    fn cost(&self) -> u64 {
        let (n, edges) = sizes::of(&self.dataset);
        let width = self.width as u64;
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
            record_every: other.record_every,
            ..self.clone()
        };
        same == *other && (self.record_every.is_none() || self.record_every == other.record_every)
    }

    fn dataset(&self) -> Option<&str> {
        Some(&self.dataset)
    }

    /// The fields on which [`Prepared::new`] depends.
    fn data_key(&self) -> String {
        let Self {
            dataset,
            directed,
            split,
            without_isolated,
            ..
        } = self;
        format!("{dataset} {directed} {split} {without_isolated}")
    }

    fn load(&self, folder: Option<&Path>) -> Result<Prepared> {
        Prepared::new(self, folder)
    }

    fn check(&self, data: &Prepared) -> Result<()> {
        let set = data.set();
        let network = self.network(set)?;
        match self.float {
            Float::F32 => memory::check::<f32>(&network, set)?,
            Float::F64 => memory::check::<f64>(&network, set)?,
        }
        check_loss_threshold(self.loss_threshold, set.classes)?;
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
    /// The network of the cell, for a data set.
    ///
    /// # Errors
    /// If the width is not a multiple of the number of heads, or a kind other than GATv2 has ω.
    pub fn network(&self, set: &Dataset) -> Result<GraphNetConfig> {
        if self.heads == 0 || !self.width.is_multiple_of(self.heads) {
            return Err(Error::invalid(
                "width",
                format!("a multiple of {} heads", self.heads),
                self.width.to_string(),
            ));
        }
        let config = GraphNetConfig {
            layers: self.layers,
            hidden: self.width / self.heads,
            activation: self.activation,
            dropout: self.dropout,
            input_dropout: self.input_dropout,
            ..GraphNetConfig::gcn(set.feature_count(), set.classes)
        };
        let config = config
            .of(self.conv.conv())
            .heads(self.heads, self.output_heads)
            .attending(|a| a.dropout = self.dropout)
            .biased(self.bias);
        self.omega.map_or(Ok(config), |omega| omega.of(config))
    }

    /// The training of the cell.
    pub fn training(&self) -> TrainConfig {
        TrainConfig {
            algorithm: match self.optimizer {
                Rule::Sgd => Algorithm::SGD,
                Rule::Adam => Algorithm::ADAM,
            },
            lr: self.lr,
            weight_decay: self.weight_decay,
            epochs: self.epochs,
            patience: self.patience,
            loss_threshold: self.loss_threshold,
            best_by: match self.select {
                Select::Accuracy => BestBy::ACCURACY,
                Select::Loss => BestBy::LOSS,
            },
            seed: self.seed,
            ..TrainConfig::default()
        }
    }
}
