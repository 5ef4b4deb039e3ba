//! The table of functions of one number: value, derivative, degree of homogeneity, slopes and size side by
//! side.
//!
//! A new function is one method here, one entry in the registry of the tests and one in
//! `tests/operations/facts.rs`. Laws, Lipschitz bounds and initialisation read its [`Function`]; these tests
//! and `kinds.rs` beside them compare it with numbers. An activation also has a variant in
//! [`Activation`](super::Activation).

use super::gates::{FAR, within};
use crate::autodiff::{Function, Var, about, checkpoint, kink};
use crate::kernels::map;
use crate::real::Real;
use std::f64::consts::{FRAC_2_PI, SQRT_2, TAU};

/// A function of which nothing but its name is known so far.
const fn named(name: &'static str) -> Function {
    Function::named(name)
}

impl<F: Real> Var<'_, F> {
    /// y = xᵏ,   x̄ = k ȳ xᵏ⁻¹
    pub fn powf(self, k: F) -> Self {
        let one = F::one();
        let x = self.value();
        let y = match k {
            k if k == one + one => map::unary(&x, move |x| x * x),
            k if k == -one => map::unary(&x, F::recip),
            _ => map::unary(&x, move |x| x.powf(k)),
        };
        let function = Function {
            parameters: [k.as_f64(); 2],
            degree: Some(k.as_f64()),
            power: Some(k.as_f64()),
            slopes: match k {
                k if k == F::zero() => [0.0; 2],
                k if k == one => [1.0; 2],
                _ => [f64::NEG_INFINITY, f64::INFINITY],
            },
            slope: |f, x| {
                let k = f.parameters[0];
                about(k * x.powf(k - 1.0))
            },
            turns: Some(&[0.0]),
            range: match k {
                k if k == F::zero() => [1.0; 2],
                k if k == one + one => [0.0, f64::INFINITY],
                _ => [f64::NEG_INFINITY, f64::INFINITY],
            },
            growth: (k == one).then_some(1.0),
            roundings: (k == one + one || k == -one).then_some(1),
            ..named(if k == one + one { "square" } else { "powf" })
        };
        self.unary(function, y, move |p| match k {
            k if k == F::zero() => p.gy().scale(k),
            k if k == one => p.gy(),
            k if k == one + one => (p.gy() * p.x()).scale(k),
            _ => (p.gy() * p.x().powf(k - one)).scale(k),
        })
    }

    /// y = x²,   x̄ = 2 ȳ x
    pub fn square(self) -> Self {
        self.powf(F::of(2.0))
    }

    /// y = exp x,   x̄ = ȳ y
    pub fn exp(self) -> Self {
        let function = Function {
            slopes: [0.0, f64::INFINITY],
            slope: |_, x| about(x.exp()),
            turns: Some(&[]),
            range: [0.0, f64::INFINITY],
            ..named("exp")
        };
        self.unary(function, map::unary(&self.value(), F::exp_v), |p| {
            p.gy() * p.y()
        })
    }

    /// y = ln x,   x̄ = ȳ / x
    pub fn ln(self) -> Self {
        let function = Function {
            slopes: [0.0, f64::INFINITY],
            slope: |_, x| about(x.recip()),
            // Where its domain ends.
            turns: Some(&[0.0]),
            ..named("ln")
        };
        self.unary(function, map::unary(&self.value(), F::ln_v), |p| {
            p.gy() / p.x()
        })
    }

    /// y = √x,   x̄ = ȳ / 2y
    pub fn sqrt(self) -> Self {
        let function = square_root("sqrt");
        self.unary(function, map::unary(&self.value(), F::sqrt), |p| {
            (p.gy() / p.y()).scale(F::of(0.5))
        })
    }

    /// y = √x,   x̄ = ȳ / 2y, and 0 where y = 0: the convention for norms, where √ alone would give an
    /// infinity
    #[doc(hidden)]
    pub fn sqrt_or_zero(self) -> Self {
        let function = square_root("sqrt_or_zero");
        self.unary(function, map::unary(&self.value(), F::sqrt), |p| {
            (p.gy() * p.y().recip_or_zero()).scale(F::of(0.5))
        })
    }

    /// y = 1/x, and 0 where x = 0,   x̄ = −ȳ y²
    #[doc(hidden)]
    pub fn recip_or_zero(self) -> Self {
        let recip = |x: F| if x == F::zero() { x } else { x.recip() };
        let function = Function {
            degree: Some(-1.0),
            slope: |_, x| about(-(x * x).recip()),
            // Where it jumps, and its slope is not known.
            turns: Some(&[0.0]),
            roundings: Some(1),
            ..named("recip_or_zero")
        };
        self.unary(function, map::unary(&self.value(), recip), |p| {
            -(p.gy() * p.y().square())
        })
    }

    /// y = |x|,   x̄ = ȳ sign x, and 0 at x = 0
    pub fn abs(self) -> Self {
        let function = Function {
            roundings: Some(0),
            ..Function::bent("abs", -1.0, 1.0)
        };
        self.unary(function, map::unary(&self.value(), F::abs), |p| {
            let sign = |x: F| F::of(f64::from(x > F::zero()) - f64::from(x < F::zero()));
            p.gy() * p.tape().constant(map::unary(&p.x().value(), sign))
        })
    }

    /// y = sin x,   x̄ = ȳ cos x
    pub fn sin(self) -> Self {
        let function = Function {
            slopes: [-1.0, 1.0],
            slope: |_, x| about(x.cos()),
            range: [-1.0, 1.0],
            ..named("sin")
        };
        self.unary(function, map::unary(&self.value(), F::sin), |p| {
            p.gy() * p.x().cos()
        })
    }

    /// y = cos x,   x̄ = −ȳ sin x
    pub fn cos(self) -> Self {
        let function = Function {
            slopes: [-1.0, 1.0],
            slope: |_, x| about(-x.sin()),
            range: [-1.0, 1.0],
            ..named("cos")
        };
        self.unary(function, map::unary(&self.value(), F::cos), |p| {
            -(p.gy() * p.x().sin())
        })
    }

    /// y = tanh x,   x̄ = ȳ (1 − y²)
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad};
    /// let tape = Tape::new();
    /// let x = tape.scalar(0.0_f64);
    /// // All three rise through 0 or ½; their slopes there are 1, ¼ and ½.
    /// for (y, value, slope) in [(x.tanh(), 0.0, 1.0), (x.sigmoid(), 0.5, 0.25), (x.gelu(), 0.0, 0.5)] {
    ///     assert!((y.item() - value).abs() < 1e-12);
    ///     assert!((grad(y, &[x])[0].first().unwrap() - slope).abs() < 1e-12);
    /// }
    /// ```
    pub fn tanh(self) -> Self {
        let function = Function {
            slopes: [0.0, 1.0],
            slope: |_, x| about(x.cosh().powi(2).recip()),
            turns: Some(&[0.0]),
            range: [-1.0, 1.0],
            negative_slope: Some(0.0),
            ..named("tanh")
        };
        self.unary(function, map::unary(&self.value(), F::tanh_v), |p| {
            p.gy() * (-p.y().square() + F::one())
        })
    }

    /// y = 1 / (1 + e⁻ˣ),   x̄ = ȳ y (1 − y)
    pub fn sigmoid(self) -> Self {
        let function = Function {
            slopes: [0.0, 0.25],
            slope: |_, x| about(sigmoid(x) * sigmoid(-x)),
            turns: Some(&[0.0]),
            range: [0.0, 1.0],
            negative_slope: Some(0.0),
            ..named("sigmoid")
        };
        self.unary(function, map::unary(&self.value(), F::sigmoid_v), |p| {
            p.gy() * (p.y() - p.y().square())
        })
    }

    /// y = max(x, 0),   x̄ = ȳ where x > 0, else 0
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![-1.0_f64, 0.0, 2.0]);
    /// assert_eq!(x.relu().value(), tensor(&[3], vec![0.0, 0.0, 2.0]));
    /// assert_eq!(grad(x.relu().sum_all(), &[x])[0], tensor(&[3], vec![0.0, 0.0, 1.0]));
    /// assert_eq!(x.leaky_relu(0.5).value(), tensor(&[3], vec![-0.5, 0.0, 2.0]));
    /// ```
    pub fn relu(self) -> Self {
        let function = Function {
            roundings: Some(0),
            negative_slope: Some(0.0),
            ..Function::bent("relu", 0.0, 1.0)
        };
        // With the comparison this way round, NaN stays NaN.
        let limited = |x: F| if x <= F::zero() { F::zero() } else { x };
        self.unary(function, map::unary(&self.value(), limited), |p| {
            p.gy().gate(p.y().value(), F::zero())
        })
    }

    /// y = x where x > 0, else slope · x,   x̄ = ȳ or slope · ȳ (at 0 the latter)
    pub fn leaky_relu(self, slope: F) -> Self {
        let below = slope.as_f64();
        let function = Function {
            roundings: Some(1),
            negative_slope: Some(below),
            ..Function::bent("leaky_relu", below, 1.0)
        };
        let bent = move |x: F| if x > F::zero() { x } else { slope * x };
        self.unary(function, map::unary(&self.value(), bent), move |p| {
            p.gy().gate(p.x().value(), slope)
        })
    }

    /// y = x where x > 0, else α (eˣ − 1),   x̄ = ȳ where x > 0, else α eˣ ȳ
    ///
    /// Clevert et al., "ELU", ICLR 2016.
    pub fn elu(self, alpha: F) -> Self {
        let a = alpha.as_f64();
        let function = Function {
            parameters: [a; 2],
            slopes: [a.min(0.0), a.max(1.0)],
            slope: |f, x| match x < 0.0 {
                true => about(f.parameters[0] * x.exp()),
                false => kink(x, [f.parameters[0], 1.0]),
            },
            turns: Some(&[0.0]),
            growth: Some(a.abs().max(1.0)),
            negative_slope: Some(0.0),
            ..named("elu")
        };
        let y = map::unary(&self.value(), move |x| {
            if x > F::zero() {
                x
            } else {
                alpha * x.exp_m1_v()
            }
        });
        self.unary(function, y, move |p| p.gy().elu_gate(p.x(), alpha))
    }

    /// y = x Φ(x), Φ the distribution function of the standard normal,   x̄ = ȳ (Φ(x) + x φ(x))
    ///
    /// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, in its exact form.
    pub fn gelu(self) -> Self {
        let function = Function {
            // −0.1289041451 and 1.1289041451 at ∓√2.
            slopes: [-0.128_904_2, 1.128_904_2],
            slope: |_, x| about(distribution(x) + x * density(x)),
            // Its derivative is (2 − x²) φ(x).
            turns: Some(&[-SQRT_2, SQRT_2]),
            growth: Some(1.0),
            negative_slope: Some(0.0),
            ..named("gelu")
        };
        let y = map::unary(
            &self.value(),
            #[inline(always)]
            |x| within(x, F::infinity()) * x.normal_cdf_v(),
        );
        self.unary(function, y, |p| p.gy().gelu_gate(p.x()))
    }

    /// y = ½ x (1 + tanh(√(2/π) (x + 0.044715 x³))): GELU's approximation by tanh
    pub fn gelu_tanh(self) -> Self {
        let function = Function {
            // −0.1289937 and 1.1289937.
            slopes: [-0.128_994, 1.128_994],
            slope: |_, x| {
                let root = FRAC_2_PI.sqrt();
                let t = (root * (x + 0.044_715 * x.powi(3))).tanh();
                let inner = root * (1.0 + 3.0 * 0.044_715 * x * x);
                about(0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner)
            },
            growth: Some(1.0),
            negative_slope: Some(0.0),
            ..named("gelu_tanh")
        };
        checkpoint(function, &[self], |x| {
            // The tanh is ±1 far before the cube overflows.
            let far = F::of(FAR);
            let near = x[0].clamp(-far, far);
            let cube = near * near.square();
            let inner = (near + cube * F::of(0.044_715)) * F::of(FRAC_2_PI.sqrt());
            x[0].clamp(-far, F::infinity()) * (inner.tanh() + F::one()) * F::of(0.5)
        })
    }

    /// y = x / (1 + e⁻ˣ), also called swish
    pub fn silu(self) -> Self {
        let function = Function {
            // −0.0998393200 and 1.0998393200.
            slopes: [-0.099_839_4, 1.099_839_4],
            slope: |_, x| {
                let s = sigmoid(x);
                about(s + x * s * sigmoid(-x))
            },
            // Its derivative has the sign of 2 − x tanh(x/2).
            turns: Some(&[-2.399_357_280_515_467, 2.399_357_280_515_467]),
            growth: Some(1.0),
            negative_slope: Some(0.0),
            ..named("silu")
        };
        checkpoint(function, &[self], |x| x[0] * x[0].sigmoid())
    }

    /// y = x tanh(ln(1 + eˣ))
    ///
    /// Misra, "Mish", BMVC 2020.
    pub fn mish(self) -> Self {
        let function = Function {
            // −0.1125261224 and 1.0884981613.
            slopes: [-0.112_526_2, 1.088_498_2],
            slope: |_, x| {
                let t = (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh();
                about(t + x * (1.0 - t * t) * sigmoid(x))
            },
            growth: Some(1.0),
            negative_slope: Some(0.0),
            ..named("mish")
        };
        checkpoint(function, &[self], |x| x[0] * x[0].softplus().tanh())
    }

    /// y = ln(1 + eˣ), without overflow,   x̄ = ȳ sigmoid(x)
    pub fn softplus(self) -> Self {
        let function = Function {
            slopes: [0.0, 1.0],
            slope: |_, x| about(sigmoid(x)),
            turns: Some(&[]),
            negative_slope: Some(0.0),
            range: [0.0, f64::INFINITY],
            ..named("softplus")
        };
        let y = map::unary(&self.value(), |x| {
            x.max(F::zero()) + (-x.abs()).exp_v().ln_1p_v()
        });
        self.unary(function, y, |p| p.gy() * p.x().sigmoid())
    }

    /// y = x limited to low ≤ y ≤ high,   x̄ = ȳ where low < x < high, else 0
    ///
    /// # Panics
    /// If low > high.
    #[track_caller]
    pub fn clamp(self, low: F, high: F) -> Self {
        let function = limits("clamp", low.as_f64(), high.as_f64());
        self.limited(function, low, high)
    }

    /// y = x limited to −1 ≤ y ≤ 1,   x̄ = ȳ where −1 < x < 1, else 0
    ///
    /// Collobert, "Large Scale Machine Learning", 2004.
    pub fn hardtanh(self) -> Self {
        let function = Function {
            negative_slope: Some(0.0),
            ..limits("hardtanh", -1.0, 1.0)
        };
        self.limited(function, -F::one(), F::one())
    }

    #[track_caller]
    fn limited(self, function: Function, low: F, high: F) -> Self {
        let name = function.name;
        assert!(low <= high, "{name}: low {low} is not below high {high}");
        let limited = move |x: F| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        };
        self.unary(function, map::unary(&self.value(), limited), move |p| {
            let inside = move |x: F| F::of(f64::from(low < x && x < high));
            p.gy() * p.tape().constant(map::unary(&p.x().value(), inside))
        })
    }

    /// y = Φ(x) = ½ (1 + erf(x/√2)),   x̄ = ȳ φ(x)
    pub fn normal_cdf(self) -> Self {
        let function = Function {
            slopes: [0.0, 0.398_942_3],
            slope: |_, x| about(density(x)),
            turns: Some(&[0.0]),
            range: [0.0, 1.0],
            negative_slope: Some(0.0),
            ..named("normal_cdf")
        };
        self.unary(function, map::unary(&self.value(), F::normal_cdf_v), |p| {
            p.gy() * p.x().normal_density()
        })
    }

    /// y = φ(x) = e^(−x²/2) / √(2π),   x̄ = −ȳ x y
    pub(super) fn normal_density(self) -> Self {
        let function = Function {
            // ∓φ(1) = ∓0.2419707.
            slopes: [-0.241_970_8, 0.241_970_8],
            slope: |_, x| about(-x * density(x)),
            turns: Some(&[-1.0, 1.0]),
            range: [0.0, 0.398_942_3],
            ..named("normal_density")
        };
        let y = map::unary(&self.value(), F::normal_density_v);
        self.unary(function, y, |p| -(p.gy() * p.x() * p.y()))
    }
}

/// √x, which both functions of this value share.
fn square_root(name: &'static str) -> Function {
    Function {
        degree: Some(0.5),
        power: Some(0.5),
        slopes: [0.0, f64::INFINITY],
        slope: |_, x| about(0.5 / x.sqrt()),
        // Where its domain ends.
        turns: Some(&[0.0]),
        range: [0.0, f64::INFINITY],
        roundings: Some(1),
        ..named(name)
    }
}

/// x between two limits.
fn limits(name: &'static str, low: f64, high: f64) -> Function {
    Function {
        parameters: [low, high],
        slopes: [0.0, 1.0],
        slope: |f, x| match (x, f.parameters) {
            (x, _) if x.is_nan() => [f64::NAN; 2],
            (x, [low, high]) if low < x && x < high => [1.0; 2],
            (x, [low, high]) if x < low || x > high || low == high => [0.0; 2],
            _ => [0.0, 1.0],
        },
        range: [low, high],
        roundings: Some(0),
        ..named(name)
    }
}

/// Φ(x).
fn distribution<F: Real>(x: F) -> F {
    x.normal_cdf_v()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// φ(x).
fn density(x: f64) -> f64 {
    (-0.5 * x * x).exp() / TAU.sqrt()
}
