//! Layers of LSTM and GRU, forward and backward, against their cells step by step.

use crate::{Kernel, drop_tensor, normal};
use emmy::nn::{Gru, Lstm, Pass};
use emmy::{Tape, Var, init};

/// Batch, steps, width of input and state.
const SIZES: [[usize; 3]; 2] = [[12, 64, 128], [32, 128, 256]];

pub fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    for [batch, steps, width] in SIZES {
        let size = format!("{batch} × {steps}, {width} to {width}, forward and backward");
        // Two products forward, and the adjoints of both factors of each.
        let flops = |gates: usize| (6 * 2 * batch * steps * gates * width * width) as f64;
        let (x, gy) = (
            normal(&[batch, steps, width], 1),
            normal(&[batch, steps, width], 2),
        );

        let lstm = Lstm::<f32>::new(width, width, 1, &mut init::rng(3));
        let (data, weights) = (x.clone(), gy.clone());
        let step = move |whole: bool| {
            let tape = Tape::new();
            let pass = Pass::train(&tape, &lstm, 0);
            let (x, weights) = (tape.var(data.clone()), tape.constant(weights.clone()));
            let y = if whole {
                lstm.forward(&pass, x, None).0
            } else {
                let mut state = lstm.layers[0].start(&pass, batch);
                stepped(x, |x| {
                    state = lstm.layers[0].forward(&pass, x, state);
                    state.hidden
                })
            };
            finish(&pass, x, y, weights);
        };
        let plain = step.clone();
        let run = Kernel::new(format!("LSTM {size}"), flops(4), 0.0, move || step(true));
        all.push(run.against(move || plain(false)));

        let gru = Gru::<f32>::new(width, width, 1, &mut init::rng(3));
        let step = move |whole: bool| {
            let tape = Tape::new();
            let pass = Pass::train(&tape, &gru, 0);
            let (x, weights) = (tape.var(x.clone()), tape.constant(gy.clone()));
            let y = if whole {
                gru.forward(&pass, x, None).0
            } else {
                let mut h = gru.layers[0].start(&pass, batch);
                stepped(x, |x| {
                    h = gru.layers[0].forward(&pass, x, h);
                    h
                })
            };
            finish(&pass, x, y, weights);
        };
        let plain = step.clone();
        let run = Kernel::new(format!("GRU {size}"), flops(3), 0.0, move || step(true));
        all.push(run.against(move || plain(false)));
    }
    all
}

/// The outputs of a cell, step by step, as one tensor.
fn stepped<'t>(
    x: Var<'t, f32>,
    mut cell: impl FnMut(Var<'t, f32>) -> Var<'t, f32>,
) -> Var<'t, f32> {
    let steps = 0..x.shape()[1];
    let outputs = steps.map(|t| cell(x.slice(1, t..t + 1).squeeze(1)));
    Var::stack(&outputs.collect::<Vec<_>>(), 1)
}

/// The derivatives by the parameters and by x.
fn finish<'t>(pass: &Pass<'t, '_, f32>, x: Var<'t, f32>, y: Var<'t, f32>, weights: Var<'t, f32>) {
    let wanted: Vec<_> = pass.vars().iter().copied().chain([x]).collect();
    let gradients = emmy::autodiff::grad((y * weights).sum_all(), &wanted);
    gradients.into_iter().for_each(drop_tensor);
}
