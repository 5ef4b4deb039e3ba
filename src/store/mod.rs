//! Checkpoints: files for any value that serde can serialise. A file that is damaged or incomplete is
//! refused.
//!
//! A checkpoint is the state of a run; the same run continues from it. The tensors of a model, for other
//! programs and under the names of PyTorch, are in files of [`weights`].
//!
//! # Format
//! Numbers are little-endian.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 0 | 8 | `emmy\r\n\x1a\n`, which breaks when a file is mangled as text |
//! | 8 | 4 | version of the format, 6 |
//! | 12 | 4 | type of the numbers, `f32 ` or `f64 ` |
//! | 16 | 8 | length of the body |
//! | 24 | 4 | CRC-32 (IEEE) of the body |
//! | 28 | | the body, in the format of bincode 2 with integers of fixed size |
//!
//! The checksum finds damage; it does not keep anyone from forging a file. Nothing in a body is believed
//! before it is there: a string is allocated before it is read, and bincode refuses a length beyond a limit,
//! which is at most 64 times the body (or 1 MiB); serde allocates at most 1 MiB for the stated length of a
//! list, the rest as the elements come.
//!
//! A checkpoint is written to a temporary file beside its place, synced and renamed. So at any moment,
//! whatever fails, the path holds the old checkpoint or the new one. A symbolic link stays, and the file that
//! it leads to is replaced; the new file has the permissions of the old one. If a run is killed, its
//! temporary file `NAME.CHECKSUM.RANDOM.tmp` stays; the next save to the same place removes it.
//!
//! # Two runs and one place
//! Two runs that save to one path would replace each other's checkpoints. A run that keeps a [`Place`]
//! holds an advisory lock (`flock`) on the file there. Another run that saves to the same path at that time
//! gets an error, and the file stays as it is. If no file is there when both start, the run that saves
//! second gets the error, also if the first has ended by then. A run also gets an error if the file is not
//! the one that it saved last, for example after `mv`. A file of another kind is never replaced, unless it
//! is empty. The lock ends when the [`Place`] is dropped or the process ends, in whatever way. Some file
//! systems have no locks: there only the check for another file is made. Systems other than Unix have
//! neither check.

mod place;
pub mod weights;

use crate::error::{Error, Result, Rules};
use crate::files::open_regular;
use crate::real::Real;
use bincode::config::{Configuration, Fixint, LittleEndian};
use place::{Kind, MAGIC, Slot};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::path::{Path, PathBuf};

const VERSION: u32 = 6;
const HEADER: usize = 28;

/// How a body is written.
const ENCODING: Configuration<LittleEndian, Fixint> = bincode::config::legacy();

/// The size of the largest body that is read, in bytes.
const LIMIT: u32 = u32::MAX;

/// The place where one run saves, as long as this value lives; the [module](self) explains how other runs are
/// kept away.
///
/// ```
/// use emmy::store::{self, Place};
///
/// let folder = std::path::Path::new("target/listings/place");
/// std::fs::create_dir_all(folder).unwrap();
/// let path = folder.join("run.ckpt");
/// let mut place = Place::take(&path)?;
/// place.save::<f32>(&"the first epoch")?;
/// place.save::<f32>(&"the second epoch")?;
/// # #[cfg(unix)]
/// assert!(store::save::<f32>(&path, &"another run").is_err());
/// drop(place);
/// store::save::<f32>(&path, &"another run")?;
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug)]
pub struct Place(Slot);

impl Place {
    /// Takes the place. If a checkpoint is there, it stays as it is.
    ///
    /// # Errors
    /// [`Error::Invalid`] if another run saves to it, the file there is not a checkpoint, or `path` names
    /// no file. [`Error::Io`] if what is there is not a regular file or cannot be opened, or its folder is
    /// not there.
    pub fn take(path: impl Into<PathBuf>) -> Result<Self> {
        let mut slot = Slot::new(path.into(), Kind::CHECKPOINT);
        slot.take()?;
        Ok(Self(slot))
    }

    /// Writes `value`, whose numbers are of type `F`, in place of what was saved before.
    ///
    /// # Errors
    /// As [`save`]; and [`Error::Invalid`] if the file there is not the one that was saved last, a file is
    /// there where nothing was when the place was taken, or the value has 4 GiB or more.
    pub fn save<F: Real>(&mut self, value: &impl Serialize) -> Result<()> {
        let [header, body] = encoded::<F>(self.0.path(), value)?;
        self.0.write(&[&header, &body])
    }
}

/// The header and the body of a checkpoint.
fn encoded<F: Real>(path: &Path, value: &impl Serialize) -> Result<[Vec<u8>; 2]> {
    let body = bincode::serde::encode_to_vec(value, ENCODING)
        .map_err(|e| Error::io(path, std::io::Error::other(e)))?;
    let rule = format!("at most {LIMIT} bytes, which can be read again");
    let is_readable = body.len() as u64 <= u64::from(LIMIT);
    Rules("checkpoint").hold(is_readable, "size", rule, body.len())?;
    let mut header = Vec::with_capacity(HEADER);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(float_name(F::NAME));
    header.extend((body.len() as u64).to_le_bytes());
    header.extend(crc32fast::hash(&body).to_le_bytes());
    Ok([header, body])
}

/// Writes `value`, whose numbers are of type `F`, once. A run that saves repeatedly keeps a [`Place`].
///
/// # Errors
/// [`Error::Io`] if the file cannot be written, or `path` is there and not a regular file (renaming would put
/// one in the place of a device); what was at `path` before is then still there, unless it is the syncing of
/// the folder, the last step, that fails. [`Error::Invalid`] if `path` names no file, the file there is not a
/// checkpoint, or another run saves to it, also after waiting for it for a second.
pub fn save<F: Real>(path: &Path, value: &impl Serialize) -> Result<()> {
    let [header, body] = encoded::<F>(path, value)?;
    Slot::new(path.to_owned(), Kind::CHECKPOINT).write_once(&[&header, &body])
}

/// Reads what [`save`] wrote.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read or is not a regular file (reading a pipe or a device may never
/// end); [`Error::Format`] with the byte and the expectation if it is not a checkpoint, of another version or
/// another type of numbers, cut short, too long, or damaged anywhere.
///
/// A forged file may state an endless list of values that have no bytes, such as `()`. Reading it needs no
/// memory, but does not end: load such a type only from files that you trust.
pub fn load<F: Real, T: DeserializeOwned>(path: &Path) -> Result<T> {
    let body = body(path, F::NAME)?;
    // A limit is a constant of bincode's types. It counts what is read, so it must hold the whole body.
    let mut rest = &body[..];
    let value = match body.len() {
        0..=0x10_0000 => decode::<T, 0x10_0000>(&mut rest),
        0x10_0001..=0x400_0000 => decode::<T, 0x400_0000>(&mut rest),
        _ => decode::<T, { LIMIT as usize }>(&mut rest),
    };
    let left = rest.len();
    let (expected, found) = match value {
        Ok(value) if left == 0 => return Ok(value),
        Ok(_) => (
            "the end of what was saved".to_owned(),
            format!("{left} bytes more"),
        ),
        Err(why) => (
            format!("a {}", std::any::type_name::<T>()),
            format!("something else: {}", reason(why)),
        ),
    };
    let at = HEADER + body.len() - left;
    Err(Error::format(path, at as u64, expected, found))
}

/// A value from the beginning of `bytes`, which is cut to what was not read. No stated length allocates more
/// than `LIMIT` bytes.
fn decode<T: DeserializeOwned, const LIMIT: usize>(
    bytes: &mut &[u8],
) -> std::result::Result<T, bincode::error::DecodeError> {
    bincode::serde::decode_from_std_read(bytes, ENCODING.with_limit::<LIMIT>())
}

/// Why a body is not the value that is expected.
fn reason(error: bincode::error::DecodeError) -> String {
    use bincode::error::DecodeError;
    match error {
        DecodeError::UnexpectedEnd { .. } | DecodeError::Io { .. } => "the end of the body".into(),
        DecodeError::LimitExceeded => "a length that is beyond the body".into(),
        DecodeError::OtherString(why) => why,
        other => other.to_string(),
    }
}

/// The body of a checkpoint with numbers of this type: all but its meaning has been checked.
fn body(path: &Path, numbers: &str) -> Result<Vec<u8>> {
    let io = |e| Error::io(path, e);
    let wrong = |byte: u64, expected: String, found: String| {
        Err(Error::format(path, byte, expected, found))
    };
    let mut file = open_regular(path)?;
    let mut header = Vec::new();
    (&mut file)
        .take(HEADER as u64)
        .read_to_end(&mut header)
        .map_err(io)?;
    let Some((magic, rest)) = header.split_first_chunk() else {
        return wrong(
            header.len() as u64,
            "a checkpoint".into(),
            "the end of the file".into(),
        );
    };
    if *magic != MAGIC {
        return wrong(
            0,
            format!(
                "a checkpoint, which begins with \"{}\"",
                MAGIC.escape_ascii()
            ),
            format!("\"{}\"", magic.escape_ascii()),
        );
    }
    let fields = rest.split_first_chunk().and_then(|(version, rest)| {
        let (float, rest) = rest.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (crc, _) = rest.split_first_chunk()?;
        Some((
            u32::from_le_bytes(*version),
            *float,
            u64::from_le_bytes(*length),
            u32::from_le_bytes(*crc),
        ))
    });
    let Some((version, float, length, crc)) = fields else {
        return wrong(
            header.len() as u64,
            format!("a header of {HEADER} bytes"),
            "the end of the file".into(),
        );
    };
    if version != VERSION {
        let found = match version {
            1 => "version 1, of an emmy that counted epochs only: train again, or resume with that emmy"
                .to_owned(),
            2 => "version 2, of an emmy with one weight decay and fewer options of layers: train again, or resume with that emmy"
                .to_owned(),
            3 | 4 => format!("version {version}, of an emmy with three optimisers: train again, or resume with that emmy"),
            5 => "version 5, of an emmy with another encoding: train again, or resume with that emmy".to_owned(),
            other => other.to_string(),
        };
        return wrong(8, format!("version {VERSION}"), found);
    }
    if float != float_name(numbers) {
        return wrong(
            12,
            format!("numbers of type {numbers}"),
            format!("\"{}\"", float.escape_ascii()),
        );
    }
    if length > u64::from(LIMIT) {
        return wrong(
            16,
            format!("a length of at most {LIMIT}"),
            length.to_string(),
        );
    }
    let mut body = Vec::new();
    file.take(length + 1).read_to_end(&mut body).map_err(io)?;
    if body.len() as u64 != length {
        let at = HEADER as u64 + length.min(body.len() as u64);
        let found = if (body.len() as u64) < length {
            "the end of the file"
        } else {
            "more"
        };
        return wrong(at, format!("{length} bytes after the header"), found.into());
    }
    let found = crc32fast::hash(&body);
    if found != crc {
        return wrong(
            HEADER as u64,
            format!("a body with the checksum {crc:08x}"),
            format!("{found:08x}: it is damaged"),
        );
    }
    Ok(body)
}

fn float_name(numbers: &str) -> [u8; 4] {
    let mut name = *b"    ";
    name[..numbers.len()].copy_from_slice(numbers.as_bytes());
    name
}
