//! Layer normalisation.

use super::{behind, check_width};
use crate::autodiff::Var;
use crate::init;
use crate::nn::{Layer, NormContext, Normalizer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Passage, Ports};
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
///
/// The rows (1, 3) and (10, 30) differ in mean and size, which the norm removes: both get the mean 0 and the
/// variance 1.
///
/// ```
/// use emmy::{Tape, nn::{LayerNorm, Pass}, tensor::tensor};
///
/// let norm = LayerNorm::<f64>::plain(0.0);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 2], vec![1.0, 3.0, 10.0, 30.0]));
/// let y = norm.forward(&Pass::eval(&tape, &norm), x);
/// assert_eq!(y.shape(), [2, 2]);
/// assert!(y.value().iter().zip([-1.0, 1.0, -1.0, 1.0]).all(|(y, e)| (y - e).abs() < 1e-12));
/// // With γ and β, which start at 1 and 0, and ε = 10⁻⁵:
/// let affine = LayerNorm::<f64>::new(2);
/// let z = affine.forward(&Pass::eval(&tape, &affine), x);
/// assert!((z - y).abs().max_all().item() < 1e-5);
/// ```
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
        let (gain, bias) = (self.gain.as_ref(), self.bias.as_ref());
        check_width("LayerNorm", &x.shape(), &[("γ", gain), ("β", bias)]);
        pass.call(self, &[x], || {
            let [gain, bias] = [gain, bias].map(|p| p.map(|p| pass.param(p)));
            x.layer_norm(gain, bias, F::of(self.eps))
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

impl<F: Real> Normalizer<F> for LayerNorm<F> {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        self.forward(pass, x)
    }

    fn mixes_rows(&self) -> bool {
        false
    }
}
