//! What must not change: relabelled rows, other numbers of threads, a file in between.

use super::laws::largest;
use super::{Report, Row, Subject, Verdict};
use crate::error::Result;
use crate::graph::inverse;
use crate::init;
use crate::kernels::{par::with_threads, random::mix};
use crate::nn::{Module, Pass, entries, entries_mut};
use crate::real::Real;
use crate::store::weights;
use crate::tensor::Tensor;
use crate::{autodiff::Tape, rand::seq::SliceRandom};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Relabels the rows of the input, and the nodes of the graph alike, and compares the outputs of an
/// evaluation: a row of the output must move with its row of the input.
///
/// An output that has not a row per row of the input, such as a mean over nodes, must stay as it is. The
/// statement is about models that see their rows as a set: not about positions or causal masks.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_equivariant<F: Real>(subject: &Subject<'_, F>) -> Report {
    let mut report = Report::new("equivariant", subject.seed);
    let Some(x) = &subject.x else {
        report.push(Row::without(
            "f(P x) = P f(x)",
            Verdict::Unknown,
            "a subject without an input",
        ));
        return report;
    };
    let n = x.shape().first().copied().unwrap_or(0);
    let mut to: Vec<usize> = (0..n).collect();
    to.shuffle(&mut init::rng(mix(subject.seed, 3)));
    if to.is_sorted() {
        to.reverse();
    }
    let from = inverse(&to);
    let renamed = |x: &Tensor<F>| x.select(ndarray::Axis(0), &from).into_shared();
    let value = |x: Tensor<F>, graph| {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, subject.model);
        subject
            .output(&pass, Some(tape.constant(x)), Some(graph))
            .value()
    };
    let graph = subject.rows(n);
    let y = value(x.clone(), &graph);
    let after = value(renamed(x), &graph.permute(&to));
    let (formula, expected) = match y.shape().first() == Some(&n) {
        true => ("f(P x, P A Pᵀ) = P f(x, A)", renamed(&y)),
        false => ("f(P x, P A Pᵀ) = f(x, A)", y),
    };
    let apart = |(a, b): (&F, &F)| (a.as_f64() - b.as_f64()).abs();
    let k = largest(after.iter().zip(&expected).map(apart));
    let at = |y: &Tensor<F>| y.iter().nth(k).map_or(0.0, |y| y.as_f64());
    let size = expected
        .iter()
        .fold(0.0, |m: f64, y| m.max(y.as_f64().abs()));
    let place = match n {
        0 | 1 => "one row".to_owned(),
        _ => format!("output {k} of {}", expected.len()),
    };
    let size = if n < 2 { 0.0 } else { size };
    let tolerance = if F::NAME == "f64" { 1e-10 } else { 1e-4 };
    report.push(Row::equal(
        formula,
        place,
        [at(&after), at(&expected)],
        size,
        tolerance,
    ));
    report
}

/// Asserts that relabelled nodes or tokens give relabelled outputs.
///
/// # Panics
/// If they do not; the message is the report of [`check_equivariant`].
#[track_caller]
pub fn assert_equivariant<F: Real>(subject: &Subject<'_, F>) -> Report {
    check_equivariant(subject).assert()
}

/// Compares outputs, loss and gradients of a training pass on 1, 2, 3 and 4 threads, bit for bit. Operations
/// on fewer than about 10⁵ numbers do not fork: give a subject that is large enough.
///
/// The note has a digest of all bits. The width of the vectors is chosen once per process: to compare it,
/// print the report of a process with `EMMY_VECTORS=256` beside one without; the digests must be equal.
#[must_use]
pub fn check_same_bits<F: Real>(subject: &Subject<'_, F>) -> Report {
    let mut report = Report::new("same bits", subject.seed);
    let run = |threads: usize| {
        with_threads(threads, || {
            let theta = subject.parameters();
            let (loss, gradients) = subject.point(&theta);
            let outputs = subject.value(&theta);
            let all = gradients.iter().chain([&outputs]).flat_map(|x| x.iter());
            let mut bits: Vec<u64> = vec![loss.to_bits()];
            bits.extend(all.map(|x| x.as_f64().to_bits()));
            bits
        })
    };
    let alone = run(1);
    let digest = alone.iter().fold(0, |digest, &bits| mix(digest ^ bits, 1));
    for threads in 2..=4 {
        let found = run(threads);
        let other = alone.iter().zip(&found).filter(|(a, b)| a != b).count();
        let numbers = alone.len();
        let row = Row::equal(
            format!("bits on {threads} threads = bits on 1"),
            format!("{numbers} numbers: loss, gradients, outputs"),
            [(numbers - other) as f64, numbers as f64],
            numbers as f64,
            0.0,
        );
        report.push(row.noting(format!("digest {digest:016x}")));
    }
    report
}

/// Asserts that the number of threads changes no bit.
///
/// # Panics
/// If it does; the message is the report of [`check_same_bits`].
#[track_caller]
pub fn assert_same_bits<F: Real>(subject: &Subject<'_, F>) -> Report {
    check_same_bits(subject).assert()
}

/// Saves a model, loads it into `other`, a second model of the same shape, and compares every tensor bit for
/// bit; then compares the names that PyTorch has for them.
///
/// `other` should have other numbers: a tensor that is equal before loading tests nothing, and its row is
/// vacuous.
///
/// ```
/// use emmy::{init, nn::Linear, testing::assert_round_trip};
/// let [layer, mut other] = [0, 1].map(|seed| Linear::<f32>::new(3, 2, false, &mut init::rng(seed)));
/// assert_round_trip(&layer, &mut other);
/// ```
#[must_use]
pub fn check_round_trip<F: Real, M: Module<F>>(model: &M, other: &mut M) -> Report {
    let mut report = Report::new("round trip", 0);
    let same = |a: &Tensor<F>, b: &Tensor<F>| {
        let bits = |x: &F| x.as_f64().to_bits();
        a.shape() == b.shape() && a.iter().map(bits).eq(b.iter().map(bits))
    };
    let before: Vec<bool> = (entries(model).iter().zip(entries(other)))
        .map(|(a, b)| same(a.tensor, b.tensor))
        .collect();
    let file = Temporary::new();
    let loaded: Result<()> = weights::save(&file.0, model, &())
        .and_then(|()| weights::load_into(&file.0, other).map(|_| ()));
    let row = Row::fact("load(save(model)) succeeds", "the file", loaded.is_ok());
    report.push(row.noting(loaded.err().map_or(String::new(), |e| e.to_string())));
    let after = entries_mut(other);
    for ((a, b), equal) in entries(model).into_iter().zip(after).zip(before) {
        let mut row = Row::fact(
            "load(save(tensor)) = tensor, bit for bit",
            &a.name,
            same(a.tensor, b.tensor),
        );
        if equal && row.verdict == Verdict::Holds {
            row.verdict = Verdict::Vacuous;
            row = row.noting("both models had it before");
        }
        report.push(row);
    }
    let keys: Vec<String> = weights::keys(model)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let different: BTreeSet<&String> = keys.iter().collect();
    let sides = [different.len() as f64, keys.len() as f64];
    report.push(Row::equal(
        "different names in PyTorch = tensors there",
        keys.join(", "),
        sides,
        sides[1],
        0.0,
    ));
    report
}

/// A file that is removed at the end.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(format!("emmy-round-trip-{process}-{number}.safetensors")))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Asserts that a model comes back from a file bit for bit, under names that PyTorch can tell apart.
///
/// # Panics
/// If it does not; the message is the report of [`check_round_trip`].
#[track_caller]
pub fn assert_round_trip<F: Real, M: Module<F>>(model: &M, other: &mut M) -> Report {
    check_round_trip(model, other).assert()
}
