//! Opening files whose kind cannot be trusted: data, checkpoints, weights.

use crate::error::{Error, Result};
use std::fs::{self, File, Metadata};
use std::path::Path;

/// Opens a regular file, and nothing else: a pipe or a device may keep a reader waiting, or never end.
///
/// # Errors
/// [`Error::Io`] if it is not a regular file or cannot be opened.
pub fn open_regular(path: &Path) -> Result<File> {
    let io = |e| Error::io(path, e);
    let check = |found: Metadata| match found.is_file() {
        true => Ok(()),
        false => Err(io(std::io::Error::other("not a regular file"))),
    };
    // Looked at before it is opened, since opening a pipe waits for a writer, and after, since another file
    // may have come in its place.
    check(fs::metadata(path).map_err(io)?)?;
    let file = File::open(path).map_err(io)?;
    check(file.metadata().map_err(io)?)?;
    Ok(file)
}
