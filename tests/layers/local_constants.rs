//! How much a softmax and a layer normalisation can stretch a small change of their input: the largest
//! singular value of the Jacobian at a point, against the formulas for it.

use emmy::autodiff::jacobian;
use emmy::linalg;
use emmy::nn::{LayerNorm, Pass};
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, Var, init};
use ndarray::Array2;

/// ∂y/∂x for a function of one row of numbers.
fn derivative(x: &[f64], f: impl for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>) -> Array2<f64> {
    let tape = Tape::new();
    let x = tape.var(tensor(&[x.len()], x.to_vec()));
    let n = x.shape()[0];
    let j = jacobian(f(x), x).into_owned();
    j.into_shape_with_order((n, n))
        .expect("n outputs of n numbers")
}

/// ‖J‖₂.
fn stretch(j: &Array2<f64>) -> f64 {
    linalg::svd(j.view()).1[0]
}

/// Rows of n numbers of several sizes, so that coefficients of a softmax are far apart and close together.
fn rows(n: usize) -> impl Iterator<Item = Vec<f64>> {
    (0..60).map(move |seed| {
        let size = [0.0, 0.1, 1.0, 4.0][seed as usize % 4];
        let x: Tensor<f64> = init::normal(&[n], size, &mut init::rng(seed));
        x.into_iter().collect()
    })
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}

/// The largest root μ of Σ p_i² / (p_i − μ) = 1, which lies between the largest and the second coefficient;
/// where these are equal, both are μ.
fn largest_root(p: &[f64]) -> f64 {
    let mut sorted = p.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut high, mut low) = (sorted[0], sorted[1]);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        let sum: f64 = p.iter().map(|p| p * p / (p - middle)).sum();
        *if sum > 1.0 { &mut high } else { &mut low } = middle;
    }
    low
}

/// J = diag(p) − p pᵀ.
#[test]
fn a_softmax_stretches_by_at_most_a_half() {
    for n in 2..7 {
        for x in rows(n) {
            let (p, j) = (softmax(&x), derivative(&x, |x| x.softmax(-1)));
            let found = stretch(&j);
            let mut sorted = p.clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            let others: f64 = sorted[1..].iter().sum();
            assert!((found - largest_root(&p)).abs() < 1e-9, "{p:?}: {found}");
            // 1 − p₁ as the sum of the others, for p₁ close to 1.
            let bound = sorted[0] * (others + sorted[1]);
            assert!(found <= bound + 1e-12, "{p:?}: {found} of {bound}");
            assert!(found <= 0.5 + 1e-12, "{p:?}: {found}");
            // The largest sum of sizes over a row, which is that over a column: max 2 p (1 − p).
            let row = |row: ndarray::ArrayView1<'_, f64>| row.iter().map(|x| x.abs()).sum();
            let rows = j.rows().into_iter().map(row).fold(0.0, f64::max);
            let twice = p.iter().map(|p| 2.0 * p * (1.0 - p)).fold(0.0, f64::max);
            assert!(
                (rows - twice).abs() < 1e-12 && rows <= 0.5 + 1e-12,
                "{p:?}: {rows}"
            );
        }
    }
}

/// Where the two largest coefficients are equal, the constant is that coefficient, and so is the bound. (Not
/// p (1 − p), which is what an entry of the diagonal would say.)
#[test]
fn equal_coefficients_are_the_constant_themselves() {
    for (p, expected) in [
        (vec![0.25; 4], 0.25),
        (vec![0.4, 0.4, 0.2], 0.4),
        (vec![0.5, 0.5], 0.5),
        (vec![0.3, 0.3, 0.3, 0.1], 0.3),
    ] {
        let logits: Vec<f64> = p.iter().map(|p: &f64| p.ln()).collect();
        let found = stretch(&derivative(&logits, |x| x.softmax(-1)));
        assert!((found - expected).abs() < 1e-12, "{p:?}: {found}");
        assert!((largest_root(&p) - expected).abs() < 1e-12, "{p:?}");
    }
}

/// The norm of the Jacobian of a layer normalisation with these gains at x, and √(var x + ε).
fn normalised(x: &[f64], gain: &[f64], eps: f64) -> (f64, f64) {
    let n = x.len();
    let norm = LayerNorm {
        gain: Some(tensor(&[n], gain.to_vec())),
        eps,
        ..LayerNorm::new(n)
    };
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &norm);
    let input = tape.var(tensor(&[1, n], x.to_vec()));
    let j = jacobian(norm.forward(&pass, input), input).into_owned();
    let j = j
        .into_shape_with_order((n, n))
        .expect("n outputs of n numbers");
    let mean = x.iter().sum::<f64>() / n as f64;
    let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
    (stretch(&j), (var + eps).sqrt())
}

/// J = diag(γ) (C − z zᵀ / D) / √(var x + ε), where C subtracts the mean. From D = 3 on there is a direction
/// that C and z zᵀ do not change.
#[test]
fn a_layer_norm_of_equal_gains_stretches_by_gain_over_deviation() {
    for (n, gain, eps) in [
        (3, 1.0, 1e-5),
        (3, -2.0, 0.3),
        (5, 0.7, 0.0),
        (8, 1.5, 1e-2),
    ] {
        for x in rows(n).filter(|x| x.iter().any(|&x| x != 0.0)) {
            let (found, deviation) = normalised(&x, &vec![gain; n], eps);
            let expected = f64::abs(gain) / deviation;
            assert!(
                (found / expected - 1.0).abs() < 1e-9,
                "{x:?}: {found}, {expected}"
            );
            assert!(eps == 0.0 || found <= gain.abs() / eps.sqrt() * (1.0 + 1e-12));
        }
        // The bound for all x, |γ| / √ε, is reached where all numbers of a row are equal.
        if eps > 0.0 {
            let (found, _) = normalised(&vec![0.5; n], &vec![gain; n], eps);
            assert!(
                (found * eps.sqrt() / gain.abs() - 1.0).abs() < 1e-9,
                "{found}"
            );
        }
    }
}

/// If gains differ, max |γ| / √(var x + ε) is a bound and not the constant. With two numbers it is far from
/// the constant: there only the direction of z is left, and J is not zero in this direction only because of
/// ε.
#[test]
fn with_two_numbers_or_unequal_gains_that_is_a_bound_only() {
    for x in rows(4).filter(|x| x.iter().any(|x| x.abs() > 0.5)) {
        let (found, deviation) = normalised(&x, &[1.0, 0.2, -0.5, 0.1], 1e-3);
        assert!(
            found < 0.999 / deviation,
            "{x:?}: {found}, {}",
            1.0 / deviation
        );
        let (found, deviation) = normalised(&x[..2], &[1.0, 1.0], 1e-3);
        let expected = 1e-3 / deviation.powi(3);
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "{x:?}: {found}, {expected}"
        );
    }
    let (found, deviation) = normalised(&[1.0, -1.0], &[1.0, 1.0], 0.1);
    assert!(found < 0.1 / deviation, "{found}, {}", 1.0 / deviation);
}
