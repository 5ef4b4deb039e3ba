//! Texts from files.

use super::Text;
use crate::data::files::read_bounded;
use crate::data::{Files, locate};
use crate::error::{Error, Result, printable};
use std::path::Path;

/// The longest file that is read: 256 MiB.
const LIMIT: usize = 1 << 28;

const SHAKESPEARE: Files = Files {
    names: &["input.txt"],
    folders: &["NAME", ""],
    address: "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/",
};

/// Tiny Shakespeare (Karpathy's char-rnn), 1 115 394 characters of 65 symbols: the first 1 003 854 train, the
/// other 111 540 validate, as in nanoGPT.
///
/// `folder` is the only place to look in; `None` stands for those that [`locate`] names.
///
/// # Errors
/// [`Error::NotFound`] if `input.txt` is in no folder `tinyshakespeare`, nor in the places themselves; or as
/// [`from_file`].
pub fn tiny_shakespeare(folder: Option<&Path>) -> Result<Text> {
    let roots = locate::roots(folder);
    let what = "the text Tiny Shakespeare";
    let path = SHAKESPEARE.find(&roots, what, "tinyshakespeare", "Tiny Shakespeare")?;
    let path = path.join(SHAKESPEARE.names[0]);
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
