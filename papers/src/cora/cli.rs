//! The options of the command line, and the network and the training that they choose.

use crate::layers::DiffGroupOptions;
use crate::support::args::{Data, Runs, at_least_zero, initializations};
use clap::{Args, ValueEnum};
use emmy::data::Dataset;
use emmy::init::Initialization;
use emmy::nn::{
    Activation, ContraConfig, Conv, GraphNetConfig, LipschitzNorm, Norm, PairMode, PairNorm,
};
use emmy::optim::Algorithm;
use emmy::train::TrainConfig;
use emmy::{Error, Result};
use std::path::PathBuf;

/// Train a graph network on a citation graph
#[derive(Args, Debug)]
#[command(after_help = DEFAULTS)]
pub struct Cli {
    #[command(flatten)]
    pub data: Data,

    #[command(flatten)]
    pub runs: Runs,

    /// Kind of layer
    #[arg(long, default_value = "gat")]
    pub model: Model,

    /// Number of layers; for sgc and ggnn, which have one layer, the number of its propagations
    #[arg(long, value_name = "L", default_value_t = 2)]
    pub layers: usize,

    /// Width of a hidden layer; with attention, the width of one head
    #[arg(long, value_name = "WIDTH")]
    pub hidden: Option<usize>,

    /// Attention heads of a hidden layer
    #[arg(long, value_name = "H")]
    pub heads: Option<usize>,

    /// Normaliser of the scores of attention, in gat and gt
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub score_norm: ScoreNorm,

    /// Norm after each hidden layer
    #[arg(long, value_name = "NAME", default_value = "none")]
    pub norm: NormOfNodes,

    /// Scale of the norm: s of pair, pair-si, contra and contra-v2, λ of dgn [default: 1; contra and
    /// contra-v2 0.5; dgn 0.01]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub norm_scale: Option<f64>,

    /// Every R hidden layers, add the output of R layers before
    #[arg(long, value_name = "R", num_args = 0..=1, default_missing_value = "1")]
    pub residual: Option<usize>,

    /// Show how alike the nodes become, layer by layer: at the start, ten times during the training and at
    /// the best epoch
    #[arg(long)]
    pub watch: bool,

    /// Share one weight between sources and targets in gatv2
    #[arg(long)]
    pub share_weights: bool,

    /// Initialisation of the parameters; without this option, that of the layers. bal-*, ll-* and
    /// identity-bal are made for ReLU and choose --activation relu if no activation is given
    #[arg(long, value_name = "NAME", value_parser = initializations())]
    pub init: Option<Initialization>,

    /// Activation between layers [default: elu for gat and gatv2 unless --init is made for relu; else relu]
    #[arg(long)]
    pub activation: Option<Sigma>,

    /// Layers without biases
    #[arg(long)]
    pub no_bias: bool,

    /// Rule of the updates
    #[arg(long, default_value = "adam")]
    pub optimizer: Optimizer,

    /// Learning rate
    #[arg(long, value_name = "RATE")]
    pub lr: Option<f64>,

    /// Weight decay
    #[arg(long, value_name = "LAMBDA")]
    pub weight_decay: Option<f64>,

    /// Dropout of inputs, and of attention coefficients
    #[arg(long, value_name = "P")]
    pub dropout: Option<f64>,

    /// Maximum number of epochs
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,

    /// Stop after this number of epochs without a better validation accuracy; 0 for never
    #[arg(long, value_name = "N")]
    pub patience: Option<usize>,

    /// Stop when the training loss is below this value
    #[arg(long, value_name = "LOSS", value_parser = at_least_zero)]
    pub loss_threshold: Option<f64>,

    /// Save a checkpoint in this file, once per second and at the end
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Continue from this checkpoint
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

const DEFAULTS: &str = "Defaults by model:
  gcn, sage    --hidden 16 --dropout 0.5 --lr 0.01 --epochs 200 --patience 0
  gin, ggnn    --hidden 64 --dropout 0.5 --lr 0.01 --epochs 200 --patience 0
  sgc          --dropout 0 --lr 0.2 --epochs 100 --patience 0 --weight-decay 5e-5
  gat, gatv2   --hidden 8 --heads 8 --dropout 0.6 --lr 0.005 --epochs 1000 --patience 100
  gt           --hidden 8 --heads 8 --dropout 0.6 --lr 0.005 --epochs 1000 --patience 100
  gcnii        --hidden 64 --dropout 0.6 --lr 0.01 --epochs 1500 --patience 100
All models but sgc have --weight-decay 5e-4; without that option, the convolutions of gcnii have 0.01.

A run diverges when its training loss, or the validation loss of its last epoch, is not a finite number. It
has no accuracy: the line of JSON gives the reason under \"stopped\", and the means of the summary are over
the other seeds.

Exit code: 0; 1 if an error stops the program, all runs diverge, or a figure cannot be written (results are
printed before figures are drawn); 2 for a wrong argument.";

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    Gcn,
    Gat,
    Gatv2,
    Sage,
    Sgc,
    Gin,
    Gcnii,
    /// The graph transformer
    #[value(name = "gt", alias = "transformer")]
    Transformer,
    Ggnn,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreNorm {
    None,
    /// LipschitzNorm: attention then has a Lipschitz constant
    Lipschitz,
}

/// Norms over the features or over the nodes.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormOfNodes {
    None,
    /// LayerNorm
    Layer,
    /// PairNorm: one factor for all nodes
    Pair,
    /// PairNorm: one factor per node
    PairSi,
    /// ContraNorm, Eq. (9): moves each node away from similar nodes
    Contra,
    /// ContraNorm-v2, Eq. (30): compares features; its cost is linear in the number of nodes
    ContraV2,
    /// Differentiable group norm with ten learnt groups
    Dgn,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sigma {
    Identity,
    Relu,
    LeakyRelu,
    Elu,
    Gelu,
    Tanh,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
pub enum Optimizer {
    Sgd,
    Adam,
    Adamw,
    /// Newton–Schulz on matrices, AdamW for the other parameters
    Muon,
}

impl Cli {
    /// The network for a data set.
    pub fn network(&self, set: &Dataset) -> Result<GraphNetConfig> {
        let (inputs, classes) = (set.feature_count(), set.classes);
        let base = match self.model {
            Model::Gcn => GraphNetConfig::gcn(inputs, classes),
            Model::Gat => GraphNetConfig::gat(inputs, classes),
            Model::Gatv2 => {
                let mut config = GraphNetConfig::gatv2(inputs, classes);
                for conv in [&mut config.conv, &mut config.last] {
                    if let Conv::Gatv2(options) = conv {
                        options.shared = self.share_weights;
                    }
                }
                config
            }
            Model::Sage => GraphNetConfig::sage(inputs, classes),
            Model::Sgc => GraphNetConfig::sgc(inputs, classes),
            Model::Gin => GraphNetConfig::gin(inputs, classes),
            Model::Gcnii => GraphNetConfig::gcnii(inputs, classes),
            Model::Transformer => GraphNetConfig::transformer(inputs, classes),
            Model::Ggnn => GraphNetConfig::ggnn(inputs, classes),
        };
        if !self.attends() && self.heads.is_some() {
            let found = self.model_name();
            return Err(Error::invalid("--heads", "a model with attention", found));
        }
        if self.model != Model::Gatv2 && self.share_weights {
            return Err(Error::invalid(
                "--share-weights",
                "--model gatv2",
                self.model_name(),
            ));
        }
        let base = self.score_normalised(base)?;
        // A single layer is the last layer: its width is the number of classes, and it has one head and no
        // activation.
        let base = base.depth(self.layers);
        for (option, is_given) in [
            ("--hidden", self.hidden.is_some()),
            ("--heads", self.heads.is_some()),
            ("--activation", self.activation.is_some()),
            ("--norm", self.norm != NormOfNodes::None),
            ("--residual", self.residual.is_some()),
        ] {
            if is_given && !self.is_deep() {
                let (rule, found) = match self.model {
                    Model::Sgc => ("a model with hidden layers", "sgc".to_owned()),
                    _ => ("--layers 2 or more", format!("--layers {}", self.layers)),
                };
                return Err(Error::invalid(option, rule, found));
            }
        }
        let dropout = self.dropout.unwrap_or(base.dropout);
        let config = GraphNetConfig {
            hidden: self.hidden.unwrap_or(base.hidden),
            activation: match self.sigma() {
                Sigma::Identity => Activation::Identity,
                Sigma::Relu => Activation::Relu,
                Sigma::LeakyRelu => Activation::LeakyRelu { slope: 0.01 },
                Sigma::Elu => Activation::Elu,
                Sigma::Gelu => Activation::Gelu,
                Sigma::Tanh => Activation::Tanh,
            },
            dropout,
            norm: self.norm_of_nodes()?.or(base.norm),
            residual: self.residual.or(base.residual),
            ..base
        }
        .heads(self.heads.unwrap_or(8), 1)
        .attention_dropout(dropout)
        .biased(!self.no_bias);
        config.validate()?;
        self.check_residual(&config)?;
        Ok(config)
    }

    /// Refuses a period of residuals that is too long for a single sum.
    fn check_residual(&self, config: &GraphNetConfig) -> Result<()> {
        let hidden = config.layers - usize::from(!config.ends.output);
        // The map before the layers gives a first summand, if it has their width; else the first layer does.
        let is_mapped = config.ends.input && config.conv.output(config.hidden) == config.hidden;
        let most = hidden.saturating_sub(usize::from(!is_mapped));
        match self.residual {
            Some(period) if period > most => {
                let rule = match most {
                    0 => "more --layers: no two hidden layers are there to be added".to_owned(),
                    most => format!("a period of at most {most}, since {hidden} layers are hidden"),
                };
                Err(Error::invalid("--residual", rule, period.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The norm after hidden layers.
    fn norm_of_nodes(&self) -> Result<Option<Norm>> {
        let scale = |default: f64| self.norm_scale.unwrap_or(default);
        let pair = |mode| {
            Norm::Pair(PairNorm {
                scale: scale(1.0),
                ..PairNorm::new(mode)
            })
        };
        Ok(Some(match self.norm {
            NormOfNodes::None | NormOfNodes::Layer if self.norm_scale.is_some() => {
                let rule = "--norm pair, pair-si, contra, contra-v2 or dgn";
                let found = self
                    .norm
                    .to_possible_value()
                    .expect("no variant is skipped");
                let found = format!("--norm {}", found.get_name());
                return Err(Error::invalid("--norm-scale", rule, found));
            }
            NormOfNodes::None => return Ok(None),
            NormOfNodes::Layer => Norm::LAYER,
            NormOfNodes::Pair => pair(PairMode::Pn),
            NormOfNodes::PairSi => pair(PairMode::PnSi),
            NormOfNodes::Contra => Norm::Contra(ContraConfig::new(scale(0.5))),
            NormOfNodes::ContraV2 => Norm::Contra(ContraConfig::v2(scale(0.5))),
            NormOfNodes::Dgn => {
                let options = DiffGroupOptions {
                    groups: 10,
                    scale: scale(0.01),
                };
                options.norm()
            }
        }))
    }

    /// The network with the normaliser of scores.
    fn score_normalised(&self, mut config: GraphNetConfig) -> Result<GraphNetConfig> {
        if self.score_norm == ScoreNorm::None {
            return Ok(config);
        }
        for conv in [&mut config.conv, &mut config.last] {
            match conv {
                Conv::Gat(options) => options.score_norm = Some(LipschitzNorm::GAT),
                Conv::Transformer(options) => options.score_norm = Some(LipschitzNorm::DOT),
                _ => {
                    let rule = "--model gat or gt";
                    return Err(Error::invalid("--score-norm", rule, self.model_name()));
                }
            }
        }
        Ok(config)
    }

    /// The training for a seed.
    pub fn training(&self, seed: u64) -> TrainConfig {
        let (lr, weight_decay, epochs, patience) = match self.model {
            Model::Gat | Model::Gatv2 | Model::Transformer => (0.005, 5e-4, 1000, 100),
            Model::Gcnii => (0.01, 5e-4, 1500, 100),
            Model::Sgc => (0.2, 5e-5, 100, 0),
            _ => (0.01, 5e-4, 200, 0),
        };
        let patience = self.patience.unwrap_or(patience);
        TrainConfig {
            algorithm: match self.optimizer {
                Optimizer::Sgd => Algorithm::SGD,
                Optimizer::Adam => Algorithm::ADAM,
                Optimizer::Adamw => Algorithm::ADAMW,
                Optimizer::Muon => Algorithm::MUON,
            },
            lr: self.lr.unwrap_or(lr),
            weight_decay: self.weight_decay.unwrap_or(weight_decay),
            decay_paths: match (self.model, self.weight_decay) {
                // As published: less for the maps before and after the convolutions.
                (Model::Gcnii, None) => vec![("layers".to_owned(), 0.01)],
                _ => Vec::new(),
            },
            epochs: self.epochs.unwrap_or(epochs),
            patience: (patience > 0).then_some(patience),
            loss_threshold: self.loss_threshold,
            seed,
            ..TrainConfig::default()
        }
    }

    /// Whether the model has a hidden layer, and so an activation.
    fn is_deep(&self) -> bool {
        match self.model {
            Model::Sgc => false,
            Model::Gin | Model::Gcnii | Model::Ggnn => true,
            _ => self.layers > 1,
        }
    }

    /// Whether the model has attention.
    fn attends(&self) -> bool {
        matches!(self.model, Model::Gat | Model::Gatv2 | Model::Transformer)
    }

    /// The name of the kind of layer.
    pub fn model_name(&self) -> String {
        let name = self
            .model
            .to_possible_value()
            .expect("no variant is skipped");
        name.get_name().to_owned()
    }

    /// The activation of the model, without `--activation` and `--init`.
    fn sigma_of_model(&self) -> Sigma {
        match self.model {
            Model::Gat | Model::Gatv2 => Sigma::Elu,
            _ => Sigma::Relu,
        }
    }

    /// The activation between layers: the one given, else ReLU if the initialisation is made for it, else
    /// that of the model.
    fn sigma(&self) -> Sigma {
        let of_init = self.init.filter(Initialization::is_for_relu);
        self.activation
            .or(of_init.map(|_| Sigma::Relu))
            .unwrap_or_else(|| self.sigma_of_model())
    }

    /// The name of the activation; `None` if there is no hidden layer.
    pub fn activation_name(&self) -> Option<String> {
        let name = self.sigma().to_possible_value()?.get_name().to_owned();
        self.is_deep().then_some(name)
    }

    /// A line for the reader if `--init` chose the activation; `None` otherwise.
    pub fn said_choice(&self) -> Option<String> {
        let chosen = self.activation.is_none() && self.sigma() != self.sigma_of_model();
        let (init, model) = (self.init_name()?, self.model_name());
        (chosen && self.is_deep()).then(|| {
            format!("--init {init} is made for ReLU: {model} is trained with --activation relu (give --activation for another)")
        })
    }

    /// The name of the chosen initialisation.
    pub fn init_name(&self) -> Option<&'static str> {
        self.init.and_then(|init| init.name())
    }
}
