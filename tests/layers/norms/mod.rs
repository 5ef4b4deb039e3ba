//! Normalisers: against PyTorch and PyTorch Geometric, their state, their contracts, and configurations.

mod contra;
mod contracts;
mod pytorch;
mod rows;
mod started;

use emmy::nn::{Norm, NormLayer, PairEps, PairMode, PairNorm, Pass};
use emmy::{Tape, Tensor, init};

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
