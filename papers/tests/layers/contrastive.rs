//! The losses of contrastive learning: Eq. (1), (2), (11) and (29).

use super::support::{cases, cosine, gradient, largest, matrix, near, rows, shape, tensor};
use emmy::autodiff::{check_grads, grad};
use emmy::collapse::uniformity;
use emmy::ndarray::{Array2, Axis};
use emmy::{Tape, Tensor, Var, init};
use papers::contrastive::{
    alignment, barlow_twins, contrastive, cross_correlation, simclr, uniformity_by_row,
};

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

/// More rows than one tile has.
#[test]
fn many_rows_are_computed_in_tiles() {
    let h = rows(600, 3, 1.0, 0);
    let tape = Tape::new();
    let x = tape.constant(tensor(&h));
    let positives: Vec<usize> = (0..600).map(|i| i ^ 1).collect();
    let blocks = contrastive(x, &positives, 0.7).value();
    for i in [0, 511, 512, 599] {
        let alone = |k: usize| (h.row(i).dot(&h.row(k)) / 0.7).exp();
        let rest: f64 = (0..600).filter(|&k| k != i).map(alone).sum();
        let expected = -(alone(i ^ 1) / rest).ln();
        near(blocks[[i]], expected, 1e-10);
    }
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

/// First and second derivatives; and at equal rows they are 0, not NaN.
#[test]
fn losses_differentiate() {
    let x = init::normal::<f64>(&[5, 3], 1.0, &mut init::rng(3));
    let y = init::normal::<f64>(&[5, 3], 1.0, &mut init::rng(4));
    type Loss<'a> = &'a dyn for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>;
    let of_one: [(&str, Loss<'_>); 2] = [
        ("contrastive", &|x| contrastive(x[0], &[1, 2, 3, 4, 0], 0.5)),
        ("alignment", &|x| {
            alignment(x[0], &[1, 2, 3, 4, 0], 0.5).square()
        }),
    ];
    for (name, loss) in of_one {
        let checked = check_grads(loss, std::slice::from_ref(&x));
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let of_two: [(&str, Loss<'_>); 3] = [
        ("simclr", &|x| simclr(x[0], x[1], 0.5)),
        ("cross_correlation", &|x| cross_correlation(x[0], x[1])),
        ("barlow_twins", &|x| barlow_twins(x[0], x[1], 0.1)),
    ];
    for (name, loss) in of_two {
        let checked = check_grads(loss, &[x.clone(), y.clone()]);
        checked.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let tape = Tape::new();
    let x = tape.var(Tensor::<f64>::zeros(vec![3, 2]));
    assert!(grad(simclr(x, x, 1.0), &[x])[0].iter().all(|g| *g == 0.0));
}

/// Contracts are kept with the name of the loss.
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
    let refused: [(Measure<'_>, &str); 3] = [
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
