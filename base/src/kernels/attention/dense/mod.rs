//! Attention between all queries and all keys, fused: tile by tile, with a running maximum and a running
//! sum per query, so that no array of size queries × keys is ever stored. Dao, "FlashAttention-2", 2023,
//! Algorithms 1 and 2, on a CPU.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | q | [B, n, H, d] | queries: B items of a batch, n queries each, H heads of width d |
//! | k | [B, m, G, d] | keys; H/G heads share each of the G groups |
//! | v | [B, m, G, e] | values |
//! | β | [B, m, G] | a number added to every product with a key; optional, 0 if absent |
//! | t | [B, n, H] | inverse temperature of a query; optional, 1 if absent |
//! | c | | a constant factor of all scores |
//! | s | [B, H, n, m] | scores c tᵢ (qᵢ·kⱼ + βⱼ), −∞ where the mask forbids; never stored |
//! | α | [B, H, n, m] | softmaxⱼ s; never stored |
//! | y, gy | [B, n, H, e] | Σⱼ drop(α)ᵢⱼ vⱼ and its adjoint |
//! | ℓ, gℓ | [B, H, n] | ln Σⱼ exp sᵢⱼ, from which the backward pass computes α again, and its adjoint |
//!
//! Dropout multiplies coefficient (b, h, i, j) by the factor of the element of that number in α. A query that
//! may attend to no key gets zeros.

mod backward;
mod forward;
pub(super) mod tile;

pub use backward::{DenseAdjoints, Outcome};
pub use forward::LogSums;

use crate::kernels::random::DropMask;
use crate::sparse::Pattern;
use std::ops::Range;

/// Queries of a tile, and keys of a tile: its scores stay in the second-level cache of a core. A tile of keys
/// begins with a panel of the packed keys.
pub(super) const TILE: [usize; 2] = [128, 256];

/// The sizes and options of an attention between all queries and all keys.
#[derive(Debug, Clone, Copy)]
pub struct Dense<'a, F> {
    /// B, the number of items.
    pub batch: usize,
    /// n, the number of queries of an item.
    pub queries: usize,
    /// m, the number of keys of an item.
    pub keys: usize,
    /// H, the number of heads.
    pub heads: usize,
    /// G, the number of groups of heads that share keys and values.
    pub groups: usize,
    /// d, the width of queries and keys.
    pub width: usize,
    /// e, the width of values.
    pub value_width: usize,
    /// c, a factor of all scores.
    pub scale: F,
    /// Which keys a query may attend to.
    pub mask: DenseMask<'a>,
    /// Dropout of the coefficients.
    pub dropout: DropMask,
}

/// Which keys a query may attend to: those that every part allows.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenseMask<'a> {
    /// Whether query i sees only the keys j ≤ i + m − n: the last query sees all.
    pub causal: bool,
    /// The number of keys of each item, from the first; `[B]`.
    pub lengths: Option<&'a [usize]>,
    /// Where it holds, row by row, `[n, m]` for all items alike, or `[B, n, m]`.
    pub allowed: Option<&'a [bool]>,
    /// n × m: query i does not see key j where there is an entry (i, j), in any item.
    pub except: Option<&'a Pattern>,
}

/// The operands.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a, F> {
    /// q.
    pub q: &'a [F],
    /// k.
    pub k: &'a [F],
    /// v.
    pub v: &'a [F],
    /// β.
    pub beta: Option<&'a [F]>,
    /// t.
    pub t: Option<&'a [F]>,
}

impl DenseMask<'_> {
    /// The number of keys that query i of item b sees at most, from the first; it may see fewer.
    #[inline(always)]
    fn reach(&self, b: usize, i: usize, queries: usize, keys: usize) -> usize {
        let keys_of_item = self.lengths.map_or(keys, |l| l[b].min(keys));
        match self.causal {
            true => keys_of_item.min((i + 1 + keys).saturating_sub(queries)),
            false => keys_of_item,
        }
    }

    /// Whether query i of item b sees key j.
    pub fn sees(&self, b: usize, i: usize, j: usize, queries: usize, keys: usize) -> bool {
        let row = self.row(b, i, queries, keys);
        j < self.reach(b, i, queries, keys)
            && row.is_none_or(|row| row[j])
            && self.except.is_none_or(|except| except.find(i, j).is_none())
    }

    /// The keys within a range that query i does not see for the set of edges.
    #[inline(always)]
    fn excepted(&self, i: usize, keys: &Range<usize>) -> &[u32] {
        let Some(except) = self.except else {
            return &[];
        };
        except.indices_within(i, keys)
    }

    /// Row i of the explicit part, for item b.
    #[inline(always)]
    fn row(&self, b: usize, i: usize, queries: usize, keys: usize) -> Option<&[bool]> {
        let allowed = self.allowed?;
        let item = if allowed.len() == queries * keys {
            0
        } else {
            b
        };
        Some(&allowed[(item * queries + i) * keys..][..keys])
    }
}
