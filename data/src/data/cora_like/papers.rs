//! The nodes of `cora-like` and the edges between them.

use super::{CLASS_SIZES, EDGES, EDGES_WITHIN, Model, NODES};
use crate::graph::{Duplicates, Graph, SelfLoops};
use rand::RngExt;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use std::collections::HashSet;

/// A node before it has edges and words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paper {
    pub(super) class: usize,
    /// Numbered over all classes.
    pub(super) subtopic: usize,
    /// The second class, for nodes between two classes.
    pub(super) second: Option<usize>,
    /// The attraction θ: the expected number of edges is proportional to it.
    attraction: f64,
}

/// Items that are drawn with probabilities proportional to their weights.
pub(super) struct Weighted<T> {
    things: Vec<T>,
    /// The cumulative sums of the weights.
    sums: Vec<f64>,
}

impl<T: Copy> Weighted<T> {
    pub(super) fn new(pairs: impl Iterator<Item = (T, f64)>) -> Self {
        let (mut things, mut sums, mut sum) = (Vec::new(), Vec::new(), 0.0);
        for (thing, weight) in pairs {
            sum += weight;
            things.push(thing);
            sums.push(sum);
        }
        Self { things, sums }
    }

    /// Draws one item.
    pub(super) fn draw(&self, rng: &mut ChaCha8Rng) -> T {
        let total = self.sums.last().copied().unwrap_or_default();
        let u = rng.random::<f64>() * total;
        let k = self.sums.partition_point(|&s| s <= u);
        self.things[k.min(self.things.len() - 1)]
    }
}

/// Classes, subtopics, second classes and attractions of all nodes, in random order.
pub(super) fn draw(model: &Model, rng: &mut ChaCha8Rng) -> Vec<Paper> {
    let mut classes = crate::graph::generators::block_labels(&CLASS_SIZES);
    classes.shuffle(rng);
    // The quantiles of the distribution rather than draws from it: every seed has the same tail.
    let mut attractions: Vec<f64> = (0..NODES)
        .map(|k| ((k as f64 + 0.5) / NODES as f64).powf(-model.tail.recip()))
        .collect();
    attractions.shuffle(rng);
    let first = first_subtopics(model);
    let nodes = classes.into_iter().zip(attractions);
    nodes
        .map(|(class, attraction)| Paper {
            class,
            subtopic: rng.random_range(first[class]..first[class + 1]),
            second: rng.random_bool(model.between).then(|| {
                let other = rng.random_range(0..CLASS_SIZES.len() - 1);
                other + usize::from(other >= class)
            }),
            attraction,
        })
        .collect()
}

/// The first subtopic of each class, and last the number of subtopics.
pub(super) fn first_subtopics(model: &Model) -> Vec<usize> {
    let mut first = vec![0];
    for size in CLASS_SIZES {
        first.push(first[first.len() - 1] + size.div_ceil(model.subtopic_size));
    }
    first
}

/// The graph: one edge for every node first, so that none is isolated, then as many of each kind as are
/// missing.
pub(super) fn edges(model: &Model, papers: &[Paper], rng: &mut ChaCha8Rng) -> Graph {
    let groups = Groups::new(model, papers);
    let mut found = Found::default();
    let mut order: Vec<usize> = (0..NODES).collect();
    order.shuffle(rng);
    for i in order {
        while !found.met[i] {
            // A node between two classes finds its first neighbour mostly in the other one.
            if papers[i].second.is_some() && !rng.random_bool(0.5 * model.loyalty) {
                found.add_across(i, &groups, rng);
            } else {
                found.add_within(i, &groups, rng);
            }
        }
    }
    while found.within < EDGES_WITHIN {
        found.add_within(groups.all.draw(rng), &groups, rng);
    }
    while found.across < EDGES - EDGES_WITHIN {
        found.add_across(groups.between.draw(rng), &groups, rng);
    }
    let graph = Graph::new(NODES, &found.list, Duplicates::Reject, SelfLoops::Reject);
    graph.unwrap_or_else(|e| panic!("{e}")).symmetrise()
}

/// Nodes by class and subtopic, weighted by attraction.
struct Groups<'a> {
    papers: &'a [Paper],
    near: f64,
    all: Weighted<usize>,
    between: Weighted<usize>,
    classes: Vec<Weighted<usize>>,
    subtopics: Vec<Weighted<usize>>,
}

impl<'a> Groups<'a> {
    fn new(model: &Model, papers: &'a [Paper]) -> Self {
        let weighted = |weight: &dyn Fn(&Paper) -> f64| {
            Weighted::new(
                papers
                    .iter()
                    .map(weight)
                    .enumerate()
                    .filter(|&(_, w)| w > 0.0),
            )
        };
        let home = |p: &Paper| match p.second {
            None => p.attraction,
            Some(_) => model.loyalty * p.attraction,
        };
        let group =
            |member: &dyn Fn(&Paper) -> bool| weighted(&|p| if member(p) { home(p) } else { 0.0 });
        let subtopics = first_subtopics(model)[CLASS_SIZES.len()];
        Self {
            papers,
            near: model.near,
            all: group(&|_| true),
            between: weighted(&|p| p.second.map_or(0.0, |_| p.attraction)),
            classes: (0..CLASS_SIZES.len())
                .map(|c| group(&|p| p.class == c))
                .collect(),
            subtopics: (0..subtopics)
                .map(|t| group(&|p| p.subtopic == t))
                .collect(),
        }
    }
}

/// The edges found so far.
struct Found {
    list: Vec<(u32, u32)>,
    known: HashSet<(u32, u32)>,
    met: Vec<bool>,
    within: usize,
    across: usize,
}

impl Default for Found {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            known: HashSet::new(),
            met: vec![false; NODES],
            within: 0,
            across: 0,
        }
    }
}

impl Found {
    /// An edge from node i to a node of its class, mostly of its subtopic.
    fn add_within(&mut self, i: usize, groups: &Groups, rng: &mut ChaCha8Rng) {
        let paper = &groups.papers[i];
        let near = rng.random_bool(groups.near);
        // If no edge within the subtopic is added, one within the class is tried.
        let added = near && self.add(i, groups.subtopics[paper.subtopic].draw(rng))
            || self.add(i, groups.classes[paper.class].draw(rng));
        self.within += usize::from(added);
    }

    /// An edge from node i, which is between two classes, to a node of its second class.
    fn add_across(&mut self, i: usize, groups: &Groups, rng: &mut ChaCha8Rng) {
        if let Some(second) = groups.papers[i].second {
            let added = self.add(i, groups.classes[second].draw(rng));
            self.across += usize::from(added);
        }
    }

    /// Adds the edge i – j, unless it is a self-loop or exists already.
    fn add(&mut self, i: usize, j: usize) -> bool {
        let added = i != j && self.known.insert((i.max(j) as u32, i.min(j) as u32));
        if added {
            self.list.push((i as u32, j as u32));
            (self.met[i], self.met[j]) = (true, true);
        }
        added
    }
}
