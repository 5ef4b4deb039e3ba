//! The inputs of a pattern: a polyhedron, where it is decided.

use super::contradiction::is_contradiction;
use super::nearest::{Found, nearest};
use super::{Pattern, Pieces};
use ndarray::{Array1, Array2, Axis};

/// The argument of a neuron as a map of the input: a · x + b.
#[derive(Debug, Clone)]
struct Argument {
    row: Array1<f64>,
    constant: f64,
}

/// How far inside of its piece an input is to be, for rows of length 1. A small distance loses no thin
/// piece; a large one has a contradiction that can be computed where all borders meet in 0.
const INSIDE: [f64; 2] = [1e-7, 1e-2];

/// What is known of the inputs of a pattern.
pub(super) enum Region {
    /// About the one nearest to 0.
    Point(Array1<f64>),
    /// There is no open set of them; proven.
    Empty,
    Unknown,
}

impl Pieces {
    /// About the nearest input of a pattern to 0, if one is found; its own pattern may differ where this one
    /// is not decided.
    pub(super) fn input(&self, pattern: &Pattern) -> Option<Array1<f64>> {
        // A search needs no proof that there is none.
        match self.region_by(pattern, |_| true) {
            Region::Point(x) => Some(x),
            Region::Empty | Region::Unknown => None,
        }
    }

    /// Whether an input has the signs that are decided.
    fn agrees(&self, input: &Array1<f64>, pattern: &Pattern) -> bool {
        let own = self.pattern(input.view());
        own.is_some_and(|own| {
            let two = self.network.layers.iter().flat_map(|l| &l.slopes);
            let mut both = own.iter().zip(pattern).zip(two);
            both.all(|((own, on), [l, u])| on.is_none() || l == u || own == on)
        })
    }

    /// The inputs for which the neurons whose arguments are affine under the pattern have its signs.
    pub(super) fn region(&self, pattern: &Pattern) -> Region {
        self.region_by(pattern, |neurons| is_contradiction(self, pattern, neurons))
    }

    /// The same; the second argument says whether the signs of these neurons are a contradiction.
    fn region_by(&self, pattern: &Pattern, is_empty: impl Fn(&[usize]) -> bool) -> Region {
        let n = self.network.inputs;
        let arguments = self.arguments(pattern);
        let mut neurons = Vec::new();
        let (mut rows, mut limits) = (Vec::new(), Vec::new());
        for (i, (argument, on)) in arguments.iter().zip(pattern).enumerate() {
            let (Some(Argument { row, constant }), Some(on)) = (argument, on) else {
                continue;
            };
            let sign = if *on { 1.0 } else { -1.0 };
            let norm = row.dot(row).sqrt();
            let size = norm.max(constant.abs());
            if size == 0.0 {
                continue;
            }
            neurons.push(i);
            rows.push(row * (sign / size));
            limits.push(-sign * constant / size);
        }
        if rows.is_empty() {
            return Region::Point(Array1::zeros(n));
        }
        let mut g = Array2::zeros((rows.len(), n));
        g.axis_iter_mut(Axis(0))
            .zip(&rows)
            .for_each(|(mut to, row)| to.assign(row));
        let limits = Array1::from(limits);
        for inside in INSIDE {
            match nearest(&g, &(&limits + inside)) {
                Found::Point(x) if self.agrees(&x, pattern) => return Region::Point(x),
                Found::Contradiction(rows) => {
                    let rows: Vec<usize> = rows.into_iter().map(|r| neurons[r]).collect();
                    if is_empty(&rows) {
                        return Region::Empty;
                    }
                }
                Found::Point(_) | Found::Nothing => {}
            }
        }
        Region::Unknown
    }

    /// The argument of each neuron that has two slopes, where it is affine: where the neurons that it reads
    /// are decided.
    fn arguments(&self, pattern: &[Option<bool>]) -> Vec<Option<Argument>> {
        let n = self.network.inputs;
        let unit = |i: usize| {
            let mut row = Array1::zeros(n);
            row[i] = 1.0;
            Some(Argument { row, constant: 0.0 })
        };
        let mut blocks: Vec<Vec<Option<Argument>>> = vec![(0..n).map(unit).collect()];
        let mut all = Vec::new();
        for (layer, bias) in self.network.layers.iter().zip(&self.biases) {
            let mut values = Vec::new();
            for (i, slopes) in layer.slopes.iter().enumerate() {
                let mut sum = Some(Argument {
                    row: Array1::zeros(n),
                    constant: bias[i],
                });
                for (j, a) in &layer.reads {
                    let terms = a.row(i).into_iter().zip(&blocks[*j]);
                    for (weight, value) in terms.filter(|(w, _)| **w != 0.0) {
                        sum = sum.zip(value.as_ref()).map(|(mut sum, value)| {
                            sum.row.scaled_add(*weight, &value.row);
                            sum.constant += weight * value.constant;
                            sum
                        });
                    }
                }
                let slope = match pattern[all.len()] {
                    _ if slopes[0] == slopes[1] => Some(slopes[0]),
                    on => on.map(|on| slopes[usize::from(on)]),
                };
                values.push(match slope {
                    Some(0.0) => Some(Argument {
                        row: Array1::zeros(n),
                        constant: 0.0,
                    }),
                    Some(slope) => sum.as_ref().map(|sum| Argument {
                        row: &sum.row * slope,
                        constant: sum.constant * slope,
                    }),
                    None => None,
                });
                all.push(sum.filter(|_| slopes[0] < slopes[1]));
            }
            blocks.push(values);
        }
        all
    }
}
