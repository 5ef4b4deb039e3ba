//! Reading files whose length and content cannot be trusted.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The content of a file of at most `limit` bytes.
pub(super) fn read_bounded(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut bytes = Vec::new();
    // One byte beyond the limit tells a file that is too long from one that just fits.
    file.take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io(path, e))?;
    if bytes.len() > limit {
        let expected = format!("the end of the file: at most {limit} bytes are read");
        return Err(Error::format(path, limit as u64, expected, "more"));
    }
    Ok(bytes)
}

/// A string from a file as it may stand in a message: short, and without control characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    let head = bytes[..bytes.len().min(40)].escape_ascii();
    let more = if bytes.len() > 40 { "…" } else { "" };
    format!("'{head}{more}'")
}
