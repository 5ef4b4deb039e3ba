//! Contrastive losses: Eq. (1) to (7) and (11).

use super::support::{alike, cases, gradient, largest, near, rows, shape, softmax, tensor, terms};
use emmy::collapse::{alignment, contrastive, simclr, uniformity, uniformity_by_row, value};
use emmy::ndarray::{Array2, Axis};
use emmy::{Tape, Tensor, Var};

/// A_ij = exp(h_i·h_j/τ), and its row sums.
fn scores(h: &Array2<f64>, tau: f64) -> (Array2<f64>, Vec<f64>) {
    let a = (h.dot(&h.t()) / tau).mapv(f64::exp);
    let d = a.sum_axis(Axis(1)).to_vec();
    (a, d)
}

/// Σ_{k≠i} A_ik: the difference of the sum and A_ii would lose digits.
fn others(a: &Array2<f64>, i: usize) -> f64 {
    (0..a.ncols()).filter(|&k| k != i).map(|k| a[[i, k]]).sum()
}

fn temperature(seed: u64) -> f64 {
    [0.5, 1.0, 2.0][seed as usize % 3]
}

/// Eq. (2) and (3): the loss by plain loops; between n ln n and n (ln n + max ‖h_i‖²/τ).
#[test]
fn the_uniformity_loss() {
    for seed in cases(60) {
        let (n, d, size) = shape(seed);
        let (h, tau) = (rows(n, d, size.min(2.0), seed), temperature(seed));
        let (_, sums) = scores(&h, tau);
        let expected: f64 = sums.iter().map(|sum| sum.ln()).sum();
        let found = value(&tensor(&h), |h| uniformity(h, tau));
        assert!(
            (found - expected).abs() < 1e-11 * (1.0 + expected.abs()),
            "case {seed}"
        );
        let least = n as f64 * (n as f64).ln();
        let longest = h.rows().into_iter().map(|r| r.dot(&r)).fold(0.0, f64::max);
        let most = least + n as f64 * longest / tau;
        assert!(
            found >= least - 1e-12 && found <= most + 1e-9,
            "{least} {found} {most}"
        );
    }
    // Both ends.
    let n = 6;
    let nlogn = 6.0 * 6f64.ln();
    let of = |h: Array2<f64>| value(&tensor(&h), |h| uniformity(h, 0.5));
    near(of(Array2::zeros((n, 3))), nlogn, 1e-14);
    near(of(Array2::ones((n, 3))), nlogn + 6.0 * 3.0 / 0.5, 1e-14);
}

/// Eq. (4), entry by entry, and Eq. (5) are the derivative that the tape computes. E12: without τ inside the
/// exponential they are not, unless τ = 1.
#[test]
fn the_derivative_of_the_uniformity_loss() {
    for seed in cases(60) {
        let (n, d, size) = shape(seed);
        let (h, tau) = (rows(n, d, size.min(2.0), seed), temperature(seed));
        let found = gradient(&h, |h| uniformity(h, tau));
        let (a, sums) = scores(&h, tau);
        let entry = |i: usize, c: usize| -> f64 {
            let own = (0..n).map(|j| a[[i, j]] / sums[i] * h[[j, c]] / tau);
            let others = (0..n).map(|j| a[[i, j]] / sums[j] * h[[j, c]] / tau);
            own.sum::<f64>() + others.sum::<f64>()
        };
        alike(
            &found,
            &Array2::from_shape_fn((n, d), |(i, c)| entry(i, c)),
            1e-10,
        );
        let [first, second] = terms(&h, tau);
        alike(&found, &(first + second), 1e-10);
    }
    let h = rows(5, 3, 1.0, 7);
    let printed = softmax(&h.dot(&h.t())).dot(&h) / 0.5;
    let [first, _] = terms(&h, 0.5);
    assert!((&printed - &first).mapv(f64::abs).sum() > 0.1 * first.mapv(f64::abs).sum());
    alike(&softmax(&h.dot(&h.t())).dot(&h), &terms(&h, 1.0)[0], 1e-14);
}

/// More rows than one tile has: the same loss and derivative, and no matrix of n × n on the tape.
#[test]
fn many_rows_are_computed_in_tiles() {
    let h = rows(600, 3, 1.0, 0);
    let (_, sums) = scores(&h, 0.7);
    let tape = Tape::new();
    let x = tape.var(tensor(&h));
    let loss = uniformity(x, 0.7);
    near(loss.item(), sums.iter().map(|sum| sum.ln()).sum(), 1e-12);
    assert!(tape.len() < 20, "{:?}", tape.operations());
    let [first, second] = terms(&h, 0.7);
    alike(
        &gradient(&h, |h| uniformity(h, 0.7)),
        &(first + second),
        1e-11,
    );
    let positives: Vec<usize> = (0..600).map(|i| i ^ 1).collect();
    let blocks = tape.no_grad(|| contrastive(x, &positives, 0.7).value());
    for i in [0, 511, 512, 599] {
        let alone = |k: usize| (h.row(i).dot(&h.row(k)) / 0.7).exp();
        let rest: f64 = (0..600).filter(|&k| k != i).map(alone).sum();
        let expected = -(alone(i ^ 1) / rest).ln();
        near(blocks[[i]], expected, 1e-10);
    }
}

/// A small step of Eq. (6) lowers the uniformity loss, and so does one of Eq. (7), whose direction is half of
/// the derivative: the cosine between the two was never below 0.7 (0.755 in 40 000 draws).
#[test]
fn small_steps_lower_the_uniformity_loss() {
    let mut least = 1.0_f64;
    for seed in cases(120) {
        let (n, d, size) = shape(seed);
        let (h, tau) = (rows(n, d, size, seed), temperature(seed));
        let [first, second] = terms(&h, tau);
        let whole = &first + &second;
        let dot = |a: &Array2<f64>, b: &Array2<f64>| (a * b).sum();
        let cosine = dot(&first, &whole) / (dot(&first, &first) * dot(&whole, &whole)).sqrt();
        least = least.min(cosine);
        let before = value(&tensor(&h), |h| uniformity(h, tau));
        for direction in [&whole, &first] {
            let s = 1e-4 * dot(&h, &h).sqrt() / dot(direction, direction).sqrt();
            let after = value(&tensor(&(&h - &(direction * s))), |h| uniformity(h, tau));
            assert!(after < before, "case {seed}: {before} → {after}");
        }
    }
    assert!(least > 0.7, "{least}");
}

/// Eq. (1) against Eq. (2): alignment + uniformity − L(i, i⁺) = −ln(1 − p_ii) > 0 with p_ii the share of k =
/// i in the sum. For two rows L is always 0, and the two parts are not.
#[test]
fn the_split_into_alignment_and_uniformity_is_no_identity() {
    for seed in cases(60) {
        let (n, d, size) = shape(seed);
        let (n, tau) = (n + 1, temperature(seed));
        let h = rows(n, d, size.min(2.0), seed);
        let positives: Vec<usize> = (0..n).map(|i| (i + 1) % n).collect();
        let tape = Tape::new();
        let x = tape.constant(tensor(&h));
        let loss = contrastive(x, &positives, tau).value();
        let parts = (alignment(x, &positives, tau) + uniformity_by_row(x, tau)).value();
        let (a, sums) = scores(&h, tau);
        for i in 0..n {
            let expected = -(a[[i, positives[i]]] / others(&a, i)).ln();
            assert!(
                (loss[[i]] - expected).abs() < 1e-11 * (1.0 + expected.abs()),
                "case {seed}"
            );
            let gap = -(others(&a, i) / sums[i]).ln();
            let size = 1.0 + loss[[i]].abs() + parts[[i]].abs();
            assert!(gap >= 0.0 && (parts[[i]] - loss[[i]] - gap).abs() < 1e-11 * size);
            assert!(gap > 0.0 || a[[i, i]] < 1e-15 * sums[i], "case {seed}");
        }
        if n == 2 {
            assert!(loss.iter().all(|x| x.abs() < 1e-12));
        }
    }
}

/// Appendix A: −1/(2n) Σ_{u ∈ V} ln( exp(u·u′/τ) / Σ_{v ≠ u} exp(u·v/τ) ), V both views with rows of length
/// 1.
#[test]
fn the_loss_of_simclr() {
    for seed in cases(30) {
        let (n, d, size) = shape(seed);
        let tau = temperature(seed);
        let (a, b) = (rows(n, d, size, seed), rows(n, d, size, seed + 1000));
        let unit = |x: &Array2<f64>, i: usize| {
            let row = x.row(i);
            &row / row.dot(&row).sqrt()
        };
        let all: Vec<_> = (0..2 * n)
            .map(|k| if k < n { unit(&a, k) } else { unit(&b, k - n) })
            .collect();
        let mut expected = 0.0;
        for (k, u) in all.iter().enumerate() {
            let others = (0..2 * n).filter(|&v| v != k);
            let sum: f64 = others.map(|v| (u.dot(&all[v]) / tau).exp()).sum();
            let positive = u.dot(&all[(k + n) % (2 * n)]) / tau;
            expected -= (positive - sum.ln()) / (2.0 * n as f64);
        }
        let tape = Tape::new();
        let found = simclr(tape.constant(tensor(&a)), tape.constant(tensor(&b)), tau).item();
        assert!(
            (found - expected).abs() < 1e-12 * (1.0 + expected.abs()),
            "{found} {expected}"
        );
    }
}

/// The derivative of this loss with respect to a row u, with its two parts s_v and t_v, and Eq. (11), the
/// derivative of the uniformity part. Eq. (11) leaves out v = u; Eq. (4), which is said to share its form,
/// does not.
#[test]
fn the_derivative_of_simclr() {
    let (mut differ, mut all) = (0, 0);
    for seed in cases(30) {
        let (n, d, size) = shape(seed);
        // With one pair there are no other rows, so the uniformity part is empty.
        let (n, tau) = (n + 1, temperature(seed));
        let u = rows(2 * n, d, size.min(2.0), seed);
        let count = 2 * n;
        let positives: Vec<usize> = (0..count).map(|k| (k + n) % count).collect();
        let (a, _) = scores(&u, tau);
        let share = |i: usize, v: usize| a[[i, v]] / others(&a, i);
        let factor = 1.0 / (2.0 * tau * n as f64);
        let uniform = Array2::from_shape_fn((count, d), |(i, c)| {
            let others = (0..count).filter(|&v| v != i);
            others
                .map(|v| factor * (share(i, v) + share(v, i)) * u[[v, c]])
                .sum()
        });
        let whole = Array2::from_shape_fn((count, d), |(i, c)| {
            uniform[[i, c]] - 2.0 * factor * u[[positives[i], c]]
        });
        let near = |x: &Array2<f64>, y: &Array2<f64>| {
            assert!(
                largest(&(x - y)) < 1e-11 * (1.0 + largest(&u)) / tau,
                "case {seed}"
            );
        };
        let found = gradient(&u, |u| contrastive(u, &positives, tau).mean_all());
        near(&found, &whole);
        let found = gradient(&u, |u| {
            (contrastive(u, &positives, tau) - alignment(u, &positives, tau)).mean_all()
        });
        near(&found, &uniform);
        let with_itself = gradient(&u, |u| uniformity(u, tau)) / count as f64;
        differ += u32::from(largest(&(&with_itself - &uniform)) > 0.01 * largest(&uniform));
        all += 1;
    }
    assert!(2 * differ > all, "{differ} of {all}");
}

/// Contracts are kept with the name of the measure.
#[test]
fn operands_that_do_not_fit_are_refused() {
    type Measure<'a> = &'a dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>;
    let message = |f: Measure<'_>| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let tape = Tape::new();
            f(tape.constant(Tensor::<f64>::zeros(vec![2, 3])));
        }));
        *result
            .expect_err("a panic")
            .downcast::<String>()
            .expect("a text")
    };
    let refused: [(Measure<'_>, &str); 5] = [
        (
            &|h| uniformity(h, 0.0),
            "uniformity: the temperature must be positive",
        ),
        (
            &|h| uniformity(h.sum_all(), 1.0),
            "uniformity: x must be a matrix",
        ),
        (
            &|h| contrastive(h, &[0, 0], 1.0),
            "row 0 is its own positive",
        ),
        (
            &|h| alignment(h, &[1], 1.0),
            "alignment: 2 rows need 2 positives below 2",
        ),
        (
            &|h| simclr(h, h.t(), 1.0),
            "simclr: views of shapes [2, 3] and [3, 2]",
        ),
    ];
    for (f, expected) in refused {
        let found = message(f);
        assert!(found.contains(expected), "{found}");
    }
}
