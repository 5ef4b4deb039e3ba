//! The derivatives of functions of one number that are operations of their own.

use crate::autodiff::{Map, Var};
use crate::kernels::map;
use crate::real::Real;
use crate::tensor::Tensor;

impl<F: Real> Var<'_, F> {
    /// y = x where m > 0, else `below` · x: linear in x, and its own adjoint.   x̄ = ȳ gated alike
    ///
    /// The derivative of the piecewise linear activations.
    ///
    /// ```
    /// use emmy::{Tape, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![1.0_f64, 2.0, 3.0]);
    /// let m = tensor(&[3], vec![5.0, -5.0, 0.0]);
    /// assert_eq!(x.gate(m, 0.5).value(), tensor(&[3], vec![1.0, 1.0, 1.5]));
    /// ```
    ///
    /// # Panics
    /// If m does not have the shape of x.
    #[track_caller]
    pub fn gate(self, m: Tensor<F>, below: F) -> Self {
        assert!(
            self.shape() == m.shape(),
            "gate: {:?} is gated by {:?}, the shapes must be equal",
            self.shape(),
            m.shape()
        );
        let gated = move |x: F, m: F| if m > F::zero() { x } else { below * x };
        let y = map::binary("gate", &self.value(), &m, gated);
        let norm = below.as_f64().abs().max(1.0);
        let map = Map::Own {
            name: "gate",
            norms: [norm; 3],
        };
        self.unary(map, y, move |p| p.gy().gate(m.clone(), below))
    }

    /// z = g where x > 0, else α eˣ g: the derivative of ELU.   ḡ = z̄ likewise, x̄ = α eˣ g z̄ where x ≤ 0,
    /// else 0
    ///
    /// From x, not from the value of ELU: y + α would cancel.
    #[track_caller]
    pub(super) fn elu_gate(self, x: Self, alpha: F) -> Self {
        let derivative = move |g: F, x: F| {
            if x > F::zero() {
                g
            } else {
                alpha * x.exp_v() * g
            }
        };
        let z = map::binary("elu_gate", &self.value(), &x.value(), derivative);
        self.binary(
            "elu_gate",
            x,
            z,
            move |p| p.gy().elu_gate(p.b(), alpha),
            move |p| {
                let product = (p.gy() * p.a()).elu_gate(p.b(), alpha);
                product - product.gate(p.b().value(), F::zero())
            },
        )
    }

    /// z = g (Φ(x) + x φ(x)), g times the derivative of GELU,   ḡ = z̄ likewise, x̄ = z̄ g (2 − x²) φ(x)
    #[track_caller]
    pub(super) fn gelu_gate(self, x: Self) -> Self {
        let z = map::binary(
            "gelu_gate",
            &self.value(),
            &x.value(),
            #[inline(always)]
            |g, x| g * (x.normal_cdf_v() + within(x, F::of(FAR)) * x.normal_density_v()),
        );
        self.binary(
            "gelu_gate",
            x,
            z,
            |p| p.gy().gelu_gate(p.b()),
            |p| {
                let x = p.b().clamp(-F::of(FAR), F::of(FAR));
                let bend = -x.square() + F::of(2.0);
                p.gy() * p.a() * bend * x.normal_density()
            },
        )
    }
}

/// |x| from which Φ(−|x|) and φ(x) are 0 in both types.
pub(super) const FAR: f64 = 64.0;

/// x limited to −FAR ≤ x ≤ high, so that infinite x do not make ∞ · 0. NaN stays.
#[inline(always)]
pub(super) fn within<F: Real>(x: F, high: F) -> F {
    let low = -F::of(FAR);
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}
