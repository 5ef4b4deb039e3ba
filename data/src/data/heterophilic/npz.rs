//! Members of an `.npz` archive, inflated piece by piece: memory is allocated for bytes that were read, never
//! for a size that the file declares.

use super::npy::{self, Header};
use crate::data::files::shown;
use crate::error::{Error, Result};
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use zip::ZipArchive;
use zip::read::ZipFile;

/// The longest archive that is read, in bytes: 64 MiB. The longest published one has 704 277.
pub(super) const MAX_ARCHIVE: usize = 64 << 20;

/// The largest number of bytes that all members together inflate to: 64 MiB. Those of the largest published
/// set have 46 831 610.
const MAX_INFLATED: u64 = 64 << 20;

/// The largest number of members. Published archives have six.
const MAX_MEMBERS: u16 = 64;

/// The record that ends an archive: this signature, then 18 bytes, of which 6 and 7 count the members and the
/// last two give the length of a comment.
const END: [u8; 4] = *b"PK\x05\x06";
const END_LENGTH: usize = 22;

/// The largest number of times that the signature of the end record may occur; compressed bytes may contain
/// it by chance.
const MAX_ENDS: usize = 4;

/// An archive in memory.
pub(super) struct Npz<'a> {
    file: &'a Path,
    archive: ZipArchive<Cursor<&'a [u8]>>,
}

/// The elements of a member, read in the order of the file.
pub(super) struct Elements<'m, 'a> {
    file: PathBuf,
    reader: BufReader<ZipFile<'m, Cursor<&'a [u8]>>>,
    pub(super) header: Header,
    at: u64,
}

impl<'a> Npz<'a> {
    pub(super) fn open(file: &'a Path, bytes: &'a [u8]) -> Result<Self> {
        check_end(file, bytes)?;
        let refuse = |expected: &str, found: String| {
            Error::format(file, (bytes.len() - END_LENGTH) as u64, expected, found)
        };
        let mut archive = ZipArchive::new(Cursor::new(bytes))
            .map_err(|e| refuse("a ZIP directory before this record", e.to_string()))?;
        let mut inflated = 0_u64;
        for k in 0..archive.len() {
            let member = archive.by_index_raw(k);
            let member = member.map_err(|e| refuse("a ZIP directory of members", e.to_string()))?;
            inflated = inflated.saturating_add(member.size());
        }
        if inflated > MAX_INFLATED {
            let expected = format!("members of at most {MAX_INFLATED} bytes together");
            return Err(refuse(&expected, format!("{inflated} bytes")));
        }
        Ok(Self { file, archive })
    }

    /// Opens the member `name`, reads its header and checks that its element type is `descr` and its length
    /// that of its shape.
    pub(super) fn member(&mut self, name: &str, descr: &str) -> Result<Elements<'_, 'a>> {
        let file = self.file.join(name);
        let member = self.archive.by_name(name).map_err(|e| {
            Error::format(
                &file,
                0,
                "a member of the archive, deflated or stored",
                e.to_string(),
            )
        })?;
        let size = member.size();
        let header = Header {
            descr: String::new(),
            fortran_order: false,
            shape: Vec::new(),
            data_at: 0,
        };
        let mut elements = Elements {
            file,
            reader: BufReader::with_capacity(1 << 16, member),
            header,
            at: 0,
        };
        let prefix = elements.take()?;
        let mut text = vec![0; npy::text_length(&elements.file, &prefix)?];
        elements.fill(&mut text)?;
        elements.header = npy::parse(&elements.file, &text)?;
        elements.check(descr, size)?;
        Ok(elements)
    }
}

/// Checks the record that ends the archive, without a comment, as upstream writes it.
///
/// A reader of ZIP archives that finds the last record or its directory wrong goes on to the one before, and
/// so on. Thousands of records would keep it busy for hours; with a few, time stays linear in the length of
/// the file.
fn check_end(file: &Path, bytes: &[u8]) -> Result<()> {
    let at = bytes.len().saturating_sub(END_LENGTH);
    let end = &bytes[at..];
    let refuse = |byte: usize, expected: String, found: String| {
        Err(Error::format(file, byte as u64, expected, found))
    };
    if end.len() < END_LENGTH || end[..4] != END {
        let expected = "the last record of a ZIP archive, PK 05 06 and 18 bytes";
        return refuse(at, expected.into(), shown(end));
    }
    if end[20..] != [0, 0] {
        return refuse(at + 20, "no comment".into(), shown(&end[20..]));
    }
    let members = u16::from_le_bytes([end[10], end[11]]);
    if members > MAX_MEMBERS {
        let expected = format!("at most {MAX_MEMBERS} members");
        return refuse(at + 10, expected, members.to_string());
    }
    let mut ends = bytes.windows(4).enumerate().filter(|(_, w)| **w == END);
    if let Some((byte, _)) = ends.nth(MAX_ENDS) {
        let expected = format!("no more than {MAX_ENDS} records that end an archive");
        return refuse(byte, expected, "one more".into());
    }
    Ok(())
}

impl Elements<'_, '_> {
    /// Element type and length.
    fn check(&self, descr: &str, size: u64) -> Result<()> {
        let Header { shape, data_at, .. } = &self.header;
        if self.header.descr != descr {
            let found = &self.header.descr;
            return Err(self.refuse(
                npy::PREFIX as u64,
                format!("elements of type {descr}"),
                found,
            ));
        }
        let width = if descr == "|b1" {
            1
        } else {
            u64::from(descr.as_bytes()[2] - b'0')
        };
        let product = shape.iter().map(|&s| s as u64);
        let product = product.fold(width, u64::saturating_mul);
        if product.saturating_add(*data_at) != size {
            let expected = format!("{product} bytes of elements for the shape {shape:?}");
            let found = format!("{} declared by the archive", size.saturating_sub(*data_at));
            return Err(self.refuse(*data_at, expected, found));
        }
        Ok(())
    }

    /// An error about the shape.
    pub(super) fn refuse_shape(&self, expected: impl Into<String>) -> Error {
        let found = format!("{:?}", self.header.shape);
        self.refuse(
            npy::PREFIX as u64,
            format!("shape {}", expected.into()),
            found,
        )
    }

    /// Refuses column-major order.
    pub(super) fn expect_row_major(&self) -> Result<()> {
        if self.header.fortran_order {
            let found = "fortran_order: True";
            return Err(self.refuse(npy::PREFIX as u64, "row-major order", found));
        }
        Ok(())
    }

    /// The next N bytes.
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        self.reader.read_exact(out).map_err(|e| {
            let expected = format!("{} bytes that inflate without error", out.len());
            Error::format(&self.file, self.at, expected, e.to_string())
        })?;
        self.at += out.len() as u64;
        Ok(())
    }

    /// The member ends here; its checksum is compared.
    pub(super) fn end(mut self) -> Result<()> {
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.refuse(self.at, "the end of the member", "more bytes")),
            Err(e) => Err(self.refuse(self.at, "the end of a sound member", e.to_string())),
        }
    }

    /// An error about the `width` bytes read last.
    pub(super) fn refuse_last(
        &self,
        width: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        self.refuse(self.at - width, expected, found)
    }

    fn refuse(&self, byte: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::format(&self.file, byte, expected, found)
    }
}
