//! A record of conservation during a training: δ, balance, gradients and change, sampled every k epochs or
//! steps.

use super::{Observer, Point};
use crate::error::Result;
use crate::kernels::update::sum_of_squares;
use crate::nn::{Entry, Module, Role};
use crate::optim::Unit;
use crate::real::Real;
use crate::symmetry::{Law, Side, Symmetry};
use crate::tensor::{Tensor, contiguous};
use serde::{Deserialize, Serialize};

/// Samples a training: at the beginning of the first epoch and of every k-th; or at the first step and at
/// every k-th.
///
/// All numbers of a sample are of one [`Point`]: the sample of step s is the point after s − 1 steps, the
/// first is the initialisation. The sample of an epoch is the sample of its first step.
#[derive(Debug, Clone)]
pub struct Recorder<F: Real> {
    laws: Vec<Law>,
    initial: Vec<Tensor<F>>,
    /// How each parameter is read, as [`Slice::shape`](crate::symmetry::Slice::shape).
    shapes: Vec<[usize; 3]>,
    every: usize,
    unit: Unit,
    recording: Recording,
}

/// All samples of a training, with the names of the laws and parameters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The names of the laws.
    pub laws: Vec<String>,
    /// The names of the parameters.
    pub parameters: Vec<String>,
    /// The role of each parameter; none in recordings of an earlier version.
    #[serde(default)]
    pub roles: Vec<Role>,
    /// The samples, first to last.
    pub samples: Vec<Sample>,
}

/// One point of a training: parameters θ, gradients G = ∂L/∂θ, the initial parameters θ₀.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The number of the epoch of the step that begins here, from 1.
    pub epoch: usize,
    /// The number of the step that begins here, from 1.
    pub step: usize,
    /// The training loss.
    pub loss: f64,
    /// |δ| / Σ|w θ G| of each law, one number per entry of δ ([`Law::entries`]): a neuron, or for a matrix a pair of them.
    pub delta: Vec<Vec<f64>>,
    /// δ of each law.
    pub delta_absolute: Vec<Vec<f64>>,
    /// c of each law ([`Law::balance`]); empty if the law has no c.
    pub balance: Vec<Vec<f64>>,
    /// ‖θ‖ of each parameter.
    pub norm: Vec<Norms>,
    /// ‖G‖ of each parameter.
    pub gradient: Vec<Norms>,
    /// ‖θ − θ₀‖ of each parameter.
    pub change: Vec<Norms>,
}

/// The Frobenius norm of a parameter, or of a tensor of its shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Norms {
    /// The norm of the whole tensor.
    pub whole: f64,
    /// The norm of the entries of each neuron, as the laws of rescaling read them: a row of a weight
    /// `[out, in]`, an entry of a bias or of an attention vector; if heads are averaged, the rows of all
    /// heads. If these laws have no incoming and no attention term of the parameter, one norm per index of
    /// the first axis.
    pub neurons: Vec<f64>,
}

impl Norms {
    /// The quotients of the norms: 0/0 is 0, x/0 is ∞.
    ///
    /// # Panics
    /// If the numbers of neurons differ.
    #[track_caller]
    pub fn over(&self, other: &Self) -> Self {
        let (a, b) = (self.neurons.len(), other.neurons.len());
        assert!(a == b, "over: norms of {a} neurons by norms of {b}");
        Self {
            whole: ratio(self.whole, other.whole),
            neurons: (self.neurons.iter().zip(&other.neurons))
                .map(|(a, b)| ratio(*a, *b))
                .collect(),
        }
    }

    /// The norms of values that are read as `[outer, neurons, inner]`.
    fn of<F: Real>(x: &[F], [_, neurons, inner]: [usize; 3]) -> Self {
        let mut squares = vec![0.0; neurons];
        if inner > 0 && neurons > 0 {
            for (k, entries) in x.chunks_exact(inner).enumerate() {
                squares[k % neurons] += sum_of_squares(entries);
            }
        }
        Self {
            whole: squares.iter().sum::<f64>().sqrt(),
            neurons: squares.into_iter().map(f64::sqrt).collect(),
        }
    }
}

/// a / b, and 0 / 0 = 0.
fn ratio(a: f64, b: f64) -> f64 {
    if a == 0.0 { 0.0 } else { a / b }
}

impl Sample {
    /// ‖G‖_F / ‖θ‖_F of the `k`-th parameter ("Are GATs Out of Balance?", Figures 3b, 4b, 5, 12).
    ///
    /// An attention vector that starts at 0 has no relative gradient there: the result is ∞, or 0 if the
    /// gradient is 0 too. Figures leave such a point out; show ‖G‖ itself instead, in
    /// [`gradient`](Self::gradient).
    ///
    /// # Panics
    /// If there are not so many parameters.
    #[track_caller]
    pub fn relative_gradient(&self, k: usize) -> Norms {
        self.gradient[k].over(&self.norm[k])
    }
}

impl<F: Real> Recorder<F> {
    /// A recorder of the training that begins at `model`, with a sample every `every` epochs.
    ///
    /// A law of a whole space of n neurons has n² entries. To leave such a law out of the samples, leave it
    /// out of `laws`.
    ///
    /// # Panics
    /// If `every` is 0.
    #[track_caller]
    pub fn new(model: &impl Module<F>, laws: Vec<Law>, every: usize) -> Self {
        assert!(every > 0, "recorder: a sample every 0 epochs");
        let initial = model.parameters();
        let shape = |(k, Entry { tensor: theta, .. }): (usize, &Entry<&Tensor<F>>)| {
            let rescalings = laws.iter().filter(|l| l.symmetry == Symmetry::Rescaling);
            let terms = rescalings.flat_map(|law| &law.terms);
            let mut own = terms.filter(|t| t.slice.parameter == k && t.side != Side::Outgoing);
            let rows = theta.shape().first().copied().unwrap_or(1);
            let inner = theta.len().checked_div(rows).unwrap_or(0);
            own.next().map_or([1, rows, inner], |term| term.slice.shape)
        };
        Self {
            shapes: initial.iter().enumerate().map(shape).collect(),
            initial: initial.iter().map(|p| p.tensor.clone()).collect(),
            every,
            unit: Unit::Epochs,
            recording: Recording {
                laws: laws.iter().map(|law| law.name.clone()).collect(),
                roles: initial.iter().map(|p| p.role).collect(),
                parameters: initial.into_iter().map(|p| p.name).collect(),
                samples: Vec::new(),
            },
            laws,
        }
    }

    /// The same with a sample every so many epochs or steps.
    pub fn counting(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Whether a point is to be sampled.
    fn is_due(&self, point: &Point<'_, F>) -> bool {
        let Some(last) = self.recording.samples.last() else {
            return true;
        };
        match self.unit {
            Unit::Steps => point.step.is_multiple_of(self.every),
            Unit::Epochs => point.epoch.is_multiple_of(self.every) && last.epoch != point.epoch,
        }
    }

    /// The samples so far.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    fn sample(&self, point: &Point<'_, F>) -> Sample {
        let &Point {
            parameters,
            gradients,
            ..
        } = point;
        let mut sample = Sample {
            epoch: point.epoch,
            step: point.step,
            loss: point.loss,
            delta: Vec::new(),
            delta_absolute: Vec::new(),
            balance: Vec::new(),
            norm: Vec::new(),
            gradient: Vec::new(),
            change: Vec::new(),
        };
        for law in &self.laws {
            let measured = law.measure(parameters, gradients);
            sample.delta.push(measured.relative());
            sample.delta_absolute.push(measured.delta);
            sample
                .balance
                .push(law.balance(parameters).unwrap_or_default());
        }
        let points = parameters.iter().zip(gradients);
        for ((theta, g), (initial, &shape)) in points.zip(self.initial.iter().zip(&self.shapes)) {
            let norms =
                |x: &Tensor<F>| Norms::of(contiguous(x).as_slice().expect("contiguous"), shape);
            sample.norm.push(norms(theta));
            sample.gradient.push(norms(g));
            sample.change.push(norms(&(*theta - initial).into_shared()));
        }
        sample
    }
}

impl<F: Real, M> Observer<F, M> for Recorder<F> {
    fn before_step(&mut self, point: &Point<'_, F>) -> Result<()> {
        if self.is_due(point) {
            let sample = self.sample(point);
            self.recording.samples.push(sample);
        }
        Ok(())
    }
}
