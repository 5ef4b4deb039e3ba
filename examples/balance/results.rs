//! The file of finished cells: one JSON object per line, added as cells finish.

use super::cell::Cell;
use super::run::Outcome;
use crate::support::note;
use emmy::{Error, Result};
use fs4::fs_std::FileExt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Finished cells, in memory and in a file.
pub struct Results {
    path: PathBuf,
    file: File,
    pub outcomes: Vec<Outcome>,
}

impl Results {
    /// The outcomes in a file, to be read only.
    ///
    /// # Errors
    /// If the file does not exist, cannot be read or is not a regular file, or a line is not an outcome.
    pub fn read(path: &Path) -> Result<Vec<Outcome>> {
        check_kind(path)?;
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
        Ok(parse(path, &bytes)?.0)
    }

    /// Opens a file to add to, and reads its outcomes. An incomplete last line of a killed run is
    /// cut off, with a line on standard error; its cell runs again.
    ///
    /// # Errors
    /// If the file cannot be read or written or is not a regular file, a line is not an outcome, or
    /// another program is adding to it.
    pub fn open(path: &Path) -> Result<Self> {
        check_kind(path)?;
        let io = |e| Error::io(path, e);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        }
        let mut file = (OpenOptions::new().read(true).append(true).create(true))
            .open(path)
            .map_err(io)?;
        if !FileExt::try_lock_exclusive(&file).map_err(io)? {
            return Err(Error::invalid(
                path.display().to_string(),
                "a file that nobody else is adding to",
                "another run of this program",
            ));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let (outcomes, whole) = parse(path, &bytes)?;
        if whole < bytes.len() {
            note(format_args!(
                "{}: the last line is incomplete, its cell will run again",
                path.display()
            ));
            file.set_len(whole as u64).map_err(io)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            outcomes,
        })
    }

    /// Adds an outcome, which is on disk when this function returns.
    ///
    /// # Errors
    /// If the file cannot be written; it is then unchanged.
    pub fn add(&mut self, outcome: Outcome) -> Result<()> {
        let mut line = serde_json::to_string(&outcome).expect("numbers and strings");
        line.push('\n');
        let io = |e| Error::io(&self.path, e);
        let before = self.file.metadata().map_err(io)?.len();
        let written = self.file.write_all(line.as_bytes());
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // An incomplete line would make the next one invalid.
            self.file.set_len(before).map_err(io)?;
            return Err(io(error));
        }
        self.outcomes.push(outcome);
        Ok(())
    }
}

/// The outcome of a cell, if it is finished.
pub fn of<'a>(outcomes: &'a [Outcome], cell: &Cell) -> Option<&'a Outcome> {
    (outcomes.iter()).find(|outcome| cell.is_answered_by(&outcome.cell))
}

/// Refuses a pipe or a device: reading it may never end. A file that is not there yet will be made.
fn check_kind(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            let error = std::io::Error::other("not a regular file");
            Err(Error::io(path, error))
        }
        _ => Ok(()),
    }
}

/// The beginning of every line.
const BEGIN: &[u8] = br#"{"cell":{"dataset":""#;

/// Whether the bytes after the last complete line are the beginning of a line that a killed run left
/// incomplete, not the content of a file of another program. If no complete line comes before, they must
/// contain all of [`BEGIN`].
fn is_cut(tail: &[u8], is_first: bool) -> bool {
    let shorter = BEGIN.starts_with(tail) && !is_first;
    tail.is_empty() || tail.starts_with(BEGIN) || shorter
}

/// The outcomes in a file, and the number of bytes in its complete lines.
///
/// # Errors
/// If a line is not an outcome, or the bytes after the last line are not the beginning of one.
fn parse(path: &Path, bytes: &[u8]) -> Result<(Vec<Outcome>, usize)> {
    let whole = bytes
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |end| end + 1);
    let lines = bytes[..whole].split_inclusive(|&b| b == b'\n').enumerate();
    let outcomes = lines.map(|(k, line)| {
        serde_json::from_slice(line).map_err(|e| {
            Error::invalid(
                format!("{}, line {}", path.display(), k + 1),
                "the outcome of a cell",
                e.to_string(),
            )
        })
    });
    let outcomes: Vec<Outcome> = outcomes.collect::<Result<_>>()?;
    let tail = &bytes[whole..];
    if !is_cut(tail, whole == 0) {
        let head = tail[..tail.len().min(40)].escape_ascii();
        return Err(Error::invalid(
            format!("{}, line {}", path.display(), outcomes.len() + 1),
            "the outcome of a cell, or the beginning of one",
            format!("'{head}'"),
        ));
    }
    Ok((outcomes, whole))
}
