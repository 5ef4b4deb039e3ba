//! What a function of one number says of itself is all that numbers show: a fact that is left out costs a
//! bound or a law, and no check of what is said would notice.

use crate::registry::{Sampler, operations};
use emmy::autodiff::{Function, Kind, grad, grad_graph};
use emmy::tensor::tensor;
use emmy::{Real, Tape, Var};
use std::collections::BTreeSet;

/// A function in both types of numbers.
struct Case {
    name: &'static str,
    f64: for<'t> fn(Var<'t, f64>) -> Var<'t, f64>,
    f32: for<'t> fn(Var<'t, f32>) -> Var<'t, f32>,
    /// Whether it is defined for negative arguments.
    negative: bool,
}

macro_rules! case {
    ($name:literal, $negative:literal, |$x:ident| $y:expr) => {
        Case {
            name: $name,
            f64: |$x| $y,
            f32: |$x| $y,
            negative: $negative,
        }
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!("power 0", true, |x| x.powf(0.0)),
        case!("power 1", true, |x| x.powf(1.0)),
        case!("power 2", true, |x| x.powf(2.0)),
        case!("power 3", true, |x| x.powf(3.0)),
        case!("power -1", true, |x| x.powf(-1.0)),
        case!("power 2.5", false, |x| x.powf(2.5)),
        case!("exp", true, |x| x.exp()),
        case!("ln", false, |x| x.ln()),
        case!("sqrt", false, |x| x.sqrt()),
        case!("sqrt_or_zero", false, |x| x.sqrt_or_zero()),
        case!("recip_or_zero", true, |x| x.recip_or_zero()),
        case!("abs", true, |x| x.abs()),
        case!("sin", true, |x| x.sin()),
        case!("cos", true, |x| x.cos()),
        case!("tanh", true, |x| x.tanh()),
        case!("sigmoid", true, |x| x.sigmoid()),
        case!("relu", true, |x| x.relu()),
        case!("leaky_relu 0.25", true, |x| x.leaky_relu(0.25)),
        case!("leaky_relu -3", true, |x| x.leaky_relu(-3.0)),
        case!("elu 1", true, |x| x.elu(1.0)),
        case!("elu -0.5", true, |x| x.elu(-0.5)),
        case!("elu 2", true, |x| x.elu(2.0)),
        case!("gelu", true, |x| x.gelu()),
        case!("gelu_tanh", true, |x| x.gelu_tanh()),
        case!("silu", true, |x| x.silu()),
        case!("mish", true, |x| x.mish()),
        case!("softplus", true, |x| x.softplus()),
        case!("clamp", true, |x| x.clamp(-0.5, 2.0)),
        case!("hardtanh", true, |x| x.hardtanh()),
        case!("normal_cdf", true, |x| x.normal_cdf()),
        // The derivative of the one above, which nothing else records.
        case!("normal_density", true, |x| {
            grad_graph(x.normal_cdf().sum_all(), &[x])[0]
        }),
    ]
}

/// The functions that do not say between which arguments their slope is monotone. For sin and cos these are
/// infinitely many, for clamp and hardtanh their own limits; for the last two there is no proof of them here.
const NO_TURNS: [&str; 6] = ["sin", "cos", "clamp", "hardtanh", "gelu_tanh", "mish"];

/// Arguments of sizes from 10^`low` to 10^`high`, 100 per decade, 0, and if defined their negatives.
fn arguments(case: &Case, low: i32, high: i32) -> Vec<f64> {
    // Between powers of ten, at which some of the cases have their kinks.
    let sizes = (100 * low..100 * high).map(|k| 10f64.powf((f64::from(k) + 0.5) / 100.0));
    match case.negative {
        true => sizes.flat_map(|x| [-x, x]).chain([0.0]).collect(),
        false => sizes.collect(),
    }
}

/// What the function says of itself, its values and its derivatives.
fn run<F: Real>(f: for<'t> fn(Var<'t, F>) -> Var<'t, F>, x: &[F]) -> (Function, Vec<F>, Vec<F>) {
    let tape = Tape::new();
    let x = tape.var(tensor(&[x.len()], x.to_vec()));
    let y = f(x);
    let function_of = |id| match tape.node(id).kind {
        Kind::Entrywise(function) => Some(function),
        _ => None,
    };
    let last = (0..=y.id()).rev().find_map(function_of);
    let function = last.expect("a function of each entry");
    let slopes = grad(y.sum_all(), &[x]).swap_remove(0);
    let numbers = |values: &emmy::Tensor<F>| values.iter().copied().collect();
    (function, numbers(&y.value()), numbers(&slopes))
}

/// The smallest and the largest number.
fn ends(values: &[f64]) -> [f64; 2] {
    let finite = values.iter().filter(|x| !x.is_nan());
    finite.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &x| {
        [low.min(x), high.max(x)]
    })
}

/// The limits that numbers show: those of all arguments, where those of moderate arguments are nearly the
/// same; infinite where values grow with the argument, or towards 0.
fn limits(moderate: &[f64], all: &[f64]) -> [f64; 2] {
    let (near, far) = (ends(moderate), ends(all));
    let settled = |k: usize| (near[k] - far[k]).abs() <= 1e-3 * (1.0 + near[k].abs());
    [
        if settled(0) {
            far[0]
        } else {
            f64::NEG_INFINITY
        },
        if settled(1) { far[1] } else { f64::INFINITY },
    ]
}

#[test]
fn every_registered_function_is_tried() {
    let tried: BTreeSet<_> = cases()
        .iter()
        .map(|case| run(case.f64, &[0.5]).0.name)
        .collect();
    for operation in operations() {
        let case = (operation.draw)(&mut Sampler::new(0));
        let tape = Tape::new();
        let args: Vec<_> = case.args.iter().map(|x| tape.var(x.clone())).collect();
        let y = (case.function.f64)(&args);
        if let Kind::Entrywise(function) = &tape.node(y.id()).kind {
            assert!(tried.contains(function.name), "{}", function.name);
        }
    }
}

/// `said` contains `shown`, and is not wider but for the distance of the tried arguments.
fn assert_as_sharp(name: &str, what: &str, said: [f64; 2], shown: [f64; 2]) {
    let apart = [shown[0] - said[0], said[1] - shown[1]];
    let slack = shown.map(|x| 2e-3 * (1.0 + x.abs()));
    assert!(
        (0..2).all(|k| -1e-9 <= apart[k] && apart[k] <= slack[k]),
        "{name} says {what} {said:?}, numbers show {shown:?}"
    );
}

#[test]
fn a_function_says_the_limits_of_its_values_and_slopes() {
    for case in cases() {
        let (function, near, near_slopes) = run(case.f64, &arguments(&case, -3, 1));
        let (_, far, far_slopes) = run(case.f64, &arguments(&case, -9, 4));
        let slopes = limits(&near_slopes, &far_slopes);
        let values = limits(&near, &far);
        for (what, said, shown) in [
            ("slopes", function.slopes, slopes),
            ("values", function.range, values),
        ] {
            // Of a slope or a value with one limit no bound follows.
            if shown.iter().all(|x| x.is_finite()) {
                assert_as_sharp(case.name, what, said, shown);
            }
        }
    }
}

/// f(2x) / f(x) is the same power of two everywhere: then the degree is said.
#[test]
fn a_function_says_its_degree() {
    for case in cases() {
        let x = arguments(&case, -2, 1);
        let twice: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        let (function, y, _) = run(case.f64, &x);
        let (_, y_twice, _) = run(case.f64, &twice);
        let pairs = y.iter().zip(&y_twice);
        let degrees: Vec<f64> = pairs
            .filter(|(y, twice)| y.is_finite() && twice.is_finite() && **y != 0.0)
            .map(|(y, twice)| (twice / y).log2())
            .collect();
        let [low, high] = ends(&degrees);
        let shown = (high - low < 1e-9).then_some(low);
        match (function.degree, shown) {
            (None, None) => (),
            (Some(said), Some(shown)) if (said - shown).abs() < 1e-9 => (),
            (said, shown) => panic!("{} says degree {said:?}, numbers show {shown:?}", case.name),
        }
    }
}

/// The slope is known at each argument, and on an interval where the turns are.
#[test]
fn a_function_says_its_slope_at_an_argument_and_on_an_interval() {
    for case in cases() {
        let x = arguments(&case, -3, 2);
        let (function, _, slopes) = run(case.f64, &x);
        for (&x, &found) in x.iter().zip(&slopes).filter(|(x, _)| **x != 0.0) {
            let [low, high] = function.slope_at(x);
            if found.is_finite() {
                let close = high - low <= 1e-9 * (1.0 + found.abs());
                assert!(close, "{}: slope at {x} is {low} to {high}", case.name);
            }
        }
        let [low, high] = function.slope_at(f64::NAN);
        let unknown = low.is_nan() && high.is_nan();
        let constant = function.slopes[0] == function.slopes[1];
        assert!(unknown || constant, "{}: slope at NaN", case.name);
        if function.slopes.iter().all(|slope| slope.is_finite()) {
            assert!(
                slopes.iter().all(|slope| slope.is_finite()),
                "{}",
                case.name
            );
        }
        assert_eq!(
            function.turns.is_none(),
            NO_TURNS.contains(&case.name),
            "{}",
            case.name
        );
        if function.turns.is_none() {
            continue;
        }
        let lows: &[f64] = if case.negative {
            &[-4.0, -1.5, -0.2, 0.3]
        } else {
            &[0.1, 0.7]
        };
        for &low in lows {
            for width in [0.1, 0.9, 3.0, 7.0] {
                let inside = (0..=2000).map(|k| low + width * f64::from(k) / 2000.0);
                let kink = [-1e-9, 1e-9]
                    .into_iter()
                    .filter(|x| low < *x && *x < low + width);
                let inside: Vec<f64> = inside.chain(kink).collect();
                let (_, _, slopes) = run(case.f64, &inside);
                let on = function.slopes_on(low, low + width);
                if on.iter().all(|x| x.is_finite()) {
                    let what = format!("slopes from {low} to {}", low + width);
                    assert_as_sharp(case.name, &what, on, ends(&slopes));
                }
            }
        }
    }
}

/// The slope for negative arguments that initialisation assumes makes a function an activation.
#[test]
fn activations_say_that_they_are() {
    let others = [
        "power",
        "exp",
        "ln",
        "sqrt",
        "recip",
        "abs",
        "sin",
        "cos",
        "clamp",
        "normal_density",
    ];
    for case in cases() {
        let (function, ..) = run(case.f64, &[0.5]);
        let expected = match case.name {
            "leaky_relu 0.25" => Some(0.25),
            "leaky_relu -3" => Some(-3.0),
            name => (!others.iter().any(|other| name.starts_with(other))).then_some(0.0),
        };
        assert_eq!(function.negative_slope, expected, "{}", case.name);
    }
}

/// What one instruction computes, or a comparison: the number of roundings.
const ROUNDED: [(&str, u32); 11] = [
    ("power 2", 1),
    ("power -1", 1),
    ("sqrt", 1),
    ("sqrt_or_zero", 1),
    ("recip_or_zero", 1),
    ("abs", 0),
    ("relu", 0),
    ("leaky_relu 0.25", 1),
    ("leaky_relu -3", 1),
    ("clamp", 0),
    ("hardtanh", 0),
];

/// The error of `f32`, in halves of the distance from 1 to the next number, relative to the value.
#[test]
fn a_function_says_how_it_is_rounded() {
    for case in cases() {
        let x: Vec<f32> = arguments(&case, -2, 1).iter().map(|&x| x as f32).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let (function, found, _) = run(case.f32, &x);
        let (_, exact, _) = run(case.f64, &wide);
        let expected = ROUNDED.iter().find(|(name, _)| *name == case.name);
        let expected = expected.map(|(_, roundings)| *roundings);
        assert_eq!(function.roundings, expected, "{}", case.name);
        let Some(roundings) = expected else { continue };
        for ((x, &found), exact) in x.iter().zip(&found).zip(&exact) {
            let error = f64::from(roundings) * f64::from(f32::EPSILON) / 2.0 * exact.abs();
            assert!(
                f64::from(found) == *exact || (f64::from(found) - exact).abs() <= error,
                "{} of {x} is {exact}, computed {found}",
                case.name
            );
        }
    }
}
