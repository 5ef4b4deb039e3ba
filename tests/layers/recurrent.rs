//! LSTM and GRU: PyTorch's values and derivatives, the fused operation against the formula, sequences in
//! parts, and refusals.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use approx::assert_abs_diff_eq;
use emmy::autodiff::{grad, grad_graph};
use emmy::kernels::par;
use emmy::nn::{Dropout, Gru, GruCell, Lstm, LstmCell, LstmState, Module, Pass};
use emmy::ops::recurrent;
use emmy::{Real, Tape, Tensor, Var, init};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    kind: String,
    parameters: BTreeMap<String, Stored>,
    x: Stored,
    state: Vec<Stored>,
    value: Stored,
    #[serde(flatten)]
    derivatives: Derivatives,
}

fn normal<F: Real>(shape: &[usize], seed: u64) -> Tensor<F> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

/// All numbers one behind the other.
fn flat<'t, F: Real>(parts: &[Var<'t, F>]) -> Var<'t, F> {
    let parts: Vec<_> = parts.iter().map(|p| p.reshape(&[-1])).collect();
    Var::concat(&parts, 0)
}

/// y, then the states of all layers as PyTorch stacks them: h, then c.
fn listed<'t, F: Real>(y: Var<'t, F>, states: &[&[Var<'t, F>]]) -> Var<'t, F> {
    let states = states.iter().map(|layers| Var::stack(layers, 0));
    flat(&std::iter::once(y).chain(states).collect::<Vec<_>>())
}

fn run_lstm<'t, F: Real>(
    lstm: &Lstm<F>,
    pass: &Pass<'t, '_, F>,
    x: Var<'t, F>,
    state: Option<&[LstmState<'t, F>]>,
) -> Var<'t, F> {
    let (y, last) = lstm.forward(pass, x, state);
    let parts = |part: fn(&LstmState<'t, F>) -> Var<'t, F>| last.iter().map(part).collect();
    let (hidden, cells): (Vec<_>, Vec<_>) = (parts(|s| s.hidden), parts(|s| s.cell));
    listed(y, &[&hidden, &cells])
}

fn run_gru<'t, F: Real>(
    gru: &Gru<F>,
    pass: &Pass<'t, '_, F>,
    x: Var<'t, F>,
    state: Option<&[Var<'t, F>]>,
) -> Var<'t, F> {
    let (y, last) = gru.forward(pass, x, state);
    listed(y, &[&last])
}

/// The part of each layer.
fn per_layer<'t>(state: &[Var<'t, f64>]) -> Vec<Vec<Var<'t, f64>>> {
    let layers = |s: &Var<'t, f64>| {
        let part = |l: usize| s.slice(0, l..l + 1).squeeze(0);
        (0..s.shape()[0]).map(part).collect()
    };
    state.iter().map(layers).collect()
}

fn compare<M: Module<f64>>(
    case: &Case,
    mut layer: M,
    forward: impl for<'t, 'm> Fn(&M, &Pass<'t, 'm, f64>, Var<'t, f64>, &[Var<'t, f64>]) -> Var<'t, f64>,
) {
    fill(&mut layer, &case.parameters);
    let tape = Tape::new();
    let parameters = layer.vars(&tape);
    let pass = Pass::bound(&tape, &layer, &parameters);
    let x = tape.var(case.x.tensor());
    let state: Vec<_> = case.state.iter().map(|s| tape.var(s.tensor())).collect();
    let y = forward(&layer, &pass, x, &state);
    close(&y.value(), &case.value, &case.kind);
    let xs = [vec![x], state, parameters].concat();
    check_derivatives(y, &xs, &case.derivatives, &case.kind);
}

#[test]
fn values_and_derivatives_are_those_of_pytorch() {
    let cases: Vec<Case> = read("recurrent.json");
    let mut kinds = Vec::new();
    for case in &cases {
        let rng = &mut init::rng(0);
        let (width, layers) = (2, case.parameters.len() / 4);
        match &*case.kind {
            "GruCell" => compare(case, GruCell::new(3, width, rng), |layer, pass, x, s| {
                flat(&[layer.forward(pass, x, s[0])])
            }),
            "LstmCell" => compare(case, LstmCell::new(3, width, rng), |layer, pass, x, s| {
                let [hidden, cell] = [s[0], s[1]];
                let next = layer.forward(pass, x, LstmState { hidden, cell });
                flat(&[next.hidden, next.cell])
            }),
            "Gru" => compare(
                case,
                Gru::new(3, width, layers, rng),
                |layer, pass, x, s| {
                    let given = per_layer(s);
                    run_gru(layer, pass, x, given.first().map(|s| &s[..]))
                },
            ),
            "Lstm" => compare(
                case,
                Lstm::new(3, width, layers, rng),
                |layer, pass, x, s| {
                    let given = per_layer(s);
                    let given: Option<Vec<_>> = (!given.is_empty()).then(|| {
                        let pairs = given[0].iter().zip(&given[1]);
                        let state = |(&hidden, &cell)| LstmState { hidden, cell };
                        pairs.map(state).collect()
                    });
                    run_lstm(layer, pass, x, given.as_deref())
                },
            ),
            other => panic!("no layer {other}"),
        }
        kinds.push((&*case.kind, layers));
    }
    let expected = [
        ("GruCell", 1),
        ("LstmCell", 1),
        ("Gru", 1),
        ("Gru", 2),
        ("Lstm", 1),
        ("Lstm", 2),
    ];
    assert_eq!(kinds, expected);
}

/// x, W, b, h and, with four gates, c.
fn operands<F: Real>(gates: usize, [steps, rows, width]: [usize; 3]) -> Vec<Tensor<F>> {
    let shapes = [
        &[steps, rows, gates * width][..],
        &[gates * width, width],
        &[gates * width],
        &[rows, width],
        &[rows, width],
    ];
    let all = shapes.iter().enumerate();
    let drawn = all.map(|(k, shape)| normal::<F>(shape, k as u64));
    drawn.take(if gates == 4 { 5 } else { 4 }).collect()
}

fn fused<'t, F: Real>(args: &[Var<'t, F>]) -> Var<'t, F> {
    match *args {
        [x, w, b, h, c] => recurrent::lstm(x, w, b, h, c),
        [x, w, b, h] => recurrent::gru(x, w, b, h),
        _ => unreachable!(),
    }
}

/// The formulas, step by step.
fn composed<'t>(args: &[Var<'t, f64>]) -> Var<'t, f64> {
    let [x, w, b, mut h] = args[..4] else {
        unreachable!()
    };
    let mut c = args.get(4).copied();
    let (steps, width) = (x.shape()[0], h.shape()[1]);
    let gate = |x: Var<'t, f64>, k: usize| x.slice(1, k * width..(k + 1) * width);
    let mut states = Vec::new();
    for t in 0..steps {
        let (x, q) = (x.slice(0, t..t + 1).squeeze(0), h.linear(w) + b);
        h = match c {
            Some(old) => {
                let kept = gate(x + q, 1).sigmoid() * old;
                let new = kept + gate(x + q, 0).sigmoid() * gate(x + q, 2).tanh();
                c = Some(new);
                gate(x + q, 3).sigmoid() * new.tanh()
            }
            None => {
                let [r, z] = [0, 1].map(|k| (gate(x, k) + gate(q, k)).sigmoid());
                let n = (gate(x, 2) + r * gate(q, 2)).tanh();
                (1.0 - z) * n + z * h
            }
        };
        states.push(h);
    }
    states.extend(c);
    Var::stack(&states, 0)
}

/// Widths that vector registers do not divide, single rows and steps, and sizes at which the product is cut.
#[test]
fn the_fused_operation_is_the_formula() {
    for sizes in [[1, 1, 1], [1, 7, 5], [9, 1, 33], [6, 5, 17], [2, 40, 70]] {
        for gates in [3, 4] {
            let tape = Tape::new();
            let args: Vec<_> = operands(gates, sizes)
                .into_iter()
                .map(|x| tape.var(x))
                .collect();
            let (y, expected) = (fused(&args), composed(&args));
            assert_abs_diff_eq!(y.value(), expected.value(), epsilon = 1e-13);
            let weights = tape.constant(normal(&y.shape(), 9));
            let [of_kernel, of_formula] =
                [y, expected].map(|y| grad((y * weights).sum_all(), &args));
            let of_reference = grad_graph((y * weights).sum_all(), &args);
            for ((a, b), c) in of_kernel.iter().zip(&of_formula).zip(&of_reference) {
                let size = b.iter().fold(1.0_f64, |m, x| m.max(x.abs()));
                assert_abs_diff_eq!(a, b, epsilon = 1e-12 * size);
                assert_abs_diff_eq!(c.value(), b, epsilon = 1e-12 * size);
            }
        }
    }
}

/// Gates far from zero are 0 or 1, and nothing overflows.
#[test]
fn large_numbers_saturate() {
    for gates in [3, 4] {
        let tape = Tape::new();
        let large = operands::<f32>(gates, [5, 3, 4]).into_iter();
        let args: Vec<_> = large
            .map(|x| tape.var(x.mapv(|x| 1e4 * x).into_shared()))
            .collect();
        let y = fused(&args);
        assert!(y.value().iter().all(|y| y.is_finite()));
        let g = grad(y.sum_all(), &args);
        assert!(g.iter().flatten().all(|g| g.is_finite()));
    }
}

#[test]
fn a_layer_is_its_cell_step_by_step() {
    let rng = &mut init::rng(3);
    let (lstm, gru) = (
        Lstm::<f64>::new(3, 4, 2, rng),
        Gru::<f64>::new(3, 4, 2, rng),
    );
    let x: Tensor<f64> = normal(&[5, 6, 3], 1);
    let tape = Tape::new();
    let x = tape.constant(x);
    let step = |t: usize| x.slice(1, t..t + 1).squeeze(1);

    let pass = Pass::eval(&tape, &lstm);
    let (y, last) = lstm.forward(&pass, x, None);
    let mut states: Vec<_> = lstm.layers.iter().map(|l| l.start(&pass, 5)).collect();
    for t in 0..6 {
        let mut x = step(t);
        for (cell, state) in lstm.layers.iter().zip(&mut states) {
            *state = cell.forward(&pass, x, *state);
            x = state.hidden;
        }
        let found = y.slice(1, t..t + 1).squeeze(1);
        assert_abs_diff_eq!(found.value(), x.value(), epsilon = 1e-14);
    }
    for (found, expected) in last.iter().zip(&states) {
        assert_abs_diff_eq!(
            found.hidden.value(),
            expected.hidden.value(),
            epsilon = 1e-14
        );
        assert_abs_diff_eq!(found.cell.value(), expected.cell.value(), epsilon = 1e-14);
    }

    let pass = Pass::eval(&tape, &gru);
    let (y, last) = gru.forward(&pass, x, None);
    let mut states: Vec<_> = gru.layers.iter().map(|l| l.start(&pass, 5)).collect();
    for t in 0..6 {
        let mut x = step(t);
        for (cell, state) in gru.layers.iter().zip(&mut states) {
            *state = cell.forward(&pass, x, *state);
            x = *state;
        }
        let found = y.slice(1, t..t + 1).squeeze(1);
        assert_abs_diff_eq!(found.value(), x.value(), epsilon = 1e-14);
    }
    for (found, expected) in last.iter().zip(&states) {
        assert_abs_diff_eq!(found.value(), expected.value(), epsilon = 1e-14);
    }
}

/// On one tape, with derivatives through the state; and on two, with the same values.
#[test]
fn two_halves_are_one_sequence() {
    let rng = &mut init::rng(4);
    let (lstm, gru) = (
        Lstm::<f64>::new(3, 4, 2, rng),
        Gru::<f64>::new(3, 4, 2, rng),
    );
    let (x, weights) = (normal(&[2, 7, 3], 5), normal(&[2, 7, 4], 6));
    fn half(x: Var<'_, f64>, first: bool) -> Var<'_, f64> {
        x.slice(1, if first { 0..3 } else { 3..7 })
    }

    let gradients = |cut: bool| {
        let tape = Tape::new();
        let (x, weights) = (tape.constant(x.clone()), tape.constant(weights.clone()));
        let pass = Pass::train(&tape, &lstm, 0);
        let of_lstm = if cut {
            let (first, state) = lstm.forward(&pass, half(x, true), None);
            let (second, _) = lstm.forward(&pass, half(x, false), Some(&state));
            Var::concat(&[first, second], 1)
        } else {
            lstm.forward(&pass, x, None).0
        };
        let mut all = pass.gradients((of_lstm * weights).sum_all());
        let pass = Pass::train(&tape, &gru, 0);
        let of_gru = if cut {
            let (first, state) = gru.forward(&pass, half(x, true), None);
            let (second, _) = gru.forward(&pass, half(x, false), Some(&state));
            Var::concat(&[first, second], 1)
        } else {
            gru.forward(&pass, x, None).0
        };
        all.extend(pass.gradients((of_gru * weights).sum_all()));
        all.extend([of_lstm.value(), of_gru.value()]);
        all
    };
    for (whole, cut) in gradients(false).iter().zip(&gradients(true)) {
        assert_abs_diff_eq!(whole, cut, epsilon = 1e-13);
    }

    let (tape, next) = (Tape::new(), Tape::new());
    let pass = Pass::eval(&tape, &lstm);
    let (whole, _) = lstm.forward(&pass, tape.constant(x.clone()), None);
    let (_, state) = lstm.forward(&pass, half(tape.constant(x.clone()), true), None);
    let pass = Pass::eval(&next, &lstm);
    let state: Vec<_> = state.iter().map(|s| s.carried(&next)).collect();
    let (second, _) = lstm.forward(&pass, half(next.constant(x.clone()), false), Some(&state));
    assert_abs_diff_eq!(half(whole, false).value(), second.value(), epsilon = 1e-14);
}

/// What is on the tape does not depend on the number of steps.
#[test]
fn a_step_costs_the_tape_nothing() {
    let lstm = Lstm::<f32>::new(3, 4, 2, &mut init::rng(0));
    let gru = Gru::<f32>::new(3, 4, 2, &mut init::rng(0));
    let nodes = |steps: usize| {
        let tape = Tape::new();
        let x = tape.constant(normal(&[2, steps, 3], 0));
        run_lstm(&lstm, &Pass::train(&tape, &lstm, 0), x, None);
        run_gru(&gru, &Pass::train(&tape, &gru, 0), x, None);
        tape.len()
    };
    assert_eq!(nodes(3), nodes(50));
}

/// Sizes at which the kernels fork.
#[test]
fn same_bits_on_any_number_of_threads() {
    for gates in [3, 4] {
        let run = |threads: usize| {
            par::with_threads(threads, || {
                let tape = Tape::new();
                let args = operands::<f32>(gates, [3, 70, 100]).into_iter();
                let args: Vec<_> = args.map(|x| tape.var(x)).collect();
                let y = fused(&args);
                let mut all = grad(y.square().sum_all(), &args);
                all.push(y.value());
                all.iter()
                    .flatten()
                    .map(|x| x.to_bits())
                    .collect::<Vec<_>>()
            })
        };
        let one = run(1);
        for threads in [2, 4] {
            assert_eq!(run(threads), one, "{gates} gates on {threads} threads");
        }
    }
}

#[test]
fn parameters_begin_as_those_of_pytorch() {
    let lstm = Lstm::<f64>::new(3, 16, 2, &mut init::rng(1));
    let found: Vec<_> = lstm
        .parameters()
        .into_iter()
        .map(|(n, p)| (n, p.shape().to_vec()))
        .collect();
    let expected = [
        ("layers.0.weight_ih", vec![64, 3]),
        ("layers.0.weight_hh", vec![64, 16]),
        ("layers.0.bias_ih", vec![64]),
        ("layers.0.bias_hh", vec![64]),
        ("layers.1.weight_ih", vec![64, 16]),
        ("layers.1.weight_hh", vec![64, 16]),
        ("layers.1.bias_ih", vec![64]),
        ("layers.1.bias_hh", vec![64]),
    ];
    assert_eq!(found, expected.map(|(n, s)| (n.to_owned(), s)));
    let largest = lstm
        .tensors()
        .into_iter()
        .flatten()
        .fold(0.0_f64, |m, x| m.max(x.abs()));
    assert!((0.24..=0.25).contains(&largest), "{largest}");
}

/// With p = 1 the second layer reads zeros; the output of the last layer is never dropped.
#[test]
fn dropout_is_between_layers() {
    let mut gru = Gru::<f64>::new(3, 4, 2, &mut init::rng(2));
    let tape = Tape::new();
    let x = tape.constant(normal(&[2, 5, 3], 3));
    let plain = gru.forward(&Pass::train(&tape, &gru, 0), x, None).0.value();
    gru.dropout = Dropout { p: 1.0 };
    let evaluated = gru.forward(&Pass::eval(&tape, &gru), x, None).0.value();
    assert_eq!(evaluated, plain);
    let (y, last) = gru.forward(&Pass::train(&tape, &gru, 0), x, None);
    let second = Gru {
        layers: vec![gru.layers[1].clone()],
        dropout: Dropout { p: 1.0 },
    };
    let zeros = tape.constant(Tensor::zeros(&[2, 5, 4][..]));
    let (of_zeros, _) = second.forward(&Pass::train(&tape, &second, 0), zeros, None);
    assert_eq!(y.value(), of_zeros.value());
    assert_ne!(y.value(), plain);
    assert!(last[0].value().iter().all(|h| *h != 0.0));
}

#[track_caller]
fn refuses(expected: &str, f: impl for<'t> FnOnce(&'t Tape<f64>)) {
    let run = std::panic::AssertUnwindSafe(|| f(&Tape::new()));
    let payload = std::panic::catch_unwind(run).expect_err(expected);
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned());
    assert_eq!(text, expected);
}

#[test]
fn wrong_shapes_are_refused_with_a_sentence() {
    let rng = &mut init::rng(0);
    let (cell, lstm) = (
        LstmCell::<f64>::new(3, 2, rng),
        Lstm::<f64>::new(3, 2, 2, rng),
    );
    let (unit, gru) = (
        GruCell::<f64>::new(3, 2, rng),
        Gru::<f64>::new(3, 2, 2, rng),
    );
    let z = |tape: &Tape<f64>, shape: &[usize]| tape.constant(Tensor::zeros(shape)).value();
    refuses(
        "LstmCell: x has shape [4, 5], the weight reads 3 features: x must be [n, 3]",
        |tape| {
            let pass = Pass::eval(tape, &cell);
            cell.forward(&pass, tape.constant(z(tape, &[4, 5])), cell.start(&pass, 4));
        },
    );
    refuses(
        "LstmCell: a state has shape [1, 2], it must be [4, 2]: one row per row of x",
        |tape| {
            let pass = Pass::eval(tape, &cell);
            cell.forward(&pass, tape.constant(z(tape, &[4, 3])), cell.start(&pass, 1));
        },
    );
    refuses(
        "GruCell: x has shape [4, 1, 3], the weight reads 3 features: x must be [n, 3]",
        |tape| {
            let pass = Pass::eval(tape, &unit);
            unit.forward(
                &pass,
                tape.constant(z(tape, &[4, 1, 3])),
                unit.start(&pass, 4),
            );
        },
    );
    refuses(
        "Lstm: x has shape [4, 3], the weight reads 3 features: x must be [batch, time, 3], with one step of time or more",
        |tape| {
            lstm.forward(
                &Pass::eval(tape, &lstm),
                tape.constant(z(tape, &[4, 3])),
                None,
            );
        },
    );
    refuses(
        "Gru: x has shape [4, 0, 3], the weight reads 3 features: x must be [batch, time, 3], with one step of time or more",
        |tape| {
            gru.forward(
                &Pass::eval(tape, &gru),
                tape.constant(z(tape, &[4, 0, 3])),
                None,
            );
        },
    );
    refuses(
        "Lstm: 1 states for 2 layers: there must be one per layer",
        |tape| {
            let pass = Pass::eval(tape, &lstm);
            let state = [lstm.layers[0].start(&pass, 4)];
            lstm.forward(&pass, tape.constant(z(tape, &[4, 5, 3])), Some(&state));
        },
    );
    refuses(
        "Gru: a state has shape [5, 2], it must be [4, 2]: one row per row of x",
        |tape| {
            let pass = Pass::eval(tape, &gru);
            let state = [gru.layers[0].start(&pass, 4), gru.layers[1].start(&pass, 5)];
            gru.forward(&pass, tape.constant(z(tape, &[4, 5, 3])), Some(&state));
        },
    );
    refuses("Lstm: it needs at least one layer", |_| {
        let _ = Lstm::<f64>::new(3, 2, 0, &mut init::rng(0));
    });
}
