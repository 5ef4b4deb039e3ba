//! Laws in motion: what training steps do to the conserved quantity, and what a law's own symmetry does to
//! the outputs.

use super::laws::{largest, none, place, refs};
use super::{Report, Row, Subject, Verdict};
use crate::kernels::random::mix;
use crate::optim::{Algorithm, Clip, Optimizer, Sgd};
use crate::real::Real;
use crate::symmetry::{Drift, Generator, Law, Layout, Term};
use crate::tensor::Tensor;

/// A way to descend for which the drift of c is known exactly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Descent {
    /// The name for readers.
    pub name: &'static str,
    /// μ.
    pub momentum: f64,
    /// λ.
    pub decay: f64,
    /// The largest norm of all gradients together, as a share of that at the start.
    pub clip: Option<f64>,
}

impl Descent {
    /// Plain steps; with momentum; with momentum and weight decay; with clipped gradients.
    pub const ALL: [Self; 4] = [
        Self {
            name: "descent",
            momentum: 0.0,
            decay: 0.0,
            clip: None,
        },
        Self {
            name: "momentum 0.9",
            momentum: 0.9,
            decay: 0.0,
            clip: None,
        },
        Self {
            name: "momentum 0.9, decay 0.01",
            momentum: 0.9,
            decay: 0.01,
            clip: None,
        },
        Self {
            name: "clipped",
            momentum: 0.0,
            decay: 0.0,
            clip: Some(0.5),
        },
    ];
}

/// Trains by `steps` steps of rate `lr` in each way of [`Descent::ALL`], and compares c at the end with the
/// c that [`Drift`] predicts from the start and the gradients alone.
///
/// A row per law and way, at the entry that is worst, relative to the size of the terms of c. It is vacuous
/// if c was not to move by more than rounding explains. Rotations conserve nothing, and have no row.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_drift(subject: &Subject<'_, f64>, lr: f64, steps: usize) -> Report {
    check_drift_of(subject, &subject.laws(), lr, steps)
}

/// The same for given laws, such as one that was written by hand.
#[must_use]
pub fn check_drift_of(subject: &Subject<'_, f64>, laws: &[Law], lr: f64, steps: usize) -> Report {
    let options = format!("lr {lr}, {steps} steps, loss {:?}", subject.loss);
    let mut report = Report::new("drift", subject.seed).with_options(options);
    let parameters = subject.model.parameters().into_iter();
    let layout = Layout::new(parameters.map(|p| (p.name, p.tensor.shape().to_vec())));
    for descent in Descent::ALL {
        for row in drifted(subject, laws, &layout, descent, lr, steps) {
            report.push(row);
        }
    }
    if report.rows.is_empty() {
        report.push(none());
    }
    report
}

/// The relative error of c after the steps that rounding explains.
const ROUNDING: f64 = 1e-9;

fn drifted(
    subject: &Subject<'_, f64>,
    laws: &[Law],
    layout: &Layout,
    descent: Descent,
    lr: f64,
    steps: usize,
) -> Vec<Row> {
    let Descent {
        momentum,
        decay,
        clip,
        ..
    } = descent;
    let mut theta = subject.parameters();
    let start = flat(&theta);
    // A rotation conserves nothing.
    let each = laws.iter().map(|law| (law, law.conserving(layout)));
    let mut each: Vec<_> = (each.filter(|(_, generators)| !generators.is_empty()))
        .map(|(law, generators)| {
            let drifts: Vec<_> = generators.iter().map(|g| Drift::new(g, &start)).collect();
            (law, generators, drifts)
        })
        .collect();
    let mut optimizer = Optimizer::new(Algorithm::Sgd(Sgd {
        momentum,
        nesterov: false,
    }));
    optimizer = optimizer.weight_decay(decay);
    let mut largest_norm = None;
    for _ in 0..steps {
        let (_, mut gradients) = subject.point(&theta);
        if let Some(share) = clip {
            let norm = *largest_norm
                .get_or_insert_with(|| share * length(&gradients).max(f64::MIN_POSITIVE));
            Clip::GlobalNorm(norm).apply(&mut gradients);
        }
        let (at, along) = (flat(&theta), flat(&gradients));
        for drift in each.iter_mut().flat_map(|(.., drifts)| drifts) {
            drift.step(&at, &along, lr, momentum, decay);
        }
        optimizer.step(theta.iter_mut(), &gradients, lr);
    }
    let end = flat(&theta);
    let row = |(law, generators, drifts): (&Law, Vec<Generator>, Vec<Drift>)| {
        let pairs = generators.iter().zip(&drifts);
        let sides: Vec<[f64; 2]> = pairs
            .map(|(g, drift)| [g.conserved(&end), drift.conserved()])
            .collect();
        let size = |g: &Generator| g.delta(&end, &end).1.max(g.delta(&start, &start).1);
        let sizes: Vec<f64> = generators.iter().map(size).collect();
        let apart = |([a, b], size): (&[f64; 2], &f64)| match a == b {
            true => 0.0,
            false => (a - b).abs() / size,
        };
        let k = largest(sides.iter().zip(&sizes).map(apart));
        let before = generators.iter().map(|g| g.conserved(&start));
        let moved = before.zip(&sides).zip(&sizes);
        let mut still = moved.map(|((c, sides), size)| {
            let small = |side: &f64| (side - c).abs() <= ROUNDING * size;
            sides.iter().all(small)
        });
        let (sides, size) = match still.all(|still| still) {
            true => ([sides[k][0]; 2], 0.0),
            false => (sides[k], sizes[k]),
        };
        let formula = "c after steps = c − η w + ½ η² r after each";
        let place = format!("{}, {}, entry {k}", law.name, descent.name);
        Row::equal(formula, place, sides, size, ROUNDING)
    };
    each.into_iter().map(row).collect()
}

fn length(x: &[Tensor<f64>]) -> f64 {
    let squares = x.iter().flat_map(|x| x.iter().map(|x| x * x));
    squares.sum::<f64>().sqrt()
}

fn flat(x: &[Tensor<f64>]) -> Vec<f64> {
    x.iter().flat_map(|x| x.iter().copied()).collect()
}

/// Asserts that steps of descent, with momentum, weight decay and clipping, change c as [`Drift`] says.
///
/// # Panics
/// If they do not; the message is the report of [`check_drift`].
#[track_caller]
pub fn assert_drift(subject: &Subject<'_, f64>, lr: f64, steps: usize) -> Report {
    check_drift(subject, lr, steps).assert()
}

/// The most entries of a law along which the parameters are moved.
const MOST: usize = 16;

/// Moves the parameters along the symmetry of each law by ±0.2 to ±0.8 ([`Law::transform`]) and compares the
/// outputs: none may change. It uses no derivative, so it finds what a wrong gradient and a wrong law hide
/// from each other.
///
/// A row per law, at the entry of δ that changes an output most, relative to the largest output; of a law
/// with more than 16 entries, 16 are drawn. It is vacuous if no parameter was moved, and if each parameter
/// alone could be moved without an effect, as those of a dead neuron.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_invariant<F: Real>(subject: &Subject<'_, F>) -> Report {
    // Those of the outputs: the laws of a loss of softmax change them.
    check_invariant_of(subject, &subject.trace().laws())
}

/// The same for given laws, such as one that was written by hand.
#[must_use]
pub fn check_invariant_of<F: Real>(subject: &Subject<'_, F>, laws: &[Law]) -> Report {
    let mut report = Report::new("invariant", subject.seed);
    let alone = |law: &Law, entry: usize, t: f64| -> Vec<Tensor<F>> {
        let single = |term: &Term| {
            let mut theta = subject.parameters();
            let law = Law {
                terms: vec![term.clone()],
                ..law.clone()
            };
            law.transform(&mut theta.iter_mut().collect::<Vec<_>>(), entry, t);
            subject.value(&theta)
        };
        law.terms.iter().map(single).collect()
    };
    if laws.is_empty() {
        report.push(none());
    }
    let theta = subject.parameters();
    let y = subject.value(&theta);
    let size = y.iter().fold(0.0, |m: f64, y| m.max(y.as_f64().abs()));
    let tolerance = if F::NAME == "f64" { 1e-9 } else { 1e-3 };
    for law in laws {
        let all = law.entries();
        let mut worst: Option<Row> = None;
        for k in 0..all.min(MOST) {
            let entry = match all <= MOST {
                true => k,
                false => mix(mix(subject.seed, 1), k as u64) as usize % all,
            };
            let drawn = mix(subject.seed, entry as u64);
            let size_of_step = 0.2 + 0.6 * (drawn >> 11) as f64 / (1_u64 << 53) as f64;
            let t = if drawn & 1 == 0 {
                size_of_step
            } else {
                -size_of_step
            };
            let mut moved = theta.clone();
            law.transform(&mut moved.iter_mut().collect::<Vec<_>>(), entry, t);
            let after = subject.value(&moved);
            if after.shape() != y.shape() {
                let shapes = format!("{:?} and {:?}", after.shape(), y.shape());
                worst = Some(Row::fact(
                    "shape of f(θ moved) = that of f(θ)",
                    shapes,
                    false,
                ));
                break;
            }
            // Bit for bit no change: of no parameter, or of none that the outputs see.
            let same = after == y
                && (refs(&moved) == refs(&theta) || alone(law, entry, t).iter().all(|z| *z == y));
            let apart = |(a, b): (&F, &F)| (a.as_f64() - b.as_f64()).abs();
            let k = largest(y.iter().zip(&after).map(apart));
            let at = |y: &Tensor<F>| y.iter().nth(k).map_or(0.0, |y| y.as_f64());
            let row = Row::equal(
                "f(θ moved along the law) = f(θ)",
                format!("{}, by {t:.3}, output {k}", place(law, entry)),
                [at(&after), at(&y)],
                if same { 0.0 } else { size },
                tolerance,
            );
            let beats = |old: &Row| row.difference > old.difference || row.difference.is_nan();
            if worst
                .as_ref()
                .is_none_or(|old| beats(old) || old.verdict == Verdict::Vacuous)
            {
                worst = Some(row);
            }
        }
        if let Some(row) = worst {
            report.push(row);
        }
    }
    report
}

/// Asserts that moving along the symmetry of a law changes no output.
///
/// # Panics
/// If it does; the message is the report of [`check_invariant`].
#[track_caller]
pub fn assert_invariant<F: Real>(subject: &Subject<'_, F>) -> Report {
    check_invariant(subject).assert()
}
