//! The uniformity loss: Eq. (3) to (7).

use super::support::{alike, cases, gradient, near, rows, shape, softmax, tensor, terms};
use emmy::collapse::{uniformity, value};
use emmy::ndarray::{Array2, Axis};
use emmy::{Tape, Tensor, Var};

/// A_ij = exp(h_i·h_j/τ), and its row sums.
fn scores(h: &Array2<f64>, tau: f64) -> (Array2<f64>, Vec<f64>) {
    let a = (h.dot(&h.t()) / tau).mapv(f64::exp);
    let d = a.sum_axis(Axis(1)).to_vec();
    (a, d)
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
    let refused: [(Measure<'_>, &str); 2] = [
        (
            &|h| uniformity(h, 0.0),
            "uniformity: the temperature must be positive",
        ),
        (
            &|h| uniformity(h.sum_all(), 1.0),
            "uniformity: x must be a matrix",
        ),
    ];
    for (f, expected) in refused {
        let found = message(f);
        assert!(found.contains(expected), "{found}");
    }
}
