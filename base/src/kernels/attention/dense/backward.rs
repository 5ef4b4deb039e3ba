//! The backward pass: the coefficients of a tile are computed again from ℓ.

use super::forward::{LogSums, scores};
use super::tile::{HeadBlocks, Tile, left_of, rows_of};
use super::{Dense, Operands, TILE};
use crate::kernels::gemm::{Left, product};
use crate::kernels::softmax::exponential;
use crate::kernels::{accumulate, dot, par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use std::ops::Range;

/// Tasks that a backward pass is cut into at least, if there are enough queries: enough for eight threads.
const TASKS: usize = 8;

/// The adjoints of the operands, each with the shape of its operand.
#[derive(Debug)]
pub struct DenseAdjoints<F: Real> {
    /// Of q.
    pub q: Buffer<F>,
    /// Of k.
    pub k: Buffer<F>,
    /// Of v.
    pub v: Buffer<F>,
    /// Of β; empty if there is none.
    pub beta: Vec<F>,
    /// Of t; empty if there is none.
    pub t: Vec<F>,
}

/// The results of the forward pass, and their adjoints.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a, F: Real> {
    /// y.
    pub y: &'a [F],
    /// ℓ.
    pub lse: &'a LogSums<F>,
    /// gy.
    pub gy: &'a [F],
    /// gℓ; absent where nothing but y is used.
    pub glse: Option<&'a [F]>,
}

/// The part of a task: some queries of all heads of one group of one item.
struct Part<F: Real> {
    queries: Range<usize>,
    /// Adjoints of q and t of these queries, head by head.
    q: Buffer<F>,
    t: Vec<F>,
    /// The shares of these queries in the adjoints of k, v and β of the group.
    k: Buffer<F>,
    v: Buffer<F>,
    beta: Vec<F>,
}

/// Space for the arrays of one tile, queries × keys each.
struct Space<F: Real> {
    /// s, then the adjoint of q·k.
    s: Buffer<F>,
    /// α, then drop(α).
    p: Buffer<F>,
    /// The adjoint of drop(α), then of α.
    gp: Buffer<F>,
    /// β.
    beta: Vec<F>,
    /// Factors of dropout.
    row: Vec<F>,
}

/// The right factors of the products.
struct Factors<F: Real> {
    q: HeadBlocks<F>,
    k: HeadBlocks<F>,
    /// kᵀ.
    keys: HeadBlocks<F>,
    /// vᵀ.
    values: HeadBlocks<F>,
    gy: HeadBlocks<F>,
}

impl<F: Real> Dense<'_, F> {
    /// The adjoints of all operands.
    #[inline(never)]
    pub fn backward(&self, x: &Operands<'_, F>, out: &Outcome<'_, F>) -> DenseAdjoints<F> {
        let n = self.queries;
        let pairs = self.batch * self.groups;
        let length = n.div_ceil(TASKS.div_ceil(pairs.max(1)));
        let ranges = par::chunks(n, length.next_multiple_of(TILE[0]));
        let tasks: Vec<_> = (0..pairs)
            .flat_map(|bg| ranges.iter().map(move |r| (bg, r.clone())))
            .collect();
        let right = |x, axes, transposed| HeadBlocks::of(x, self.batch, axes, transposed);
        let factors = Factors {
            q: right(x.q, self.query_axes(), false),
            k: right(x.k, self.key_axes(), false),
            keys: right(x.k, self.key_axes(), true),
            values: right(x.v, self.value_axes(), true),
            gy: right(out.gy, self.output_axes(), false),
        };
        let parts = par::map(tasks, 3 * self.work(), |(bg, queries)| {
            self.part(x, &factors, out, bg, queries)
        });
        self.assemble(x, &parts, ranges.len())
    }

    /// The adjoints from their parts; those of one group are added in order.
    fn assemble(&self, x: &Operands<'_, F>, parts: &[Part<F>], each: usize) -> DenseAdjoints<F> {
        let (n, m) = (self.queries, self.keys);
        let [h, g, d, e] = [self.heads, self.groups, self.width, self.value_width];
        let mut all = DenseAdjoints {
            q: memory::scratch(self.batch * n * h * d),
            k: memory::zeros(self.batch * m * g * d),
            v: memory::zeros(self.batch * m * g * e),
            beta: vec![F::zero(); x.beta.map_or(0, <[F]>::len)],
            t: vec![F::zero(); x.t.map_or(0, <[F]>::len)],
        };
        for (k, part) in parts.iter().enumerate() {
            let (item, group) = (k / each / g, k / each % g);
            let rows = part.queries.len();
            for share in 0..h / g {
                let head = group * (h / g) + share;
                for (r, i) in part.queries.clone().enumerate() {
                    let (from, to) = (share * rows + r, (item * n + i) * h + head);
                    all.q[to * d..][..d].copy_from_slice(&part.q[from * d..][..d]);
                    if !part.t.is_empty() {
                        all.t[to] = part.t[from];
                    }
                }
            }
            for j in 0..m {
                let to = (item * m + j) * g + group;
                accumulate(&mut all.k[to * d..][..d], &part.k[j * d..][..d]);
                accumulate(&mut all.v[to * e..][..e], &part.v[j * e..][..e]);
                if !part.beta.is_empty() {
                    all.beta[to] += part.beta[j];
                }
            }
        }
        all
    }

    fn part(
        &self,
        x: &Operands<'_, F>,
        factors: &Factors<F>,
        out: &Outcome<'_, F>,
        bg: usize,
        queries: Range<usize>,
    ) -> Part<F> {
        let (item, group) = (bg / self.groups, bg % self.groups);
        let (m, d, e) = (self.keys, self.width, self.value_width);
        let share = self.heads / self.groups;
        let mut part = Part {
            q: memory::zeros(share * queries.len() * d),
            t: vec![F::zero(); x.t.map_or(0, |_| share * queries.len())],
            k: memory::zeros(m * d),
            v: memory::zeros(m * e),
            beta: vec![F::zero(); x.beta.map_or(0, |_| m)],
            queries,
        };
        let wide = m.min(TILE[1]);
        let most = part.queries.len().min(TILE[0]) * wide;
        let mut space = Space {
            s: memory::scratch(most),
            p: memory::scratch(most),
            gp: memory::scratch(most),
            beta: vec![F::zero(); wide],
            row: vec![F::zero(); wide],
        };
        for s in 0..share {
            let head = group * share + s;
            for rows in par::chunks(part.queries.len(), TILE[0]) {
                let first = part.queries.start;
                let queries = first + rows.start..first + rows.end;
                let at = s * part.queries.len() + rows.start;
                for keys in par::chunks(self.reach(item, &queries), TILE[1]) {
                    let tile = Tile {
                        item,
                        head,
                        queries: queries.clone(),
                        keys,
                    };
                    self.tile(x, factors, out, &tile, &mut space, &mut part, at);
                }
            }
        }
        part
    }

    /// Adds the share of one tile to the adjoints; `at` is the number of its first row in those of q and t.
    #[allow(clippy::too_many_arguments)]
    fn tile(
        &self,
        x: &Operands<'_, F>,
        factors: &Factors<F>,
        out: &Outcome<'_, F>,
        tile: &Tile,
        space: &mut Space<F>,
        part: &mut Part<F>,
        at: usize,
    ) {
        let (item, head) = (tile.item, tile.head);
        let (rows, w) = (tile.queries.len(), tile.keys.len());
        let (group, d, e) = (self.group(head), self.width, self.value_width);
        let Space {
            s,
            p,
            gp,
            beta: space,
            row,
        } = space;
        self.products(x.q, &factors.keys, tile, s);
        let of_y = left_of(out.gy, self.output_axes(), item, head, tile.queries.clone());
        let v = factors.values.get(item, group);
        product(of_y, v, 0..e, tile.keys.clone(), gp, w, false);
        let gy = rows_of(out.gy, self.output_axes(), item, head, tile.queries.clone());
        let y = rows_of(out.y, self.output_axes(), item, head, tile.queries.clone());
        let beta = self.offsets(x, tile, space);
        let drops = !self.dropout.is_none();
        simd(
            #[inline(always)]
            || {
                for r in 0..rows {
                    let i = tile.queries.start + r;
                    let (s, p, gp) = (
                        &mut s[r * w..][..w],
                        &mut p[r * w..][..w],
                        &mut gp[r * w..][..w],
                    );
                    let number = (item * self.heads + head) * self.queries + i;
                    let (lse, rest) = (out.lse.rounded[number], out.lse.rest[number]);
                    if lse == F::neg_infinity() {
                        s.fill(F::zero());
                        p.fill(F::zero());
                        continue;
                    }
                    let factor = self.factor(x, item, head, i);
                    p.copy_from_slice(s);
                    scores(p, beta, factor);
                    self.hide(tile, i, p);
                    p.iter_mut()
                        .for_each(|p| *p = exponential((*p - lse) - rest));
                    let (y, gy) = (y.row(r), gy.row(r));
                    let own = dot(y.to_slice().expect("a row"), gy.to_slice().expect("a row"));
                    let own = own - out.glse.map_or(F::zero(), |g| g[number]);
                    if drops {
                        // gp ← drop'(gp); what the values see of p follows below.
                        self.dropout.apply(gp, self.number(tile, i), &mut row[..w]);
                        gp.copy_from_slice(&row[..w]);
                    }
                    // The adjoint of a score. A key that is the only one has none: the rounding of the
                    // difference must not stand in its place, since later factors may be large.
                    let without_glse = out.glse.is_none();
                    for j in 0..gp.len().min(p.len()) {
                        let g = p[j] * (gp[j] - own);
                        gp[j] = if p[j] == F::one() && without_glse {
                            F::zero()
                        } else {
                            g
                        };
                    }
                    if let Some(t) = part.t.get_mut(at + r) {
                        let mut sum = F::zero();
                        for j in 0..s.len().min(gp.len()) {
                            // A score that the mask hides may be infinite: it has no share.
                            if gp[j] != F::zero() {
                                sum += gp[j] * (s[j] + beta.map_or(F::zero(), |b| b[j]));
                            }
                        }
                        *t += self.scale * sum;
                    }
                    for j in 0..s.len().min(gp.len()) {
                        s[j] = factor * gp[j];
                    }
                    if let Some(beta) = part.beta.get_mut(tile.keys.start..) {
                        accumulate(beta, s);
                    }
                    if drops {
                        self.dropout.apply(p, self.number(tile, i), &mut row[..w]);
                        p.copy_from_slice(&row[..w]);
                    }
                }
            },
        );
        let (keys, queries) = (tile.keys.clone(), tile.queries.clone());
        let (g, p) = (&s[..rows * w], &p[..rows * w]);
        let gv = &mut part.v[keys.start * e..keys.end * e];
        let (q, gy) = (factors.q.get(item, head), factors.gy.get(item, head));
        product(Left::columns(p, w), gy, queries.clone(), 0..e, gv, e, true);
        let gk = &mut part.k[keys.start * d..keys.end * d];
        product(Left::columns(g, w), q, queries, 0..d, gk, d, true);
        let gq = &mut part.q[at * d..(at + rows) * d];
        let k = factors.k.get(item, group);
        product(Left::rows(g, w), k, keys, 0..d, gq, d, true);
    }
}
