//! δ and c against sums by the formula.

use emmy::symmetry::{self, Law, Slice, Symmetry, Term};
use emmy::tensor::{Tensor, tensor};
use emmy::{Tape, init};

/// Sums over every entry by its three indices; lengths that fill no whole number of lanes.
#[test]
fn sums_are_those_of_the_formula() {
    let slices = [
        Slice::new(0, [1, 5, 37]),
        Slice::new(1, [7, 5, 1]),
        Slice::new(2, [3, 5, 16]),
        Slice::new(3, [1, 5, 1]),
        Slice::new(4, [2, 5, 3]),
    ];
    let rng = &mut init::rng(3);
    let mut draw = || {
        let draw = |s: &Slice| init::normal::<f32>(&[s.shape.iter().product()], 1.0, rng);
        slices.iter().map(draw).collect::<Vec<Tensor<f32>>>()
    };
    let (theta, g) = (draw(), draw());
    let theta: Vec<&Tensor<f32>> = theta.iter().collect();
    let neurons = 1..4;
    for symmetry in [Symmetry::Rescaling, Symmetry::Translation] {
        let terms = slices.iter().enumerate().map(|(k, slice)| {
            let term = Term::outgoing(slice.clone()).times(1.0 + k as f64);
            term.narrow(neurons.clone())
        });
        let law = Law::new("all", 1, symmetry, terms.collect());
        let found = law.measure(&theta, &g);
        let balance = law.balance(&theta).unwrap();
        for (j, balance) in balance.into_iter().enumerate() {
            let mut expected = [0.0; 3];
            for (k, slice) in slices.iter().enumerate() {
                let [outer, width, inner] = slice.shape;
                for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
                    let at = (o * width + neurons.start + j) * inner + i;
                    let (theta, g) = (f64::from(theta[k][at]), f64::from(g[k][at]));
                    let w = -1.0 - k as f64;
                    let terms = match symmetry {
                        Symmetry::Rescaling => {
                            [w * theta * g, (w * theta * g).abs(), w * theta * theta]
                        }
                        _ => [w * g, g.abs(), w * theta],
                    };
                    for (sum, term) in expected.iter_mut().zip(terms) {
                        *sum += term;
                    }
                }
            }
            let found = [found.delta[j], found.size[j], balance];
            approx::assert_relative_eq!(found[..], expected[..], max_relative = 1e-12);
        }
    }
}

/// a + t and b − 2t, and beside them c, with whose gradient δ is compared.
#[test]
fn a_translation_has_weights_and_a_scale() {
    let terms = vec![
        Term::incoming(Slice::new(0, [1, 2, 1])),
        Term::outgoing(Slice::new(1, [1, 2, 1])).times(2.0),
        Term::reference(Slice::new(2, [1, 2, 3])),
    ];
    let law = Law::new("shift", 1, Symmetry::Translation, terms);
    let a = tensor(&[2], vec![1.0, 2.0]);
    let b = tensor(&[2], vec![10.0, 20.0]);
    let c = tensor(&[2, 3], vec![1.0; 6]);
    let gradients = [
        tensor(&[2], vec![4.0, -1.0]),
        tensor(&[2], vec![2.0, 0.5]),
        tensor(&[2, 3], vec![1.0, -2.0, 3.0, 0.0, 0.0, 4.0]),
    ];
    let measured = law.measure(&[&a, &b, &c], &gradients);
    assert_eq!(measured.delta, [0.0, -2.0]);
    assert_eq!(measured.size, [12.0, 5.5]);
    let balance = law.balance(&[&a, &b, &c]).unwrap();
    assert_eq!(balance, [-19.0, -38.0]);
    let drift = law.drift(&balance, &gradients, 0.5, 0.5).unwrap();
    assert_eq!(drift, [0.75 * -19.0, 0.75 * -38.0]);

    let tape = Tape::new();
    let on_tape = |x: &Tensor<f64>| tape.var(x.clone());
    let (theta, g) = ([&a, &b, &c].map(on_tape), gradients.each_ref().map(on_tape));
    let delta = symmetry::delta(&law, &theta, &g).value();
    assert!(delta.iter().eq(&measured.delta));
    let on_tape = symmetry::balance(&law, &theta).unwrap().value();
    assert!(on_tape.iter().eq(&balance));

    let (mut a, mut b, mut c) = (a, b, c);
    law.transform(&mut [&mut a, &mut b, &mut c], 1, 0.5);
    assert_eq!(a, tensor(&[2], vec![1.0, 2.5]));
    assert_eq!(b, tensor(&[2], vec![10.0, 19.0]));
    assert_eq!(c, tensor(&[2, 3], vec![1.0; 6]));
}

/// A neuron whose terms are all zero has a relative δ of 0; one with a small size is relative to the floor.
#[test]
fn a_relative_delta_has_a_floor() {
    let residual = symmetry::Residual {
        delta: vec![0.0, 1.0, -3.0],
        size: vec![0.0, 2.0, 4.0],
    };
    assert_eq!(residual.relative(), [0.0, 0.5, 0.75]);
    assert_eq!(residual.worst(), 0.75);
    assert_eq!(residual.worst_above(10.0), 0.3);
    let dead = symmetry::Residual {
        delta: vec![0.0],
        size: vec![0.0],
    };
    assert_eq!((dead.worst(), dead.worst_above(1.0)), (0.0, 0.0));
}

/// The same for a generator, whose floor is the largest derivative times its largest entry.
#[test]
fn the_relative_delta_of_a_generator_has_a_floor() {
    let generator = symmetry::Generator::new(vec![(0, 0, 2.0), (1, 1, -2.0)], vec![(2, 1.0)]);
    let theta = [3.0, 1.0, 5.0];
    // 2 · 3 · 1 − 2 · 1 · 2 + 1 · (−1) = 1, and the sizes are 6 + 4 + 1.
    assert_eq!(generator.delta(&theta, &[1.0, 2.0, -1.0]), (1.0, 11.0));
    assert_eq!(generator.relative(&theta, &[1.0, 2.0, -1.0]), 1.0 / 11.0);
    // Its terms are 0.75; the largest derivative, which it does not touch, is 50, and 50 · 2 = 100.
    let theta = [3.0, 1.0, 5.0, 9.0];
    assert_eq!(generator.relative(&theta, &[0.125, 0.0, 0.0, 50.0]), 0.0075);
    assert_eq!(generator.relative(&theta, &[0.0; 4]), 0.0);
}

#[test]
fn generators_add_up() {
    let a = symmetry::Generator::new(vec![(1, 0, 1.0), (0, 1, 1.0)], vec![(2, 3.0)]);
    let b = symmetry::Generator::new(vec![(1, 0, -2.0), (1, 1, 5.0)], Vec::new());
    assert_eq!((a.entries(), a.largest()), (3, 3.0));
    assert!(a.is_conserving(1e-9) && !b.is_conserving(1e-9));
    let sum = symmetry::Generator::combination([(2.0, &a), (1.0, &b)]);
    // The entry (1, 0) is 2 − 2 = 0, and is not kept.
    assert_eq!(sum.matrix(), [(0, 1, 2.0), (1, 1, 5.0)]);
    assert_eq!(sum.vector(), [(2, 6.0)]);
    assert_eq!(sum.direction(&[1.0, 10.0, 0.0]), [20.0, 50.0, 6.0]);
}
