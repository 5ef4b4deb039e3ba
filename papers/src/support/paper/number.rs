//! Numbers as a paper prints them.

use std::fmt;

/// A printed number: its value, the digits behind its point, and the number behind ±.
///
/// ```
/// use papers::support::paper::Number;
///
/// let number = Number::parse("73.00 ± 3.02").unwrap();
/// assert_eq!((number.mean, number.decimals, number.spread), (73.0, 2, Some(3.02)));
/// assert!(number.is(73.004) && !number.is(73.006));
/// assert!(Number::parse("fails").is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Number {
    pub mean: f64,
    pub decimals: u32,
    pub spread: Option<f64>,
}

impl Number {
    /// The number at the beginning of a text: `82.5 ± 1.2, L=2`, `12.9`. `None` if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.split_once(',').unwrap_or((text, ""));
        let (mean, spread) = match number.split_once('±') {
            Some((mean, spread)) => (mean, Some(spread.trim().parse().ok()?)),
            None => (number, None),
        };
        let mean = mean.trim();
        let behind = mean.split_once('.').map_or(0, |(_, digits)| digits.len());
        Some(Self {
            mean: mean.parse().ok()?,
            decimals: u32::try_from(behind).ok()?,
            spread,
        })
    }

    /// Half a unit of the last digit, and a rounding error of `f64`.
    pub fn half(&self) -> f64 {
        0.5 * self.unit() + 1e-9
    }

    /// A unit of the last digit.
    pub fn unit(&self) -> f64 {
        0.1_f64.powi(self.decimals.cast_signed())
    }

    /// Whether this number is a print of `value`: they differ by half a unit at most.
    pub fn is(&self, value: f64) -> bool {
        (self.mean - value).abs() <= self.half()
    }

    /// Whether two prints can be of one number: they differ by no more than half a unit of both.
    pub fn agrees(&self, other: &Self) -> bool {
        (self.mean - other.mean).abs() <= self.half().max(other.half())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = self.decimals as usize;
        write!(f, "{:.decimals$}", self.mean)?;
        match self.spread {
            Some(spread) => write!(f, " ± {spread:.decimals$}"),
            None => Ok(()),
        }
    }
}
