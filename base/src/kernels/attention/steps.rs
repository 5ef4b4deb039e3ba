//! The sums of the adjoints of one node over its edges: of a target over its sources, of a source over its
//! targets. Letters: see the table of [the parent module](super).
//!
//! `pull(g, k, q)` returns g f, g ∂f/∂k and g ∂f/∂q. The factors a stand outside the sums. A step holds
//! `pull` itself, not a reference, so that what it captures is in registers.

use crate::kernels::pairs;
use crate::kernels::rows::{Block, Place, Step, block, part, part_mut};
use crate::real::Real;

/// The factors t of all targets, or one row of ones for all.
#[derive(Clone, Copy)]
pub(super) struct Temperatures<'a, F> {
    data: &'a [F],
    /// The distance of the rows of two targets: H, or 0.
    stride: usize,
}

impl<'a, F> Temperatures<'a, F> {
    /// `t` of the shape [n, H]; without it, `ones` of the shape [H].
    pub fn new(t: Option<&'a [F]>, ones: &'a [F]) -> Self {
        Self {
            data: t.unwrap_or(ones),
            stride: if t.is_some() { ones.len() } else { 0 },
        }
    }

    /// The numbers of target i.
    #[inline(always)]
    pub fn of(self, i: usize) -> &'a [F] {
        &self.data[i * self.stride..]
    }
}

/// Σ t g ∂f/∂q and Σ g f over the sources of a target: the sums from which the adjoints of q, of a and of t
/// follow.
pub(super) struct OfTarget<'a, F, P> {
    /// The row q of the target.
    pub q: &'a [F],
    /// The numbers t of the target.
    pub t: &'a [F],
    pub pull: P,
}

impl<F: Real, P: Fn(F, F, F) -> [F; 3]> Step<F, 2> for OfTarget<'_, F, P> {
    #[inline(always)]
    fn add<const K: usize, const C: usize>(
        &self,
        g: &[F; K],
        at: Place,
        k: &Block<F, K, C>,
        [mut targets, mut values]: [Block<F, K, C>; 2],
    ) -> [Block<F, K, C>; 2] {
        let q = block::<F, K, C>(self.q, at.column);
        let t = part::<F, K>(self.t, at.head);
        for h in 0..K {
            for c in 0..C {
                let [value, _, of_q] = (self.pull)(g[h], k[h][c], q[h][c]);
                targets[h][c] += of_q * t[h];
                values[h][c] += value;
            }
        }
        [targets, values]
    }
}

/// The first of the two sums alone.
impl<F: Real, P: Fn(F, F, F) -> [F; 3]> Step<F, 1> for OfTarget<'_, F, P> {
    #[inline(always)]
    fn add<const K: usize, const C: usize>(
        &self,
        g: &[F; K],
        at: Place,
        k: &Block<F, K, C>,
        [targets]: [Block<F, K, C>; 1],
    ) -> [Block<F, K, C>; 1] {
        let [targets, _] = self.add(g, at, k, [targets, [[F::zero(); C]; K]]);
        [targets]
    }
}

/// Σ t g ∂f/∂k over the targets of a source: the sum for the adjoint of k.
pub(super) struct OfSource<'a, F, P> {
    /// The row k of the source.
    pub k: &'a [F],
    /// The numbers t of all targets.
    pub t: Temperatures<'a, F>,
    pub pull: P,
}

impl<F: Real, P: Fn(F, F, F) -> [F; 3]> Step<F, 1> for OfSource<'_, F, P> {
    #[inline(always)]
    fn add<const K: usize, const C: usize>(
        &self,
        g: &[F; K],
        at: Place,
        q: &Block<F, K, C>,
        [mut sources]: [Block<F, K, C>; 1],
    ) -> [Block<F, K, C>; 1] {
        let k = block::<F, K, C>(self.k, at.column);
        let t = part::<F, K>(self.t.of(at.entry), at.head);
        for h in 0..K {
            for c in 0..C {
                let [_, of_k, _] = (self.pull)(g[h], k[h][c], q[h][c]);
                sources[h][c] += of_k * t[h];
            }
        }
        [sources]
    }
}

/// For one number per head at each end (K = 1): `sums` ← Σ g ∂f/∂k over the targets of a source, and every g
/// is replaced by g ∂f/∂q. `k` is the row of the source, `q` the rows of all targets.
#[inline(always)]
pub(super) fn of_both_ends<F: Real>(
    targets: &[u32],
    g: &mut [F],
    [k, q]: [&[F]; 2],
    sums: &mut [F],
    pull: &impl Fn(F, F, F) -> [F; 3],
) {
    let mut at = 0;
    while at < sums.len() {
        at += match sums.len() - at {
            8.. => both_ends_of::<F, 8>(at, targets, g, [k, q], sums, pull),
            4.. => both_ends_of::<F, 4>(at, targets, g, [k, q], sums, pull),
            2.. => both_ends_of::<F, 2>(at, targets, g, [k, q], sums, pull),
            _ => both_ends_of::<F, 1>(at, targets, g, [k, q], sums, pull),
        };
    }
}

/// The same for C heads from `at` on. Returns C.
#[inline(always)]
fn both_ends_of<F: Real, const C: usize>(
    at: usize,
    targets: &[u32],
    g: &mut [F],
    [k, q]: [&[F]; 2],
    sums: &mut [F],
    pull: &impl Fn(F, F, F) -> [F; 3],
) -> usize {
    let heads = sums.len();
    let k = *part::<F, C>(k, at);
    let mut sum = [F::zero(); C];
    for (&i, g) in pairs(targets.iter(), g.chunks_exact_mut(heads)) {
        let q = part::<F, C>(q, i as usize * heads + at);
        let g = part_mut::<F, C>(g, at);
        // Arrays of their own, so that they stay in registers.
        let (mut of_k, mut of_q) = ([F::zero(); C], [F::zero(); C]);
        for l in 0..C {
            [_, of_k[l], of_q[l]] = pull(g[l], k[l], q[l]);
        }
        for l in 0..C {
            sum[l] += of_k[l];
        }
        *g = of_q;
    }
    *part_mut(sums, at) = sum;
    C
}
