//! Functions of one number, applied to every element, and of two.

use crate::autodiff::Var;
use crate::kernels::map;
use crate::real::Real;
use crate::tensor::Tensor;

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
        self.builtin_unary("powf", y, move |p| match k {
            k if k == F::zero() => p.gy().scale(k),
            k if k == one => p.gy(),
            k if k == one + one => (p.gy() * p.x()).scale(k),
            _ => (p.gy() * p.x().powf(k - one)).scale(k),
        })
        .noting(k.as_f64())
    }

    /// y = x²,   x̄ = 2 ȳ x
    pub fn square(self) -> Self {
        self.powf(F::of(2.0))
    }

    /// y = exp x,   x̄ = ȳ y
    pub fn exp(self) -> Self {
        self.builtin_unary("exp", map::unary(&self.value(), F::exp_v), |p| {
            p.gy() * p.y()
        })
    }

    /// y = ln x,   x̄ = ȳ / x
    pub fn ln(self) -> Self {
        self.builtin_unary("ln", map::unary(&self.value(), F::ln_v), |p| p.gy() / p.x())
    }

    /// y = √x,   x̄ = ȳ / 2y
    pub fn sqrt(self) -> Self {
        self.builtin_unary("sqrt", map::unary(&self.value(), F::sqrt), |p| {
            (p.gy() / p.y()).scale(F::of(0.5))
        })
    }

    /// y = |x|,   x̄ = ȳ sign x, and 0 at x = 0
    pub fn abs(self) -> Self {
        self.builtin_unary("abs", map::unary(&self.value(), F::abs), |p| {
            let sign = |x: F| F::of(f64::from(x > F::zero()) - f64::from(x < F::zero()));
            p.gy() * p.tape.constant(map::unary(&p.x().value(), sign))
        })
    }

    /// y = sin x,   x̄ = ȳ cos x
    pub fn sin(self) -> Self {
        self.builtin_unary("sin", map::unary(&self.value(), F::sin), |p| {
            p.gy() * p.x().cos()
        })
    }

    /// y = cos x,   x̄ = −ȳ sin x
    pub fn cos(self) -> Self {
        self.builtin_unary("cos", map::unary(&self.value(), F::cos), |p| {
            -(p.gy() * p.x().sin())
        })
    }

    /// y = tanh x,   x̄ = ȳ (1 − y²)
    pub fn tanh(self) -> Self {
        self.builtin_unary("tanh", map::unary(&self.value(), F::tanh_v), |p| {
            p.gy() * (-p.y().square() + F::one())
        })
    }

    /// y = max(a, b), element by element with broadcasting;   the derivative goes to the larger one, half to
    /// each at a tie
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    #[track_caller]
    pub fn maximum(self, b: Self) -> Self {
        let pick = |a: F, b: F| if a > b || a.is_nan() { a } else { b };
        let y = map::binary("maximum", &self.value(), &b.value(), pick);
        self.builtin_binary(
            "maximum",
            b,
            y,
            |p| (p.gy() * p.tape.constant(larger(p.a(), p.b()))).sum_like(p.a()),
            |p| (p.gy() * p.tape.constant(larger(p.b(), p.a()))).sum_like(p.b()),
        )
    }

    /// y = min(a, b), element by element with broadcasting;   the derivative goes to the smaller one, half to
    /// each at a tie
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    #[track_caller]
    pub fn minimum(self, b: Self) -> Self {
        let pick = |a: F, b: F| if a < b || a.is_nan() { a } else { b };
        let y = map::binary("minimum", &self.value(), &b.value(), pick);
        self.builtin_binary(
            "minimum",
            b,
            y,
            |p| (p.gy() * p.tape.constant(larger(p.b(), p.a()))).sum_like(p.a()),
            |p| (p.gy() * p.tape.constant(larger(p.a(), p.b()))).sum_like(p.b()),
        )
    }

    /// y = x limited to low ≤ y ≤ high,   x̄ = ȳ where low < x < high, else 0
    ///
    /// # Panics
    /// If low > high.
    #[track_caller]
    pub fn clamp(self, low: F, high: F) -> Self {
        assert!(low <= high, "clamp: low {low} is not below high {high}");
        let limited = move |x: F| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        };
        self.builtin_unary("clamp", map::unary(&self.value(), limited), move |p| {
            let inside = move |x: F| F::of(f64::from(low < x && x < high));
            p.gy() * p.tape.constant(map::unary(&p.x().value(), inside))
        })
        .with_note(Limits([low.as_f64(), high.as_f64()]))
    }

    /// y = self where `condition` holds, else `other`, with broadcasting;   ȳ goes to the operand from which
    /// y came
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    #[track_caller]
    pub fn where_(self, condition: &Tensor<bool>, other: Self) -> Self {
        let chosen = condition.mapv(|c| F::of(f64::from(c))).into_shared();
        let rest = chosen.mapv(|c| F::one() - c).into_shared();
        let pick = |c: F, a: F, b: F| if c > F::zero() { a } else { b };
        let y = map::ternary("where_", &chosen, &self.value(), &other.value(), pick);
        let (to_a, to_b) = (chosen, rest);
        self.builtin_binary(
            "where_",
            other,
            y,
            move |p| (p.gy() * p.tape.constant(to_a.clone())).sum_like(p.a()),
            move |p| (p.gy() * p.tape.constant(to_b.clone())).sum_like(p.b()),
        )
    }
}

/// 1 where a > b, ½ where they are equal, 0 elsewhere.
fn larger<F: Real>(a: Var<'_, F>, b: Var<'_, F>) -> Tensor<F> {
    map::binary("larger", &a.value(), &b.value(), |a, b| {
        F::of(0.5 * (f64::from(a > b) + f64::from(a >= b)))
    })
}

/// The note of a clamp: its limits.
pub(crate) struct Limits(pub [f64; 2]);
