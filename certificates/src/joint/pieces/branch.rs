//! Branch and bound: the Lipschitz constant of a network of few neurons, from both sides.

use super::region::Region;
use super::{Pattern, Pieces, Steep};
use crate::linalg::{Interval, Lower, Upper};
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The branches that are divided at a time. Their number does not depend on the threads, so neither does the
/// result.
const AT_A_TIME: usize = 16;

/// Climbs at the beginning.
const CLIMBS: usize = 64;

/// A search for the constant of a network by branch and bound: a branch is a set of inputs, those for which
/// some neurons have a sign that is decided. Its upper end is the joint bound of the network with the slopes
/// of these signs. Divided by the sign of one more neuron it becomes two branches; one that has no inputs is
/// left out, by a proof in integers. At every moment the constant is between the ends of
/// [`interval`](Self::interval), and every step brings them closer.
///
/// ```
/// use emmy::lipschitz::joint::{Branches, Network, Pieces};
/// use ndarray::array;
///
/// // relu(x) − relu(x − 1) − relu(−x): its slopes are 1, 0 and 1, but the joint bound is above 1.
/// let net = Network::chain(
///     vec![array![[1.0], [1.0], [-1.0]], array![[1.0, -1.0, -1.0]]],
///     [0.0, 1.0],
/// )?;
/// let mut branches = Branches::new(Pieces::new(net, vec![array![0.0, -1.0, 0.0]])?, 0);
/// assert!(branches.interval().upper.get() > 1.1);
/// while branches.step(1e-6) {}
/// assert!((branches.interval().upper.get() - 1.0).abs() < 1e-5);
/// assert!((branches.interval().lower.get() - 1.0).abs() < 1e-5);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug)]
pub struct Branches {
    pieces: Pieces,
    open: BinaryHeap<Branch>,
    /// The largest upper end of branches that cannot be divided.
    closed: Upper,
    steepest: Option<Steep>,
    count: usize,
}

#[derive(Debug)]
struct Branch {
    upper: Upper,
    pattern: Pattern,
    /// The neuron by which it is divided next; `None` if all are decided.
    next: Option<usize>,
}

impl Branches {
    /// The search at its beginning: the joint bound, and the best of some climbs, which begin at random
    /// inputs.
    pub fn new(pieces: Pieces, seed: u64) -> Self {
        let slopes = pieces.network.layers.iter().flat_map(|l| &l.slopes);
        // Neurons with one slope need no decision.
        let pattern: Pattern = slopes.map(|[l, u]| (l == u).then_some(true)).collect();
        let (upper, next) = bounded(&pieces, &pattern);
        let first = Branch {
            upper,
            pattern,
            next,
        };
        // Without a neuron to decide there is nothing to divide.
        let (open, closed) = match first.next {
            Some(_) => (BinaryHeap::from([first]), Upper::ZERO),
            None => (BinaryHeap::new(), first.upper),
        };
        Self {
            open,
            closed,
            steepest: pieces.climb(CLIMBS, seed),
            count: 1,
            pieces,
        }
    }

    /// Divides the branches with the largest upper ends, up to 16. Whether the ends of the interval are
    /// further apart than this part of the upper one, and there is something left to divide.
    pub fn step(&mut self, accuracy: f64) -> bool {
        if !self.is_open(accuracy) {
            return false;
        }
        let mut parents = Vec::new();
        while parents.len() < AT_A_TIME
            && let Some(branch) = self.open.pop()
        {
            match branch.upper.get() > self.lower() {
                true => parents.push(branch),
                false => self.closed = self.closed.max(branch.upper),
            }
        }
        let pieces = &self.pieces;
        let children = parents.into_par_iter().flat_map_iter(|branch| {
            let next = branch.next.expect("open branches have a next neuron");
            let ends = [false, true].map(|on| {
                let mut pattern = branch.pattern.clone();
                pattern[next] = Some(on);
                child(pieces, pattern, branch.upper)
            });
            ends.into_iter().flatten()
        });
        let children: Vec<Child> = children.collect();
        for Child { branch, steep } in children {
            self.count += 1;
            if let Some(steep) = steep
                && steep.lower.get() > self.lower()
            {
                self.steepest = Some(steep);
            }
            match branch.next {
                Some(_) => self.open.push(branch),
                None => self.closed = self.closed.max(branch.upper),
            }
        }
        self.is_open(accuracy)
    }

    fn is_open(&self, accuracy: f64) -> bool {
        let Some(first) = self.open.peek() else {
            return false;
        };
        first.upper.get() > self.lower() * (1.0 + accuracy) && first.upper.get() > self.closed.get()
    }

    fn lower(&self) -> f64 {
        self.steepest.as_ref().map_or(0.0, |s| s.lower.get())
    }

    /// The constant is between these ends.
    pub fn interval(&self) -> Interval {
        let open = self.open.peek().map_or(Upper::ZERO, |branch| branch.upper);
        // What is found is a bound from below of what is left, up to its own rounding.
        Interval {
            lower: Lower::new(self.lower()),
            upper: open.max(self.closed).max(Upper::new(self.lower())),
        }
    }

    /// The input at which the lower end was found.
    pub fn steepest(&self) -> Option<&Steep> {
        self.steepest.as_ref()
    }

    /// The branches so far.
    pub fn count(&self) -> usize {
        self.count
    }
}

struct Child {
    branch: Branch,
    /// The norm at an input of the branch.
    steep: Option<Steep>,
}

/// The branch of a pattern, which is part of one with this upper end; `None` if it has no inputs.
fn child(pieces: &Pieces, pattern: Pattern, parent: Upper) -> Option<Child> {
    let steep = match pieces.region(&pattern) {
        Region::Empty => return None,
        Region::Unknown => None,
        Region::Point(input) => pieces.at(input.view()).map(|lower| Steep { input, lower }),
    };
    let (upper, next) = bounded(pieces, &pattern);
    let branch = Branch {
        upper: upper.min(parent),
        pattern,
        next,
    };
    Some(Child { branch, steep })
}

/// The joint bound of a branch, and the neuron by which to divide it.
fn bounded(pieces: &Pieces, pattern: &Pattern) -> (Upper, Option<usize>) {
    let (upper, scores) = pieces.under(pattern).bounded();
    let undecided = (0..pattern.len()).filter(|i| pattern[*i].is_none());
    let next = undecided.max_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)));
    (upper, next)
}

impl Ord for Branch {
    fn cmp(&self, other: &Self) -> Ordering {
        let upper = self.upper.get().total_cmp(&other.upper.get());
        upper.then_with(|| self.pattern.cmp(&other.pattern))
    }
}

impl PartialOrd for Branch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Branch {}
