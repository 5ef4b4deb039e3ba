//! The file of finished cells: one JSON object a line, added as cells finish.

use super::cell::{Cell, Outcome};
use emmy::{Error, Result};
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
    /// Reads what is there; a last line that a killed run left incomplete is cut off and said so, its cell runs again.
    ///
    /// # Errors
    /// If the file cannot be read or written, or holds a line that is no outcome.
    pub fn open(path: &Path) -> Result<Self> {
        let io = |e| Error::io(path, e);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        }
        let mut file = (OpenOptions::new().read(true).append(true).create(true))
            .open(path)
            .map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let whole = bytes
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |end| end + 1);
        if whole < bytes.len() {
            eprintln!(
                "{}: the last line is incomplete, its cell will run again",
                path.display()
            );
            file.set_len(whole as u64).map_err(io)?;
            bytes.truncate(whole);
        }
        let lines = bytes.split_inclusive(|&b| b == b'\n').enumerate();
        let outcomes = lines.map(|(k, line)| {
            serde_json::from_slice(line).map_err(|e| {
                Error::invalid(
                    format!("{}, line {}", path.display(), k + 1),
                    "the outcome of a cell",
                    e.to_string(),
                )
            })
        });
        let outcomes = outcomes.collect::<Result<_>>()?;
        Ok(Self {
            path: path.to_owned(),
            file,
            outcomes,
        })
    }

    /// The outcome of a cell, if it is finished.
    pub fn of(&self, cell: &Cell) -> Option<&Outcome> {
        (self.outcomes.iter()).find(|outcome| cell.is_answered_by(&outcome.cell))
    }

    /// Adds an outcome; once this returns, it outlives the program.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, outcome: Outcome) -> Result<()> {
        let mut line = serde_json::to_string(&outcome).expect("numbers and strings");
        line.push('\n');
        let io = |e| Error::io(&self.path, e);
        self.file.write_all(line.as_bytes()).map_err(io)?;
        self.file.sync_data().map_err(io)?;
        self.outcomes.push(outcome);
        Ok(())
    }
}
