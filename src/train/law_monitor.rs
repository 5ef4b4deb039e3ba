//! A check of the conservation laws at every step.

use super::{Observer, Point, Worst};
use crate::error::Result;
use crate::real::Real;
use crate::symmetry::{Law, Residual};
use std::cell::RefCell;

/// Measures every law at every step and keeps the largest relative δ.
///
/// ```
/// # use emmy::data;
/// # use emmy::nn::{Activation, GraphNet, GraphNetConfig, Traced};
/// # use emmy::train::{LawMonitor, NodeClassification, TrainConfig, Trainer};
/// # let karate = data::karate();
/// # let config = GraphNetConfig { activation: Activation::Relu, ..GraphNetConfig::gatv2(karate.feature_count(), karate.classes) };
/// # let (x, neighbours) = (karate.raw_features(), config.neighbourhood(&karate.graph));
/// let net = GraphNet::<f64>::new(config, 0)?;
/// let mut monitor = LawMonitor::new(net.laws());
/// let mut trainer = Trainer::new(net, TrainConfig { epochs: 20, ..TrainConfig::default() })?;
/// let task = NodeClassification::new(&karate.labels, karate.split(0)?, |net: &GraphNet<_>, pass| {
///     net.forward(pass, pass.tape().sparse(&x), &neighbours)
/// })?;
/// trainer.fit_observed(&task, &mut monitor)?;
/// assert!(monitor.max_delta() < 1e-10, "{:?}", monitor.worst());
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// A shared reference is an observer too, so that a checkpoint can keep [`worst`](Self::worst) during the training.
#[derive(Debug, Clone)]
pub struct LawMonitor {
    laws: Vec<Law>,
    worst: RefCell<Option<Worst>>,
}

impl LawMonitor {
    /// An observer of these laws.
    pub fn new(laws: Vec<Law>) -> Self {
        Self::resumed(laws, None)
    }

    /// An observer of these laws in a run that goes on, with the largest relative δ of the steps before
    /// ([`TrainState::worst`](super::TrainState::worst)).
    pub fn resumed(laws: Vec<Law>, worst: Option<Worst>) -> Self {
        Self {
            laws,
            worst: RefCell::new(worst),
        }
    }

    /// The largest relative δ so far, the first of equals; NaN counts as largest. `None` if nothing was
    /// measured.
    pub fn worst(&self) -> Option<Worst> {
        self.worst.borrow().clone()
    }

    /// The relative δ of [`worst`](Self::worst); 0 if nothing was measured.
    pub fn max_delta(&self) -> f64 {
        self.worst
            .borrow()
            .as_ref()
            .map_or(0.0, |worst| worst.delta)
    }

    fn measure<F: Real>(&self, point: &Point<'_, F>) {
        let mut largest_yet = self.worst.borrow_mut();
        let measure = |law: &Law| law.measure(point.parameters, point.gradients);
        let all: Vec<Residual> = self.laws.iter().map(measure).collect();
        let sizes = all.iter().flat_map(|m| &m.size);
        let largest = sizes.fold(0.0, |m: f64, &x| m.max(x));
        for (law, measured) in self.laws.iter().zip(&all) {
            for (k, delta) in measured.relative().into_iter().enumerate() {
                let worse = |worst: &Worst| {
                    delta > worst.delta || (delta.is_nan() && !worst.delta.is_nan())
                };
                if largest_yet.as_ref().is_none_or(worse) {
                    *largest_yet = Some(Worst {
                        delta,
                        law: law.name.clone(),
                        neuron: k * law.neurons() / law.entries(),
                        epoch: point.epoch,
                        share: (largest > 0.0).then(|| measured.size[k] / largest),
                    });
                }
            }
        }
    }
}

impl<F: Real, M> Observer<F, M> for LawMonitor {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        self.measure(point);
        Ok(())
    }
}

impl<F: Real, M> Observer<F, M> for &LawMonitor {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        self.measure(point);
        Ok(())
    }
}
