//! Normalisers: against PyTorch and PyTorch Geometric, their state, their contracts, and configurations.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::autodiff::{check_grads, grad, jacobian};
use emmy::nn::{
    ActNorm, BatchNorm, GraphNorm, LayerNorm, Linear, Module, Norm, NormLayer, PairEps, PairMode,
    PairNorm, Pass, RmsNorm, Running, Spectral,
};
use emmy::{Tape, Tensor, Var, init, tensor::tensor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Deserialize)]
struct Case {
    kind: String,
    x: Stored,
    value: Stored,
    parameters: BTreeMap<String, Stored>,
    eps: Option<f64>,
    mode: Option<PairMode>,
    individually: Option<bool>,
    scale: Option<f64>,
    training: Option<bool>,
    state: Option<BTreeMap<String, Stored>>,
    after: Option<BTreeMap<String, Stored>>,
    #[serde(flatten)]
    derivatives: Derivatives,
}

impl Case {
    /// The layer of the case, with its parameters.
    fn layer(&self) -> NormLayer<f64> {
        let width = *self.x.shape.last().expect("an axis");
        let [gain, bias] = ["gain", "bias"].map(|name| self.parameters.contains_key(name));
        let eps = |default: f64| self.eps.unwrap_or(default);
        let norm = match &*self.kind {
            "layer" => Norm::Layer {
                eps: eps(1e-5),
                gain,
                bias,
            },
            "rms" => Norm::Rms {
                eps: eps(1e-6),
                gain,
            },
            "batch" => Norm::Batch {
                eps: eps(1e-5),
                affine: gain,
                momentum: self.state.as_ref().map(|_| 0.1),
            },
            "graph" => Norm::GRAPH,
            "pair" => Norm::Pair(PairNorm {
                scale: self.scale.expect("a scale"),
                ..PairNorm::new(self.mode.expect("a mode"))
            }),
            "pair-pyg" => Norm::Pair(PairNorm {
                scale: self.scale.expect("a scale"),
                ..PairNorm::pyg(self.individually.expect("a mode"))
            }),
            other => panic!("no norm {other}"),
        };
        let mut layer = norm.build(width);
        fill(&mut layer, &self.parameters);
        if let (NormLayer::Batch(norm), Some(state)) = (&mut layer, &self.state) {
            norm.running = Some(Running {
                mean: state["mean"].tensor(),
                variance: state["variance"].tensor(),
            });
        }
        layer
    }
}

#[test]
fn norms_are_pytorchs() {
    let cases: Vec<Case> = read("norms.json");
    let mut checked = BTreeMap::new();
    for (k, case) in cases
        .iter()
        .enumerate()
        .filter(|(_, c)| c.kind != "spectral")
    {
        let what = format!("{}, case {k}", case.kind);
        let mut layer = case.layer();
        let tape = Tape::new();
        let x = tape.var(case.x.tensor());
        // An evaluation in which derivatives by parameters can be had too.
        let vars = layer.vars(&tape);
        let training = case.training.unwrap_or(true);
        let pass = match training {
            true => Pass::train(&tape, &layer, 0),
            false => Pass::bound(&tape, &layer, &vars),
        };
        let y = layer.forward(&pass, x);
        close(&y.value(), &case.value, &what);
        let names = layer.parameters().into_iter().map(|(name, _)| name);
        let own: BTreeMap<String, Var<'_, f64>> = names.zip(pass.vars().iter().copied()).collect();
        // The script lists them in the order gain, bias, share.
        let listed = ["gain", "bias", "share"].iter().filter_map(|n| own.get(*n));
        let xs: Vec<_> = std::iter::once(x).chain(listed.copied()).collect();
        check_derivatives(y, &xs, &case.derivatives, &what);
        let updates = pass.into_updates();
        updates.apply(&mut layer);
        if let (NormLayer::Batch(norm), Some(after)) = (&layer, &case.after) {
            let running = norm.running.as_ref().expect("running statistics");
            close(&running.mean, &after["mean"], &what);
            close(&running.variance, &after["variance"], &what);
        }
        *checked.entry(case.kind.clone()).or_insert(0) += 1;
    }
    let expected = [
        ("batch", 6),
        ("graph", 1),
        ("layer", 5),
        ("pair", 3),
        ("pair-pyg", 2),
        ("rms", 3),
    ];
    assert_eq!(checked, expected.map(|(k, n)| (k.to_owned(), n)).into());
}

#[test]
fn spectral_normalisation_is_pytorchs() {
    let mut cases: Vec<Case> = read("norms.json");
    cases.retain(|c| c.kind == "spectral");
    assert_eq!(cases.len(), 4);
    for (k, case) in cases.iter().enumerate() {
        let what = format!("case {k}");
        let state = case.state.as_ref().expect("u and v");
        let mut layer = Spectral {
            weight: case.x.tensor(),
            left: state["left"].tensor(),
            right: state["right"].tensor(),
        };
        let tape = Tape::new();
        let vars = layer.vars(&tape);
        let pass = match case.training {
            Some(true) => Pass::train(&tape, &layer, 0),
            _ => Pass::bound(&tape, &layer, &vars),
        };
        let y = layer.forward(&pass);
        close(&y.value(), &case.value, &what);
        check_derivatives(y, pass.vars(), &case.derivatives, &what);
        pass.into_updates().apply(&mut layer);
        let after = case.after.as_ref().expect("u and v");
        close(&layer.left, &after["left"], &what);
        close(&layer.right, &after["right"], &what);
    }
}

fn x(shape: &[usize], seed: u64) -> Tensor<f64> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

/// y of a training pass.
fn run(layer: &NormLayer<f64>, x: &Tensor<f64>) -> Tensor<f64> {
    let tape = Tape::new();
    let pass = Pass::train(&tape, layer, 0);
    layer.forward(&pass, tape.constant(x)).value()
}

const KINDS: [Norm; 5] = [Norm::LAYER, Norm::RMS, Norm::BATCH, Norm::GRAPH, Norm::PAIR];

/// All modes and readings, without parameters; ε is large enough to be seen.
fn pairs() -> Vec<PairNorm> {
    let mut all = Vec::new();
    for mode in [PairMode::Pn, PairMode::PnSi, PairMode::PnScs] {
        for reading in [PairEps::UnderRoot, PairEps::BesideNorm] {
            all.push(PairNorm {
                scale: 1.3,
                eps: 0.2,
                reading,
                ..PairNorm::new(mode)
            });
        }
    }
    all
}

#[test]
fn all_leading_axes_number_the_rows() {
    let pairs = pairs().into_iter().map(Norm::Pair);
    for norm in KINDS.into_iter().chain(pairs) {
        let mut layer = norm.build::<f64>(4);
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
            run(&NormLayer::Pair(norm), &data)
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
        run(&NormLayer::Pair(norm), &data)
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
    let before: Vec<_> = norm.states().into_iter().cloned().collect();
    let data = x(&[4, 3], 7);
    let all = step(&mut norm, false, &data);
    assert_eq!(
        norm.states().into_iter().cloned().collect::<Vec<_>>(),
        before
    );
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
    let names: Vec<String> = norm.entries().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["gain", "bias", "running.mean", "running.variance"]);
    assert_eq!(norm.parameters().len(), 2);
}

#[test]
fn act_norm_starts_from_data_and_can_be_inverted() {
    for shape in [&[9, 4][..], &[3, 4, 4]] {
        let data = (x(shape, 1) * 3.0 + 2.0).into_shared();
        let mut norm = ActNorm::<f64>::new(4);
        assert!(!norm.has_started());
        norm.initialize(&data);
        assert!(norm.has_started());
        let tape = Tape::new();
        let pass = Pass::train(&tape, &norm, 0);
        let input = tape.constant(&data);
        let y = norm.forward(&pass, input);
        let rows: Vec<isize> = (0..shape.len() as isize - 1).collect();
        assert!(y.mean(&rows, false).value().iter().all(|m| m.abs() < 1e-14));
        assert!(
            y.var(&rows, false)
                .value()
                .iter()
                .all(|v| (v - 1.0).abs() < 1e-13)
        );
        let back = norm.inverse(&pass, y).value();
        assert!(back.iter().zip(&data).all(|(a, b)| (a - b).abs() < 1e-13));
        // The parameters are trained from here on.
        let gradients = pass.gradients(y.tanh().sum_all() + norm.log_det(&pass));
        assert!(gradients.iter().flatten().all(|g| *g != 0.0));
    }
}

#[test]
fn log_det_is_that_of_the_derivative() {
    let mut norm = ActNorm::<f64>::new(3);
    norm.initialize(&x(&[5, 3], 2));
    norm.scale[[1]] *= -1.0;
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &norm);
    let row = tape.var(x(&[1, 3], 3));
    let j = jacobian(norm.forward(&pass, row), row);
    // The derivative is diagonal.
    let j = j.into_shape_with_order((3, 3)).unwrap();
    let det: f64 = (0..3).map(|k| j[[k, k]]).product();
    assert!((norm.log_det(&pass).item() - det.abs().ln()).abs() < 1e-14);
    assert!((j.iter().map(|x| x.abs()).sum::<f64>() - j.diag().mapv(f64::abs).sum()).abs() < 1e-14);
}

#[test]
fn a_feature_that_never_changes_starts_with_scale_one() {
    let mut norm = ActNorm::<f64>::new(2);
    norm.initialize(&tensor(&[3, 2], vec![5.0, 1.0, 5.0, 2.0, 5.0, 6.0]));
    assert_eq!((norm.scale[[0]], norm.bias[[0]]), (1.0, -5.0));
}

/// The estimate comes from below, so the normalised weight never stretches by less than 1; with enough passes it
/// is near 1.
#[test]
fn the_estimate_of_spectral_normalisation_is_a_lower_bound() {
    for seed in 0..20 {
        let rng = &mut init::rng(seed);
        let mut layer = Spectral::<f64> {
            weight: init::normal(&[4, 6], 1.0, rng),
            ..Spectral::new(init::normal(&[4, 6], 1.0, rng), rng)
        };
        let stretch = |layer: &Spectral<f64>, training: bool| {
            let tape = Tape::new();
            let pass = match training {
                true => Pass::train(&tape, layer, 0),
                false => Pass::eval(&tape, layer),
            };
            let w = layer
                .forward(&pass)
                .value()
                .into_dimensionality::<ndarray::Ix2>()
                .unwrap();
            (emmy::linalg::svd(w.view()).1[0], pass.into_updates())
        };
        let mut last = f64::INFINITY;
        for step in 0..200 {
            let (found, updates) = stretch(&layer, true);
            assert!(found >= 1.0 - 1e-12, "{found}");
            // Each iteration can only bring the estimate closer.
            assert!(
                found <= last * (1.0 + 1e-12),
                "{step}: {found} after {last}"
            );
            last = found;
            updates.apply(&mut layer);
        }
        assert!(last < 1.0 + 1e-2, "{seed}: {last}");
        assert!((stretch(&layer, false).0 - last).abs() < 1e-3);
    }
}

#[test]
fn configurations_are_read_written_and_checked() {
    let pairs = pairs().into_iter().map(Norm::Pair);
    for norm in KINDS.into_iter().chain(pairs) {
        norm.validate().unwrap();
        let text = serde_json::to_string(&norm).unwrap();
        assert_eq!(serde_json::from_str::<Norm>(&text).unwrap(), norm, "{text}");
        let layer = norm.build::<f64>(3);
        assert_eq!(run(&layer, &x(&[4, 3], 0)).shape(), [4, 3]);
    }
    let text = serde_json::to_string(&Norm::PAIR).unwrap();
    assert_eq!(
        text,
        r#"{"pair":{"mode":"pn","scale":1.0,"eps":1e-6,"reading":"under-root"}}"#
    );
    let batch = |momentum| Norm::Batch {
        eps: 1e-5,
        affine: true,
        momentum,
    };
    for (norm, says) in [
        (
            Norm::Graph { eps: -1.0 },
            "GraphNorm: eps: expected a finite number, at least 0, found -1",
        ),
        (
            Norm::Rms {
                eps: f64::NAN,
                gain: true,
            },
            "RmsNorm: eps: expected a finite number, at least 0, found NaN",
        ),
        (
            batch(Some(1.5)),
            "BatchNorm: momentum: expected a number from 0 to 1, found 1.5",
        ),
        (
            Norm::Pair(PairNorm {
                scale: f64::INFINITY,
                ..PairNorm::pyg(true)
            }),
            "PairNorm: scale: expected a finite number, found inf",
        ),
    ] {
        assert_eq!(norm.validate().unwrap_err().to_string(), says);
    }
    let without = |norm: Norm| norm.build::<f64>(3).entries().len();
    assert_eq!(
        without(Norm::Layer {
            eps: 0.0,
            gain: false,
            bias: false
        }),
        0
    );
    assert_eq!(
        without(Norm::Layer {
            eps: 0.0,
            gain: true,
            bias: false
        }),
        1
    );
    assert_eq!((without(batch(None)), without(batch(Some(0.1)))), (2, 4));
    assert_eq!(
        without(Norm::Batch {
            eps: 0.0,
            affine: false,
            momentum: None
        }),
        0
    );
}

/// The message of a contract violation.
#[track_caller]
fn refused(expected: &str, f: impl FnOnce(&Tape<f64>)) {
    let run = AssertUnwindSafe(|| f(&Tape::new()));
    let payload = catch_unwind(run).expect_err(expected);
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned());
    assert_eq!(text, expected);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let on = |norm: Norm, shape: &'static [usize]| {
        move |tape: &Tape<f64>| {
            let layer = norm.build(3);
            let pass = Pass::train(tape, &layer, 0);
            layer.forward(&pass, tape.constant(Tensor::zeros(shape)));
        }
    };
    refused(
        "LayerNorm: x has shape [2, 4], γ [3]: the last axes must be equal",
        on(Norm::LAYER, &[2, 4]),
    );
    refused("RmsNorm: x has no axis", on(Norm::RMS, &[]));
    refused(
        "RmsNorm: x has shape [2, 4], γ [3]: the last axes must be equal",
        on(Norm::RMS, &[2, 4]),
    );
    refused(
        "BatchNorm: x has shape [3], it must be [.., rows, features]",
        on(Norm::BATCH, &[3]),
    );
    refused(
        "BatchNorm: x has shape [1, 3]: at least two rows have a variance",
        on(Norm::BATCH, &[1, 3]),
    );
    refused(
        "GraphNorm: x has shape [2, 4], γ [3]: the last axes must be equal",
        on(Norm::GRAPH, &[2, 4]),
    );
    refused(
        "PairNorm: x has shape [3], it must be [.., rows, features]",
        on(Norm::PAIR, &[3]),
    );
    let fresh = ActNorm::<f64>::new(3);
    refused(
        "ActNorm: s and b have not started: call `initialize` with a first batch",
        |tape| {
            let pass = Pass::train(tape, &fresh, 0);
            fresh.forward(&pass, tape.constant(x(&[2, 3], 0)));
        },
    );
    refused(
        "ActNorm, inverse: s and b have not started: call `initialize` with a first batch",
        |tape| {
            let pass = Pass::eval(tape, &fresh);
            fresh.inverse(&pass, tape.constant(x(&[2, 3], 0)));
        },
    );
    refused(
        "ActNorm: x has shape [1, 3]: at least two rows have a variance",
        |_| {
            ActNorm::<f64>::new(3).initialize(&x(&[1, 3], 0));
        },
    );
    refused("ActNorm: the variances of x are no finite numbers", |_| {
        ActNorm::<f64>::new(1).initialize(&tensor(&[2, 1], vec![f64::NAN, 1.0]));
    });
    refused("Spectral: a weight of shape [3] is no matrix", |_| {
        Spectral::<f64>::new(init::zeros(&[3]), &mut init::rng(0));
    });
}

/// A feature norm, and one over all rows, tell rows apart only by their values: another order of the rows gives
/// the same rows in that order.
#[test]
fn the_order_of_rows_does_not_matter() {
    let order = [3, 0, 4, 1, 2];
    let pairs = pairs().into_iter().map(Norm::Pair);
    for norm in KINDS.into_iter().chain(pairs) {
        let layer = norm.build::<f64>(3);
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

/// A fused operation does not detach: the second derivative through a norm in a network is that of differences,
/// and a shared norm gets the derivatives of both uses.
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
