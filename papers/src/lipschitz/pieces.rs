//! The linear pieces of x ↦ W₂ σ(W₁ x + b) for σ with two slopes, such as ReLU: a search for inputs where the
//! function is steepest.

use emmy::kernels::gemm::matmul;
use emmy::kernels::random::mix;
use emmy::linalg::{eigh, svd};
use emmy::{Tensor, init};
use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};
use rand::RngExt;
use rayon::prelude::*;

/// The largest size of a number: products of four are finite.
const LARGEST: f64 = 1e60;

/// x ↦ W₂ σ(W₁ x + b), where σ has one slope for negative and one for positive arguments.
///
/// Its Jacobian is W₂ diag(t) W₁, where t has a slope for each neuron. If the rows of W₁ are linearly
/// independent, there is an input for each of the 2ʰ patterns t, and the Lipschitz constant is the largest
/// norm of all of them.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a> {
    /// W₁ `[h, k]`.
    pub first: ArrayView2<'a, f64>,
    /// b `[h]`.
    pub bias: ArrayView1<'a, f64>,
    /// W₂ `[m, h]`.
    pub second: ArrayView2<'a, f64>,
    /// The slopes for negative and for positive arguments: \[0, 1\] for ReLU.
    pub slopes: [f64; 2],
}

impl Pieces<'_> {
    /// Inputs `[1, k]` in pieces where ‖W₂ diag(t) W₁‖₂ is large, at most one per start, the largest first.
    ///
    /// Each start is a random pattern. For a direction u of the output, the search changes the slope of one
    /// neuron, the one that gains most, until none gains. Then u becomes the left singular vector of
    /// W₂ diag(t) W₁, and the search goes on until this gains nothing. The input is the least x for which
    /// W₁ x + b is 1 or −1, as the pattern demands.
    ///
    /// If the rows of W₁ are linearly dependent, there may be no such x. Then x comes near to it (least
    /// squares), and may be in another piece: evaluate the function there. An x at the border of its piece is
    /// left out, because the derivative there is that of no piece. The starts run on several threads; the
    /// result does not depend on their number.
    ///
    /// # Panics
    /// If the shapes do not agree, or a number is not finite or above 1e60 in size.
    pub fn steep_inputs(&self, starts: usize, seed: u64) -> Vec<Tensor<f64>> {
        let (h, m) = (self.first.nrows(), self.second.nrows());
        assert!(
            self.bias.len() == h && self.second.ncols() == h,
            "Pieces: W₁ has {h} rows, b {} entries, W₂ {} columns; they must be equal",
            self.bias.len(),
            self.second.ncols()
        );
        let all = self.first.iter().chain(self.bias).chain(self.second);
        assert!(
            all.chain(&self.slopes).all(|x| x.abs() <= LARGEST),
            "Pieces: a weight, bias or slope is not finite, or above {LARGEST:e} in size"
        );
        if h == 0 || m == 0 || self.first.ncols() == 0 {
            return Vec::new();
        }
        let gram = matmul(self.first, self.first.t());
        let climb = |k| self.climb(&gram, mix(seed, k));
        let mut found: Vec<_> = (0..starts as u64).into_par_iter().map(climb).collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        found.dedup_by(|a, b| a.1 == b.1);
        // The least solution of W₁ x = ±1 − b.
        let (u, s, vt) = svd(self.first);
        let inverse = s.mapv(|x| if x > 1e-9 * s[0] { 1.0 / x } else { 0.0 });
        let realise = |pattern: &[bool]| {
            let signs = pattern.iter().map(|&on| if on { 1.0 } else { -1.0 });
            let z = Array1::from_iter(signs) - self.bias;
            let x = vt.t().dot(&(u.t().dot(&z) * &inverse));
            let inside = self.is_inside(&x);
            inside.then(|| x.insert_axis(Axis(0)).into_dyn().into_shared())
        };
        (found.iter().filter_map(|(_, pattern)| realise(pattern))).collect()
    }

    /// Whether the argument of every neuron that has an effect is further from 0 than rounding.
    fn is_inside(&self, x: &Array1<f64>) -> bool {
        let z = self.first.dot(x) + self.bias;
        let size = x.dot(x).sqrt();
        (0..z.len()).all(|j| {
            let row = self.first.row(j);
            let norm = row.dot(&row).sqrt();
            let constant = norm == 0.0 || self.second.column(j).iter().all(|w| *w == 0.0);
            constant || z[j].abs() > 1e-9 * (norm * size + self.bias[j].abs())
        })
    }

    /// The end of the search from one start: the square of the norm, and the pattern.
    fn climb(&self, gram: &Array2<f64>, seed: u64) -> (f64, Vec<bool>) {
        let rng = &mut init::rng(seed);
        let mut pattern: Vec<bool> = (0..gram.nrows()).map(|_| rng.random()).collect();
        let (mut u, mut best) = (self.direction(gram, &pattern).1, 0.0);
        loop {
            self.flip(gram, &self.second.t().dot(&u), &mut pattern);
            let (square, next) = self.direction(gram, &pattern);
            if square <= best * (1.0 + 1e-12) {
                return (best.max(square), pattern);
            }
            (u, best) = (next, square);
        }
    }

    /// ‖W₂ diag(t) W₁‖₂² and the left singular vector.
    fn direction(&self, gram: &Array2<f64>, pattern: &[bool]) -> (f64, Array1<f64>) {
        let t = self.slopes_of(pattern);
        let scaled = &self.second * &t.view().insert_axis(Axis(0));
        let square = matmul(matmul(scaled.view(), gram.view()).view(), scaled.t());
        // Symmetric but for rounding, which can be large beside a sum that cancels.
        let (values, vectors) = eigh((&square + &square.t()).view());
        let last = values.len() - 1;
        (0.5 * values[last].max(0.0), vectors.column(last).to_owned())
    }

    /// Makes ‖Σ_j t_j w_j W₁[j]‖ larger, one neuron after the other, for the weights w = W₂ᵀ u.
    fn flip(&self, gram: &Array2<f64>, w: &Array1<f64>, pattern: &mut [bool]) {
        let [low, high] = self.slopes;
        let mut t = self.slopes_of(pattern);
        // g = Q t, where Q = diag(w) W₁ W₁ᵀ diag(w): the square of the norm is tᵀ Q t.
        let mut g = gram.dot(&(&t * w)) * w;
        // The size of the terms of a gain. A gain of the size of their rounding errors may be none, and the
        // search would not end.
        let sizes = (0..t.len()).map(|j| gram[[j, j]].sqrt() * w[j].abs());
        let limit = sizes.sum::<f64>().powi(2) * (high - low).abs() * (high.abs() + low.abs());
        loop {
            let gain = |j: usize| {
                let change = low + high - 2.0 * t[j];
                change * (2.0 * g[j] + change * gram[[j, j]] * w[j] * w[j])
            };
            let gains = (0..t.len()).map(|j| (gain(j), j));
            let best = gains.reduce(|a, b| if b.0 > a.0 { b } else { a });
            let Some((_, j)) = best.filter(|best| best.0 > 1e-12 * limit) else {
                return;
            };
            let change = low + high - 2.0 * t[j];
            g.scaled_add(change * w[j], &(&gram.row(j) * w));
            pattern[j] = !pattern[j];
            t[j] = self.slopes[usize::from(pattern[j])];
        }
    }

    fn slopes_of(&self, pattern: &[bool]) -> Array1<f64> {
        pattern
            .iter()
            .map(|&on| self.slopes[usize::from(on)])
            .collect()
    }
}
