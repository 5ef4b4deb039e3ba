//! Proposition 2 and Lemma B.3: dimensional collapse. E4, E8, E10.

use super::support::{alike, cases, gradient, moved, near, rotation, rows, shape, tensor};
use emmy::collapse::{Spectrum, dimension_loss, rank_one_distance, value};
use emmy::ndarray::{Array1, Array2, array};
use emmy::nn::ContraConfig;

/// Eq. (10), (1 + s)H − s HHᵀH, by the library's layer.
fn update(h: &Array2<f64>, s: f64) -> Array2<f64> {
    moved(ContraConfig::dimension(s), h)
}

fn rank(h: &Array2<f64>) -> f64 {
    Spectrum::of(&tensor(h)).effective_rank()
}

fn largest(h: &Array2<f64>) -> f64 {
    Spectrum::of(&tensor(h)).values[0]
}

/// U diag(σ) Vᵀ, n × d.
fn with_values(n: usize, d: usize, values: &[f64], seed: u64) -> Array2<f64> {
    let mut middle = Array2::zeros((n, d));
    for (k, &x) in values.iter().enumerate() {
        middle[[k, k]] = x;
    }
    rotation(n, seed).dot(&middle).dot(&rotation(d, seed + 1))
}

/// Definition 3.1, on singular values that are known.
#[test]
fn the_effective_rank() {
    for seed in cases(30) {
        let values = rows(3, 1, 1.0, seed).mapv(f64::abs);
        let total = values.sum();
        let entropy: f64 = values.iter().map(|s| -s / total * (s / total).ln()).sum();
        let h = with_values(6, 4, values.as_slice().unwrap(), seed);
        near(rank(&h), entropy.exp(), 1e-9);
        let spectrum = Spectrum::of(&tensor(&h));
        let top = values.iter().fold(0.0, |m: f64, x| m.max(*x));
        near(
            spectrum.numerical_rank(),
            values.mapv(|x| x * x).sum() / (top * top),
            1e-9,
        );
        // Both lie between 1 and the rank, here 3.
        for rank in [spectrum.effective_rank(), spectrum.numerical_rank()] {
            assert!((1.0 - 1e-12..=3.0 + 1e-9).contains(&rank));
        }
    }
    assert_eq!(rank(&Array2::zeros((3, 2))), 0.0);
    near(rank(&(Array2::eye(5) * 0.3)), 5.0, 1e-14);
}

/// Proposition 2, corrected: with 1 + (1 − 3σ_max²)s ≥ 0 the effective rank does not fall; equality of the
/// condition is allowed.
#[test]
fn proposition_2_corrected() {
    for seed in cases(300) {
        let (n, d, _) = shape(seed);
        let h = rows(n, d, 1.0, seed);
        let s: f64 = [0.01, 0.2, 1.0, 5.0][seed as usize % 4];
        // The largest σ that is allowed, or a part of it.
        let limit = ((1.0 + s) / (3.0 * s)).sqrt();
        let h = &h * (limit * [1.0, 0.9, 0.3][seed as usize % 3] / largest(&h));
        let (before, after) = (rank(&h), rank(&update(&h, s)));
        assert!(
            after >= before * (1.0 - 1e-10),
            "case {seed}: {before} → {after}"
        );
    }
}

/// E4: as printed, with 1 + (1 − σ_max²)s > 0, it fails: the map of the singular values, σ(1 + s − sσ²), does
/// not keep their order above σ² = (1 + s)/3s.
#[test]
fn proposition_2_as_printed_fails() {
    let h = Array2::from_diag(&array![1.41, 0.5]);
    assert!(1.0 + (1.0 - 1.41f64.powi(2)) > 0.0 && 1.0 + (1.0 - 3.0 * 1.41f64.powi(2)) < 0.0);
    let t = update(&h, 1.0);
    near(t[[0, 0]], 1.41 * (2.0 - 1.41f64.powi(2)), 1e-12);
    near(rank(&h), 1.777, 1e-3);
    near(rank(&t), 1.098, 1e-3);
    // The same in random cases that satisfy only the printed condition.
    let mut falls = 0;
    for seed in cases(200) {
        let (n, d, _) = shape(seed);
        let h = rows(n + 1, d + 1, 1.0, seed);
        let h = &h * (0.98 * 2f64.sqrt() / largest(&h));
        falls += u32::from(rank(&update(&h, 1.0)) < rank(&h) * (1.0 - 1e-6));
    }
    assert!(falls > 10, "{falls}");
}

/// E10: not strictly. Equality where all non-zero singular values are equal, and only there.
#[test]
fn the_rank_stays_where_all_singular_values_are_equal() {
    near(rank(&update(&Array2::eye(2), 0.4)), 2.0, 1e-14);
    for seed in cases(40) {
        let s = 0.2 + 0.1 * (seed % 5) as f64;
        let limit = ((1.0 + s) / (3.0 * s)).sqrt();
        let count = 1 + seed as usize % 3;
        let equal = vec![0.8 * limit; count];
        let h = with_values(5, 4, &equal, seed);
        near(rank(&update(&h, s)), count as f64, 1e-7);
        let mut unequal = equal.clone();
        unequal.push(0.5 * limit);
        let h = with_values(5, 4, &unequal, seed);
        assert!(rank(&update(&h, s)) > rank(&h) + 1e-4);
    }
}

/// Eq. (23) to (25): H_t = ((1 + s)I − sHHᵀ)H, printed with H in place of I, which is no product unless n =
/// d; H_tH_tᵀ is a polynomial of HHᵀ with eigenvalues (λs − (1 + s))²λ.
#[test]
fn the_spectrum_after_the_step() {
    for seed in cases(40) {
        let (n, d, size) = shape(seed);
        let (h, s) = (rows(n, d, size.min(2.0), seed), 0.3);
        let (g, t) = (h.dot(&h.t()), update(&h, s));
        alike(&(Array2::eye(n) * (1.0 + s) - &g * s).dot(&h), &t, 1e-12);
        let expected = g.dot(&g).dot(&g) * (s * s) - g.dot(&g) * (2.0 * s * (1.0 + s))
            + &g * (1.0 + s).powi(2);
        let rounding = 1e-13 * (1.0 + size.powi(6)) * 1e3;
        assert!(
            (t.dot(&t.t()) - expected)
                .iter()
                .all(|x| x.abs() < rounding)
        );
        let of = |x: &Array2<f64>| Spectrum::of(&tensor(x)).values;
        let mut mapped: Vec<f64> = of(&h)
            .iter()
            .map(|x| x * (x * x * s - 1.0 - s).abs())
            .collect();
        mapped.sort_by(|a, b| b.total_cmp(a));
        let top = mapped[0].max(1e-3);
        for (x, y) in of(&t).iter().zip(&mapped) {
            assert!((x - y).abs() < 1e-10 * top.max(size.powi(3)), "{x} {y}");
        }
    }
}

/// Lemma B.3: if σ_i/λ_i is increasing and both sequences are descending, erank(B) ≥ erank(A). The order of
/// the σ is needed, and the printed condition of Proposition 2 does not guarantee it.
#[test]
fn lemma_b_3() {
    let of = |eigenvalues: &[f64]| {
        let roots = Array1::from_iter(eigenvalues.iter().map(|x| x.sqrt()));
        rank(&Array2::from_diag(&roots))
    };
    let mut seen = 0;
    for seed in 0..200 {
        let n = 2 + seed as usize % 5;
        let draw = rows(n, 2, 1.0, seed).mapv(f64::abs);
        let mut lambda: Vec<f64> = draw.column(0).to_vec();
        lambda.sort_by(|a, b| b.total_cmp(a));
        let mut ratio: Vec<f64> = draw.column(1).mapv(|x| 1.0 + x).to_vec();
        ratio.sort_by(f64::total_cmp);
        let sigma: Vec<f64> = lambda.iter().zip(&ratio).map(|(l, r)| l * r).collect();
        if sigma.windows(2).all(|w| w[0] >= w[1]) {
            seen += 1;
            assert!(of(&sigma) >= of(&lambda) - 1e-12, "{lambda:?} {sigma:?}");
        }
    }
    assert!(seen > 30, "{seen}");
    let lambda = [1.41f64.powi(2), 0.25];
    let sigma = lambda.map(|l| (l - 2.0).powi(2) * l);
    assert!(sigma[1] / lambda[1] > sigma[0] / lambda[0] && of(&sigma) < of(&lambda));
}

/// E8: ∂L_dim/∂H = −(I − HHᵀ)H, printed with the other sign; Eq. (10) is descent on it.
#[test]
fn the_derivative_of_the_dimension_loss() {
    for seed in cases(40) {
        let (n, d, size) = shape(seed);
        let h = rows(n, d, size.min(2.0), seed);
        let rest = Array2::eye(n) - h.dot(&h.t());
        let trace = rest.dot(&rest).diag().sum() / 4.0;
        near(value(&tensor(&h), dimension_loss), trace, 1e-11);
        assert!(trace >= (n as f64 - d as f64).max(0.0) / 4.0 - 1e-12);
        let found = gradient(&h, dimension_loss);
        let expected = -rest.dot(&h);
        assert!(
            (&found - &expected)
                .iter()
                .all(|x| x.abs() < 1e-11 * (1.0 + size.powi(3)) * 10.0)
        );
        let s = 0.05;
        let step = &h - &(found * s);
        for by_layer in [update(&h, s), &h * (1.0 + s) - h.dot(&h.t()).dot(&h) * s] {
            assert!(
                (&step - &by_layer)
                    .iter()
                    .all(|x| x.abs() < 1e-10 * (1.0 + size.powi(3)))
            );
        }
        let s = 1e-3 / (1.0 + h.mapv(|x| x * x).sum());
        let moved = value(&tensor(&update(&h, s)), dimension_loss);
        assert!(moved <= trace * (1.0 + 1e-12), "{trace} → {moved}");
    }
    let found = gradient(&array![[0.5]], dimension_loss);
    assert_eq!(found[[0, 0]], -0.375);
}

/// min_x √(‖X − 1xᵀ‖₁ ‖X − 1xᵀ‖∞) of one column is √(Σ|aᵢ − m| · max |aᵢ − x|) at its best x, searched for on
/// a grid of differences; far from 0 it is that of the same differences.
#[test]
fn the_distance_of_rows_far_from_zero_is_within_its_interval() {
    let distance = |numbers: &[f64]| {
        let x = emmy::tensor::tensor(&[numbers.len(), 1], numbers.to_vec());
        let interval = rank_one_distance(&x);
        [interval.lower.get(), interval.upper.get()]
    };
    assert_eq!(distance(&[0.1; 3]), [0.0, 0.0]);
    // Differences of halves are exact beside 2⁵⁰, and so is their distance.
    for (near, seed) in [[0.0, 1.5, 4.0], [0.0, 0.5, 0.5], [3.0, 0.0, 2.5]]
        .iter()
        .zip(0..)
    {
        let true_one = (0..=4000).map(|k| {
            let x = f64::from(k) / 1000.0;
            let away = near.map(|a| (a - x).abs());
            (away.iter().sum::<f64>() * away.iter().fold(0.0, |m: f64, a| m.max(*a))).sqrt()
        });
        let true_one = true_one.fold(f64::INFINITY, f64::min);
        for offset in [0.0, 2_f64.powi(50), -2_f64.powi(50)] {
            let [lower, upper] = distance(&near.map(|a| a + offset));
            assert!(
                lower <= true_one * (1.0 + 1e-12) && upper >= true_one * (1.0 - 1e-3),
                "{seed}, {offset}: {lower} {true_one} {upper}"
            );
        }
    }
    for size in [1e308, 1e-310] {
        let [lower, upper] = distance(&[size, -size, 0.0]);
        assert!(
            lower <= upper && lower > 0.9 * size && lower.is_finite(),
            "{lower} {upper}"
        );
    }
}
