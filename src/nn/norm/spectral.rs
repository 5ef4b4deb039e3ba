//! Spectral normalisation of a weight.

use crate::autodiff::Var;
use crate::init::{self, Rng};
use crate::kernels::gemm::matmul_batched;
use crate::kernels::reduce;
use crate::nn::{Layer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Law, Ports, Symmetry, Term};
use crate::tensor::{Tensor, contiguous};

/// W / σ with σ = uᵀ W v, an estimate of the largest singular value of W: a map whose norm is kept near 1
/// during the training.
///
/// Miyato, Kataoka, Koyama and Yoshida, "Spectral Normalization for Generative Adversarial Networks", ICLR
/// 2018, Algorithm 1. u and v follow the leading singular vectors by power iteration: u ← W v / ‖W v‖, then v
/// ← Wᵀ u / ‖Wᵀ u‖, once per training pass; in an evaluation they stay. No derivative flows through u and v.
///
/// **σ certifies nothing.** uᵀ W v with unit u and v is at most the largest singular value, whatever u and v
/// are: power iteration approaches it from below. So ‖W / σ‖₂ ≥ 1, and it is near 1 only if the iteration has
/// converged. For upper bounds see [`crate::lipschitz`].
///
/// | letter | shape |
/// |---|---|
/// | W | `[out, in]`, or `[out, ..]`, read as a matrix of `out` rows |
/// | u, v | `[out]`, `[in]`, state |
///
/// As PyTorch's `parametrizations.spectral_norm`: a new layer makes 15 iterations, a pass uses the u and v
/// that it computes, and vectors shorter than 10⁻¹² are divided by 10⁻¹².
///
/// ```
/// use emmy::nn::{Module, Pass, Spectral};
/// use emmy::{Real, Tape, Tensor, Var, init};
///
/// struct Critic<F: Real> {
///     weight: Spectral<F>,
///     bias: Tensor<F>,
/// }
/// emmy::module!(Critic: weight, bias = Bias);
///
/// impl<F: Real> Critic<F> {
///     fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
///         x.linear(self.weight.forward(pass)) + pass.param(&self.bias)
///     }
/// }
///
/// let rng = &mut init::rng(0);
/// let mut critic = Critic::<f64> {
///     weight: Spectral::new(init::normal(&[3, 5], 1.0, rng), rng),
///     bias: init::zeros(&[3]),
/// };
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &critic, 0);
/// let y = critic.forward(&pass, tape.constant(init::normal(&[4, 5], 1.0, rng)));
/// let gradients = pass.gradients(y.tanh().sum_all());
/// pass.into_updates().apply(&mut critic); // u and v
///
/// // The size of W has no effect: ⟨W, G⟩ = 0, a conservation law of W alone.
/// let law: f64 = critic.tensors()[0].iter().zip(&gradients[0]).map(|(w, g)| w * g).sum();
/// assert!(law.abs() < 1e-12);
/// ```
#[derive(Debug, Clone)]
pub struct Spectral<F: Real> {
    /// W.
    pub weight: Tensor<F>,
    /// u.
    pub left: Tensor<F>,
    /// v.
    pub right: Tensor<F>,
}
crate::module!(Spectral: weight = Weight as "original"; state left as "0._u", right as "0._v");

/// Vectors shorter than this are divided by it, not by their length.
const SHORTEST: f64 = 1e-12;

/// Iterations of a new layer.
const FIRST: usize = 15;

impl<F: Real> Spectral<F> {
    /// The normalised `weight`, with u and v from random vectors by 15 iterations.
    ///
    /// # Panics
    /// If the weight has fewer than two axes.
    #[track_caller]
    pub fn new(weight: Tensor<F>, rng: &mut Rng) -> Self {
        let [out, input] = sides(weight.shape());
        let mut new = Self {
            left: unit(&init::normal(&[out], 1.0, rng)),
            right: unit(&init::normal(&[input], 1.0, rng)),
            weight,
        };
        for _ in 0..FIRST {
            (new.left, new.right) = new.iterated(&new.right);
        }
        new
    }

    /// W / σ, with the shape of W.
    ///
    /// # Panics
    /// If u and v do not have the sizes of the sides of W.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let [out, input] = sides(self.weight.shape());
        let found = [&self.left, &self.right].map(|v| v.shape());
        assert!(
            found == [&[out][..], &[input]],
            "Spectral: u and v have shapes {found:?}, W {:?}",
            self.weight.shape()
        );
        pass.call(self, &[], || {
            let w = pass.param(&self.weight);
            let [u, v] = match pass.is_training() {
                true => {
                    let (left, right) = self.iterated(&pass.updated(&self.right));
                    pass.update(&self.left, left.clone());
                    pass.update(&self.right, right.clone());
                    [left, right].map(|x| pass.tape().constant(x))
                }
                false => [&self.left, &self.right].map(|x| pass.state(x)),
            };
            let matrix = w.reshape(&[out, input]);
            let along = u.reshape(&[1, out]).matmul(matrix);
            let sigma = along.matmul(v.reshape(&[input, 1])).sum_all();
            w / sigma
        })
    }

    /// u and v after one iteration.
    fn iterated(&self, right: &Tensor<F>) -> (Tensor<F>, Tensor<F>) {
        let sides = sides(self.weight.shape());
        let matrix = shaped(&self.weight, &sides);
        let [out, input] = sides;
        let left = unit(&matmul_batched(&matrix, &shaped(right, &[input, 1])));
        let right = unit(&matmul_batched(
            &matrix.clone().reversed_axes(),
            &shaped(&left, &[out, 1]),
        ));
        (left, right)
    }
}

impl<F: Real> Layer<F> for Spectral<F> {
    /// No law is known through W / σ: a factor of one neuron changes σ.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let terms = vec![Term::incoming(params.whole(&self.weight))];
        Some(Ports {
            inside: vec![Law::new("scale", 1, Symmetry::Rescaling, terms)],
            ..Ports::opaque(0)
        })
    }
}

/// The number of rows, and that of columns, of a weight read as a matrix.
#[track_caller]
fn sides(shape: &[usize]) -> [usize; 2] {
    assert!(
        shape.len() >= 2,
        "Spectral: a weight of shape {shape:?} is not a matrix"
    );
    [shape[0], shape[1..].iter().product()]
}

fn shaped<F: Real>(x: &Tensor<F>, shape: &[usize]) -> Tensor<F> {
    let x = contiguous(x).into_shape_with_order(shape);
    x.expect("as many elements").into_dyn()
}

/// x / max(‖x‖, 10⁻¹²), as a vector.
fn unit<F: Real>(x: &Tensor<F>) -> Tensor<F> {
    let x = shaped(x, &[x.len()]);
    let size = reduce::sum(&x.mapv(|x| x * x).into_shared(), &[0]);
    let size = size[[0]].sqrt().max(F::of(SHORTEST));
    x.mapv(|x| x / size).into_shared()
}
