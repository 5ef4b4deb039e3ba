//! An affine map whose weight has norm at most 1.

use emmy::Var;
use emmy::init::{self, Rng};
use emmy::nn::{Layer, Params, Pass};
use emmy::real::Real;
use emmy::symmetry::{Law, Ports, Symmetry, Term};
use emmy::tensor::Tensor;

/// y = x (D W)ᵀ + b with D_ii = (Σ_j |W Wᵀ|_ij)^(−½): an affine map with ‖D W‖₂ ≤ 1 for every W. If W has
/// more rows than columns, W D is used in place of D W, with WᵀW in place of W Wᵀ.
///
/// Prach and Lampert, "Almost-Orthogonal Layers for Efficient General-Purpose Lipschitz Networks", ECCV 2022,
/// Theorem 1. D⁻² − W Wᵀ is diagonally dominant, so it is positive semidefinite, and D W Wᵀ D is at most the
/// identity. If the rows of W are orthogonal, the rows of D W are orthonormal, and no smaller divisor would
/// give norm 1. So training makes the rows almost orthogonal if the map needs a large norm. The cost is one
/// product W Wᵀ. Derivatives of any order flow through D.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., in]`, `[.., out]` |
/// | W | `[out, in]` |
/// | b | `[out]` |
///
/// W starts with entries from N(0, 1/in), b at 0. The size of W has no effect: ⟨W, G⟩ = 0, a conservation law
/// of W alone (up to the effect of 10⁻¹², which is added to each sum, so that a row of zeros stays a row of
/// zeros).
#[derive(Debug, Clone)]
pub struct AlmostOrthogonal<F: Real> {
    /// W.
    pub weight: Tensor<F>,
    /// b.
    pub bias: Option<Tensor<F>>,
}
emmy::module!(AlmostOrthogonal: weight = Weight, bias = Bias);

/// The number that is added to each sum of |W Wᵀ|.
const LEAST: f64 = 1e-12;

impl<F: Real> AlmostOrthogonal<F> {
    /// A map from `input` to `out` neurons.
    pub fn new(input: usize, out: usize, bias: bool, rng: &mut Rng) -> Self {
        let std = (input.max(1) as f64).sqrt().recip();
        Self {
            weight: init::normal(&[out, input], std, rng),
            bias: bias.then(|| init::zeros(&[out])),
        }
    }

    /// D W or W D, `[out, in]`.
    pub fn normalized<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let w = pass.param(&self.weight);
        let [out, input] = [0, 1].map(|axis| self.weight.shape()[axis]);
        let (gram, along) = match out <= input {
            true => (w.matmul(w.t()), -1),
            false => (w.t().matmul(w), -2),
        };
        let sums = gram.abs().sum(&[along], true).add_scalar(F::of(LEAST));
        w * sums.powf(F::of(-0.5))
    }

    /// y.
    ///
    /// # Panics
    /// If the last axis of x does not have `in` features.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let (found, input) = (x.shape(), self.weight.shape()[1]);
        assert!(
            found.last() == Some(&input),
            "AlmostOrthogonal: x {found:?}, its last axis must have {input} features"
        );
        pass.call(self, &[x], || {
            let y = x.linear(self.normalized(pass));
            match &self.bias {
                Some(b) => y + pass.param(b),
                None => y,
            }
        })
    }
}

impl<F: Real> Layer<F> for AlmostOrthogonal<F> {
    /// No law is known through D W: a factor of one neuron changes D.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let terms = vec![Term::incoming(params.whole(&self.weight))];
        Some(Ports {
            inside: vec![Law::new("scale", 1, Symmetry::Rescaling, terms)],
            ..Ports::opaque(1)
        })
    }
}
