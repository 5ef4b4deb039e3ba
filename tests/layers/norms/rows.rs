//! The rows of a norm, its derivatives, and the properties of PairNorm and batch norm.

use super::{KINDS, pairs, run, x};
use emmy::autodiff::{check_grads, grad};
use emmy::nn::{
    BatchNorm, GraphNorm, LayerNorm, Linear, Module, Norm, NormLayer, PairEps, PairMode, PairNorm,
    Params, Pass, RmsNorm, entries,
};
use emmy::{Tape, Tensor, Var, init};

#[test]
fn all_leading_axes_number_the_rows() {
    let pairs = pairs().into_iter().map(Norm::Pair);
    for norm in KINDS.into_iter().chain(pairs) {
        let mut layer = norm.build::<f64>(4, &mut init::rng(0));
        for (k, p) in layer.tensors_mut().into_iter().enumerate() {
            *p = x(&[4], k as u64);
        }
        let data = x(&[2, 3, 4], 9);
        let flat = run(
            &layer,
            &data
                .clone()
                .into_shape_with_order((6, 4))
                .unwrap()
                .into_dyn(),
        );
        let cube = run(&layer, &data);
        assert_eq!(cube.shape(), [2, 3, 4]);
        assert!(
            cube.iter().zip(&flat).all(|(a, b)| (a - b).abs() < 1e-14),
            "{norm:?}"
        );
    }
}

/// The modes and readings for which there is no reference elsewhere.
#[test]
fn every_pair_norm_has_the_derivatives_of_its_differences() {
    for norm in pairs() {
        check_grads(
            |args| {
                let pass = Pass::bound(args[0].tape(), &norm, &[]);
                norm.forward(&pass, args[0])
            },
            &[x(&[5, 3], 1)],
        )
        .unwrap_or_else(|e| panic!("{norm:?}: {e}"));
    }
}

/// The two readings of ε agree without it, and differ with it.
#[test]
fn where_the_eps_stands_matters() {
    let data = x(&[6, 4], 3);
    for mode in [PairMode::Pn, PairMode::PnSi, PairMode::PnScs] {
        let y = |eps, reading| {
            let norm = PairNorm {
                eps,
                reading,
                ..PairNorm::new(mode)
            };
            run(&(Box::new(norm) as NormLayer<f64>), &data)
        };
        let apart = |eps| {
            let (a, b) = (y(eps, PairEps::UnderRoot), y(eps, PairEps::BesideNorm));
            (a - b).iter().fold(0.0_f64, |m, d| m.max(d.abs()))
        };
        assert!(apart(0.0) < 1e-14 && apart(0.1) > 1e-3, "{mode:?}");
    }
}

#[test]
fn what_pair_norm_promises() {
    let data = x(&[7, 3], 4);
    let y = |mode, scale| {
        let norm = PairNorm {
            scale,
            eps: 0.0,
            ..PairNorm::new(mode)
        };
        run(&(Box::new(norm) as NormLayer<f64>), &data)
    };
    let lengths = |y: &Tensor<f64>| -> Vec<f64> {
        y.outer_iter()
            .map(|r| r.iter().map(|x| x * x).sum::<f64>().sqrt())
            .collect()
    };
    let pn = y(PairMode::Pn, 2.0);
    let mean = lengths(&pn).iter().map(|l| l * l).sum::<f64>() / 7.0;
    assert!((mean - 4.0).abs() < 1e-12);
    assert!(
        pn.sum_axis(ndarray::Axis(0))
            .iter()
            .all(|s| s.abs() < 1e-12)
    );
    assert!(
        lengths(&y(PairMode::PnSi, 2.0))
            .iter()
            .all(|l| (l - 2.0).abs() < 1e-12)
    );
}

#[test]
fn an_evaluation_of_batch_norm_leaves_its_state_and_does_not_mix_rows() {
    let mut norm = BatchNorm::<f64>::new(3);
    let step = |norm: &mut BatchNorm<f64>, training: bool, data: &Tensor<f64>| {
        let tape = Tape::new();
        let pass = match training {
            true => Pass::train(&tape, norm, 0),
            false => Pass::eval(&tape, norm),
        };
        let y = norm.forward(&pass, tape.constant(data)).value();
        pass.into_updates().apply(norm);
        y
    };
    for seed in 0..5 {
        step(&mut norm, true, &x(&[8, 3], seed));
    }
    let before = norm.clone();
    let data = x(&[4, 3], 7);
    let all = step(&mut norm, false, &data);
    assert_eq!(Params::of(&norm).states(), Params::of(&before).states());
    for i in 0..4 {
        let one = data
            .slice_axis(ndarray::Axis(0), (i..i + 1).into())
            .to_owned()
            .into_shared();
        let y = step(&mut norm, false, &one);
        assert!(
            y.iter()
                .zip(all.index_axis(ndarray::Axis(0), i))
                .all(|(a, b)| a == b)
        );
    }
    let names: Vec<String> = entries(&norm).into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["gain", "bias", "running.mean", "running.variance"]);
    assert_eq!(norm.parameters().len(), 2);
}

/// A feature norm, and a norm over all rows, distinguish rows only by their values: another order of the rows
/// gives the same outputs in that order.
#[test]
fn the_order_of_rows_does_not_matter() {
    let order = [3, 0, 4, 1, 2];
    let pairs = pairs().into_iter().map(Norm::Pair);
    for norm in KINDS.into_iter().chain(pairs) {
        let layer = norm.build::<f64>(3, &mut init::rng(0));
        let data = x(&[5, 3], 2);
        let (y, turned) = (
            run(&layer, &data),
            run(&layer, &data.select(ndarray::Axis(0), &order).into_shared()),
        );
        let expected = y.select(ndarray::Axis(0), &order);
        assert!(
            turned
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 1e-14),
            "{norm:?}"
        );
    }
}

/// A fused operation does not detach: the second derivative through a norm in a network is that of
/// differences, and a shared norm gets the derivatives of both uses.
#[test]
fn a_norm_may_be_used_twice() {
    struct Net {
        first: Linear<f64>,
        norm: LayerNorm<f64>,
        rms: RmsNorm<f64>,
        graph: GraphNorm<f64>,
    }
    emmy::module!(Net for f64: first, norm, rms, graph);
    let net = Net {
        first: Linear::new(3, 4, true, &mut init::rng(0)),
        norm: LayerNorm::new(4),
        rms: RmsNorm::new(4),
        graph: GraphNorm::new(4),
    };
    let mut args: Vec<Tensor<f64>> = net.tensors().into_iter().map(|p| x(p.shape(), 5)).collect();
    args.push(x(&[5, 3], 6));
    check_grads(
        |args| {
            let (&x, parameters) = args.split_last().unwrap();
            let pass = Pass::bound(x.tape(), &net, parameters);
            let y = net.norm.forward(&pass, net.first.forward(&pass, x));
            let y = net.graph.forward(&pass, net.norm.forward(&pass, y.tanh()));
            net.rms.forward(&pass, y)
        },
        &args,
    )
    .unwrap();
}

#[test]
fn a_constant_input_or_gain_costs_no_derivative() {
    let tape = Tape::<f64>::new();
    let (data, gain) = (x(&[4, 3], 1), x(&[3], 2));
    fn both<'t>(x: Var<'t, f64>, g: Var<'t, f64>) -> Var<'t, f64> {
        x.layer_norm(Some(g), None, 1e-5).tanh().sum_all()
    }
    let (v, g) = (tape.var(&data), tape.var(&gain));
    let whole = grad(both(v, g), &[v, g]);
    assert_eq!(grad(both(v, tape.constant(&gain)), &[v])[0], whole[0]);
    assert_eq!(grad(both(tape.constant(&data), g), &[g])[0], whole[1]);
}

/// Two runs in one pass follow both means, one after the other, as in PyTorch.
#[test]
fn batch_norm_follows_every_run_of_a_pass() {
    let mut norm = BatchNorm::<f64>::new(2);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &norm, 0);
    for rows in [vec![1.0, 0.0, 3.0, 0.0], vec![6.0, 0.0, 8.0, 0.0]] {
        norm.forward(&pass, tape.constant(emmy::tensor::tensor(&[2, 2], rows)));
    }
    pass.into_updates().apply(&mut norm);
    let running = norm.running.as_ref().unwrap();
    // The means are 2 and 7.
    let expected = 0.9 * (0.9 * 0.0 + 0.1 * 2.0) + 0.1 * 7.0;
    assert!((running.mean[[0]] - expected).abs() < 1e-15, "{running:?}");
}
