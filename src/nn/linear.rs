//! The affine map.

use super::{Input, Layer, Params, Pass};
use crate::autodiff::Var;
use crate::init::{self, Rng};
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;

/// y = x Wᵀ + b.
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]` dense or sparse, or `[.., n, in]` dense |
/// | W | `[out, in]` |
/// | b | `[out]` |
///
/// W starts Xavier-uniform, b starts at 0 (PyTorch's `Linear` draws both from U(−1/√in, 1/√in)).
///
/// ```
/// use emmy::{Tape, init, nn::{Linear, Pass}, tensor::tensor};
///
/// let mut layer = Linear::<f64>::new(2, 3, true, &mut init::rng(0));
/// layer.weight = tensor(&[3, 2], vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
/// layer.bias = Some(tensor(&[3], vec![0.0, 0.0, 100.0]));
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[1, 2], vec![3.0, 4.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x);
/// assert_eq!(y.value(), tensor(&[1, 3], vec![3.0, 4.0, 107.0]));
/// ```
#[derive(Debug, Clone)]
pub struct Linear<F: Real> {
    /// W: row i holds the incoming weights of neuron i.
    pub weight: Tensor<F>,
    /// b.
    pub bias: Option<Tensor<F>>,
}
crate::module!(Linear: weight = Weight, bias = Bias);

impl<F: Real> Linear<F> {
    /// A map from `input` to `out` neurons.
    pub fn new(input: usize, out: usize, bias: bool, rng: &mut Rng) -> Self {
        Self {
            weight: init::xavier_uniform(&[out, input], 1.0, rng),
            bias: bias.then(|| init::zeros(&[out])),
        }
    }

    /// x Wᵀ + b.
    ///
    /// # Panics
    /// If the number of features of x is not the number of columns of W, or b is not one number per row of W.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: impl Into<Input<'t, F>>) -> Var<'t, F> {
        let x = x.into();
        x.check_features("Linear", self.weight.shape()[1]);
        pass.call(self, &[x.var()], || {
            let y = x.linear(pass.param(&self.weight));
            add_bias(pass, y, self.bias.as_ref())
        })
    }
}

impl<F: Real> Layer<F> for Linear<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        Some(affine(params, &self.weight, self.bias.as_ref()))
    }
}

/// The ports of a layer that is an affine map of its input; it may also combine rows, as graph
/// convolution does.
pub(super) fn affine<F: Real>(
    params: &Params<'_, F>,
    weight: &Tensor<F>,
    bias: Option<&Tensor<F>>,
) -> Ports {
    let written = std::iter::once(weight).chain(bias);
    Ports::writes(written.map(|p| params.rows(p))).reads([params.columns(weight)])
}

/// y + b along the last axis. The value of y is [forgotten](Var::forget).
///
/// # Panics
/// If there is not one number per neuron: with one neuron a longer b would be broadcast.
#[track_caller]
pub(super) fn add_bias<'t, F: Real>(
    pass: &Pass<'t, '_, F>,
    y: Var<'t, F>,
    bias: Option<&Tensor<F>>,
) -> Var<'t, F> {
    let Some(b) = bias else { return y };
    let (neurons, found) = (y.shape().last().copied(), b.shape());
    assert!(
        found.len() == 1 && found.first().copied() == neurons,
        "bias: it has the shape {found:?}, and there are {} neurons: it must be one number per neuron",
        neurons.unwrap_or(0)
    );
    y.add_bias(pass.param(b))
}
