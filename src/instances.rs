//! Bounds, laws, traces, networks, recurrent layers and optimisers compiled here, once per type of numbers,
//! instead of in every program; `engine/src/instances.rs` says why and does the same for operations.

use crate::autodiff::{Tape, Var, grad_and_free};
use crate::graph::Neighbourhood;
use crate::lipschitz::{self, Domain, Lp};
use crate::nn::{
    GraphNet, GraphNetConfig, Gru, GruCell, Lstm, LstmCell, Module, Pass, Trace, Traced,
};
use crate::optim::{Algorithm, Optimizer};
use crate::real::Real;
use crate::store::weights;
use crate::symmetry::{self, Law};
use crate::tensor::Tensor;

/// The functions below, for both types. It is public and not inlined, so that they are compiled.
#[doc(hidden)]
#[inline(never)]
pub fn instances() -> [*const (); 10] {
    [
        bounds::<f32> as *const (),
        bounds::<f64> as *const (),
        laws::<f32> as *const (),
        laws::<f64> as *const (),
        descent::<f32> as *const (),
        descent::<f64> as *const (),
        network::<f32> as *const (),
        network::<f64> as *const (),
        sequences::<f32> as *const (),
        sequences::<f64> as *const (),
    ]
}

/// Bounds of what is on a tape, and of a trace.
fn bounds<F: Real>(y: Var<'_, F>, x: Var<'_, F>) {
    let bound = lipschitz::bound(y, x, Lp::Two, Domain::Everywhere).expect("a bound");
    let _ = (bound.upper(), bound.var());
    let _ = lipschitz::rounding(y, x, 0.0);
    let _ = (
        lipschitz::local(y, x, 1, 0),
        lipschitz::jacobian_norm(y, x, Lp::Two),
    );
    let x = x.value();
    Trace::at(&x, &x, |_, x| x);
}

/// The measures of a law.
fn laws<F: Real>(law: &Law, tensors: &[&Tensor<F>], gradients: &[Tensor<F>], x: &[Var<'_, F>]) {
    law.measure(tensors, gradients);
    law.drift(
        &law.balance(tensors).unwrap_or_default(),
        gradients,
        0.0,
        0.0,
    );
    symmetry::delta(law, x, x);
    symmetry::balance(law, x);
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
        grad_and_free(y, pass.vars());
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
