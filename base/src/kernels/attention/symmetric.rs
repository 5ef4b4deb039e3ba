//! Attention whose queries are its keys, fused: each pair of rows is compared once, and serves both.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | u | B × n × d | rows that are compared, of B items |
//! | z | B × n × e | rows of which means are taken |
//! | f | | factor of the scores |
//! | a | n | f ‖u_i‖²/2 |
//! | E | n × n | exp(f u_i·u_j − a_i − a_j), which is symmetric and at most 1; never stored |
//! | w | n | exp(a_i − max a) |
//! | D | B × n | Σ_j E_ij w_j |
//! | y, gy | B × n × e | Σ_j P_ij z_j with P_ij = softmax_j(f u_i·u_j) = E_ij w_j / D_i, and its adjoint |
//! | ρ | n | f (gy_i · y_i) / D_i |
//!
//! z̄_j = w_j Σ_i E_ij gy_i / D_i and ū_i = Σ_j T_ij u_j, where both roles of a pair make T symmetric:
//!
//! T_ij = E_ij ((f gy_i/D_i)·(w_j z_j) + (w_i z_i)·(f gy_j/D_j) − ρ_i w_j − w_i ρ_j),
//!
//! one product of rows of 2 e + 2 numbers and E. Tiles below the diagonal are those above, transposed.

use super::dense::TILE;
use crate::kernels::gemm::{CUT, Left, Right, product};
use crate::kernels::softmax::exponential;
use crate::kernels::{accumulate, axpy, dot, par, scale_by, simd};
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::memory::{self, Buffer};
use ndarray::ArrayView2;
use std::ops::Range;

/// Tasks that the pairs of tiles are cut into at least: enough for eight threads.
const TASKS: usize = 8;

/// The sizes and options of an attention whose queries are its keys.
#[derive(Debug, Clone, Copy)]
pub struct Symmetric<'a, F> {
    /// B, the number of items.
    pub batch: usize,
    /// n, the number of rows of an item.
    pub rows: usize,
    /// d, the width of u.
    pub width: usize,
    /// e, the width of z.
    pub value_width: usize,
    /// f, above 0.
    pub scale: F,
    /// n × n and symmetric: rows i and j are not compared where there is an entry (i, j).
    pub except: Option<&'a Pattern>,
}

/// The pairs of tiles of one task, with the number of its item.
type Task = (usize, Vec<[Range<usize>; 2]>);

/// One item: its rows, and the numbers per row that every tile needs.
struct Item<'a, F: Real> {
    u: &'a [F],
    /// uᵀ as a right factor.
    right: Right<'static, F>,
    a: &'a [F],
    w: &'a [F],
    /// w ⊙ z.
    wz: Buffer<F>,
}

/// Sums of rows, from a first row on.
struct Sums<F: Real> {
    first: usize,
    width: usize,
    data: Buffer<F>,
}

impl<F: Real> Sums<F> {
    fn new(first: usize, rows: usize, width: usize) -> Self {
        Self {
            first,
            width,
            data: memory::zeros((rows - first) * width),
        }
    }

    fn rows(&mut self, rows: &Range<usize>) -> &mut [F] {
        let [start, end] = [rows.start, rows.end].map(|r| (r - self.first) * self.width);
        &mut self.data[start..end]
    }

    /// The sums of all parts, in their order; the parts of an item come one after another.
    fn total(parts: &[Self], each: usize, rows: usize, width: usize) -> Buffer<F> {
        let each = each.max(1);
        let mut all = memory::zeros(parts.len() / each * rows * width);
        if rows * width == 0 {
            return all;
        }
        for (item, parts) in all.chunks_mut(rows * width).zip(parts.chunks(each)) {
            par::rows(item, width, width * each, |first, block| {
                let end = first + block.len() / width;
                for part in parts.iter().filter(|part| part.first < end) {
                    let start = first.max(part.first);
                    let from = &part.data[(start - part.first) * width..];
                    let out = &mut block[(start - first) * width..];
                    simd(
                        #[inline(always)]
                        || accumulate(out, from),
                    );
                }
            });
        }
        all
    }
}

impl<F: Real> Symmetric<'_, F> {
    /// a and w of all items; nothing where numbers of this type would not do: where rows differ so much in
    /// size that w vanishes, or rows that may be far apart are all that is compared.
    pub fn weights(&self, u: &[F]) -> Option<[Vec<F>; 2]> {
        let half = self.scale * F::of(0.5);
        let squares = u.chunks_exact(self.width.max(1));
        let mut a: Vec<F> = squares.map(|u| half * dot(u, u)).collect();
        a.resize(self.batch * self.rows, F::zero());
        let mut w = Vec::with_capacity(a.len());
        // eˣ overflows at the end of EXP_RANGE. The exponents may use 0.4 of it, so that products of two
        // weights and of weights with rows stay finite.
        let limit = F::of(0.4) * F::EXP_RANGE[1];
        for a in a.chunks(self.rows.max(1)) {
            let most = a.iter().fold(F::zero(), |m, &a| m.max(a));
            let least = a.iter().fold(most, |m, &a| m.min(a));
            let apart = self.except.map_or(F::zero(), |_| F::of(4.0) * most);
            let finite = a.iter().all(|a| a.is_finite());
            if !finite || most - least + apart > limit {
                return None;
            }
            w.extend(a.iter().map(|&a| (a - most).exp_v()));
        }
        Some([a, w])
    }

    /// y, and D, for which the weights are those of u.
    #[inline(never)]
    pub fn forward(&self, u: &[F], z: &[F], [a, w]: &[Vec<F>; 2]) -> (Buffer<F>, Buffer<F>) {
        let (n, e) = (self.rows, self.value_width);
        let items = self.items(u, z, [a, w]);
        let wz: Vec<_> = items.iter().map(|x| packed(&x.wz, e, false)).collect();
        let (tasks, each) = self.tasks();
        let work = self.work(self.width + 2 * e);
        let parts = par::map(tasks, work, |(item, pairs)| {
            let first = first_row(&pairs);
            let (mut y, mut d) = (Sums::new(first, n, e), Sums::new(first, n, 1));
            let (item, wz) = (&items[item], &wz[item]);
            let mut tile = memory::scratch(TILE[0] * TILE[1]);
            for [i, j] in &pairs {
                self.exponentials(item, i, j, &mut tile);
                let weigh = |rows: &Range<usize>| &item.w[rows.clone()];
                sums(&tile, i != j, [weigh(i), weigh(j)], &mut d, [i, j]);
                both(&tile[..i.len() * j.len()], [i, j], wz, &mut y);
            }
            (y, d)
        });
        let (y, d): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let mut y = Sums::total(&y, each, n, e);
        let d = Sums::total(&d, each, n, 1);
        for (y, &d) in y.chunks_exact_mut(e.max(1)).zip(d.iter()) {
            // A row that is compared with none.
            let share = if d > F::zero() { d.recip() } else { F::zero() };
            y.iter_mut().for_each(|y| *y *= share);
        }
        (y, d)
    }

    /// The adjoints of u and z.
    #[inline(never)]
    pub fn backward(
        &self,
        [u, z]: [&[F]; 2],
        [a, w]: &[Vec<F>; 2],
        [y, d, gy]: [&[F]; 3],
    ) -> [Buffer<F>; 2] {
        let (n, e) = (self.rows, self.value_width);
        let items = self.items(u, z, [a, w]);
        let wide = 2 * e + 2;
        // gy/D, and the rows of the two factors of T/E.
        let mut q = memory::scratch::<F>(gy.len());
        let mut left = memory::scratch::<F>(self.batch * n * wide);
        let mut right = memory::scratch::<F>(self.batch * n * wide);
        for i in 0..self.batch * n {
            let (own, at) = (i * e..(i + 1) * e, i * wide);
            let share = if d[i] > F::zero() {
                d[i].recip()
            } else {
                F::zero()
            };
            let rho = self.scale * share * dot(&gy[own.clone()], &y[own.clone()]);
            let wz = &items[i / n].wz[i % n * e..][..e];
            let (left, right) = (&mut left[at..][..wide], &mut right[at..][..wide]);
            for k in 0..e {
                let g = share * gy[i * e + k];
                q[i * e + k] = g;
                (left[k], right[e + k]) = (self.scale * g, self.scale * g);
                (left[e + k], right[k]) = (wz[k], wz[k]);
            }
            (left[2 * e], left[2 * e + 1]) = (-rho, -w[i]);
            (right[2 * e], right[2 * e + 1]) = (w[i], rho);
        }
        let factors: Vec<_> = (0..self.batch)
            .map(|b| {
                let of = |x: &Buffer<F>, width: usize, transposed: bool| {
                    packed(&x[b * n * width..][..n * width], width, transposed)
                };
                let u = packed(items[b].u, self.width, false);
                (u, of(&q, e, false), of(&right, wide, true))
            })
            .collect();
        let (tasks, each) = self.tasks();
        let work = self.work(3 * self.width + 4 * e);
        let parts = par::map(tasks, work, |(number, pairs)| {
            let first = first_row(&pairs);
            let (mut gu, mut gz) = (Sums::new(first, n, self.width), Sums::new(first, n, e));
            let (item, (u, q, right)) = (&items[number], &factors[number]);
            let left = &left[number * n * wide..][..n * wide];
            let mut tile = memory::scratch(TILE[0] * TILE[1]);
            let mut t = memory::scratch(TILE[0] * TILE[1]);
            for [i, j] in &pairs {
                self.exponentials(item, i, j, &mut tile);
                let size = i.len() * j.len();
                let l = rows_of(left, wide, i);
                product(l, right, 0..wide, j.clone(), &mut t, j.len(), false);
                simd(
                    #[inline(always)]
                    || {
                        scale_by(&mut t[..size], &tile);
                    },
                );
                both(&t[..size], [i, j], u, &mut gu);
                both(&tile[..size], [i, j], q, &mut gz);
            }
            (gu, gz)
        });
        let (gu, gz): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let gu = Sums::total(&gu, each, n, self.width);
        let mut gz = Sums::total(&gz, each, n, e);
        for (gz, &w) in gz.chunks_exact_mut(e.max(1)).zip(w) {
            gz.iter_mut().for_each(|g| *g *= w);
        }
        [gu, gz]
    }

    /// Multiply-adds for so many per pair of rows.
    fn work(&self, each: usize) -> usize {
        let pairs = self.batch * self.rows * self.rows / 2;
        pairs.saturating_mul(each + 8)
    }

    fn items<'a>(&self, u: &'a [F], z: &[F], [a, w]: [&'a [F]; 2]) -> Vec<Item<'a, F>> {
        let (n, d, e) = (self.rows, self.width, self.value_width);
        let item = |b: usize| {
            let w = &w[b * n..][..n];
            let mut wz = memory::copy(&z[b * n * e..][..n * e]);
            for (z, &w) in wz.chunks_exact_mut(e.max(1)).zip(w) {
                z.iter_mut().for_each(|z| *z *= w);
            }
            let u = &u[b * n * d..][..n * d];
            Item {
                u,
                right: packed(u, d, true),
                a: &a[b * n..][..n],
                w,
                wz,
            }
        };
        (0..self.batch).map(item).collect()
    }

    /// The pairs of tiles on and above the diagonal, cut into tasks of one item each, and the number of tasks
    /// per item. They do not depend on the number of threads.
    fn tasks(&self) -> (Vec<Task>, usize) {
        let mut pairs = Vec::new();
        for i in par::chunks(self.rows, TILE[0]) {
            // Of a tile on the diagonal one half is the other: it is cut once more.
            let middle = i
                .end
                .min(i.start + i.len().div_ceil(2).next_multiple_of(CUT));
            let [first, second] = [i.start..middle, middle..i.end];
            pairs.push([first.clone(), first.clone()]);
            if !second.is_empty() {
                pairs.extend([[first, second.clone()], [second.clone(), second]]);
            }
            let beyond = par::chunks(self.rows - i.end, TILE[1]).into_iter();
            pairs.extend(beyond.map(|j| [i.clone(), i.end + j.start..i.end + j.end]));
        }
        let size = pairs
            .len()
            .div_ceil(TASKS.div_ceil(self.batch.max(1)))
            .max(1);
        let each = pairs.len().div_ceil(size);
        let cut = |item| pairs.chunks(size).map(move |part| (item, part.to_vec()));
        ((0..self.batch).flat_map(cut).collect(), each)
    }

    /// E of one pair of tiles.
    fn exponentials(&self, item: &Item<'_, F>, i: &Range<usize>, j: &Range<usize>, tile: &mut [F]) {
        let u = rows_of(item.u, self.width, i);
        let width = 0..self.width;
        product(u, &item.right, width, j.clone(), tile, j.len(), false);
        let (scale, across) = (self.scale, &item.a[j.clone()]);
        simd(
            #[inline(always)]
            || {
                for (r, &a) in item.a[i.clone()].iter().enumerate() {
                    let row = &mut tile[r * across.len()..][..across.len()];
                    for k in 0..across.len() {
                        row[k] = exponential(scale * row[k] - a - across[k]);
                    }
                }
            },
        );
        let Some(except) = self.except else { return };
        for (row, i) in tile.chunks_exact_mut(j.len()).zip(i.clone()) {
            for &k in except.indices_within(i, j) {
                row[k as usize - j.start] = F::zero();
            }
        }
    }
}

/// Adds m x_J to the rows I of `sums` and, off the diagonal, mᵀ x_I to the rows J, for a tile m.
fn both<F: Real>(m: &[F], [i, j]: [&Range<usize>; 2], x: &Right<'_, F>, sums: &mut Sums<F>) {
    let (across, width) = (j.len(), sums.width);
    let own = Left::rows(m, across);
    product(own, x, j.clone(), 0..width, sums.rows(i), width, true);
    if i != j {
        let mirrored = Left::columns(m, across);
        product(mirrored, x, i.clone(), 0..width, sums.rows(j), width, true);
    }
}

/// The first row of some pairs of tiles.
fn first_row(pairs: &[[Range<usize>; 2]]) -> usize {
    let starts = pairs.iter().map(|[i, _]| i.start);
    starts.min().expect("a task has a pair")
}

/// Rows of a matrix of some width.
fn rows_of<'x, F: Real>(x: &'x [F], width: usize, rows: &Range<usize>) -> Left<'x, F> {
    Left::with_gaps(&x[rows.start * width..], rows.len(), width)
}

/// Rows of some width, or their transpose, as a right factor.
fn packed<F: Real>(x: &[F], width: usize, transposed: bool) -> Right<'static, F> {
    let rows = x.len().checked_div(width).unwrap_or(0);
    let x = ArrayView2::from_shape((rows, width), x).expect("whole rows");
    Right::packed(if transposed { x.reversed_axes() } else { x })
}

/// Adds to D the sums of a tile over its columns, weighed, for the rows I, and, if `mirrored`, over its rows
/// for the rows J.
fn sums<F: Real>(
    tile: &[F],
    mirrored: bool,
    [of_i, of_j]: [&[F]; 2],
    d: &mut Sums<F>,
    [i, j]: [&Range<usize>; 2],
) {
    let mut across = vec![F::zero(); j.len()];
    let own = d.rows(i);
    simd(
        #[inline(always)]
        || {
            for (r, d) in own.iter_mut().enumerate() {
                let row = &tile[r * j.len()..][..j.len()];
                *d += dot(row, of_j);
                if mirrored {
                    axpy(of_i[r], row, &mut across);
                }
            }
        },
    );
    if mirrored {
        accumulate(d.rows(j), &across);
    }
}
