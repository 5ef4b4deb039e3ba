//! Texts for models that predict the next symbol: characters as numbers, in parts for training, validation
//! and test.
//!
//! | text | from | symbols |
//! |---|---|---|
//! | Tiny Shakespeare | [`tiny_shakespeare`], `tinyshakespeare/input.txt` | 65 |
//! | Penn Treebank, character by character | [`penn_treebank`], `ptb/ptb.{train,valid,test}.txt` | 50 |
//! | any file in UTF-8 | [`from_file`] | its characters |
//!
//! Files are looked for where those of the graphs are ([`locate`](super::locate)): in a folder of their own,
//! or in the folder itself.
//!
//! ```
//! use emmy::data::text::{Text, Windows};
//!
//! let verse = "Twinkle, twinkle, little bat! How I wonder what you're at!";
//! let text = Text::split("verse", verse)?; // a file: text::from_file
//! let word = text.encode("word", "bat")?;
//! assert_eq!(text.decode(&word), "bat");
//!
//! // Two windows of eight characters each, and the character that follows.
//! let windows = Windows::new("training text", text.train.len(), 8)?;
//! for start in windows.random(2, &mut emmy::init::rng(0)) {
//!     println!("{:?}", text.decode(&text.train[start..start + 9]));
//! }
//! # Ok::<(), emmy::Error>(())
//! ```

mod files;
mod penn;
mod windows;

pub use files::{from_file, read, tiny_shakespeare};
pub use penn::penn_treebank;
pub use windows::{Window, Windows};

use crate::error::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A symbol as a number: its place in [`Text::symbols`].
pub type Symbol = u16;

/// The most symbols of a text.
const MOST_SYMBOLS: usize = 1 << 16;

/// Where the symbols come from, for messages.
const OWN: &str = "symbols of the text";
const GIVEN: &str = "given symbols";

/// A text as numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The characters, each once; sorted, unless they were [given](Text::with_symbols).
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
        Self::coded(source, symbols, OWN, [train, validation, test])
    }

    /// A text in three parts, which may be empty, with given symbols in a given order: those of a model that
    /// was trained on another text, or in another program.
    ///
    /// ```
    /// use emmy::data::text::Text;
    ///
    /// let text = Text::with_symbols("notes", vec!['c', 'a', 'b'], "abba", "cab", "")?;
    /// assert_eq!(text.train, [1, 2, 2, 1]);
    /// let refused = text.encode("prompt", "abba!").unwrap_err().to_string();
    /// assert_eq!(
    ///     refused,
    ///     "prompt: expected characters among the 3 symbols of the text, found '!' (U+0021) as character 5"
    /// );
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a character is not among the symbols: the message names the part and the first such character. If
    /// there is no symbol, one comes twice, or there are more than 65 536.
    pub fn with_symbols(
        source: impl Into<String>,
        symbols: Vec<char>,
        train: &str,
        validation: &str,
        test: &str,
    ) -> Result<Self> {
        let source = source.into();
        check_symbols(&format!("{source}: symbols"), &symbols)?;
        Self::coded(source, symbols, GIVEN, [train, validation, test])
    }

    fn coded(
        source: String,
        symbols: Vec<char>,
        whose: &str,
        [train, validation, test]: [&str; 3],
    ) -> Result<Self> {
        let encode =
            |name: &str, part: &str| encode(&symbols, whose, &format!("{source}: {name}"), part);
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
        let mut train = encode(&symbols, OWN, &source, text)?;
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

    /// The same text with other symbols.
    ///
    /// # Errors
    /// As [`with_symbols`](Self::with_symbols).
    pub fn recoded(&self, symbols: Vec<char>) -> Result<Self> {
        let [train, validation, test] =
            [&self.train, &self.validation, &self.test].map(|part| self.decode(part));
        Self::with_symbols(&self.source, symbols, &train, &validation, &test)
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
        encode(&self.symbols, OWN, what, text)
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
    if symbols.is_empty() {
        return Err(Error::invalid(source, "a text", "no character"));
    }
    check_symbols(source, &symbols)?;
    Ok(symbols)
}

/// Refuses symbols that cannot be numbered.
fn check_symbols(what: &str, symbols: &[char]) -> Result<()> {
    let count = symbols.len();
    if !(1..=MOST_SYMBOLS).contains(&count) {
        let rule = format!("at least one and at most {MOST_SYMBOLS} different characters");
        return Err(Error::invalid(what, rule, count.to_string()));
    }
    let mut seen = BTreeSet::new();
    match symbols.iter().find(|&&symbol| !seen.insert(symbol)) {
        None => Ok(()),
        Some(twice) => {
            let found = format!("{twice:?} twice");
            Err(Error::invalid(what, "each character once", found))
        }
    }
}

fn encode(symbols: &[char], whose: &str, what: &str, text: &str) -> Result<Vec<Symbol>> {
    // Almost all characters of most texts are ASCII.
    let mut ascii = [None; 128];
    let mut others = BTreeMap::new();
    for (place, &symbol) in symbols.iter().enumerate() {
        match ascii.get_mut(symbol as usize) {
            Some(of_symbol) => *of_symbol = Some(place as Symbol),
            None => {
                others.insert(symbol, place as Symbol);
            }
        }
    }
    let place = |symbol: char| match ascii.get(symbol as usize) {
        Some(place) => *place,
        None => others.get(&symbol).copied(),
    };
    let mut out = Vec::with_capacity(text.len());
    for (k, symbol) in text.chars().enumerate() {
        let Some(place) = place(symbol) else {
            let code = u32::from(symbol);
            return Err(Error::invalid(
                what,
                format!("characters among the {} {whose}", symbols.len()),
                format!("{symbol:?} (U+{code:04X}) as character {}", k + 1),
            ));
        };
        out.push(place);
    }
    out.shrink_to_fit();
    Ok(out)
}
