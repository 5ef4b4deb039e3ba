//! Sums over the entries of one row of a pattern, in blocks of columns whose sums stay in registers while the entries go by.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | columns | entries of the row | their columns j |
//! | c, g | [entries of the row, H] | a factor for every entry and head |
//! | x, zs, zt | [.., H, D] | rows to choose from, by j |
//! | out | [H, D] | what belongs to the row itself |
//!
//! One walk ([`over_entries`]) serves them all. Every sum runs in the order of the entries, however wide the blocks are.

use crate::real::Real;

/// What an entry with factor c and row x adds to N sums, for C of the columns, the first of them number `at`.
///
/// The sums come and go by value: so the compiler keeps them in registers.
pub(super) trait Step<F, const N: usize> {
    fn add<const C: usize>(&self, c: F, at: usize, x: &[F; C], sums: [[F; C]; N]) -> [[F; C]; N];
}

/// Σ c x[j].
struct WeightedSum;

impl<F: Real> Step<F, 1> for WeightedSum {
    #[inline(always)]
    fn add<const C: usize>(
        &self,
        c: F,
        _: usize,
        x: &[F; C],
        [mut sum]: [[F; C]; 1],
    ) -> [[F; C]; 1] {
        for l in 0..C {
            sum[l] += c * x[l];
        }
        [sum]
    }
}

/// Σ g LeakyReLU'(t) and Σ g LeakyReLU(t), with t = zs[j] + zt: what the adjoints g of GATv2's scores mean for the target and for
/// the attention vector.
pub(super) struct ScoreAdjoints<'a, F> {
    pub zt: &'a [F],
    pub slope: F,
}

impl<F: Real> Step<F, 2> for ScoreAdjoints<'_, F> {
    #[inline(always)]
    fn add<const C: usize>(
        &self,
        g: F,
        at: usize,
        zs: &[F; C],
        [mut gates, mut values]: [[F; C]; 2],
    ) -> [[F; C]; 2] {
        let (zt, low) = (part::<F, C>(self.zt, at), g * self.slope);
        for l in 0..C {
            // The value of a LeakyReLU is its derivative times its argument.
            let t = zs[l] + zt[l];
            let step = if t > F::zero() { g } else { low };
            gates[l] += step;
            values[l] += step * t;
        }
        [gates, values]
    }
}

/// Σ g LeakyReLU'(zs + zt[i]) over the entries (i, j) of the column of a source j: the same for the source.
pub(super) struct SourceAdjoints<'a, F> {
    pub zs: &'a [F],
    pub slope: F,
}

impl<F: Real> Step<F, 1> for SourceAdjoints<'_, F> {
    #[inline(always)]
    fn add<const C: usize>(
        &self,
        g: F,
        at: usize,
        zt: &[F; C],
        [mut gates]: [[F; C]; 1],
    ) -> [[F; C]; 1] {
        let (zs, low) = (part::<F, C>(self.zs, at), g * self.slope);
        for l in 0..C {
            gates[l] += if zs[l] + zt[l] > F::zero() { g } else { low };
        }
        [gates]
    }
}

/// out[h, :] ← out[h, :] + Σ c[e, h] x[j, h, :].
#[inline(always)]
pub(super) fn weighted_sum<F: Real>(
    columns: &[u32],
    c: &[F],
    x: &[F],
    heads: usize,
    out: &mut [F],
) {
    over_entries(columns, c, x, heads, [out], &WeightedSum);
}

/// Adds what `step` makes of every entry to N sums of the shape [H, D].
///
/// A block is 64 columns wide where that divides the width of a head or eight heads of 8 make it up; else a head is cut into parts of
/// 16, 8, 4, 2 and 1.
#[inline(always)]
pub(super) fn over_entries<F: Real, const N: usize>(
    columns: &[u32],
    c: &[F],
    x: &[F],
    heads: usize,
    mut out: [&mut [F]; N],
    step: &impl Step<F, N>,
) {
    let w = out[0].len();
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
    let (d, mut at) = (walk.d, 0);
    while at < w {
        at += if d == 8 && w.is_multiple_of(64) {
            walk.block::<8, 8, N>(at, &mut out)
        } else {
            match d - at % d {
                64.. => walk.block::<1, 64, N>(at, &mut out),
                16.. => walk.block::<1, 16, N>(at, &mut out),
                8.. => walk.block::<1, 8, N>(at, &mut out),
                4.. => walk.block::<1, 4, N>(at, &mut out),
                2.. => walk.block::<1, 2, N>(at, &mut out),
                _ => walk.block::<1, 1, N>(at, &mut out),
            }
        };
    }
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
    /// The entries go by for K × C columns from `at` on, each C of them within one head. Returns K × C.
    #[inline(always)]
    fn block<const K: usize, const C: usize, const N: usize>(
        &self,
        at: usize,
        out: &mut [&mut [F]; N],
    ) -> usize
    where
        S: Step<F, N>,
    {
        let w = self.heads * self.d;
        let head = at / self.d;
        let mut sums: [[[F; C]; N]; K] =
            std::array::from_fn(|k| std::array::from_fn(|n| *part::<F, C>(&*out[n], at + k * C)));
        for (&j, c) in self.columns.iter().zip(self.c.chunks_exact(self.heads)) {
            let c = part::<F, K>(c, head);
            let x = &self.x[j as usize * w + at..][..K * C];
            for k in 0..K {
                let x = part::<F, C>(x, k * C);
                sums[k] = self.step.add(c[k], at + k * C, x, sums[k]);
            }
        }
        for k in 0..K {
            for n in 0..N {
                out[n][at + k * C..][..C].copy_from_slice(&sums[k][n]);
            }
        }
        K * C
    }
}

/// The C elements from `start` on.
#[inline(always)]
pub(super) fn part<F, const C: usize>(x: &[F], start: usize) -> &[F; C] {
    x[start..].first_chunk().expect("a whole row")
}
