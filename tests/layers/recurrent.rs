//! LSTM and GRU over sequences: compared with their cells, computed in parts, and their first values.

mod operation;
mod pytorch;
mod refusals;

use approx::assert_abs_diff_eq;
use emmy::nn::{Dropout, Gru, Lstm, LstmState, Module, Pass};
use emmy::{Real, Tape, Tensor, Var, init};

fn normal<F: Real>(shape: &[usize], seed: u64) -> Tensor<F> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

/// All numbers one after the other.
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

/// The number of nodes on the tape does not depend on the number of steps.
#[test]
fn the_tape_does_not_grow_with_the_number_of_steps() {
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

#[test]
fn parameters_begin_as_those_of_pytorch() {
    let lstm = Lstm::<f64>::new(3, 16, 2, &mut init::rng(1));
    let found: Vec<_> = lstm
        .parameters()
        .into_iter()
        .map(|p| (p.name, p.tensor.shape().to_vec()))
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
