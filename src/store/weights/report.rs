//! How the tensors of a file compare with those of a model.

use crate::error::{Error, beginning, quoted};
use std::fmt::{self, Display, Formatter};

/// The most lines of each kind in a message.
const LINES: usize = 20;

/// The most characters of a name in a message.
const LETTERS: usize = 120;

/// How the tensors of a file compare with those of a model; names are those of the file, which are PyTorch's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The tensors of the model that the file fits, in the order of the model.
    pub fitting: Vec<String>,
    /// The tensors of the model that are not in the file.
    pub missing: Vec<Missing>,
    /// The tensors in the file that are none of the model's.
    pub unexpected: Vec<Unexpected>,
    /// The tensors of another shape in the file.
    pub misshapen: Vec<Misshapen>,
    /// The tensors whose numbers are no floating-point numbers in the file, and their type there.
    pub mistyped: Vec<(String, String)>,
    /// Two tensors of the file with different numbers, which are one tensor in the model.
    pub differing: Vec<(String, String)>,
    /// Tensors with numbers that are finite in the file and too large for the type of the model, and how
    /// many.
    pub overflowing: Vec<(String, usize)>,
    /// Tensors with infinite numbers or NaN in the file, and how many. This is no reason to refuse them.
    pub not_finite: Vec<(String, usize)>,
    /// The tensors that the model has once and PyTorch twice, which the file has under one of the two names:
    /// the name that is not there, and the one that is.
    pub once: Vec<(String, String)>,
    /// The tensors in the file that every model ignores: counters of batches.
    pub ignored: Vec<String>,
}

/// A tensor of the model that is not in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub key: String,
    /// Its shape in PyTorch.
    pub shape: Vec<usize>,
}

/// A tensor in the file that is none of the model's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexpected {
    /// Its name.
    pub key: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The missing tensor whose name is most alike, if one is.
    pub nearest: Option<String>,
}

/// A tensor of the model that has another shape in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misshapen {
    /// Its name.
    pub key: String,
    /// Its shape in PyTorch, for a model like this one.
    pub expected: Vec<usize>,
    /// Its shape in the file.
    pub found: Vec<usize>,
}

impl Report {
    /// The report in the error of a file whose tensors are not those of the model.
    pub fn of(error: &Error) -> Option<&Self> {
        match error {
            Error::Weights { report, .. } => report.downcast_ref(),
            _ => None,
        }
    }

    /// Whether every tensor of the model is in the file, and no other.
    pub fn fits(&self) -> bool {
        self.missing.is_empty()
            && self.unexpected.is_empty()
            && self.misshapen.is_empty()
            && self.mistyped.is_empty()
            && self.differing.is_empty()
            && self.overflowing.is_empty()
    }
}

impl Report {
    /// What to choose if the file differs from the model by the norm after the last block of a transformer alone.
    fn remedy(&self) -> Option<&'static str> {
        let is_last_norm = |key: &str| {
            let ends = ["weight", "bias"].map(|part| key.strip_suffix(part));
            let field = ends.into_iter().flatten().next();
            field.is_some_and(|field| field == "norm." || field.ends_with(".norm."))
        };
        let missing = self.missing.iter().map(|m| m.key.as_str());
        let unexpected = self.unexpected.iter().map(|u| u.key.as_str());
        let others = self.misshapen.len() + self.mistyped.len() + self.differing.len();
        if others > 0 || !missing.clone().chain(unexpected.clone()).all(is_last_norm) {
            return None;
        }
        match (missing.count(), unexpected.count()) {
            (1.., 0) => Some(
                "If this is a transformer: only pre-norm blocks have a norm after the last of them. The file seems \
                 to be post-norm, PyTorch's default: BlockConfig::post_norm_encoder, post_norm_decoder.",
            ),
            (0, 1..) => Some(
                "If this is a transformer: only pre-norm blocks have a norm after the last of them. The file seems \
                 to be pre-norm: BlockConfig::pre_norm_encoder, pre_norm_decoder.",
            ),
            _ => None,
        }
    }
}

/// The beginning of a name, as it may stand in a message.
fn name(key: &str) -> String {
    beginning(key, LETTERS)
}

/// One line per tensor.
fn lines<T>(
    f: &mut Formatter<'_>,
    kind: &str,
    tensors: &[T],
    line: impl Fn(&T) -> String,
) -> fmt::Result {
    for tensor in tensors.iter().take(LINES) {
        write!(f, "\n  {kind:<11} {}", quoted(&line(tensor)))?;
    }
    match tensors.len().saturating_sub(LINES) {
        0 => Ok(()),
        more => write!(f, "\n  {kind:<11} … and {more} more"),
    }
}

impl std::error::Error for Report {}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fitting = self.fitting.len();
        match self.fits() {
            true => write!(f, "all {fitting} tensors fit the model")?,
            false => write!(
                f,
                "expected the tensors of the model, of which {fitting} fit"
            )?,
        }
        lines(f, "missing", &self.missing, |m| {
            format!("{} {:?}", name(&m.key), m.shape)
        })?;
        lines(f, "unexpected", &self.unexpected, |u| {
            let nearest = u
                .nearest
                .as_ref()
                .map(|key| format!(", is it {}?", name(key)));
            let shape = &u.shape;
            format!("{} {shape:?}{}", name(&u.key), nearest.unwrap_or_default())
        })?;
        lines(f, "shape", &self.misshapen, |m| {
            let (expected, found) = (&m.expected, &m.found);
            format!("{}: expected {expected:?}, found {found:?}", name(&m.key))
        })?;
        lines(f, "type", &self.mistyped, |(key, dtype)| {
            let expected = "expected F64, F32, F16 or BF16";
            format!("{}: {expected}, found {dtype}", name(key))
        })?;
        lines(f, "differing", &self.differing, |(a, b)| {
            let (a, b) = (name(a), name(b));
            format!("{a} and {b}: expected the same numbers, since the model has one tensor")
        })?;
        lines(f, "overflow", &self.overflowing, |(key, count)| {
            format!("{}: {count} numbers are too large for the model", name(key))
        })?;
        lines(f, "not finite", &self.not_finite, |(key, count)| {
            format!("{}: {count} numbers are infinite or NaN", name(key))
        })?;
        lines(f, "once", &self.once, |(key, there)| {
            format!("{}: only under its other name, {}", name(key), name(there))
        })?;
        lines(f, "ignored", &self.ignored, |key| name(key))?;
        match self.remedy() {
            Some(remedy) => write!(f, "\n  {remedy}"),
            None => Ok(()),
        }
    }
}
