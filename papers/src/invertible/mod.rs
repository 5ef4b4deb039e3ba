//! Residual blocks with contractions, and an encoder made of such blocks, which can be inverted.

mod feed_forward;

pub use feed_forward::ContractiveFeedForward;

use emmy::error::Result;
use emmy::init::Rng;
use emmy::lipschitz::{Inverse, Lp, Upper, invert};
use emmy::nn::{ActNorm, AttentionConfig, Layer, Module, MultiHeadAttention, Pass};
use emmy::ops::attention::Mask;
use emmy::real::Real;
use emmy::tensor::Tensor;
use emmy::{Tape, Var};

/// x ← s ⊙ x + b, x ← x + a(x), x ← x + g(x): activation normalisation, contractive attention a and a
/// contractive feed-forward layer g, each of which can be inverted.
#[derive(Debug, Clone)]
pub struct InvertibleBlock<F: Real> {
    /// s and b.
    pub norm: ActNorm<F>,
    /// a.
    pub attention: MultiHeadAttention<F>,
    /// g.
    pub feed_forward: ContractiveFeedForward<F>,
}
emmy::module!(InvertibleBlock: norm, attention, feed_forward);

/// Invertible blocks one after the other.
///
/// Behrmann et al., "Invertible Residual Networks", ICML 2019, with the attention of Kim et al., "The
/// Lipschitz Constant of Self-Attention", ICML 2021, Section 5.2.
///
/// ```
/// use emmy::{Tape, init, nn::Pass};
/// use papers::invertible::InvertibleEncoder;
/// let rng = &mut init::rng(0);
/// let mut net = InvertibleEncoder::<f64>::new(2, [6, 2, 12], 0.6, rng)?;
/// let x = init::normal(&[5, 6], 1.0, rng);
/// net.start(&x);
/// let tape = Tape::new();
/// let y = net.forward(&Pass::eval(&tape, &net), tape.constant(x.clone())).value();
/// let inverse = net.inverse(&y, 1e-9)?;
/// assert!((&inverse.x - &x).iter().all(|e| e.abs() <= 1e-9) && inverse.error <= 1e-9);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InvertibleEncoder<F: Real> {
    /// The blocks, first to last.
    pub blocks: Vec<InvertibleBlock<F>>,
}
emmy::module!(InvertibleEncoder: blocks);

impl<F: Real> InvertibleEncoder<F> {
    /// `layers` blocks for tokens with `sizes` = \[features, heads, hidden neurons\], whose residuals have
    /// constants of at most `factor` in the 2-norm. Its norms have not started ([`start`](Self::start)).
    ///
    /// # Errors
    /// If a size is 0, the features cannot be shared among the heads, or the factor is not within 0 < c < 1.
    pub fn new(layers: usize, sizes: [usize; 3], factor: f64, rng: &mut Rng) -> Result<Self> {
        if !(factor > 0.0 && factor < 1.0) {
            let found = factor.to_string();
            return Err(emmy::Error::invalid(
                "invertible encoder: factor",
                "0 < c < 1",
                found,
            ));
        }
        let [width, heads, hidden] = sizes;
        let block = |_| {
            Ok(InvertibleBlock {
                norm: ActNorm::new(width),
                attention: MultiHeadAttention::new(
                    AttentionConfig::contractive(width, heads, factor, Lp::Two),
                    rng,
                )?,
                feed_forward: ContractiveFeedForward::new(width, hidden, factor, rng)?,
            })
        };
        Ok(Self {
            blocks: (0..layers).map(block).collect::<Result<_>>()?,
        })
    }

    /// Starts the norms with a first batch `[.., n, width]`, one after the other.
    ///
    /// # Panics
    /// As [`ActNorm::initialize`].
    pub fn start(&mut self, batch: &Tensor<F>) {
        let mut x = batch.clone();
        for block in &mut self.blocks {
            block.norm.initialize(&x);
            let tape = Tape::new();
            x = block
                .forward(&Pass::eval(&tape, block), tape.constant(x))
                .value();
        }
    }

    /// y `[.., n, width]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or the norms have not started.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            (self.blocks.iter()).fold(x, |x, block| block.forward(pass, x))
        })
    }

    /// The x with y = f(x), to within `tolerance` in the 2-norm, in exact arithmetic. Each residual is
    /// inverted by a fixed-point iteration. On the way to the first block, the error of an iteration grows by
    /// at most the factor 1/(1 − c) per residual and 1/min |s| per norm; the tolerance of each iteration
    /// takes this into account. If the rounding of the type does not allow such a small error, the iteration
    /// ends with a larger one ([`Inverse::error`]).
    ///
    /// # Errors
    /// If a residual is not certified to be a contraction, or values become NaN or infinite.
    ///
    /// # Panics
    /// If the shapes do not fit, or the norms have not started.
    pub fn inverse(&self, y: &Tensor<F>, tolerance: f64) -> Result<Inverse<F>> {
        let parts = 2 * self.blocks.len();
        let mut total = Inverse {
            x: y.clone(),
            steps: 0,
            residuals: Vec::new(),
            error: 0.0,
        };
        for k in (0..self.blocks.len()).rev() {
            let block = &self.blocks[k];
            let before: f64 = self.blocks[..k]
                .iter()
                .map(InvertibleBlock::growth)
                .product();
            let shrink = 1.0 / smallest(&block.norm);
            let attention = block.contraction();
            // Errors after the feed-forward layer pass through the attention, the norm and all blocks before.
            let left = [before * shrink / (1.0 - attention.get()), before * shrink];
            let maps: [Map<'_, F>; 2] = [
                &|x| {
                    evaluated(&block.feed_forward, x, |pass, x| {
                        block.feed_forward.forward(pass, x)
                    })
                },
                &|x| {
                    evaluated(&block.attention, x, |pass, x| {
                        block.attention.forward(pass, x, &Mask::none())
                    })
                },
            ];
            let constants = [block.feed_forward.constant(), attention];
            for ((map, c), left) in maps.into_iter().zip(constants).zip(left) {
                let found = invert(map, &total.x, c, tolerance / (parts as f64 * left))?;
                total.error = total.error / (1.0 - c.get()) + found.error;
                total.x = found.x;
                total.steps += found.steps;
                total.residuals.extend(found.residuals);
            }
            total.x = evaluated(&block.norm, &total.x, |pass, y| block.norm.inverse(pass, y));
            total.error *= shrink;
        }
        Ok(total)
    }

    /// Bounds of ln |det ∂y/∂x| for n tokens: exactly n Σ ln |s| for the norms, and between D ln(1 − c) and D
    /// ln(1 + c) per residual, D = n · width (Behrmann et al., Lemma 5).
    pub fn log_det(&self, n: usize) -> [f64; 2] {
        let mut bounds = [0.0; 2];
        for block in &self.blocks {
            let entries = block.norm.scale.iter().map(|s| s.as_f64().abs().ln());
            let norm = n as f64 * entries.sum::<f64>();
            let size = (n * block.norm.scale.len()) as f64;
            for c in [block.contraction(), block.feed_forward.constant()] {
                bounds[0] += size * (-c.get()).ln_1p();
                bounds[1] += size * c.get().ln_1p();
            }
            bounds.iter_mut().for_each(|b| *b += norm);
        }
        bounds
    }
}

impl<F: Real> InvertibleBlock<F> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let x = self.norm.forward(pass, x);
            let x = x + self.attention.forward(pass, x, &Mask::none());
            x + self.feed_forward.forward(pass, x)
        })
    }

    /// The constant of the attention; infinite if the attention was replaced by one without a known constant.
    fn contraction(&self) -> Upper {
        self.attention.contraction().unwrap_or(Upper::INFINITE)
    }

    /// An upper bound of the constant of the inverse.
    fn growth(&self) -> f64 {
        let of = |c: Upper| 1.0 / (1.0 - c.get());
        of(self.contraction()) * of(self.feed_forward.constant()) / smallest(&self.norm)
    }
}

type Map<'a, F> = &'a dyn Fn(&Tensor<F>) -> Tensor<F>;

/// min |s|.
fn smallest<F: Real>(norm: &ActNorm<F>) -> f64 {
    let sizes = norm.scale.iter().map(|s| s.as_f64().abs());
    sizes.fold(f64::INFINITY, f64::min)
}

/// A layer's output in an evaluation.
fn evaluated<F: Real, M: Module<F>>(
    layer: &M,
    x: &Tensor<F>,
    f: impl for<'t, 'm> Fn(&Pass<'t, 'm, F>, Var<'t, F>) -> Var<'t, F>,
) -> Tensor<F> {
    let tape = Tape::new();
    let pass = Pass::eval(&tape, layer);
    f(&pass, tape.constant(x.clone())).value()
}

impl<F: Real> Layer<F> for InvertibleBlock<F> {}
impl<F: Real> Layer<F> for InvertibleEncoder<F> {}
