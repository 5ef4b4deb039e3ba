//! Batch normalisation.

use super::{affine, behind, check_width, row_axes};
use crate::autodiff::Var;
use crate::init;
use crate::nn::{Layer, NormContext, Normalizer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Passage, Ports};
use crate::tensor::Tensor;

/// y = γ ⊙ (x − mean x) / √(var x + ε) + β, mean and variance of each feature over the rows: every feature
/// has the same size, whatever the layer before computed.
///
/// Ioffe and Szegedy, "Batch Normalization", ICML 2015, Algorithm 1; many graph networks use it over the
/// nodes of a graph.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]`; all axes but the last number the rows |
/// | γ, β | `[d]`; they start at 1 and 0 |
/// | running mean and variance | `[d]`, state; they start at 0 and 1 |
///
/// As PyTorch's `BatchNorm1d`. A training pass normalises with the mean and the variance of its rows (divided
/// by their number n) and moves the running ones towards them, r ← (1 − m) r + m · new, with the variance
/// divided by n − 1. An evaluation normalises with the running ones, or, without them, as a training pass
/// does. PyTorch also counts the passes, for an average over all passes instead of a momentum; this layer
/// does not. In PyTorch the features are axis 1, here they are the last axis.
///
/// In a training pass the output does not depend on an offset of a feature nor, with ε = 0, on its factor.
/// Hence two conservation laws of the layers that write x: the gradients of their biases are zero; with
/// ε = 0, ⟨W\[j,:\], G⟩ is zero for each neuron j. γ and β are balanced against all parameters that read y.
/// In an evaluation with running statistics the layer is an affine map, and these laws do not hold.
///
/// One feature with the values 1 and 3: mean 2, variance 1 (divided by n), 2 (divided by n − 1). The running
/// statistics start at 0 and 1 and move one tenth of the way.
///
/// ```
/// use emmy::{Tape, nn::{BatchNorm, Pass}, tensor::tensor};
///
/// let mut norm = BatchNorm::<f64>::new(1);
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &norm, 0);
/// let y = norm.forward(&pass, tape.constant(tensor(&[2, 1], vec![1.0, 3.0])));
/// assert_eq!(y.shape(), [2, 1]);
/// assert!((y.value()[[0, 0]] + 1.0).abs() < 1e-5 && (y.value()[[1, 0]] - 1.0).abs() < 1e-5);
/// pass.into_updates().apply(&mut norm);
/// let running = norm.running.unwrap();
/// assert!((running.mean[0] - 0.2).abs() < 1e-12 && (running.variance[0] - 1.1).abs() < 1e-12);
/// ```
#[derive(Debug, Clone)]
pub struct BatchNorm<F: Real> {
    /// γ.
    pub gain: Option<Tensor<F>>,
    /// β.
    pub bias: Option<Tensor<F>>,
    /// The statistics for evaluations; without them every pass uses those of its rows.
    pub running: Option<Running<F>>,
    /// m; PyTorch's default is 0.1.
    pub momentum: f64,
    /// ε; PyTorch's default is 10⁻⁵.
    pub eps: f64,
}
crate::module!(BatchNorm: gain = Gain as "weight", bias = Bias; state running as "*");

/// Averages over the training passes so far, the last ones with the largest weights.
#[derive(Debug, Clone)]
pub struct Running<F: Real> {
    /// The average of the means.
    pub mean: Tensor<F>,
    /// The average of the variances, which are divided by n − 1.
    pub variance: Tensor<F>,
}
crate::module!(Running: mean = State as "running_mean", variance = State as "running_var");

impl<F: Real> Running<F> {
    /// Mean 0 and variance 1 for each of `width` features.
    pub fn new(width: usize) -> Self {
        Self {
            mean: init::zeros(&[width]),
            variance: Tensor::ones(vec![width]),
        }
    }
}

impl<F: Real> BatchNorm<F> {
    /// A norm of `width` features with γ = 1, β = 0, running statistics, m = 0.1, ε = 10⁻⁵.
    pub fn new(width: usize) -> Self {
        Self {
            gain: Some(Tensor::ones(vec![width])),
            bias: Some(init::zeros(&[width])),
            running: Some(Running::new(width)),
            momentum: 0.1,
            eps: 1e-5,
        }
    }

    /// A norm without γ, β and running statistics.
    pub fn plain(eps: f64) -> Self {
        Self {
            gain: None,
            bias: None,
            running: None,
            momentum: 0.1,
            eps,
        }
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has fewer than two axes, its last axis does not have the size of γ, β and the statistics, or the
    /// statistics of fewer than two rows are needed.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let (gain, bias) = (self.gain.as_ref(), self.bias.as_ref());
        let mean = self.running.as_ref().map(|r| &r.mean);
        let shape = x.shape();
        let rows = row_axes("BatchNorm", &shape);
        let parameters = [("γ", gain), ("β", bias), ("the running mean", mean)];
        check_width("BatchNorm", &shape, &parameters);
        let own = pass.is_training() || self.running.is_none();
        let n: usize = shape[..shape.len() - 1].iter().product();
        assert!(
            !own || n >= 2,
            "BatchNorm: x has shape {shape:?}: at least two rows have a variance"
        );
        // With fixed statistics the norm is an affine map of each feature.
        let passage = match own {
            true => Passage::feature_norm(self.eps),
            false => Passage::BREAKS,
        };
        let ports = |params: &Params<'_, F>| Some(behind(params, passage, gain, bias));
        pass.call_with(self, &[x], ports, || {
            let (centred, variance) = match &self.running {
                Some(running) if !own => {
                    let centred = x - pass.state(&running.mean);
                    (centred, pass.state(&running.variance))
                }
                running => {
                    let mean = x.mean(&rows, true);
                    let centred = x - mean;
                    let variance = centred.square().mean(&rows, true);
                    if let Some(running) = running {
                        let unbiased = n as f64 / (n as f64 - 1.0);
                        self.follow(pass, &running.mean, mean, 1.0);
                        self.follow(pass, &running.variance, variance, unbiased);
                    }
                    (centred, variance)
                }
            };
            let z = centred / variance.add_scalar(F::of(self.eps)).sqrt();
            affine(pass, z, gain, bias)
        })
    }

    /// r ← (1 − m) r + m c x after the pass.
    fn follow(&self, pass: &Pass<'_, '_, F>, running: &Tensor<F>, x: Var<'_, F>, c: f64) {
        let (keep, take) = (F::of(1.0 - self.momentum), F::of(self.momentum * c));
        let mut new = pass.updated(running);
        for (r, &x) in new.iter_mut().zip(&x.value()) {
            *r = keep * *r + take * x;
        }
        pass.update(running, new);
    }
}

impl<F: Real> Layer<F> for BatchNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let passage = Passage::feature_norm(self.eps);
        Some(behind(
            params,
            passage,
            self.gain.as_ref(),
            self.bias.as_ref(),
        ))
    }
}

impl<F: Real> Normalizer<F> for BatchNorm<F> {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        self.forward(pass, x)
    }

    fn mixes_rows(&self) -> bool {
        self.running.is_none()
    }
}
