//! The task of predicting the classes of the nodes of a graph.

use super::{Loss, Metrics, Task, metrics};
use crate::autodiff::{Tape, Var};
use crate::data::Split;
use crate::error::{Error, Result};
use crate::nn::{Module, Pass};
use crate::real::Real;
use crate::tensor::Tensor;

/// The classes of the nodes of a graph: one batch per epoch, the whole graph.
///
/// The loss is the mean cross-entropy over the training nodes. The metrics are cross-entropy and accuracy on
/// the training, validation and test nodes: `train_loss`, `train_acc`, `val_loss`, `val_acc`, `test_acc`. If
/// the forward pass has nothing random, the forward pass of the next epoch is also the evaluation, which then
/// costs nothing.
#[derive(Debug, Clone, Copy)]
pub struct NodeClassification<'a, L> {
    labels: &'a [usize],
    split: &'a Split,
    forward: L,
}

impl<'a, L> NodeClassification<'a, L> {
    /// The task of giving each node its label. `forward` gives the logits of a model, `[n, classes]`; a
    /// closure must name the type of the model: `|net: &GraphNet<_>, pass| ...`.
    ///
    /// # Errors
    /// If a mask of the split does not have one flag per label, or no node trains or validates.
    pub fn new<F: Real, M>(labels: &'a [usize], split: &'a Split, forward: L) -> Result<Self>
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>) -> Var<'t, F>,
    {
        for (name, mask) in [
            ("train", &split.train),
            ("val", &split.val),
            ("test", &split.test),
        ] {
            let refuse =
                |rule, found: String| Err(Error::invalid(format!("split: {name}"), rule, found));
            if mask.len() != labels.len() {
                let found = format!("{} for {} labels", mask.len(), labels.len());
                return refuse("one flag per label", found);
            }
            if name != "test" && !mask.contains(&true) {
                return refuse("at least one node", "none".into());
            }
        }
        Ok(Self {
            labels,
            split,
            forward,
        })
    }

    /// The metrics of logits `[n, classes]`.
    ///
    /// # Panics
    /// If there is not one row per label.
    #[track_caller]
    pub fn metrics<F: Real>(&self, logits: &Tensor<F>) -> Metrics {
        let Self { labels, split, .. } = self;
        let predictions = metrics::predictions(logits);
        let accuracy = |mask: &[bool]| metrics::accuracy_of(&predictions, labels, mask);
        let loss = |mask: &[bool]| metrics::cross_entropy(logits, labels, mask);
        Metrics::from([
            ("train_loss", loss(&split.train)),
            ("train_acc", accuracy(&split.train)),
            ("val_loss", loss(&split.val)),
            ("val_acc", accuracy(&split.val)),
            ("test_acc", accuracy(&split.test)),
        ])
    }
}

impl<F: Real, M: Module<F>, L> Task<F, M> for NodeClassification<'_, L>
where
    L: for<'t> Fn(&M, &Pass<'t, '_, F>) -> Var<'t, F>,
{
    type Batch = ();

    fn batches(&self, _: u64) -> impl Iterator<Item = ()> {
        std::iter::once(())
    }

    fn loss<'t>(&self, model: &M, pass: &Pass<'t, '_, F>, (): &()) -> Loss<'t, F> {
        let logits = (self.forward)(model, pass);
        let loss = logits.cross_entropy(self.labels, Some(&self.split.train));
        Loss::from(loss).evaluated(pass, || self.metrics(&logits.value()))
    }

    fn evaluate(&self, model: &M) -> Metrics {
        let tape = Tape::new();
        let logits = (self.forward)(model, &Pass::eval(&tape, model));
        self.metrics(&logits.value())
    }
}
