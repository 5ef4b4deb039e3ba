//! The idx format: big-endian numbers, then one byte per pixel or label; the file may be compressed by gzip.
//!
//! | bytes | images | labels |
//! |---|---|---|
//! | 0..4 | 2051 | 2049 |
//! | 4..8 | number of images | number of labels |
//! | 8..16 | rows, columns | – |
//! | then | pixels, image by image | labels |

use crate::data::files::read_unpacked;
use crate::error::{Error, Result};
use std::path::Path;

/// The most bytes of a file: those of 60 000 images of 28 × 28 pixels, and as much again.
const MOST: usize = 1 << 27;

/// The largest side of an image.
const LARGEST_SIDE: usize = 1 << 10;

/// Height, width and pixels of the images of a file.
///
/// # Errors
/// If the file cannot be read, or is not what its header declares.
pub fn read_images(path: &Path) -> Result<(usize, usize, Vec<u8>)> {
    let bytes = read_unpacked(path, MOST)?;
    let [count, height, width] = header(path, &bytes, 2051)?;
    for (byte, side) in [(8, height), (12, width)] {
        if side == 0 || side > LARGEST_SIDE {
            let rule = format!("a side of 1 to {LARGEST_SIDE} pixels");
            return Err(Error::format(path, byte, rule, side.to_string()));
        }
    }
    Ok((
        height,
        width,
        body(path, bytes, 16, count.saturating_mul(height * width))?,
    ))
}

/// The labels of a file.
///
/// # Errors
/// If the file cannot be read, or is not what its header declares.
pub fn read_labels(path: &Path) -> Result<Vec<u8>> {
    let bytes = read_unpacked(path, MOST)?;
    let [count] = header(path, &bytes, 2049)?;
    body(path, bytes, 8, count)
}

/// The numbers behind the magic number.
fn header<const K: usize>(path: &Path, bytes: &[u8], magic: u32) -> Result<[usize; K]> {
    let number = |k: usize| {
        let four = bytes.get(4 * k..4 * k + 4).and_then(|b| b.try_into().ok());
        four.map(u32::from_be_bytes)
    };
    let end = || {
        let rule = format!("a header of {} bytes", 4 * (K + 1));
        Error::format(path, bytes.len() as u64, rule, "the end of the file")
    };
    let found = number(0).ok_or_else(end)?;
    if found != magic {
        let rule = format!("the number {magic} of an idx file");
        return Err(Error::format(path, 0, rule, found.to_string()));
    }
    let mut numbers = [0; K];
    for (k, place) in numbers.iter_mut().enumerate() {
        *place = number(k + 1).ok_or_else(end)? as usize;
    }
    Ok(numbers)
}

/// The bytes behind the header, of which there must be `length`.
fn body(path: &Path, mut bytes: Vec<u8>, start: usize, length: usize) -> Result<Vec<u8>> {
    let found = bytes.len() - start;
    if found != length {
        let place = bytes.len().min(start.saturating_add(length)) as u64;
        let rule = format!("{length} bytes behind the header");
        return Err(Error::format(path, place, rule, found.to_string()));
    }
    bytes.drain(..start);
    Ok(bytes)
}
