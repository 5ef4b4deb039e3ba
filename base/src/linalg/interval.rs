//! Numbers that are known from one side: [`Upper`], [`Lower`], and an [`Interval`] of both.

use std::fmt;
use std::ops::{Add, Div, Mul};

/// A number that a quantity does not exceed. Every operation rounds up.
///
/// Upper bounds are of quantities ≥ 0, such as norms and Lipschitz constants; infinity is a bound that states
/// nothing. There is no way from a [`Lower`] to an `Upper`:
///
/// ```compile_fail,E0308
/// use emmy::linalg::{Lower, Upper};
/// let found = Lower::new(1.5);
/// let proven: Upper = found; // error: a difference quotient proves nothing from above
/// ```
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Upper(f64);

impl Upper {
    /// 0.
    pub const ZERO: Self = Self(0.0);
    /// 1.
    pub const ONE: Self = Self(1.0);
    /// No bound.
    pub const INFINITE: Self = Self(f64::INFINITY);

    /// An upper bound that the caller has proven: exact, or rounded up already.
    ///
    /// # Panics
    /// If it is negative or not a number.
    #[track_caller]
    pub fn new(value: f64) -> Self {
        assert!(
            value >= 0.0,
            "Upper: {value} bounds no quantity that is at least 0"
        );
        Self(value)
    }

    /// An upper bound that comes from a computation with a relative error of at most `error`.
    ///
    /// # Panics
    /// If the value is negative or not a number, or the error is not within 0 ≤ error < 1.
    #[track_caller]
    pub fn rounded(value: f64, error: f64) -> Self {
        assert!(
            (0.0..1.0).contains(&error),
            "Upper: the relative error {error} is not within 0 ≤ error < 1"
        );
        Self::new(value) * Self(up(1.0 + error))
    }

    /// The bound.
    pub fn get(self) -> f64 {
        self.0
    }

    /// Whether the bound is finite; an infinite one excludes nothing.
    pub fn is_finite(self) -> bool {
        self.0.is_finite()
    }

    /// The larger of two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// The smaller of two bounds of the same quantity.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }

    /// √ of the bound.
    #[must_use]
    pub fn sqrt(self) -> Self {
        Self(up(self.0.sqrt()))
    }

    /// The square of the bound.
    #[must_use]
    pub fn square(self) -> Self {
        self * self
    }
}

impl Add for Upper {
    type Output = Self;

    /// An exact zero stays exact.
    fn add(self, b: Self) -> Self {
        match (self.0, b.0) {
            (0.0, _) => b,
            (_, 0.0) => self,
            (a, b) => Self(up(a + b)),
        }
    }
}

impl Mul for Upper {
    type Output = Self;

    /// 0 · ∞ is 0: a quantity that is 0 stays so, however often it is taken. A factor of 1 is exact.
    fn mul(self, b: Self) -> Self {
        match (self.0, b.0) {
            (0.0, _) | (_, 0.0) => Self::ZERO,
            (1.0, _) => b,
            (_, 1.0) => self,
            (a, b) => Self(up(a * b)),
        }
    }
}

impl Div<Lower> for Upper {
    type Output = Self;

    /// a / b, for a quantity that is at most a and one that is at least b; no bound if b is 0.
    fn div(self, b: Lower) -> Self {
        match (self.0, b.0) {
            (0.0, _) => Self::ZERO,
            (_, 0.0) => Self::INFINITE,
            (_, 1.0) => self,
            (a, b) => Self(up(a / b)),
        }
    }
}

impl std::iter::Sum for Upper {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::ZERO, |sum, term| sum + term)
    }
}

impl std::iter::Product for Upper {
    fn product<I: Iterator<Item = Self>>(factors: I) -> Self {
        factors.fold(Self::ONE, |product, factor| product * factor)
    }
}

impl fmt::Display for Upper {
    /// `≤ 1.2346`: with a precision, the last digit is rounded up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "≤ {}", decimal(self.0, f.precision().unwrap_or(4), true))
    }
}

/// A number that a quantity does not fall below: of a Lipschitz constant, a difference quotient or the norm
/// of a Jacobian at some point. What computes one rounds it down ([`Lower::rounded`]).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Lower(f64);

impl Lower {
    /// 0, which states nothing of a quantity that is at least 0.
    pub const ZERO: Self = Self(0.0);

    /// A lower bound that was found.
    ///
    /// # Panics
    /// If it is negative or not a number.
    #[track_caller]
    pub fn new(value: f64) -> Self {
        assert!(
            value >= 0.0,
            "Lower: {value} says nothing of a quantity that is at least 0"
        );
        Self(value)
    }

    /// A lower bound that comes from a computation with a relative error of at most `error`, rounded down; 0
    /// if the error is 1 or more.
    ///
    /// # Panics
    /// If the value is negative or not a number, or the error is not at least 0.
    #[track_caller]
    pub fn rounded(value: f64, error: f64) -> Self {
        assert!(
            error >= 0.0,
            "Lower: the relative error {error} is not at least 0"
        );
        let share = (1.0 - error).next_down().max(0.0);
        Self::new((Self::new(value).0 * share).next_down().max(0.0))
    }

    /// The bound.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The larger of two bounds of the same quantity.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

impl fmt::Display for Lower {
    /// `≥ 1.2345`: with a precision, the last digit is rounded down.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "≥ {}",
            decimal(self.0, f.precision().unwrap_or(4), false)
        )
    }
}

/// A quantity between a bound that is proven and one that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Found: the quantity is at least this.
    pub lower: Lower,
    /// Proven: the quantity is at most this.
    pub upper: Upper,
}

impl Interval {
    /// upper / lower, at least 1 if both bounds are right; infinite if the lower bound is 0.
    pub fn ratio(&self) -> f64 {
        match self.lower.0 {
            0.0 => f64::INFINITY,
            lower => self.upper.0 / lower,
        }
    }

    /// Whether the lower bound exceeds the upper one by more than the relative error `error` of a computation
    /// in floating point: then one of them is wrong.
    pub fn is_contradicted(&self, error: f64) -> bool {
        self.lower.0 > self.upper.0 * (1.0 + error)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(4);
        let lower = decimal(self.lower.0, digits, false);
        let upper = decimal(self.upper.0, digits, true);
        write!(f, "[{lower}, {upper}]")
    }
}

/// The next number above, for a result of one operation that is rounded to nearest.
fn up(x: f64) -> f64 {
    x.next_up()
}

/// x in `digits` decimals, rounded up or down; from a million on with a power of ten, as 2.9738e17.
fn decimal(x: f64, digits: usize, upwards: bool) -> String {
    if !x.is_finite() {
        return "∞".to_owned();
    }
    let power = match x.abs() < 1e6 {
        true => None,
        false => Some(x.abs().log10().floor()),
    };
    let write = |x: f64| match power {
        None => format!("{x:.digits$}"),
        Some(_) => format!("{x:.digits$e}"),
    };
    let text = write(x);
    let Ok(shown) = text.parse::<f64>() else {
        return text;
    };
    let step = 10f64.powf(power.unwrap_or(0.0) - digits as f64);
    match (upwards, shown < x, shown > x) {
        (true, true, _) => write(shown + step),
        // The decimals are above the largest number.
        (false, _, true) if shown.is_infinite() => write(x - step),
        (false, _, true) => write((shown - step).max(0.0)),
        _ => text,
    }
}
