//! The header of an `.npy` member, as numpy writes it for plain arrays of one or two dimensions.

use crate::data::files::shown;
use crate::error::{Error, Result};
use std::path::Path;

/// The contents of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// The element type: `<f4`, `<i8`, `|b1`.
    pub(super) descr: String,
    /// Whether the first index varies fastest.
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
    /// The byte where the elements begin.
    pub(super) data_at: u64,
}

/// Magic bytes, version 1.0.
const MAGIC: &[u8; 8] = b"\x93NUMPY\x01\x00";

/// The number of bytes before the header's text: magic and a length of two bytes.
pub(super) const PREFIX: usize = 10;

/// The length of the header's text, from the first [`PREFIX`] bytes.
pub(super) fn text_length(file: &Path, prefix: &[u8; PREFIX]) -> Result<usize> {
    let [magic @ .., low, high] = prefix;
    if magic != MAGIC {
        let expected = "the magic bytes of .npy, version 1.0";
        return Err(Error::format(file, 0, expected, shown(magic)));
    }
    Ok(u16::from_le_bytes([*low, *high]).into())
}

/// The header's text: a Python dict with three keys in this order, then blanks and a line feed.
pub(super) fn parse(file: &Path, text: &[u8]) -> Result<Header> {
    let mut cursor = Cursor { file, text, at: 0 };
    cursor.literal("{'descr': '")?;
    let descr = cursor.until(b'\'')?;
    cursor.literal("', 'fortran_order': ")?;
    let fortran_order = cursor.rest().starts_with(b"True");
    cursor.literal(if fortran_order { "True" } else { "False" })?;
    cursor.literal(", 'shape': (")?;
    let mut shape = vec![cursor.number()?];
    cursor.literal(",")?;
    if cursor.rest().starts_with(b" ") {
        cursor.literal(" ")?;
        shape.push(cursor.number()?);
    }
    cursor.literal("), }")?;
    let padding = cursor.rest();
    let blank = padding.strip_suffix(b"\n").unwrap_or(b"x");
    if !blank.iter().all(|&b| b == b' ') {
        return Err(cursor.error("blanks and a line feed"));
    }
    Ok(Header {
        descr,
        fortran_order,
        shape,
        data_at: (PREFIX + text.len()) as u64,
    })
}

struct Cursor<'a> {
    file: &'a Path,
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text[self.at..]
    }

    fn error(&self, expected: &str) -> Error {
        let byte = (PREFIX + self.at) as u64;
        Error::format(self.file, byte, expected, shown(self.rest()))
    }

    fn literal(&mut self, wanted: &str) -> Result<()> {
        if !self.rest().starts_with(wanted.as_bytes()) {
            return Err(self.error(wanted));
        }
        self.at += wanted.len();
        Ok(())
    }

    /// The text up to `end`, which must come within a few bytes.
    fn until(&mut self, end: u8) -> Result<String> {
        let near = &self.rest()[..self.rest().len().min(8)];
        let Some(len) = near.iter().position(|&b| b == end) else {
            return Err(self.error("an element type"));
        };
        let text = String::from_utf8_lossy(&near[..len]).into_owned();
        self.at += len;
        Ok(text)
    }

    /// A decimal number below 2³².
    fn number(&mut self) -> Result<usize> {
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit());
        let len = digits.count();
        let text = std::str::from_utf8(&self.rest()[..len]).unwrap_or_default();
        let Ok(number) = text.parse::<u32>() else {
            return Err(self.error("a size below 2³²"));
        };
        self.at += len;
        Ok(number as usize)
    }
}
