//! The claims of the trace about operations between layers, compared with the operations: real
//! operands are scaled, mixed, rotated and shifted, and the output must change as claimed.

use crate::cases::cases;
use crate::registry::{Case, Sampler, operations};
use emmy::nn::contra::{After, StepSize, UnitRows};
use emmy::nn::{
    ContraConfig, ContraNorm, GraphNorm, Layer, LayerNorm, Norm, PairEps, PairMode, PairNorm,
    Params, Pass, Trace,
};
use emmy::symmetry::{Change, Passage, Ports, Way};
use emmy::{Tape, Tensor, Var, init};
use std::collections::BTreeMap;

/// A stream with the operand of an operation as its value.
struct Source {
    value: Tensor<f64>,
}
emmy::module!(Source for f64: value);

impl Layer<f64> for Source {
    fn ports(&self, params: &Params<'_, f64>) -> Option<Ports> {
        // Also tensors with another number of axes than two may be mixed.
        Some(Ports {
            mixes: true,
            ..Ports::writes([params.columns(&self.value)])
        })
    }
}

impl Source {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
        // A new node with the operand's value.
        pass.call(self, &[], || pass.param(&self.value).scale(1.0))
    }
}

/// The passage claimed from the operands for which `streams` holds to the output, and the operands that
/// belong to the stream.
fn claimed(case: &Case, streams: &[bool]) -> Option<(Vec<usize>, Passage)> {
    let sources: Vec<Source> = (case.args.iter())
        .map(|value| Source {
            value: value.clone(),
        })
        .collect();
    let trace = Trace::of(&sources, |pass| {
        let each = sources.iter().zip(streams);
        let args: Vec<Var<'_, f64>> = each
            .map(|(source, &stream)| match stream {
                true => source.forward(pass),
                false => pass.tape().constant(source.value.clone()),
            })
            .collect();
        (case.function.f64)(&args)
    });
    let (writers, passage) = trace.passages().remove(0)?;
    // Call k belongs to the k-th operand with a stream.
    let operands: Vec<usize> = (0..streams.len()).filter(|&k| streams[k]).collect();
    Some((writers.into_iter().map(|w| operands[w]).collect(), passage))
}

fn value(case: &Case, args: &[Tensor<f64>]) -> Tensor<f64> {
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    (case.function.f64)(&vars).value()
}

/// How a change moves a tensor; i numbers the rows, j the entries of the last axis.
#[derive(Clone)]
struct Move {
    change: Change,
    /// One number per neuron; if one number is for all, it is the first.
    neurons: Vec<f64>,
    /// Numbers per row.
    rows: Vec<f64>,
    matrix: Vec<Vec<f64>>,
}

impl Move {
    fn draw(change: Change, width: usize, rows: usize, seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let mut draw = |n: usize| {
            init::uniform::<f64>(&[n], 1.0, rng)
                .into_iter()
                .collect::<Vec<f64>>()
        };
        let neurons = draw(width.max(1));
        let rows = draw(rows.max(1));
        let matrix = match change {
            Change::Mix => (0..width).map(|_| draw(width)).collect(),
            // A rotation of the first plane.
            _ => (0..width)
                .map(|i| {
                    let turned = |j: usize| match (i, j) {
                        (0, 0) | (1, 1) if width > 1 => 0.8,
                        (0, 1) => -0.6,
                        (1, 0) => 0.6,
                        (i, j) => f64::from(i == j),
                    };
                    (0..width).map(turned).collect()
                })
                .collect(),
        };
        Self {
            change,
            neurons,
            rows,
            matrix,
        }
    }

    /// The tensor moved, with factors to the power k.
    fn apply(&self, x: &Tensor<f64>, k: f64) -> Tensor<f64> {
        let width = x.shape().last().copied().unwrap_or(1);
        let flat: Vec<f64> = x.iter().copied().collect();
        let at = |e: usize| (e / width.max(1), e % width.max(1));
        let moved = |e: usize| {
            let (i, j) = at(e);
            let row = &flat[i * width..(i + 1) * width];
            match self.change {
                Change::Each => flat[e] * (k * self.neurons[j]).exp(),
                Change::All => flat[e] * (k * self.neurons[0]).exp(),
                Change::Mix | Change::Turn => (0..width).map(|m| self.matrix[j][m] * row[m]).sum(),
                Change::Shift => flat[e] + self.rows[i % self.rows.len()],
                Change::Offset => flat[e] + self.neurons[j],
                Change::Mean => {
                    let mean = row.iter().sum::<f64>() / width as f64;
                    flat[e] + self.neurons[0].exp_m1() * mean
                }
            }
        };
        emmy::tensor::tensor(x.shape(), (0..flat.len()).map(moved).collect())
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs()) || (a.is_nan() && b.is_nan()) || a == b
}

fn same(a: &Tensor<f64>, b: &Tensor<f64>) -> bool {
    a.shape() == b.shape() && a.iter().zip(b).all(|(a, b)| close(*a, *b))
}

/// Whether the output moved as claimed.
fn holds(case: &Case, operands: &[usize], change: Change, way: Way, seed: u64) -> bool {
    let before = value(case, &case.args);
    let shape = |k: usize| case.args[k].shape();
    let width = |s: &[usize]| s.last().copied().unwrap_or(1);
    let widest = operands.iter().map(|&k| width(shape(k))).max().unwrap_or(1);
    let longest = operands
        .iter()
        .map(|&k| case.args[k].len())
        .max()
        .unwrap_or(1);
    let step = Move::draw(change, widest, longest, seed);
    let mut args = case.args.clone();
    for &k in operands {
        args[k] = step.apply(&args[k], 1.0);
    }
    let after = value(case, &args);
    let difference = |i: usize| {
        let flat = |x: &Tensor<f64>| x.iter().copied().nth(i).expect("an entry");
        flat(&after) - flat(&before)
    };
    let w = width(before.shape()).max(1);
    match (way, change) {
        (Way::Breaks, _) => true,
        (Way::Absorbs, _) => same(&after, &before),
        (Way::Carries(k), Change::Each | Change::All) => same(&after, &step.apply(&before, k)),
        (Way::Carries(k), Change::Mix | Change::Turn | Change::Mean) => {
            k == 1.0 && same(&after, &step.apply(&before, 1.0))
        }
        (Way::Carries(_), Change::Shift) => {
            (0..before.len()).all(|e| close(difference(e), difference(e - e % w)))
        }
        (Way::Carries(_), Change::Offset) => {
            (0..before.len()).all(|e| close(difference(e), difference(e % w)))
        }
    }
}

/// Every claim about every registered operation, for each operand alone and for all together.
#[test]
fn no_claim_about_an_operation_is_false() {
    // The number of claims that a change arrives or is absorbed, per operation and kind of change.
    let mut claims: BTreeMap<(&str, Change), usize> = BTreeMap::new();
    for operation in operations() {
        // The eighth that `cargo test` draws still meets every claim.
        for seed in cases(120) {
            let case = (operation.draw)(&mut Sampler::new(seed));
            let n = case.args.len();
            let mut choices: Vec<Vec<bool>> =
                (0..n).map(|k| (0..n).map(|m| m == k).collect()).collect();
            choices.push(vec![true; n]);
            for streams in choices {
                let Some((operands, passage)) = claimed(&case, &streams) else {
                    continue;
                };
                for change in Change::ALL {
                    let way = passage.way(change);
                    if change == Change::Mean && passage.way(Change::Mix) != Way::Breaks {
                        assert_eq!(way, passage.way(Change::Mix), "{}", operation.name);
                    }
                    let shapes: Vec<_> = case.args.iter().map(|x| x.shape().to_vec()).collect();
                    assert!(
                        holds(&case, &operands, change, way, seed),
                        "{}: {change:?} {way:?} by operands {operands:?} of {shapes:?}, seed {seed}",
                        operation.name
                    );
                    if way != Way::Breaks {
                        *claims.entry((operation.name, change)).or_default() += 1;
                    }
                }
            }
        }
    }
    // The rows of the table in docs/evidence/conservation.md on which laws depend.
    for (name, change) in [
        ("relu", Change::Each),
        ("leaky_relu", Change::Each),
        ("add", Change::Mix),
        ("scale", Change::Turn),
        ("spmm", Change::Mix),
        ("gather_rows", Change::Mix),
        ("mean", Change::Shift),
        ("mean", Change::Mix),
        ("mean", Change::Mean),
        ("sum", Change::Mean),
        ("matmul", Change::Mean),
        ("mul", Change::Mean),
        ("softmax", Change::Mean),
        ("softmax", Change::Shift),
        ("log_softmax", Change::Shift),
        ("powf", Change::Each),
        ("var", Change::Shift),
        ("var", Change::Mean),
        ("index_select", Change::Mix),
        ("concat", Change::Each),
        ("reshape", Change::Mix),
        ("dropout", Change::Each),
        ("mul", Change::Each),
        ("div", Change::All),
        ("max", Change::Each),
        ("where_", Change::Each),
        ("layer_norm", Change::Shift),
        ("layer_norm", Change::Mean),
        ("layer_norm", Change::All),
        ("rms_norm", Change::Turn),
        ("rms_norm", Change::All),
    ] {
        assert!(
            claims.contains_key(&(name, change)),
            "nothing is claimed of {name} and {change:?}"
        );
    }
    for name in ["gelu", "exp", "tanh", "sigmoid", "elu", "softplus"] {
        let none = Change::ALL
            .iter()
            .all(|&change| !claims.contains_key(&(name, change)));
        assert!(none, "{name} breaks every change");
    }
}

/// The passages that layers state, the rows of norms: with real rows, several features and both kinds of ε.
#[test]
fn no_claim_about_a_norm_is_false() {
    type Norm = fn(Var<'_, f64>, f64) -> Var<'_, f64>;
    let layer: Norm =
        |x, eps| (x - x.mean(&[-1], true)) / x.var(&[-1], true).add_scalar(eps).sqrt();
    let rms: Norm = |x, eps| x / (x * x).mean(&[-1], true).add_scalar(eps).sqrt();
    let feature: Norm = |x, eps| {
        let centred = x - x.mean(&[0], true);
        centred / (centred * centred).mean(&[0], true).add_scalar(eps).sqrt()
    };
    type Stated = fn(f64) -> Passage;
    let norms: [(&str, Norm, Stated); 3] = [
        ("LayerNorm", layer, Passage::layer_norm),
        ("RMSNorm", rms, Passage::rms_norm),
        ("feature norm", feature, Passage::feature_norm),
    ];
    for (name, norm, stated) in norms {
        for eps in [0.0, 0.3] {
            let x = init::normal::<f64>(&[6, 5], 1.0, &mut init::rng(4));
            let run = |x: &Tensor<f64>| {
                let tape = Tape::new();
                norm(tape.var(x.clone()), eps).value()
            };
            let before = run(&x);
            for change in Change::ALL {
                let step = Move::draw(change, 5, 6, 9);
                let after = run(&step.apply(&x, 1.0));
                let (gone, turned) = (
                    same(&after, &before),
                    same(&after, &step.apply(&before, 1.0)),
                );
                match stated(eps).way(change) {
                    Way::Absorbs => assert!(gone, "{name}, ε = {eps}: {change:?}"),
                    Way::Carries(_) => assert!(turned, "{name}, ε = {eps}: {change:?}"),
                    Way::Breaks => assert!(
                        !gone && !turned,
                        "{name}, ε = {eps}: {change:?} does not break"
                    ),
                }
            }
            // For the same norm written with operations, the trace claims no more than the layer
            // states.
            let source = Source { value: x.clone() };
            let trace = Trace::of(&source, |pass| norm(source.forward(pass), eps));
            let found = trace.passages().remove(0);
            for change in Change::ALL {
                let claimed = found.as_ref().map_or(Way::Breaks, |(_, p)| p.way(change));
                assert!(
                    claimed == Way::Breaks || claimed == stated(eps).way(change),
                    "{name}, ε = {eps}: {change:?} {claimed:?}"
                );
            }
        }
    }
}

/// ContraNorm in forms that rotate with their input, carry its size, or do neither; parameters that would
/// write neurons are left out.
fn contra_norms(eps: f64) -> impl Iterator<Item = ContraConfig> {
    let of = move |config: ContraConfig| {
        let after = [After::Nothing, After::UnitRows, After::LayerNorm { eps }];
        after.map(|after| ContraConfig {
            after,
            without_neighbours: false,
            ..config
        })
    };
    let forms = [
        ContraConfig::stopped(0.4),
        ContraConfig::full(0.4),
        ContraConfig::graph_code(0.4),
        ContraConfig::dual_code(0.4),
        ContraConfig::dimension(0.4),
        ContraConfig {
            rows: UnitRows::Summed,
            ..ContraConfig::regularized(0.4)
        },
        ContraConfig {
            step: StepSize::Learnt,
            ..ContraConfig::stopped(0.4)
        },
    ];
    forms.into_iter().flat_map(of)
}

/// The passages that the layers of the library state in their ports: each change of real rows has the stated
/// effect on the output, and changes that are stated as broken are broken.
#[test]
fn the_passages_of_norms_are_true_and_complete() {
    let pair = |mode, eps, reading| {
        Norm::Pair(PairNorm {
            eps,
            reading,
            ..PairNorm::new(mode)
        })
    };
    for eps in [0.0, 0.3] {
        let (affine, gain, bias, momentum) = (false, false, false, None);
        let mut norms = vec![
            Norm::Layer { eps, gain, bias },
            Norm::Rms { eps, gain },
            Norm::Batch {
                eps,
                affine,
                momentum,
            },
            Norm::Graph { eps },
        ];
        for mode in [PairMode::Pn, PairMode::PnSi, PairMode::PnScs] {
            let readings = [PairEps::UnderRoot, PairEps::BesideNorm];
            norms.extend(readings.map(|reading| pair(mode, eps, reading)));
        }
        norms.extend(contra_norms(eps).map(Norm::Contra));
        for norm in norms {
            let mut layer = norm.build::<f64>(5, &mut init::rng(0));
            if let Some(norm) = layer.downcast_mut::<GraphNorm<f64>>() {
                norm.share.fill(0.6);
            }
            if let Some(norm) = layer.downcast_mut::<ContraNorm<f64>>() {
                norm.step = norm
                    .step
                    .as_ref()
                    .map(|_| init::uniform(&[5], 0.9, &mut init::rng(7)));
                norm.norm = norm.norm.take().map(|n| LayerNorm::plain(n.eps));
            }
            let ports = layer.ports(&Params::of(&layer)).expect("those of a norm");
            let x = init::normal::<f64>(&[6, 5], 1.0, &mut init::rng(4));
            let run = |x: &Tensor<f64>| {
                let tape = Tape::new();
                let pass = Pass::train(&tape, &layer, 0);
                layer.forward(&pass, tape.constant(x)).value()
            };
            let before = run(&x);
            for change in Change::ALL {
                let step = Move::draw(change, 5, 6, 9);
                let after = run(&step.apply(&x, 1.0));
                let gone = same(&after, &before);
                let moved = same(&after, &step.apply(&before, 1.0));
                let right = match ports.readers[0].passage.way(change) {
                    Way::Absorbs => gone,
                    Way::Carries(k) => k == 1.0 && moved,
                    Way::Breaks => !gone && !moved,
                };
                assert!(right, "{norm:?}: {change:?}");
            }
        }
    }
}
