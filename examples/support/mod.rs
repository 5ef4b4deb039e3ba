//! What the examples share: arguments, progress bars, figures, reports. The library needs none of it.

// Each example uses a part of it.
#![allow(dead_code)]

pub mod args;
pub mod figures;
pub mod plot;
pub mod progress;
pub mod report;

use emmy::{Error, Result};
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// A line on standard output.
///
/// # Errors
/// If nobody reads it any more, as after `| head`, or it is a file on a full disk.
pub fn say(line: impl Display) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").map_err(|e| Error::io("standard output", e))
}

/// A line on standard error. Where nobody reads it, nothing else is lost.
pub fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The end of an example: an error goes to standard error, in one piece, and the exit code says so.
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
