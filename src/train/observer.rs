//! Observers of a training.

use super::{Record, Trainer};
use crate::error::Result;
use crate::real::Real;
use crate::tensor::Tensor;

/// The point of a step: parameters θ, the loss there and its gradient, before the update.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a, F: Real> {
    /// The number of the epoch that the step is part of, from 1.
    pub epoch: usize,
    /// The number of the step that begins here, from 1, over all epochs.
    pub step: usize,
    /// The training loss at θ of the batch of this step, with dropout.
    pub loss: f64,
    /// η of the step that follows.
    pub lr: f64,
    /// θ, in the model's order.
    pub parameters: &'a [&'a Tensor<F>],
    /// ∂L/∂θ of each, in the same order, before clipping. L is the loss of this pass, with its batch and its
    /// dropout, so what holds for every loss holds here too.
    pub gradients: &'a [Tensor<F>],
}

/// Observes a training ([`Trainer::fit_observed`]), and may end it with an error.
///
/// A mutable reference to an observer is an observer. A pair of observers is an observer that calls the first
/// one first; `()` observes nothing. [`each_epoch`] makes an observer of a closure.
pub trait Observer<F: Real, M> {
    /// Called before every step, when the gradient is known and the update is still to come.
    ///
    /// # Errors
    /// The error of the observer; the parameters then stay as they are.
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        let _ = point;
        Ok(())
    }

    /// Called after every epoch, when it has been evaluated.
    ///
    /// # Errors
    /// The error of the observer; this epoch is then the last.
    fn after_epoch(&mut self, trainer: &Trainer<F, M>, record: &Record) -> Result<()> {
        let _ = (trainer, record);
        Ok(())
    }
}

impl<F: Real, M> Observer<F, M> for () {}

impl<F: Real, M, O: Observer<F, M> + ?Sized> Observer<F, M> for &mut O {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        (**self).before_step(point)
    }

    fn after_epoch(&mut self, trainer: &Trainer<F, M>, record: &Record) -> Result<()> {
        (**self).after_epoch(trainer, record)
    }
}

impl<F: Real, M, O: Observer<F, M>> Observer<F, M> for Option<O> {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        self.as_mut().map_or(Ok(()), |o| o.before_step(point))
    }

    fn after_epoch(&mut self, trainer: &Trainer<F, M>, record: &Record) -> Result<()> {
        self.as_mut()
            .map_or(Ok(()), |o| o.after_epoch(trainer, record))
    }
}

impl<F: Real, M, A: Observer<F, M>, B: Observer<F, M>> Observer<F, M> for (A, B) {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        self.0.before_step(point)?;
        self.1.before_step(point)
    }

    fn after_epoch(&mut self, trainer: &Trainer<F, M>, record: &Record) -> Result<()> {
        self.0.after_epoch(trainer, record)?;
        self.1.after_epoch(trainer, record)
    }
}

/// A closure as an observer: see [`each_epoch`].
#[derive(Debug, Clone)]
pub struct EachEpoch<C>(C);

/// The observer that calls `f` after every epoch.
pub fn each_epoch<F: Real, M, C>(f: C) -> EachEpoch<C>
where
    C: FnMut(&Trainer<F, M>, &Record) -> Result<()>,
{
    EachEpoch(f)
}

impl<F: Real, M, C> Observer<F, M> for EachEpoch<C>
where
    C: FnMut(&Trainer<F, M>, &Record) -> Result<()>,
{
    fn after_epoch(&mut self, trainer: &Trainer<F, M>, record: &Record) -> Result<()> {
        (self.0)(trainer, record)
    }
}
