//! The measures against plain loops, their derivatives, their ranges, and the axioms of a measure of
//! oversmoothing.

use super::support::{cases, centring, matrix, near, rows, shape, spread, tensor};
use emmy::autodiff::{check_grads, grad};
use emmy::collapse::{
    Spectrum, alignment, attention_similarity, barlow_twins, centred, contrastive,
    cosine_similarity, cross_correlation, dimension_loss, dirichlet_energy, group_distances,
    information_gain, normalised_dirichlet_energy, rank_one_distance, rank_one_norm,
    rank_one_residual, row_variance, simclr, uniformity, value, variance,
};
use emmy::graph::generators;
use emmy::ndarray::{Array2, Axis, array};
use emmy::{Graph, Tape, Tensor, Var, init};

fn cosine(a: emmy::ndarray::ArrayView1<'_, f64>, b: emmy::ndarray::ArrayView1<'_, f64>) -> f64 {
    let size = (a.dot(&a) * b.dot(&b)).sqrt();
    if size == 0.0 { 0.0 } else { a.dot(&b) / size }
}

fn mean_over_pairs(x: &Array2<f64>) -> f64 {
    let n = x.nrows();
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    let found: Vec<f64> = pairs.map(|(i, j)| cosine(x.row(i), x.row(j))).collect();
    found.iter().sum::<f64>() / found.len() as f64
}

/// Appendix C: the similarity of features over i < j; between −1/(n − 1) and 1.
#[test]
fn the_similarity_of_features() {
    for seed in cases(60) {
        let (n, d, size) = shape(seed);
        let mut x = rows(n + 1, d, size, seed);
        if seed % 4 == 0 {
            x.row_mut(0).fill(0.0);
        }
        let found = value(&tensor(&x), cosine_similarity);
        assert!((found - mean_over_pairs(&x)).abs() < 1e-12);
        assert!(found >= -1.0 / n as f64 - 1e-12 && found <= 1.0 + 1e-12);
    }
    // The mean over the items of a batch.
    let items = [rows(4, 3, 1.0, 1), rows(4, 3, 2.0, 2)];
    let both = emmy::ndarray::stack(Axis(0), &[items[0].view(), items[1].view()]).unwrap();
    let expected = (mean_over_pairs(&items[0]) + mean_over_pairs(&items[1])) / 2.0;
    let found = value(&both.into_dyn().into_shared(), cosine_similarity);
    near(found, expected, 1e-12);
    assert!(value(&tensor(&rows(1, 3, 1.0, 0)), cosine_similarity).is_nan());
}

/// Appendix C: the similarity of attention is of columns, and the mean over the heads.
#[test]
fn the_similarity_of_attention() {
    let heads: Vec<Array2<f64>> = (0..3)
        .map(|k| super::support::softmax(&rows(5, 5, 1.0, k)))
        .collect();
    let views: Vec<_> = heads.iter().map(|a| a.view()).collect();
    let all = emmy::ndarray::stack(Axis(0), &views).unwrap();
    let all = all.into_dyn().into_shared();
    let columns = heads.iter().map(|a| mean_over_pairs(&a.t().to_owned()));
    near(
        value(&all, attention_similarity),
        columns.sum::<f64>() / 3.0,
        1e-12,
    );
    let of_rows = heads.iter().map(mean_over_pairs).sum::<f64>() / 3.0;
    assert!((value(&all, attention_similarity) - of_rows).abs() > 1e-3);
    // All queries alike: columns are proportional.
    near(
        value(
            &tensor(&Array2::from_elem((4, 4), 0.25)),
            attention_similarity,
        ),
        1.0,
        1e-14,
    );
    near(
        value(&tensor(&Array2::eye(4)), attention_similarity) + 1.0,
        1.0,
        1e-14,
    );
}

/// Section 3.1: rows in one dimension may have a low similarity, while the effective rank is 1.
#[test]
fn similarity_does_not_see_dimensional_collapse() {
    let x = array![
        [1.0, 2.0, 0.5],
        [-1.0, -2.0, -0.5],
        [2.0, 4.0, 1.0],
        [-3.0, -6.0, -1.5]
    ];
    let x = tensor(&x);
    assert!(value(&x, cosine_similarity) < 0.0 && value(&x, variance) > 10.0);
    near(Spectrum::of(&x).effective_rank(), 1.0, 1e-6);
}

/// ‖X − 1x̄ᵀ‖_F², and the variance of the published code, which is not 0 for equal rows.
#[test]
fn variances() {
    for seed in cases(30) {
        let (n, d, size) = shape(seed);
        let x = rows(n, d + 1, size, seed);
        let found = value(&tensor(&x), variance);
        assert!((found - spread(&x)).abs() < 1e-12 * (1.0 + found));
        let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        let distances = pairs.map(|(i, j)| (&x.row(i) - &x.row(j)).mapv(|x| x * x).sum());
        let by_pairs = distances.sum::<f64>() / (2 * n) as f64;
        assert!((found - by_pairs).abs() < 1e-11 * (1.0 + found));
        let of_rows = x.outer_iter().map(|row| {
            let mean = row.mean().unwrap();
            row.mapv(|x| (x - mean).powi(2)).sum() / d as f64
        });
        near(value(&tensor(&x), row_variance), of_rows.sum(), 1e-12);
    }
    let equal = array![[1.0, 3.0], [1.0, 3.0], [1.0, 3.0]];
    assert_eq!(value(&tensor(&equal), variance), 0.0);
    assert_eq!(value(&tensor(&equal), row_variance), 6.0);
}

/// The residual by the mean: in the Frobenius norm the best one; in that of Dong et al. at most 2(1 − 1/n)
/// too large. The bounds of the distance hold, and meet for two rows.
#[test]
fn the_distance_to_rank_one() {
    let mut widest = 1.0_f64;
    for seed in cases(60) {
        let (n, d, size) = shape(seed);
        let x = rows(n + 1, d, size, seed);
        let n = n + 1;
        let mean = value(&tensor(&x), rank_one_residual);
        let best = rank_one_distance(&tensor(&x));
        let (low, high) = (best.lower.get(), best.upper.get());
        assert!(low <= high && high <= mean * (1.0 + 1e-9));
        assert!(mean <= 2.0 * (1.0 - 1.0 / n as f64) * high * (1.0 + 1e-9));
        if n == 2 {
            near(low, high, 1e-12);
        }
        widest = widest.max(best.ratio());
        let norm = |x: &Array2<f64>| value(&tensor(x), rank_one_norm);
        for k in 0..20 {
            let other = rows(1, d, size, 1000 * seed + k);
            let residual = &x - &other;
            assert!(norm(&residual) >= low);
            assert!(residual.mapv(|x| x * x).sum() >= spread(&x) * (1.0 - 1e-12));
        }
        // √(‖·‖₁‖·‖∞) bounds ‖·‖₂.
        assert!(norm(&x) >= Spectrum::of(&tensor(&x)).values[0] * (1.0 - 1e-12));
    }
    assert!(widest < 2.0, "{widest}");
    // The factor is ‖I − 11ᵀ/n‖ in both norms.
    let c = centring(5);
    for axis in [Axis(0), Axis(1)] {
        assert!(
            c.mapv(f64::abs)
                .sum_axis(axis)
                .iter()
                .all(|x| (x - 1.6).abs() < 1e-12)
        );
    }
}

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

/// C_ij and Eq. (29) by plain loops.
#[test]
fn barlow_twins_correlation_and_loss() {
    for seed in cases(30) {
        let (n, d, size) = shape(seed);
        let (a, mut b) = (rows(n, d, size, seed), rows(n, d, 1.0, seed + 50));
        if seed % 3 == 0 {
            b.column_mut(0).fill(0.0);
        }
        let tape = Tape::new();
        let (x, y) = (tape.constant(tensor(&a)), tape.constant(tensor(&b)));
        let c = matrix(&cross_correlation(x, y).value());
        let lambda = 0.3;
        let mut loss = 0.0;
        for i in 0..d {
            for j in 0..d {
                let expected = cosine(a.column(i), b.column(j));
                assert!((c[[i, j]] - expected).abs() < 1e-12);
                loss += match i == j {
                    true => (1.0 - expected).powi(2),
                    false => lambda * expected.powi(2),
                };
            }
        }
        near(barlow_twins(x, y, lambda).item(), loss, 1e-11);
    }
}

/// The group distances by plain loops over pairs, as in the published code; the ratio is at least 1.
#[test]
fn distances_of_groups() {
    for seed in cases(30) {
        let n = 6 + seed as usize % 8;
        let h = rows(n, 3, 1.0, seed);
        let labels: Vec<usize> = (0..n).map(|i| [0, 2, 5][i * i % 3]).collect();
        let unit = |i: usize| &h.row(i) / h.row(i).dot(&h.row(i)).sqrt();
        let mean = |a: usize, b: usize| {
            let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
            let pairs = pairs.filter(|&(i, j)| labels[i] == a && labels[j] == b);
            let all: Vec<f64> = pairs
                .map(|(i, j)| (unit(i) - unit(j)).mapv(|x| x * x).sum())
                .collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let mut classes = labels.clone();
        classes.sort_unstable();
        classes.dedup();
        let count = classes.len();
        let within = classes.iter().map(|&c| mean(c, c)).sum::<f64>() / count as f64;
        let pairs = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j)));
        let pairs: Vec<f64> = pairs.map(|(i, j)| mean(classes[i], classes[j])).collect();
        let between = pairs.iter().sum::<f64>() / pairs.len() as f64;
        let tape = Tape::new();
        let found = group_distances(tape.constant(tensor(&h)), &labels);
        near(found.within.item(), within, 1e-11);
        near(found.between.item(), between, 1e-11);
        near(found.ratio().item(), between / within, 1e-11);
        assert!(between >= within);
    }
    let tape = Tape::new();
    let equal = group_distances(tape.constant(tensor(&Array2::ones((4, 2)))), &[0, 0, 1, 1]);
    assert!(equal.ratio().item().is_nan());
}

/// The information gain by plain loops with the estimator as published, whose constants cancel; at most the
/// entropy of the groups, and 0 where all outputs are one.
#[test]
fn the_gain_of_information() {
    let entropy = |x: &Array2<f64>, variance: f64| {
        // `entropy_estimator_bd` of the published code: that of 4σ², plus ln(¼) d/2.
        let (n, d) = (x.nrows() as f64, x.ncols() as f64);
        let (wide, mut sum) = (4.0 * variance, 0.0);
        for a in x.outer_iter() {
            let kernel = x.outer_iter().map(|b| {
                let distance = (&a - &b).mapv(|x| x * x).sum();
                (-distance / (2.0 * wide)).exp()
            });
            sum += (kernel.sum::<f64>() / n).ln() - d / 2.0 * (std::f64::consts::TAU * wide).ln();
        }
        d / 2.0 - sum / n + 0.25f64.ln() * d / 2.0
    };
    for seed in cases(3) {
        // More rows than are computed at a time.
        let n = 10 + 130 * (seed as usize % 3);
        let (x, h) = (rows(n, 4, 1.0, seed), rows(n, 3, 1.0, seed + 60));
        let unit =
            Array2::from_shape_fn((n, 4), |(i, k)| x[[i, k]] / x.row(i).dot(&x.row(i)).sqrt());
        let group = |i: usize| {
            (0..3)
                .max_by(|&a, &b| h[[i, a]].total_cmp(&h[[i, b]]))
                .unwrap()
        };
        let (mut expected, mut bound) = (entropy(&unit, 0.1), 0.0);
        for c in 0..3 {
            let members: Vec<usize> = (0..n).filter(|&i| group(i) == c).collect();
            let share = members.len() as f64 / n as f64;
            if share > 0.0 {
                expected -= share * entropy(&unit.select(Axis(0), &members), 0.1);
                bound -= share * share.log2();
            }
        }
        let found = information_gain(&tensor(&x), &tensor(&h), 0.1);
        assert!(
            (found - expected / std::f64::consts::LN_2).abs() < 1e-9,
            "{found} {expected}"
        );
        assert!(found <= bound + 1e-12);
    }
    let x = tensor(&rows(8, 4, 1.0, 1));
    assert_eq!(
        information_gain(&x, &tensor(&Array2::ones((8, 3))), 0.1),
        0.0
    );
    // Outputs that separate two distant groups: one bit, and less if the kernels overlap.
    let two = Array2::from_shape_fn((8, 1), |(i, _)| if i < 4 { 1.0 } else { -1.0 });
    let told = Array2::from_shape_fn((8, 2), |(i, k)| f64::from((i < 4) == (k == 0)));
    let found = information_gain(&tensor(&two), &tensor(&told), 0.1);
    assert!(found > 0.98 && found <= 1.0, "{found}");
}

/// First and second derivatives of all measures on the tape.
#[test]
fn measures_differentiate() {
    let x = init::normal::<f64>(&[5, 3], 1.0, &mut init::rng(3));
    let y = init::normal::<f64>(&[5, 3], 1.0, &mut init::rng(4));
    let graph = generators::complete(5);
    type Measure<'a> = &'a dyn for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>;
    let of_one: [(&str, Measure<'_>); 14] = [
        ("centred", &|x| centred(x[0]).square()),
        ("variance", &|x| variance(x[0])),
        ("row_variance", &|x| row_variance(x[0])),
        ("rank_one_norm", &|x| rank_one_norm(x[0])),
        ("rank_one_residual", &|x| rank_one_residual(x[0])),
        ("cosine_similarity", &|x| cosine_similarity(x[0])),
        ("attention_similarity", &|x| attention_similarity(x[0])),
        ("dirichlet_energy", &|x| dirichlet_energy(x[0], &graph)),
        ("normalised", &|x| normalised_dirichlet_energy(x[0], &graph)),
        ("contrastive", &|x| contrastive(x[0], &[1, 2, 3, 4, 0], 0.5)),
        ("alignment", &|x| {
            alignment(x[0], &[1, 2, 3, 4, 0], 0.5).square()
        }),
        ("uniformity", &|x| uniformity(x[0], 0.5)),
        ("dimension_loss", &|x| dimension_loss(x[0])),
        ("group ratio", &|x| {
            group_distances(x[0], &[0, 1, 0, 1, 1]).ratio()
        }),
    ];
    for (name, measure) in of_one {
        let checked = check_grads(measure, std::slice::from_ref(&x));
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let of_two: [(&str, Measure<'_>); 3] = [
        ("simclr", &|x| simclr(x[0], x[1], 0.5)),
        ("cross_correlation", &|x| cross_correlation(x[0], x[1])),
        ("barlow_twins", &|x| barlow_twins(x[0], x[1], 0.1)),
    ];
    for (name, measure) in of_two {
        let checked = check_grads(measure, &[x.clone(), y.clone()]);
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    // Rows of zeros and equal rows: derivatives are 0, not NaN.
    let flat: [Measure<'_>; 4] = [
        &|x| cosine_similarity(x[0]),
        &|x| rank_one_residual(x[0]),
        &|x| group_distances(x[0], &[0, 1, 0]).within,
        &|x| simclr(x[0], x[0], 1.0),
    ];
    for measure in flat {
        let tape = Tape::new();
        let x = tape.var(Tensor::<f64>::zeros(vec![3, 2]));
        assert!(grad(measure(&[x]), &[x])[0].iter().all(|g| *g == 0.0));
    }
}
