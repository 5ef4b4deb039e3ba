//! Errors: what was wrong, where, and what was expected.
//!
//! Files and user data give a [`Result`]. A contract violated by code (a wrong shape handed to an operation)
//! panics instead, with the operation, the shapes and the rule.
//!
//! Names of files and strings from files may hold anything. In messages their non-printable characters are
//! escaped ([`printable`]), so that a message can neither break its line nor steer a terminal. Of a long text only
//! the beginning is quoted.

use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::path::PathBuf;

mod rules;

pub use rules::Rules;

/// The result of anything that reads files or user data.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why user data, a file or a request was refused. `Debug` prints the sentence that `Display` prints, because that
/// is what a user sees of an error that `main` returns.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("{}: {source}", printable(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The message of the operating system.
        source: std::io::Error,
    },

    /// The content of a file breaks its format.
    #[error(
        "{}: byte {byte}: expected {}, found {}",
        printable(file),
        quoted(expected),
        quoted(found)
    )]
    Format {
        /// The file (for a member of an archive, `archive.npz/member.npy`).
        file: PathBuf,
        /// Offset of the offending byte in that file.
        byte: u64,
        /// The content that the format requires there.
        expected: String,
        /// The content found there.
        found: String,
    },

    /// A data set is in none of the places where it was looked for.
    #[error(
        "{} was not found. Looked in{}{}",
        printable(what),
        places(looked),
        published(address)
    )]
    NotFound {
        /// The data set that was looked for.
        what: String,
        /// Every place that was tried.
        looked: Vec<PathBuf>,
        /// The public address to get it from; empty if none is known.
        address: String,
    },

    /// The tensors of a file are not those of a model.
    #[error("{}: {report}", printable(file))]
    Weights {
        /// The file.
        file: PathBuf,
        /// Which tensors, and why: the report of `store::weights`, which its `Report::of` finds.
        report: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A model has no Lipschitz bound, because an operation has none.
    #[error(
        "Lipschitz bound of {place}: expected an operation with a bound, found `{operation}`: {reason}"
    )]
    Unbounded {
        /// The layer that calls the operation, by its path; on a tape alone, the number of the operation.
        place: String,
        /// The operation.
        operation: &'static str,
        /// Why it has no bound.
        reason: String,
    },

    /// A value breaks a rule: an edge out of range, a size that does not match, a NaN, an unknown name.
    #[error(
        "{}: expected {}, found {}",
        printable(what),
        quoted(expected),
        quoted(found)
    )]
    Invalid {
        /// What the value is, and where it stands.
        what: String,
        /// The rule.
        expected: String,
        /// The value.
        found: String,
    },
}

/// The most characters of a text that a message quotes.
const MOST_QUOTED: usize = 600;

/// A text as it may stand in a message; only the beginning of a long one.
#[doc(hidden)]
pub fn quoted(text: &str) -> String {
    beginning(text, MOST_QUOTED)
}

/// The first characters of a text as they may stand in a message, and how many more there are.
#[doc(hidden)]
pub fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => printable(text),
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{}… ({more} more characters)", printable(&text[..end]))
        }
    }
}

/// The line with an address, if there is one.
fn published(address: &str) -> String {
    match address {
        "" => String::new(),
        address => format!("\nIt is published at {address}"),
    }
}

/// A list with one line per place.
fn places(looked: &[PathBuf]) -> String {
    if looked.is_empty() {
        return " no place: no folder was given, and there is no cache directory".into();
    }
    let line = |place: &PathBuf| format!("\n  {}", printable(place));
    ":".to_owned() + &looked.iter().map(line).collect::<String>()
}

/// A text or the name of a file as it may stand in a message: control characters, invisible characters and
/// marks of direction are escaped as in Rust (`\n`, `\u{1b}`, `\u{202e}`), bytes that are not UTF-8 as
/// `\xff`; all else stays.
///
/// ```
/// use emmy::error::printable;
/// assert_eq!(printable("gat \"été\".ckpt"), "gat \"été\".ckpt");
/// assert_eq!(printable("a\n\u{1b}[2J"), r"a\n\u{1b}[2J");
/// ```
pub fn printable(text: impl AsRef<OsStr>) -> String {
    let mut out = String::new();
    for chunk in text.as_ref().as_encoded_bytes().utf8_chunks() {
        // `escape_debug` escapes these three as well, and they can be read.
        for piece in chunk.valid().split_inclusive(['\'', '"', '\\']) {
            let plain = piece.trim_end_matches(['\'', '"', '\\']);
            out.extend(plain.escape_debug());
            out.push_str(&piece[plain.len()..]);
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}").expect("a string takes what it is given");
        }
    }
    out
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// A value that breaks a rule.
    pub fn invalid(
        what: impl Into<String>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            what: what.into(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// A file whose content breaks its format at `byte`.
    pub fn format(
        file: impl Into<PathBuf>,
        byte: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Format {
            file: file.into(),
            byte,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// An input or output error on `path`.
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Io {
            path: path.into(),
            source,
        }
    }
}
