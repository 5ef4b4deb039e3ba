//! What the examples share: arguments, progress bars, figures, reports. The library needs none of it.

// Each example uses a part of it.
#![allow(dead_code)]

pub mod args;
pub mod figures;
pub mod plot;
pub mod progress;
pub mod report;

use std::process::ExitCode;

/// The end of an example: an error goes to standard error, in one piece, and the exit code says so.
pub fn exit(result: emmy::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
