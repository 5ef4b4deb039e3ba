//! Texts for models that predict the next symbol: characters as numbers, in parts for training, validation
//! and test.
//!
//! | text | from | symbols |
//! |---|---|---|
//! | Tiny Shakespeare | [`tiny_shakespeare`], `tinyshakespeare/input.txt` | 65 |
//! | Penn Treebank, character by character | [`penn_treebank`], `ptb/ptb.{train,valid,test}.txt` | 50 |
//! | any file in UTF-8 | [`from_file`] | its characters |
//! | the documents of this project | [`book`] | their characters |
//!
//! Files are looked for where those of the graphs are ([`locate`](super::locate)): in a folder of their own,
//! or in the folder itself.
//!
//! ```
//! use emmy::data::text::{self, Windows};
//!
//! let book = text::book();
//! let word = book.encode("word", "graph")?;
//! assert_eq!(book.decode(&word), "graph");
//!
//! // Two windows of eight characters each, and the character that follows.
//! let windows = Windows::new("training text", book.train.len(), 8)?;
//! for start in windows.random(2, &mut emmy::init::rng(0)) {
//!     println!("{:?}", book.decode(&book.train[start..start + 9]));
//! }
//! # Ok::<(), emmy::Error>(())
//! ```

mod book;
mod files;
mod penn;
mod windows;

pub use book::book;
pub use files::{from_file, tiny_shakespeare};
pub use penn::penn_treebank;
pub use windows::{Window, Windows};

use crate::error::{Error, Result};
use std::collections::BTreeSet;

/// A symbol as a number: its place in [`Text::symbols`].
pub type Symbol = u16;

/// The most symbols of a text.
const MOST_SYMBOLS: usize = 1 << 16;

/// A text as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The characters, sorted, each once.
    pub symbols: Vec<char>,
    /// The part to learn from.
    pub train: Vec<Symbol>,
    /// The part to choose by.
    pub validation: Vec<Symbol>,
    /// The part to report; empty where the text has none.
    pub test: Vec<Symbol>,
    /// The name of the text.
    pub source: String,
}

impl Text {
    /// A text in three parts, whose symbols are the characters of the first. The test part may be empty.
    ///
    /// # Errors
    /// If a character of validation or test is not among the symbols: a model cannot have learnt it. If there
    /// are more than 65 536 symbols.
    pub fn new(
        source: impl Into<String>,
        train: &str,
        validation: &str,
        test: &str,
    ) -> Result<Self> {
        let source = source.into();
        let symbols = symbols_of(&source, train)?;
        let encode = |name: &str, part: &str| encode(&symbols, &format!("{source}: {name}"), part);
        Ok(Self {
            train: encode("training text", train)?,
            validation: encode("validation text", validation)?,
            test: encode("test text", test)?,
            source,
            symbols,
        })
    }

    /// A text whose first nine tenths, ⌊0.9 n⌋ of n characters, train, and whose rest validates. The symbols
    /// are the characters of the whole text, as in Karpathy's nanoGPT.
    ///
    /// # Errors
    /// If one of the parts would have less than two characters, so that nothing in it has a successor, or
    /// there are more than 65 536 symbols.
    pub fn split(source: impl Into<String>, text: &str) -> Result<Self> {
        let source = source.into();
        let symbols = symbols_of(&source, text)?;
        let mut train = encode(&symbols, &source, text)?;
        let first = (train.len() as u128 * 9 / 10) as usize;
        if train.len() - first < 2 {
            let rule = "at least 11 characters: nine tenths train, and two or more validate";
            return Err(Error::invalid(source, rule, train.len().to_string()));
        }
        Ok(Self {
            validation: train.split_off(first),
            train,
            test: Vec::new(),
            source,
            symbols,
        })
    }

    /// The number of symbols.
    pub fn symbol_count(&self) -> usize {
        self.symbols.len()
    }

    /// A text as numbers; an error says what it is, by `what`.
    ///
    /// # Errors
    /// If a character is not among the symbols; the message names the first.
    pub fn encode(&self, what: &str, text: &str) -> Result<Vec<Symbol>> {
        encode(&self.symbols, what, text)
    }

    /// Numbers as a text.
    ///
    /// # Panics
    /// If one is not below the number of symbols.
    #[track_caller]
    pub fn decode(&self, symbols: &[Symbol]) -> String {
        let known = self.symbols.len();
        let decode = |&symbol: &Symbol| match self.symbols.get(usize::from(symbol)) {
            Some(&symbol) => symbol,
            None => panic!("decode: symbol {symbol}, the text has {known}"),
        };
        symbols.iter().map(decode).collect()
    }
}

fn symbols_of(source: &str, text: &str) -> Result<Vec<char>> {
    let symbols: Vec<char> = text.chars().collect::<BTreeSet<_>>().into_iter().collect();
    match symbols.len() {
        0 => Err(Error::invalid(source, "a text", "no character")),
        n if n > MOST_SYMBOLS => {
            let rule = format!("at most {MOST_SYMBOLS} different characters");
            Err(Error::invalid(source, rule, n.to_string()))
        }
        _ => Ok(symbols),
    }
}

fn encode(symbols: &[char], what: &str, text: &str) -> Result<Vec<Symbol>> {
    // Almost all characters of most texts are ASCII.
    let mut ascii = [None; 128];
    for (place, &symbol) in symbols.iter().enumerate() {
        if symbol.is_ascii() {
            ascii[symbol as usize] = Some(place as Symbol);
        }
    }
    let place = |symbol: char| match ascii.get(symbol as usize) {
        Some(place) => *place,
        None => (symbols.binary_search(&symbol).ok()).map(|place| place as Symbol),
    };
    let mut out = Vec::with_capacity(text.len());
    for (k, symbol) in text.chars().enumerate() {
        let Some(place) = place(symbol) else {
            let code = u32::from(symbol);
            return Err(Error::invalid(
                what,
                format!("characters among the {} symbols of the text", symbols.len()),
                format!("{symbol:?} (U+{code:04X}) as character {}", k + 1),
            ));
        };
        out.push(place);
    }
    out.shrink_to_fit();
    Ok(out)
}
