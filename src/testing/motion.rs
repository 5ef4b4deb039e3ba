//! Laws in motion: what training steps do to the conserved quantity, and what a law's own symmetry does to
//! the outputs.

use super::laws::{largest, none, place, refs};
use super::{Report, Row, Subject, Verdict};
use crate::kernels::random::mix;
use crate::optim::{Algorithm, Clip, Optimizer, Sgd};
use crate::real::Real;
use crate::symmetry::{Drift, Generator, Law, Layout};
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
    /// The largest norm of all gradients together.
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
            clip: Some(0.1),
        },
    ];
}

/// Trains by `steps` steps of rate `lr` in each way of [`Descent::ALL`], and compares c at the end with the
/// c that [`Drift`] predicts from the start and the gradients alone.
///
/// A row per law and way, at the entry that is worst, relative to the size of the terms of c. It is vacuous
/// if c did not move and was not to move.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_drift(subject: &Subject<'_, f64>, lr: f64, steps: usize) -> Report {
    let mut report = Report::new("drift", subject.seed);
    let laws = subject.laws();
    if laws.is_empty() {
        report.push(none());
    }
    let parameters = subject.model.parameters().into_iter();
    let layout = Layout::new(parameters.map(|p| (p.name, p.tensor.shape().to_vec())));
    for descent in Descent::ALL {
        for row in drifted(subject, &laws, &layout, descent, lr, steps) {
            report.push(row);
        }
    }
    report
}

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
    for _ in 0..steps {
        let (_, mut gradients) = subject.point(&theta);
        if let Some(norm) = clip {
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
        let still = before.zip(&sides).all(|(c, [a, b])| c == *a && c == *b);
        let size = if still { 0.0 } else { sizes[k] };
        let formula = "c after steps = c − η w + ½ η² r after each";
        let place = format!("{}, {}, entry {k}", law.name, descent.name);
        Row::equal(formula, place, sides[k], size, 1e-9)
    };
    each.into_iter().map(row).collect()
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
/// A row per law, at the entry of δ (of at most 16 of a law) that changes an output most, relative to the
/// largest output. It is vacuous if no parameter was moved.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_invariant<F: Real>(subject: &Subject<'_, F>) -> Report {
    let mut report = Report::new("invariant", subject.seed);
    // Those of the outputs: the laws of a loss of softmax change them.
    let laws = subject.trace().laws();
    if laws.is_empty() {
        report.push(none());
    }
    let theta = subject.parameters();
    let y = subject.value(&theta);
    let size = y.iter().fold(0.0, |m: f64, y| m.max(y.as_f64().abs()));
    let tolerance = if F::NAME == "f64" { 1e-9 } else { 1e-3 };
    for law in &laws {
        let step = law.entries().div_ceil(MOST).max(1);
        let mut worst: Option<Row> = None;
        for entry in (0..law.entries()).step_by(step) {
            let drawn = mix(subject.seed, entry as u64);
            let size_of_step = 0.2 + 0.6 * (drawn >> 11) as f64 / (1_u64 << 53) as f64;
            let t = if drawn & 1 == 0 {
                size_of_step
            } else {
                -size_of_step
            };
            let mut moved = theta.clone();
            law.transform(&mut moved.iter_mut().collect::<Vec<_>>(), entry, t);
            let same = refs(&moved) == refs(&theta);
            let after = subject.value(&moved);
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
