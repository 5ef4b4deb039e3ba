//! Sequences of steps of LSTM and GRU, by loops from the formulas.

use super::reference::build;
use super::{Case, Operation, Sampler, function};
use emmy::ops::recurrent;
use emmy::tensor::Tensor;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x, W, b, h, and c if there are four gates.
fn operands(d: &mut Sampler, gates: usize) -> Vec<Tensor<f64>> {
    let (steps, rows) = (d.count(1, 3), d.one_of(&[0, 1, 2, 3, 3]));
    let width = d.count(1, 3);
    let mut args = vec![
        d.signed(&[steps, rows, gates * width]),
        d.signed(&[gates * width, width]),
        d.signed(&[gates * width]),
        d.signed(&[rows, width]),
    ];
    args.extend((gates == 4).then(|| d.signed(&[rows, width])));
    args
}

/// Entry k of h Wᵀ + b for a row.
fn hidden_part(args: &[Tensor<f64>], h: &[f64], k: usize) -> f64 {
    let product = h.iter().enumerate().map(|(j, h)| h * args[1][[k, j]]);
    product.sum::<f64>() + args[2][k]
}

/// The states of a row: h after each step and, of an LSTM, c after the last.
fn row(args: &[Tensor<f64>], row: usize) -> Vec<Vec<f64>> {
    let (steps, width) = (args[0].shape()[0], args[3].shape()[1]);
    let state = |k: usize| (0..width).map(|j| args[k][[row, j]]).collect::<Vec<f64>>();
    let mut h = state(3);
    let mut c = (args.len() == 5).then(|| state(4));
    let mut states = Vec::new();
    for t in 0..steps {
        let x = |gate: usize, j: usize| args[0][[t, row, gate * width + j]];
        let q = |gate: usize, j: usize| hidden_part(args, &h, gate * width + j);
        let both = |gate: usize, j: usize| x(gate, j) + q(gate, j);
        h = match &mut c {
            Some(c) => {
                for (j, c) in c.iter_mut().enumerate() {
                    *c = sigmoid(both(1, j)) * *c + sigmoid(both(0, j)) * both(2, j).tanh();
                }
                (0..width)
                    .map(|j| sigmoid(both(3, j)) * c[j].tanh())
                    .collect()
            }
            None => {
                let new = |j: usize| {
                    let (r, z) = (sigmoid(both(0, j)), sigmoid(both(1, j)));
                    (1.0 - z) * (x(2, j) + r * q(2, j)).tanh() + z * h[j]
                };
                (0..width).map(new).collect()
            }
        };
        states.push(h.clone());
    }
    states.extend(c);
    states
}

fn reference(args: &[Tensor<f64>]) -> Tensor<f64> {
    let (steps, rows) = (args[0].shape()[0], args[0].shape()[1]);
    let width = args[3].shape()[1];
    let states: Vec<_> = (0..rows).map(|i| row(args, i)).collect();
    build(&[steps + args.len() - 4, rows, width], |index| {
        states[index[1]][index[0]][index[2]]
    })
}

pub(super) fn operations() -> Vec<Operation> {
    vec![
        Operation {
            name: "lstm",
            draw: |d| {
                let function = function!(|x| recurrent::lstm(x[0], x[1], x[2], x[3], x[4]));
                Case::new(operands(d, 4), function, reference)
            },
        },
        Operation {
            name: "gru",
            draw: |d| {
                let function = function!(|x| recurrent::gru(x[0], x[1], x[2], x[3]));
                Case::new(operands(d, 3), function, reference)
            },
        },
    ]
}
