//! What must not change: relabelled rows, other numbers of threads, a file in between.

use super::laws::largest;
use super::{Report, Row, Subject, Verdict};
use crate::error::Result;
use crate::graph::{Graph, inverse};
use crate::init;
use crate::kernels::par::{forked, with_threads};
use crate::kernels::{draw, random::mix};
use crate::nn::{Module, Pass, entries, entries_mut};
use crate::real::Real;
use crate::store::weights;
use crate::tensor::Tensor;
use crate::{autodiff::Tape, rand::seq::SliceRandom};
use std::path::PathBuf;

/// Relabels the rows of the input (its last axis but one: nodes, or the tokens of every sequence), and the
/// nodes of the graph alike, and compares the outputs of an evaluation: a row of the output must move with
/// its row of the input.
///
/// An output that has not a row per row of the input, such as a mean over nodes, must stay as it is; one of
/// fewer axes than the input may do either. The statement is about models that see their rows as a set: not
/// about positions or causal masks.
///
/// It also measures how far the outputs move if each entry of the input changes by rounding. A difference of
/// up to 30 times this counts as rounding. If the outputs themselves are not a hundred times larger than
/// that, such a difference tests nothing, and the row is vacuous. A norm over nodes that are all alike gives
/// such outputs.
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
    let axis = x.ndim().saturating_sub(2);
    let n = x.shape().get(axis).copied().unwrap_or(0);
    let mut to: Vec<usize> = (0..n).collect();
    to.shuffle(&mut init::rng(mix(subject.seed, 3)));
    if to.is_sorted() {
        to.reverse();
    }
    let from = inverse(&to);
    let renamed = |x: &Tensor<F>| x.select(ndarray::Axis(axis), &from).into_shared();
    let value = |x: Tensor<F>, graph: &Graph| {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, subject.model);
        subject
            .output(&pass, Some(tape.constant(x)), Some(graph))
            .value()
    };
    let graph = subject.rows(n);
    let y = value(x.clone(), &graph);
    let after = value(renamed(x), &graph.permute(&to));
    if after.shape() != y.shape() {
        let shapes = format!("{:?} and {:?}", after.shape(), y.shape());
        let statement = "the shape of f(P x, P A Pᵀ) is that of f(x, A)";
        report.push(Row::fact(statement, shapes, false));
        return report;
    }
    let apart = |(a, b): (&F, &F)| (a.as_f64() - b.as_f64()).abs();
    let furthest = |expected: &Tensor<F>| {
        let k = largest(after.iter().zip(expected).map(apart));
        let pair = after.iter().nth(k).zip(expected.iter().nth(k));
        (k, pair.map_or(0.0, apart))
    };
    let moves = (n > 0 && y.shape().get(axis) == Some(&n))
        .then(|| ("f(P x, P A Pᵀ) = P f(x, A)", renamed(&y)));
    let stays = (moves.is_none() || y.ndim() < x.ndim()).then_some(("f(P x, P A Pᵀ) = f(x, A)", y));
    let (formula, expected) = [moves, stays]
        .into_iter()
        .flatten()
        .min_by(|(_, a), (_, b)| furthest(a).1.total_cmp(&furthest(b).1))
        .expect("one of both");
    let (k, worst) = furthest(&expected);
    let at = |y: &Tensor<F>| y.iter().nth(k).map_or(0.0, |y| y.as_f64());
    let size = expected
        .iter()
        .fold(0.0, |m: f64, y| m.max(y.as_f64().abs()));
    let place = format!("output {k} of {}", expected.len());
    let tolerance = if F::NAME == "f64" { 1e-10 } else { 1e-4 };
    let rounding = 30.0 * moved_by_rounding(subject, x, |x| value(x, &graph));
    let hidden = worst <= rounding && 0.01 * size <= rounding;
    if n < 2 || hidden {
        let why = match n {
            0 | 1 => "one row",
            _ => "a difference may be rounding, which is more than a hundredth of the outputs",
        };
        report.push(Row::without(formula, Verdict::Vacuous, why));
        return report;
    }
    let row = Row::equal(
        formula,
        place,
        [at(&after), at(&expected)],
        size.max(rounding / tolerance),
        tolerance,
    );
    report.push(row.noting(match rounding > tolerance * size {
        true => format!("up to {rounding:.1e} may be rounding"),
        false => String::new(),
    }));
    report
}

/// How far an output of f moves if each entry of x is multiplied by 1 + δ, |δ| ≤ ε, where an entry 0 stays:
/// the largest of three draws.
fn moved_by_rounding<F: Real>(
    subject: &Subject<'_, F>,
    x: &Tensor<F>,
    f: impl Fn(Tensor<F>) -> Tensor<F>,
) -> f64 {
    let y = f(x.clone());
    let moved = |k: u64| {
        let rng = &mut init::rng(mix(subject.seed, 4000 + k));
        let by: Tensor<F> = draw::uniform(x.shape(), 1.0, rng);
        let other = f((x + &(x * &by * F::epsilon())).into_shared());
        let apart = y.iter().zip(&other).map(|(a, b)| (*a - *b).as_f64().abs());
        apart.fold(0.0, f64::max)
    };
    (0..3).map(moved).fold(0.0, f64::max)
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
/// on fewer than about 10⁵ numbers do not fork: where none did, the rows are vacuous.
///
/// The note has a digest of all bits. The width of the vectors is chosen once per process: to compare it,
/// print the report of a process with `EMMY_VECTORS=256` beside one without; the digests must be equal.
#[must_use]
pub fn check_same_bits<F: Real>(subject: &Subject<'_, F>) -> Report {
    let mut report = Report::new("same bits", subject.seed);
    let run = |threads: usize| {
        with_threads(threads, || {
            let before = forked();
            let theta = subject.parameters();
            let (loss, gradients) = subject.point(&theta);
            let outputs = subject.value(&theta);
            let names = subject.model.parameters().into_iter();
            let names = names.map(|p| format!("gradient of {}", p.name));
            let mut parts = vec![("loss".to_owned(), vec![loss.to_bits()])];
            let tensors = gradients.iter().chain([&outputs]);
            let bits = tensors.map(|x| x.iter().map(|x| x.as_f64().to_bits()).collect::<Vec<_>>());
            parts.extend(names.chain(["outputs".to_owned()]).zip(bits));
            (parts, forked() > before)
        })
    };
    let (alone, _) = run(1);
    let numbers: usize = alone.iter().map(|(_, bits)| bits.len()).sum();
    let all = alone.iter().flat_map(|(_, bits)| bits);
    let digest = all.fold(0, |digest, &bits| mix(digest ^ bits, 1));
    for threads in 2..=4 {
        let (found, forked) = run(threads);
        let other = alone.iter().zip(&found).find(|(a, b)| a != b);
        let mut row = Row::fact(
            format!("{numbers} numbers on {threads} threads = on 1, bit for bit"),
            other.map_or(String::new(), |((name, _), _)| name.clone()),
            other.is_none(),
        )
        .noting(format!("digest {digest:016x}"));
        if row.verdict == Verdict::Holds && !forked {
            row.verdict = Verdict::Vacuous;
            row = row.noting(format!(
                "no operation is large enough to fork; digest {digest:016x}"
            ));
        }
        report.push(row);
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
/// bit. The names in the file are compared by [`check_torch_names`].
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
        let bits = |x: &F| x.as_f64().to_bits();
        let mut pairs = a.tensor.iter().zip(b.tensor.iter());
        let other = pairs.position(|(a, b)| bits(a) != bits(b));
        let mut row = Row::fact(
            "load(save(tensor)) = tensor, bit for bit",
            other.map_or(a.name.clone(), |k| format!("{}, number {k}", a.name)),
            same(a.tensor, b.tensor),
        );
        if equal && row.verdict == Verdict::Holds {
            row.verdict = Verdict::Vacuous;
            row = row.noting("both models had it before");
        }
        report.push(row);
    }
    report
}

/// Compares the names and shapes under which a model's tensors stand in a file of weights with those of a
/// `state_dict` of PyTorch, which you copy from there:
/// `for name, x in model.state_dict().items(): print(name, list(x.shape))`.
///
/// A row per name of either side.
///
/// ```
/// use emmy::{init, nn::Linear, testing::assert_torch_names};
/// let layer = Linear::<f32>::new(3, 2, true, &mut init::rng(0));
/// // torch.nn.Linear(3, 2)
/// assert_torch_names(&layer, &[("weight", &[2, 3]), ("bias", &[2])]);
/// ```
#[must_use]
pub fn check_torch_names<F: Real>(
    model: &(impl Module<F> + ?Sized),
    expected: &[(&str, &[usize])],
) -> Report {
    let mut report = Report::new("names in PyTorch", 0);
    let keys = weights::keys(model);
    let ours = |name: &str| keys.iter().find(|(own, _)| own == name);
    for (name, shape) in expected {
        let found = ours(name).map(|(_, shape)| &shape[..]);
        let found_as = found.map_or("missing".to_owned(), |shape| format!("{shape:?}"));
        let row = Row::fact(
            format!("shape {shape:?} in PyTorch"),
            *name,
            found == Some(*shape),
        );
        report.push(row.noting(format!("here {found_as}")));
    }
    let others = keys
        .iter()
        .filter(|(own, _)| expected.iter().all(|(name, _)| name != own));
    for (name, _) in others {
        report.push(Row::fact("a name that PyTorch has", name, false));
    }
    report
}

/// Asserts that a model has the names and shapes of a `state_dict` of PyTorch.
///
/// # Panics
/// If it has not; the message is the report of [`check_torch_names`].
#[track_caller]
pub fn assert_torch_names<F: Real>(
    model: &(impl Module<F> + ?Sized),
    expected: &[(&str, &[usize])],
) -> Report {
    check_torch_names(model, expected).assert()
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

/// Asserts that a model comes back from a file bit for bit.
///
/// # Panics
/// If it does not; the message is the report of [`check_round_trip`].
#[track_caller]
pub fn assert_round_trip<F: Real, M: Module<F>>(model: &M, other: &mut M) -> Report {
    check_round_trip(model, other).assert()
}
