//! Generators with unknown entries, and the equations that symmetries solve.

use super::{Field, Fresh, Generator, Layout, ParametricFunction, name};
use crate::kernels::random::mix;
use crate::linalg;
use ndarray::{Array2, Axis};
use rayon::prelude::*;

/// A form of generators θ → θ + t (Bθ + b), given by the unknown entries of B and b.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ansatz {
    /// Any symmetric B and any b: all quadratic and linear laws. D (D + 3)/2 unknowns.
    Full,
    /// For each parameter W, read as a matrix: W → W + t (a W + W c + s), with symmetric a and c: laws
    /// between rows or columns of parameters. Σ (out (out + 1) + in (in + 1))/2 + D unknowns.
    Matrices,
    /// The same with diagonal a and c, and shifts of whole rows and columns: laws about single neurons.
    /// 2 Σ (out + in) unknowns.
    Neurons,
}

impl Ansatz {
    /// All forms, the most general one first.
    pub const ALL: [Self; 3] = [Self::Full, Self::Matrices, Self::Neurons];

    /// The most unknowns that are affordable: the time grows with their cube, and is some ten seconds for
    /// this number.
    pub(super) const MOST: usize = 3000;

    /// The most general form with an affordable number of unknowns.
    pub fn affordable(layout: &Layout) -> Self {
        let fits = |ansatz: &Self| ansatz.unknowns(layout) <= Self::MOST;
        Self::ALL.into_iter().find(fits).unwrap_or(Self::Neurons)
    }

    /// The number of unknowns.
    pub fn unknowns(self, layout: &Layout) -> usize {
        let d = layout.len();
        let half = |n: usize| n * (n + 1) / 2;
        let sizes = (0..layout.shapes().len()).map(|k| layout.matrix(k));
        match self {
            Self::Full => half(d) + d,
            Self::Matrices => d + sizes.map(|[m, n]| half(m) + half(n)).sum::<usize>(),
            Self::Neurons => sizes.map(|[m, n]| 2 * (m + n)).sum(),
        }
    }

    /// One generator per unknown, of norm about 1. Without `symmetric`, a and c may be any matrices.
    pub(super) fn candidates(self, layout: &Layout, symmetric: bool) -> Vec<Generator> {
        let d = layout.len();
        let one = |i: usize| Generator::new(Vec::new(), vec![(i, 1.0)]);
        let mut all = Vec::new();
        if self == Self::Full {
            for i in 0..d {
                all.push(Generator::new(vec![(i, i, 1.0)], Vec::new()));
                let pair = |j| vec![(i, j, 0.5_f64.sqrt()), (j, i, 0.5_f64.sqrt())];
                all.extend((i + 1..d).map(|j| Generator::new(pair(j), Vec::new())));
            }
            all.extend((0..d).map(one));
            return all;
        }
        for k in 0..layout.shapes().len() {
            let [rows, columns] = layout.matrix(k);
            let at = |i: usize, j: usize| layout.start(k) + i * columns + j;
            // An entry of a or c: row j is added to row i, or column j to column i.
            let row = |i: usize, j: usize| -> Vec<_> {
                (0..columns).map(|c| (at(i, c), at(j, c), 1.0)).collect()
            };
            let column = |i: usize, j: usize| -> Vec<_> {
                (0..rows).map(|r| (at(r, i), at(r, j), 1.0)).collect()
            };
            let add = |n: usize,
                       f: &dyn Fn(usize, usize) -> Vec<(usize, usize, f64)>,
                       all: &mut Vec<Generator>| {
                for i in 0..n {
                    for j in 0..n {
                        let entries = match (self, symmetric) {
                            (Self::Neurons, _) if i != j => continue,
                            (_, true) if j < i => continue,
                            (_, true) if i < j => [f(i, j), f(j, i)].concat(),
                            _ => f(i, j),
                        };
                        all.push(Generator::new(entries, Vec::new()));
                    }
                }
            };
            add(rows, &row, &mut all);
            // For a matrix of one column, a factor of the column is the same as a factor of all rows.
            if columns > 1 {
                add(columns, &column, &mut all);
            }
            let shift = |entries: Vec<usize>| {
                Generator::new(Vec::new(), entries.into_iter().map(|i| (i, 1.0)).collect())
            };
            if self == Self::Neurons {
                all.extend((0..rows).map(|i| shift((0..columns).map(|c| at(i, c)).collect())));
                all.extend((0..columns).map(|j| shift((0..rows).map(|r| at(r, j)).collect())));
            } else {
                all.extend((0..rows * columns).map(|e| one(layout.start(k) + e)));
            }
        }
        all
    }
}

/// The generators that are symmetries.
pub(super) struct Symmetries {
    /// A basis, as sparse as elimination makes it.
    pub generators: Vec<Generator>,
    /// The largest singular value counted as zero.
    pub inside: f64,
    /// The smallest singular value not counted as zero.
    pub outside: f64,
}

/// A relative singular value up to which a direction counts as a symmetry. It is between the singular values
/// of laws, which are rounding errors, and 10⁻⁶, that of the hardest case met, a norm with ε = 10⁻⁶.
const UNSEEN: f64 = 1e-11;

/// If the length of a column, relative to the longest, is at most this number, the column counts as zero.
const EMPTY: f64 = 1e-12;

/// How often equations are added if there are too few.
const ROUNDS: usize = 6;

/// The combinations of candidates whose δ vanishes at all random points: those of the equations, and `fresh`
/// points.
///
/// A point at which much of a network is dead gives little information. If a combination solves all equations
/// and fails at a fresh point, there were too few equations; then their number grows by half.
pub(super) fn symmetries(
    (function, field): (&ParametricFunction<'_>, Field),
    candidates: &[Generator],
    fresh: &Fresh,
    seed: u64,
) -> Symmetries {
    let n = candidates.len();
    let equation = |k: usize| -> Vec<f64> {
        let (theta, gradient) = function.point(field, mix(seed, k as u64));
        let mut row: Vec<f64> = (candidates.iter())
            .map(|c| c.delta(&theta, &gradient).0)
            .collect();
        // All points have the same weight, whatever the size of their gradients.
        let norm = linalg::norm(&row);
        if norm > 0.0 {
            row.iter_mut().for_each(|x| *x /= norm);
        }
        row
    };
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut more = n + n / 8 + 32;
    for round in 1.. {
        let next = rows.len()..rows.len() + more;
        rows.par_extend(next.into_par_iter().map(equation));
        more = rows.len() / 2;
        let mut found = solutions(&rows, candidates);
        let holds = |g: &Generator| fresh.worst(g) <= super::TOLERANCE;
        let before = found.generators.len();
        found.generators.retain(holds);
        if found.generators.len() == before || round == ROUNDS {
            return found;
        }
    }
    unreachable!("the last round returns")
}

/// The combinations of candidates that solve all equations, one per row.
fn solutions(rows: &[Vec<f64>], candidates: &[Generator]) -> Symmetries {
    let shape = (rows.len(), candidates.len());
    let mut matrix = Array2::from_shape_vec(shape, rows.concat()).expect("a row per point");
    // All unknowns have the same weight too, except those whose products are zero up to rounding.
    let lengths = matrix.map_axis(Axis(0), |column| column.dot(&column).sqrt());
    let longest = lengths.fold(0.0_f64, |m, x| m.max(*x));
    let scales = lengths.mapv(|x| {
        if x > EMPTY * longest {
            x
        } else {
            longest.max(1.0)
        }
    });
    matrix /= &scales;
    let null = linalg::null_space(matrix.view(), UNSEEN);
    let weights = null.reduced() / &scales;
    let generators = weights.rows().into_iter().map(|row| {
        let parts = row.iter().zip(candidates).filter(|(w, _)| **w != 0.0);
        // The generator is zero for a = I, c = −I, which changes nothing.
        name::neat(&Generator::combination(parts.map(|(&w, c)| (w, c))))
    });
    Symmetries {
        generators: generators.flatten().collect(),
        inside: null.inside,
        outside: null.outside,
    }
}
