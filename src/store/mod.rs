//! Checkpoints: files that hold what serde can hold, and are refused when they do not hold it whole.
//!
//! # Format
//! Numbers are little-endian.
//!
//! | byte | size | what |
//! |---|---|---|
//! | 0 | 8 | `emmy\r\n\x1a\n`, which breaks when a file is mangled as text |
//! | 8 | 4 | version of the format, 2 |
//! | 12 | 4 | type of the numbers, `f32 ` or `f64 ` |
//! | 16 | 8 | length of the body |
//! | 24 | 4 | CRC-32 (IEEE) of the body |
//! | 28 | | the body, in the standard configuration of bincode 2 |
//!
//! A checkpoint is written to a temporary file beside its place, synced and renamed, so that at any moment,
//! whatever fails, the path holds the old checkpoint or the new one.

use crate::error::{Error, Result};
use crate::real::Real;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const MAGIC: [u8; 8] = *b"emmy\r\n\x1a\n";
const VERSION: u32 = 2;
const HEADER: usize = 28;

/// The largest body that is read, and the most memory decoding may ask for: 4 GiB.
const LIMIT: usize = 1 << 32;

/// One file is written at a time: threads that save to one place have one temporary file.
static WRITING: Mutex<()> = Mutex::new(());

/// Writes `value`, whose numbers are of type `F`.
///
/// # Errors
/// [`Error::Io`] if the file cannot be written, or `path` is there and not a regular file (renaming would put
/// one in the place of a device); what was at `path` before is then still there, unless it is the syncing of
/// the folder, the last step, that fails.
pub fn save<F: Real>(path: &Path, value: &impl Serialize) -> Result<()> {
    let body = bincode::serde::encode_to_vec(value, bincode::config::standard())
        .map_err(|e| Error::io(path, std::io::Error::other(e)))?;
    let mut header = Vec::with_capacity(HEADER);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(float_name::<F>());
    header.extend((body.len() as u64).to_le_bytes());
    header.extend(crc32fast::hash(&body).to_le_bytes());
    let temporary = temporary(path)?;
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let written = replaceable(path)
        .and_then(|()| write(&temporary, &[&header, &body]))
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder(path));
    written.map_err(|e| {
        // Nothing is lost with it: it is not the file that was asked for.
        let _ = fs::remove_file(&temporary);
        Error::io(path, e)
    })
}

/// Reads what [`save`] wrote.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read; [`Error::Format`] with the byte and the expectation if it is not
/// a checkpoint, of another version or another type of numbers, cut short, too long, or damaged anywhere.
pub fn load<F: Real, T: DeserializeOwned>(path: &Path) -> Result<T> {
    let io = |e| Error::io(path, e);
    let wrong = |byte: u64, expected: String, found: String| {
        Err(Error::format(path, byte, expected, found))
    };
    let mut file = File::open(path).map_err(io)?;
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
            format!("{:?}", MAGIC.escape_ascii().to_string()),
            format!("{:?}", magic.escape_ascii().to_string()),
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
            other => other.to_string(),
        };
        return wrong(8, format!("version {VERSION}"), found);
    }
    if float != float_name::<F>() {
        return wrong(
            12,
            format!("numbers of type {}", F::NAME),
            format!("{:?}", float.escape_ascii().to_string()),
        );
    }
    if length > LIMIT as u64 {
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
    let limited = bincode::config::standard().with_limit::<LIMIT>();
    match bincode::serde::decode_from_slice(&body, limited) {
        Ok((value, read)) if read == body.len() => Ok(value),
        Ok((_, read)) => wrong(
            (HEADER + read) as u64,
            "the end of what was saved".into(),
            format!("{} bytes more", body.len() - read),
        ),
        Err(e) => wrong(
            HEADER as u64,
            format!("a {}", std::any::type_name::<T>()),
            e.to_string(),
        ),
    }
}

fn float_name<F: Real>() -> [u8; 4] {
    let mut name = *b"    ";
    name[..F::NAME.len()].copy_from_slice(F::NAME.as_bytes());
    name
}

/// A name beside `path` that no other process writes to.
fn temporary(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        let found = path.display().to_string();
        return Err(Error::invalid("checkpoint", "the path of a file", found));
    };
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(path.with_file_name(temporary))
}

/// Refuses the place of what is no regular file. What cannot be looked at is left to the writing to refuse.
fn replaceable(path: &Path) -> std::io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(std::io::Error::other("not a regular file")),
        _ => Ok(()),
    }
}

fn write(path: &Path, parts: &[&[u8]]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.sync_all()
}

/// Makes the renaming itself durable; only Unix lets one open a folder for that.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}
