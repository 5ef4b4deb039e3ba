//! Layer normalisation.

use crate::autodiff::Var;
use crate::init;
use crate::nn::{Layer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Passage, Ports, Reader, Term};
use crate::tensor::Tensor;

/// y = γ ⊙ (x − mean x) / √(var x + ε) + β, mean and variance over the last axis: the normalised
/// rows all have the same size, up to ε, whatever the layer before computed.
///
/// Ba, Kiros and Hinton, "Layer Normalization", 2016, Eq. (4). The variance is a sum of d squares
/// divided by d (not by d − 1), as in PyTorch.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]` |
/// | γ, β | `[d]`; they start at 1 and 0 |
///
/// The output does not depend on the mean of a row of x nor, with ε = 0, on its size. Hence two
/// conservation laws of the layers that write x: the gradient of each layer sums to zero over the
/// neurons; with ε = 0, ⟨W, G⟩ summed over all parameters that write x is zero. γ and β are
/// balanced against all parameters that read y.
#[derive(Debug, Clone)]
pub struct LayerNorm<F: Real> {
    /// γ.
    pub gain: Option<Tensor<F>>,
    /// β.
    pub bias: Option<Tensor<F>>,
    /// ε; PyTorch's default is 10⁻⁵.
    pub eps: f64,
}
crate::module!(LayerNorm: gain = Gain as "weight", bias = Bias);

impl<F: Real> LayerNorm<F> {
    /// A norm of rows of `width` numbers with γ = 1, β = 0, ε = 10⁻⁵.
    pub fn new(width: usize) -> Self {
        Self {
            gain: Some(Tensor::ones(vec![width])),
            bias: Some(init::zeros(&[width])),
            eps: 1e-5,
        }
    }

    /// A norm without γ and β.
    pub fn plain(eps: f64) -> Self {
        Self {
            gain: None,
            bias: None,
            eps,
        }
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has no axis, or its last axis does not have the size of γ and β.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let shape = x.shape();
        for (name, p) in [("γ", &self.gain), ("β", &self.bias)] {
            if let Some(p) = p {
                assert!(
                    shape.last() == p.shape().first(),
                    "LayerNorm: x has shape {shape:?}, {name} {:?}: the last axes must be equal",
                    p.shape()
                );
            }
        }
        assert!(!shape.is_empty(), "LayerNorm: x has no axis");
        pass.call(self, &[x], || {
            let centred = x - x.mean(&[-1], true);
            let variance = centred.powf(F::of(2.0)).mean(&[-1], true);
            let mut y = centred / variance.add_scalar(F::of(self.eps)).sqrt();
            if let Some(gain) = &self.gain {
                y = y * pass.param(gain);
            }
            if let Some(bias) = &self.bias {
                y = y + pass.param(bias);
            }
            y
        })
    }
}

impl<F: Real> Layer<F> for LayerNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(behind(
            params,
            Passage::layer_norm(self.eps),
            self.gain.as_ref(),
            self.bias.as_ref(),
        ))
    }
}

/// The ports of γ ⊙ z + β, where z is the input behind a norm with this `passage`. With γ, the
/// output is a new stream. Without γ, it is the stream of the input behind the norm; a β without γ
/// ends the laws of that stream.
fn behind<F: Real>(
    params: &Params<'_, F>,
    passage: Passage,
    gain: Option<&Tensor<F>>,
    bias: Option<&Tensor<F>>,
) -> Ports {
    let Some(gain) = gain else {
        return match bias {
            None => Ports::passing(passage),
            Some(_) => Ports::passing(passage.then(Passage::BREAKS)),
        };
    };
    let written = std::iter::once(gain).chain(bias);
    Ports {
        writers: written.map(|p| Term::incoming(params.rows(p))).collect(),
        readers: vec![Reader {
            passage,
            terms: vec![Term::outgoing(params.rows(gain))],
            mixes: false,
        }],
        heads: 1,
        mixes: false,
        shifts: bias.map(|b| params.whole(b)).into_iter().collect(),
        offsets: bias.map(|b| params.rows(b)).into_iter().collect(),
        inside: Vec::new(),
    }
}
