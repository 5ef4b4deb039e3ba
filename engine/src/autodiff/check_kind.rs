//! What an operation says of itself against numbers.

use super::check::Computation;
use super::{Choice, Function, Kind, Map, Tape, Var, grad, jacobian};
use crate::error::{Error, Result};
use crate::linalg::Lp;
use crate::tensor::{Tensor, tensor};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Rounding errors, relative to the numbers that are compared.
const ROUNDING: f64 = 1e-9;

/// The number of arguments at which a function is tried.
const TRIED: usize = 2001;

/// Compares what an operation says of itself, its [`Kind`], with numbers.
///
/// `f` is one operation on its arguments. A [`Function`] of each entry must have its degree at several
/// scales, its range and growth, difference quotients and derivatives within its slopes, everywhere, on
/// intervals and at points: at the entries of the argument, and at 2001 arguments around them, of their sign
/// if they have the same. A [`Map`] must be linear, and the norms of a user's own map at least those of its
/// matrix. Sums, products and choices must be what they are called. An operation with a declared bound is
/// checked without it.
///
/// Returns whether there was a claim to compare: not for an operation that says nothing of itself, nor for
/// kinds that only this crate's own operations have, such as a softmax.
///
/// ```
/// use emmy::autodiff::{Function, check_kind};
/// use emmy::{Var, kernels::map, tensor::tensor};
///
/// // sin x, with a false claim: its smallest slope is −1.
/// fn wrong(x: Var<'_, f64>) -> Var<'_, f64> {
///     let function = Function { slopes: [0.0, 1.0], ..Function::named("sine") };
///     x.unary(function, map::unary(&x.value(), f64::sin), |p| p.gy() * p.x().cos())
/// }
/// let error = check_kind(|x| wrong(x[0]), &[tensor(&[2], vec![0.5, 3.0])]).unwrap_err();
/// assert!(error.to_string().contains("`sine`: slope"));
/// ```
///
/// # Errors
/// The first claim that is false, with the arguments and both numbers; if `f` is not one operation on its
/// arguments.
pub fn check_kind<G>(f: G, args: &[Tensor<f64>]) -> Result<bool>
where
    G: for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>,
{
    check(&f, args)
}

fn check(f: &Computation<'_>, args: &[Tensor<f64>]) -> Result<bool> {
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let y = f(&vars);
    let is_argument = |id: usize| vars.iter().any(|v| v.id == id);
    let kind = {
        let mut node = tape.node(y.id);
        while let Kind::Declared(_) = node.kind
            && !is_argument(node.args[0])
        {
            node = tape.node(node.args[0]);
        }
        let single = node.args.iter().all(|&a| is_argument(a));
        if !single || is_argument(y.id) {
            return Err(Error::invalid(
                "check_kind",
                "one operation on the arguments",
                format!("`{}` on results of other operations", node.kind.name()),
            ));
        }
        node.kind.clone()
    };
    let y = y.value();
    let (name, of) = (kind.name(), |x: &[Tensor<f64>]| value(f, x));
    let compared = match kind {
        Kind::Entrywise(function) if claims_nothing(&function) => return Ok(false),
        Kind::Entrywise(function) => entrywise(f, &function, &args[0]),
        Kind::Linear(map) => linear(f, &map, &args[0]),
        Kind::Alias | Kind::Declared(_) => same(name, &y, &args[0]),
        Kind::Scale(c) => same(name, &y, &(&args[0] * c)),
        Kind::AddScalar(c) => same(name, &y, &(&args[0] + c)),
        Kind::Add => same(name, &y, &(&args[0] + &args[1])),
        Kind::Subtract => same(name, &y, &(&args[0] - &args[1])),
        Kind::Multiply => same(name, &y, &(&args[0] * &args[1])),
        Kind::Divide => same(name, &y, &(&args[0] / &args[1])),
        Kind::Choice(Choice::Where) => {
            // Linear in both, and from a = b = x comes x.
            let ones: Vec<_> = args.iter().map(|x| x.mapv(|_| 1.0).into_shared()).collect();
            same(name, &of(&ones), &y.mapv(|_| 1.0))
        }
        Kind::Choice(choice) => {
            let (a, b) = (broadcast(&args[0], &y), broadcast(&args[1], &y));
            let pick = match choice {
                Choice::Maximum => f64::max,
                _ => f64::min,
            };
            same(
                name,
                &y,
                &ndarray::Zip::from(&a)
                    .and(&b)
                    .map_collect(|&a, &b| pick(a, b)),
            )
        }
        Kind::Variable
        | Kind::Constant
        | Kind::Dropout { .. }
        | Kind::Concat { .. }
        | Kind::MatMul { .. }
        | Kind::SparseProduct { .. }
        | Kind::SampledProduct(_)
        | Kind::Extremum { .. }
        | Kind::SegmentMax
        | Kind::Softmax
        | Kind::LogSoftmax
        | Kind::LogSumExp
        | Kind::SegmentSoftmax
        | Kind::RowNorm { .. }
        | Kind::Attention { .. }
        | Kind::EdgeAttention { .. }
        | Kind::Opaque(_) => return Ok(false),
    };
    compared.map(|()| true)
}

/// Whether only the name of a function is known.
fn claims_nothing(function: &Function) -> bool {
    let infinite = |[low, high]: [f64; 2]| low == f64::NEG_INFINITY && high == f64::INFINITY;
    let claims = [function.degree, function.power, function.growth];
    claims.iter().all(Option::is_none)
        && infinite(function.slopes)
        && infinite(function.range)
        && function.slope_at(0.5).iter().all(|slope| slope.is_nan())
}

fn value(f: &Computation<'_>, args: &[Tensor<f64>]) -> Tensor<f64> {
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    f(&vars).value()
}

fn broadcast(x: &Tensor<f64>, y: &Tensor<f64>) -> Tensor<f64> {
    let x = x.broadcast(y.raw_dim()).expect("it was broadcast before");
    x.to_owned().into_shared()
}

/// Whether the value is what the kind says.
fn same<S>(
    name: &str,
    y: &Tensor<f64>,
    expected: &ndarray::ArrayBase<S, ndarray::IxDyn>,
) -> Result<()>
where
    S: ndarray::Data<Elem = f64>,
{
    let close = |(a, b): (&f64, &f64)| near(*a, *b, a.abs() + b.abs());
    if y.shape() == expected.shape() {
        let Some((found, expected)) = y.iter().zip(expected).find(|&pair| !close(pair)) else {
            return Ok(());
        };
        return Err(claim(name, "value", expected, found));
    }
    Err(claim(
        name,
        "shape",
        format!("{:?}", expected.shape()),
        format!("{:?}", y.shape()),
    ))
}

fn near(a: f64, b: f64, scale: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= ROUNDING * scale
}

fn claim(
    name: &str,
    what: impl std::fmt::Display,
    expected: impl std::fmt::Display,
    found: impl std::fmt::Display,
) -> Error {
    Error::invalid(
        format!("check_kind: `{name}`: {what}"),
        expected.to_string(),
        found.to_string(),
    )
}

/// A function of each entry.
fn entrywise(f: &Computation<'_>, function: &Function, x: &Tensor<f64>) -> Result<()> {
    let name = function.name;
    let of = |x: &[f64]| -> Vec<f64> {
        let y = value(f, &[tensor(&[x.len()], x.to_vec())]);
        y.iter().copied().collect()
    };
    let mut arguments: Vec<f64> = x.iter().copied().filter(|x| x.is_finite()).collect();
    let most = arguments.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let most = if most == 0.0 { 1.0 } else { most };
    let low = match arguments.iter().all(|&x| x > 0.0) {
        true => 0.01 * most,
        false => -3.0 * most,
    };
    let step = (3.0 * most - low) / (TRIED - 1) as f64;
    arguments.extend((0..TRIED).map(|k| low + step * k as f64));
    arguments.sort_by(f64::total_cmp);
    arguments.dedup();
    let values = of(&arguments);

    if let Some(k) = function.degree {
        for scale in [0.25, 0.7, 1.5, 4.0f64] {
            let scaled: Vec<f64> = arguments.iter().map(|x| scale * x).collect();
            for ((x, y), found) in arguments.iter().zip(&values).zip(of(&scaled)) {
                let expected = scale.powf(k) * y;
                if !near(found, expected, found.abs() + expected.abs()) {
                    let what = format!("degree {k}, value at {scale} · {x}");
                    return Err(claim(name, what, expected, found));
                }
            }
        }
    }
    for (&x, &y) in arguments.iter().zip(&values) {
        let power = function.power.map_or(y, |k| x.powf(k));
        if !near(y, power, y.abs() + power.abs()) {
            return Err(claim(name, format!("power, value at {x}"), power, y));
        }
        let [low, high] = function.range;
        if !(y.is_nan() || within(y, [low, high], ROUNDING * y.abs())) {
            let expected = format!("{low} to {high}");
            return Err(claim(name, format!("range, value at {x}"), expected, y));
        }
        if let Some(c) = function
            .growth
            .filter(|c| y.abs() > c * x.abs() * (1.0 + ROUNDING))
        {
            let expected = format!("at most {c} · {x} in size");
            return Err(claim(name, format!("growth, value at {x}"), expected, y));
        }
    }

    // Quotients of neighbours, and of arguments that are further apart.
    for apart in [1, 7, 101, 997] {
        for k in apart..arguments.len() {
            let [a, b] = [arguments[k - apart], arguments[k]];
            let [fa, fb] = [values[k - apart], values[k]];
            let quotient = (fb - fa) / (b - a);
            let noise =
                ROUNDING * quotient.abs() + 8.0 * f64::EPSILON * (fa.abs() + fb.abs()) / (b - a);
            for slopes in [function.slopes_on(a, b), function.slopes] {
                if !(quotient.is_nan() || within(quotient, slopes, noise)) {
                    let what = format!("slope between {a} and {b}");
                    let [low, high] = slopes;
                    return Err(claim(name, what, format!("{low} to {high}"), quotient));
                }
            }
        }
    }
    // The derivative at a point.
    let tape = Tape::new();
    let x = tape.var(arguments.clone());
    let slopes = grad(f(&[x]).sum_all(), &[x]).swap_remove(0);
    for (&x, &found) in arguments.iter().zip(&slopes) {
        let [low, high] = function.slope_at(x);
        let known = !(low.is_nan() || found.is_nan());
        if known && !within(found, [low, high], ROUNDING * (1.0 + found.abs())) {
            let expected = format!("{low} to {high}");
            return Err(claim(name, format!("slope at {x}"), expected, found));
        }
    }
    Ok(())
}

fn within(x: f64, [low, high]: [f64; 2], error: f64) -> bool {
    low - error <= x && x <= high + error
}

/// A linear map: f(a x + b z) = a f(x) + b f(z), and the norms of a user's own.
fn linear(f: &Computation<'_>, map: &Map, x: &Tensor<f64>) -> Result<()> {
    let name = map.name();
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    let z = Tensor::from_shape_simple_fn(x.raw_dim(), || StandardNormal.sample(rng));
    let (a, b) = (0.7, -1.9);
    let joined = (x * a + &z * b).into_shared();
    let [fx, fz, found] = [x, &z, &joined].map(|x| value(f, std::slice::from_ref(x)));
    let terms = fx.iter().zip(&fz).zip(&found);
    for ((fx, fz), &found) in terms {
        let expected = a * fx + b * fz;
        if !near(found, expected, (a * fx).abs() + (b * fz).abs()) {
            return Err(claim(
                name,
                "linearity, value of 0.7 x − 1.9 z",
                expected,
                found,
            ));
        }
    }
    let Map::Own { norms, .. } = map else {
        return Ok(());
    };
    let tape = Tape::new();
    let x = tape.var(x.clone());
    let y = f(&[x]);
    let matrix = jacobian(y, x)
        .into_shape_with_order((y.len(), x.len()))
        .expect("a matrix");
    for (p, &claimed) in Lp::ALL.into_iter().zip(norms) {
        let norm = p.matrix(matrix.view()).get();
        if norm > claimed * (1.0 + ROUNDING) || claimed.is_nan() {
            let what = format!("norm for p = {p}");
            return Err(claim(name, what, format!("at least {norm}"), claimed));
        }
    }
    Ok(())
}
