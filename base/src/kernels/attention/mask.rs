//! The masks of attention between queries and keys.

use super::dense::DenseMask;
use crate::sparse::Pattern;
use crate::tensor::{Tensor, tensor};
use std::sync::Arc;

/// Which keys a query may attend to. A query that may attend to none gets zeros.
///
/// Restrictions add up: `Mask::causal().with_lengths(&[3, 5])` allows what both allow. A set of edges stands
/// alone.
///
/// ```
/// use emmy::{ops::attention::Mask, tensor::tensor};
///
/// let causal = Mask::causal();
/// let window = tensor(&[2, 3], vec![true, true, false, false, true, true]);
/// let both = causal.with_allowed(window);
/// # let _ = both;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Mask {
    causal: bool,
    lengths: Option<Arc<[usize]>>,
    allowed: Option<Tensor<bool>>,
    except: Option<Arc<Pattern>>,
    edges: Option<Arc<Pattern>>,
}

impl Mask {
    /// Every query sees every key.
    pub fn none() -> Self {
        Self::default()
    }

    /// Whether every query sees every key.
    pub fn is_none(&self) -> bool {
        let Self {
            causal,
            lengths,
            allowed,
            except,
            edges,
        } = self;
        let none = lengths.is_none() && allowed.is_none() && except.is_none() && edges.is_none();
        none && !causal
    }

    /// Whether it is [`causal`](Self::causal), and forbids nothing else.
    pub fn is_causal(&self) -> bool {
        let rest = Self {
            causal: false,
            ..self.clone()
        };
        self.causal && rest.is_none()
    }

    /// Whether each of n tokens that attend to each other may attend to itself, in every item of a batch.
    ///
    /// ```
    /// use emmy::ops::attention::Mask;
    ///
    /// assert!(Mask::causal().shows_own(3));
    /// // The third token is padding.
    /// assert!(!Mask::lengths(&[2]).shows_own(3));
    /// ```
    ///
    /// # Panics
    /// If it is made of edges between fewer than n tokens.
    pub fn shows_own(&self, n: usize) -> bool {
        let Self {
            causal: _,
            lengths,
            allowed,
            except,
            edges,
        } = self;
        let on_diagonal = |k: usize| (k % (n * n)).is_multiple_of(n + 1);
        let own =
            |a: &Tensor<bool>| (a.iter().enumerate()).all(|(k, &sees)| sees || !on_diagonal(k));
        let find = |p: &Pattern, i: usize| p.find(i, i).is_some();
        (lengths.as_ref()).is_none_or(|lengths| lengths.iter().all(|&length| length >= n))
            && allowed.as_ref().is_none_or(own)
            && (except.as_ref()).is_none_or(|p| (0..n).all(|i| !find(p, i)))
            && (edges.as_ref()).is_none_or(|p| (0..n).all(|i| find(p, i)))
    }

    /// Query i sees the keys j ≤ i + m − n, for n queries and m keys: the last query sees all keys. With as
    /// many queries as keys, a token sees itself and what stands before it.
    pub fn causal() -> Self {
        Self {
            causal: true,
            ..Self::default()
        }
    }

    /// Of each item of a batch only the first keys are seen, the rest is padding; one length per item.
    pub fn lengths(lengths: &[usize]) -> Self {
        Self::none().with_lengths(lengths)
    }

    /// Query i sees key j where `allowed` holds: `[n, m]` for all items of a batch alike, or `[items, n, m]`.
    pub fn allowed(allowed: Tensor<bool>) -> Self {
        Self::none().with_allowed(allowed)
    }

    /// Query i sees key j if the pattern has the entry (i, j). Work and memory follow the number of entries.
    /// It takes one item, and no other restriction.
    pub fn edges(pattern: Arc<Pattern>) -> Self {
        Self {
            edges: Some(pattern),
            ..Self::default()
        }
    }

    /// Query i sees key j unless the pattern has the entry (i, j), in every item of a batch. Memory follows
    /// the number of entries, work that of all pairs.
    pub fn all_but(pattern: Arc<Pattern>) -> Self {
        Self {
            except: Some(pattern),
            ..Self::default()
        }
    }

    /// The same with [`lengths`](Self::lengths).
    ///
    /// # Panics
    /// If this is a set of edges, or has lengths.
    #[track_caller]
    pub fn with_lengths(self, lengths: &[usize]) -> Self {
        self.must_be_dense();
        assert!(self.lengths.is_none(), "mask: it has lengths already");
        Self {
            lengths: Some(lengths.into()),
            ..self
        }
    }

    /// The same with [`allowed`](Self::allowed).
    ///
    /// # Panics
    /// If this is a set of edges, or has an explicit part.
    #[track_caller]
    pub fn with_allowed(self, allowed: Tensor<bool>) -> Self {
        self.must_be_dense();
        assert!(
            self.allowed.is_none(),
            "mask: it has an explicit part already"
        );
        Self {
            allowed: Some(allowed.as_standard_layout().into_owned().into_shared()),
            ..self
        }
    }

    #[track_caller]
    fn must_be_dense(&self) {
        assert!(
            self.edges.is_none(),
            "mask: a set of edges takes no other restriction; leave those edges out"
        );
    }

    /// The set of edges, if it is one.
    pub fn pattern(&self) -> Option<&Arc<Pattern>> {
        self.edges.as_ref()
    }

    /// The edges that it leaves out, if it forbids nothing else.
    pub fn excepted(&self) -> Option<&Pattern> {
        let others = self.causal || self.lengths.is_some() || self.allowed.is_some();
        self.except.as_deref().filter(|_| !others)
    }

    /// The mask `[items, 1, n, m]` or `[1, 1, n, m]` where it restricts anything.
    pub fn to_dense(&self, items: usize, n: usize, m: usize) -> Option<Tensor<bool>> {
        if self.is_none() {
            return None;
        }
        let kernel = self.kernel();
        let shared = self.lengths.is_none() && self.allowed.as_ref().is_none_or(|a| a.ndim() == 2);
        let items = if shared { 1 } else { items };
        let sees = |at: usize| {
            let (b, i, j) = (at / m / n, at / m % n, at % m);
            kernel.sees(b, i, j, n, m)
        };
        let all = (0..items * n * m).map(sees).collect();
        Some(tensor(&[items, 1, n, m], all))
    }

    /// As the kernels take it.
    pub fn kernel(&self) -> DenseMask<'_> {
        DenseMask {
            causal: self.causal,
            lengths: self.lengths.as_deref(),
            allowed: self
                .allowed
                .as_ref()
                .map(|allowed| allowed.as_slice().expect("contiguous")),
            except: self.except.as_deref(),
        }
    }

    #[track_caller]
    pub fn check(&self, op: &str, items: usize, n: usize, m: usize) {
        if let Some(lengths) = &self.lengths {
            let found = lengths.len();
            assert!(
                found == items,
                "{op}: the mask has {found} lengths for {items} items"
            );
            let longest = lengths.iter().max().copied().unwrap_or(0);
            assert!(
                longest <= m,
                "{op}: the mask has a length of {longest}, there are {m} keys"
            );
        }
        if let Some(allowed) = &self.allowed {
            let found = allowed.shape();
            assert!(
                found == [n, m] || found == [items, n, m],
                "{op}: the mask has shape {found:?}, it must be [{n}, {m}] or [{items}, {n}, {m}]"
            );
        }
        if let Some(pattern) = &self.except {
            let found = pattern.shape();
            assert!(
                found == (n, m),
                "{op}: the mask leaves out the edges of a pattern of {found:?}; it must be ({n}, {m})"
            );
        }
        if let Some(pattern) = &self.edges {
            let found = pattern.shape();
            assert!(
                items == 1 && found == (n, m),
                "{op}: a pattern of {found:?} for {items} items of {n} queries and {m} keys; it must have these sizes, \
                 and take one item"
            );
        }
    }
}
