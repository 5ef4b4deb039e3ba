//! An upper bound on the number of laws.

use super::ParametricFunction;
use crate::autodiff::{Tape, Var, grad_graph, jvp_graph, vjp_graph};
use crate::kernels::draw::{self, Rng};
use crate::kernels::random::mix;
use crate::linalg::{Span, norm};
use rayon::prelude::*;

/// Vectors computed at a time.
const BATCH: u64 = 16;

/// The rank counts as final after so many vectors in a row without a new direction.
const PATIENCE: usize = 32;

/// The number of points at which the rank of the gradients is computed. At a single point a neuron may be
/// dead, or always on, for all data.
const POINTS: u64 = 24;

/// The number of these points, those with the largest rank, at which brackets are computed.
const BEST: usize = 3;

/// The number of points in all, if the bound is not reached before. With few neurons, at most points one of
/// them is always on or always off.
const ALL: u64 = 120;

/// If a bracket, relative to the size of its two terms, is at most this number, it is rounding.
const VANISHING: f64 = 1e-10;

/// D minus the rank of the gradients and of their Lie brackets at a point; the least over some points. At
/// every point it is an upper bound on the number of independent laws. The computation stops when it reaches
/// `found`, a lower bound.
pub(super) fn upper_bound(
    function: &ParametricFunction<'_>,
    found: usize,
    brackets: usize,
    seed: u64,
) -> usize {
    let d = function.layout().len();
    let most = d - found;
    let mut points: Vec<Rank> = Vec::new();
    for k in 0..POINTS {
        let mut point = Rank::new(function, draw::rng(mix(seed, 2 * k)), mix(seed, 2 * k + 1));
        if point.deepen(most) >= most {
            return found;
        }
        points.push(point);
    }
    points.sort_by_key(|point| std::cmp::Reverse(point.span.rank()));
    let best = points.into_iter().take(BEST);
    let rank = |mut point: Rank<'_>| {
        while point.depth <= brackets && point.span.rank() < most {
            let before = point.span.rank();
            // All brackets are in the span of the vectors.
            if point.deepen(most) == before {
                break;
            }
        }
        point.span.rank()
    };
    let mut largest = 0;
    for point in best {
        largest = largest.max(rank(point));
        if largest >= most {
            return found;
        }
    }
    for k in POINTS..ALL {
        let mut point = Rank::new(function, draw::rng(mix(seed, 2 * k)), mix(seed, 2 * k + 1));
        largest = largest.max(point.deepen(most));
        if largest >= most {
            return found;
        }
    }
    d - largest
}

/// The rank at a point, bracket by bracket.
struct Rank<'a> {
    function: &'a ParametricFunction<'a>,
    theta: Vec<f64>,
    seed: u64,
    /// The depth of the next brackets; 0 for gradients.
    depth: usize,
    span: Span,
}

impl<'a> Rank<'a> {
    fn new(function: &'a ParametricFunction<'a>, mut rng: Rng, seed: u64) -> Self {
        Self {
            theta: function.draw(&mut rng),
            function,
            seed,
            depth: 0,
            span: Span::default(),
        }
    }

    /// Adds vectors of one more bracket until the rank no longer grows or reaches `most`; returns the rank.
    ///
    /// Vectors with a large new part are taken first: if a direction has few correct digits, all later
    /// directions have few too. The vectors at the end of a level, whose new part was too small for it, are
    /// the first of the next level. A direction that is too weak to be distinguished from rounding is left
    /// out; this makes the bound larger.
    fn deepen(&mut self, most: usize) -> usize {
        let (depth, seed) = (self.depth, mix(self.seed, self.depth as u64));
        self.depth += 1;
        let mut next = 0;
        let mut waiting: Vec<Option<(Vec<f64>, f64)>> = Vec::new();
        for least in [1e-2_f64, 1e-4, 1e-6] {
            let mut idle = Vec::new();
            while self.span.rank() < most && idle.len() < PATIENCE {
                if waiting.is_empty() {
                    waiting = (next..next + BATCH)
                        .into_par_iter()
                        .map(|k| field(self.function, &self.theta, depth, mix(seed, k)))
                        .collect();
                    next += BATCH;
                }
                for found in std::mem::take(&mut waiting) {
                    let new = (found.as_ref())
                        .is_some_and(|(v, noise)| self.span.add(v, least.max(*noise)));
                    match new {
                        true => idle.clear(),
                        false => idle.push(found),
                    }
                }
            }
            waiting = idle;
        }
        self.span.rank()
    }
}

/// [X_k, [.., [X_1, X_0]]] at θ for gradients X_i of random data and cotangents, k = `depth`, with the
/// relative size of its rounding; `None` if it vanishes.
///
/// [Z, X] = DZ·X − DX·Z; X is a gradient, so DX is symmetric.
fn field(
    function: &ParametricFunction<'_>,
    theta: &[f64],
    depth: usize,
    seed: u64,
) -> Option<(Vec<f64>, f64)> {
    if depth == 0 {
        let gradient = function.gradient(theta, seed);
        return (norm(&gradient) > 0.0).then_some((gradient, 0.0));
    }
    let tape = Tape::new();
    let vars = function.variables(&tape, theta);
    let gradient = |k: usize| {
        let (y, u) = function.output(&tape, &vars, mix(seed, k as u64));
        let weighted = (y * tape.constant(u)).sum_all();
        flat(&grad_graph(weighted, &vars))
    };
    let mut z = gradient(0);
    let mut share = 1.0_f64;
    for k in 1..=depth {
        let x = gradient(k);
        let forth = jvp_graph(z, &vars, &parts(x, &vars));
        let back = flat(&vjp_graph(x, &vars, z));
        z = forth - back;
        let size = length(forth) + length(back);
        let left = length(z) / size;
        if size == 0.0 || left < VANISHING {
            return None;
        }
        share = share.min(left);
    }
    let vector = z.value().iter().copied().collect();
    Some((vector, 1e-13 / share))
}

fn length(x: Var<'_, f64>) -> f64 {
    norm(&x.value().iter().copied().collect::<Vec<_>>())
}

/// Variables as one vector.
fn flat<'t>(parts: &[Var<'t, f64>]) -> Var<'t, f64> {
    let vectors: Vec<_> = parts.iter().map(|p| p.reshape(&[p.len()])).collect();
    Var::concat(&vectors, 0)
}

/// A vector as variables of the shapes of `like`.
fn parts<'t>(vector: Var<'t, f64>, like: &[Var<'t, f64>]) -> Vec<Var<'t, f64>> {
    let mut start = 0;
    let part = |p: &Var<'t, f64>| {
        let range = start..start + p.len();
        start = range.end;
        vector.slice(0, range).reshape(&p.shape())
    };
    like.iter().map(part).collect()
}
