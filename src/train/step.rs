//! One step of a training loop written by hand.

use crate::autodiff::{Tape, Var, grad_and_free};
use crate::error::{Error, Result, Rules};
use crate::nn::{Entry, Module, Pass};
use crate::optim::Optimizer;
use crate::real::Real;
use crate::tensor::{Tensor, memory};

/// One step: a training pass over `model` with this seed, the gradient of the loss, an update with learning
/// rate η = `lr`, and new values for the model's state if its layers found any. Returns the loss before the
/// update.
///
/// If you need more between gradient and update, such as [`Clip`](crate::optim::Clip), write these lines
/// yourself. If you need evaluations, the best model, early stopping or checkpoints, use a
/// [`Trainer`](super::Trainer).
///
/// ```
/// use emmy::nn::Linear;
/// use emmy::optim::{Algorithm, Optimizer};
/// use emmy::{init, train};
///
/// let x = init::normal::<f64>(&[10, 3], 1.0, &mut init::rng(0));
/// let mut layer = Linear::new(3, 1, true, &mut init::rng(1));
/// let mut optimizer = Optimizer::new(Algorithm::ADAM);
/// let mut losses = Vec::new();
/// for seed in 0..50 {
///     losses.push(train::step(&mut layer, &mut optimizer, 0.1, seed, |layer, pass| {
///         let y = layer.forward(pass, pass.tape().constant(x.clone()));
///         (y - 1.0).square().mean_all()
///     })?);
/// }
/// assert!(losses[49] < 0.1 * losses[0]);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Errors
/// If the learning rate is negative or not finite. If the loss or a gradient is not finite: the training has
/// diverged, or a number of the data is not finite. The model and the optimiser are then as they were before
/// the step.
///
/// # Panics
/// If the loss does not have exactly one element, or the optimiser began with another model.
#[track_caller]
pub fn step<F: Real, M: Module<F>>(
    model: &mut M,
    optimizer: &mut Optimizer<F>,
    lr: f64,
    seed: u64,
    loss: impl for<'t> FnOnce(&M, &Pass<'t, '_, F>) -> Var<'t, F>,
) -> Result<f64> {
    let sound = lr.is_finite() && lr >= 0.0;
    Rules("training step").hold(sound, "lr", "at least 0 and finite", lr)?;
    let tape = Tape::new();
    let pass = Pass::train(&tape, &*model, seed);
    let loss = loss(model, &pass);
    let gradients = grad_and_free(loss, pass.vars());
    let value = loss.item().as_f64();
    check_finite(model, seed, value, &gradients)?;
    let updates = pass.into_updates();
    // The tape shares the parameters; without it they are updated in place.
    drop(tape);
    optimizer.step_model(model, &gradients, lr);
    gradients.into_iter().for_each(memory::recycle);
    updates.apply(model);
    Ok(value)
}

/// Refuses a loss or a gradient that is not finite.
fn check_finite<F: Real>(
    model: &impl Module<F>,
    seed: u64,
    loss: f64,
    gradients: &[Tensor<F>],
) -> Result<()> {
    let refuse = |what: String, found: String| {
        let what = format!("training step with seed {seed}: {what}");
        Err(Error::invalid(what, "a finite number", found))
    };
    if !loss.is_finite() {
        return refuse("loss".to_owned(), loss.to_string());
    }
    for (Entry { name, .. }, gradient) in model.parameters().into_iter().zip(gradients) {
        // Nearly always all are finite. This loop reads them in the order of the memory and does not stop at
        // one that is not, so that it has vectors; the search below has none.
        let in_order = gradient.as_slice_memory_order();
        if in_order.is_some_and(|g| g.iter().fold(true, |all, x| all & x.is_finite())) {
            continue;
        }
        if let Some(found) = gradient.iter().find(|x| !x.is_finite()) {
            return refuse(format!("gradient of {name}"), found.to_string());
        }
    }
    Ok(())
}
