//! Proposition 1, its lemmas and its remark: complete collapse. E5, E7, E9.

use super::support::{cases, centring, eigenvalues, largest, near, rows, softmax, spread, step};
use emmy::linalg;
use emmy::ndarray::{Array1, Array2, Axis, array, s};

/// P = (I − eeᵀ)(I − A) + (I − A)ᵀ(I − eeᵀ).
fn p_of(a: &Array2<f64>) -> Array2<f64> {
    let q = q_of(a);
    &q + &q.t()
}

/// Q = (I − eeᵀ)(I − A).
fn q_of(a: &Array2<f64>) -> Array2<f64> {
    let n = a.nrows();
    centring(n).dot(&(Array2::eye(n) - a))
}

/// Rows of different kinds: normal, on a line with a few far ones, on a circle.
fn features(seed: u64) -> Array2<f64> {
    let k = seed as usize;
    let (n, d) = (2 + k % 8, 1 + k / 8 % 4);
    let size = [0.2, 1.0, 3.0, 10.0][k / 3 % 4];
    let mut h = rows(n, d, size, seed);
    match k % 3 {
        0 => h,
        1 => {
            h.row_mut(0).mapv_inplace(|x| 5.0 * x);
            h
        }
        _ => {
            let first = h.column(0).mapv(f64::round).insert_axis(Axis(1));
            &first * &Array2::<f64>::ones((1, d))
        }
    }
}

/// Var(H_t) ≥ (1 + sσ_min) Var(H_b). E5: P e = 0, so σ_min ≤ 0, and the condition σ_min ≥ 0 means σ_min = 0.
#[test]
fn proposition_1() {
    let mut tight = 0.0_f64;
    for seed in cases(300) {
        let h = features(seed);
        let n = h.nrows();
        let s = [0.05, 0.3, 1.0, 4.0][seed as usize / 5 % 4];
        let a = softmax(&h.dot(&h.t()));
        let p = p_of(&a);
        assert!(largest(&p.dot(&Array2::ones((n, 1)))) < 1e-13);
        let least = eigenvalues(&p)[0];
        assert!(least <= 1e-13, "case {seed}: {least}");
        let (before, after) = (spread(&h), spread(&step(&h, s)));
        let bound = (1.0 + s * least) * before;
        assert!(
            after >= bound - 1e-11 * before,
            "case {seed}: {after} below {bound}"
        );
        if before > 0.0 {
            tight = tight.max(bound / after);
        }
    }
    assert!(tight > 0.5, "no case was near the bound: {tight}");
}

/// E7: the bound of the appendix, (1 − sσ_min)⁻¹, is larger, and false.
#[test]
fn the_bound_of_the_appendix_is_false() {
    let column = |pairs: [(f64, usize); 4]| {
        let values = pairs.iter().flat_map(|&(x, times)| vec![x; times]);
        Array1::from_iter(values).insert_axis(Axis(1))
    };
    let cases = [
        (
            column([(10.0, 1), (-10.0, 1), (4.0, 4), (-4.0, 4)]),
            0.25,
            0.762_195,
            0.763_932,
        ),
        (
            column([(10.0, 1), (-10.0, 1), (5.0, 9), (-5.0, 9)]),
            1.0,
            0.3077,
            0.3162,
        ),
    ];
    for (h, s, expected, printed) in cases {
        let a = softmax(&h.dot(&h.t()));
        let least = eigenvalues(&p_of(&a))[0];
        let ratio = spread(&step(&h, s)) / spread(&h);
        near(ratio, expected, 1e-4);
        near(1.0 / (1.0 - s * least), printed, 1e-4);
        assert!(ratio < 1.0 / (1.0 - s * least) && ratio >= 1.0 + s * least);
    }
    // σ_min of the first is 1 − √5.
    let h = column([(10.0, 1), (-10.0, 1), (4.0, 4), (-4.0, 4)]);
    near(
        eigenvalues(&p_of(&softmax(&h.dot(&h.t()))))[0],
        1.0 - 5f64.sqrt(),
        1e-6,
    );
}

/// Eq. (17), with λ before every term and (1 − λ)(I − eeᵀ) in place of (1 − λ)I, and signs that agree. As
/// printed it differs by (1 − λ)eeᵀ, and the eigenvalue that the proof reads off, (1 − λ) − sσ_min, has lost
/// a λ.
#[test]
fn the_expansion_of_the_proof() {
    for seed in cases(40) {
        let h = features(seed);
        let n = h.nrows();
        let (s, lambda) = (0.7, 0.4 + 0.1 * (seed % 10) as f64);
        let a = softmax(&h.dot(&h.t()));
        let one = Array2::<f64>::eye(n);
        let (c, rest) = (centring(n), &one - &a);
        let step = &one * (1.0 + s) - &a * s;
        let sigma = &c - &(step.t().dot(&c).dot(&step) * lambda);
        let last = rest.t().dot(&c).dot(&rest) * (lambda * s * s);
        let tail = &(p_of(&a) * (lambda * s)) + &last;
        assert!(largest(&(&c * (1.0 - lambda) - &tail - &sigma)) < 1e-12);
        let printed = &one * (1.0 - lambda) - &tail;
        let apart = &printed - &sigma;
        let constant = Array2::from_elem((n, n), (1.0 - lambda) / n as f64);
        assert!(largest(&(apart - constant)) < 1e-12);
    }
    // The largest eigenvalue of (1 − λ)(I − eeᵀ) − λsP is max(0, 1 − λ − λsσ) of P's least σ on 1⊥.
    let h = array![[10.0], [-10.0], [-5.0]];
    let p = p_of(&softmax(&h.dot(&h.t())));
    let (s, least) = (1.0, eigenvalues(&p)[0]);
    let lambda = 0.8;
    let top = eigenvalues(&(&centring(3) * (1.0 - lambda) - &(&p * (lambda * s))))[2];
    near(top, 1.0 - lambda - lambda * s * least, 1e-10);
    assert!((top - (1.0 - lambda - s * least)).abs() > 0.01);
}

/// Lemma B.1 and Eq. (12) to (15). λ is the least for which the condition holds, so it is attained.
#[test]
fn lemma_b_1() {
    for seed in cases(60) {
        let n = 3 + seed as usize % 6;
        let x = rows(n, 1 + seed as usize % 4, 1.0, seed);
        // Rows of Q with one sum: else Q makes a spread of 0 of some X that has one, and there is no λ.
        let q = softmax(&rows(n, n, 2.0, seed + 500)) - Array2::<f64>::eye(n) * 0.3;
        let c = centring(n);
        let basis = linalg::eigh(c.view()).1.slice(s![.., 1..]).to_owned();
        let within = basis.t().dot(&q).dot(&basis);
        let (_, sizes, directions) = linalg::svd(within.view());
        let least = sizes[n - 2];
        if least < 1e-3 {
            continue;
        }
        let lambda = least.powi(-2);
        let sigma = &c - &(q.t().dot(&c).dot(&q) * lambda);
        let eigen = eigenvalues(&sigma);
        assert!(eigen[n - 1] <= 1e-9 * largest(&sigma).max(1.0));
        let moved = q.dot(&x);
        assert!(spread(&moved) >= spread(&x) / lambda * (1.0 - 1e-9));
        let worst = basis.dot(&directions.row(n - 2).insert_axis(Axis(1)));
        near(spread(&q.dot(&worst)), spread(&worst) / lambda, 1e-8);

        // (12) to (14), by the eigenvectors y_i and eigenvalues ω_i of XXᵀ; (13) with Pᵀ, where P is printed.
        let (omega, y) = linalg::eigh(x.dot(&x.t()).view());
        let sum = |m: &Array2<f64>| -> f64 {
            (0..n)
                .map(|i| omega[i] * y.column(i).dot(&m.dot(&y.column(i))))
                .sum()
        };
        near(sum(&c), spread(&x), 1e-9);
        near(sum(&q.t().dot(&c).dot(&q)), spread(&moved), 1e-9);
        let difference = spread(&x) - lambda * spread(&moved);
        assert!((sum(&sigma) - difference).abs() < 1e-8 * (1.0 + difference.abs()));
        for i in 0..n {
            assert!(y.column(i).dot(&sigma.dot(&y.column(i))) <= 1e-8 * largest(&sigma).max(1.0));
        }
    }
    let (x, q) = (array![[1.0], [0.0]], array![[0.0, 1.0], [0.0, 0.0]]);
    let c = centring(2);
    let printed = x.t().dot(&q).dot(&c).dot(&q).dot(&x)[[0, 0]];
    assert!(printed == 0.0 && spread(&q.t().dot(&x)) == 0.5);
}

/// Lemma B.2, Weyl's inequalities, Eq. (16), for all i, j, k.
#[test]
fn lemma_b_2() {
    for seed in cases(40) {
        let n = 1 + seed as usize % 7;
        let symmetric = |seed| {
            let x = rows(n, n, 1.0, seed);
            &x + &x.t()
        };
        let (a, b) = (symmetric(seed), symmetric(seed + 700));
        // Descending.
        let [alpha, beta, gamma] =
            [&a, &b, &(&a + &b)].map(|m| eigenvalues(m).iter().rev().copied().collect::<Vec<_>>());
        for i in 1..=n {
            for j in 1..=n {
                let sum = alpha[i - 1] + beta[j - 1];
                if i + j > n {
                    assert!(sum <= gamma[i + j - n - 1] + 1e-12);
                }
                if i + j <= n + 1 {
                    assert!(gamma[i + j - 2] <= sum + 1e-12);
                }
            }
        }
    }
}

/// An attention matrix with Σ_k a_kj ≤ 1 + n a_ij: near the uniform one, or with columns that sum to 1 too.
fn balanced(n: usize, seed: u64) -> Array2<f64> {
    if seed.is_multiple_of(2) {
        let uniform = Array2::from_elem((n, n), 1.0 / n as f64);
        let share = 1.0 / n as f64;
        return uniform * (1.0 - share) + softmax(&rows(n, n, 3.0, seed)) * share;
    }
    // A mean of permutations.
    let mut a = Array2::zeros((n, n));
    for part in 0..3 {
        let keys = rows(n, 1, 1.0, 10 * seed + part);
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&i, &j| keys[[i, 0]].total_cmp(&keys[[j, 0]]));
        for (i, &j) in order.iter().enumerate() {
            a[[i, j]] += 1.0 / 3.0;
        }
    }
    a
}

/// The remark, Eq. (18) to (22): the condition makes P diagonally dominant, so σ_min = 0 and the variance
/// does not fall. Σ_k b_kj = 0, by which the paper explains Eq. (20), holds only where columns sum to 1; Eq.
/// (20) holds for every A, by eᵀ(I − eeᵀ) = 0.
#[test]
fn the_condition_of_the_remark() {
    for seed in cases(60) {
        let n = 2 + seed as usize % 7;
        let a = balanced(n, seed);
        let columns = a.sum_axis(Axis(0));
        let holds = |i: usize, j: usize| columns[j] <= 1.0 + n as f64 * a[[i, j]] + 1e-12;
        assert!((0..n).all(|i| (0..n).all(|j| holds(i, j))));
        let (b, q, p) = (Array2::<f64>::eye(n) - &a, q_of(&a), p_of(&a));
        let means = b.mean_axis(Axis(0)).unwrap();
        for j in 0..n {
            let (mut column, mut row, mut size, mut signed) = (0.0, 0.0, 0.0, 0.0);
            for k in 0..n {
                assert!((q[[k, j]] - (b[[k, j]] - means[j])).abs() < 1e-13);
                if k != j {
                    assert!(b[[j, j]] >= means[j] - 1e-13 && means[j] >= b[[k, j]] - 1e-13);
                    column += q[[k, j]];
                    row += q[[j, k]];
                    size += p[[k, j]].abs();
                    signed += p[[k, j]];
                }
            }
            assert!((q[[j, j]].abs() - f64::abs(column)).abs() < 1e-12);
            assert!((q[[j, j]].abs() - f64::abs(row)).abs() < 1e-12);
            let diagonal = p[[j, j]].abs();
            assert!((diagonal - 2.0 * q[[j, j]].abs()).abs() < 1e-12);
            assert!(diagonal >= f64::abs(signed) - 1e-12 && diagonal >= size - 1e-12);
        }
        assert!(eigenvalues(&p)[0].abs() < 1e-12);
        let h = rows(n, 3, 1.0, seed + 40);
        // With this matrix in place of the softmax.
        assert!(spread(&(&h * 1.5 - a.dot(&h) * 0.5)) >= spread(&h) * (1.0 - 1e-12));
        if seed.is_multiple_of(2) && n > 2 {
            assert!(largest(&means.insert_axis(Axis(0))) > 1e-4);
        }
    }
    // (20) and (21) hold for any attention matrix.
    let q = q_of(&softmax(&rows(5, 5, 3.0, 1)));
    for axis in [Axis(0), Axis(1)] {
        assert!(q.sum_axis(axis).iter().all(|x| x.abs() < 1e-13));
    }
}

/// Points evenly on a circle: all rows of softmax(HHᵀ) hold the same numbers, its columns sum to 1, and the
/// variance grows.
#[test]
fn points_on_a_circle_move_apart() {
    let n = 7;
    let h = Array2::from_shape_fn((n, 2), |(i, c)| {
        let angle = std::f64::consts::TAU * i as f64 / n as f64;
        if c == 0 { angle.cos() } else { angle.sin() }
    });
    let a = softmax(&h.dot(&h.t()));
    assert!(eigenvalues(&p_of(&a))[0].abs() < 1e-12);
    assert!(spread(&step(&h, 0.5)) > 1.1 * spread(&h));
}

/// E9: without the condition, ContraNorm can lower the variance.
#[test]
fn the_variance_may_fall() {
    let h = array![[10.0], [-10.0], [-5.0]];
    near(spread(&h), 216.667, 1e-5);
    near(spread(&step(&h, 1.0)), 200.0, 1e-5);
}
