//! Weights of every size that an `f64` can have: no panic, and no interval that contradicts itself.

use crate::cases::{cases, number};
use emmy::lipschitz::{Domain, Lp, bound, local};
use emmy::nn::{Activation, BlockConfig, GcnConv, Mlp, Module, Trace, Transformer};
use emmy::ops::attention::Mask;
use emmy::{Tape, Tensor, init, linalg::svd};

/// Near ±154 the square of a weight leaves the range of an `f64`, near ±77 the product of four. In
/// short runs the first of them are taken.
const EXPONENTS: [i32; 11] = [300, -160, 78, -300, 160, -78, -155, 150, -20, 20, 0];

fn check(trace: &Trace, what: &str) {
    for p in Lp::ALL {
        for domain in [Domain::Everywhere, Domain::Rows(3.0), Domain::Here] {
            let Ok(found) = trace.lipschitz_on(p, domain) else {
                continue;
            };
            let (lower, upper) = (found.lower.get(), found.upper.get());
            assert!(
                lower <= upper && lower.is_finite(),
                "{what}, p = {p}, {domain:?}: {lower:e} to {upper:e}"
            );
        }
        trace.lipschitz_by_layer(p, Domain::Everywhere).unwrap();
    }
}

fn scaled<M: Module<f64>>(mut net: M, size: f64) -> M {
    for tensor in net.tensors_mut() {
        tensor.mapv_inplace(|x| x * size);
    }
    net
}

#[test]
fn models_with_weights_of_any_size() {
    let rng = &mut init::rng(0);
    let x = init::normal::<f64>(&[4, 6], 1.0, rng);
    let club = emmy::data::karate();
    let adjacency = club.graph.with_self_loops().gcn_norm::<f64>();
    let features = init::normal::<f64>(&[club.nodes(), 6], 1.0, rng);
    for &exponent in EXPONENTS.iter().take(number(11) as usize) {
        let size = 10f64.powi(exponent);
        for (activation, widths) in [
            (Activation::Relu, &[6, 3][..]),
            (Activation::Relu, &[6, 5, 5, 3]),
            (Activation::Gelu, &[6, 8, 3]),
            (Activation::Tanh, &[6, 8, 3]),
        ] {
            let net = Mlp::<f64>::new(widths, activation, true, rng);
            let net = scaled(net, size);
            let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
            check(&trace, &format!("{activation:?} {widths:?} × 1e{exponent}"));
        }
        let net = Transformer::<f64>::new(1, BlockConfig::pre_norm_encoder(6, 2, 12), rng).unwrap();
        let net = scaled(net, size);
        let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &Mask::none()));
        check(&trace, &format!("transformer × 1e{exponent}"));
        let net = scaled(vec![GcnConv::<f64>::new(6, 3, true, rng)], size);
        let trace = Trace::at(&net, &features, |pass, x| {
            net[0].forward(pass, x, &adjacency)
        });
        check(&trace, &format!("GCN × 1e{exponent}"));
    }
}

/// One matrix, whose norms scale exactly with a power of two as long as nothing overflows; two matrices with an
/// activation between them, whose bound is not left to the product of their norms.
#[test]
fn bounds_scale_with_the_weights() {
    let rng = &mut init::rng(1);
    let [first, second] = [[5, 7], [7, 3]].map(|s| init::normal::<f64>(&s, 1.0, rng));
    let at = |p: Lp, one: f64, two: f64| {
        let tape = Tape::<f64>::new();
        let x = tape.var(init::zeros(&[1, 5]));
        let times = |w: &Tensor<f64>, c: f64| tape.constant(w.mapv(|x| x * c).into_shared());
        let y = x
            .matmul(times(&first, one))
            .relu()
            .matmul(times(&second, two));
        bound(y, x, p, Domain::Everywhere).unwrap().upper().get()
    };
    for p in Lp::ALL {
        let usual = at(p, 1.0, 1.0);
        for k in [-400, -300, 250, 330, 490] {
            let (c, inverse) = (2f64.powi(k), 2f64.powi(-k));
            let (square, same) = (at(p, c, c) / c / c, at(p, c, inverse));
            for scaled in [square, same] {
                assert!(
                    (scaled / usual - 1.0).abs() < 1e-3,
                    "p = {p}, 2^{k}: {scaled} for {usual}"
                );
            }
        }
        assert_eq!(at(p, 1e200, 1e200), f64::INFINITY);
    }
}

/// c times an orthogonal matrix, whose norm is known: power iteration never finds more than that, not by one
/// rounding.
#[test]
fn what_is_found_is_rounded_down() {
    for seed in cases(200) {
        let rng = &mut init::rng(seed);
        let w = init::normal::<f64>(&[5, 4], 1.0, rng);
        // The norm in twice the digits would be needed; a column of one entry has its entry as norm.
        let size = w.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let tape = Tape::<f64>::new();
        let x = tape.var(init::normal(&[1, 4], 1.0, rng));
        let y = x * tape.constant(Tensor::from_elem(vec![1, 4], size));
        let found = local(y, x, 50, seed).get();
        assert!(
            found <= size && found > size * (1.0 - 1e-12),
            "{found} of {size}"
        );
        // And in single precision.
        let tape = Tape::<f32>::new();
        let x = tape.var(init::normal(&[1, 4], 1.0, rng));
        let y = x * tape.constant(Tensor::from_elem(vec![1, 4], size as f32));
        let found = local(y, x, 50, seed).get();
        let size = f64::from(size as f32);
        assert!(
            found <= size && found > size * (1.0 - 1e-4),
            "{found} of {size}"
        );
        // A map of general form, against the singular values of its matrix.
        let tape = Tape::<f64>::new();
        let x = tape.var(init::normal(&[1, 5], 1.0, rng));
        let found = local(x.matmul(tape.constant(w.clone())), x, 500, seed).get();
        let exact = svd(w.into_dimensionality().unwrap().view()).1[0];
        assert!(found <= exact * (1.0 + 1e-15), "{found} of {exact}");
    }
}
