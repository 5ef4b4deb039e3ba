//! Members of an `.npz` archive, inflated piece by piece: nothing is allocated because a file says so, only because bytes came.

use super::npy::{self, Header};
use crate::error::{Error, Result};
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use zip::ZipArchive;
use zip::read::ZipFile;

/// The longest archive that is read, in bytes: 64 MiB. The longest published one has 704 277.
pub(super) const MAX_ARCHIVE: usize = 64 << 20;

/// The longest member that is inflated, in bytes: 128 MiB. The longest published one has 43 459 684.
const MAX_MEMBER: u64 = 128 << 20;

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
        match ZipArchive::new(Cursor::new(bytes)) {
            Ok(archive) => Ok(Self { file, archive }),
            Err(e) => {
                // The directory of a ZIP archive ends with a record of 22 bytes at the end of the file.
                let byte = bytes.len().saturating_sub(22) as u64;
                let expected = "a ZIP archive with its directory at the end";
                Err(Error::format(file, byte, expected, e.to_string()))
            }
        }
    }

    /// Opens the member `name`, reads its header and checks that its element type is `descr` and its length that of its shape.
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
        if size > MAX_MEMBER {
            let expected =
                format!("the end of the member: at most {MAX_MEMBER} bytes are inflated");
            return Err(Error::format(
                file,
                MAX_MEMBER,
                expected,
                format!("{size} bytes"),
            ));
        }
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
            let found = format!("{} declared by the archive", size as i64 - *data_at as i64);
            return Err(self.refuse(*data_at, expected, found));
        }
        Ok(())
    }

    /// A complaint about the shape.
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

    /// A complaint about the `width` bytes read last.
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
