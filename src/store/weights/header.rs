//! The header of a safetensors file: the tensors and their places.
//!
//! A file has three parts: 8 bytes with the length of the header, little-endian; the header, in JSON; the
//! numbers. The header is a map from the name of a tensor to its type, its shape, and the place of its
//! numbers after the header. The name `__metadata__` leads to a map from texts to texts. The places cover all
//! bytes after the header, and no byte twice. The header is at most 100 MB long, as for the other readers of
//! the format.
//!
//! What a header means, and whether it is right, says the crate `safetensors`. Its functions for whole
//! files are not used: its reader wants a file in memory with all its tensors, where a model may have a few
//! of them, and its writer gives the texts in a random order, where the same model must give the same
//! bytes.

use crate::error::{Error, Result};
use crate::store::place::MAGIC;
use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const METADATA: &str = "__metadata__";
const LENGTH: u64 = 8;
const LONGEST: u64 = 100_000_000;

/// The content of a header that is refused.
struct Wrong {
    /// The byte of the header.
    byte: usize,
    expected: String,
    found: String,
}

/// Reads the header of a file, and says where the numbers begin.
pub(super) fn read(path: &Path, file: &mut File) -> Result<(Metadata, u64)> {
    let io = |e| Error::io(path, e);
    let wrong =
        |byte, expected: String, found: String| Err(Error::format(path, byte, expected, found));
    let whole = file.metadata().map_err(io)?.len();
    let mut length = Vec::new();
    file.take(LENGTH).read_to_end(&mut length).map_err(io)?;
    let Ok(length) = <[u8; LENGTH as usize]>::try_from(&*length) else {
        let expected = "the length of the header, 8 bytes".into();
        return wrong(length.len() as u64, expected, "the end of the file".into());
    };
    if length == MAGIC {
        let found = "a checkpoint, which `store::load` reads".into();
        return wrong(0, "a safetensors file".into(), found);
    }
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        let expected = format!("a safetensors file, with a header of at most {LONGEST} bytes");
        return wrong(0, expected, format!("a length of {length}"));
    }
    if length > whole.saturating_sub(LENGTH) {
        let expected = format!("a header of {length} bytes");
        return wrong(whole, expected, "the end of the file".into());
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).map_err(io)?;
    let header = match parse(&text) {
        Ok(header) => header,
        Err(w) => return wrong(LENGTH + w.byte as u64, w.expected, w.found),
    };
    let start = LENGTH + length;
    let (end, left) = (header.data_len() as u64, whole - start);
    if end != left {
        let found = if end > left {
            "the end of the file"
        } else {
            "more"
        };
        let expected = format!("{end} bytes after the header");
        return wrong(start + end.min(left), expected, found.into());
    }
    Ok((header, start))
}

fn parse(text: &[u8]) -> Result<Metadata, Wrong> {
    let mut entries: BTreeMap<String, &RawValue> =
        json(text, 0, || "a map from names to tensors".into())?;
    // Entries are parts of the text, so their addresses give their places in it.
    let at = |entry: &RawValue| entry.get().as_ptr().addr() - text.as_ptr().addr();
    let texts = match entries.remove(METADATA) {
        Some(entry) => json(entry.get().as_bytes(), at(entry), || {
            "a map from texts to texts".into()
        })?,
        None => None,
    };
    let mut tensors = Vec::new();
    for (name, entry) in entries {
        let info: TensorInfo = json(entry.get().as_bytes(), at(entry), || {
            format!("the dtype, shape and data_offsets of '{name}'")
        })?;
        check(&name, &info).map_err(|(expected, found)| Wrong {
            byte: at(entry),
            expected,
            found,
        })?;
        tensors.push((name, info));
    }
    tensors.sort_by_key(|(_, info)| info.data_offsets);
    Metadata::new(texts, tensors).map_err(|e| Wrong {
        byte: 0,
        expected: "tensors that begin where others end".into(),
        found: e.to_string(),
    })
}

/// Checks one tensor alone, since the error of the crate does not name it.
fn check(name: &str, info: &TensorInfo) -> Result<(), (String, String)> {
    let (from, to) = info.data_offsets;
    let alone = TensorInfo {
        data_offsets: (0, to.saturating_sub(from)),
        ..info.clone()
    };
    match Metadata::new(None, vec![(name.to_owned(), alone)]) {
        Ok(_) => Ok(()),
        Err(e) => {
            let (shape, dtype) = (&info.shape, info.dtype);
            let expected = format!("'{name}' {shape:?} of {dtype} in the bytes {from} to {to}");
            Err((expected, e.to_string()))
        }
    }
}

/// The value of a text that begins at byte `from` of the header.
fn json<'a, T: Deserialize<'a>>(
    text: &'a [u8],
    from: usize,
    expected: impl Fn() -> String,
) -> Result<T, Wrong> {
    serde_json::from_slice(text).map_err(|e| {
        let lines = text.split_inclusive(|&byte| byte == b'\n');
        let before = lines.take(e.line().saturating_sub(1));
        let at = before.map(<[u8]>::len).sum::<usize>() + e.column().saturating_sub(1);
        let why = e.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        Wrong {
            byte: from + at.min(text.len()),
            expected: expected(),
            found: why.to_owned(),
        }
    })
}

/// The bytes of a header, with its length before it, of tensors that follow each other.
pub(super) fn write(
    texts: &[(&str, String)],
    tensors: &[(&str, &[usize], usize)],
    dtype: Dtype,
) -> Result<Vec<u8>, serde_json::Error> {
    let texts: BTreeMap<_, _> = texts.iter().map(|(key, text)| (key, text)).collect();
    let mut entries = BTreeMap::from([(METADATA, serde_json::to_value(texts)?)]);
    let mut end = 0;
    for &(key, shape, bytes) in tensors {
        let start = end;
        end += bytes;
        let info = TensorInfo {
            dtype,
            shape: shape.to_vec(),
            data_offsets: (start, end),
        };
        entries.insert(key, serde_json::to_value(info)?);
    }
    let mut text = serde_json::to_vec(&entries)?;
    // These blanks make the numbers begin at a multiple of 8.
    text.resize(text.len().next_multiple_of(LENGTH as usize), b' ');
    if text.len() as u64 > LONGEST {
        let why = format!("a header of {} bytes, of at most {LONGEST}", text.len());
        return Err(serde::ser::Error::custom(why));
    }
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}
