//! Derivatives against differences: the test of every operation, layer and loss.

use super::{Tape, Var, grad, grad_graph, jvp, vjp};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use ndarray::Dimension;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The step of a central difference, relative to 1 + |x|: its error, h² times a third derivative plus rounding over h, is near 10⁻¹⁰.
const STEP: f64 = 1e-5;

/// How far a derivative may be from the difference, relative to 1 + the largest derivative by that argument.
const TOLERANCE: f64 = 1e-6;

/// Checks first and second derivatives of `f` at `args` against central differences, and forward against reverse mode.
///
/// With fixed random weights u and w it looks at the scalar s₀ = ⟨u, f(x)⟩ and, of its gradient, at s₁ = ⟨w, ∇s₀(x)⟩. The gradient of
/// each must be that by central differences, entry by entry; and ⟨u, J w⟩ = ⟨Jᵀ u, w⟩ must hold. A first derivative by a whole argument
/// that vanishes is an error too, for it tests nothing; so give arguments away from flat places, and from kinks.
///
/// ```
/// use emmy::{autodiff::check_grads, tensor::tensor};
/// let x = tensor(&[3], vec![0.3, -1.2, 0.8]);
/// check_grads(|x| x[0].tanh() * x[0], &[x])?;
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Errors
/// The first entry that differs, with order, argument, place and both numbers.
pub fn check_grads<G>(f: G, args: &[Tensor<f64>]) -> Result<()>
where
    G: for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>,
{
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    let mut gauss =
        |shape: &[usize]| Tensor::from_shape_simple_fn(shape, || StandardNormal.sample(rng));
    let tape = Tape::new();
    let constants: Vec<_> = args.iter().map(|x| tape.constant(x.clone())).collect();
    let u = gauss(&f(&constants).shape());
    let w: Vec<Tensor<f64>> = args.iter().map(|x| gauss(x.shape())).collect();

    let first = compare(1, |x| weigh(f(x), &u), args)?;
    if !u.is_empty() {
        for (k, gradient) in first.iter().enumerate() {
            if !gradient.is_empty() && gradient.iter().all(|&g| g == 0.0) {
                return Err(Error::invalid(
                    format!("check_grads: order 1, argument {k}"),
                    "a derivative that does not vanish",
                    "zeros",
                ));
            }
        }
    }
    compare(
        2,
        |x| {
            let gradient = grad_graph(weigh(f(x), &u), x);
            let parts = gradient.into_iter().zip(&w).map(|(g, w)| weigh(g, w));
            parts.reduce(|a, b| a + b).expect("at least one argument")
        },
        args,
    )?;

    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let y = f(&vars);
    let forward = dot(&u, &jvp(y, &vars, &w));
    let reverse: f64 = vjp(y, &vars, &u)
        .iter()
        .zip(&w)
        .map(|(g, w)| dot(g, w))
        .sum();
    agree(
        "check_grads: ⟨u, J w⟩ by forward mode",
        reverse,
        forward,
        1e-10 * (1.0 + reverse.abs()),
    )
}

/// The gradient of the scalar `s`, held against central differences.
fn compare<S>(order: usize, s: S, args: &[Tensor<f64>]) -> Result<Vec<Tensor<f64>>>
where
    S: for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>,
{
    let evaluate = |args: &[Tensor<f64>]| {
        let tape = Tape::new();
        let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
        s(&vars).item()
    };
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let gradient = grad(s(&vars), &vars);
    let mut moved = args.to_vec();
    for (k, (x, gradient)) in args.iter().zip(&gradient).enumerate() {
        let size = gradient.fold(0.0_f64, |m, g| m.max(g.abs()));
        for (index, &x0) in x.indexed_iter() {
            let h = STEP * (1.0 + x0.abs());
            let mut at = |x: f64| {
                moved[k][&index] = x;
                evaluate(&moved)
            };
            let difference = (at(x0 + h) - at(x0 - h)) / (2.0 * h);
            moved[k][&index] = x0;
            let what = format!(
                "check_grads: order {order}, argument {k}, entry {:?}",
                index.slice()
            );
            agree(
                &what,
                difference,
                gradient[&index],
                TOLERANCE * (1.0 + size),
            )?;
        }
    }
    Ok(gradient)
}

/// ⟨weights, y⟩ on the tape of y.
fn weigh<'t>(y: Var<'t, f64>, weights: &Tensor<f64>) -> Var<'t, f64> {
    (y * y.tape().constant(weights.clone())).sum_all()
}

fn dot(a: &Tensor<f64>, b: &Tensor<f64>) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Written so that NaN disagrees.
fn agree(what: &str, expected: f64, found: f64, tolerance: f64) -> Result<()> {
    if (expected - found).abs() <= tolerance {
        return Ok(());
    }
    Err(Error::invalid(
        what,
        expected.to_string(),
        found.to_string(),
    ))
}
