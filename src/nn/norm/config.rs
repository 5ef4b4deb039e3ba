//! Norms that a configuration can name.

use super::{
    BatchNorm, ContraConfig, ContraNorm, DiffGroupNorm, GraphNorm, LayerNorm, PairMode, PairNorm,
    RmsNorm, Running,
};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::graph::Neighbourhood;
use crate::init::Rng;
use crate::nn::{Fields, Layer, Module, Params, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// A kind of norm with its options, as a configuration holds it; [`build`](Self::build) makes the layer.
///
/// ```
/// use emmy::{Tape, init, nn::{Norm, Pass}};
/// let norm = Norm::RMS.build::<f64>(4, &mut init::rng(1));
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &norm, 0);
/// let x = tape.constant(init::normal(&[3, 4], 1.0, &mut init::rng(0)));
/// assert_eq!(norm.forward(&pass, x).shape(), [3, 4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Over the features of each row, [`LayerNorm`].
    Layer {
        /// ε.
        eps: f64,
        /// Whether there is a γ.
        gain: bool,
        /// Whether there is a β.
        bias: bool,
    },
    /// Over the features of each row, without the mean, [`RmsNorm`].
    Rms {
        /// ε.
        eps: f64,
        /// Whether there is a γ.
        gain: bool,
    },
    /// Each feature over the rows, [`BatchNorm`].
    Batch {
        /// ε.
        eps: f64,
        /// Whether there are γ and β.
        affine: bool,
        /// m; evaluations use running statistics. With `None` they use the statistics of their own rows.
        momentum: Option<f64>,
    },
    /// Each feature over the nodes of a graph, [`GraphNorm`].
    Graph {
        /// ε.
        eps: f64,
    },
    /// All nodes of a graph together, [`PairNorm`].
    Pair(PairNorm),
    /// A step that moves rows apart, [`ContraNorm`].
    Contra(ContraConfig),
    /// The nodes of a graph by groups that are learnt, [`DiffGroupNorm`].
    DiffGroup {
        /// G, the number of groups.
        groups: usize,
        /// λ.
        scale: f64,
    },
}

impl Norm {
    /// LayerNorm with γ, β and ε = 10⁻⁵.
    pub const LAYER: Self = Self::Layer {
        eps: 1e-5,
        gain: true,
        bias: true,
    };

    /// RMSNorm with γ and ε = 10⁻⁶.
    pub const RMS: Self = Self::Rms {
        eps: 1e-6,
        gain: true,
    };

    /// Batch norm with γ, β, running statistics with m = 0.1, and ε = 10⁻⁵.
    pub const BATCH: Self = Self::Batch {
        eps: 1e-5,
        affine: true,
        momentum: Some(0.1),
    };

    /// GraphNorm with ε = 10⁻⁵.
    pub const GRAPH: Self = Self::Graph { eps: 1e-5 };

    /// PairNorm as published, mode PN with s = 1.
    pub const PAIR: Self = Self::Pair(PairNorm::new(PairMode::Pn));

    /// A layer of this kind for rows of `width` features, with γ = 1, β = 0 and α = 1. Only groups that are
    /// learnt need random numbers.
    pub fn build<F: Real>(&self, width: usize, rng: &mut Rng) -> NormLayer<F> {
        match *self {
            Self::Layer { eps, gain, bias } => {
                let whole = LayerNorm::new(width);
                NormLayer::Layer(LayerNorm {
                    gain: whole.gain.filter(|_| gain),
                    bias: whole.bias.filter(|_| bias),
                    eps,
                })
            }
            Self::Rms { eps, gain } => NormLayer::Rms(RmsNorm {
                gain: RmsNorm::new(width).gain.filter(|_| gain),
                eps,
            }),
            Self::Batch {
                eps,
                affine,
                momentum,
            } => {
                let whole = BatchNorm::new(width);
                NormLayer::Batch(BatchNorm {
                    gain: whole.gain.filter(|_| affine),
                    bias: whole.bias.filter(|_| affine),
                    running: momentum.map(|_| Running::new(width)),
                    momentum: momentum.unwrap_or(whole.momentum),
                    eps,
                })
            }
            Self::Graph { eps } => NormLayer::Graph(GraphNorm {
                eps,
                ..GraphNorm::new(width)
            }),
            Self::Pair(norm) => NormLayer::Pair(norm),
            Self::Contra(config) => NormLayer::Contra(config.build(width)),
            Self::DiffGroup { groups, scale } => {
                NormLayer::DiffGroup(DiffGroupNorm::new(width, groups, scale, rng))
            }
        }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// If ε is not a finite number of at least 0, a momentum is not within 0 ≤ m ≤ 1, a scale is not finite,
    /// there is no group, or the options of ContraNorm break [a rule](ContraConfig::validate).
    pub fn validate(&self) -> Result<()> {
        match *self {
            Self::Layer { eps, .. } => Rules("LayerNorm").from_zero("eps", eps),
            Self::Rms { eps, .. } => Rules("RmsNorm").from_zero("eps", eps),
            Self::Graph { eps } => Rules("GraphNorm").from_zero("eps", eps),
            Self::Pair(norm) => norm.validate(),
            Self::Contra(config) => config.validate(),
            Self::DiffGroup { groups, scale } => DiffGroupNorm::<f64>::validate(groups, scale),
            Self::Batch { eps, momentum, .. } => {
                let rules = Rules("BatchNorm");
                if let Some(m) = momentum {
                    let holds = (0.0..=1.0).contains(&m);
                    rules.hold(holds, "momentum", "a number from 0 to 1", m)?;
                }
                rules.from_zero("eps", eps)
            }
        }
    }
}

/// A norm of the kind that a [`Norm`] names.
#[derive(Debug, Clone)]
pub enum NormLayer<F: Real> {
    /// Over the features of each row.
    Layer(LayerNorm<F>),
    /// Over the features of each row, without the mean.
    Rms(RmsNorm<F>),
    /// Each feature over the rows.
    Batch(BatchNorm<F>),
    /// Each feature over the nodes of a graph.
    Graph(GraphNorm<F>),
    /// All nodes of a graph together.
    Pair(PairNorm),
    /// A step that moves rows apart.
    Contra(ContraNorm<F>),
    /// The nodes of a graph by groups that are learnt.
    DiffGroup(DiffGroupNorm<F>),
}

/// `$body` with the layer of whatever kind as `$norm`.
macro_rules! of_any_kind {
    ($layer:expr, $norm:ident => $body:expr) => {
        match $layer {
            Self::Layer($norm) => $body,
            Self::Rms($norm) => $body,
            Self::Batch($norm) => $body,
            Self::Graph($norm) => $body,
            Self::Pair($norm) => $body,
            Self::Contra($norm) => $body,
            Self::DiffGroup($norm) => $body,
        }
    };
}

impl<F: Real> NormLayer<F> {
    /// y, with the shape of x.
    ///
    /// # Panics
    /// If the shape of x does not fit.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        of_any_kind!(self, norm => norm.forward(pass, x))
    }

    /// y for the nodes of a graph; some forms of [`ContraNorm`] need the graph.
    ///
    /// # Panics
    /// If the shape of x does not fit.
    #[track_caller]
    pub fn on_graph<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        match self {
            Self::Contra(norm) => norm.on_graph(pass, x, neighbours),
            _ => self.forward(pass, x),
        }
    }

    /// y for tokens, of which each sees the tokens that `mask` shows it; only [`ContraNorm`] uses the mask.
    ///
    /// # Panics
    /// If the shape of x or the mask does not fit.
    #[track_caller]
    pub fn masked<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        match self {
            Self::Contra(norm) => norm.masked(pass, x, mask),
            _ => self.forward(pass, x),
        }
    }
}

impl<F: Real> Module<F> for NormLayer<F> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        of_any_kind!(self, norm => norm.collect(out));
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        of_any_kind!(self, norm => norm.collect_mut(out));
    }
}

impl<F: Real> Layer<F> for NormLayer<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        of_any_kind!(self, norm => norm.ports(params))
    }
}
