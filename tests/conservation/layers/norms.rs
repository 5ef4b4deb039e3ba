//! Norms of features, and gain and bias behind them.

use super::terms::{incoming, read};
use emmy::init::{self, Rng};
use emmy::nn::{Linear, Params, Pass};
use emmy::symmetry::{Law, Symmetry};
use emmy::{Real, Tensor, Var};

/// Normalisations without parameters of features `[n, d]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Norm {
    /// Every row: (x − mean) / √(var + ε), Ba et al., "Layer Normalization", 2016.
    Layer {
        /// ε
        eps: f64,
    },
    /// Every row: x / √(mean x²), Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.
    Rms,
    /// All rows together: X_c / √(mean of the squared norms of its rows), X_c being X less the mean of its
    /// rows; with `rows` each row of X_c to length 1. Zhao and Akoglu, "PairNorm", ICLR 2020, and its variant
    /// PairNorm-SI, with s = 1.
    Pair {
        /// Whether row by row.
        rows: bool,
    },
    /// Every feature: x' / √(mean x'² + ε), x' = x − α mean, over the rows. α = 1: Ioffe and Szegedy, "Batch
    /// Normalization", ICML 2015; any α: Cai et al., "GraphNorm", ICML 2021.
    Feature {
        /// α
        share: f64,
        /// ε
        eps: f64,
    },
}

impl Norm {
    pub fn apply<F: Real>(self, x: Var<'_, F>) -> Var<'_, F> {
        match self {
            Self::Layer { eps } => {
                (x - x.mean(&[-1], true)) / x.var(&[-1], true).add_scalar(F::of(eps)).sqrt()
            }
            Self::Rms => x / (x * x).mean(&[-1], true).sqrt(),
            Self::Pair { rows } => {
                let centred = x - x.mean(&[0], true);
                let squares = (centred * centred).sum(&[1], true);
                match rows {
                    true => centred / squares.sqrt(),
                    false => centred / squares.mean(&[0], true).sqrt(),
                }
            }
            Self::Feature { share, eps } => {
                let centred = x - x.mean(&[0], true).scale(F::of(share));
                let size = (centred * centred).mean(&[0], true);
                centred / size.add_scalar(F::of(eps)).sqrt()
            }
        }
    }
}

/// x γ + β, γ and β of shape `[d]`.
#[derive(Debug, Clone)]
pub struct Gain<F: Real> {
    pub gain: Tensor<F>,
    pub bias: Tensor<F>,
}
emmy::module!(Gain: gain, bias);

impl<F: Real> Gain<F> {
    /// γ about 1, β about 0.
    pub fn new(d: usize, rng: &mut Rng) -> Self {
        Self {
            gain: init::normal::<F>(&[d], 0.5, rng) + F::one(),
            bias: init::normal(&[d], 0.5, rng),
        }
    }

    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        x * pass.param(&self.gain) + pass.param(&self.bias)
    }

    /// C17: γ_i G + β_i G − Σ ⟨W[:,i], G⟩ = 0 over all linear readers W.
    pub fn against<'a>(
        &self,
        name: String,
        layer: usize,
        slots: &Params<'_, F>,
        readers: impl IntoIterator<Item = &'a Linear<F>>,
    ) -> Law {
        let own = incoming([&self.gain, &self.bias].map(|p| slots.rows(p)));
        let terms = [own, read(slots, readers)].concat();
        Law::new(name, layer, Symmetry::Rescaling, terms)
    }
}
