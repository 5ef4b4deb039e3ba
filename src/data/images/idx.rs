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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("emmy-idx-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn images(count: u32, pixels: &[u8]) -> Vec<u8> {
        let numbers = [2051, count, 2, 3].map(u32::to_be_bytes);
        [&numbers.concat()[..], pixels].concat()
    }

    #[test]
    fn images_are_read_plain_and_compressed() {
        let pixels: Vec<u8> = (0..12).collect();
        let bytes = images(2, &pixels);
        let plain = read_images(&file("plain", &bytes)).unwrap();
        assert_eq!(plain, (2, 3, pixels));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, &bytes).unwrap();
        let packed = packed.finish().unwrap();
        assert_eq!(read_images(&file("packed.gz", &packed)).unwrap(), plain);
        let cut = read_images(&file("cut.gz", &packed[..packed.len() - 9])).unwrap_err();
        assert!(
            cut.to_string().contains("expected a whole gzip file"),
            "{cut}"
        );
    }

    #[test]
    fn damaged_files_are_refused_with_place_and_rule() {
        let error =
            |name: &str, bytes: &[u8]| read_images(&file(name, bytes)).unwrap_err().to_string();
        assert!(error("short", &[0, 0]).contains("byte 2: expected a header of 16 bytes"));
        assert!(
            error("magic", &[0; 16]).contains("expected the number 2051 of an idx file, found 0")
        );
        assert!(
            error("few", &images(2, &[0; 11]))
                .contains("expected 12 bytes behind the header, found 11")
        );
        assert!(error("many", &images(2, &[0; 13])).contains("found 13"));
        let mut flat = images(2, &[]);
        flat[11] = 0;
        assert!(
            error("flat", &flat).contains("byte 8: expected a side of 1 to 1024 pixels, found 0")
        );
        assert!(error("vast", &images(u32::MAX, &[])).contains("bytes behind the header, found 0"));
    }
}
