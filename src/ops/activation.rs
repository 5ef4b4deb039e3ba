//! Activations.

use crate::autodiff::Var;
use crate::kernels::map;
use crate::real::Real;
use crate::tensor::Tensor;

impl<F: Real> Var<'_, F> {
    /// y = 1 / (1 + e⁻ˣ),   x̄ = ȳ y (1 − y)
    pub fn sigmoid(self) -> Self {
        self.builtin_unary("sigmoid", map::unary(&self.value(), F::sigmoid_v), |p| {
            p.gy() * (p.y() - p.y().square())
        })
    }

    /// y = max(x, 0),   x̄ = ȳ where x > 0, else 0
    pub fn relu(self) -> Self {
        self.builtin_unary(
            "relu",
            // With the comparison this way round, NaN stays NaN.
            map::unary(
                &self.value(),
                |x| if x <= F::zero() { F::zero() } else { x },
            ),
            |p| p.gy().gate(p.y().value(), F::zero()),
        )
    }

    /// y = x where x > 0, else slope · x,   x̄ = ȳ or slope · ȳ (at 0 the latter)
    pub fn leaky_relu(self, slope: F) -> Self {
        self.builtin_unary(
            "leaky_relu",
            map::unary(
                &self.value(),
                move |x| if x > F::zero() { x } else { slope * x },
            ),
            move |p| p.gy().gate(p.x().value(), slope),
        )
        .noting(slope.as_f64())
    }

    /// y = x where m > 0, else `below` · x: linear in x, and its own adjoint.   x̄ = ȳ gated alike
    ///
    /// The derivative of the piecewise linear activations.
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
        self.builtin_unary("gate", y, move |p| p.gy().gate(m.clone(), below))
    }

    /// y = x where x > 0, else α (eˣ − 1),   x̄ = ȳ where x > 0, else α eˣ ȳ
    ///
    /// Clevert et al., "ELU", ICLR 2016.
    pub fn elu(self, alpha: F) -> Self {
        let y = map::unary(&self.value(), move |x| {
            if x > F::zero() {
                x
            } else {
                alpha * x.exp_m1_v()
            }
        });
        self.builtin_unary("elu", y, move |p| p.gy().elu_gate(p.x(), alpha))
            .noting(alpha.as_f64())
    }

    /// z = g where x > 0, else α eˣ g: the derivative of ELU.   ḡ = z̄ likewise, x̄ = α eˣ g z̄ where x ≤ 0,
    /// else 0
    ///
    /// From x, not from the value of ELU: y + α would cancel.
    #[track_caller]
    fn elu_gate(self, x: Self, alpha: F) -> Self {
        let derivative = move |g: F, x: F| {
            if x > F::zero() {
                g
            } else {
                alpha * x.exp_v() * g
            }
        };
        let z = map::binary("elu_gate", &self.value(), &x.value(), derivative);
        self.builtin_binary(
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

    /// y = x Φ(x), Φ the distribution function of the standard normal,   x̄ = ȳ (Φ(x) + x φ(x))
    ///
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, in its exact form.
    pub fn gelu(self) -> Self {
        let y = map::unary(
            &self.value(),
            #[inline(always)]
            |x| within(x, F::infinity()) * x.normal_cdf_v(),
        );
        self.builtin_unary("gelu", y, |p| p.gy().gelu_gate(p.x()))
    }

    /// z = g (Φ(x) + x φ(x)), g times the derivative of GELU,   ḡ = z̄ likewise, x̄ = z̄ g (2 − x²) φ(x)
    #[track_caller]
    fn gelu_gate(self, x: Self) -> Self {
        let z = map::binary(
            "gelu_gate",
            &self.value(),
            &x.value(),
            #[inline(always)]
            |g, x| g * (x.normal_cdf_v() + within(x, F::of(FAR)) * x.normal_density_v()),
        );
        self.builtin_binary(
            "gelu_gate",
            x,
            z,
            |p| p.gy().gelu_gate(p.b()),
            |p| {
                let bend = -p.b().square() + F::of(2.0);
                p.gy() * p.a() * bend * p.b().normal_density()
            },
        )
    }

    /// y = Φ(x) = ½ (1 + erf(x/√2)),   x̄ = ȳ φ(x)
    pub fn normal_cdf(self) -> Self {
        let y = map::unary(&self.value(), F::normal_cdf_v);
        self.builtin_unary("normal_cdf", y, |p| p.gy() * p.x().normal_density())
    }

    /// y = φ(x) = e^(−x²/2) / √(2π),   x̄ = −ȳ x y
    fn normal_density(self) -> Self {
        let y = map::unary(&self.value(), F::normal_density_v);
        self.builtin_unary("normal_density", y, |p| -(p.gy() * p.x() * p.y()))
    }

    /// y = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))): GELU's approximation by tanh
    pub fn gelu_tanh(self) -> Self {
        let cube = self * self.square();
        let inner = (self + cube * F::of(0.044_715)) * F::of(std::f64::consts::FRAC_2_PI.sqrt());
        let y = self * (inner.tanh() + F::one()) * F::of(0.5);
        y.with_note(Slopes {
            of: self.id,
            slopes: GELU_TANH_SLOPES,
        })
    }

    /// y = x / (1 + e⁻ˣ), also called swish
    pub fn silu(self) -> Self {
        (self * self.sigmoid()).with_note(Slopes {
            of: self.id,
            slopes: SILU_SLOPES,
        })
    }

    /// y = ln(1 + eˣ), without overflow,   x̄ = ȳ sigmoid(x)
    pub fn softplus(self) -> Self {
        self.builtin_unary(
            "softplus",
            map::unary(&self.value(), |x| {
                x.max(F::zero()) + (-x.abs()).exp_v().ln_1p_v()
            }),
            |p| p.gy() * p.x().sigmoid(),
        )
    }
}

/// The note of an activation that is composed of operations: it acts on each entry of node `of`, and its
/// slope is within these limits.
pub(crate) struct Slopes {
    pub of: usize,
    pub slopes: [f64; 2],
}

/// The smallest and the largest slope of GELU, −0.1289041451 and 1.1289041451, rounded outward.
pub(crate) const GELU_SLOPES: [f64; 2] = [-0.128_904_2, 1.128_904_2];

/// Of its approximation by tanh, rounded outward.
const GELU_TANH_SLOPES: [f64; 2] = [-0.128_994, 1.128_994];

/// Of x sigmoid(x), −0.0998393200 and 1.0998393200, rounded outward.
const SILU_SLOPES: [f64; 2] = [-0.099_839_4, 1.099_839_4];

/// |x| from which Φ(−|x|) and φ(x) are 0 in both types.
const FAR: f64 = 64.0;

/// x limited to −FAR ≤ x ≤ high, so that infinite x do not make ∞ · 0. NaN stays.
#[inline(always)]
fn within<F: Real>(x: F, high: F) -> F {
    let low = -F::of(FAR);
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}
