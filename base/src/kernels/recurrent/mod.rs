//! Sequences of steps of LSTM and GRU: all steps in one call, forward and backward.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | T, n, h | | steps, rows, neurons |
//! | x | [T, n, g h] | the part of the g gates that comes from the input, for all steps |
//! | W, b | [g h, h], [g h] | weight and bias of the hidden state |
//! | h₀, c₀ | [n, h] | the state before the first step |
//! | y | | the states after the steps; see each kernel |
//!
//! A step waits for the state before it, so it has a product of its own, h Wᵀ. The gradient of W does not: it
//! is one product over all steps. A product with few rows spends much of its time on bringing Wᵀ into the
//! order in which it is read; so this is done once per sequence.

mod gru;
mod lstm;

pub use gru::GruOperands;
pub use lstm::{LstmOperands, LstmSaved};

use super::gemm::{self, Left, Right};
use super::{par, simd};
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};
use ndarray::{Array2, ArrayView2};

/// Elementary operations per neuron of a step, for the decision whether a fork is worth it.
const COST: usize = 16;

/// Elementary operations in one block of rows. Sums over rows are formed per block, so their last digits
/// depend on it.
const BLOCK: usize = 50_000;

/// The sizes of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// T.
    pub steps: usize,
    /// n.
    pub rows: usize,
    /// h.
    pub width: usize,
}

/// The adjoints of x, W, b, h₀ and, of an LSTM, c₀.
#[derive(Debug, Clone, PartialEq)]
pub struct Adjoints<F: Real> {
    /// Of x.
    pub x: Buffer<F>,
    /// Of W.
    pub weight: Array2<F>,
    /// Of b.
    pub bias: Buffer<F>,
    /// Of h₀.
    pub h: Buffer<F>,
    /// Of c₀; empty for a GRU.
    pub c: Buffer<F>,
}

impl Sequence {
    /// n h, the number of elements of a state.
    fn state(&self) -> usize {
        self.rows * self.width
    }

    /// Panics if there is no step, or x, W, b, or a state of `states` has not as many elements as its shape
    /// for `gates` gates.
    #[track_caller]
    fn check<F>(&self, op: &str, gates: usize, [x, weight, bias]: [&[F]; 3], states: &[&[F]]) {
        let (state, w) = (self.state(), self.width);
        let found = [x.len(), weight.len(), bias.len()];
        let expected = [self.steps * gates * state, gates * w * w, gates * w];
        assert!(
            self.steps > 0 && found == expected && states.iter().all(|s| s.len() == state),
            "{op}: {found:?} elements of input, weight and bias: {self:?} needs {expected:?} \
             and {state} in a state"
        );
    }

    /// Calls `f(first_row, blocks)` on blocks of rows of several outputs, in parallel. An output comes with
    /// the width of its rows.
    fn blocks<F: Real, const N: usize>(
        &self,
        outputs: [(&mut [F], usize); N],
        f: impl Fn(usize, [&mut [F]; N]) + Sync,
    ) {
        let cost = COST * self.width;
        let height = (BLOCK / cost.max(1)).max(1);
        let mut parts = outputs.map(|(out, width)| out.chunks_mut((height * width).max(1)));
        let firsts = if self.width == 0 { 0 } else { self.rows };
        let tasks = (0..firsts).step_by(height).map(|first| {
            let next = parts.each_mut().map(|part| part.next());
            (first, next.map(|part| part.expect("a block per output")))
        });
        par::map(tasks.collect(), self.rows * cost, |(first, parts)| {
            f(first, parts)
        });
    }

    /// The products of a step with W or Wᵀ, which is brought into the order of the microkernels once.
    fn products<'a, F: Real>(
        &self,
        weight: &'a [F],
        transposed: bool,
    ) -> impl Fn(&[F], &mut [F]) + use<'a, F> {
        let weight = matrix(weight, self.width);
        let weight = if transposed {
            weight.reversed_axes()
        } else {
            weight
        };
        let ([k, n], right) = ([weight.nrows(), weight.ncols()], Right::packed(weight));
        move |x, out| gemm::multiply(Left::rows(x, k), &right, k, n, out)
    }

    /// W̄ = Σ_t ḡ_tᵀ h_t, where ḡ is the adjoint of h Wᵀ in all steps and h_t the state before step t: one
    /// product over all steps but the first, and the first.
    fn of_weight<F: Real>(&self, g: &[F], y: &[F], h: &[F], gates: usize) -> Array2<F> {
        let (state, w) = (self.state(), self.width);
        let (first, rest) = g.split_at(gates * state);
        let product = |g, h| gemm::matmul(matrix(g, gates * w).reversed_axes(), matrix(h, w));
        let mut sum = product(first, h);
        if self.steps > 1 {
            sum += &product(rest, &y[..(self.steps - 1) * state]);
        }
        sum
    }
}

/// Part t of x, parts of `len` elements.
#[inline(always)]
fn part<F>(x: &[F], t: usize, len: usize) -> &[F] {
    &x[t * len..][..len]
}

#[inline(always)]
fn part_mut<F>(x: &mut [F], t: usize, len: usize) -> &mut [F] {
    &mut x[t * len..][..len]
}

/// The state before step t, from the states after the steps and the one before the first.
fn before<'a, F>(states: &'a [F], first: &'a [F], t: usize) -> &'a [F] {
    match t.checked_sub(1) {
        Some(t) => part(states, t, first.len()),
        None => first,
    }
}

/// Rows of `width` elements as a matrix.
fn matrix<F>(x: &[F], width: usize) -> ArrayView2<'_, F> {
    let rows = x.len().checked_div(width).unwrap_or(0);
    ArrayView2::from_shape((rows, width), x).expect("whole rows")
}

/// The sums of the columns of rows of `width` elements.
fn column_sums<F: Real>(x: &[F], width: usize) -> Buffer<F> {
    let rows = x.len().checked_div(width).unwrap_or(0);
    let chunk = (BLOCK / width.max(1)).max(1);
    let of_rows = |range: std::ops::Range<usize>| {
        let mut sum = memory::zeros(width);
        let rows = &x[range.start * width..range.end * width];
        simd(
            #[inline(always)]
            || {
                for row in rows.chunks_exact(width) {
                    change(&mut sum, [row], |sum, [x]| sum + x);
                }
            },
        );
        sum
    };
    let both = |mut a: Buffer<F>, b: Buffer<F>| {
        change(&mut a, [&b], |a, [b]| a + b);
        a
    };
    let sum = par::reduce(rows, chunk, width, of_rows, both);
    sum.unwrap_or_else(|| memory::zeros(width))
}

/// out ← f(xs), element by element; each x begins with as many elements as out has.
///
/// There is one output, so that a few comparisons show the compiler that nothing overlaps.
#[inline(always)]
fn set<F: Copy, const N: usize>(out: &mut [F], xs: [&[F]; N], f: impl Fn([F; N]) -> F) {
    change(
        out,
        xs,
        #[inline(always)]
        |_, xs| f(xs),
    );
}

/// out ← f(out, xs), element by element; each x begins with as many elements as out has.
#[inline(always)]
fn change<F: Copy, const N: usize>(out: &mut [F], xs: [&[F]; N], f: impl Fn(F, [F; N]) -> F) {
    let mut xs = xs;
    for k in 0..N {
        xs[k] = &xs[k][..out.len()];
    }
    for j in 0..out.len() {
        let mut at = [out[j]; N];
        for k in 0..N {
            at[k] = xs[k][j];
        }
        out[j] = f(out[j], at);
    }
}

/// The N gates of row `row`, each of `w` neurons.
#[inline(always)]
fn gates<F, const N: usize>(x: &[F], row: usize, w: usize) -> [&[F]; N] {
    let mut gates: [&[F]; N] = [&[]; N];
    for k in 0..N {
        gates[k] = &x[(row * N + k) * w..][..w];
    }
    gates
}

/// The N gates of a row.
#[inline(always)]
fn gates_mut<F, const N: usize>(row: &mut [F], w: usize) -> [&mut [F]; N] {
    let mut parts = row.chunks_exact_mut(w);
    std::array::from_fn(
        #[inline(always)]
        |_| parts.next().expect("as many gates"),
    )
}

/// σ of a sum.
#[inline(always)]
fn sigmoid<F: Real, const N: usize>(terms: [F; N]) -> F {
    sum(terms).sigmoid_v()
}

/// tanh of a sum.
#[inline(always)]
fn tanh<F: Real, const N: usize>(terms: [F; N]) -> F {
    sum(terms).tanh_v()
}

#[inline(always)]
fn sum<F: Real, const N: usize>(terms: [F; N]) -> F {
    let mut sum = terms[0];
    for k in 1..N {
        sum += terms[k];
    }
    sum
}

/// σ' from σ.
#[inline(always)]
fn sigmoid_slope<F: Real>(s: F) -> F {
    s * (F::one() - s)
}

/// tanh' from tanh.
#[inline(always)]
fn tanh_slope<F: Real>(t: F) -> F {
    F::one() - t * t
}
