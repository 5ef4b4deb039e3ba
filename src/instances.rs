//! Networks, recurrent layers and optimisers compiled here, once per type of numbers, instead of in every
//! program; `engine/src/instances.rs` says why and does the same for operations.

use crate::autodiff::Tape;
use crate::graph::Neighbourhood;
use crate::nn::{GraphNet, GraphNetConfig, Gru, GruCell, Lstm, LstmCell, Module, Pass, Traced};
use crate::optim::{Algorithm, Optimizer};
use crate::real::Real;
use crate::store::weights;
use crate::tensor::Tensor;

/// The functions below, for both types. It is public and not inlined, so that they are compiled.
#[doc(hidden)]
#[inline(never)]
pub fn instances() -> [*const (); 6] {
    [
        descent::<f32> as *const (),
        descent::<f64> as *const (),
        network::<f32> as *const (),
        network::<f64> as *const (),
        sequences::<f32> as *const (),
        sequences::<f64> as *const (),
    ]
}

fn descent<F: Real>(mut tensors: Vec<Tensor<F>>) {
    let gradients = tensors.clone();
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    optimizer.step(&mut tensors, &gradients, 0.0);
}

/// The networks that the examples train.
fn network<F: Real>(config: GraphNetConfig, x: Tensor<F>, neighbours: &Neighbourhood<F>) {
    let mut net = GraphNet::<F>::new(config, 0).expect("a valid configuration");
    let tape = Tape::new();
    for pass in [Pass::train(&tape, &net, 0), Pass::eval(&tape, &net)] {
        let y = net.forward(&pass, tape.constant(x.clone()), neighbours);
        pass.gradients(y);
    }
    net.trace();
    net.tensors_mut();
    let _ = (
        weights::save("", &net, &()),
        weights::load_into("", &mut net),
    );
}

/// Recurrent layers.
fn sequences<F: Real>(layers: &(Lstm<F>, Gru<F>), cells: &(LstmCell<F>, GruCell<F>), x: Tensor<F>) {
    let tape = Tape::new();
    for pass in [Pass::train(&tape, layers, 0), Pass::eval(&tape, cells)] {
        let x = tape.constant(x.clone());
        let ((y, _), (z, h)) = (
            layers.0.forward(&pass, x, None),
            layers.1.forward(&pass, x, None),
        );
        cells.0.forward(&pass, x, cells.0.start(&pass, 1));
        cells.1.forward(&pass, x, h[0]);
        pass.gradients(y + z);
    }
}
