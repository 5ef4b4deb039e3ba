//! Graph normalisation.

use super::{affine, behind, check_width, row_axes};
use crate::autodiff::Var;
use crate::init;
use crate::nn::{Layer, NormContext, Normalizer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Change, Passage, Ports, Way};
use crate::tensor::Tensor;

/// y = γ ⊙ c / √(mean c² + ε) + β with c = x − α ⊙ mean x, the means of each feature over the nodes: like
/// batch normalisation, but only a learnt share α of the mean is subtracted, since the mean of a feature over
/// a graph is information about the graph.
///
/// Cai, Luo, Xu, He, Liu and Wang, "GraphNorm: A Principled Approach to Accelerating Graph Neural Network
/// Training", ICML 2021.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]`; all axes but the last number the nodes |
/// | α, γ | `[d]`; they start at 1 |
/// | β | `[d]`; it starts at 0 |
///
/// As PyTorch Geometric's `GraphNorm`, which also takes several graphs at once; here x is one graph. A
/// training pass does not differ from an evaluation.
///
/// With ε = 0 the output does not depend on the factor of a feature. Hence a conservation law of the layers
/// that write x: with ε = 0, ⟨W\[j,:\], G⟩ is zero for each neuron j. Unless α = 1, the output depends on an
/// offset of a feature. γ and β are balanced against all parameters that read y.
///
/// One feature, 1 and 7 at two nodes. With α = 1 the mean 4 is subtracted, and the rest ∓3 is divided by 3;
/// with α = 0 only the size is removed, √(mean x²) = 5.
///
/// ```
/// use emmy::{Tape, nn::{GraphNorm, Pass}, tensor::tensor};
///
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![1.0, 7.0]));
/// let mut norm = GraphNorm::<f64> { eps: 0.0, ..GraphNorm::new(1) };
/// let y = norm.forward(&Pass::eval(&tape, &norm), x);
/// assert_eq!(y.value(), tensor(&[2, 1], vec![-1.0, 1.0]));
/// norm.share.fill(0.0);
/// let y = norm.forward(&Pass::eval(&tape, &norm), x);
/// assert_eq!(y.value(), tensor(&[2, 1], vec![0.2, 1.4]));
/// ```
#[derive(Debug, Clone)]
pub struct GraphNorm<F: Real> {
    /// γ.
    pub gain: Tensor<F>,
    /// β.
    pub bias: Tensor<F>,
    /// α.
    pub share: Tensor<F>,
    /// ε; PyTorch Geometric's default is 10⁻⁵.
    pub eps: f64,
}
crate::module!(GraphNorm: gain = Gain as "weight", bias = Bias, share = Gain as "mean_scale");

impl<F: Real> GraphNorm<F> {
    /// A norm of `width` features with γ = 1, β = 0, α = 1, ε = 10⁻⁵.
    pub fn new(width: usize) -> Self {
        Self {
            gain: Tensor::ones(vec![width]),
            bias: init::zeros(&[width]),
            share: Tensor::ones(vec![width]),
            eps: 1e-5,
        }
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has fewer than two axes, or its last axis does not have the size of γ, β and α.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let shape = x.shape();
        let nodes = row_axes("GraphNorm", &shape);
        let [gain, bias, share] = [&self.gain, &self.bias, &self.share].map(Some);
        check_width(
            "GraphNorm",
            &shape,
            &[("γ", gain), ("β", bias), ("α", share)],
        );
        pass.call(self, &[x], || {
            let c = x - x.mean(&nodes, true) * pass.param(&self.share);
            let size = c.square().mean(&nodes, true);
            let z = c / size.add_scalar(F::of(self.eps)).sqrt();
            affine(pass, z, gain, bias)
        })
    }
}

impl<F: Real> Layer<F> for GraphNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let passage = Passage::feature_norm(self.eps).with(Change::Offset, Way::Breaks);
        Some(behind(params, passage, Some(&self.gain), Some(&self.bias)))
    }
}

impl<F: Real> Normalizer<F> for GraphNorm<F> {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        self.forward(pass, x)
    }
}
