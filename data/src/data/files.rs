//! Reading files whose kind, length and content cannot be trusted, and the largest sizes that a data file may
//! declare.
//!
//! A network has numbers for each node, each feature, each edge, each class, and each pair of a node and a
//! class. A few kilobytes of a compressed file can declare sizes for which training would ask for more memory
//! than there is. So each size has a limit, well above the published sets; within all of them, training a
//! network with 64 channels in `f32` stays below 2 GB (`tests/data/memory.rs`).

use crate::error::{Error, Result, printable};
use crate::files::open_regular;
use flate2::read::GzDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The largest number of nodes. The largest published set has 19 717.
pub(super) const MAX_NODES: usize = 1 << 16;

/// The largest number of features of a node. The published sets have up to 3703.
pub(super) const MAX_FEATURES: usize = 1 << 16;

/// The largest number of classes. The published sets have up to 7.
pub(super) const MAX_CLASSES: usize = 1 << 8;

/// The largest number of edges, each counted once. The largest published set has 198 493.
pub(super) const MAX_EDGES: usize = 1 << 20;

/// The first bytes of a gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The content of a regular file of at most `limit` bytes.
pub(super) fn read_bounded(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let file = open_regular(path)?;
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

/// The content of a regular file, decompressed if it begins like gzip; at most `limit` bytes, before and
/// after.
pub(super) fn read_unpacked(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let bytes = read_bounded(path, limit)?;
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut inside = Vec::new();
    GzDecoder::new(&bytes[..])
        .take(limit as u64 + 1)
        .read_to_end(&mut inside)
        .map_err(|e| Error::format(path, 0, "a whole gzip file", e.to_string()))?;
    if inside.len() > limit {
        let rule = format!("at most {limit} bytes when decompressed");
        return Err(Error::format(path, limit as u64, rule, "more"));
    }
    Ok(inside)
}

/// A reader of a regular file, which decompresses it if it begins like gzip, and whether it does.
pub(super) fn open_unpacked(path: &Path) -> Result<(Box<dyn BufRead>, bool)> {
    let mut file = BufReader::new(open_regular(path)?);
    let begin = file.fill_buf().map_err(|e| Error::io(path, e))?;
    let is_packed = begin.starts_with(&GZIP);
    Ok(match is_packed {
        true => (Box::new(BufReader::new(GzDecoder::new(file))), true),
        false => (Box::new(file), false),
    })
}

/// What is wrong in a line of a text, from 1.
pub(super) fn at_line(
    path: &Path,
    line: u64,
    expected: impl Into<String>,
    found: impl Into<String>,
) -> Error {
    let what = format!("{}: line {line}", printable(path));
    Error::invalid(what, expected.into(), found.into())
}

/// A string from a file as it may stand in a message: short, and without control characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    let head = bytes[..bytes.len().min(40)].escape_ascii();
    let more = if bytes.len() > 40 { "…" } else { "" };
    format!("'{head}{more}'")
}
