//! The gated recurrent unit. Letters: see the table of [the parent module](super).

use super::{
    Adjoints, Sequence, before, change, column_sums, gates, gates_mut, part, part_mut, set,
    sigmoid, sigmoid_slope, tanh_slope,
};
use crate::kernels::simd;
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

/// The operands of [`Sequence::gru`].
#[derive(Debug, Clone, Copy)]
pub struct GruOperands<'a, F> {
    /// x, shape `[T, n, 3h]`; gates r, z, n.
    pub x: &'a [F],
    /// W, shape `[3h, h]`.
    pub weight: &'a [F],
    /// b, shape `[3h]`.
    pub bias: &'a [F],
    /// h₀, shape `[n, h]`.
    pub h: &'a [F],
}

impl Sequence {
    /// r, z = σ(x + q) and n = tanh(x + r q) with q = h Wᵀ + b,   h' = (1 − z) n + z h
    ///
    /// Returns y, shape `[T, n, h]`: h after each step; and r, z, n and the q of n, shape `[T, n, 4h]`,
    /// for the backward kernel.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape, or T = 0.
    #[track_caller]
    #[inline(never)]
    pub fn gru<F: Real>(&self, args: GruOperands<F>) -> (Buffer<F>, Buffer<F>) {
        let GruOperands {
            x, weight, bias, ..
        } = args;
        self.check("gru", 3, [x, weight, bias], &[args.h]);
        let (state, w) = (self.state(), self.width);
        let multiply = self.products(weight, true);
        let mut product = memory::scratch(3 * state);
        let mut y = memory::scratch(self.steps * state);
        let mut saved = memory::scratch(self.steps * 4 * state);
        for t in 0..self.steps {
            let (past, out) = y.split_at_mut(t * state);
            let h = before(past, args.h, t);
            multiply(h, &mut product);
            let x = part(x, t, 3 * state);
            let outputs = [
                (part_mut(&mut saved, t, 4 * state), 4 * w),
                (&mut out[..state], w),
            ];
            self.blocks(outputs, |row, out| {
                let added = [&x[row * 3 * w..], &product[row * 3 * w..], bias];
                simd(
                    #[inline(always)]
                    || forward(w, added, &h[row * w..], out),
                );
            });
        }
        (y, saved)
    }

    /// The adjoints of the operands of [`Sequence::gru`], from ȳ.
    ///
    /// It goes back in time with h̄. The state before a step is reached through z, as h̄ z, and through the
    /// gates, as the product of the adjoint of q with W.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape, or T = 0.
    #[track_caller]
    #[inline(never)]
    pub fn gru_backward<F: Real>(
        &self,
        args: GruOperands<F>,
        y: &[F],
        saved: &[F],
        gy: &[F],
    ) -> Adjoints<F> {
        let GruOperands {
            x, weight, bias, ..
        } = args;
        self.check("gru_backward", 3, [x, weight, bias], &[args.h]);
        let (state, w) = (self.state(), self.width);
        let (mut gx, mut gq) = (memory::scratch(x.len()), memory::scratch(x.len()));
        let (mut gh, mut product) = (memory::zeros(state), memory::zeros(state));
        let multiply = self.products(weight, false);
        for t in (0..self.steps).rev() {
            let gates = part(saved, t, 4 * state);
            let states = [before(y, args.h, t), part(gy, t, state), &product];
            let outputs = [
                (part_mut(&mut gx, t, 3 * state), 3 * w),
                (part_mut(&mut gq, t, 3 * state), 3 * w),
                (&mut *gh, w),
            ];
            self.blocks(outputs, |row, out| {
                let (gates, states) = (&gates[row * 4 * w..], states.map(|x| &x[row * w..]));
                simd(
                    #[inline(always)]
                    || backward(w, gates, states, out),
                );
            });
            multiply(part(&gq, t, 3 * state), &mut product);
        }
        change(&mut gh, [&product], |gh, [product]| gh + product);
        Adjoints {
            weight: self.of_weight(&gq, y, args.h, 3),
            bias: column_sums(&gq, 3 * w),
            x: gx,
            h: gh,
            c: Buffer::default(),
        }
    }
}

/// One step of some rows. `added` are x, h Wᵀ and b; the outputs are r, z, n with the q of n, and h'.
#[inline(always)]
fn forward<F: Real>(w: usize, added: [&[F]; 3], h: &[F], [out, hidden]: [&mut [F]; 2]) {
    let [br, bz, bn] = gates(added[2], 0, w);
    for (row, out) in out.chunks_exact_mut(4 * w).enumerate() {
        let [xr, xz, xn] = gates(added[0], row, w);
        let [hr, hz, hn] = gates(added[1], row, w);
        let [r, z, n, q] = gates_mut(out, w);
        set(r, [xr, hr, br], sigmoid);
        set(z, [xz, hz, bz], sigmoid);
        set(q, [hn, bn], |[h, b]| h + b);
        set(
            n,
            [xn, r, q],
            #[inline(always)]
            |[x, r, q]| (x + r * q).tanh_v(),
        );
        let (h, hidden) = (part(h, row, w), part_mut(hidden, row, w));
        set(hidden, [n, z, h], |[n, z, h]| n + z * (h - n));
    }
}

/// One step back of some rows, with the state h and the parts of h̄' from outside and from the product of the
/// step behind. The outputs are the adjoints of x and of q, and the part of h̄ that does not come from a
/// product.
#[inline(always)]
fn backward<F: Real>(
    w: usize,
    saved: &[F],
    [h, gy, product]: [&[F]; 3],
    [gx, gq, gh]: [&mut [F]; 3],
) {
    let rows = gx.chunks_exact_mut(3 * w).zip(gq.chunks_exact_mut(3 * w));
    for (row, (gx, gq)) in rows.enumerate() {
        let [r, z, n, q] = gates(saved, row, w);
        let gh = part_mut(gh, row, w);
        let outside = [part(gy, row, w), part(product, row, w)];
        change(gh, outside, |gh, [gy, product]| gh + gy + product);
        let [gr, gz, gn] = gates_mut(gx, w);
        set(gz, [gh, part(h, row, w), n, z], |[gh, h, n, z]| {
            gh * (h - n) * sigmoid_slope(z)
        });
        set(gn, [gh, z, n], |[gh, z, n]| {
            gh * (F::one() - z) * tanh_slope(n)
        });
        set(gr, [gn, q, r], |[gn, q, r]| gn * q * sigmoid_slope(r));
        let [qr, qz, qn] = gates_mut(gq, w);
        qr.copy_from_slice(gr);
        qz.copy_from_slice(gz);
        set(qn, [gn, r], |[gn, r]| gn * r);
        change(gh, [z], |gh, [z]| gh * z);
    }
}
