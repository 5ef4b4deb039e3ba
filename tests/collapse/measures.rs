//! The measures of rows against plain loops, their ranges, and the derivatives of all measures.

use super::support::{cases, centring, cosine, near, rows, shape, spread, tensor};
use emmy::autodiff::{check_grads, grad};
use emmy::collapse::{
    Spectrum, attention_similarity, centred, cosine_similarity, dimension_loss, dirichlet_energy,
    normalised_dirichlet_energy, rank_one_distance, rank_one_norm, rank_one_residual, row_variance,
    uniformity, value, variance,
};
use emmy::graph::generators;
use emmy::ndarray::{Array2, Axis, array};
use emmy::{Tape, Tensor, Var, init};

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

/// First and second derivatives of all measures on the tape.
#[test]
fn measures_differentiate() {
    let x = init::normal::<f64>(&[5, 3], 1.0, &mut init::rng(3));
    let graph = generators::complete(5);
    type Measure<'a> = &'a dyn for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>;
    let of_one: [(&str, Measure<'_>); 11] = [
        ("centred", &|x| centred(x[0]).square()),
        ("variance", &|x| variance(x[0])),
        ("row_variance", &|x| row_variance(x[0])),
        ("rank_one_norm", &|x| rank_one_norm(x[0])),
        ("rank_one_residual", &|x| rank_one_residual(x[0])),
        ("cosine_similarity", &|x| cosine_similarity(x[0])),
        ("attention_similarity", &|x| attention_similarity(x[0])),
        ("dirichlet_energy", &|x| dirichlet_energy(x[0], &graph)),
        ("normalised", &|x| normalised_dirichlet_energy(x[0], &graph)),
        ("uniformity", &|x| uniformity(x[0], 0.5)),
        ("dimension_loss", &|x| dimension_loss(x[0])),
    ];
    for (name, measure) in of_one {
        let checked = check_grads(measure, std::slice::from_ref(&x));
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    // Rows of zeros and equal rows: derivatives are 0, not NaN.
    let flat: [Measure<'_>; 2] = [&|x| cosine_similarity(x[0]), &|x| rank_one_residual(x[0])];
    for measure in flat {
        let tape = Tape::new();
        let x = tape.var(Tensor::<f64>::zeros(vec![3, 2]));
        assert!(grad(measure(&[x]), &[x])[0].iter().all(|g| *g == 0.0));
    }
}

/// Rows of one direction have the similarity 1, however short or long they are.
#[test]
fn similarity_does_not_depend_on_the_size_of_rows() {
    for size in [1e-30_f32, 1e-10, 1.0, 1e25, 1e37] {
        let rows = [1.0, 2.0, 2.0, 4.0, 0.5, 1.0].map(|x: f32| x * size);
        let found = value(
            &emmy::tensor::tensor(&[3, 2], rows.to_vec()),
            cosine_similarity,
        );
        assert!((found - 1.0).abs() < 1e-6, "{size:e}: {found}");
    }
}
