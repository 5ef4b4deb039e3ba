//! The words of the generated sentences.

/// The symbols that are no words.
pub const PADDING: usize = 0;
pub const CLASSIFY: usize = 1;
pub const SEPARATE: usize = 2;

/// Opening and closing brackets of two kinds, each pair side by side.
pub const BRACKETS: usize = 3;

/// Determiners: singular, plural, in pairs.
pub const DETERMINERS: usize = 7;
const DETERMINER_PAIRS: [[&str; 2]; 2] = [["this", "these"], ["that", "those"]];

/// Nouns in pairs.
pub const NOUNS: usize = DETERMINERS + 2 * DETERMINER_PAIRS.len();
pub const NOUN_COUNT: usize = 6;
const NOUN_PAIRS: [[&str; 2]; NOUN_COUNT] = [
    ["cat", "cats"],
    ["dog", "dogs"],
    ["bird", "birds"],
    ["horse", "horses"],
    ["child", "children"],
    ["woman", "women"],
];

/// Verbs in pairs.
pub const VERBS: usize = NOUNS + 2 * NOUN_COUNT;
pub const VERB_COUNT: usize = 6;
const VERB_PAIRS: [[&str; 2]; VERB_COUNT] = [
    ["sees", "see"],
    ["hears", "hear"],
    ["knows", "know"],
    ["likes", "like"],
    ["follows", "follow"],
    ["feeds", "feed"],
];

/// Participles, one per verb.
pub const PARTICIPLES: usize = VERBS + 2 * VERB_COUNT;
const PARTICIPLE_WORDS: [&str; VERB_COUNT] = ["seen", "heard", "known", "liked", "followed", "fed"];

pub const ADJECTIVES: usize = PARTICIPLES + VERB_COUNT;
pub const ADJECTIVE_COUNT: usize = 4;
const ADJECTIVE_WORDS: [&str; ADJECTIVE_COUNT] = ["old", "young", "tall", "kind"];

pub const PREPOSITIONS: usize = ADJECTIVES + ADJECTIVE_COUNT;
pub const PREPOSITION_COUNT: usize = 3;
const PREPOSITION_WORDS: [&str; PREPOSITION_COUNT] = ["near", "behind", "with"];

/// Function words, one by one.
pub const AND: usize = PREPOSITIONS + PREPOSITION_COUNT;
pub const THE: usize = AND + 1;
pub const EVERY: usize = AND + 2;
pub const SOME: usize = AND + 3;
pub const IS: usize = AND + 4;
pub const BY: usize = AND + 5;
const FUNCTION_WORDS: [&str; 6] = ["and", "the", "every", "some", "is", "by"];

/// The number of symbols.
pub const SYMBOLS: usize = AND + FUNCTION_WORDS.len();

/// All symbols as they are written.
pub fn all() -> Vec<&'static str> {
    let marks = ["[pad]", "[cls]", "[sep]", "(", ")", "[", "]"].into_iter();
    let pairs = DETERMINER_PAIRS
        .iter()
        .chain(&NOUN_PAIRS)
        .chain(&VERB_PAIRS);
    let singles = PARTICIPLE_WORDS.iter().chain(&ADJECTIVE_WORDS);
    let singles = singles.chain(&PREPOSITION_WORDS).chain(&FUNCTION_WORDS);
    marks
        .chain(pairs.flatten().copied())
        .chain(singles.copied())
        .collect()
}
