//! Muon: steps whose matrices are orthogonal.

use super::{AdamW, Parameter, Rates, Rule};
use crate::error::{Result, Rules};
use crate::kernels::gemm::matmul;
use crate::kernels::update::{average, combine, sum_of_squares};
use crate::nn::Role;
use crate::real::Real;
use ndarray::{Array2, ArrayView2};
use serde::{Deserialize, Serialize};

/// Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024) for matrices,
/// AdamW for every other parameter.
///
/// m ← μ m + (1 − μ) g,   u = μ m + (1 − μ) g (Nesterov; without it u = m),
///
/// p ← (1 − η λ) p − η √max(1, rows / columns) · O,   O ≈ U Vᵀ for the singular value decomposition u = U S
/// Vᵀ.
///
/// A step moves every direction of a matrix by about the same amount; a gradient alone hardly moves the
/// directions of small singular values.
///
/// *Newton–Schulz.* O comes from X = u / ‖u‖ by five steps of X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X with (a,
/// b, c) = (3.4445, −4.7750, 2.0315). These coefficients raise small singular values fast and do not
/// converge: singular values of O lie between about 0.7 and 1.2.
///
/// *Matrices* are the parameters with the role [`Role::Weight`] and two axes, `[out, in]`; the
/// [`Optimizer`](super::Optimizer) knows roles from the model. Biases, gains, tables, attention vectors and
/// weights of skip connections have AdamW, with the learning rate `rest` · η. Jordan et al. leave the first
/// and the last matrix of a network to AdamW too; here they are matrices like the others.
///
/// PyTorch's `torch.optim.Muon` (2.9) has the same update and, by default (`adjust_lr_fn="original"`), the
/// same scale. It computes O in `bfloat16`; here O has the type of the parameter.
///
/// *State.* m of a matrix; AdamW's two vectors of any other parameter.
///
/// ```
/// use emmy::nn::{Activation, Mlp};
/// use emmy::optim::{Algorithm, Optimizer};
/// use emmy::{init, train};
///
/// let x = init::normal::<f64>(&[20, 4], 1.0, &mut init::rng(0));
/// let mut net = Mlp::<f64>::new(&[4, 8, 1], Activation::Tanh, true, &mut init::rng(1));
/// let mut optimizer = Optimizer::new(Algorithm::MUON);
/// let mut losses = Vec::new();
/// for seed in 0..100 {
///     losses.push(train::step(&mut net, &mut optimizer, 0.02, seed, |net, pass| {
///         let x = pass.tape().constant(x.clone());
///         (net.forward(pass, x) - x.sum(&[-1], true)).square().mean_all()
///     })?);
/// }
/// assert!(losses[99] < 0.1 * losses[0]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Muon {
    /// μ
    pub momentum: f64,
    /// Whether to look ahead.
    pub nesterov: bool,
    /// The number of steps of Newton–Schulz
    pub steps: usize,
    /// The learning rate of the other parameters, as a factor of η
    pub rest: f64,
    /// The rule of the other parameters.
    pub adamw: AdamW,
}

impl Muon {
    /// The constants of the authors: μ = 0.95 with Nesterov's look-ahead, five steps; for the other
    /// parameters 0.015 η (3·10⁻⁴ beside 0.02) and AdamW with β₁ = 0.9, β₂ = 0.95, ε = 10⁻¹⁰.
    pub const DEFAULT: Self = Self {
        momentum: 0.95,
        nesterov: true,
        steps: 5,
        rest: 0.015,
        adamw: AdamW {
            beta1: 0.9,
            beta2: 0.95,
            eps: 1e-10,
        },
    };
}

/// a, b, c of the polynomial of Newton–Schulz.
const COEFFICIENTS: [f64; 3] = [3.4445, -4.7750, 2.0315];

/// The least norm that u is divided by, as PyTorch's.
const LEAST_NORM: f64 = 1e-7;

/// The most steps of Newton–Schulz, as PyTorch's.
const MOST_STEPS: usize = 99;

/// Rows and columns of a matrix; `None` for a parameter that has AdamW.
fn matrix(of: Parameter<'_>) -> Option<(usize, usize)> {
    match (of.role, of.shape) {
        (Role::Weight, &[rows, columns]) => Some((rows, columns)),
        _ => None,
    }
}

impl Rule for Muon {
    /// 0 ≤ μ < 1, Nesterov only with momentum, 1 to 99 steps, 0 ≤ rest; and the rules of AdamW.
    fn validate(&self) -> Result<()> {
        let (rules, mu) = (Rules("Muon"), self.momentum);
        rules.hold((0.0..1.0).contains(&mu), "momentum", "0 ≤ μ < 1", mu)?;
        let holds = !self.nesterov || mu > 0.0;
        rules.hold(holds, "Nesterov's look-ahead", "momentum", "none")?;
        let holds = (1..=MOST_STEPS).contains(&self.steps);
        let rule = "1 to 99 steps of Newton–Schulz";
        rules.hold(holds, "steps", rule, self.steps)?;
        rules.from_zero("rest", self.rest)?;
        self.adamw.validate()
    }

    fn start<F: Real>(&self, of: Parameter<'_>, p: &[F]) -> Vec<Vec<F>> {
        match matrix(of) {
            Some(_) => vec![vec![F::zero(); p.len()]],
            None => self.adamw.start(of, p),
        }
    }

    fn update<F: Real>(
        &self,
        of: Parameter<'_>,
        p: &mut [F],
        g: &[F],
        state: &mut [Vec<F>],
        at: Rates,
    ) {
        let Some((rows, columns)) = matrix(of) else {
            let lr = self.rest * at.lr;
            return self.adamw.update(of, p, g, state, Rates { lr, ..at });
        };
        let mut u = vec![F::zero(); g.len()];
        let mu = F::of(self.momentum);
        let ahead = if self.nesterov { mu } else { F::one() };
        average(&mut state[0], &mut u, g, [F::one() - mu, ahead]);
        let orthogonal = orthogonalised(&u, (rows, columns), self.steps);
        let orthogonal = orthogonal.as_slice().expect("contiguous");
        let shrink = F::of(1.0 - at.lr * at.decay);
        let scale = (rows as f64 / columns as f64).max(1.0).sqrt();
        combine(p, orthogonal, [shrink, F::of(-at.lr * scale)]);
    }
}

/// The matrix whose singular vectors are those of u and whose singular values are all about 1; zero for u =
/// 0.
fn orthogonalised<F: Real>(u: &[F], shape: (usize, usize), steps: usize) -> Array2<F> {
    let [a, b, c] = COEFFICIENTS.map(F::of);
    let u = ArrayView2::from_shape(shape, u).expect("as long as the shape says");
    let wide = match shape.0 > shape.1 {
        true => u.reversed_axes(),
        false => u,
    };
    let norm = sum_of_squares(u.as_slice().expect("row-major")).sqrt();
    let norm = F::of(norm.max(LEAST_NORM));
    let mut x = wide.as_standard_layout().into_owned();
    x.iter_mut().for_each(|x| *x /= norm);
    let add = |to: &mut Array2<F>, from: &Array2<F>, factors| {
        let to = to.as_slice_mut().expect("row-major");
        combine(to, from.as_slice().expect("row-major"), factors);
    };
    for _ in 0..steps {
        let gram = matmul(x.view(), x.t());
        let mut factor = matmul(gram.view(), gram.view());
        add(&mut factor, &gram, [c, b]);
        let y = matmul(factor.view(), x.view());
        add(&mut x, &y, [a, F::one()]);
    }
    match shape.0 > shape.1 {
        true => x.reversed_axes().as_standard_layout().into_owned(),
        false => x,
    }
}
