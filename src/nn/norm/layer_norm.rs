//! Layer normalisation.

use crate::autodiff::Var;
use crate::init;
use crate::nn::{Layer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Passage, Ports, Reader, Term};
use crate::tensor::Tensor;

/// y = γ ⊙ (x − mean x) / √(var x + ε) + β, mean and variance over the last axis: every row has the same
/// size, whatever its layer before made of it.
///
/// Ba, Kiros and Hinton, "Layer Normalization", 2016, Eq. (4). The variance is that of the d numbers, divided
/// by d, as in PyTorch.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]` |
/// | γ, β | `[d]`; they start at 1 and 0 |
///
/// What is subtracted and divided by cannot be seen behind it, hence two conservation laws of the layers
/// before: the gradient of each sums to zero over the neurons, and with ε = 0 ⟨W, G⟩ summed over all that
/// writes x is zero. γ and β are balanced against all that reads y.
#[derive(Debug, Clone)]
pub struct LayerNorm<F: Real> {
    /// γ.
    pub gain: Option<Tensor<F>>,
    /// β.
    pub bias: Option<Tensor<F>>,
    /// ε; PyTorch's default is 10⁻⁵.
    pub eps: f64,
}
crate::module!(LayerNorm: gain = Gain, bias = Bias);

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

    /// y, of the shape of x.
    ///
    /// # Panics
    /// If x has no axis, or its last axis has not the size of γ and β.
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

/// The ports of γ ⊙ z + β behind a norm that does `passage` to its input. With γ the output is a stream of
/// its own; without, it is the input behind the norm, and a β alone ends it.
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
