//! Steps of a training, and δ and c at these steps.

use super::nets::Net;
use emmy::nn::Pass;
use emmy::optim::{Algorithm, Clip, Optimizer, Sgd};
use emmy::symmetry::{Drift, Generator};
use emmy::{Tape, Tensor, Var, init};

/// The rule of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// θ ← θ − η (G + λ θ)
    Descent,
    /// v ← 0.9 v + G + λ θ, θ ← θ − η v
    Momentum,
    /// Adam, which has no formula for the drift
    Adam,
    /// AdamW with gradients clipped to a norm of 0.1; it has no formula either
    AdamW,
    /// Muon, which has no formula either
    Muon,
}

/// The norm to which gradients are clipped.
const CLIP: f64 = 0.1;

const MOMENTUM: f64 = 0.9;

impl Rule {
    /// The default learning rate.
    pub fn lr(self) -> f64 {
        match self {
            Self::Descent | Self::Momentum => 0.05,
            Self::Adam | Self::AdamW => 0.01,
            Self::Muon => 0.02,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Descent => "gradient descent",
            Self::Momentum => "gradient descent with momentum",
            Self::Adam => "Adam",
            Self::AdamW => "AdamW with clipped gradients",
            Self::Muon => "Muon",
        }
    }

    /// μ; `None` if the drift of c has no formula.
    fn momentum(self) -> Option<f64> {
        match self {
            Self::Descent => Some(0.0),
            Self::Momentum => Some(MOMENTUM),
            Self::Adam | Self::AdamW | Self::Muon => None,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Self::Descent => Algorithm::SGD,
            Self::Momentum => Algorithm::Sgd(Sgd {
                momentum: MOMENTUM,
                nesterov: false,
            }),
            Self::Adam => Algorithm::ADAM,
            Self::AdamW => Algorithm::ADAMW,
            Self::Muon => Algorithm::MUON,
        }
    }
}

/// How a model is trained.
#[derive(Debug, Clone, Copy)]
pub struct How {
    pub steps: u64,
    pub rule: Rule,
    pub lr: f64,
    pub decay: f64,
    pub seed: u64,
}

/// The measurements; one row per step.
#[derive(Debug, Clone)]
pub struct Run {
    /// Whether the training ended because the loss was not a finite number.
    pub diverged: bool,
    /// The loss before each step.
    pub losses: Vec<f64>,
    /// The largest relative δ before each step.
    pub deltas: Vec<f64>,
    /// The number of steps whose gradients were clipped.
    pub clipped: usize,
    /// c of each law at the start and after each step.
    pub conserved: Vec<Vec<f64>>,
    /// The same as predicted by the formula from the start; `None` for a rule without a formula.
    pub predicted: Option<Vec<Vec<f64>>>,
}

/// The squared error of a model on one sample of data with random targets, both of `seed`.
pub fn loss<'t>(net: &dyn Net, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
    let y = net.forward(pass, seed);
    let target = init::normal(&y.shape(), 1.0, &mut init::rng(seed ^ 0x7a26e7));
    y.mse(pass.tape().constant(target))
}

/// The same, and its gradients.
pub fn gradient_at(net: &dyn Net, seed: u64) -> (f64, Vec<Tensor<f64>>) {
    let tape = Tape::new();
    let pass = Pass::train(&tape, net, 0);
    let loss = loss(net, &pass, seed);
    (loss.item(), pass.gradients(loss))
}

/// Trains a model to fit random targets on one sample of data.
pub fn train(net: &mut dyn Net, how: &How, laws: &[Generator]) -> Run {
    let mut optimizer = Optimizer::new(how.rule.algorithm()).weight_decay(how.decay);
    let start = flat(&net.tensors());
    let mut drifts: Vec<Drift> = match how.rule.momentum() {
        Some(_) => laws.iter().map(|law| Drift::new(law, &start)).collect(),
        None => Vec::new(),
    };
    let conserved = |theta: &[f64]| laws.iter().map(|law| law.conserved(theta)).collect();
    let predicted = |drifts: &[Drift]| drifts.iter().map(Drift::conserved).collect();
    let mut run = Run {
        diverged: false,
        losses: Vec::new(),
        deltas: Vec::new(),
        clipped: 0,
        conserved: vec![conserved(&start)],
        predicted: how.rule.momentum().map(|_| vec![predicted(&drifts)]),
    };
    for _ in 0..how.steps {
        let (loss, mut gradients) = gradient_at(net, how.seed);
        // The limit is below the largest number, since products overflow before.
        if !(loss.is_finite() && loss < 1e100) {
            run.diverged = true;
            break;
        }
        let theta = flat(&net.tensors());
        let gradient = flat(&gradients.iter().collect::<Vec<_>>());
        let deltas = laws.iter().map(|law| law.relative(&theta, &gradient));
        run.losses.push(loss);
        run.deltas.push(deltas.fold(0.0, f64::max));
        if how.rule == Rule::AdamW {
            let norm = Clip::GlobalNorm(CLIP).apply(&mut gradients);
            run.clipped += usize::from(norm > CLIP);
        }
        optimizer.step_model(net, &gradients, how.lr);
        run.conserved.push(conserved(&flat(&net.tensors())));
        if let (Some(all), Some(momentum)) = (&mut run.predicted, how.rule.momentum()) {
            for drift in &mut drifts {
                drift.step(&theta, &gradient, how.lr, momentum, how.decay);
            }
            all.push(predicted(&drifts));
        }
    }
    run
}

impl Run {
    /// The largest relative δ.
    pub fn delta(&self) -> f64 {
        self.deltas.iter().copied().fold(0.0, f64::max)
    }

    /// The largest change of a c.
    pub fn moved(&self) -> f64 {
        let start = &self.conserved[0];
        largest(self.conserved.iter().map(|now| apart(now, start)))
    }

    /// The largest distance of a c from what was predicted, relative to the largest |c| or 1.
    pub fn off(&self) -> Option<f64> {
        let all = self.conserved.iter().zip(self.predicted.as_ref()?);
        Some(largest(all.map(|(now, predicted)| apart(now, predicted))) / self.size())
    }

    pub fn size(&self) -> f64 {
        let all = self.conserved.iter().flatten();
        largest(all.map(|c| c.abs())).max(1.0)
    }
}

/// Tensors as one vector.
fn flat(tensors: &[&Tensor<f64>]) -> Vec<f64> {
    tensors.iter().flat_map(|t| t.iter().copied()).collect()
}

/// The largest distance of two numbers at the same place.
pub fn apart(a: &[f64], b: &[f64]) -> f64 {
    largest(a.iter().zip(b).map(|(a, b)| (a - b).abs()))
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}
