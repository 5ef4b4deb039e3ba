//! Norms that a configuration can name.

use super::{
    BatchNorm, ContraConfig, GraphNorm, LayerNorm, NormLayer, Normalizer, PairMode, PairNorm,
    RmsNorm, Running,
};
use crate::error::{Result, Rules};
use crate::init::Rng;
use crate::real::Real;
use crate::registry::{Family, Registered, Registry, same_type};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The options of a kind of norms of another crate, and how a norm is built from them. [`Norm::register`]
/// gives them a name.
///
/// ```
/// use emmy::nn::{GraphNet, GraphNetConfig, LayerNorm, Norm, NormOptions};
/// use emmy::{Real, init::Rng};
///
/// /// LayerNorm whose γ starts at 2.
/// #[derive(Debug)]
/// struct Doubled;
///
/// impl NormOptions for Doubled {
///     type Layer<F: Real> = LayerNorm<F>;
///
///     fn build<F: Real>(&self, width: usize, _: &mut Rng) -> LayerNorm<F> {
///         let mut norm = LayerNorm::new(width);
///         norm.gain = norm.gain.map(|gain| gain + F::one());
///         norm
///     }
/// }
///
/// let norm = Norm::register("doubled", Doubled)?;
/// let config = GraphNetConfig { norm: Some(norm), ..GraphNetConfig::gcn(34, 2) };
/// let net = GraphNet::<f32>::new(config, 0)?;
/// let first: &LayerNorm<f32> = net.norms[0].downcast_ref().unwrap();
/// assert_eq!(first.gain.as_ref().unwrap()[0], 2.0);
/// # Ok::<(), emmy::Error>(())
/// ```
pub trait NormOptions: fmt::Debug + Send + Sync + 'static {
    /// The norm.
    type Layer<F: Real>: Normalizer<F>;

    /// A norm for rows of `width` features.
    fn build<F: Real>(&self, width: usize, rng: &mut Rng) -> Self::Layer<F>;

    /// Checks whether a norm of rows of `width` features can be built.
    ///
    /// # Errors
    /// If an option breaks its rule, or the width does not fit; the message names the option.
    fn validate(&self, width: usize) -> Result<()> {
        let _ = width;
        Ok(())
    }
}

/// [`NormOptions`] of any type.
pub trait AnyNormOptions: fmt::Debug + Send + Sync {
    /// A norm of `f32`.
    fn build_f32(&self, width: usize, rng: &mut Rng) -> NormLayer<f32>;
    /// A norm of `f64`.
    fn build_f64(&self, width: usize, rng: &mut Rng) -> NormLayer<f64>;
    /// [`NormOptions::validate`].
    fn validate(&self, width: usize) -> Result<()>;
}

impl<O: NormOptions> AnyNormOptions for O {
    fn build_f32(&self, width: usize, rng: &mut Rng) -> NormLayer<f32> {
        Box::new(self.build::<f32>(width, rng))
    }

    fn build_f64(&self, width: usize, rng: &mut Rng) -> NormLayer<f64> {
        Box::new(self.build::<f64>(width, rng))
    }

    fn validate(&self, width: usize) -> Result<()> {
        NormOptions::validate(self, width)
    }
}

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
    /// A step that moves rows apart, [`ContraNorm`](super::ContraNorm).
    Contra(ContraConfig),
    /// A norm of another crate, under the name that [`Norm::register`] gave it.
    Registered(Registered<dyn AnyNormOptions>),
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

    /// A layer of this kind for rows of `width` features, with γ = 1, β = 0 and α = 1. Only norms of other
    /// crates may need random numbers.
    // Not inlined: a program that calls it would compile all norms again.
    #[inline(never)]
    pub fn build<F: Real>(&self, width: usize, rng: &mut Rng) -> NormLayer<F> {
        match *self {
            Self::Layer { eps, gain, bias } => {
                let whole = LayerNorm::new(width);
                Box::new(LayerNorm {
                    gain: whole.gain.filter(|_| gain),
                    bias: whole.bias.filter(|_| bias),
                    eps,
                })
            }
            Self::Rms { eps, gain } => Box::new(RmsNorm {
                gain: RmsNorm::new(width).gain.filter(|_| gain),
                eps,
            }),
            Self::Batch {
                eps,
                affine,
                momentum,
            } => {
                let whole = BatchNorm::new(width);
                Box::new(BatchNorm {
                    gain: whole.gain.filter(|_| affine),
                    bias: whole.bias.filter(|_| affine),
                    running: momentum.map(|_| Running::new(width)),
                    momentum: momentum.unwrap_or(whole.momentum),
                    eps,
                })
            }
            Self::Graph { eps } => Box::new(GraphNorm {
                eps,
                ..GraphNorm::new(width)
            }),
            Self::Pair(norm) => Box::new(norm),
            Self::Contra(config) => Box::new(config.build(width)),
            Self::Registered(kind) => match size_of::<F>() {
                4 => same_type(kind.options().build_f32(width, rng)),
                _ => same_type(kind.options().build_f64(width, rng)),
            },
        }
    }

    /// Checks whether a norm of rows of `width` features can be built.
    ///
    /// # Errors
    /// If ε is not a finite number of at least 0, a momentum is not within 0 ≤ m ≤ 1, a scale is not finite,
    /// or the options of ContraNorm ([`ContraConfig::validate`]) or of a norm of another
    /// crate ([`NormOptions::validate`]) break a rule.
    pub fn validate(&self, width: usize) -> Result<()> {
        match *self {
            Self::Layer { eps, .. } => Rules("LayerNorm").from_zero("eps", eps),
            Self::Rms { eps, .. } => Rules("RmsNorm").from_zero("eps", eps),
            Self::Graph { eps } => Rules("GraphNorm").from_zero("eps", eps),
            Self::Pair(norm) => norm.validate(),
            Self::Contra(config) => config.validate(),
            Self::Batch { eps, momentum, .. } => {
                let rules = Rules("BatchNorm");
                if let Some(m) = momentum {
                    let holds = (0.0..=1.0).contains(&m);
                    rules.hold(holds, "momentum", "a number from 0 to 1", m)?;
                }
                rules.from_zero("eps", eps)
            }
            Self::Registered(kind) => kind.options().validate(width),
        }
    }

    /// Gives a kind of norms of another crate a name. A configuration names the kind by the result; a saved
    /// configuration holds the name alone, so the options belong to the name, and a program that loads the
    /// configuration registers the same name with the same options before. Names and options stay for the
    /// life of the process.
    ///
    /// # Errors
    /// If the name is empty, or registered already.
    pub fn register(name: impl Into<String>, options: impl NormOptions) -> Result<Self> {
        let kind = REGISTRY.add(name, Box::new(options))?;
        Ok(Self::Registered(kind))
    }

    /// The kind that was registered under this name.
    ///
    /// # Errors
    /// If there is none; the message lists those that are registered.
    pub fn registered(name: &str) -> Result<Self> {
        REGISTRY.find(name).map(Self::Registered)
    }
}

static REGISTRY: Registry<dyn AnyNormOptions> = Registry::new("norms", "Norm::register");

impl Family for dyn AnyNormOptions {
    fn registry() -> &'static Registry<Self> {
        &REGISTRY
    }
}
