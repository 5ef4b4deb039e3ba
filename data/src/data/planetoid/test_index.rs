//! `test.index`: one decimal node number per line.

use crate::data::files::shown;
use crate::error::{Error, Result};
use std::path::Path;

/// The longest file that is read, in bytes: 1 MiB. The longest published one has 6000.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// A node number and the byte where it stands.
pub(super) struct TestNode {
    pub(super) node: u32,
    pub(super) at: u64,
}

/// The node numbers in the order of the lines. The last line may lack its line feed; no other line may be
/// empty.
pub(super) fn parse(file: &Path, bytes: &[u8]) -> Result<Vec<TestNode>> {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let mut nodes = Vec::new();
    let mut at = 0;
    for line in text.split(|&b| b == b'\n') {
        let digits = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line)).ok();
        // `parse` would let a sign pass.
        let digits = digits.filter(|d| d.bytes().all(|b| b.is_ascii_digit()));
        let Some(node) = digits.and_then(|d| d.parse().ok()) else {
            return Err(Error::format(file, at, "a node number", shown(line)));
        };
        nodes.push(TestNode { node, at });
        at += line.len() as u64 + 1;
    }
    Ok(nodes)
}
