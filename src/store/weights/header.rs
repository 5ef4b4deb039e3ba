//! The header of a safetensors file: the tensors and their places.
//!
//! A file has three parts: 8 bytes with the length of the header, little-endian; the header, in JSON; the
//! numbers. The header is a map from the name of a tensor to its type, its shape, and the place of its
//! numbers after the header. The name `__metadata__` leads to a map from texts to texts. The places cover all
//! bytes after the header, and no byte twice. The header is at most 100 MB long, as for the other readers of
//! the format.
//!
//! We have our own reader for three reasons: it reports the byte of an error, it refuses duplicate names, and
//! it reads only the tensors that a model has. A test compares it with the crate `safetensors`.

use super::numbers::Dtype;
use crate::error::{Error, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::marker::PhantomData;
use std::path::Path;

const METADATA: &str = "__metadata__";
const LENGTH: u64 = 8;
const LONGEST: u64 = 100_000_000;

/// The content of a header.
#[derive(Debug)]
pub(super) struct Header {
    pub metadata: Vec<(String, String)>,
    /// In the order of the header.
    pub tensors: Vec<Stored>,
    /// The first byte after the header.
    pub start: u64,
}

/// A tensor in a file.
#[derive(Debug)]
pub(super) struct Stored {
    pub key: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// The bytes of its numbers, from the end of the header.
    pub place: (u64, u64),
}

/// The content of a header that is refused.
struct Wrong {
    byte: u64,
    expected: String,
    found: String,
}

/// Reads the header of a file.
pub(super) fn read(path: &Path, file: &mut File) -> Result<Header> {
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
    let length = u64::from_le_bytes(length);
    let most = whole.saturating_sub(LENGTH).min(LONGEST);
    if length > most {
        let expected = format!("a safetensors file, with a header of at most {most} bytes");
        return wrong(0, expected, format!("a length of {length}"));
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).map_err(io)?;
    let start = LENGTH + length;
    parse(&text, start, whole).or_else(|w| wrong(w.byte, w.expected, w.found))
}

/// The header with this text, which ends at byte `start` of a file of `whole` bytes.
fn parse(text: &[u8], start: u64, whole: u64) -> Result<Header, Wrong> {
    let text = std::str::from_utf8(text).map_err(|e| Wrong {
        byte: LENGTH + e.valid_up_to() as u64,
        expected: "a header in UTF-8".into(),
        found: e.to_string(),
    })?;
    // Values are parts of the text, so their addresses give their places in it.
    let at = |value: &RawValue| value.get().as_ptr().addr() - text.as_ptr().addr();
    let Pairs(pairs) = json::<Pairs<&RawValue>>(text, 0, "a map from names to tensors")?;
    let mut names = BTreeSet::new();
    let (mut metadata, mut tensors) = (Vec::new(), Vec::new());
    for (key, value) in &pairs {
        let byte = at(value);
        if !names.insert(key.as_str()) {
            return Err(Wrong {
                byte: LENGTH + byte as u64,
                expected: "every name once".into(),
                found: format!("'{key}' again"),
            });
        }
        if key == METADATA {
            let expected = "a map from texts to texts";
            metadata = json::<Pairs<String>>(value.get(), byte, expected)?.0;
        } else {
            tensors.push((tensor(key, value.get(), byte)?, LENGTH + byte as u64));
        }
    }
    covers(&tensors, start, whole)?;
    Ok(Header {
        metadata,
        tensors: tensors.into_iter().map(|(tensor, _)| tensor).collect(),
        start,
    })
}

/// The value of a text that begins at byte `from` of the header.
fn json<'a, T: Deserialize<'a>>(text: &'a str, from: usize, expected: &str) -> Result<T, Wrong> {
    serde_json::from_str(text).map_err(|e| {
        let lines = text.split_inclusive('\n').take(e.line().saturating_sub(1));
        let at = lines.map(str::len).sum::<usize>() + e.column().saturating_sub(1);
        let why = e.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        Wrong {
            byte: LENGTH + (from + at.min(text.len())) as u64,
            expected: expected.to_owned(),
            found: why.to_owned(),
        }
    })
}

/// The entry of one tensor in the header.
#[derive(serde::Deserialize, serde::Serialize)]
struct Info {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// A tensor, whose description begins at byte `from` of the header.
fn tensor(key: &str, text: &str, from: usize) -> Result<Stored, Wrong> {
    let wrong = |expected: String, found: String| Wrong {
        byte: LENGTH + from as u64,
        expected,
        found,
    };
    let expected = "a tensor: dtype, shape and data_offsets";
    let Info {
        dtype,
        shape,
        data_offsets: place,
    } = json(text, from, expected)?;
    let Some(dtype) = Dtype::named(&dtype) else {
        return Err(wrong("a type of numbers, such as F32".into(), dtype));
    };
    let bits = (shape.iter()).try_fold(dtype.bits, |bits, &size| bits.checked_mul(size));
    let bytes = bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8);
    let sizes: Option<Vec<_>> = shape.iter().map(|&n| usize::try_from(n).ok()).collect();
    match (sizes, place.1.checked_sub(place.0), bytes) {
        (Some(shape), Some(found), Some(bytes)) if found == bytes => Ok(Stored {
            key: key.to_owned(),
            dtype,
            shape,
            place,
        }),
        (_, _, None) => {
            let found = format!("the shape {shape:?} of {}", dtype.name);
            Err(wrong("a number of bytes that can be counted".into(), found))
        }
        (_, _, Some(bytes)) => {
            let expected = format!("{bytes} bytes for the shape {shape:?} of {}", dtype.name);
            Err(wrong(expected, format!("bytes {} to {}", place.0, place.1)))
        }
    }
}

/// Checks that the tensors cover the file. Each tensor comes with the byte at which the header states its
/// place.
fn covers(tensors: &[(Stored, u64)], start: u64, whole: u64) -> Result<(), Wrong> {
    let mut order: Vec<_> = tensors.iter().collect();
    order.sort_by_key(|(tensor, _)| tensor.place);
    let mut end = 0;
    for (tensor, byte) in order {
        let (from, to) = tensor.place;
        if from != end {
            return Err(Wrong {
                byte: *byte,
                expected: format!("numbers that begin where others end, at {end}"),
                found: format!("'{}' at {from}", tensor.key),
            });
        }
        end = to;
    }
    let left = whole - start;
    if end == left {
        return Ok(());
    }
    let found = if end > left {
        "the end of the file"
    } else {
        "more"
    };
    Err(Wrong {
        byte: start + end.min(left),
        expected: format!("{end} bytes after the header"),
        found: found.into(),
    })
}

/// The bytes of a header, with its length before it, of tensors that follow each other.
pub(super) fn write(
    metadata: &[(&str, String)],
    tensors: &[(&str, &[usize], usize)],
    dtype: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = Vec::new();
    let json = &mut serde_json::Serializer::new(&mut text);
    let mut map = json.serialize_map(None)?;
    map.serialize_entry(METADATA, &Texts(metadata))?;
    let mut end = 0;
    for &(key, shape, bytes) in tensors {
        let start = end;
        end += bytes as u64;
        map.serialize_entry(
            key,
            &Info {
                dtype: dtype.to_owned(),
                shape: shape.iter().map(|&n| n as u64).collect(),
                data_offsets: (start, end),
            },
        )?;
    }
    map.end()?;
    // These blanks make the numbers begin at a multiple of 8.
    text.resize(text.len().next_multiple_of(LENGTH as usize), b' ');
    if text.len() as u64 > LONGEST {
        let why = format!("a header of {} bytes, of at most {LONGEST}", text.len());
        return Err(serde::ser::Error::custom(why));
    }
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

/// A map of texts in the order of the list.
struct Texts<'a>(&'a [(&'a str, String)]);

impl serde::Serialize for Texts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, text)| (key, text)))
    }
}

/// The entries of a map in the order of the text; a name may be there twice.
struct Pairs<V>(Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}
