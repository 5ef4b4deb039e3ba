//! Energies on graphs, and the axioms of a measure of oversmoothing.

use super::support::{cases, matrix, near, rows, tensor};
use emmy::collapse::{
    cosine_similarity, dirichlet_energy, normalised_dirichlet_energy, rank_one_distance,
    rank_one_residual, value, variance,
};
use emmy::graph::generators;
use emmy::ndarray::{Array2, array};
use emmy::{Graph, Tensor};

/// An undirected graph that is connected: a circle with chords.
fn connected(n: usize, seed: u64) -> Graph {
    let more = rows(n, 2, 1.0, seed).mapv(|x| x.abs() * n as f64);
    let chords = more
        .outer_iter()
        .map(|r| (r[0] as usize % n, r[1] as usize % n));
    let edges = (0..n).map(|i| (i, (i + 1) % n)).chain(chords);
    let both = edges
        .filter(|(i, j)| i != j)
        .flat_map(|(i, j)| [(i, j), (j, i)]);
    let pattern = emmy::sparse::Pattern::from_pairs(n, n, &both.collect::<Vec<_>>());
    Graph::from_pattern(pattern.unwrap()).unwrap()
}

/// tr(XᵀLX) of both Laplacians.
#[test]
fn the_dirichlet_energies() {
    for seed in cases(30) {
        let n = 4 + seed as usize % 6;
        let graph = connected(n, seed);
        let x = rows(n, 3, 1.0, seed);
        let degrees: Vec<f64> = graph.in_degrees().iter().map(|&d| d as f64).collect();
        let adjacency = |i: usize, j: usize| f64::from(graph.has_edge(j, i));
        let laplacian = Array2::from_shape_fn((n, n), |(i, j)| {
            f64::from(i == j) * degrees[i] - adjacency(i, j)
        });
        let scaled = Array2::from_shape_fn((n, n), |(i, j)| {
            laplacian[[i, j]] / (degrees[i] * degrees[j]).sqrt()
        });
        let trace = |l: &Array2<f64>| x.t().dot(l).dot(&x).diag().sum();
        near(
            value(&tensor(&x), |x| dirichlet_energy(x, &graph)),
            trace(&laplacian),
            1e-11,
        );
        let found = value(&tensor(&x), |x| normalised_dirichlet_energy(x, &graph));
        near(found, trace(&scaled), 1e-11);
        // Self-loops add nothing without degrees.
        let looped = graph.with_self_loops();
        near(
            value(&tensor(&x), |x| dirichlet_energy(x, &looped)),
            trace(&laplacian),
            1e-11,
        );
    }
}

/// A measure for which an axiom is claimed.
type Claim<'a, X> = &'a dyn Fn(&X) -> f64;

/// Zero exactly where all rows are equal: claimed by the variance, the residual of rank one, and the energy
/// on a connected graph. Not by 1 − similarity, nor by the energy with degrees.
#[test]
fn zero_exactly_where_all_rows_are_equal() {
    for seed in cases(30) {
        let n = 4 + seed as usize % 6;
        let graph = connected(n, seed);
        let constant = tensor(&(Array2::zeros((n, 3)) + rows(1, 3, 1.0, seed)));
        let mut other = matrix(&constant);
        other[[seed as usize % n, 1]] += 1e-6;
        let other = tensor(&other);
        let claims: [Claim<'_, Tensor<f64>>; 3] = [
            &|x| value(x, variance),
            &|x| value(x, rank_one_residual),
            &|x| value(x, |x| dirichlet_energy(x, &graph)),
        ];
        for (k, claim) in claims.iter().enumerate() {
            // Rows minus their mean are 0 up to rounding.
            assert!(claim(&constant) < 1e-14 && claim(&other) > 1e-13, "{k}");
        }
        assert_eq!(claims[2](&constant), 0.0);
    }
    let parallel = array![[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]];
    near(value(&tensor(&parallel), cosine_similarity), 1.0, 1e-14);
    let star = generators::star(3);
    let ones = tensor(&Array2::ones((4, 1)));
    let degrees = star.in_degrees();
    assert!(value(&ones, |x| normalised_dirichlet_energy(x, &star)) > 1e-3);
    let limit = Array2::from_shape_fn((4, 1), |(i, _)| (degrees[i] as f64).sqrt());
    assert!(value(&tensor(&limit), |x| normalised_dirichlet_energy(x, &star)) < 1e-28);
}

/// μ(X + Y) ≤ μ(X) + μ(Y): claimed by the roots of the variance and of the energies. The residual in
/// √(‖·‖₁‖·‖∞) does not have it, and the squares do not.
#[test]
fn the_triangle_inequality() {
    for seed in cases(60) {
        let n = 4 + seed as usize % 6;
        let graph = connected(n, seed);
        let x = rows(n, 3, 1.0, seed);
        let y = rows(n, 3, [0.1, 1.0, 3.0][seed as usize % 3], seed + 90) - &x * 0.5;
        let claims: [Claim<'_, Array2<f64>>; 3] = [
            &|x| value(&tensor(x), variance).sqrt(),
            &|x| value(&tensor(x), |x| dirichlet_energy(x, &graph)).sqrt(),
            &|x| value(&tensor(x), |x| normalised_dirichlet_energy(x, &graph)).sqrt(),
        ];
        for claim in claims {
            assert!(claim(&(&x + &y)) <= (claim(&x) + claim(&y)) * (1.0 + 1e-12));
        }
        assert!(value(&tensor(&(&x * 2.0)), variance) > 2.1 * value(&tensor(&x), variance));
    }
    // One column that differs, and one row that differs.
    let n = 40;
    let column = Array2::from_shape_fn((n, n), |(i, k)| {
        if k != 0 {
            0.0
        } else if i % 2 == 0 {
            1.0
        } else {
            -1.0
        }
    });
    let row = Array2::from_shape_fn((n, n), |(i, _)| f64::from(i == 0));
    let residual = |x: &Array2<f64>| rank_one_distance(&tensor(x));
    let apart = residual(&column).upper.get() + residual(&row).upper.get();
    assert!(residual(&(&column + &row)).lower.get() > 1.2 * apart);
}
