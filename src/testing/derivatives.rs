//! Derivatives against differences, and what an operation says of itself.

use super::{Report, Row, Subject, Verdict};
use crate::autodiff::{
    Derivative, Order, Tape, check_kind as kind, compare_derivatives, grad, hvp,
};
use crate::init;
use crate::kernels::random::mix;
use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// Compares ∂⟨u, f⟩/∂θ with central differences, for every entry of every parameter and of the input, and
/// forward with reverse mode, as [`autodiff::check_grads`](crate::autodiff::check_grads) does. u is random
/// and f is the output of a training pass.
///
/// A row per argument, at its worst entry. A parameter on which the output does not depend is vacuous, and so
/// is one whose derivative is so small beside the outputs that the rounding of a difference hides an error of
/// a thousandth. It takes two passes per entry.
///
/// At a kink, such as a ReLU at exactly 0, the difference lies between the two slopes, and the row fails:
/// give a model with biases that are not zero, or inputs without rows of zeros.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_grads(subject: &Subject<'_, f64>) -> Report {
    let mut report = Report::new("grads", subject.seed);
    compared(subject, &[Order::First, Order::Forward], &mut report);
    report
}

/// Asserts that the first derivatives of a subject are those of its values.
///
/// # Panics
/// If one is not; the message is the report of [`check_grads`].
#[track_caller]
pub fn assert_grads(subject: &Subject<'_, f64>) -> Report {
    check_grads(subject).assert()
}

/// Compares H w with central differences of ⟨w, ∇⟨u, f⟩⟩, for a random w over all parameters and the input,
/// and ⟨v, H w⟩ with ⟨w, H v⟩.
///
/// Where f is linear in an argument and in all others, H w is zero: those rows are vacuous.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_hessian(subject: &Subject<'_, f64>) -> Report {
    let mut report = Report::new("hessian", subject.seed);
    let args = subject.arguments();
    if args.is_empty() {
        report.push(Row::without(
            "H = Hᵀ",
            Verdict::Vacuous,
            "neither parameters nor input",
        ));
        return report;
    }
    compared(subject, &[Order::Second], &mut report);
    let draw = |k: u64| -> Vec<Tensor<f64>> {
        let rng = &mut init::rng(mix(subject.seed, k));
        args.iter()
            .map(|x| init::normal(x.shape(), 1.0, rng))
            .collect()
    };
    let [v, w] = [draw(1), draw(2)];
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let y = subject.apply(&vars);
    let u = init::normal(&y.shape(), 1.0, &mut init::rng(mix(subject.seed, 0)));
    let s = (y * tape.constant(u)).sum_all();
    let (left, a) = product(&v, &hvp(s, &vars, &w));
    let (right, b) = product(&w, &hvp(s, &vars, &v));
    // The products H v may cancel inside: their rounding is that of the gradient.
    let gradient = grad(s, &vars);
    let size = a + b + 1e-6 * product(&gradient, &gradient).0.sqrt();
    let size = if a + b == 0.0 { 0.0 } else { size };
    report.push(Row::equal(
        "⟨v, H w⟩ = ⟨w, H v⟩",
        "all arguments",
        [left, right],
        size,
        1e-10,
    ));
    report
}

/// Σ ⟨a, b⟩, and the size of its terms.
fn product(a: &[Tensor<f64>], b: &[Tensor<f64>]) -> (f64, f64) {
    let pairs = a.iter().zip(b).flat_map(|(a, b)| a.iter().zip(b.iter()));
    pairs.fold((0.0, 0.0), |(sum, size), (a, b)| {
        (sum + a * b, size + (a * b).abs())
    })
}

/// Asserts that the second derivatives of a subject are those of its first.
///
/// # Panics
/// If one is not; the message is the report of [`check_hessian`].
#[track_caller]
pub fn assert_hessian(subject: &Subject<'_, f64>) -> Report {
    check_hessian(subject).assert()
}

/// A row per order and argument, at the worst entry.
fn compared(subject: &Subject<'_, f64>, orders: &[Order], report: &mut Report) {
    let (args, names) = (subject.arguments(), subject.names());
    if args.is_empty() {
        report.push(Row::without(
            "∂f/∂θ",
            Verdict::Vacuous,
            "neither parameters nor input",
        ));
        return;
    }
    let mut worst: BTreeMap<usize, Derivative> = BTreeMap::new();
    let mut forward = None;
    let share = |d: &Derivative| {
        let apart = (d.expected - d.derivative).abs();
        if apart == 0.0 {
            0.0
        } else {
            apart / d.tolerance
        }
    };
    let whole = compare_derivatives(&|x: &[_]| subject.apply(x), &args, orders, &mut |found| {
        let old = match found.order {
            Order::Forward => {
                forward = Some(found);
                return Ok(());
            }
            _ => worst.get(&found.argument).map(share),
        };
        let new = share(&found);
        if old.is_none_or(|old| new > old || new.is_nan()) {
            worst.insert(found.argument, found);
        }
        Ok(())
    });
    assert!(whole.is_ok(), "no comparison was an error");
    let formula = match orders.contains(&Order::Second) {
        true => "H w = (∇s(θ + h w) − ∇s(θ − h w)) / 2h",
        false => "∂s/∂θ = (s(θ + h) − s(θ − h)) / 2h",
    };
    for found in worst.into_values().chain(forward) {
        let (formula, place) = match found.order {
            Order::Forward => ("⟨u, J w⟩ = ⟨Jᵀu, w⟩", "all arguments".to_owned()),
            _ => (
                formula,
                format!("{}{:?}", names[found.argument], found.entry),
            ),
        };
        let size = match found.scale == 0.0 && found.expected == 0.0 {
            true => 0.0,
            // The tolerance has the rounding of the difference in it.
            false => found.scale.max(f64::MIN_POSITIVE),
        };
        let tolerance = if size == 0.0 {
            0.0
        } else {
            found.tolerance / size
        };
        let mut row = Row::equal(
            formula,
            place,
            [found.derivative, found.expected],
            size,
            tolerance,
        );
        if row.verdict == Verdict::Holds && tolerance > HIDDEN {
            row.verdict = Verdict::Vacuous;
            row = row.noting(format!("rounding hides an error of {tolerance:.0e}"));
        }
        report.push(row);
    }
}

/// The largest relative error that rounding may hide from a comparison that says anything.
const HIDDEN: f64 = 1e-3;

/// Compares what an operation says of itself, its kind, with numbers
/// ([`autodiff::check_kind`](crate::autodiff::check_kind)). The subject is one operation on its parameters
/// and input: make it by [`Subject::function`]. The row of an operation that says nothing is vacuous.
#[must_use]
pub fn check_kind(subject: &Subject<'_, f64>) -> Report {
    let mut report = Report::new("kind", subject.seed);
    let args = subject.arguments();
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    let y = subject.apply(&vars);
    let name = tape.node(y.id()).kind.name();
    let found = kind(|x| subject.apply(x), &args);
    let statement = "what the operation says of itself";
    report.push(match found {
        Ok(true) => Row::fact(statement, format!("`{name}`"), true),
        Ok(false) => Row::without(
            statement,
            Verdict::Vacuous,
            format!("`{name}` says nothing that numbers could refute"),
        ),
        Err(error) => Row::fact(statement, format!("`{name}`"), false).noting(error.to_string()),
    });
    report
}

/// Asserts that what an operation says of itself is true.
///
/// # Panics
/// If it is not, or the subject is not one operation on its arguments; the message is the report of
/// [`check_kind`].
#[track_caller]
pub fn assert_kind(subject: &Subject<'_, f64>) -> Report {
    check_kind(subject).assert()
}
