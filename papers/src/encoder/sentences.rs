//! Sentences of a small grammar with a class each, generated from a seed: the two tasks.

use crate::encoder::words::*;
use clap::ValueEnum;
use emmy::init::{self, Rng};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The task: the question about a sentence.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// Whether words agree and are in order, and brackets are balanced: like CoLA
    Acceptability,
    /// Whether the second sentence follows from the first: like RTE
    Entailment,
}

/// The longest sequence of symbols.
pub const CONTEXT: usize = 32;

/// A sequence of symbols, the segment of each, and the class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sentence {
    pub symbols: Vec<usize>,
    pub segments: Vec<usize>,
    pub class: usize,
}

impl Sentence {
    /// [cls] first [sep], and second [sep] if there is one.
    fn new(first: &[usize], second: &[usize], class: usize) -> Self {
        let mut symbols = [&[CLASSIFY], first, &[SEPARATE]].concat();
        let mut segments = vec![0; symbols.len()];
        if !second.is_empty() {
            symbols.extend(second.iter().copied().chain([SEPARATE]));
            segments.resize(symbols.len(), 1);
        }
        Self {
            symbols,
            segments,
            class,
        }
    }

    /// The words.
    pub fn text(&self) -> String {
        let words = all();
        let written = self.symbols.iter().map(|&s| words[s]);
        written.collect::<Vec<_>>().join(" ")
    }
}

/// Training sentences and other test sentences, with equally many of each class.
pub fn sentences(task: Task, [train, test]: [usize; 2], seed: u64) -> [Vec<Sentence>; 2] {
    let rng = &mut init::rng(seed);
    let mut known = HashSet::new();
    let mut out = Vec::with_capacity(train + test);
    while out.len() < train + test {
        let class = out.len() % 2;
        let sentence = match task {
            Task::Acceptability => acceptability(class, rng),
            Task::Entailment => entailment(class, rng),
        };
        if sentence.symbols.len() <= CONTEXT && known.insert(sentence.symbols.clone()) {
            out.push(sentence);
        }
    }
    let rest = out.split_off(train);
    [out, rest]
}

fn one_of(count: usize, rng: &mut Rng) -> usize {
    rng.random_range(0..count)
}

/// One of a list of pairs, in its singular or its plural.
fn of_pair(first: usize, count: usize, plural: bool, rng: &mut Rng) -> usize {
    first + 2 * one_of(count, rng) + usize::from(plural)
}

/// The other member of a pair whose list begins at `first`.
fn other(symbol: usize, first: usize) -> usize {
    first + ((symbol - first) ^ 1)
}

/// A sentence under construction, with the places where a rule can be broken.
#[derive(Default)]
struct Draft {
    symbols: Vec<usize>,
    determiners: Vec<usize>,
    verbs: Vec<usize>,
    closing: Vec<usize>,
}

impl Draft {
    fn push(&mut self, symbol: usize) {
        self.symbols.push(symbol);
    }

    /// determiner (adjective) noun (prepositional phrase in brackets)
    fn noun_phrase(&mut self, plural: bool, phrases: usize, rng: &mut Rng) {
        self.determiners.push(self.symbols.len());
        self.push(of_pair(DETERMINERS, 2, plural, rng));
        if rng.random_bool(0.4) {
            self.push(ADJECTIVES + one_of(ADJECTIVE_COUNT, rng));
        }
        self.push(of_pair(NOUNS, NOUN_COUNT, plural, rng));
        if phrases == 0 || !rng.random_bool(0.7) {
            return;
        }
        let bracket = BRACKETS + 2 * one_of(2, rng);
        self.push(bracket);
        self.push(PREPOSITIONS + one_of(PREPOSITION_COUNT, rng));
        self.noun_phrase(rng.random_bool(0.5), phrases - 1, rng);
        self.closing.push(self.symbols.len());
        self.push(bracket + 1);
    }
}

/// noun-phrase verb noun-phrase; a sentence of class 0 breaks each rule once.
fn acceptability(class: usize, rng: &mut Rng) -> Sentence {
    let mut draft = Draft::default();
    let plural = rng.random_bool(0.5);
    draft.noun_phrase(plural, 1, rng);
    draft.verbs.push(draft.symbols.len());
    draft.push(of_pair(VERBS, VERB_COUNT, plural, rng));
    draft.noun_phrase(rng.random_bool(0.5), 1, rng);
    let Draft {
        mut symbols,
        determiners,
        verbs,
        closing,
    } = draft;
    if class == 0 {
        let at = verbs[0];
        symbols[at] = other(symbols[at], VERBS);
        let at = determiners[one_of(determiners.len(), rng)];
        symbols[at] = other(symbols[at], DETERMINERS);
        if let Some(&at) = closing.first() {
            // The closing bracket of the other kind, or none.
            if rng.random_bool(0.5) {
                symbols[at] = (BRACKETS + 1) + ((symbols[at] - BRACKETS - 1) ^ 2);
            } else {
                symbols.remove(at);
            }
        }
        // Two neighbouring words are exchanged; no sentence has two words of one kind next to each other.
        let at = one_of(symbols.len() - 1, rng);
        symbols.swap(at, at + 1);
    }
    Sentence::new(&symbols, &[], class)
}

/// A premise and a hypothesis of one of four templates, the premise alone or beside another clause. Both
/// classes of a template have the same words.
fn entailment(class: usize, rng: &mut Rng) -> Sentence {
    let follows = class == 1;
    let noun = |rng: &mut Rng| of_pair(NOUNS, NOUN_COUNT, false, rng);
    let two = |rng: &mut Rng| {
        let a = one_of(NOUN_COUNT, rng);
        let b = (a + 1 + one_of(NOUN_COUNT - 1, rng)) % NOUN_COUNT;
        [NOUNS + 2 * a, NOUNS + 2 * b]
    };
    let verb = one_of(VERB_COUNT, rng);
    let sees = VERBS + 2 * verb;
    let [a, b] = two(rng);
    let active = |a, b| vec![THE, a, sees, THE, b];
    let (premise, hypothesis) = match one_of(4, rng) {
        // The same clause, or the clause with subject and object exchanged.
        0 => (
            active(a, b),
            if follows { active(a, b) } else { active(b, a) },
        ),
        // The passive.
        1 => {
            let passive = |a, b| vec![THE, a, IS, PARTICIPLES + verb, BY, THE, b];
            let told = if follows {
                passive(b, a)
            } else {
                passive(a, b)
            };
            (active(a, b), told)
        }
        // Every is stronger than some.
        2 => {
            let strong = vec![EVERY, a, sees, THE, b];
            let weak = vec![SOME, a, sees, THE, b];
            if follows {
                (strong, weak)
            } else {
                (weak, strong)
            }
        }
        // A clause with an adjective says more than one without.
        _ => {
            let more = vec![
                THE,
                ADJECTIVES + one_of(ADJECTIVE_COUNT, rng),
                a,
                sees,
                THE,
                b,
            ];
            if follows {
                (more, active(a, b))
            } else {
                (active(a, b), more)
            }
        }
    };
    // Another verb, so that the other clause says nothing about the hypothesis.
    let another = (verb + 1 + one_of(VERB_COUNT - 1, rng)) % VERB_COUNT;
    let other = [THE, noun(rng), VERBS + 2 * another, THE, noun(rng)];
    let premise = match one_of(3, rng) {
        0 => premise,
        1 => [&premise[..], &[AND], &other].concat(),
        _ => [&other[..], &[AND], &premise].concat(),
    };
    Sentence::new(&premise, &hypothesis, class)
}
