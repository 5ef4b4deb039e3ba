//! Ctrl-C: the first one ends a training after its step, the second one the program.

use emmy::{Error, Result};
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// The exit code of a program that Ctrl-C ended, as shells have it: 128 and the number of the signal.
pub const CODE: u8 = 130;

static ASKED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Listens for Ctrl-C from now on.
///
/// # Errors
/// If the operating system refuses.
pub fn listen() -> Result<()> {
    let refused = |e| Error::io("the handler of Ctrl-C", e);
    // In this order the second signal finds what the first has set.
    register_conditional_shutdown(SIGINT, i32::from(CODE), Arc::clone(&ASKED)).map_err(refused)?;
    register(SIGINT, Arc::clone(&ASKED)).map_err(refused)?;
    Ok(())
}

/// Whether Ctrl-C was pressed.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// For observers of trainings.
///
/// # Errors
/// If Ctrl-C was pressed.
pub fn check() -> Result<()> {
    match asked() {
        false => Ok(()),
        true => Err(Error::invalid("the run", "to go on", "Ctrl-C")),
    }
}

/// The command line of this program, for a shell.
pub fn command() -> String {
    joined(std::env::args_os())
}

/// The words of a command line, quoted where a shell needs it.
fn joined(words: impl IntoIterator<Item = OsString>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words = words.into_iter();
    let words = words.map(|word| quoted(word.to_string_lossy().into_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// How a training with or without a checkpoint goes on: with the same command line, from what it has saved.
pub fn goes_on(save: Option<&Path>) -> String {
    let Some(saved) = save else {
        return "nothing was saved; with --save FILE a run can go on".to_owned();
    };
    let mut words = Vec::new();
    let mut all = std::env::args_os();
    while let Some(word) = all.next() {
        let text = word.to_string_lossy();
        // The checkpoint has the weights with which the run began.
        match text.split_once('=').map_or(&*text, |(name, _)| name) {
            "--resume" | "--load" => {
                if !text.contains('=') {
                    all.next();
                }
            }
            _ => words.push(word),
        }
    }
    words.extend(["--resume".into(), saved.into()]);
    format!("it goes on with: {}", joined(words))
}
