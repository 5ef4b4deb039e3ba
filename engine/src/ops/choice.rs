//! Entry by entry one of two tensors.

use crate::autodiff::{Choice, Kind, Var};
use crate::kernels::map;
use crate::real::Real;
use crate::tensor::Tensor;

impl<F: Real> Var<'_, F> {
    /// y = max(a, b), element by element with broadcasting;   the derivative goes to the larger one, half to
    /// each at a tie
    ///
    /// ```
    /// use emmy::{Tape, autodiff::grad, tensor::tensor};
    /// let tape = Tape::new();
    /// let a = tape.var(vec![1.0_f64, 5.0, 3.0]);
    /// let b = tape.var(vec![4.0, 2.0, 3.0]);
    /// let y = a.maximum(b);
    /// assert_eq!(y.value(), tensor(&[3], vec![4.0, 5.0, 3.0]));
    /// assert_eq!(grad(y.sum_all(), &[a])[0], tensor(&[3], vec![0.0, 1.0, 0.5]));
    /// ```
    ///
    /// # Panics
    /// If the shapes do not broadcast.
    #[track_caller]
    pub fn maximum(self, b: Self) -> Self {
        let pick = |a: F, b: F| if a > b || a.is_nan() { a } else { b };
        let y = map::binary("maximum", &self.value(), &b.value(), pick);
        self.binary(
            Kind::Choice(Choice::Maximum),
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
        self.binary(
            Kind::Choice(Choice::Minimum),
            b,
            y,
            |p| (p.gy() * p.tape.constant(larger(p.b(), p.a()))).sum_like(p.a()),
            |p| (p.gy() * p.tape.constant(larger(p.a(), p.b()))).sum_like(p.b()),
        )
    }

    /// y = self where `condition` holds, else `other`, with broadcasting;   ȳ goes to the operand from which
    /// y came
    ///
    /// ```
    /// use emmy::{Tape, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(vec![1.0_f64, 2.0, 3.0]);
    /// let odd = tensor(&[3], vec![true, false, true]);
    /// assert_eq!(x.where_(&odd, -x).value(), tensor(&[3], vec![1.0, -2.0, 3.0]));
    /// ```
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
        self.binary(
            Kind::Choice(Choice::Where),
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
