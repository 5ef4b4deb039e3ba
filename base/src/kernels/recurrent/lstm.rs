//! Long short-term memory. Letters: see the table of [the parent module](super).

use super::{
    Adjoints, Sequence, before, change, column_sums, gates, gates_mut, part, part_mut, set,
    sigmoid, sigmoid_slope, tanh, tanh_slope,
};
use crate::kernels::simd;
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// The operands of [`Sequence::lstm`].
#[derive(Debug, Clone, Copy)]
pub struct LstmOperands<'a, F> {
    /// x, shape `[T, n, 4h]`; gates i, f, g, o.
    pub x: &'a [F],
    /// W, shape `[4h, h]`.
    pub weight: &'a [F],
    /// b, shape `[4h]`.
    pub bias: &'a [F],
    /// h₀, shape `[n, h]`.
    pub h: &'a [F],
    /// c₀, shape `[n, h]`.
    pub c: &'a [F],
}

/// The results of the forward kernel that the backward one needs.
#[derive(Debug, Clone, PartialEq)]
pub struct LstmSaved<F: Real> {
    /// i, f, g, o in all steps, shape `[T, n, 4h]`.
    gates: Buffer<F>,
    /// c after each step, shape `[T, n, h]`.
    cells: Buffer<F>,
}

impl Sequence {
    /// i, f, o = σ(..) and g = tanh(..) of x + h Wᵀ + b,   c' = f c + i g,   h' = o tanh c'
    ///
    /// Returns y, shape `[T + 1, n, h]`: h after each step, and c after the last.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape, or T = 0.
    #[track_caller]
    #[inline(never)]
    pub fn lstm<F: Real>(&self, args: LstmOperands<F>) -> (Buffer<F>, LstmSaved<F>) {
        let LstmOperands {
            x, weight, bias, ..
        } = args;
        self.check("lstm", 4, [x, weight, bias], &[args.h, args.c]);
        let (state, w) = (self.state(), self.width);
        let multiply = self.products(weight, true);
        let mut product = memory::scratch(4 * state);
        let mut y = memory::scratch((self.steps + 1) * state);
        let mut saved = LstmSaved {
            gates: memory::scratch(self.steps * 4 * state),
            cells: memory::scratch(self.steps * state),
        };
        for t in 0..self.steps {
            let (past, out) = y.split_at_mut(t * state);
            let h = before(past, args.h, t);
            multiply(h, &mut product);
            let (past, cells) = saved.cells.split_at_mut(t * state);
            let c = before(past, args.c, t);
            let x = part(x, t, 4 * state);
            let outputs = [
                (part_mut(&mut saved.gates, t, 4 * state), 4 * w),
                (&mut cells[..state], w),
                (&mut out[..state], w),
            ];
            self.blocks(outputs, |row, out| {
                let added = [&x[row * 4 * w..], &product[row * 4 * w..], bias];
                simd(
                    #[inline(always)]
                    || forward(w, added, &c[row * w..], out),
                );
            });
        }
        let last = part(&saved.cells, self.steps - 1, state);
        part_mut(&mut y, self.steps, state).copy_from_slice(last);
        (y, saved)
    }

    /// The adjoints of the operands of [`Sequence::lstm`], from ȳ.
    ///
    /// It goes back in time with h̄ and c̄. At each step, c̄ ← c̄ + h̄ o (1 − tanh² c'); the adjoints of the
    /// gates follow; c̄ ← c̄ f, and h̄ is the product of the adjoints of the gates with W.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape, or T = 0.
    #[track_caller]
    #[inline(never)]
    pub fn lstm_backward<F: Real>(
        &self,
        args: LstmOperands<F>,
        y: &[F],
        saved: &LstmSaved<F>,
        gy: &[F],
    ) -> Adjoints<F> {
        let LstmOperands {
            x, weight, bias, ..
        } = args;
        self.check("lstm_backward", 4, [x, weight, bias], &[args.h, args.c]);
        let (state, w) = (self.state(), self.width);
        let mut gx = memory::scratch(x.len());
        let mut gh = memory::zeros(state);
        let mut gc = memory::copy(part(gy, self.steps, state));
        let multiply = self.products(weight, false);
        for t in (0..self.steps).rev() {
            let gates = part(&saved.gates, t, 4 * state);
            let states = [
                before(&saved.cells, args.c, t),
                part(&saved.cells, t, state),
                part(gy, t, state),
            ];
            let outputs = [
                (part_mut(&mut gx, t, 4 * state), 4 * w),
                (&mut *gh, w),
                (&mut *gc, w),
            ];
            self.blocks(outputs, |row, out| {
                let (gates, states) = (&gates[row * 4 * w..], states.map(|x| &x[row * w..]));
                simd(
                    #[inline(always)]
                    || backward(w, gates, states, out),
                );
            });
            multiply(part(&gx, t, 4 * state), &mut gh);
        }
        Adjoints {
            weight: self.of_weight(&gx, y, args.h, 4),
            bias: column_sums(&gx, 4 * w),
            x: gx,
            h: gh,
            c: gc,
        }
    }
}

/// One step of some rows. `added` are x, h Wᵀ and b; the outputs are gates, c' and h'.
#[inline(always)]
fn forward<F: Real>(w: usize, added: [&[F]; 3], c: &[F], [out, cells, hidden]: [&mut [F]; 3]) {
    let [bi, bf, bg, bo] = gates(added[2], 0, w);
    for (row, out) in out.chunks_exact_mut(4 * w).enumerate() {
        let [xi, xf, xg, xo] = gates(added[0], row, w);
        let [hi, hf, hg, ho] = gates(added[1], row, w);
        let [i, f, g, o] = gates_mut(out, w);
        set(i, [xi, hi, bi], sigmoid);
        set(f, [xf, hf, bf], sigmoid);
        set(g, [xg, hg, bg], tanh);
        set(o, [xo, ho, bo], sigmoid);
        let (c, cell) = (part(c, row, w), part_mut(cells, row, w));
        set(cell, [f, c, i, g], |[f, c, i, g]| f * c + i * g);
        let h = part_mut(hidden, row, w);
        set(h, [cell], tanh);
        change(h, [o], |t, [o]| o * t);
    }
}

/// One step back of some rows, with the states c, c' and the adjoint of h' from outside. The outputs are the
/// adjoint of the gates; h̄ from the step behind, where only what is added to it is kept; and c̄.
#[inline(always)]
fn backward<F: Real>(
    w: usize,
    saved: &[F],
    [past, cells, gy]: [&[F]; 3],
    [out, gh, gc]: [&mut [F]; 3],
) {
    for (row, out) in out.chunks_exact_mut(4 * w).enumerate() {
        let [i, f, g, o] = gates(saved, row, w);
        let [gi, gf, gg, go] = gates_mut(out, w);
        let (gh, gc) = (part_mut(gh, row, w), part_mut(gc, row, w));
        change(gh, [part(gy, row, w)], |gh, [gy]| gh + gy);
        // tanh c' has a place until the adjoint of o takes it.
        set(go, [part(cells, row, w)], tanh);
        change(gc, [gh, o, go], |gc, [gh, o, t]| {
            gc + gh * o * tanh_slope(t)
        });
        change(go, [gh, o], |t, [gh, o]| gh * t * sigmoid_slope(o));
        set(gi, [gc, g, i], |[gc, g, i]| gc * g * sigmoid_slope(i));
        set(gg, [gc, i, g], |[gc, i, g]| gc * i * tanh_slope(g));
        set(gf, [gc, part(past, row, w), f], |[gc, c, f]| {
            gc * c * sigmoid_slope(f)
        });
        change(gc, [f], |gc, [f]| gc * f);
    }
}
