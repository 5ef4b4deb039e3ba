//! Networks with one layer of ReLUs, or of another function with two slopes, small enough to try all pieces.

use crate::cases::cases;
use emmy::lipschitz::{Domain, Lp, bound};
use emmy::ndarray::{Array1, Array2, Axis};
use emmy::{Tape, Tensor, Var, init};

/// x ↦ W₂ σ(W₁ x + b), where σ has slope `low` for negative arguments and 1 for positive ones.
pub struct Net {
    pub first: Array2<f64>,
    pub bias: Array1<f64>,
    pub second: Array2<f64>,
    pub low: f64,
}

pub fn matrix(shape: [usize; 2], seed: u64) -> Array2<f64> {
    let x: Tensor<f64> = init::normal(&shape, 1.0, &mut init::rng(seed));
    x.into_owned().into_dimensionality().unwrap()
}

impl Net {
    /// k inputs, h neurons, m outputs.
    pub fn new([k, h, m]: [usize; 3], low: f64, seed: u64) -> Self {
        Self {
            first: matrix([h, k], 4 * seed),
            bias: matrix([1, h], 4 * seed + 1).remove_axis(Axis(0)),
            second: matrix([m, h], 4 * seed + 2),
            low,
        }
    }

    pub fn hidden<'t>(&self, x: Var<'t, f64>) -> Var<'t, f64> {
        let constant = |x: &Array2<f64>| x.clone().into_dyn().into_shared();
        let bias = self.bias.clone().insert_axis(Axis(0));
        x.linear(x.tape().constant(constant(&self.first))) + x.tape().constant(constant(&bias))
    }

    pub fn output<'t>(&self, h: Var<'t, f64>) -> Var<'t, f64> {
        h.linear(
            h.tape()
                .constant(self.second.clone().into_dyn().into_shared()),
        )
    }

    pub fn forward<'t>(&self, x: Var<'t, f64>) -> Var<'t, f64> {
        self.output(self.hidden(x).leaky_relu(self.low))
    }

    pub fn bound(&self, p: Lp) -> f64 {
        let tape = Tape::new();
        let x = tape.var(init::zeros(&[1, self.first.ncols()]));
        let bound = bound(self.forward(x), x, p, Domain::Everywhere).unwrap();
        bound.upper().get()
    }

    /// The largest norm of W₂ diag(t) W₁ over all patterns t.
    pub fn steepest(&self, p: Lp) -> f64 {
        let h = self.first.nrows();
        let norm = |pattern: usize| {
            let on = |j: usize| pattern >> j & 1 == 1;
            let t: Array1<f64> = (0..h).map(|j| if on(j) { 1.0 } else { self.low }).collect();
            let scaled = &self.second * &t.insert_axis(Axis(0));
            p.matrix(scaled.dot(&self.first).view()).get()
        };
        (0..1 << h).map(norm).fold(0.0, f64::max)
    }
}

/// Sizes and lower slopes of the cases: 0 is ReLU, −1 the absolute value.
pub fn nets(count: u64) -> impl Iterator<Item = (usize, Net)> {
    cases(count).map(|seed| {
        let draw = |n: u64, k: u64| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (8 * k)) % n;
        let [k, h, m] = [1 + draw(9, 1), 1 + draw(7, 2), 1 + draw(3, 3)].map(|n| n as usize);
        let low = [0.0, 0.2, -0.1, -1.0][draw(4, 4) as usize];
        (m, Net::new([k, h, m], low, seed))
    })
}
