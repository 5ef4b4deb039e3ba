//! The rules of options, each stated in one line.

use super::{Error, Result};

/// The rules that options keep. The field is what the options belong to; a message names it before the option.
/// It is empty for options whose names say enough.
///
/// ```
/// use emmy::{Result, error::Rules};
///
/// fn check(heads: usize, dropout: f64) -> Result<()> {
///     let rules = Rules("attention");
///     rules.sizes(&[("heads", heads)])?;
///     rules.probability("dropout", dropout)?;
///     rules.hold(heads.is_power_of_two(), "heads", "a power of two", heads)
/// }
/// assert!(check(4, 0.5).is_ok());
/// let error = check(4, 1.5).unwrap_err();
/// assert_eq!(error.to_string(), "attention: dropout: expected a probability, 0 to 1, found 1.5");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a>(pub &'a str);

impl Rules<'_> {
    /// A rule in words, and whether the option `name` keeps it.
    ///
    /// # Errors
    /// If it does not; so of all rules.
    pub fn hold(
        &self,
        holds: bool,
        name: &str,
        rule: impl Into<String>,
        found: impl ToString,
    ) -> Result<()> {
        if holds {
            return Ok(());
        }
        let what = match self.0 {
            "" => name.to_owned(),
            of => format!("{of}: {name}"),
        };
        Err(Error::invalid(what, rule, found.to_string()))
    }

    /// Every size is at least 1.
    ///
    /// # Errors
    /// If one is 0.
    pub fn sizes(&self, sizes: &[(&str, usize)]) -> Result<()> {
        let mut all = sizes.iter();
        all.try_for_each(|&(name, size)| self.hold(size > 0, name, "at least 1", size))
    }

    /// 0 ≤ p ≤ 1.
    ///
    /// # Errors
    /// If p is outside, or not a number.
    pub fn probability(&self, name: &str, p: f64) -> Result<()> {
        self.hold((0.0..=1.0).contains(&p), name, "a probability, 0 to 1", p)
    }

    /// x > 0, and finite.
    ///
    /// # Errors
    /// If it is not.
    pub fn above_zero(&self, name: &str, x: f64) -> Result<()> {
        let holds = x > 0.0 && x.is_finite();
        self.hold(holds, name, "a number above 0", x)
    }

    /// x ≥ 0, and finite.
    ///
    /// # Errors
    /// If it is not.
    pub fn from_zero(&self, name: &str, x: f64) -> Result<()> {
        let holds = x >= 0.0 && x.is_finite();
        self.hold(holds, name, "a number, at least 0", x)
    }

    /// x is finite.
    ///
    /// # Errors
    /// If it is not.
    pub fn finite(&self, name: &str, x: f64) -> Result<()> {
        self.hold(x.is_finite(), name, "a finite number", x)
    }
}
