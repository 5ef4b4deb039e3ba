//! A function of one number, as a reader of the tape sees it.

/// What is known of a function f of one number.
///
/// The functions of this crate are the table `ops/functions.rs`: each of them stands there with its value,
/// its derivative and these facts. A user's own operation gives them to [`Var::unary`](crate::Var::unary),
/// which then has laws and Lipschitz bounds:
///
/// ```
/// use emmy::autodiff::{Function, check_grads, check_kind};
/// use emmy::lipschitz::{Domain, Lp, Upper, bound};
/// use emmy::{Real, Tape, Var, kernels::map, tensor::tensor};
///
/// /// y = arctan x,   x̄ = ȳ / (1 + x²)
/// fn arctan<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
///     let function = Function {
///         slopes: [0.0, 1.0],
///         ..Function::named("arctan")
///     };
///     x.unary(function, map::unary(&x.value(), |x: F| x.atan()), |p| {
///         p.gy() / p.x().square().add_scalar(F::one())
///     })
/// }
///
/// let x = tensor(&[3], vec![0.3_f64, -4.0, 1.0]);
/// check_grads(|x| arctan(x[0]), &[x.clone()])?;
/// check_kind(|x| arctan(x[0]), &[x.clone()])?;
/// let tape = Tape::new();
/// let x = tape.var(x);
/// assert_eq!(bound(arctan(x), x, Lp::Two, Domain::Everywhere)?.upper(), Upper::ONE);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The name, for messages and counts.
    pub name: &'static str,
    /// The numbers it was given: the slope of a LeakyReLU, the exponent of a power, the limits of a clamp.
    pub parameters: [f64; 2],
    /// k if f(λ x) = λᵏ f(x) for all λ > 0 and all x.
    pub degree: Option<f64>,
    /// k if f(x) = xᵏ.
    pub power: Option<f64>,
    /// The smallest and the largest slope, rounded outward; infinite where there is none.
    pub slopes: [f64; 2],
    /// The slopes at an argument x: the derivative with its rounding error, or at a kink the two one-sided
    /// slopes. The first operand is the function itself, for its parameters. NaN where it is not known.
    pub slope: fn(&Self, f64) -> [f64; 2],
    /// The arguments between which the slope is monotone, if they are known: then the slopes on an interval
    /// are those at its ends and at the arguments of this list that it contains.
    pub turns: Option<&'static [f64]>,
    /// The smallest and the largest value, rounded outward; infinite where there is none.
    pub range: [f64; 2],
    /// c if |f(x)| ≤ c |x| for all x.
    pub growth: Option<f64>,
    /// k if the computed value differs from f(x), for the computed argument x, by at most k roundings: by
    /// k u |y| and k times the least normal number, u half the distance from 1 to the next number. 0 if it is
    /// exact; none if the error is not known.
    pub roundings: Option<u32>,
    /// The slope that initialisation assumes for negative arguments (He et al. 2015, Eq. (15)), if the
    /// function is an activation: that of a LeakyReLU, 0 for all others.
    pub negative_slope: Option<f64>,
}

/// The relative error of a slope that is computed, and an absolute one where its terms cancel.
const ACCURACY: [f64; 2] = [1e-12, 1e-15];

impl Function {
    /// A function of which nothing is known but its name.
    pub const fn named(name: &'static str) -> Self {
        Self {
            name,
            parameters: [f64::NAN; 2],
            degree: None,
            power: None,
            slopes: [f64::NEG_INFINITY, f64::INFINITY],
            slope: |_, _| [f64::NAN; 2],
            turns: None,
            range: [f64::NEG_INFINITY, f64::INFINITY],
            growth: None,
            roundings: None,
            negative_slope: None,
        }
    }

    /// The function with the kink at 0 that x ↦ `below` x, `above` x has: ReLU, LeakyReLU, |x|.
    pub fn bent(name: &'static str, below: f64, above: f64) -> Self {
        Self {
            parameters: [below, above],
            degree: Some(1.0),
            slopes: [below.min(above), below.max(above)],
            slope: |f, x| kink(x, f.parameters),
            turns: Some(&[0.0]),
            range: [
                if below > 0.0 || above < 0.0 {
                    f64::NEG_INFINITY
                } else {
                    0.0
                },
                if below < 0.0 || above > 0.0 {
                    f64::INFINITY
                } else {
                    0.0
                },
            ],
            growth: Some(below.abs().max(above.abs())),
            ..Self::named(name)
        }
    }

    /// The smallest and the largest slope for arguments from `low` to `high`, rounded outward.
    pub fn slopes_on(&self, low: f64, high: f64) -> [f64; 2] {
        let Some(turns) = self.turns else {
            return self.slopes;
        };
        let inside = turns.iter().copied().filter(|&x| low < x && x < high);
        let [mut least, mut most] = [f64::INFINITY, f64::NEG_INFINITY];
        for x in [low, high].into_iter().chain(inside) {
            let [low, high] = self.slope_at(x);
            if low.is_nan() || high.is_nan() {
                return self.slopes;
            }
            (least, most) = (least.min(low), most.max(high));
        }
        [least.max(self.slopes[0]), most.min(self.slopes[1])]
    }

    /// The slopes at an argument.
    pub fn slope_at(&self, x: f64) -> [f64; 2] {
        (self.slope)(self, x)
    }

    /// The largest size of a slope, anywhere.
    pub fn steepest(&self) -> f64 {
        self.slopes[0].abs().max(self.slopes[1].abs())
    }
}

/// The slope of a function that is `below` x for x < 0 and `above` x for x > 0; both at 0.
pub fn kink(x: f64, [below, above]: [f64; 2]) -> [f64; 2] {
    match x {
        x if x.is_nan() => [f64::NAN; 2],
        x if x > 0.0 => [above; 2],
        x if x < 0.0 => [below; 2],
        _ => [below.min(above), below.max(above)],
    }
}

/// The slope with its rounding error.
pub fn about(slope: f64) -> [f64; 2] {
    let error = ACCURACY[0] * slope.abs() + ACCURACY[1];
    [slope - error, slope + error]
}
