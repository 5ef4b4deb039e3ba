//! The parts that the programs share: arguments, progress bars, figures, reports, and the code that runs the
//! tables of papers.

pub mod args;
mod both;
pub mod checksum;
pub mod figures;
mod image;
pub mod interrupt;
pub mod machine;
pub mod memory;
pub mod paper;
pub mod plot;
pub mod progress;
pub mod report;
pub mod sizes;
pub mod texts;
pub mod transformers;

use emmy::train::History;
use emmy::{Error, Result};
use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Prints a line on standard output, in one piece.
///
/// # Errors
/// If the reader of a pipe has ended, as after `| head`, or the output is a file on a full disk.
pub fn say(line: impl Display) -> Result<()> {
    let line = format!("{line}\n");
    let written = std::io::stdout().write_all(line.as_bytes());
    written.map_err(|e| Error::io("standard output", e))
}

/// Prints a line on standard error, in one piece, since processes may share it. Errors of writing are
/// ignored.
pub fn note(line: impl Display) {
    let line = format!("{line}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The reason why a training diverged: its training loss was not finite, which ended it, or the validation
/// loss of its last epoch is not. `None` if it did not diverge.
pub fn diverged(fitted: Result<()>, history: &History) -> Option<String> {
    let infinite = |loss: &f64| !loss.is_finite();
    match (fitted, history.last()) {
        // Ctrl-C ended it.
        (Err(_), _) if interrupt::asked() => None,
        (Err(error), _) => Some(error.to_string()),
        (Ok(()), Some(last)) => (last.metrics.get("val_loss").filter(infinite)).map(|loss| {
            let what = format!("validation loss of epoch {}", last.epoch);
            Error::invalid(what, "a finite number", loss.to_string()).to_string()
        }),
        (Ok(()), None) => None,
    }
}

/// The end of the program: an error is printed on standard error, in one piece, and the exit code
/// shows it. After Ctrl-C the code is 130.
pub fn exit(result: Result<()>) -> ExitCode {
    match result {
        _ if interrupt::asked() => ExitCode::from(interrupt::CODE),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
