//! Lines with fields, and the numbers of lines.

use crate::data::files::{at_line, read_unpacked};
use crate::error::{Error, Result};
use ::csv::{Reader, ReaderBuilder, StringRecord, Trim};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// The most bytes of a file, decompressed.
const MOST_BYTES: usize = 1 << 31;

/// A file of lines with fields.
pub(super) struct Lines {
    path: PathBuf,
    delimiter: u8,
    reader: Reader<Cursor<Vec<u8>>>,
    /// The fields of the last line that was read.
    pub record: StringRecord,
}

impl Lines {
    pub fn open(path: &Path, delimiter: u8) -> Result<Self> {
        let bytes = read_unpacked(path, MOST_BYTES)?;
        if let Err(error) = std::str::from_utf8(&bytes) {
            let line = line_at(&bytes, error.valid_up_to());
            let found = format!("the byte 0x{:02x}", bytes[error.valid_up_to()]);
            return Err(at_line(path, line, "text in UTF-8", found));
        }
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true);
        builder.trim(Trim::All).delimiter(delimiter);
        Ok(Self {
            path: path.to_owned(),
            delimiter,
            reader: builder.from_reader(Cursor::new(bytes)),
            record: StringRecord::new(),
        })
    }

    /// Reads the next line that is not empty; `false` at the end of the file.
    pub fn next(&mut self) -> Result<bool> {
        loop {
            let is_there = self.reader.read_record(&mut self.record);
            let is_there = is_there.map_err(|e| self.wrong("fields", e.to_string()))?;
            self.check_quotes()?;
            // A line of blanks is one empty field.
            if !is_there || self.record.len() > 1 || !self.record[0].is_empty() {
                return Ok(is_there);
            }
        }
    }

    /// Refuses what the reader takes for something else than it was meant for: a quote that nothing closes,
    /// which swallows all lines behind it, and a quote behind a blank, which would belong to the field.
    fn check_quotes(&self) -> Result<()> {
        let (start, end) = (self.byte(), self.reader.position().byte() as usize);
        let bytes = &self.reader.get_ref().get_ref()[start..end];
        if !bytes.contains(&b'"') {
            return Ok(());
        }
        let mut state = Quoting::Start;
        let mut opened = start;
        for (k, &byte) in bytes.iter().enumerate() {
            let ends = byte == self.delimiter || byte == b'\n' || byte == b'\r';
            state = match (state, byte) {
                (Quoting::Inside, b'"') => Quoting::Closed,
                (Quoting::Inside, _) => Quoting::Inside,
                (Quoting::Start, b'"') => {
                    opened = start + k;
                    Quoting::Inside
                }
                // Two quotes are one of the text.
                (Quoting::Closed, b'"') => Quoting::Inside,
                (Quoting::Blank, b'"') => {
                    let rule = "a quote that begins its field";
                    return Err(self.wrong_at(start + k, rule, "a blank before it"));
                }
                _ if ends => Quoting::Start,
                (Quoting::Start | Quoting::Blank, b' ' | b'\t') => Quoting::Blank,
                _ => Quoting::Without,
            };
        }
        match state {
            Quoting::Inside => {
                let rule = "a quote that ends the field";
                Err(self.wrong_at(opened, rule, "the end of the file"))
            }
            _ => Ok(()),
        }
    }

    /// The place of the last line that was read, or of empty lines before it, in bytes.
    pub fn byte(&self) -> usize {
        let at = self.record.position().map_or(0, ::csv::Position::byte);
        at as usize
    }

    /// The number of the line at or after this byte, from 1.
    pub fn number(&self, byte: usize) -> u64 {
        let bytes = self.reader.get_ref().get_ref();
        let empty = |b: &&u8| matches!(b, b'\n' | b'\r');
        let skipped = bytes[byte..].iter().take_while(empty).count();
        line_at(bytes, byte + skipped)
    }

    /// What is wrong with the last line.
    pub fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        self.wrong_at(self.byte(), expected, found)
    }

    fn wrong_at(
        &self,
        byte: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        at_line(&self.path, self.number(byte), expected, found)
    }
}

/// Where in a field a byte is.
#[derive(Clone, Copy)]
enum Quoting {
    /// At the start of a field.
    Start,
    /// Behind blanks at its start.
    Blank,
    /// In a field, or a rest of it, without quotes.
    Without,
    /// Behind a quote that opened the field.
    Inside,
    /// Behind a second quote.
    Closed,
}

/// The number of the line of a byte, from 1. Lines end in `\n`, `\r\n` or `\r`.
fn line_at(bytes: &[u8], byte: usize) -> u64 {
    let ends = |&k: &usize| match bytes[k] {
        b'\n' => true,
        b'\r' => bytes.get(k + 1) != Some(&b'\n'),
        _ => false,
    };
    1 + (0..byte).filter(ends).count() as u64
}
