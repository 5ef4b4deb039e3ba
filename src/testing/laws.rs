//! Conservation laws: at a point, after steps, along their symmetry, and whether there are more.

use super::{Report, Row, Subject, Verdict};
use crate::kernels::random::mix;
use crate::nn::{Module, Pass, discover};
use crate::real::Real;
use crate::symmetry::{Law, Residual, Search, Side, Symmetry};
use crate::tensor::Tensor;
use crate::{autodiff::Var, init};

/// The tolerance for the relative δ of a law: 10⁻¹⁰ in `f64`, 10⁻³ in `f32`.
///
/// Single precision reaches it where features and parameters, and so all that is between, are of size about
/// 1, whatever the depth: δ is a difference of sums of a few hundred products, each rounded to one part in
/// 10⁷.
pub fn tolerance<F: Real>() -> f64 {
    if F::NAME == "f64" { 1e-10 } else { 1e-3 }
}

/// Measures every law that is read off a pass ([`Trace::laws`](crate::nn::Trace::laws)) for the subject's
/// loss; for a loss of softmax also its [further laws](crate::nn::Trace::softmax_laws).
///
/// A row per law, at the neuron where |δ| / Σ|w θ G| is largest; the sides are the sum of the terms of one
/// sign and that of the others. Terms that are smaller than the rounding of the largest in the network count
/// as that rounding ([`Residual::worst_above`]). A law all of whose terms are zero, as for dead neurons, is
/// vacuous, and so is a model without laws.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_laws<F: Real>(subject: &Subject<'_, F>) -> Report {
    check_laws_of(subject, &subject.laws())
}

/// The same for given laws: to hold a law that was written by hand against numbers.
///
/// ```
/// use emmy::{init, nn::{Activation, Mlp, Traced}, testing::{Subject, Verdict, check_laws_of}};
/// let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Relu, true, &mut init::rng(0));
/// let x = init::normal(&[5, 3], 1.0, &mut init::rng(1));
/// let subject = Subject::new(&net, &x, 7, |pass, x| net.forward(pass, x));
/// let mut law = net.laws().remove(0);
/// assert!(check_laws_of(&subject, &[law.clone()]).holds());
/// // Without the weights that read the neurons it is no law.
/// law.terms.pop();
/// assert_eq!(check_laws_of(&subject, &[law]).rows[0].verdict, Verdict::Fails);
/// ```
#[must_use]
pub fn check_laws_of<F: Real>(subject: &Subject<'_, F>, laws: &[Law]) -> Report {
    let (_, gradients) = subject.point(&subject.parameters());
    check_laws_at(laws, subject.model, &gradients, subject.seed)
        .with_options(format_args!("loss {:?}", subject.loss))
}

/// The same for gradients at hand, as in a training loop; `seed` is what the report names.
///
/// # Panics
/// If a gradient is missing or has another number of entries than a law says.
#[track_caller]
#[must_use]
pub fn check_laws_at<F: Real>(
    laws: &[Law],
    model: &(impl Module<F> + ?Sized),
    gradients: &[Tensor<F>],
    seed: u64,
) -> Report {
    let mut report = Report::new("laws", seed);
    if laws.is_empty() {
        report.push(none());
        return report;
    }
    let theta = model.tensors();
    let names: Vec<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let all: Vec<Residual> = laws.iter().map(|l| l.measure(&theta, gradients)).collect();
    let rest = rounding::<F>(&all);
    for (law, found) in laws.iter().zip(&all) {
        // The classes of p − y, numbers of size up to 1 before they cancel.
        let rest = match law.symmetry {
            Symmetry::Translation => 64.0 * F::epsilon().as_f64(),
            _ => rest,
        };
        let floor = rest / tolerance::<F>();
        let k = largest(found.relative_above(floor));
        let left = terms_of_one_sign(law, &theta, gradients)[k];
        // Gradients that are less than what may be left of 1 say nothing.
        let nothing = match law.symmetry {
            Symmetry::Translation => rest,
            _ => 0.0,
        };
        let dead = found.size.iter().filter(|&&size| size <= nothing).count();
        let (sides, size) = match dead == law.entries() {
            true => ([0.0; 2], 0.0),
            false => ([left, left - found.delta[k]], found.size[k].max(floor)),
        };
        let (formula, place) = (law.formula(&names), place(law, k));
        let row = Row::equal(formula, place, sides, size, tolerance::<F>());
        report.push(row.noting(match dead {
            0 => String::new(),
            n => format!("{n} of {} entries are 0 = 0", law.entries()),
        }));
    }
    report
}

/// What rounding leaves of the largest terms.
fn rounding<F: Real>(all: &[Residual]) -> f64 {
    let sizes = all.iter().flat_map(|m| &m.size);
    let largest = sizes.fold(0.0, |m: f64, &x| m.max(x));
    F::epsilon().as_f64() * largest + F::min_positive_value().as_f64()
}

/// The index of the largest number, of NaN if there is one.
pub(super) fn largest(numbers: impl IntoIterator<Item = f64>) -> usize {
    let worse = |a: f64, b: f64| b > a || (b.is_nan() && !a.is_nan());
    let all = numbers.into_iter().enumerate();
    let best = all.reduce(|a, b| if worse(a.1, b.1) { b } else { a });
    best.map_or(0, |(k, _)| k)
}

/// The part of δ that stands on the left of "=" when the rest is brought to the right.
fn terms_of_one_sign<F: Real>(
    law: &Law,
    theta: &[&Tensor<F>],
    gradients: &[Tensor<F>],
) -> Vec<f64> {
    let mut left = law.clone();
    left.terms.retain(|term| match law.symmetry {
        Symmetry::Linear => term.side == Side::Incoming,
        Symmetry::Rescaling => term.weight > 0.0,
        Symmetry::Rotation | Symmetry::Translation => true,
    });
    match left.terms.is_empty() {
        true => vec![0.0; law.entries()],
        false => left.measure(theta, gradients).delta,
    }
}

pub(super) fn place(law: &Law, entry: usize) -> String {
    let (name, n) = (&law.name, law.neurons());
    match law.symmetry {
        Symmetry::Rescaling | Symmetry::Translation => format!("{name}, neuron {entry} of {n}"),
        Symmetry::Linear | Symmetry::Rotation => {
            format!("{name}, neurons {} and {} of {n}", entry / n, entry % n)
        }
    }
}

pub(super) fn refs<F: Real>(x: &[Tensor<F>]) -> Vec<&Tensor<F>> {
    x.iter().collect()
}

pub(super) fn none() -> Row {
    Row::without("δ = 0", Verdict::Vacuous, "no law is read off the pass")
}

/// Asserts that every law that is read off a pass holds; returns the report, which says what is vacuous.
///
/// # Panics
/// If one does not; the message is the report of [`check_laws`].
#[track_caller]
pub fn assert_laws<F: Real>(subject: &Subject<'_, F>) -> Report {
    check_laws(subject).assert()
}

/// Searches for laws with nothing but the forward function, counts how many there can be, and compares with
/// those that are read off the pass ([`discover`]). The input is drawn anew, in the shape of the subject's;
/// the parameters too. What the forward function has of its own stays, such as a graph or symbols: the laws
/// are those for these data, of which there may be more than for all.
///
/// Rows: a row per declared law that a random point breaks or that the search does not find; the number
/// declared = the number found, the number found = the upper bound.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_complete(subject: &Subject<'_, f64>, search: &Search) -> Report {
    let mut report = Report::new("complete", search.seed).with_options(format_args!("{search:?}"));
    let found = discover(subject.model, search, |pass: &Pass<'_, '_, f64>, seed| {
        let draw = |x: &Tensor<f64>| init::normal(x.shape(), 1.0, &mut init::rng(mix(seed, 0)));
        let x: Option<Var<'_, f64>> = subject.x.as_ref().map(|x| pass.tape().constant(draw(x)));
        subject.output(pass, x, None)
    });
    for name in &found.broken {
        report.push(Row::fact("δ = 0 at random points", name, false));
    }
    for name in &found.missing {
        report.push(Row::fact("the law is one of those found", name, false));
    }
    let more: Vec<&str> = found.discovered().map(|law| law.formula.as_str()).collect();
    let [declared, laws] = [found.declared, found.found].map(|n| n as f64);
    let row = Row::equal(
        "laws declared = laws found",
        "the whole model",
        [declared, laws],
        declared.max(laws),
        0.0,
    );
    report.push(row.noting(more.join("; ")));
    report.push(match found.upper {
        Some(upper) => {
            let sides = [laws, upper as f64];
            Row::equal(
                "laws found = the most there can be",
                "the whole model",
                sides,
                upper as f64,
                0.0,
            )
        }
        None => Row::without(
            "laws found = the most there can be",
            Verdict::Unknown,
            format!(
                "{} parameters are more than `count_up_to`",
                found.parameters
            ),
        ),
    });
    report
}

/// Asserts that the laws that are read off a pass are all there are.
///
/// # Panics
/// If they are not, or the search cannot tell; the message is the report of [`check_complete`].
#[track_caller]
pub fn assert_complete(subject: &Subject<'_, f64>, search: &Search) -> Report {
    check_complete(subject, search).assert()
}
