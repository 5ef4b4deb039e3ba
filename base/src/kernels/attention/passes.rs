//! The two passes that compute the adjoints of an attention along edges: by rows for what belongs to
//! targets, by columns for what belongs to sources. For [mirrored](Passes::mirrored) edges both go by rows.
//! Letters: see the table of [the parent module](super).

use super::blocks::{Output, ScoreAdjoints};
use super::heads::{dot_heads, scale_heads};
use super::operands::{Adjoints, Backward, Operands};
use super::steps::{OfSource, OfTarget, Temperatures, of_both_ends};
use super::{Attention, add};
use crate::kernels::par::RowBlock;
use crate::kernels::rows::{self, Out};
use crate::kernels::segment::segment_sum_t;
use crate::kernels::spmm::weighted_sums;
use crate::kernels::{accumulate, scale_by, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// What both passes read.
pub(super) struct Passes<'a, F, P> {
    pub attention: &'a Attention<'a>,
    pub x: Operands<'a, F>,
    pub back: Backward<'a, F>,
    /// drop(α).
    pub kept: &'a [F],
    /// a, or ones.
    pub a: &'a [F],
    /// t, or ones.
    pub t: Temperatures<'a, F>,
    /// ⟨gyᵢ, yᵢ⟩, shape [n, H].
    pub means: &'a [F],
    pub pull: P,
}

impl<F: Real, P: Fn(F, F, F) -> [F; 3] + Copy + Sync> Passes<'_, F, P> {
    /// Both passes.
    ///
    /// The first pass computes the adjoints g of the scores t e, per entry and head: by rows in the order of
    /// the entries, by columns in that of the transposed pattern. The second reads them. Where the first has
    /// computed the terms of the adjoint of q ([`one_number`](Self::one_number)), they are only summed.
    /// [Mirrored](Self::mirrored) edges have a second pass of their own.
    pub fn run(&self) -> Adjoints<F> {
        let x = &self.x;
        let mut g = memory::scratch(self.attention.pattern.nnz() * self.attention.heads);
        let mut v = match (x.k, x.q) {
            (None, Some(_)) => memory::zeros(x.v.len()),
            _ => memory::scratch(x.v.len()),
        };
        let mut k = memory::scratch(x.k.map_or(0, <[F]>::len));
        let mut q = memory::scratch(x.q.map_or(0, <[F]>::len));
        let (a, t) = if x.k.is_some() {
            self.sources(&mut v, &mut k, &mut g, None);
            if self.one_number() {
                let by_column = &self.attention.pattern.transposed().pattern;
                q = segment_sum_t(by_column, &g, self.attention.heads);
                Default::default()
            } else {
                self.targets(&mut q, &mut [], Some(&g))
            }
        } else if self.mirrored() {
            (self.both_roles(&mut v, &mut g), Default::default())
        } else {
            let gq = if x.q.is_some() { &mut q } else { &mut v };
            let others = self.targets(gq, &mut g, None);
            self.sources(&mut v, &mut k, &mut [], Some(&g));
            others
        };
        Adjoints { v, k, q, a, t }
    }

    /// Whether each end of an edge has one number per head (K = 1), with no factor a or t, as in GAT. Then g
    /// ∂f/∂q is one number per entry and head too, and takes the place of g.
    fn one_number(&self) -> bool {
        self.x.width == 1 && self.x.a.is_none() && self.x.t.is_none()
    }

    /// Whether each edge has a reverse, and both compare the same two rows by a symmetric function: q, k
    /// and v are the same, and there is no t. The two edges between nodes i and j then add (g_ij + g_ji)
    /// ∂f/∂q to the adjoint of row i, which is a target of one and the source of the other.
    fn mirrored(&self) -> bool {
        let (x, p) = (&self.x, self.attention.pattern);
        x.q.is_none() && x.t.is_none() && self.back.symmetric && p.is_symmetric()
    }

    /// Writes g of the entries of a block of rows.
    fn score_adjoints(&self, block: &RowBlock, g: &mut [F]) {
        let (at, heads) = (self.attention, self.attention.heads);
        let own = block.entries.start * heads..block.entries.end * heads;
        let operands = ScoreAdjoints {
            ends: [self.back.gy, self.x.v],
            weights: [&self.back.alpha[own.clone()], &self.kept[own]],
            targets: &at.pattern.rows_of()[block.entries.clone()],
            means: self.means,
        };
        at.score_adjoints(block, operands, g);
    }

    /// Both passes for [mirrored](Self::mirrored) edges: writes the adjoint of the rows and returns that of
    /// a. Computes `g`.
    fn both_roles(&self, gv: &mut [F], g: &mut [F]) -> Buffer<F> {
        let (at, v, w) = (self.attention, self.x.v, self.attention.row_len());
        let (p, heads) = (at.pattern, at.heads);
        at.pass(p, [Output::by_entry(g, heads)], |block, [g]| {
            self.score_adjoints(&block, g)
        });
        let g = &*g;
        let parts = at.pass(p, [Output::by_row(gv, w)], |block, [gv]| {
            let (mut kepts, mut gs) = (Vec::new(), Vec::new());
            let kept = &*at.of_columns(&block, self.kept, &mut kepts);
            weighted_sums(&block, heads, kept, self.back.gy, gv, false);
            // Entry k of the transposed pattern is the reverse of entry k.
            let both = at.of_columns(&block, g, &mut gs);
            let own = &g[block.entries.start * heads..];
            let (mut through, mut values) = (vec![F::zero(); w], vec![F::zero(); w]);
            simd(
                #[inline(always)]
                || {
                    accumulate(both, own);
                    // A copy, so that what it captures is in registers.
                    let pull = self.pull;
                    for (row, i) in block.rows.clone().enumerate() {
                        let (others, own) = block.row(i, heads);
                        let (q, t) = (&v[i * w..][..w], self.t.of(i));
                        let step = OfTarget { q, t, pull };
                        let out = [Out::Set(&mut through[..]), Out::Add(&mut values[..])];
                        rows::over_entries(others, &both[own], v, heads, out, &step);
                        scale_by(&mut through, self.a);
                        accumulate(&mut gv[row * w..][..w], &through);
                    }
                },
            );
            values
        });
        let mut ga = self.adjoint_of_a(parts);
        // Each edge was added twice, once for each of its ends.
        ga.iter_mut().for_each(|g| *g *= F::of(0.5));
        ga
    }

    /// The sum of the parts of the adjoint of a; empty without it.
    fn adjoint_of_a(&self, parts: Vec<Vec<F>>) -> Buffer<F> {
        let Some(a) = self.x.a else {
            return Buffer::default();
        };
        let sum = parts.into_iter().reduce(add);
        sum.unwrap_or_else(|| vec![F::zero(); a.len()]).into()
    }

    /// The pass by rows: writes the adjoint of q and returns those of a and of t. Computes `g`, unless it is
    /// `known`.
    fn targets(&self, gq: &mut [F], g: &mut [F], known: Option<&[F]>) -> (Buffer<F>, Buffer<F>) {
        let (p, x, wide) = (self.attention.pattern, &self.x, self.x.width);
        let (k, q) = (x.k.unwrap_or(x.v), x.q.unwrap_or(x.v));
        let (heads, own_w) = (self.attention.heads, self.attention.heads * wide);
        let of_entry = if known.is_some() { 0 } else { heads };
        let parts = self.attention.pass(
            p,
            [Output::by_row(gq, own_w), Output::by_entry(g, of_entry)],
            |block, [gq, g]| {
                let mut space = Vec::new();
                let g = match known {
                    Some(g) => {
                        let entry = &p.transposed().pattern.transposed().entry;
                        &*rows::collect(&entry[block.entries.clone()], g, heads, &mut space)
                    }
                    None => {
                        self.score_adjoints(&block, g);
                        g
                    }
                };
                simd(
                    #[inline(always)]
                    || {
                        // uᵢ of one target, used with a or t; the adjoint of t for the rows of the block.
                        let zeros =
                            |wanted: bool, len: usize| vec![F::zero(); usize::from(wanted) * len];
                        let (has_a, has_t) = (x.a.is_some(), x.t.is_some());
                        let (mut u, mut ga) = (zeros(has_a || has_t, own_w), zeros(has_a, own_w));
                        let mut gt = zeros(has_t, block.rows.len() * heads);
                        // A copy, so that what it captures is in registers.
                        let pull = self.pull;
                        for (row, i) in block.rows.clone().enumerate() {
                            let (sources, own) = block.row(i, heads);
                            let (g, q, t) = (&g[own], &q[i * own_w..][..own_w], self.t.of(i));
                            // A step of its own per loop, so that what it holds is in registers.
                            let step = || OfTarget { q, t, pull };
                            let gq = &mut gq[row * own_w..][..own_w];
                            // Two calls, so that each loop is compiled for its number of sums.
                            if has_a || has_t {
                                let out = [Out::Set(&mut *gq), Out::Set(&mut u)];
                                rows::over_entries(sources, g, k, heads, out, &step());
                            } else {
                                let out = [Out::Set(&mut *gq)];
                                rows::over_entries(sources, g, k, heads, out, &step());
                            }
                            if has_t {
                                dot_heads(wide, self.a, &u, &mut gt[row * heads..][..heads]);
                                scale_heads(wide, &mut u, &t[..heads]);
                            }
                            if has_a {
                                accumulate(&mut ga, &u);
                            }
                            scale_by(gq, self.a);
                        }
                        (ga, gt)
                    },
                )
            },
        );
        let (gas, gts): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        (self.adjoint_of_a(gas), gts.concat().into())
    }

    /// The pass by columns: writes the adjoints of v and of k; where k = v, adds both to `gv`. Computes `g`,
    /// unless it is `known`, or in its place the terms of the adjoint of q.
    fn sources(&self, gv: &mut [F], gk: &mut [F], g: &mut [F], known: Option<&[F]>) {
        let (at, x, heads) = (self.attention, &self.x, self.attention.heads);
        let own_w = heads * x.width;
        let (k, q) = (x.k.unwrap_or(x.v), x.q.unwrap_or(x.v));
        let Backward { alpha, gy, .. } = self.back;
        let p = &at.pattern.transposed().pattern;
        let one_number = known.is_none() && self.one_number();
        let (of_row, of_entry) = match known {
            Some(_) => (0, 0),
            None => (own_w, heads),
        };
        let outputs = [
            Output::by_row(gv, at.row_len()),
            Output::by_row(gk, of_row),
            Output::by_entry(g, of_entry),
        ];
        at.pass(p, outputs, |block, [gv, gk, g]| {
            let (mut alphas, mut kepts, mut gs) = (Vec::new(), Vec::new(), Vec::new());
            let kept = &*at.of_columns(&block, self.kept, &mut kepts);
            weighted_sums(&block, heads, kept, gy, gv, known.is_some());
            let g = match known {
                Some(g) => at.of_columns(&block, g, &mut gs),
                None => {
                    let alpha = match at.dropout.is_none() {
                        true => kept,
                        false => at.of_columns(&block, alpha, &mut alphas),
                    };
                    let operands = ScoreAdjoints {
                        ends: [x.v, gy],
                        weights: [alpha, kept],
                        targets: &p.indices()[block.entries.clone()],
                        means: self.means,
                    };
                    at.score_adjoints(&block, operands, g);
                    g
                }
            };
            let mut through = vec![F::zero(); own_w];
            simd(
                #[inline(always)]
                || {
                    // A copy, so that what it captures is in registers.
                    let pull = self.pull;
                    for (row, j) in block.rows.clone().enumerate() {
                        let (targets, own) = block.row(j, heads);
                        let (g, k) = (&mut g[own], &k[j * own_w..][..own_w]);
                        if one_number {
                            let gk = &mut gk[row * own_w..][..own_w];
                            of_both_ends(targets, g, [k, q], gk, &pull);
                            continue;
                        }
                        let step = OfSource { k, t: self.t, pull };
                        let out = [Out::Set(&mut through)];
                        rows::over_entries(targets, g, q, heads, out, &step);
                        scale_by(&mut through, self.a);
                        match x.k.is_some() {
                            true => gk[row * own_w..][..own_w].copy_from_slice(&through),
                            false => accumulate(&mut gv[row * own_w..][..own_w], &through),
                        }
                    }
                },
            );
        });
    }
}
