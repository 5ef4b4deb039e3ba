//! The file of finished cells of one process: one JSON object per line, added as cells finish.

use super::cell::{Cell, Finished, Runs};
use super::merge::{Conflict, merge};
use crate::support::note;
use emmy::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The lines of one file.
pub struct Lines<C: Cell> {
    pub path: PathBuf,
    pub runs: Vec<Finished<C>>,
}

impl<C: Cell> Lines<C> {
    /// The runs in a file, which is only read. An incomplete last line is left out, with a line on standard
    /// error.
    ///
    /// # Errors
    /// If the file does not exist, cannot be read or is not a regular file, or a line is not a finished cell.
    pub fn read(path: &Path) -> Result<Self> {
        check_kind(path)?;
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
        let (runs, whole) = parse(path, &bytes)?;
        if whole < bytes.len() {
            let path = path.display();
            note(format_args!(
                "{path}: the last line is incomplete and left out"
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            runs,
        })
    }
}

/// Finished cells, in memory and in a file that no other process adds to.
pub struct Results<C: Cell> {
    path: PathBuf,
    file: File,
    /// All known finished cells, including those of other files.
    pub runs: Runs<C>,
}

impl<C: Cell> Results<C> {
    /// Opens a file for adding cells, and reads its runs and those of other files. An incomplete last line of
    /// a killed run is removed, with a line on standard error; its cell runs again.
    ///
    /// # Errors
    /// If a file cannot be read or written or is not a regular file, a line is not a finished cell, files
    /// contradict each other, or another process is adding to this file.
    pub fn open(path: &Path, others: &[PathBuf], conflict: Conflict) -> Result<Self> {
        check_kind(path)?;
        let io = |e| Error::io(path, e);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        }
        let mut file = (OpenOptions::new().read(true).append(true).create(true))
            .open(path)
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid(
                    path.display().to_string(),
                    "a file that nobody else is adding to",
                    "another run of this program",
                ));
            }
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let (runs, whole) = parse(path, &bytes)?;
        if whole < bytes.len() {
            note(format_args!(
                "{}: the last line is incomplete, its cell will run again",
                path.display()
            ));
            file.set_len(whole as u64).map_err(io)?;
        }
        let own = Lines {
            path: path.to_owned(),
            runs,
        };
        let mut all = vec![own];
        for other in others.iter().filter(|other| *other != path) {
            all.push(Lines::read(other)?);
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            runs: merge(all, conflict)?,
        })
    }

    /// Adds a finished cell, which is on disk when this function returns.
    ///
    /// # Errors
    /// If the file cannot be written; it is then unchanged.
    pub fn add(&mut self, finished: Finished<C>) -> Result<()> {
        let mut line = serde_json::to_string(&finished).expect("numbers and strings");
        line.push('\n');
        let io = |e| Error::io(&self.path, e);
        let before = self.file.metadata().map_err(io)?.len();
        let written = self.file.write_all(line.as_bytes());
        if let Err(error) = written.and_then(|()| self.file.sync_data()) {
            // An incomplete line would make the next one invalid.
            self.file.set_len(before).map_err(io)?;
            return Err(io(error));
        }
        self.runs.0.push(finished);
        Ok(())
    }
}

/// Refuses a pipe or a device, since reading it may never end. A file that does not exist yet will be
/// created.
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
const BEGIN: &[u8] = br#"{"cell":{""#;

/// Whether the bytes after the last complete line are the beginning of a line that a killed run left
/// incomplete, not the content of a file of another program. If no complete line comes before, they must
/// contain all of [`BEGIN`].
fn is_cut(tail: &[u8], is_first: bool) -> bool {
    let shorter = BEGIN.starts_with(tail) && !is_first;
    tail.is_empty() || tail.starts_with(BEGIN) || shorter
}

/// The runs in a file, and the number of bytes in its complete lines.
///
/// # Errors
/// If a line is not a finished cell, or the bytes after the last line are not the beginning of one.
fn parse<C: Cell>(path: &Path, bytes: &[u8]) -> Result<(Vec<Finished<C>>, usize)> {
    let whole = bytes
        .iter()
        .rposition(|&b| b == b'\n')
        .map_or(0, |end| end + 1);
    let lines = bytes[..whole].split_inclusive(|&b| b == b'\n').enumerate();
    let runs = lines.map(|(k, line)| {
        serde_json::from_slice(line).map_err(|e| {
            Error::invalid(
                format!("{}, line {}", path.display(), k + 1),
                "a finished cell of this program",
                e.to_string(),
            )
        })
    });
    let runs: Vec<Finished<C>> = runs.collect::<Result<_>>()?;
    let tail = &bytes[whole..];
    if !is_cut(tail, whole == 0) {
        let head = tail[..tail.len().min(40)].escape_ascii();
        return Err(Error::invalid(
            format!("{}, line {}", path.display(), runs.len() + 1),
            "a finished cell of this program, or the beginning of one",
            format!("'{head}'"),
        ));
    }
    Ok((runs, whole))
}
