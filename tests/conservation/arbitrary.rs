//! The algebra of laws of any shape, for any parameters and any G, even if the laws do not hold.

use crate::support::{SYMMETRIES, proptest_cases, refs};
use emmy::optim::{Algorithm, Optimizer};
use emmy::symmetry::{self, Law, Side, Slice, Symmetry, Term};
use emmy::{Real, Tape, Tensor, init};
use proptest::collection::vec;
use proptest::prelude::*;

/// A law, and the shape of each parameter.
#[derive(Debug, Clone)]
struct Any {
    law: Law,
    shapes: Vec<[usize; 3]>,
}

impl Any {
    fn draw<F: Real>(&self, seed: u64) -> Vec<Tensor<F>> {
        let rng = &mut init::rng(seed);
        let each = self.shapes.iter();
        each.map(|shape| init::normal(shape, 1.0, rng)).collect()
    }
}

/// Slices anywhere within their parameters, some of them rows or columns of square weights beside an
/// identity; the last one perhaps in the parameter of the first.
fn laws() -> impl Strategy<Value = Any> {
    let side = prop::sample::select(vec![Side::Incoming, Side::Attention, Side::Outgoing]);
    let weight = prop::sample::select(vec![1.0, -1.0, -2.0, 0.5, 0.0]);
    let inner = prop::sample::select(vec![1, 2, 3, 8, 21]);
    let identity = prop::sample::select(vec![0.0, 0.0, 0.0, 1.0, -2.5]);
    let term = (
        1_usize..3,
        0_usize..3,
        0_usize..3,
        inner,
        side,
        weight,
        identity,
    );
    let symmetry = prop::sample::select(&SYMMETRIES[..]);
    let n = prop::sample::select(vec![1, 2, 3, 10]);
    (symmetry, n, vec(term, 1..5), any::<bool>()).prop_map(|(symmetry, n, terms, shared)| {
        let (mut all, mut shapes) = (Vec::new(), Vec::new());
        for (parameter, (outer, before, after, inner, side, weight, identity)) in
            terms.into_iter().enumerate()
        {
            let width = before + n + after;
            let translation = symmetry == Symmetry::Translation;
            let identity = if translation { 0.0 } else { identity };
            let shape = match (identity, side) {
                (0.0, _) => [outer, width, inner],
                (_, Side::Incoming) => [1, width, width],
                _ => [width, width, 1],
            };
            let slice = Slice {
                parameter,
                shape,
                range: before..before + n,
            };
            shapes.push(shape);
            all.push(Term {
                slice,
                side,
                weight,
                mean: false,
                identity,
            });
        }
        if shared {
            all.push(all[0].clone());
        }
        let law = Law::new("any", 1, symmetry, all);
        Any { law, shapes }
    })
}

/// The entries of each neuron, by index.
fn rows<F: Real>(slice: &Slice, x: &Tensor<F>) -> Vec<Vec<f64>> {
    let [outer, _, inner] = slice.shape;
    let row = |j: usize| {
        let entry = |o, i| x[[o, slice.range.start + j, i]].as_f64();
        (0..outer)
            .flat_map(|o| (0..inner).map(move |i| (o, i)))
            .map(|(o, i)| entry(o, i))
            .collect()
    };
    (0..slice.range.len()).map(row).collect()
}

/// The entries of each neuron in W + c I.
fn values<F: Real>(term: &Term, x: &Tensor<F>) -> Vec<Vec<f64>> {
    let mut out = rows(&term.slice, x);
    if term.identity != 0.0 {
        // Row or column j of a square weight has its entry on the diagonal at place j.
        for (j, row) in out.iter_mut().enumerate() {
            row[term.slice.range.start + j] += term.identity;
        }
    }
    out
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Entries of a law from those of each term: Σ over terms of f(term, i, j), for a law without a matrix at i =
/// j.
fn entries(law: &Law, f: impl Fn(&Term, usize, usize) -> f64) -> Vec<f64> {
    let n = law.neurons();
    let at = |(i, j)| law.terms.iter().map(|term| f(term, i, j)).sum();
    match law.symmetry {
        Symmetry::Rescaling | Symmetry::Translation => (0..n).map(|j| at((j, j))).collect(),
        Symmetry::Linear | Symmetry::Rotation => (0..n * n).map(|k| at((k / n, k % n))).collect(),
    }
}

/// δ from its definition.
fn delta<F: Real>(law: &Law, theta: &[Tensor<F>], g: &[Tensor<F>]) -> Vec<f64> {
    entries(law, |term, i, j| {
        let k = term.slice.parameter;
        let (m, n) = (values(term, &theta[k]), rows(&term.slice, &g[k]));
        match (law.symmetry, term.side) {
            (Symmetry::Rescaling, _) => term.weight * dot(&m[j], &n[j]),
            (Symmetry::Translation, _) => term.weight * n[j].iter().sum::<f64>(),
            (Symmetry::Linear, Side::Incoming) => dot(&n[i], &m[j]),
            (Symmetry::Linear, _) => -dot(&m[i], &n[j]),
            (Symmetry::Rotation, _) => dot(&n[i], &m[j]) - dot(&m[i], &n[j]),
        }
    })
}

/// c from its definition.
fn balance(law: &Law, theta: &[Tensor<f64>]) -> Vec<f64> {
    entries(law, |term, i, j| {
        let m = values(term, &theta[term.slice.parameter]);
        match (law.symmetry, term.side) {
            (Symmetry::Rescaling, _) => term.weight * dot(&m[j], &m[j]),
            (Symmetry::Translation, _) => term.weight * m[j].iter().sum::<f64>(),
            (Symmetry::Linear, Side::Incoming) => dot(&m[i], &m[j]),
            (Symmetry::Linear, _) => -dot(&m[i], &m[j]),
            (Symmetry::Rotation, _) => unreachable!("it has no c"),
        }
    })
}

/// Σ |w θ G|, for a translation Σ |G|.
fn size(law: &Law, theta: &[Tensor<f64>], g: &[Tensor<f64>]) -> Vec<f64> {
    let sizes = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum::<f64>();
    entries(law, |term, i, j| {
        let k = term.slice.parameter;
        let (m, n) = (values(term, &theta[k]), rows(&term.slice, &g[k]));
        match (law.symmetry, term.side) {
            (Symmetry::Rescaling, _) => term.weight.abs() * sizes(&m[j], &n[j]),
            (Symmetry::Translation, _) => n[j].iter().map(|x| x.abs()).sum(),
            (Symmetry::Linear, Side::Incoming) => sizes(&n[i], &m[j]),
            (Symmetry::Linear, _) => sizes(&m[i], &n[j]),
            (Symmetry::Rotation, _) => sizes(&n[i], &m[j]) + sizes(&m[i], &n[j]),
        }
    })
}

#[track_caller]
fn close(a: &[f64], b: &[f64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    let differ = |(a, b): (&f64, &f64)| (a - b).abs() > tolerance * (1.0 + a.abs());
    let found = a.iter().zip(b).position(differ);
    assert!(found.is_none(), "{a:?} and {b:?} differ at {found:?}");
}

fn transformed(any: &Any, theta: &[Tensor<f64>], entry: usize, t: f64) -> Vec<Tensor<f64>> {
    let mut theta = theta.to_vec();
    any.law
        .transform(&mut theta.iter_mut().collect::<Vec<_>>(), entry, t);
    theta
}

proptest! {
    #![proptest_config(proptest_cases(300))]

    #[test]
    fn delta_and_size_are_their_definition((any, seed) in (laws(), any::<u64>())) {
        let (theta, g) = (any.draw::<f64>(seed), any.draw(seed ^ 1));
        let found = any.law.measure(&refs(&theta), &g);
        close(&found.delta, &delta(&any.law, &theta, &g), 1e-12);
        close(&found.size, &size(&any.law, &theta, &g), 1e-12);
        // Sums are in double precision for both types, so the tolerance is the same.
        let (theta, g) = (any.draw::<f32>(seed), any.draw(seed ^ 1));
        let found = any.law.measure(&refs(&theta), &g);
        close(&found.delta, &delta(&any.law, &theta, &g), 1e-12);
    }

    /// The parameters of a law may be views.
    #[test]
    fn strides_do_not_matter((any, seed) in (laws(), any::<u64>())) {
        let strided = |x: &Tensor<f64>| {
            let turned = x.t().as_standard_layout().into_owned();
            turned.reversed_axes().into_shared()
        };
        let (theta, g) = (any.draw::<f64>(seed), any.draw::<f64>(seed ^ 1));
        let (a, b): (Vec<_>, Vec<_>) = (theta.iter().map(strided).collect(), g.iter().map(strided).collect());
        prop_assert_eq!(any.law.measure(&refs(&a), &b), any.law.measure(&refs(&theta), &g));
        prop_assert_eq!(transformed(&any, &a, 0, 0.7), transformed(&any, &theta, 0, 0.7));
    }

    #[test]
    fn on_the_tape_are_the_same_numbers((any, seed) in (laws(), any::<u64>())) {
        let (theta, g) = (any.draw::<f64>(seed), any.draw::<f64>(seed ^ 1));
        let tape = Tape::new();
        let on_tape = |x: &[Tensor<f64>]| x.iter().map(|x| tape.var(x.clone())).collect::<Vec<_>>();
        let (m, n) = (on_tape(&theta), on_tape(&g));
        let found = symmetry::delta(&any.law, &m, &n);
        let width = any.law.neurons();
        let shape = match any.law.symmetry {
            Symmetry::Rescaling | Symmetry::Translation => vec![width],
            Symmetry::Linear | Symmetry::Rotation => vec![width; 2],
        };
        prop_assert_eq!(found.shape(), &shape[..]);
        close(&found.value().iter().copied().collect::<Vec<_>>(), &delta(&any.law, &theta, &g), 1e-12);
        match symmetry::balance(&any.law, &m) {
            Some(found) => {
                prop_assert_eq!(found.shape(), shape);
                let found: Vec<f64> = found.value().iter().copied().collect();
                close(&found, &balance(&any.law, &theta), 1e-12);
            }
            None => prop_assert_eq!(any.law.symmetry, Symmetry::Rotation),
        }
    }

    /// δ is the derivative of the loss along the change: ⟨G, dθ/dt⟩ at t = 0.
    #[test]
    fn delta_is_the_derivative_along_the_change((any, seed) in (laws(), any::<u64>())) {
        let (theta, g) = (any.draw::<f64>(seed), any.draw(seed ^ 1));
        let delta = any.law.measure(&refs(&theta), &g).delta;
        let h = 1e-4;
        for (entry, expected) in delta.iter().enumerate() {
            let (a, b) = (transformed(&any, &theta, entry, -h), transformed(&any, &theta, entry, h));
            let along = a.iter().zip(&b).zip(&g).flat_map(|((a, b), g)| {
                a.iter().zip(b).zip(g).map(|((a, b), g)| g * (b - a) / (2.0 * h)).collect::<Vec<_>>()
            });
            close(&[along.sum()], &[*expected], 1e-5);
        }
    }

    #[test]
    fn moves_along_one_entry_add_up((any, seed) in (laws(), any::<u64>()), (s, t) in (-2.0..2.0, -2.0..2.0)) {
        let theta = any.draw::<f64>(seed);
        for entry in 0..any.law.entries() {
            let apart = transformed(&any, &transformed(&any, &theta, entry, s), entry, t);
            let together = transformed(&any, &theta, entry, s + t);
            for (a, b) in apart.iter().zip(&together) {
                let flat = |x: &Tensor<f64>| x.iter().copied().collect::<Vec<_>>();
                close(&flat(a), &flat(b), 1e-10);
            }
        }
    }

    /// c after a step from anywhere: c⁺ = (1 − ηλ)² c − η (1 − ηλ) (δ + δᵀ) + η² γ, for a translation (1 −
    /// ηλ) c − η δ.
    #[test]
    fn drift_is_what_is_left_of_a_step_where_delta_vanishes(
        (any, seed) in (laws(), any::<u64>()),
        (lr, decay) in (0.01..1.0, 0.0..1.0),
    ) {
        let (mut theta, g) = (any.draw::<f64>(seed), any.draw::<f64>(seed ^ 1));
        let c = any.law.balance(&refs(&theta));
        if any.law.symmetry == Symmetry::Rotation {
            prop_assert_eq!(c, None);
            prop_assert_eq!(any.law.drift(&vec![0.0; any.law.entries()], &g, lr, decay), None);
            return Ok(());
        }
        let c = c.unwrap();
        close(&c, &balance(&any.law, &theta), 1e-12);
        let delta = any.law.measure(&refs(&theta), &g).delta;
        let beside = any.law.terms.iter().any(|term| term.identity != 0.0);
        if beside {
            prop_assert_eq!(any.law.drift(&c, &g, lr, decay), None);
        }
        let decay = if beside { 0.0 } else { decay };
        let drift = any.law.drift(&c, &g, lr, decay).unwrap();
        Optimizer::new(Algorithm::SGD).weight_decay(decay).step(&mut theta, &g, lr);
        let (n, keep) = (any.law.neurons(), 1.0 - lr * decay);
        let along = |k: usize| match any.law.symmetry {
            Symmetry::Translation => lr * delta[k],
            Symmetry::Rescaling => 2.0 * lr * keep * delta[k],
            _ => lr * keep * (delta[k] + delta[k % n * n + k / n]),
        };
        let expected: Vec<f64> = (0..c.len()).map(|k| drift[k] - along(k)).collect();
        // Where a parameter has two terms, they share its step.
        close(&any.law.balance(&refs(&theta)).unwrap(), &expected, 1e-10);
    }
}
