//! The bound at the recorded input: activations have their slopes there.

use super::support::cases;
use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm};
use emmy::nn::{Activation, AttentionOptions, GatConv, LipschitzNorm, Mlp, Trace};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::{Tape, Tensor, Var, init};

/// The norm of the Jacobian, the bound at the point, and the bound for all inputs if there is one.
fn three(x: &Tensor<f64>, p: Lp, f: impl for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>) -> [f64; 3] {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    let y = f(x);
    let (norm, _) = jacobian_norm(y, x, p);
    let here = bound(y, x, p, Domain::Here).unwrap().upper().get();
    let everywhere = bound(y, x, p, Domain::Everywhere).map(|b| b.upper().get());
    [norm.lower.get(), here, everywhere.unwrap_or(f64::INFINITY)]
}

/// A network of linear maps and activations is one matrix at each row.
#[test]
fn a_network_of_rows_has_the_norm_of_its_jacobian() {
    let shapes: [&[usize]; 4] = [&[5, 12, 3], &[4, 8, 8, 2], &[6, 10, 10, 10, 1], &[3, 20, 3]];
    let mut gains = Vec::new();
    for seed in cases(4) {
        let rng = &mut init::rng(seed);
        let widths = shapes[seed as usize % 4];
        for rows in [1, 3] {
            let x = init::normal::<f64>(&[rows, widths[0]], 1.0, rng);
            for activation in [
                Activation::Relu,
                Activation::LeakyRelu { slope: 0.1 },
                Activation::Elu,
                Activation::Gelu,
                Activation::Tanh,
            ] {
                let net = Mlp::<f64>::new(widths, activation, true, rng);
                let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
                for p in Lp::ALL {
                    let here = trace.lipschitz_on(p, Domain::Here).unwrap();
                    let everywhere = trace.lipschitz(p).unwrap().upper;
                    assert!(
                        here.lower.get() <= here.upper.get() && here.upper <= everywhere,
                        "{widths:?}, {activation:?}, p = {p}, seed {seed}: {here} of {everywhere}"
                    );
                    if p != Lp::Two {
                        let ratio = here.ratio();
                        assert!(ratio < 1.0 + 1e-9, "{activation:?}, p = {p}: {ratio}");
                    }
                }
                let [norm, here, everywhere] = three(&x, Lp::Two, |x| {
                    net.forward(&emmy::nn::Pass::eval(x.tape(), &net), x)
                });
                assert!(
                    norm <= here && here <= norm * (1.0 + 1e-8),
                    "{activation:?}, seed {seed}: {here} for {norm}"
                );
                gains.push(everywhere / here);
            }
        }
    }
    assert!(gains.iter().any(|g| *g > 2.0));
}

/// Every activation, also the composed ones and those between residual connections.
#[test]
fn every_activation_has_its_slope() {
    type F = for<'t> fn(Var<'t, f64>) -> Var<'t, f64>;
    let all: [(&str, F); 13] = [
        ("relu", |x| x.relu()),
        ("leaky_relu, steep", |x| x.leaky_relu(3.0)),
        ("elu", |x| x.elu(1.5)),
        ("gelu", |x| x.gelu()),
        ("gelu_tanh", |x| x.gelu_tanh()),
        ("silu", |x| x.silu()),
        ("tanh", |x| x.tanh()),
        ("sigmoid", |x| x.sigmoid()),
        ("softplus", |x| x.softplus()),
        ("sin", |x| x.sin()),
        ("abs", |x| x.abs()),
        ("clamp", |x| x.clamp(-0.5, 0.7)),
        ("square", |x| x.square()),
    ];
    for (name, f) in all {
        for seed in cases(4) {
            let rng = &mut init::rng(seed);
            let x = init::normal::<f64>(&[3, 4], 1.0, rng);
            let [w1, w2] = [[4, 7], [7, 4]].map(|s| init::normal::<f64>(&s, 1.0, rng));
            for p in Lp::ALL {
                let [norm, here, everywhere] = three(&x, p, |x| {
                    let [a, b] = [&w1, &w2].map(|w| x.tape().constant(w.clone()));
                    x - f(x.matmul(a).add_scalar(0.1)).matmul(b).scale(0.5)
                });
                assert!(
                    norm <= here && here <= norm * (1.0 + 1e-7) && here <= everywhere,
                    "{name}, p = {p}, seed {seed}: {norm}, {here}, {everywhere}"
                );
            }
        }
    }
}

/// The same three numbers for dot-product attention. One operand moves: number 0, 1 or 2 of queries, keys
/// and values.
fn of_attention(operands: &[Tensor<f64>; 3], moving: usize, mask: Mask) -> [f64; 3] {
    let width = operands[0].shape()[operands[0].ndim() - 1];
    three(&operands[moving], Lp::Two, |x| {
        let [q, k, v] = [0, 1, 2].map(|which| match which == moving {
            true => x,
            false => x.tape().constant(operands[which].clone()),
        });
        DenseAttention::new(width, mask.clone()).attend(Qkv::new(q, k, v))
    })
}

/// Where values alone move, the bound is the norm of the coefficients, also where few keys have most of
/// them.
#[test]
fn attention_has_the_norm_of_its_coefficients() {
    for seed in cases(9) {
        let rng = &mut init::rng(seed);
        let [n, m] = [[5, 5], [7, 3], [2, 9]][seed as usize % 3];
        let [q, k] = [n, m].map(|rows| init::normal::<f64>(&[rows, 1, 4], 3.0, rng));
        let v = init::normal::<f64>(&[m, 1, 2], 1.0, rng);
        let [norm, here, everywhere] = of_attention(&[q, k, v], 2, Mask::none());
        assert!(
            norm <= here && here <= norm * (1.0 + 1e-6) && here <= everywhere,
            "seed {seed}: {norm}, {here}, {everywhere}"
        );
    }
}

/// Where two keys at 0 move, which orthogonal queries see, the bound is the norm: queries in different
/// directions do not add up. The norm is proportional to queries and values, also where their squares
/// overflow or vanish.
#[test]
fn keys_that_orthogonal_queries_see_have_the_norm_of_their_jacobian() {
    for seed in cases(9) {
        let rng = &mut init::rng(seed);
        let q = Tensor::from_shape_fn(vec![4, 1, 4], |at| f64::from(at[0] == at[2]));
        let v = init::normal::<f64>(&[2, 1, 3], 1.0, rng);
        let of_size = |size: f64| {
            let [q, v] = [&q, &v].map(|x| (x * size).into_shared());
            let [norm, here, _] =
                of_attention(&[q, Tensor::zeros(vec![2, 1, 4]), v], 1, Mask::none());
            [norm, here / (size * size)]
        };
        let [norm, _] = of_size(1.0);
        for size in [1.0, 1e-90, 1e90] {
            let [_, here] = of_size(size);
            assert!(
                norm * (1.0 - 1e-12) <= here && here <= norm * (1.0 + 1e-6),
                "seed {seed}, size {size}: {norm}, {here}"
            );
        }
    }
}

/// Heads, shared keys, items and masks, for each operand alone and for self-attention.
#[test]
fn attention_of_every_shape_is_bounded() {
    for seed in cases(12) {
        let rng = &mut init::rng(seed);
        let mask = || match seed % 3 {
            0 => Mask::none(),
            1 => Mask::causal(),
            _ => Mask::lengths(&[4, 2]),
        };
        let shapes = [[2, 4, 4, 3], [2, 4, 2, 3], [2, 4, 2, 2]];
        let operands = shapes.map(|shape| init::normal::<f64>(&shape, 1.5, rng));
        for moving in 0..3 {
            let [norm, here, _] = of_attention(&operands, moving, mask());
            assert!(
                0.0 < norm && norm <= here,
                "{moving}, seed {seed}: {norm}, {here}"
            );
        }
        let u = init::normal::<f64>(&[2, 4, 5], 1.0, rng);
        let maps = [12, 6, 4].map(|columns| init::normal::<f64>(&[5, columns], 0.7, rng));
        let [norm, here, _] = three(&u, Lp::Two, |u| {
            let [q, k, v] = [0, 1, 2].map(|which| {
                let map = u.tape().constant(maps[which].clone());
                u.matmul(map).reshape(&shapes[which])
            });
            DenseAttention::new(3, mask()).attend(Qkv::new(q, k, v))
        });
        assert!(
            0.0 < norm && norm <= here,
            "all, seed {seed}: {norm}, {here}"
        );
    }
}

/// At 0 every neuron of a network without biases is at its kink: the bound holds for the pieces all around.
#[test]
fn at_a_kink_the_bound_holds_for_every_piece_around() {
    for seed in cases(4) {
        let rng = &mut init::rng(seed);
        let net = Mlp::<f64>::new(&[3, 9, 9, 2], Activation::Relu, false, rng);
        let f = |x: Var<'_, f64>| -> f64 {
            let y = net.forward(&emmy::nn::Pass::eval(x.tape(), &net), x);
            jacobian_norm(y, x, Lp::Two).0.lower.get()
        };
        let origin = Tensor::<f64>::zeros(vec![1, 3]);
        let trace = Trace::at(&net, &origin, |pass, x| net.forward(pass, x));
        let here = trace.lipschitz_on(Lp::Two, Domain::Here).unwrap().upper;
        assert!(here <= trace.lipschitz(Lp::Two).unwrap().upper);
        let around = (0..50).map(|_| {
            let tape = Tape::new();
            f(tape.var(init::normal::<f64>(&[1, 3], 1e-3, rng)))
        });
        let steepest = around.fold(0.0, f64::max);
        assert!(
            steepest > 0.0 && steepest <= here.get(),
            "{steepest}, {here}"
        );
    }
}

/// The message that GAT has no bound names remedies, and each of them gives a bound.
#[test]
fn the_remedies_of_gat_give_bounds() {
    let rng = &mut init::rng(5);
    let club = emmy::data::karate();
    let edges = club.graph.with_self_loops();
    let edges = edges.pattern();
    let x = init::normal::<f64>(&[club.nodes(), 4], 1.0, rng);
    let plain = vec![GatConv::<f64>::new(4, 2, AttentionOptions::DEFAULT, rng)];
    let trace = Trace::at(&plain, &x, |pass, x| plain[0].forward(pass, x, edges));
    let message = trace.lipschitz(Lp::Two).unwrap_err().to_string();
    for remedy in ["`score_norm`", "`Domain::Here`", "`Domain::Rows`"] {
        assert!(message.contains(remedy), "{message}");
    }
    for domain in [Domain::Here, Domain::Rows(4.0)] {
        let found = trace.lipschitz_on(Lp::Two, domain).unwrap();
        assert!(found.upper.is_finite() && found.lower.get() <= found.upper.get());
    }
    let options = AttentionOptions {
        score_norm: Some(LipschitzNorm::GAT),
        ..AttentionOptions::DEFAULT
    };
    let normal = vec![GatConv::<f64>::new(4, 2, options, rng)];
    let trace = Trace::at(&normal, &x, |pass, x| normal[0].forward(pass, x, edges));
    assert!(trace.lipschitz(Lp::Two).unwrap().upper.is_finite());
}
