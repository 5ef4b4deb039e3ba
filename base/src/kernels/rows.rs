//! Sums over the entries of one row of a pattern, in blocks of columns whose sums stay in registers while the
//! loop runs over the entries.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | columns | entries of the row | their columns j |
//! | c | [entries of the row, H] | a factor for every entry and head |
//! | x | [.., H, D] | rows to choose from, by j |
//! | out | [H, D] | the sums of the row |
//!
//! One loop ([`over_entries`]) serves all of these sums. Every sum runs in the order of the entries, however
//! wide the blocks are.

use super::pairs;
use crate::real::Real;

/// The terms that one entry adds to N sums, for K heads and C columns of each. The entry has a row x, and a
/// factor c per head.
///
/// The sums are passed and returned by value, so that the compiler keeps them in registers.
pub(super) trait Step<F, const N: usize> {
    /// How many heads of 8 columns make a block, 2 or 4. A weighted sum is faster with 4. A step that computes
    /// more with the factors c is faster with 2: of 4 heads the compiler puts the same column into one vector,
    /// and moves each number to its place.
    const HEADS: usize = 2;

    fn add<const K: usize, const C: usize>(
        &self,
        c: &[F; K],
        at: Place,
        x: &Block<F, K, C>,
        sums: [Block<F, K, C>; N],
    ) -> [Block<F, K, C>; N];
}

/// The column j of an entry; the first head of a block, and the first of its columns in a row of all heads.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub entry: usize,
    pub head: usize,
    pub column: usize,
}

/// C columns of K heads.
pub(super) type Block<F, const K: usize, const C: usize> = [[F; C]; K];

/// Σ c x[j].
struct WeightedSum;

impl<F: Real> Step<F, 1> for WeightedSum {
    const HEADS: usize = 4;

    #[inline(always)]
    fn add<const K: usize, const C: usize>(
        &self,
        c: &[F; K],
        _: Place,
        x: &Block<F, K, C>,
        [mut sum]: [Block<F, K, C>; 1],
    ) -> [Block<F, K, C>; 1] {
        for k in 0..K {
            for l in 0..C {
                sum[k][l] += c[k] * x[k][l];
            }
        }
        [sum]
    }
}

/// out[h, :] ← Σ c[e, h] x[j, h, :], or with [`Out::Add`] out[h, :] ← out[h, :] + that sum.
#[inline(always)]
pub(super) fn weighted_sum<F: Real>(columns: &[u32], c: &[F], x: &[F], heads: usize, out: Out<F>) {
    over_entries(columns, c, x, heads, [out], &WeightedSum);
}

/// The target of a sum: overwritten, or added to.
pub(super) enum Out<'a, F> {
    Set(&'a mut [F]),
    Add(&'a mut [F]),
}

impl<F> Out<'_, F> {
    #[inline(always)]
    fn data(&mut self) -> &mut [F] {
        match self {
            Out::Set(data) | Out::Add(data) => data,
        }
    }
}

/// Writes or adds to `out` the N sums over all entries that `step` forms, each of the shape [H, D].
///
/// Some heads of 8 columns make a block ([`Step::HEADS`]), and so do eight or four heads of one column; other
/// heads are cut into blocks of the [`widest`] and of 16, 8, 7, 4, 2 and 1.
#[inline(always)]
pub(super) fn over_entries<F: Real, S: Step<F, N>, const N: usize>(
    columns: &[u32],
    c: &[F],
    x: &[F],
    heads: usize,
    mut out: [Out<F>; N],
    step: &S,
) {
    let w = out[0].data().len();
    if w == 0 {
        return;
    }
    let walk = Walk {
        columns,
        c,
        x,
        heads,
        d: w / heads,
        step,
    };
    let (d, mut head) = (walk.d, 0);
    while head < heads {
        let left = heads - head;
        if d == 8 && left >= S::HEADS {
            match S::HEADS {
                2 => walk.block::<2, 8, N>(head, 0, &mut out),
                _ => walk.block::<4, 8, N>(head, 0, &mut out),
            };
            head += S::HEADS;
            continue;
        }
        if d == 1 && left >= 4 {
            head += match left {
                8.. => walk.block::<8, 1, N>(head, 0, &mut out),
                _ => walk.block::<4, 1, N>(head, 0, &mut out),
            };
            continue;
        }
        let mut at = 0;
        while at < d {
            at += match d - at {
                64.. if const { widest::<F, N>() == 64 } => {
                    walk.block::<1, 64, N>(head, at, &mut out)
                }
                32.. if const { widest::<F, N>() == 32 } => {
                    walk.block::<1, 32, N>(head, at, &mut out)
                }
                16.. => walk.block::<1, 16, N>(head, at, &mut out),
                8.. => walk.block::<1, 8, N>(head, at, &mut out),
                // The classes of Cora: one loop over the entries in place of three, of 4, 2 and 1.
                7 => walk.block::<1, 7, N>(head, at, &mut out),
                4.. => walk.block::<1, 4, N>(head, at, &mut out),
                2.. => walk.block::<1, 2, N>(head, at, &mut out),
                _ => walk.block::<1, 1, N>(head, at, &mut out),
            };
        }
        head += 1;
    }
}

/// The most columns of a block whose N sums take half of the 16 registers of AVX2, of 32 bytes each; the
/// other half is for what a step computes.
const fn widest<F, const N: usize>() -> usize {
    8 * 32 / (N * size_of::<F>())
}

/// The operands of [`over_entries`].
struct Walk<'a, F, S> {
    columns: &'a [u32],
    c: &'a [F],
    x: &'a [F],
    heads: usize,
    d: usize,
    step: &'a S,
}

impl<F: Real, S> Walk<'_, F, S> {
    /// Runs over the entries for C columns, from `at` on, of each of K heads. Returns the number of sums, K
    /// C.
    #[inline(always)]
    fn block<const K: usize, const C: usize, const N: usize>(
        &self,
        head: usize,
        at: usize,
        out: &mut [Out<F>; N],
    ) -> usize
    where
        S: Step<F, N>,
    {
        let w = self.heads * self.d;
        let at = head * self.d + at;
        let mut sums = [[[F::zero(); C]; K]; N];
        for (entry, &j) in self.columns.iter().enumerate() {
            let place = Place {
                entry: j as usize,
                head,
                column: at,
            };
            let x = block(self.x, j as usize * w + at);
            let c = part(self.c, entry * self.heads + head);
            sums = self.step.add(c, place, x, sums);
        }
        for n in 0..N {
            for k in 0..K {
                let at = at + k * C;
                let sum = sums[n][k];
                match &mut out[n] {
                    Out::Set(out) => *part_mut(out, at) = sum,
                    Out::Add(out) => {
                        let out = part_mut::<F, C>(out, at);
                        for c in 0..C {
                            out[c] += sum[c];
                        }
                    }
                }
            }
        }
        K * C
    }
}

/// The given rows of x, w wide, one after the other in `space`.
#[inline(always)]
pub(super) fn collect<'a, F: Real>(
    rows: &[u32],
    x: &[F],
    w: usize,
    space: &'a mut Vec<F>,
) -> &'a mut [F] {
    let len = rows.len() * w;
    if space.len() < len {
        space.resize(len, F::zero());
    }
    let space = &mut space[..len];
    match w {
        0 => {}
        // Known sizes need no call for each copy.
        1 => {
            for (&row, out) in pairs(rows.iter(), space.iter_mut()) {
                *out = x[row as usize];
            }
        }
        8 => {
            for (&row, out) in pairs(rows.iter(), space.as_chunks_mut().0.iter_mut()) {
                *out = *part::<F, 8>(x, row as usize * 8);
            }
        }
        _ => {
            for (&row, out) in pairs(rows.iter(), space.chunks_exact_mut(w)) {
                out.copy_from_slice(&x[row as usize * w..][..w]);
            }
        }
    }
    space
}

/// The K × C elements from `start` on.
#[inline(always)]
pub(super) fn block<F, const K: usize, const C: usize>(x: &[F], start: usize) -> &Block<F, K, C> {
    let (parts, _) = x[start..].as_chunks();
    parts.first_chunk().expect("a whole row")
}

/// The C elements from `start` on, to write.
#[inline(always)]
pub(super) fn part_mut<F, const C: usize>(x: &mut [F], start: usize) -> &mut [F; C] {
    x[start..].first_chunk_mut().expect("a whole row")
}

/// The C elements from `start` on.
#[inline(always)]
pub(super) fn part<F, const C: usize>(x: &[F], start: usize) -> &[F; C] {
    x[start..].first_chunk().expect("a whole row")
}
