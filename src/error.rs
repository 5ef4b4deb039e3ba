//! Errors: what was wrong, where, and what was expected.
//!
//! Files and user data give a [`Result`]. A contract violated by code (a wrong shape handed to an operation)
//! panics instead, with the operation, the shapes and the rule.

use std::path::PathBuf;

/// The result of anything that reads files or user data.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why user data, a file or a request was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The message of the operating system.
        source: std::io::Error,
    },

    /// The content of a file breaks its format.
    #[error("{}: byte {byte}: expected {expected}, found {found}", file.display())]
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
        "{what} was not found. Looked in{}\nIt is published at {address}",
        places(looked)
    )]
    NotFound {
        /// The data set that was looked for.
        what: String,
        /// Every place that was tried.
        looked: Vec<PathBuf>,
        /// The public address to get it from.
        address: String,
    },

    /// A value breaks a rule: an edge out of range, a size that does not match, a NaN, an unknown name.
    #[error("{what}: expected {expected}, found {found}")]
    Invalid {
        /// What the value is, and where it stands.
        what: String,
        /// The rule.
        expected: String,
        /// The value.
        found: String,
    },
}

/// A list with one line per place.
fn places(looked: &[PathBuf]) -> String {
    if looked.is_empty() {
        return " no place: no folder was given, and there is no cache directory".into();
    }
    let line = |place: &PathBuf| format!("\n  {}", place.display());
    ":".to_owned() + &looked.iter().map(line).collect::<String>()
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
