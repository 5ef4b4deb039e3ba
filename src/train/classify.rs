//! Classification of examples, in batches.

use super::metrics::predictions;
use super::{Batches, Loss, Metrics, Task};
use crate::autodiff::{Tape, Var};
use crate::error::{Error, Result};
use crate::nn::{Module, Pass};
use crate::real::Real;
use crate::tensor::Tensor;

/// Examples with a class each: a part for training, and a part for evaluation.
///
/// The loss is the mean cross-entropy of a batch. An evaluation gives `val_loss` and `val_acc` on the part
/// that is held out.
///
/// `forward` computes the logits `[batch, classes]` of examples `[batch, ..]`; the closure names its model.
///
/// ```
/// use emmy::nn::{Activation, Mlp};
/// use emmy::train::{Classify, TrainConfig, Trainer};
/// use emmy::init;
/// let points = |seed| {
///     let x = init::normal::<f64>(&[64, 2], 1.0, &mut init::rng(seed));
///     let inside: Vec<usize> = x.outer_iter().map(|p| usize::from(p[0].hypot(p[1]) < 1.2)).collect();
///     (x, inside)
/// };
/// let task = Classify::new(points(0), points(1), 16, |net: &Mlp<f64>, pass, x| net.forward(pass, x))?;
/// let net = Mlp::new(&[2, 16, 2], Activation::Relu, true, &mut init::rng(2));
/// let mut trainer = Trainer::new(net, TrainConfig { epochs: 50, ..TrainConfig::default() })?;
/// trainer.fit(&task, |_, _| Ok(()))?;
/// assert!(trainer.history().best().expect("it ran").metrics["val_acc"] > 0.8);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug)]
pub struct Classify<F: Real, L> {
    train: (Tensor<F>, Vec<usize>),
    held_out: (Tensor<F>, Vec<usize>),
    batches: Batches,
    forward: L,
}

/// The number of examples that an evaluation computes together.
const TOGETHER: usize = 500;

impl<F: Real, L> Classify<F, L> {
    /// A task of examples `[n, ..]` and their classes. Batches are shuffled anew in every epoch.
    ///
    /// # Errors
    /// If a part is empty, or does not have one class per example, or `batch` is 0.
    pub fn new<M>(
        train: (Tensor<F>, Vec<usize>),
        held_out: (Tensor<F>, Vec<usize>),
        batch: usize,
        forward: L,
    ) -> Result<Self>
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>, Var<'t, F>) -> Var<'t, F>,
    {
        for (name, (x, classes)) in [
            ("training examples", &train),
            ("held-out examples", &held_out),
        ] {
            let n = x.shape().first().copied().unwrap_or(0);
            if n == 0 || n != classes.len() {
                let found = format!("{n} and {} classes", classes.len());
                return Err(Error::invalid(
                    name,
                    "at least one, each with a class",
                    found,
                ));
            }
        }
        if batch == 0 {
            return Err(Error::invalid("batch", "at least 1 example", "0"));
        }
        Ok(Self {
            batches: Batches::new(train.1.len(), batch).shuffled(),
            train,
            held_out,
            forward,
        })
    }

    /// Loss and accuracy on the part that is held out.
    pub fn measure<M: Module<F>>(&self, model: &M) -> (f64, f64)
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>, Var<'t, F>) -> Var<'t, F>,
    {
        let (x, classes) = &self.held_out;
        let (mut loss, mut right) = (0.0, 0);
        let order: Vec<usize> = (0..classes.len()).collect();
        for rows in order.chunks(TOGETHER) {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, model);
            let some = tape.constant(x.clone()).index_select(0, rows);
            let logits = (self.forward)(model, &pass, some);
            let wanted: Vec<usize> = rows.iter().map(|&k| classes[k]).collect();
            loss += logits.cross_entropy(&wanted, None).item().as_f64() * rows.len() as f64;
            let found = predictions(&logits.value());
            let right_here = found.iter().zip(&wanted).filter(|(k, c)| **k == Some(**c));
            right += right_here.count();
        }
        let n = classes.len() as f64;
        (loss / n, right as f64 / n)
    }
}

impl<F: Real, M: Module<F>, L> Task<F, M> for Classify<F, L>
where
    L: for<'t> Fn(&M, &Pass<'t, '_, F>, Var<'t, F>) -> Var<'t, F>,
{
    type Batch = Vec<usize>;

    fn batches(&self, seed: u64) -> impl Iterator<Item = Vec<usize>> {
        self.batches.of(seed).into_iter()
    }

    fn loss<'t>(&self, model: &M, pass: &Pass<'t, '_, F>, rows: &Vec<usize>) -> Loss<'t, F> {
        let (x, classes) = &self.train;
        let x = pass
            .tape()
            .constant(x.clone())
            .index_select(0, rows.clone());
        let wanted: Vec<usize> = rows.iter().map(|&k| classes[k]).collect();
        (self.forward)(model, pass, x)
            .cross_entropy(&wanted, None)
            .into()
    }

    fn evaluate(&self, model: &M) -> Metrics {
        let (loss, accuracy) = self.measure(model);
        Metrics::from([("val_loss", loss), ("val_acc", accuracy)])
    }
}
