//! The configuration of an attention layer.

use crate::error::{Result, Rules};
use crate::linalg::Lp;
use serde::{Deserialize, Serialize};

/// How a query is compared with a key of d entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// q · k / √d: Vaswani et al., "Attention Is All You Need", NeurIPS 2017, Eq. (1).
    #[default]
    Dot,
    /// −‖q − k‖² / √d: Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021, Section 3.2.
    L2,
    /// The same with one weight for queries and keys, W_Q = W_K, as their Theorem 3.2 requires.
    L2Tied,
}

/// Attention divided by L(θ, n), an upper bound of its Lipschitz constant: y = c F(x) / L(θ, n), so that the
/// constant of y in the norm ‖·‖_p is at most c, if each token sees itself: behind a mask that hides a token
/// from itself, such as padding, F has no constant.
///
/// Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021, Section 5.1. If c < 1, the map x ↦ x +
/// y can be inverted ([`crate::lipschitz::invert`]). With c = 1 it may have no inverse, which the paper does
/// not say. L depends on the weights and on the number of tokens n; derivatives flow through L unless they
/// are stopped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Contraction {
    /// c.
    pub factor: f64,
    /// p, 2 or ∞.
    pub p: Lp,
    /// n: L is computed for at least so many tokens. `None` means the number of tokens of the input. A model
    /// that reads a sequence token by token needs a number here, its longest context.
    pub tokens: Option<usize>,
    /// Whether L is a constant for derivatives.
    pub stop_gradient: bool,
}

impl Contraction {
    /// A contraction with L for the number of tokens of the input, and with derivatives through L.
    pub fn new(factor: f64, p: Lp) -> Self {
        Self {
            factor,
            p,
            tokens: None,
            stop_gradient: false,
        }
    }
}

/// The configuration of a [`MultiHeadAttention`](super::MultiHeadAttention). Start from
/// [`new`](Self::new), and change fields.
///
/// Two heads of width 4 for tokens of 8 features; then with one key and one value for both heads (multi-query
/// attention):
///
/// ```
/// use emmy::{init, nn::{AttentionConfig, MultiHeadAttention}};
///
/// let usual = AttentionConfig::new(8, 2);
/// assert_eq!((usual.key_width, usual.value_width), (4, 4));
/// let shared = AttentionConfig { groups: 1, ..usual };
/// let [usual, shared] = [usual, shared].map(|c| MultiHeadAttention::<f64>::new(c, &mut init::rng(0)));
/// assert_eq!(usual?.keys().weight.shape(), [8, 8]);
/// let shared = shared?;
/// assert_eq!(shared.query.weight.shape(), [8, 8]);
/// assert_eq!(shared.keys().weight.shape(), [4, 8]);
/// assert!(AttentionConfig { groups: 3, ..shared.config }.validate().is_err());
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AttentionConfig {
    /// Features of the tokens x that have the queries.
    pub width: usize,
    /// Features of the tokens y that have the keys and values; equal to `width` in self-attention.
    pub memory: usize,
    /// Features of the output.
    pub out: usize,
    /// H, the number of heads.
    pub heads: usize,
    /// G: H/G heads share keys and values. G = H is the usual attention, G = 1 multi-query attention.
    pub groups: usize,
    /// d, the width of a head's queries and keys.
    pub key_width: usize,
    /// e, the width of a head's values.
    pub value_width: usize,
    /// Whether the four maps have biases.
    pub bias: bool,
    /// The comparison.
    pub score: Score,
    /// Rotary positions with this base, 10000 in the paper
    /// ([`rotate_planes`](crate::Var::rotate_planes)).
    pub rotary: Option<f64>,
    /// Queries and keys of each head are divided by the root of their mean square, with this ε: Henry et al.,
    /// "Query-Key Normalization for Transformers", EMNLP 2020, without their learnt factor.
    pub normalize: Option<f64>,
    /// The probability of dropout of the coefficients.
    pub dropout: f64,
    /// Values x A W_Vᵀ with A = W_Qᵀ W_Q / √d of their head, in place of x W_Vᵀ, as in Kim et al. With
    /// [`Score::L2Tied`], self-attention then has a Lipschitz constant.
    #[serde(default)]
    pub metric_values: bool,
    /// Division by the bound of the constant, for a configuration that [has a bound](Self::is_lipschitz).
    #[serde(default)]
    pub contraction: Option<Contraction>,
}

impl AttentionConfig {
    /// Self-attention of tokens with `width` features in `heads` heads of `width` / `heads` each, with
    /// biases, as PyTorch's `MultiheadAttention`. The width of a head is rounded down if `width` is not a
    /// multiple of `heads`, which PyTorch refuses.
    pub fn new(width: usize, heads: usize) -> Self {
        let each = width.checked_div(heads).unwrap_or(0);
        Self {
            width,
            memory: width,
            out: width,
            heads,
            groups: heads,
            key_width: each,
            value_width: each,
            bias: true,
            score: Score::Dot,
            rotary: None,
            normalize: None,
            dropout: 0.0,
            metric_values: false,
            contraction: None,
        }
    }

    /// Self-attention by distances as in Theorem 3.2 of Kim et al., which has a Lipschitz constant: tied
    /// weights, values x A W_Vᵀ, no biases.
    pub fn l2(width: usize, heads: usize) -> Self {
        Self {
            score: Score::L2Tied,
            metric_values: true,
            bias: false,
            ..Self::new(width, heads)
        }
    }

    /// The same divided by the bound of its constant, so that its constant in the norm ‖·‖_p is at most
    /// `factor`.
    pub fn contractive(width: usize, heads: usize, factor: f64, p: Lp) -> Self {
        Self {
            contraction: Some(Contraction::new(factor, p)),
            ..Self::l2(width, heads)
        }
    }

    /// Whether self-attention with this configuration has a Lipschitz constant on all inputs.
    pub fn is_lipschitz(&self) -> bool {
        self.metric_values && self.dropout == 0.0
    }

    /// Checks whether a layer can be built from this configuration.
    ///
    /// # Errors
    /// If a size is 0, the number of groups does not divide the number of heads, tied weights have other
    /// tokens or heads for keys than for queries, rotary positions have an odd width, or a number is out of
    /// its range.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("attention");
        rules.sizes(&[
            ("width", self.width),
            ("memory", self.memory),
            ("out", self.out),
            ("heads", self.heads),
            ("groups", self.groups),
            ("key_width", self.key_width),
            ("value_width", self.value_width),
        ])?;
        let rule = format!("a number that divides the {} heads", self.heads);
        let divides = self.heads.is_multiple_of(self.groups);
        rules.hold(divides, "groups", rule, self.groups)?;
        let tied = self.score == Score::L2Tied;
        let one = self.groups == self.heads && self.memory == self.width;
        let rule = "as many groups as heads and the same tokens for queries and keys, since their weight is one";
        let found = format!(
            "{} groups, {} heads, memory {}, width {}",
            self.groups, self.heads, self.memory, self.width
        );
        rules.hold(!tied || one, "score l2-tied", rule, found)?;
        let score = format!("{:?}", self.score);
        let plain = self.rotary.is_none() && self.normalize.is_none();
        let rule = "the score l2-tied, without rotary positions and normalised queries";
        rules.hold(
            !self.metric_values || (tied && plain),
            "metric_values",
            rule,
            &score,
        )?;
        if let Some(c) = &self.contraction {
            let rule =
                "attention with a Lipschitz constant, as of AttentionConfig::l2, without dropout";
            rules.hold(self.is_lipschitz(), "contraction", rule, &score)?;
            rules.hold(c.p != Lp::One, "contraction: p", "2 or ∞", c.p)?;
            rules.above_zero("contraction: factor", c.factor)?;
        }
        if let Some(base) = self.rotary {
            let even = self.key_width.is_multiple_of(2);
            let rule = "an even width of a head, to be cut into planes";
            rules.hold(even, "rotary", rule, self.key_width)?;
            let holds = base > 0.0 && base.is_finite();
            rules.hold(holds, "rotary", "a base above 0", base)?;
        }
        let eps = self.normalize.unwrap_or(0.0);
        rules.hold(eps >= 0.0, "normalize", "ε at least 0", eps)?;
        rules.probability("dropout", self.dropout)
    }
}
