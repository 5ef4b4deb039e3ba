//! The words of the nodes of `cora-like`.

use super::papers::{Paper, Weighted, first_subtopics};
use super::{CLASS_SIZES, Model, NODES, NON_ZEROS, WORDS};
use crate::sparse::{Csr, Pattern};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::seq::index::sample;
use rand_distr::{Distribution, LogNormal, Normal};

/// The spread σ of the popularity of words, ln π ~ N(0, σ²): the most frequent word of Cora is in 1083 nodes,
/// the median one in 15.
const SPREAD: f64 = 1.3;
/// Nodes have up to 30 words; most have about 20, one in five is shorter, with any number from 1 to 16.
const LONGEST: usize = 30;
const SHORT: f64 = 0.2;
const SHORTER_THAN: usize = 17;

/// The vocabularies: of all words, of each class, of each subtopic.
struct Vocabulary {
    all: Weighted<u32>,
    classes: Vec<Weighted<u32>>,
    subtopics: Vec<Weighted<u32>>,
}

/// A row of 0 and 1 for every node.
pub(super) fn draw(model: &Model, papers: &[Paper], rng: &mut ChaCha8Rng) -> Csr<f32> {
    let vocabulary = vocabulary(model, rng);
    let lengths = lengths(rng);
    let (mut indptr, mut indices) = (vec![0], Vec::with_capacity(NON_ZEROS));
    for (paper, &length) in papers.iter().zip(&lengths) {
        let start = indices.len();
        while indices.len() < start + length {
            let word = vocabulary.word(model, paper, rng);
            if !indices[start..].contains(&word) {
                indices.push(word);
            }
        }
        indices[start..].sort_unstable();
        indptr.push(indices.len());
    }
    let pattern = Pattern::new(NODES, WORDS, indptr, indices).unwrap_or_else(|e| panic!("{e}"));
    Csr::new(pattern, vec![1.0; NON_ZEROS])
}

/// Every word is a word of one class. The words of a subtopic are drawn from all words, so that a small group
/// of papers may look like another class.
fn vocabulary(model: &Model, rng: &mut ChaCha8Rng) -> Vocabulary {
    let popularity = LogNormal::new(0.0, SPREAD).expect("a finite spread");
    let mut weights: Vec<f64> = (0..WORDS).map(|_| popularity.sample(rng)).collect();
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    // Dealt out like cards: every class gets as many popular words as any other.
    let mut homes = Vec::with_capacity(WORDS + CLASS_SIZES.len());
    while homes.len() < WORDS {
        let mut deal: Vec<usize> = (0..CLASS_SIZES.len()).collect();
        deal.shuffle(rng);
        homes.extend(deal);
    }
    let weighted = |words: &mut dyn Iterator<Item = usize>| {
        Weighted::new(words.map(|w| (w as u32, weights[w])))
    };
    let subtopics = first_subtopics(model)[CLASS_SIZES.len()];
    Vocabulary {
        all: weighted(&mut (0..WORDS)),
        classes: (0..CLASS_SIZES.len())
            .map(|c| weighted(&mut (0..WORDS).filter(|&w| homes[w] == c)))
            .collect(),
        subtopics: (0..subtopics)
            .map(|_| {
                let words = sample(rng, WORDS, model.subtopic_vocabulary);
                weighted(&mut words.into_iter())
            })
            .collect(),
    }
}

impl Vocabulary {
    fn word(&self, model: &Model, paper: &Paper, rng: &mut ChaCha8Rng) -> u32 {
        let u: f64 = rng.random();
        if u >= model.class_words + model.subtopic_words {
            return self.all.draw(rng);
        }
        if u < model.subtopic_words {
            return self.subtopics[paper.subtopic].draw(rng);
        }
        let leans = paper.second.filter(|_| rng.random_bool(model.second_words));
        self.classes[leans.unwrap_or(paper.class)].draw(rng)
    }
}

/// The number of words of each node; the numbers sum to [`NON_ZEROS`].
fn lengths(rng: &mut ChaCha8Rng) -> Vec<usize> {
    let usual = Normal::new(20.5_f64, 2.6).expect("a finite spread");
    let mut lengths: Vec<usize> = (0..NODES)
        .map(|_| {
            if rng.random_bool(SHORT) {
                rng.random_range(1..SHORTER_THAN)
            } else {
                (usual.sample(rng).round() as usize).clamp(1, LONGEST)
            }
        })
        .collect();
    let mut total: usize = lengths.iter().sum();
    while total != NON_ZEROS {
        let i = rng.random_range(0..NODES);
        if total < NON_ZEROS && lengths[i] < LONGEST {
            (lengths[i], total) = (lengths[i] + 1, total + 1);
        } else if total > NON_ZEROS && lengths[i] > 1 {
            (lengths[i], total) = (lengths[i] - 1, total - 1);
        }
    }
    lengths
}
