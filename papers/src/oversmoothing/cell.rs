//! Everything that decides the result of one run.

use crate::oversmoothing::run::{Outcome, Prepared};
use crate::support::args::{Float, typed};
use crate::support::paper::{self, Progress};
use crate::support::{memory, sizes};
use clap::ValueEnum;
use emmy::data;
use emmy::nn::GraphNetConfig;
use emmy::optim::Algorithm;
use emmy::train::{BestBy, TrainConfig};
use emmy::{Error, Result};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::result;

/// The norm between the layers.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Nothing
    None,
    /// LayerNorm
    Layer,
    /// PairNorm, mode PN
    Pair,
    /// PairNorm, mode PN, then LayerNorm, as the published script runs it
    PairLayer,
    /// PairNorm, mode PN-SI
    PairSi,
    /// PairNorm, mode PN-SCS
    PairScs,
    /// ContraNorm of the published code: without neighbours, then LayerNorm
    Contra,
    /// ContraNorm as printed, Eq. (9)
    ContraPaper,
    /// ContraNorm-v2, Eq. (30)
    ContraV2,
    /// The norm of learnt groups
    Dgn,
}

/// Which nodes are tested.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// All nodes outside the training and validation sets: 2068 of Cora, 2707 of CiteSeer, as in the
    /// published code
    Published,
    /// The public test set, 1000 nodes
    Public,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(self))
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&typed(self))
    }
}

impl Method {
    /// The name in a table; the paper's, where it has one.
    pub fn printed(self) -> &'static str {
        match self {
            Self::None => "GCN",
            Self::Layer => "+LayerNorm",
            Self::Pair => "+PairNorm",
            Self::PairLayer => "+PairNorm, LayerNorm",
            Self::PairSi => "+PairNorm, SI",
            Self::PairScs => "+PairNorm, SCS",
            Self::Contra => "+ContraNorm",
            Self::ContraPaper => "+ContraNorm, Eq. (9)",
            Self::ContraV2 => "+ContraNorm-v2",
            Self::Dgn => "+DGN",
        }
    }

    /// Whether the shared LayerNorm follows.
    pub fn has_layer_norm(self) -> bool {
        matches!(self, Self::Layer | Self::PairLayer | Self::Contra)
    }

    /// The scales among which the paper chooses; for DGN the scale of its own code.
    pub fn scales(self, layers: usize) -> Vec<f64> {
        match self {
            Self::None | Self::Layer => vec![0.0],
            Self::Dgn if layers < 6 => vec![0.001],
            Self::Dgn => vec![0.03],
            _ => vec![0.2, 0.5, 0.8, 1.0],
        }
    }
}

/// Everything that decides the result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Cell {
    pub dataset: String,
    pub split: Split,
    /// Whether features are used as they are in the files, although the published code makes rows sum to one.
    pub raw_features: bool,
    pub method: Method,
    /// s of PairNorm and ContraNorm, λ of DGN; 0 if there is none.
    pub scale: f64,
    pub layers: usize,
    pub width: usize,
    pub dropout: f64,
    pub lr: f64,
    pub weight_decay: f64,
    pub epochs: usize,
    pub seed: u64,
    pub float: Float,
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> result::Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

/// A line without `raw_features` is of a time when the rows of features that count words summed to one, and
/// others were used as they are.
impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(from: D) -> result::Result<Self, D::Error> {
        let mut line = serde_json::Map::deserialize(from)?;
        let name = line.get("dataset").and_then(Value::as_str);
        let words = name.is_some_and(|name| data::find(name).is_ok_and(|set| set.counts_words));
        line.entry("raw_features").or_insert((!words).into());
        Self::deserialize(Value::Object(line)).map_err(D::Error::custom)
    }
}

impl paper::Cell for Cell {
    type Data = Prepared;
    type Outcome = Outcome;

    fn title(&self) -> String {
        let scale = match self.scale {
            0.0 => String::new(),
            s => format!(" s={s}"),
        };
        let split = match self.split {
            Split::Published => "",
            Split::Public => ", public split",
        };
        let features = match self.raw_features {
            true => ", raw features",
            false => "",
        };
        format!(
            "{} {}{scale} L={}{split}{features}, seed {}",
            self.dataset,
            self.method.printed(),
            self.layers,
            self.seed
        )
    }

    /// The unit is one number of one node or of one pair of nodes.
    fn cost(&self) -> u64 {
        let (n, edges) = sizes::of(&self.dataset);
        let width = self.width as u64;
        let pairs = match self.method {
            Method::Contra | Method::ContraPaper => n * n / 2,
            _ => 0,
        };
        let layer = (edges + n * width / 8 + pairs).saturating_mul(width);
        let epoch = layer.saturating_mul(self.layers as u64);
        epoch.saturating_mul(self.epochs as u64).max(1)
    }

    fn steps(&self) -> u64 {
        self.epochs as u64
    }

    fn dataset(&self) -> Option<&str> {
        Some(&self.dataset)
    }

    /// The fields on which [`Prepared::new`] depends.
    fn data_key(&self) -> String {
        format!("{} {}", self.dataset, self.split)
    }

    fn load(&self, folder: Option<&Path>) -> Result<Prepared> {
        Prepared::new(self, folder)
    }

    fn check(&self, data: &Prepared) -> Result<()> {
        for (what, value) in [("--layers", self.layers), ("--hidden", self.width)] {
            if value == 0 || value > 4096 {
                return Err(Error::invalid(what, "1 to 4096", value.to_string()));
            }
        }
        if self.layers == 1 && self.method != Method::None {
            let rule = "at least 2 with a norm, which follows a hidden layer";
            return Err(Error::invalid("--layers", rule, "1"));
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            let found = self.dropout.to_string();
            return Err(Error::invalid("--dropout", "a probability, 0 to 1", found));
        }
        self.norm()
            .map_or(Ok(()), |norm| norm.validate(self.width))?;
        let network = GraphNetConfig {
            hidden: self.width,
            layers: self.layers,
            norm: self.norm(),
            ..GraphNetConfig::gcn(data.set.feature_count(), data.set.classes)
        };
        match self.float {
            Float::F32 => memory::check::<f32>(&network, &data.set)?,
            Float::F64 => memory::check::<f64>(&network, &data.set)?,
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
    /// The training of the cell.
    pub fn training(&self) -> TrainConfig {
        TrainConfig {
            algorithm: Algorithm::ADAM,
            lr: self.lr,
            weight_decay: self.weight_decay,
            epochs: self.epochs,
            best_by: BestBy::ACCURACY,
            seed: self.seed,
            ..TrainConfig::default()
        }
    }
}
