//! Normalisation by the root of the mean square.

use super::{behind, check_width};
use crate::autodiff::Var;
use crate::nn::{Layer, NormContext, Normalizer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Passage, Ports};
use crate::tensor::Tensor;

/// y = γ ⊙ x / √(mean x² + ε), the mean over the last axis: LayerNorm without its mean, one sum less per row.
///
/// Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019, Eq. (4), with the ε that
/// implementations add.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]` |
/// | γ | `[d]`; it starts at 1 |
///
/// As PyTorch's `RMSNorm`, whose default ε is the machine epsilon of the type; here it is 10⁻⁶.
///
/// Without γ, the output rotates with x; with ε = 0 it does not depend on the size of a row of x. Hence the
/// laws of the layers that write x: with ε = 0, ⟨W, G⟩ summed over all parameters that write x is zero;
/// without γ, if linear maps read the output, there is a matrix law of rotations. γ is balanced against all
/// parameters that read y.
///
/// The mean square of (1, 7) is 25, so the row is divided by 5. The mean is not subtracted.
///
/// ```
/// use emmy::{Tape, nn::{Pass, RmsNorm}, tensor::tensor};
///
/// let norm = RmsNorm::<f64>::plain(0.0);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 2], vec![1.0, 7.0, 10.0, 70.0]));
/// let y = norm.forward(&Pass::eval(&tape, &norm), x);
/// assert_eq!(y.shape(), [2, 2]);
/// assert!(y.value().iter().zip([0.2, 1.4, 0.2, 1.4]).all(|(y, e)| (y - e).abs() < 1e-12));
/// ```
#[derive(Debug, Clone)]
pub struct RmsNorm<F: Real> {
    /// γ.
    pub gain: Option<Tensor<F>>,
    /// ε.
    pub eps: f64,
}
crate::module!(RmsNorm: gain = Gain as "weight");

impl<F: Real> RmsNorm<F> {
    /// A norm of rows of `width` numbers with γ = 1, ε = 10⁻⁶.
    pub fn new(width: usize) -> Self {
        Self {
            gain: Some(Tensor::ones(vec![width])),
            eps: 1e-6,
        }
    }

    /// A norm without γ.
    pub fn plain(eps: f64) -> Self {
        Self { gain: None, eps }
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has no axis, or its last axis does not have the size of γ.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let gain = self.gain.as_ref();
        check_width("RmsNorm", &x.shape(), &[("γ", gain)]);
        pass.call(self, &[x], || {
            x.rms_norm(gain.map(|g| pass.param(g)), F::of(self.eps))
        })
    }
}

impl<F: Real> Layer<F> for RmsNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let passage = Passage::rms_norm(self.eps);
        Some(behind(params, passage, self.gain.as_ref(), None))
    }
}

impl<F: Real> Normalizer<F> for RmsNorm<F> {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        self.forward(pass, x)
    }

    fn mixes_rows(&self) -> bool {
        false
    }
}
