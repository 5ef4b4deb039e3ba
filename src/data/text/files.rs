//! Texts from files.

use super::Text;
use crate::data::files::read_bounded;
use crate::data::locate;
use crate::error::{Error, Result, printable};
use std::path::{Path, PathBuf};

/// The longest file that is read: 256 MiB.
const LIMIT: usize = 1 << 28;

/// Tiny Shakespeare (Karpathy's char-rnn), 1 115 394 characters of 65 symbols: the first 1 003 854 train, the
/// other 111 540 validate, as in nanoGPT.
///
/// `folder` is the only place to look in; `None` stands for those that [`locate`] names.
///
/// # Errors
/// [`Error::NotFound`] if `input.txt` is in no folder `tinyshakespeare`, nor in the places themselves; or as
/// [`from_file`].
pub fn tiny_shakespeare(folder: Option<&Path>) -> Result<Text> {
    let address =
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/";
    let set = Set {
        title: "Tiny Shakespeare",
        folder: "tinyshakespeare",
        files: &["input.txt"],
        address,
    };
    let path = set.find(folder)?.join(set.files[0]);
    Text::split("tinyshakespeare", &read(&path)?)
}

/// A file in UTF-8 of up to 256 MiB: the first nine tenths of its characters train, the rest validates.
///
/// # Errors
/// [`Error::Io`] if it cannot be read or is not a regular file. [`Error::Format`] with the first byte that is
/// not UTF-8. [`Error::Invalid`] if the text is [too short](Text::split).
pub fn from_file(path: &Path) -> Result<Text> {
    let text = read(path)?;
    Text::split(printable(path), &text)
}

/// The text of a file in UTF-8 of up to 256 MiB.
///
/// # Errors
/// [`Error::Io`] if it cannot be read or is not a regular file. [`Error::Format`] with the first byte that is
/// not UTF-8.
pub fn read(path: &Path) -> Result<String> {
    let bytes = read_bounded(path, LIMIT)?;
    String::from_utf8(bytes).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let found = format!("the byte 0x{:02x}", error.as_bytes()[byte]);
        Error::format(path, byte as u64, "text in UTF-8", found)
    })
}

/// Files that belong together.
pub(super) struct Set {
    pub title: &'static str,
    pub folder: &'static str,
    pub files: &'static [&'static str],
    pub address: &'static str,
}

impl Set {
    /// The first folder that has all the files.
    pub fn find(&self, folder: Option<&Path>) -> Result<PathBuf> {
        let roots = locate::roots(folder);
        let places = |root: &PathBuf| [root.join(self.folder), root.clone()];
        let folders: Vec<PathBuf> = roots.iter().flat_map(places).collect();
        let whole = |folder: &&PathBuf| self.files.iter().all(|file| folder.join(file).is_file());
        if let Some(folder) = folders.iter().find(whole) {
            return Ok(folder.clone());
        }
        let files = self.files.join(", ");
        let addresses: Vec<_> = (self.files.iter())
            .map(|file| self.address.to_owned() + file)
            .collect();
        Err(Error::NotFound {
            what: format!("the text {} ({files})", self.title),
            looked: folders,
            address: addresses.join("\n  "),
        })
    }
}
