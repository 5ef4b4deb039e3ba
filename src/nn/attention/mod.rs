//! Attention between tokens.

mod cache;
mod config;
mod laws;
mod lipschitz;
mod lipschitz_norm;
mod normalizer;
mod positions;

pub use cache::KeyValues;
pub use config::{AttentionConfig, Contraction, Score};
pub use lipschitz_norm::LipschitzNorm;
pub use normalizer::{Invariance, ScoreNormalizer};
pub use positions::sinusoidal;

use super::{Dropout, Layer, Linear, Params, Pass};
use crate::autodiff::Var;
use crate::error::Result;
use crate::init::Rng;
use crate::linalg::Upper;
use crate::ops::attention::{DenseAttention, Mask, Qkv};
use crate::real::Real;
use crate::symmetry::Ports;
use std::sync::Arc;

/// y = [head 1, .., head H] W_Oᵀ + b_O with head h = softmax(scores of q_h and k_h) v_h: each token gathers
/// the values of the tokens whose keys resemble its query.
///
/// Vaswani et al., "Attention Is All You Need", NeurIPS 2017, Section 3.2.2. The scores are dot products, or
/// squared distances (Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021, Section 3.2). In
/// both cases values are x W_Vᵀ. With distances the configuration can choose the paper's x A W_Vᵀ
/// ([`AttentionConfig::l2`]); self-attention then has a Lipschitz constant ([`lipschitz`](Self::lipschitz)).
///
/// | letter | shape | |
/// |---|---|---|
/// | x | `[.., n, width]` | tokens with the queries |
/// | y | `[.., m, memory]` | tokens with the keys and values; x itself in self-attention |
/// | W_Q | `[H d, width]` | queries |
/// | W_K, W_V | `[G d, memory]`, `[G e, memory]` | keys and values; H/G heads share one |
/// | W_O | `[out, H e]` | output |
///
/// The axes before the last two number the items of a batch; there may be none. The layer is PyTorch's
/// `MultiheadAttention` with `batch_first`, whose `in_proj_weight` is W_Q, W_K and W_V one below the other.
/// PyTorch's masks say which keys are hidden; a [`Mask`] says which are seen. The output of a token that may
/// attend to no token is b_O; PyTorch gives NaN. Each weight starts Xavier-uniform, b at 0. PyTorch draws
/// W_Q, W_K and W_V as one matrix (so they are smaller by √2 if they have one shape), and W_O from U(−1/√in,
/// 1/√in).
///
/// With W_Q = 0 all scores are equal, and with W_V = W_O = 1 a token gets the mean of the tokens that it
/// sees; under a causal mask these are itself and those before it.
///
/// ```
/// use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass};
/// use emmy::{Tape, init, ops::attention::Mask, tensor::tensor};
///
/// let mut layer = MultiHeadAttention::<f64>::new(AttentionConfig::new(1, 1), &mut init::rng(0))?;
/// layer.query.weight = tensor(&[1, 1], vec![0.0]);
/// layer.value.weight = tensor(&[1, 1], vec![1.0]);
/// layer.output.weight = tensor(&[1, 1], vec![1.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[3, 1], vec![2.0, 4.0, 6.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, &Mask::causal());
/// assert_eq!(y.shape(), [3, 1]);
/// assert!(y.value().iter().zip([2.0, 3.0, 4.0]).all(|(y, e)| (y - e).abs() < 1e-12));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct MultiHeadAttention<F: Real> {
    /// W_Q and b_Q.
    pub query: Linear<F>,
    /// W_K and b_K; `None` if they are those of the queries.
    pub key: Option<Linear<F>>,
    /// W_V and b_V.
    pub value: Linear<F>,
    /// W_O and b_O.
    pub output: Linear<F>,
    /// Sizes and options.
    pub config: AttentionConfig,
    /// Factors of the scores.
    pub normalizer: Option<Arc<dyn ScoreNormalizer<F>>>,
}
crate::module!(MultiHeadAttention:
    query in "in_proj_*|q_proj_*",
    key in "in_proj_*|k_proj_*" else query,
    value in "in_proj_*|v_proj_*",
    output as "out_proj"
);

impl<F: Real> MultiHeadAttention<F> {
    /// A layer with freshly drawn weights.
    ///
    /// # Errors
    /// If the configuration is not [valid](AttentionConfig::validate).
    pub fn new(config: AttentionConfig, rng: &mut Rng) -> Result<Self> {
        config.validate()?;
        let AttentionConfig {
            heads,
            groups,
            key_width,
            value_width,
            bias,
            ..
        } = config;
        let tied = config.score == Score::L2Tied;
        let mut map = |input, out| Linear::new(input, out, bias, rng);
        Ok(Self {
            query: map(config.width, heads * key_width),
            key: (!tied).then(|| map(config.memory, groups * key_width)),
            value: map(config.memory, groups * value_width),
            output: map(heads * value_width, config.out),
            config,
            normalizer: None,
        })
    }

    /// Self-attention: the tokens x attend to each other. Shape `[.., n, out]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        self.cross(pass, x, x, mask)
    }

    /// Cross-attention: the tokens x attend to the tokens y. Shape `[.., n, out]`.
    ///
    /// # Panics
    /// If the shapes do not fit, or if queries and keys share one weight and y is not x.
    #[track_caller]
    pub fn cross<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        y: Var<'t, F>,
        mask: &Mask,
    ) -> Var<'t, F> {
        self.check(x, y);
        pass.call(self, &[x, y], || {
            let compared = self.compare(pass, x, y, 0);
            let heads = self.attention(pass, mask).attend(compared);
            let heads = self.normalized(compared, heads, mask);
            let joined = self.join(pass, heads);
            let joined = self.stated(pass, joined, x, y, mask);
            self.contracted(pass, joined, tokens_of(y))
        })
    }

    /// The same, and the coefficients α before dropout, `[.., H, n, m]` (`[nnz, H]` if the mask is a set of
    /// edges).
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn with_coefficients<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        y: Var<'t, F>,
        mask: &Mask,
    ) -> (Var<'t, F>, Var<'t, F>) {
        self.check(x, y);
        pass.call(self, &[x, y], || {
            let compared = self.compare(pass, x, y, 0);
            let attention = self.attention(pass, mask);
            let alpha = attention.attention_coefficients(compared);
            let joined = self.join(pass, attention.attend(compared));
            let joined = self.stated(pass, joined, x, y, mask);
            (self.contracted(pass, joined, tokens_of(y)), alpha)
        })
    }

    /// Causal self-attention of tokens x that follow those in `cache`, for generating a sequence token by
    /// token. The keys and values of x are added to the cache, so those of the sequence so far are not
    /// computed again. No derivative flows into the cache.
    ///
    /// # Panics
    /// If the shapes do not fit each other or the cache, or the layer has a score normaliser: its divisor
    /// would be that of the new tokens alone.
    #[track_caller]
    pub fn continued<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        cache: &mut KeyValues<F>,
    ) -> Var<'t, F> {
        self.check(x, x);
        assert!(
            self.normalizer.is_none(),
            "continued: a score normaliser divides by a bound of all tokens, those in the cache too"
        );
        // The keys and values of the cache do not follow a change of the parameters.
        let ports = |_: &Params<'_, F>| Some(Ports::opaque(2));
        pass.call_with(self, &[x, x], ports, || {
            let new = self.compare(pass, x, x, cache.len());
            let [k, v, beta] = cache.extend(new);
            let all = Qkv {
                k: pass.tape().constant(k),
                v: pass.tape().constant(v),
                beta: new.beta.map(|_| pass.tape().constant(beta)),
                ..new
            };
            let heads = self.attention(pass, &Mask::causal()).attend(all);
            self.contracted(pass, self.join(pass, heads), cache.len())
        })
    }

    /// Queries, keys and values of all heads, in the form of the one operation.
    fn compare<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        y: Var<'t, F>,
        start: usize,
    ) -> Qkv<'t, F> {
        let c = &self.config;
        let split = |z: Var<'t, F>, heads: usize, width: usize| {
            let shape = z.shape();
            z.reshape(&[&shape[..shape.len() - 1], &[heads, width]].concat())
        };
        let mut q = split(self.query.forward(pass, x), c.heads, c.key_width);
        let mut k = split(self.keys().forward(pass, y), c.groups, c.key_width);
        let v = match c.metric_values {
            true => self.metric_values(pass, y),
            false => split(self.value.forward(pass, y), c.groups, c.value_width),
        };
        if let Some(eps) = c.normalize {
            [q, k] = [q, k].map(|z| z.rms_norm(None, F::of(eps)));
        }
        if let Some(base) = c.rotary {
            [q, k] = [q, k].map(|z| z.rotate_planes(start, base));
        }
        // −‖q − k‖² is 2 (q·k − ‖k‖²/2) up to a number that is the same for all keys.
        let distance = c.score != Score::Dot;
        let beta = distance.then(|| k.square().sum(&[-1], false).scale(F::of(-0.5)));
        let t = self.normalizer.as_ref().map(|n| n.temperature(q, k, v));
        Qkv { q, k, v, beta, t }
    }

    /// Values y A_h W_Vᵀ + b_V of each head, A_h = W_Qᵀ W_Q / √d: q_h (W_Q W_Vᵀ) / √d, q_h without bias.
    fn metric_values<'t>(&self, pass: &Pass<'t, '_, F>, y: Var<'t, F>) -> Var<'t, F> {
        let c = &self.config;
        let (h, d, e) = (c.heads, c.key_width, c.value_width);
        let [w_q, w_v] = [&self.query, &self.value].map(|map| pass.param(&map.weight));
        let of_head = w_q.reshape(&[h, d, c.width]);
        let map = of_head.matmul(w_v.reshape(&[h, e, c.width]).t());
        let map = map.scale(F::of(d as f64).sqrt().recip());
        let shape = y.shape();
        let lead = &shape[..shape.len() - 1];
        let q = y.linear(w_q).reshape(&[-1, h as isize, d as isize]);
        let v = q.transpose(0, 1).matmul(map).transpose(0, 1);
        let v = v.reshape(&[lead, &[h, e]].concat());
        match &self.value.bias {
            Some(b) => v + pass.param(b).reshape(&[h, e]),
            None => v,
        }
    }

    fn attention(&self, pass: &Pass<'_, '_, F>, mask: &Mask) -> DenseAttention {
        let c = &self.config;
        let factor = if c.score == Score::Dot { 1.0 } else { 2.0 };
        let dropout = Dropout { p: c.dropout };
        DenseAttention {
            scale: factor / (c.key_width as f64).sqrt(),
            mask: mask.clone(),
            dropout: dropout.seed(pass).map(|seed| (c.dropout, seed)),
        }
    }

    fn join<'t>(&self, pass: &Pass<'t, '_, F>, heads: Var<'t, F>) -> Var<'t, F> {
        let shape = heads.shape();
        let width = self.config.heads * self.config.value_width;
        let side_by_side = [&shape[..shape.len() - 2], &[width]].concat();
        self.output.forward(pass, heads.reshape(&side_by_side))
    }

    /// c y / L for a layer that contracts. L is for n tokens, or for the number in the configuration if it is
    /// larger.
    fn contracted<'t>(&self, pass: &Pass<'t, '_, F>, y: Var<'t, F>, n: usize) -> Var<'t, F> {
        let Some(c) = &self.config.contraction else {
            return y;
        };
        let n = n.max(c.tokens.unwrap_or(0));
        let bound = self
            .lipschitz(pass, n, c.p, None)
            .and_then(|b| b.var().ok());
        let mut bound = bound.unwrap_or_else(|| {
            panic!(
                "attention that contracts: there is no bound to divide by with a score normaliser"
            )
        });
        if c.stop_gradient {
            bound = bound.detach();
        }
        // If all weights are 0, y is 0.
        let bound = bound.add_scalar(F::min_positive_value());
        y * bound.powf(-F::one()).scale(F::of(c.factor))
    }

    /// An upper bound of c: the constant of a layer that contracts, in the norm of the contraction, up to the
    /// rounding of L in the type of the model. `None` for any other layer. It holds without a mask, and with
    /// any under which each token sees itself; padding hides a token from itself.
    /// [`Trace::lipschitz`](crate::nn::Trace::lipschitz) certifies a model that contains it.
    pub fn contraction(&self) -> Option<Upper> {
        let c = self.config.contraction?;
        Some(Upper::rounded(c.factor, 16.0 * F::epsilon().as_f64()))
    }

    /// The map that computes keys.
    pub fn keys(&self) -> &Linear<F> {
        self.key.as_ref().unwrap_or(&self.query)
    }

    #[track_caller]
    fn check(&self, x: Var<'_, F>, y: Var<'_, F>) {
        assert!(
            self.key.is_some() || x.id() == y.id(),
            "MultiHeadAttention: one weight for queries and keys is for self-attention, x and y are two variables"
        );
        let (x, y, c) = (x.shape(), y.shape(), &self.config);
        let fits = x.len() >= 2
            && x.len() == y.len()
            && x[..x.len() - 2] == y[..y.len() - 2]
            && x.last() == Some(&c.width)
            && y.last() == Some(&c.memory);
        assert!(
            fits,
            "MultiHeadAttention: x {x:?}, y {y:?}: they must be [.., n, {}] and [.., m, {}], with the same axes in front",
            c.width, c.memory
        );
    }
}

/// The number of tokens per item.
fn tokens_of<F: Real>(x: Var<'_, F>) -> usize {
    x.shape()[x.ndim() - 2]
}

impl<F: Real> Layer<F> for MultiHeadAttention<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let read = |map: &Linear<F>| params.columns(&map.weight);
        let written = std::iter::once(&self.output.weight).chain(&self.output.bias);
        let output = Ports {
            inside: self.inside(params),
            ..Ports::writes(written.map(|p| params.rows(p)))
        };
        // A is multiplied between the input and W_V, and contains W_Q twice: no law of the input's neurons is
        // known.
        if self.config.metric_values {
            return Some(output);
        }
        let asked = self.key.iter().chain([&self.value]);
        Some(output.reads([read(&self.query)]).reads(asked.map(read)))
    }
}
