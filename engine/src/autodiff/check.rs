//! Derivatives against differences: the test of every operation, layer and loss.

use super::{Tape, Var, grad, grad_graph, jvp, vjp};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use ndarray::Dimension;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// The step of a central difference, relative to the size of the argument: the error of the difference, h²
/// times a third derivative, is then near 10⁻¹⁰ of the derivative.
const STEP: f64 = 1e-5;

/// How far a derivative may be from the difference, relative to the largest derivative with respect to that
/// argument.
const TOLERANCE: f64 = 1e-6;

/// The rounding error allowed in a sum, in units of ε times the sum of the sizes of its terms.
const ROUNDING: f64 = 16.0;

/// Checks first and second derivatives of `f` at `args` against central differences, and forward against
/// reverse mode.
///
/// With fixed random weights u and w it forms the scalar s₀ = ⟨u, f(x)⟩ and, from its gradient, the scalar
/// s₁ = ⟨w, ∇s₀(x)⟩. The gradient of each must agree with central differences, entry by entry; and
/// ⟨u, J w⟩ = ⟨Jᵀ u, w⟩ must hold. A first derivative that vanishes with respect to a whole argument is an
/// error too, since it tests nothing. So give arguments away from flat places and from kinks: a difference
/// that crosses a kink is taken again with a step of a hundredth, and no smaller one.
///
/// Numbers of any size are checked alike: the tolerance is 10⁻⁶ of the largest derivative with respect to the
/// same argument, plus the rounding error of the difference, about ε |s| / h. A derivative smaller than this
/// rounding error cannot be checked.
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
    check(&f, args)
}

/// A function on variables. It is called through a pointer, so that the checks are compiled here, once, and
/// not for each function in each program.
pub(super) type Computation<'f> = dyn for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64> + 'f;

fn check(f: &Computation<'_>, args: &[Tensor<f64>]) -> Result<()> {
    let mut flat = vec![true; args.len()];
    let some = compare_derivatives(f, args, &[Order::First], &mut |found| {
        flat[found.argument] &= found.derivative == 0.0;
        found.check()
    })?;
    if let Some(k) = (0..args.len()).find(|&k| some && flat[k] && !args[k].is_empty()) {
        return Err(Error::invalid(
            format!("check_grads: order 1, argument {k}"),
            "a derivative that does not vanish",
            "zeros",
        ));
    }
    let others = [Order::Second, Order::Forward];
    compare_derivatives(f, args, &others, &mut |found| found.check()).map(|_| ())
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// ∇s₀ with differences of s₀.
    First,
    /// ∇s₁, the Hessian of s₀ times w, with differences of s₁.
    Second,
    /// ⟨u, J w⟩ by forward mode with ⟨Jᵀ u, w⟩.
    Forward,
}

/// One derivative beside the number that it is compared with.
#[derive(Debug, Clone)]
pub struct Derivative {
    /// Which derivative.
    pub order: Order,
    /// The number of the argument.
    pub argument: usize,
    /// The place in the argument.
    pub entry: Vec<usize>,
    /// What differences, or reverse mode, say.
    pub expected: f64,
    /// What the derivative is.
    pub derivative: f64,
    /// The largest derivative with respect to the same argument.
    pub scale: f64,
    /// How far they may lie apart.
    pub tolerance: f64,
}

impl Derivative {
    /// Written so that NaN counts as a disagreement.
    pub fn agrees(&self) -> bool {
        (self.expected - self.derivative).abs() <= self.tolerance
    }

    fn check(&self) -> Result<()> {
        if self.agrees() {
            return Ok(());
        }
        let Self {
            order,
            argument,
            entry,
            ..
        } = self;
        let what = match order {
            Order::First => format!("check_grads: order 1, argument {argument}, entry {entry:?}"),
            Order::Second => format!("check_grads: order 2, argument {argument}, entry {entry:?}"),
            Order::Forward => "check_grads: ⟨u, J w⟩ by forward mode".to_owned(),
        };
        let [expected, found] = [self.expected, self.derivative].map(|x| x.to_string());
        Err(Error::invalid(what, expected, found))
    }
}

/// Makes the comparisons of [`check_grads`] of these orders, and gives each to `each`, up to its first error.
/// Returns whether f has an output at all.
pub fn compare_derivatives(
    f: &Computation<'_>,
    args: &[Tensor<f64>],
    orders: &[Order],
    each: &mut dyn FnMut(Derivative) -> Result<()>,
) -> Result<bool> {
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    let mut gauss =
        |shape: &[usize]| Tensor::from_shape_simple_fn(shape, || StandardNormal.sample(rng));
    let tape = Tape::new();
    let constants: Vec<_> = args.iter().map(|x| tape.constant(x.clone())).collect();
    let y = f(&constants).value();
    let u = gauss(y.shape());
    let w: Vec<Tensor<f64>> = args.iter().map(|x| gauss(x.shape())).collect();
    let size = Sum::of([(&u, &y)]).size;

    if orders.contains(&Order::First) {
        compare(Order::First, 0.0, |x| vec![weigh(f(x), &u)], args, each)?;
    }
    if orders.contains(&Order::Second) {
        // The terms of s₁ = ⟨w, ∇s₀⟩.
        compare(
            Order::Second,
            size,
            |x| {
                let gradient = grad_graph(weigh(f(x), &u).sum_all(), x);
                let parts = gradient.into_iter().zip(&w);
                parts.map(|(g, w)| weigh(g, w)).collect()
            },
            args,
            each,
        )?;
    }
    if !orders.contains(&Order::Forward) {
        return Ok(!y.is_empty());
    }
    let narrowest = args.iter().map(scale).fold(f64::INFINITY, f64::min);
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let y = f(&vars);
    let forward = Sum::of([(&u, &jvp(y, &vars, &w))]);
    let reverse = Sum::of(vjp(y, &vars, &u).iter().zip(&w));
    let scale = reverse.size + forward.size;
    each(Derivative {
        order: Order::Forward,
        argument: 0,
        entry: Vec::new(),
        expected: reverse.value,
        derivative: forward.value,
        scale,
        tolerance: 1e-10 * scale + ROUNDING * f64::EPSILON * size / narrowest,
    })?;
    Ok(!y.is_empty())
}

/// The gradient of the scalar that is the sum of all elements of `terms`, held against central differences.
///
/// `below` is the size of the sum whose derivatives the terms are: where its parts cancel, their rounding
/// errors remain.
fn compare<S>(
    order: Order,
    below: f64,
    terms: S,
    args: &[Tensor<f64>],
    each: &mut dyn FnMut(Derivative) -> Result<()>,
) -> Result<()>
where
    S: for<'t> Fn(&[Var<'t, f64>]) -> Vec<Var<'t, f64>>,
{
    let evaluate = |args: &[Tensor<f64>]| {
        let tape = Tape::new();
        let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
        let terms: Vec<_> = terms(&vars).into_iter().map(Var::value).collect();
        Sum::over(terms.iter().flatten().copied())
    };
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let sums = terms(&vars).into_iter().map(Var::sum_all);
    let sum = sums.reduce(|a, b| a + b).expect("at least one argument");
    let gradient = grad(sum, &vars);
    let mut moved = args.to_vec();
    for (k, (x, gradient)) in args.iter().zip(&gradient).enumerate() {
        let size_of_all = largest(gradient);
        let tolerance = TOLERANCE * size_of_all;
        let scale = scale(x);
        for (index, &x0) in x.indexed_iter() {
            let mut quotient = |h: f64| {
                let mut at = |x: f64| {
                    moved[k][&index] = x;
                    evaluate(&moved)
                };
                let (above, under) = (at(x0 + h), at(x0 - h));
                moved[k][&index] = x0;
                let size = (above.size + under.size) / 2.0 + below * STEP / h;
                Quotient {
                    value: (above.value - under.value) / (2.0 * h),
                    noise: ROUNDING * f64::EPSILON * size / h,
                }
            };
            let wide = STEP * (1.0 + x0.abs());
            let mut h = wide.min(STEP * scale);
            let mut found = quotient(h);
            // The function need not be small near a small argument, for example eˣ near 0.
            if found.noise > tolerance && h < wide {
                let other = quotient(wide);
                if other.value.is_finite() {
                    (h, found) = (wide, other);
                }
            }
            // Near a flat place the error of the difference, of order h², can exceed the derivative: use a
            // difference with an error of order h⁴.
            if !found.is(gradient[&index], tolerance) {
                found = found.refined_by(&quotient(2.0 * h));
            }
            // A kink within the difference, as of a ReLU: a smaller step leaves it out, where its rounding
            // error still tells a derivative that is wrong by a thousandth.
            for nearer in [h / 10.0, h / 100.0] {
                if found.is(gradient[&index], tolerance) {
                    break;
                }
                let other = quotient(nearer);
                if other.noise <= 100.0 * tolerance {
                    found = other;
                }
            }
            let compared = Derivative {
                order,
                argument: k,
                entry: index.slice().to_vec(),
                expected: found.value,
                derivative: gradient[&index],
                scale: size_of_all,
                tolerance: tolerance + found.noise,
            };
            each(compared)?;
        }
    }
    Ok(())
}

/// A central difference, and how far rounding may have moved it.
struct Quotient {
    value: f64,
    noise: f64,
}

impl Quotient {
    fn is(&self, derivative: f64, tolerance: f64) -> bool {
        (self.value - derivative).abs() <= tolerance + self.noise
    }

    /// The extrapolation to h = 0 with the quotient of twice the step.
    fn refined_by(&self, far: &Self) -> Self {
        Self {
            value: (4.0 * self.value - far.value) / 3.0,
            noise: (4.0 * self.noise + far.noise) / 3.0,
        }
    }
}

/// A sum, and the sum of the sizes of its terms, to which its rounding error is relative.
struct Sum {
    value: f64,
    size: f64,
}

impl Sum {
    fn over(terms: impl Iterator<Item = f64>) -> Self {
        let (value, size) = terms.fold((0.0, 0.0), |(v, s), x| (v + x, s + x.abs()));
        Self { value, size }
    }

    /// Σ ⟨a, b⟩.
    fn of<'a>(pairs: impl IntoIterator<Item = (&'a Tensor<f64>, &'a Tensor<f64>)>) -> Self {
        let products =
            |(a, b): (&'a Tensor<f64>, &'a Tensor<f64>)| a.iter().zip(b).map(|(a, b)| a * b);
        Self::over(pairs.into_iter().flat_map(products))
    }
}

fn largest(x: &Tensor<f64>) -> f64 {
    x.fold(0.0, |m: f64, x| m.max(x.abs()))
}

/// The size of an argument: that of its largest element; 1 if that is 0.
fn scale(x: &Tensor<f64>) -> f64 {
    match largest(x) {
        0.0 => 1.0,
        scale => scale,
    }
}

/// weights ⊙ y on the tape of y.
fn weigh<'t>(y: Var<'t, f64>, weights: &Tensor<f64>) -> Var<'t, f64> {
    y * y.tape().constant(weights.clone())
}
