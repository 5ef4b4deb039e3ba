//! The changes that leave each measure the same: the size of X, a rotation of its features, the order of its
//! rows, an offset of all rows.

use super::support::{cases, near, rotation, rows, tensor};
use emmy::Graph;
use emmy::collapse::{
    Spectrum, cosine_similarity, dimension_loss, dirichlet_energy, normalised_dirichlet_energy,
    rank_one_residual, row_variance, uniformity, value, variance,
};
use emmy::ndarray::{Array2, Axis};
use emmy::sparse::Pattern;

const N: usize = 8;

/// X with edges between rows.
struct Sample {
    x: Array2<f64>,
    edges: Vec<(usize, usize)>,
}

impl Sample {
    fn graph(&self) -> Graph {
        let both = self.edges.iter().flat_map(|&(i, j)| [(i, j), (j, i)]);
        let pattern = Pattern::from_pairs(N, N, &both.collect::<Vec<_>>()).unwrap();
        Graph::from_pattern(pattern).unwrap()
    }

    fn with(&self, x: Array2<f64>) -> Self {
        Self {
            x,
            edges: self.edges.clone(),
        }
    }

    /// Row i is the row order[i] of before.
    fn permuted(&self, order: &[usize]) -> Self {
        let place = |i: usize| order.iter().position(|&k| k == i).unwrap();
        Self {
            x: self.x.select(Axis(0), order),
            edges: self
                .edges
                .iter()
                .map(|&(i, j)| (place(i), place(j)))
                .collect(),
        }
    }
}

/// A measure, and the claims about it.
struct Claim {
    name: &'static str,
    of: fn(&Sample) -> f64,
    /// The k such that cX has c^k times the measure of X; `None` if there is no such k.
    degree: Option<i32>,
    rotation: bool,
    offset: bool,
}

const fn claim(
    name: &'static str,
    of: fn(&Sample) -> f64,
    degree: Option<i32>,
    [rotation, offset]: [bool; 2],
) -> Claim {
    Claim {
        name,
        of,
        degree,
        rotation,
        offset,
    }
}

const CLAIMS: [Claim; 10] = [
    claim(
        "effective rank",
        |s| Spectrum::of(&tensor(&s.x)).effective_rank(),
        Some(0),
        [true, false],
    ),
    claim(
        "numerical rank",
        |s| Spectrum::of(&tensor(&s.x)).numerical_rank(),
        Some(0),
        [true, false],
    ),
    claim(
        "variance",
        |s| value(&tensor(&s.x), variance),
        Some(2),
        [true, true],
    ),
    claim(
        "row variance",
        |s| value(&tensor(&s.x), row_variance),
        Some(2),
        [false, false],
    ),
    claim(
        "residual",
        |s| value(&tensor(&s.x), rank_one_residual),
        Some(1),
        [false, true],
    ),
    claim(
        "similarity",
        |s| value(&tensor(&s.x), cosine_similarity),
        Some(0),
        [true, false],
    ),
    claim(
        "energy",
        |s| value(&tensor(&s.x), |x| dirichlet_energy(x, &s.graph())),
        Some(2),
        [true, true],
    ),
    claim(
        "normalised energy",
        |s| {
            value(&tensor(&s.x), |x| {
                normalised_dirichlet_energy(x, &s.graph())
            })
        },
        Some(2),
        [true, false],
    ),
    claim(
        "uniformity",
        |s| value(&tensor(&s.x), |x| uniformity(x, 0.7)),
        None,
        [true, false],
    ),
    claim(
        "L_dim",
        |s| value(&tensor(&s.x), dimension_loss),
        None,
        [true, false],
    ),
];

/// Every claim holds, and a property that is not claimed fails in some case.
#[test]
fn of_each_measure() {
    for claim in &CLAIMS {
        let mut broken = [false; 3];
        for seed in cases(12) {
            let edges = (1..N).flat_map(|i| [(i - 1, i), (i, i * i % N)]);
            let sample = Sample {
                x: rows(N, 4, 1.0, seed),
                edges: edges.filter(|(i, j)| i != j).collect(),
            };
            let at = (claim.of)(&sample);
            let order: Vec<usize> = (0..N).map(|i| (3 * i + seed as usize) % N).collect();
            near((claim.of)(&sample.permuted(&order)), at, 1e-10);
            let checks = [
                (
                    &sample.x * 3.0,
                    claim.degree.is_some(),
                    3f64.powi(claim.degree.unwrap_or(0)),
                ),
                (sample.x.dot(&rotation(4, seed + 7)), claim.rotation, 1.0),
                (&sample.x + &rows(1, 4, 1.0, seed + 5), claim.offset, 1.0),
            ];
            for (k, (x, claimed, factor)) in checks.into_iter().enumerate() {
                let moved = (claim.of)(&sample.with(x));
                let same = (moved - factor * at).abs() <= 1e-9 * (1.0 + at.abs()) * factor;
                assert!(
                    same || !claimed,
                    "{}: change {k}, {at} → {moved}",
                    claim.name
                );
                broken[k] |= !same;
            }
        }
        let claimed = [claim.degree.is_some(), claim.rotation, claim.offset];
        assert_eq!(broken, claimed.map(|c| !c), "{}", claim.name);
    }
}
