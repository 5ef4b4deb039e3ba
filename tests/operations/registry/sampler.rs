//! Random operands.

use emmy::sparse::Pattern;
use emmy::tensor::{Tensor, tensor};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;

/// A source of shapes, operands and patterns, the same for the same seed.
pub struct Sampler {
    rng: ChaCha8Rng,
}

impl Sampler {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// A whole number, low ≤ k ≤ high.
    pub fn count(&mut self, low: usize, high: usize) -> usize {
        self.rng.random_range(low..=high)
    }

    /// One of the choices.
    pub fn one_of(&mut self, choices: &[usize]) -> usize {
        choices[self.count(0, choices.len() - 1)]
    }

    /// True or false, equally likely.
    pub fn flag(&mut self) -> bool {
        self.rng.random()
    }

    /// A seed for an operation that takes one.
    pub fn seed(&mut self) -> u64 {
        self.rng.random()
    }

    /// A shape of `ndim` axes with sizes from 0 to 4, rarely 0.
    pub fn shape(&mut self, ndim: usize) -> Vec<usize> {
        let size = |rng: &mut ChaCha8Rng| match rng.random_range(0..20) {
            0 => 0,
            1..4 => 1,
            k => 2 + k % 3,
        };
        (0..ndim).map(|_| size(&mut self.rng)).collect()
    }

    /// A shape of `ndim` axes with sizes from 1 to 4.
    pub fn filled(&mut self, ndim: usize) -> Vec<usize> {
        (0..ndim).map(|_| self.count(1, 4)).collect()
    }

    /// A shape of 0 to 3 axes.
    pub fn any_shape(&mut self) -> Vec<usize> {
        let ndim = self.count(0, 3);
        self.shape(ndim)
    }

    /// `n` shapes that broadcast to each other.
    pub fn broadcastable(&mut self, n: usize) -> Vec<Vec<usize>> {
        let whole = self.any_shape();
        (0..n)
            .map(|_| {
                let skip = if self.count(0, 3) == 0 {
                    self.count(0, whole.len())
                } else {
                    0
                };
                let sizes = whole[skip..].iter();
                sizes
                    .map(|&size| if self.count(0, 3) == 0 { 1 } else { size })
                    .collect()
            })
            .collect()
    }

    /// Uniform in low ≤ x < high.
    pub fn uniform(&mut self, shape: &[usize], low: f64, high: f64) -> Tensor<f64> {
        let len = shape.iter().product();
        let next = || low + (high - low) * self.rng.random::<f64>();
        tensor(shape, std::iter::repeat_with(next).take(len).collect())
    }

    /// Of either sign, with sizes from 0.1 to 2: away from kinks at 0.
    pub fn signed(&mut self, shape: &[usize]) -> Tensor<f64> {
        let size = self.uniform(shape, 0.1, 2.0);
        size.mapv(|x| if self.flag() { x } else { -x })
            .into_shared()
    }

    /// From 0.2 to 2.
    pub fn positive(&mut self, shape: &[usize]) -> Tensor<f64> {
        self.uniform(shape, 0.2, 2.0)
    }

    /// No two elements closer than 0.05, and none closer to 0.
    pub fn distinct(&mut self, shape: &[usize]) -> Tensor<f64> {
        let len: usize = shape.iter().product();
        let mut numbers: Vec<f64> = (0..len)
            .map(|k| {
                0.1 * (k as f64 - (len / 2) as f64 + 0.5) + 0.05 * (self.rng.random::<f64>() - 0.5)
            })
            .collect();
        numbers.shuffle(&mut self.rng);
        tensor(shape, numbers)
    }

    /// An axis of a shape of `ndim` axes, often counted from the end.
    pub fn axis(&mut self, ndim: usize) -> isize {
        let axis = self.count(0, ndim - 1) as isize;
        if self.flag() {
            axis
        } else {
            axis - ndim as isize
        }
    }

    /// Some axes, in any order; the empty list stands for all.
    pub fn axes(&mut self, ndim: usize) -> Vec<isize> {
        let mut axes: Vec<isize> = (0..ndim as isize).collect();
        axes.shuffle(&mut self.rng);
        axes.truncate(self.count(0, ndim));
        axes
    }

    /// A permutation of 0..n.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        order.shuffle(&mut self.rng);
        order
    }

    /// Flags, of which about two thirds hold.
    pub fn mask(&mut self, shape: &[usize]) -> Tensor<bool> {
        let len = shape.iter().product();
        tensor(shape, (0..len).map(|_| self.count(0, 2) > 0).collect())
    }

    /// Classes below `classes`.
    pub fn labels(&mut self, n: usize, classes: usize) -> Vec<usize> {
        (0..n).map(|_| self.count(0, classes - 1)).collect()
    }

    /// A pattern of up to 6 × 6, with empty rows and columns, rarely without any entry.
    pub fn pattern(&mut self) -> Arc<Pattern> {
        let (n, m) = (self.count(1, 6), self.count(1, 6));
        self.pattern_of(n, m)
    }

    fn pattern_of(&mut self, n: usize, m: usize) -> Arc<Pattern> {
        let density = self.count(0, 9);
        let places = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
        let chosen: Vec<_> = places.filter(|_| self.count(0, 9) < density).collect();
        Pattern::from_pairs(n, m, &chosen).unwrap_or_else(|e| panic!("{e}"))
    }
}
