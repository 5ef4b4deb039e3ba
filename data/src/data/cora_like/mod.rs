//! `cora-like`: a generated data set with Cora's figures, for machines without Cora.
//!
//! A degree-corrected contextual stochastic block model (Karrer and Newman, 2011; Deshpande, Sen, Montanari
//! and Mossel, NeurIPS 2018) with two refinements that bring it closer to Cora: classes are divided into
//! **subtopics**, so that neighbours share more words than two arbitrary papers of one class; and some
//! papers are **between two classes**, so that neighbours of another class are concentrated on these papers,
//! and a network that averages neighbours makes errors there.
//!
//! The same as in Cora: nodes, edges, features, feature non-zeros, class sizes, edge homophily, split sizes,
//! no isolated node. About the same: degrees and their tail, words per node and nodes per word, words shared
//! along edges, and how well the classes can be told apart by features alone and by features with the graph.

mod papers;
mod words;

use super::{Dataset, Split};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

/// Nodes of each class, as in Cora.
const CLASS_SIZES: [usize; 7] = [351, 217, 418, 818, 426, 298, 180];
/// All nodes.
const NODES: usize = 2708;
/// Undirected edges.
const EDGES: usize = 5278;
/// Edges that join two nodes of one class: 81.00 %, as in Cora.
const EDGES_WITHIN: usize = 4275;
/// Features: words that a node has or has not.
const WORDS: usize = 1433;
/// Feature non-zeros.
const NON_ZEROS: usize = 49216;
/// Training nodes per class, validation nodes, test nodes.
const TRAIN_A_CLASS: usize = 20;
const VAL: usize = 500;
const TEST: usize = 1000;

/// The free parameters of the model.
#[derive(Debug)]
struct Model {
    /// Nodes per subtopic, about.
    subtopic_size: usize,
    /// Words per subtopic, drawn from all words: a small group of papers may look like another class, while
    /// neighbours look alike.
    subtopic_vocabulary: usize,
    /// The exponent α of the tail P(θ > x) = x^−α of the nodes' attraction θ for edges.
    tail: f64,
    /// The share of the edges within a class that is tried within a subtopic first.
    near: f64,
    /// The share of nodes between two classes. All edges across classes lead from them to their second class.
    between: f64,
    /// The attraction, within its own class, of a node between two classes, relative to that of another node.
    loyalty: f64,
    /// The share of a node's words that is drawn from the words of its subtopic …
    subtopic_words: f64,
    /// … and the share from the words of its class; the rest comes from all words.
    class_words: f64,
    /// The share of the class words of a node between two classes that is taken from its second class.
    second_words: f64,
}

/// Chosen by training a two-layer GCN (16 hidden, dropout 0.5, Adam 0.01, 200 epochs) and the same network
/// without edges on five seeds, until both came near their accuracies on Cora.
const MODEL: Model = Model {
    subtopic_size: 25,
    subtopic_vocabulary: 30,
    tail: 1.6,
    near: 0.8,
    between: 0.18,
    loyalty: 0.15,
    subtopic_words: 0.42,
    class_words: 0.25,
    second_words: 0.8,
};

/// Draws the data set: the same bits for the same seed.
pub fn cora_like(seed: u64) -> Dataset {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let papers = papers::draw(&MODEL, &mut rng);
    let graph = papers::edges(&MODEL, &papers, &mut rng);
    let features = words::draw(&MODEL, &papers, &mut rng);
    let labels: Vec<usize> = papers.iter().map(|p| p.class).collect();
    let split = public_like_split(&labels, &mut rng);
    let classes = CLASS_SIZES.len();
    Dataset::new("cora-like", graph, features, labels, classes, vec![split])
        .unwrap_or_else(|e| panic!("{e}"))
}

/// 20 nodes per class to train on, 500 to validate, 1000 to test, at random.
fn public_like_split(labels: &[usize], rng: &mut ChaCha8Rng) -> Split {
    let mut order: Vec<usize> = (0..NODES).collect();
    order.shuffle(rng);
    let mut taken = [0; CLASS_SIZES.len()];
    let (train, rest): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|&i| {
        taken[labels[i]] += 1;
        taken[labels[i]] <= TRAIN_A_CLASS
    });
    Split::from_indices(NODES, &train, &rest[..VAL], &rest[VAL..VAL + TEST])
}
