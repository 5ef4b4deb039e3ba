//! Activation normalisation: an affine map per feature that starts from data.

use super::{behind, check_width, row_axes};
use crate::autodiff::Var;
use crate::init;
use crate::kernels::reduce;
use crate::nn::{Layer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Passage, Ports};
use crate::tensor::{Tensor, scalar};

/// y = s ⊙ x + b, where s and b start so that each feature of a first batch has mean 0 and variance 1. At the
/// start of training this is batch normalisation, but the map is invertible, and no row depends on the
/// others.
///
/// Kingma and Dhariwal, "Glow: Generative Flow with Invertible 1×1 Convolutions", NeurIPS 2018, section 3.1
/// and Table 1. From the start on, s and b are trained like any other parameters.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]`; all axes but the last number the rows |
/// | s, b | `[d]` |
/// | started | a number, state: 1 once s and b have started, else 0 |
///
/// The first values of the parameters are computed from data, and a pass cannot change the parameters of the
/// model that it borrows. So call [`initialize`](Self::initialize) before the first pass; a pass over a norm
/// that has not started panics. In a model with several such norms each needs the output of those before it:
/// start them in order, with an evaluation up to each.
///
/// ```
/// use emmy::{Real, Tape, Tensor, Var, init, nn::{ActNorm, Linear, Pass}};
///
/// struct Flow<F: Real> {
///     maps: Vec<Linear<F>>,
///     norms: Vec<ActNorm<F>>,
/// }
/// emmy::module!(Flow: maps, norms);
///
/// impl<F: Real> Flow<F> {
///     /// The input of norm number `end`, or the output.
///     fn until<'t>(&self, end: usize, pass: &Pass<'t, '_, F>, mut x: Var<'t, F>) -> Var<'t, F> {
///         for (k, map) in self.maps.iter().enumerate() {
///             x = map.forward(pass, x);
///             if k == end {
///                 break;
///             }
///             x = self.norms[k].forward(pass, x).tanh();
///         }
///         x
///     }
///
///     fn start(&mut self, batch: &Tensor<F>) {
///         for k in 0..self.norms.len() {
///             let tape = Tape::new();
///             let x = self.until(k, &Pass::eval(&tape, self), tape.constant(batch)).value();
///             self.norms[k].initialize(&x);
///         }
///     }
/// }
///
/// let rng = &mut init::rng(0);
/// let mut flow = Flow::<f64> {
///     maps: (0..3).map(|_| Linear::new(4, 4, true, rng)).collect(),
///     norms: (0..3).map(|_| ActNorm::new(4)).collect(),
/// };
/// flow.start(&init::normal(&[20, 4], 1.0, rng));
/// assert!(flow.norms.iter().all(ActNorm::has_started));
/// ```
///
/// Glow trains the logarithm of the scale; here, as in the paper's Table 1, s itself is trained. s and b
/// write the neurons of y, and s reads those of x. So s can compensate a factor of a neuron of x, and a
/// factor of s and b changes a neuron of y, which its readers can compensate. Hence the layers that write x
/// are balanced against s, neuron by neuron, and s and b are balanced against the layers that read y.
#[derive(Debug, Clone)]
pub struct ActNorm<F: Real> {
    /// s.
    pub scale: Tensor<F>,
    /// b.
    pub bias: Tensor<F>,
    /// 1 once s and b have started.
    pub started: Tensor<F>,
}
crate::module!(ActNorm: scale = Gain, bias = Bias; state started);

impl<F: Real> ActNorm<F> {
    /// A norm of `width` features that has not started: s = 1, b = 0.
    pub fn new(width: usize) -> Self {
        Self {
            scale: Tensor::ones(vec![width]),
            bias: init::zeros(&[width]),
            started: scalar(F::zero()),
        }
    }

    /// Whether s and b have started.
    pub fn has_started(&self) -> bool {
        self.started.first().is_some_and(|&s| s > F::zero())
    }

    /// Starts s and b so that s ⊙ x + b has mean 0 and variance 1 for each feature. A feature that is the
    /// same in all rows gets s = 1.
    ///
    /// # Panics
    /// If x has fewer than two axes or rows, its last axis does not have the size of s, or an entry of x is
    /// not finite.
    #[track_caller]
    pub fn initialize(&mut self, x: &Tensor<F>) {
        let shape = x.shape();
        let rows = row_axes("ActNorm", shape).len();
        check_width("ActNorm", shape, &[("s", Some(&self.scale))]);
        let n: usize = shape[..rows].iter().product();
        assert!(
            n >= 2,
            "ActNorm: x has shape {shape:?}: at least two rows have a variance"
        );
        let axes: Vec<usize> = (0..rows).collect();
        let mean_of = |x: &Tensor<F>| (reduce::sum(x, &axes) / F::of(n as f64)).into_shared();
        let mean = mean_of(x);
        let centred = (x - &mean).into_shared();
        let variance = mean_of(&centred.mapv(|x| x * x).into_shared());
        assert!(
            variance.iter().all(|v| v.is_finite()),
            "ActNorm: the variances of x are not finite numbers"
        );
        // By the entries themselves: the mean of equal numbers may be rounded.
        let first: Vec<F> = x.iter().take(mean.len()).copied().collect();
        let mut same = vec![true; first.len()];
        for (k, &x) in x.iter().enumerate() {
            same[k % first.len()] &= x == first[k % first.len()];
        }
        let moments = mean.iter().zip(&variance).zip(same);
        let parameters = self.scale.iter_mut().zip(&mut self.bias);
        for ((scale, bias), ((&mean, &variance), same)) in parameters.zip(moments) {
            let one = same || variance == F::zero();
            *scale = if one {
                F::one()
            } else {
                variance.sqrt().recip()
            };
            *bias = -mean * *scale;
        }
        self.started = scalar(F::one());
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If s and b have not started, or x does not end in an axis of their size.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        self.check("ActNorm", &x.shape());
        pass.call(self, &[x], || {
            x * pass.param(&self.scale) + pass.param(&self.bias)
        })
    }

    /// x = (y − b) / s.
    ///
    /// # Panics
    /// If s and b have not started, or y does not end in an axis of their size.
    #[track_caller]
    pub fn inverse<'t>(&self, pass: &Pass<'t, '_, F>, y: Var<'t, F>) -> Var<'t, F> {
        self.check("ActNorm, inverse", &y.shape());
        (y - pass.param(&self.bias)) / pass.param(&self.scale)
    }

    /// ln |det| of the map of one row, Σ ln |s|, of shape `[]`. For n rows it is n times as much.
    pub fn log_det<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        pass.param(&self.scale).abs().ln().sum_all()
    }

    #[track_caller]
    fn check(&self, what: &str, shape: &[usize]) {
        assert!(
            self.has_started(),
            "{what}: s and b have not started: call `initialize` with a first batch"
        );
        check_width(what, shape, &[("s", Some(&self.scale))]);
    }
}

impl<F: Real> Layer<F> for ActNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let (scale, bias) = (Some(&self.scale), Some(&self.bias));
        Some(behind(params, Passage::CARRIES, scale, bias))
    }
}
