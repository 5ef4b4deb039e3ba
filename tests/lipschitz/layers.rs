//! Single layers: the softmax with its ties, LayerNorm where it is exact and where it is not, PairNorm,
//! dropout, and the sandwich for layers and models.

use super::sandwich::Subject;
use super::support::{cases, near, tokens};
use emmy::graph::{Graph, generators::random_graph};
use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm, softmax_norm};
use emmy::nn::{
    Activation, AttentionConfig, AttentionOptions, FeedForward, FeedForwardConfig, GatConv,
    Gatv2Conv, GcnConv, Gru, LayerNorm, Linear, Lstm, Mlp, MultiHeadAttention, PairEps, PairMode,
    PairNorm, Pass, RmsNorm, Trace, TransformerConv, TransformerOptions,
};
use emmy::ops::attention::Mask;
use emmy::{Tape, Tensor, Var, init, tensor::tensor};

/// A graph of 8 nodes: small, because a case needs whole Jacobians.
fn graph() -> Graph {
    random_graph(8, 12, 0).with_self_loops()
}

fn norm_of<'t>(y: Var<'t, f64>, x: Var<'t, f64>, p: Lp) -> f64 {
    jacobian_norm(y, x, p).0.upper.get()
}

#[test]
fn the_jacobian_of_a_softmax() {
    let check = |p: Vec<f64>| {
        let n = p.len();
        let tape = Tape::new();
        let x = tape.var(tensor(&[n], p.iter().map(|p| p.ln()).collect()));
        let y = x.softmax(-1);
        for norm in Lp::ALL {
            let exact = norm_of(y, x, norm);
            let formula = softmax_norm(&p, norm);
            assert!(
                (formula - exact).abs() <= 2e-9 * exact.max(1e-3),
                "{p:?}, {norm}: {formula}, {exact}"
            );
            assert!(formula <= 0.5 + 1e-15);
        }
        let mut sorted = p.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let rest: f64 = sorted[1..].iter().sum();
        assert!(softmax_norm(&p, Lp::Two) <= sorted[0] * (rest + sorted[1]) * (1.0 + 1e-12));
    };
    for seed in cases(50) {
        let n = 2 + seed as usize % 6;
        let x = init::normal::<f64>(
            &[n],
            [0.1, 1.0, 4.0][seed as usize % 3],
            &mut init::rng(seed),
        );
        let y = Tape::new().constant(x).softmax(-1).value();
        check(y.iter().copied().collect());
    }
    // Ties: the norm is the largest coefficient itself.
    for p in [
        vec![0.25; 4],
        vec![0.4, 0.4, 0.2],
        vec![0.5, 0.5],
        vec![0.3, 0.3, 0.3, 0.1],
    ] {
        assert_eq!(softmax_norm(&p, Lp::Two), p[0]);
        check(p);
    }
    assert_eq!(softmax_norm(&[1.0, 0.0], Lp::Two), 0.0);
    assert_eq!(softmax_norm(&[], Lp::Two), 0.0);
    // 1 − p₍₁₎ does not cancel.
    let tiny = softmax_norm(&[1.0 - 1e-16, 3e-17, 1e-17], Lp::Two);
    assert!(tiny > 4e-17 && tiny < 1e-16, "{tiny}");
}

/// With equal gains and d ≥ 3 the local bound is the constant exactly; with d = 2, or gains that differ, it
/// is an upper bound only.
#[test]
fn layer_norm() {
    for seed in cases(20) {
        let d = 3 + seed as usize % 4;
        let tape = Tape::new();
        let x = tape.var((tokens(3, d, seed) * 2.0).into_shared());
        let gain = tape.constant(Tensor::from_elem(vec![d], -1.7));
        let y = x.layer_norm(Some(gain), None, 0.3);
        let here = bound(y, x, Lp::Two, Domain::Here).unwrap().upper().get();
        near(norm_of(y, x, Lp::Two), here, 1e-7);
        let everywhere = bound(y, x, Lp::Two, Domain::Everywhere)
            .unwrap()
            .upper()
            .get();
        near(everywhere, 1.7 / 0.3f64.sqrt(), 1e-12);
    }
    // D = 2: rows have two values, and the Jacobian is small.
    let tape = Tape::new();
    let x = tape.var(tensor(&[1, 2], vec![0.0, 0.5]));
    let y = x.layer_norm(None, None, 0.01);
    let here = bound(y, x, Lp::Two, Domain::Here).unwrap().upper().get();
    assert!(norm_of(y, x, Lp::Two) < 0.2 * here);
}

/// s √n / ‖X_c‖_F at a point for all nodes together; every mode and reading stays below its bounds.
#[test]
fn pair_norm() {
    for seed in cases(20) {
        let (n, d, s) = (2 + seed as usize % 4, 2 + seed as usize % 3, 1.5);
        let x = (tokens(n, d, seed) * 3.0).into_shared();
        let at = |norm: PairNorm, domain| {
            let tape = Tape::new();
            let v = tape.var(x.clone());
            let pass = Pass::eval(&tape, &norm);
            let y = norm.forward(&pass, v);
            let upper = bound(y, v, Lp::Two, domain).map(|b| b.upper().get());
            (norm_of(y, v, Lp::Two), upper)
        };
        let exact = PairNorm {
            scale: s,
            eps: 0.0,
            ..PairNorm::new(PairMode::Pn)
        };
        let (found, here) = at(exact, Domain::Here);
        let mean = x.mean_axis(emmy::ndarray::Axis(0)).unwrap();
        let size = (&x - &mean).mapv(|x| x * x).sum().sqrt();
        let formula = s * (n as f64).sqrt() / size;
        near(here.unwrap(), formula, 1e-9);
        near(found, formula, 1e-7);
        assert!(at(exact, Domain::Everywhere).1.is_err());
        for mode in [PairMode::Pn, PairMode::PnSi, PairMode::PnScs] {
            for reading in [PairEps::UnderRoot, PairEps::BesideNorm] {
                let norm = PairNorm {
                    mode,
                    reading,
                    scale: s,
                    eps: 0.2,
                };
                let (found, here) = at(norm, Domain::Here);
                let everywhere = at(norm, Domain::Everywhere).1.unwrap();
                let here = here.unwrap();
                assert!(found <= here * (1.0 + 1e-9) && here <= everywhere * (1.0 + 1e-9));
            }
        }
    }
}

/// In training a mask with survivors times 1/(1 − p): a factor above 1. In an evaluation nothing.
#[test]
fn dropout() {
    let tape = Tape::new();
    let x = tape.var(tokens(4, 4, 0).into_shared());
    let y = x.dropout(0.75, 1);
    let upper = bound(y, x, Lp::Two, Domain::Everywhere)
        .unwrap()
        .upper()
        .get();
    near(upper, 4.0, 1e-12);
    let found = norm_of(y, x, Lp::Two);
    assert!(found <= upper * (1.0 + 1e-9) && found > 3.99);
}

#[test]
fn of_layers_and_models() {
    const ALL: [bool; 3] = [true; 3];
    const LIMITED: [bool; 3] = [false, true, true];
    let rng = &mut init::rng(11);
    let linear = Linear::<f64>::new(4, 3, true, rng);
    let mlp = Mlp::<f64>::new(&[4, 7, 6, 2], Activation::Relu, true, rng);
    let relu = FeedForward::<f64>::new(FeedForwardConfig::relu(4, 9), rng).unwrap();
    let glu =
        FeedForward::<f64>::new(FeedForwardConfig::gated(4, 9, Activation::Silu), rng).unwrap();
    let (norm, rms) = (
        LayerNorm {
            eps: 0.1,
            ..LayerNorm::<f64>::new(4)
        },
        RmsNorm {
            eps: 0.1,
            ..RmsNorm::<f64>::new(4)
        },
    );
    let contractive =
        MultiHeadAttention::<f64>::new(AttentionConfig::contractive(4, 2, 0.8, Lp::Two), rng)
            .unwrap();
    let gcn = GcnConv::<f64>::new(4, 3, true, rng);
    let graph = graph();
    let adjacency = graph.gcn_norm::<f64>();
    let check =
        |name: &str, n: usize, f: &(dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64> + Sync), has| {
            let subject = Subject {
                name,
                shape: vec![n, 4],
                f,
                has,
            };
            subject.check(3);
        };
    macro_rules! of {
        ($name:expr, $layer:expr, $has:expr) => {
            check(
                $name,
                3,
                &|x| {
                    let pass = Pass::differentiable(x.tape(), &$layer);
                    $layer.forward(&pass, x)
                },
                $has,
            )
        };
    }
    of!("Linear", linear, ALL);
    of!("Mlp", mlp, ALL);
    of!("FeedForward", relu, ALL);
    of!("SwiGLU", glu, LIMITED);
    of!("LayerNorm", norm, ALL);
    of!("RmsNorm", rms, ALL);
    check(
        "contractive attention",
        3,
        &|x| {
            let pass = Pass::eval(x.tape(), &contractive);
            contractive.forward(&pass, x, &Mask::causal())
        },
        ALL,
    );
    check(
        "GcnConv",
        8,
        &|x| {
            let pass = Pass::eval(x.tape(), &gcn);
            gcn.forward(&pass, x, &adjacency).relu()
        },
        ALL,
    );
    check(
        "attention and a residual connection, then LayerNorm",
        3,
        &|x| {
            let pass = Pass::eval(x.tape(), &contractive);
            let y = contractive.forward(&pass, x, &Mask::none()) + x;
            y.layer_norm(None, None, 0.2)
        },
        ALL,
    );
}

/// Layers whose operations are fused: the walk reads the compositions that define them. Attention on graphs
/// has a bound where its rows are limited, recurrent layers have one for all inputs.
#[test]
fn of_fused_layers() {
    const ALL: [bool; 3] = [true; 3];
    const LIMITED: [bool; 3] = [false, true, true];
    let rng = &mut init::rng(4);
    let graph = graph();
    let edges = graph.pattern();
    let options = AttentionOptions {
        heads: 2,
        ..AttentionOptions::DEFAULT
    };
    let gat = GatConv::<f64>::new(4, 2, options, rng);
    let gatv2 = Gatv2Conv::<f64>::new(4, 2, false, AttentionOptions::DEFAULT, rng);
    let transformer = TransformerConv::<f64>::new(4, 2, None, TransformerOptions::DEFAULT, rng);
    let (lstm, gru) = (
        Lstm::<f64>::new(4, 3, 2, rng),
        Gru::<f64>::new(4, 3, 1, rng),
    );
    let check = |name: &str,
                 shape: &[usize],
                 f: &(dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64> + Sync),
                 has| {
        let shape = shape.to_vec();
        Subject {
            name,
            shape,
            f,
            has,
        }
        .check(2);
    };
    check(
        "GatConv",
        &[8, 4],
        &|x| gat.forward(&Pass::eval(x.tape(), &gat), x, edges),
        LIMITED,
    );
    check(
        "Gatv2Conv",
        &[8, 4],
        &|x| gatv2.forward(&Pass::eval(x.tape(), &gatv2), x, edges),
        LIMITED,
    );
    check(
        "TransformerConv",
        &[8, 4],
        &|x| transformer.forward(&Pass::eval(x.tape(), &transformer), x, edges, None),
        LIMITED,
    );
    check(
        "Lstm",
        &[2, 5, 4],
        &|x| lstm.forward(&Pass::eval(x.tape(), &lstm), x, None).0,
        ALL,
    );
    check(
        "Gru",
        &[2, 5, 4],
        &|x| gru.forward(&Pass::eval(x.tape(), &gru), x, None).0,
        ALL,
    );
}

/// A GCN layer: ‖Ã‖ ‖W‖ with ‖Ã‖ = 1 for the symmetric normalisation.
#[test]
fn the_propagation_of_a_gcn_has_norm_one() {
    let rng = &mut init::rng(1);
    let gcn = GcnConv::<f64>::new(4, 3, true, rng);
    let graph = emmy::data::karate().graph.with_self_loops();
    let adjacency = graph.gcn_norm::<f64>();
    let x = tokens(34, 4, 2).into_shared();
    let trace = Trace::at(&gcn, &x, |pass, x| gcn.forward(pass, x, &adjacency));
    let interval = trace.lipschitz(Lp::Two).unwrap();
    near(interval.upper.get(), interval.lower.get(), 1e-6);
}
