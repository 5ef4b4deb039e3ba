//! Attention by dot products with limited scores. If the scores of a query differ by at most r, none of its m
//! keys has more than π = 1 / (1 + (m − 1) e⁻ʳ), and the squares of the coefficients have a sum of at most
//! cosh²(r/2) / m (`docs/proofs.md`).

use super::support::tokens;
use emmy::autodiff::grad;
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, bound, jacobian_norm};
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, Var, init};

/// The constant of attention in its values, with these queries and keys, at values of 1.
fn of_values(q: &Tensor<f64>, k: &Tensor<f64>, beta: Option<Tensor<f64>>, mask: Mask) -> [f64; 2] {
    let tape = Tape::new();
    let m = k.shape()[0];
    let v = tape.var(tensor(&[m, 1, 1], vec![1.0; m]));
    let compared = Qkv {
        beta: beta.map(|beta| tape.constant(beta)),
        ..Qkv::new(tape.constant(q.clone()), tape.constant(k.clone()), v)
    };
    let y = DenseAttention::new(1, mask).attend(compared);
    let proven = bound(y, v, Lp::Two, Domain::Rows(1.0)).unwrap().upper();
    [jacobian_norm(y, v, Lp::Two).0.lower.get(), proven.get()]
}

fn zeros(n: usize) -> Tensor<f64> {
    tensor(&[n, 1, 1], vec![0.0; n])
}

/// Queries of 0 take the mean: the Jacobian has the entries 1/m, and the bound √(n/m) is its norm.
#[test]
fn the_constant_of_a_mean_is_reached() {
    for (n, m) in [(1, 1), (3, 3), (2, 7), (40, 5)] {
        let [found, proven] = of_values(&zeros(n), &zeros(m), None, Mask::none());
        let expected = (n as f64 / m as f64).sqrt();
        approx::assert_relative_eq!(found, expected, max_relative = 1e-9);
        approx::assert_relative_eq!(proven, expected, max_relative = 1e-12);
    }
}

/// min(π, cosh²(r/2) / m).
fn share(r: f64, m: usize) -> f64 {
    let m = m as f64;
    (1.0 + (m - 1.0) * (-r).exp())
        .recip()
        .min((0.5 * r).cosh().powi(2) / m)
}

/// One query whose scores are ±s. The bound is the norm of its coefficients if a part 1 / (1 + e²ˢ) of the
/// keys has the score s, here one of four for e²ˢ = 3. It is nearly this norm if one key takes all.
#[test]
fn the_constant_of_one_query_is_reached() {
    let at = 0.5 * 3f64.ln();
    for (m, s) in [
        (4, at),
        (2, 0.0),
        (2, 0.1),
        (2, 1.0),
        (5, 30.0),
        (3, 1e4),
        (3, f64::MAX),
    ] {
        let q = tensor(&[1, 1, 1], vec![s]);
        let keys = (0..m).map(|j| if j == 0 { 1.0 } else { -1.0 });
        let k = tensor(&[m, 1, 1], keys.collect());
        let [found, proven] = of_values(&q, &k, None, Mask::none());
        approx::assert_relative_eq!(proven, share(2.0 * s, m).sqrt(), max_relative = 1e-12);
        let tight = s == at || s == 0.0 || s >= 30.0;
        let least = if tight { 1.0 - 1e-9 } else { 0.93 };
        assert!(
            found <= proven && found >= least * proven,
            "m = {m}, s = {s}: {found} of {proven}"
        );
    }
}

/// A number that is added to scores makes them differ; −∞ hides a key.
#[test]
fn numbers_added_to_scores_count() {
    let (n, added) = (3, 0.7f64);
    let beta = tensor(&[n, 1], vec![added, 0.0, -added]);
    let [found, proven] = of_values(&zeros(n), &zeros(n), Some(beta), Mask::none());
    let expected = (3.0 * share(2.0 * added, n)).sqrt();
    approx::assert_relative_eq!(proven, expected, max_relative = 1e-12);
    assert!(found <= proven);
    let hidden = tensor(&[n, 1], vec![0.0, f64::NEG_INFINITY, f64::NEG_INFINITY]);
    let [found, proven] = of_values(&zeros(n), &zeros(n), Some(hidden), Mask::none());
    assert!(found <= proven && (proven - 3f64.sqrt()).abs() < 1e-12);
}

/// Σ_i 1/m_i for the m_i keys that query i sees, with all scores 0; n where they are not counted.
#[test]
fn masks_say_how_many_keys_a_query_sees() {
    let n = 6;
    let harmonic: f64 = (1..=n).map(|i| 1.0 / i as f64).sum();
    let isolated = tensor(&[n, n], (0..n * n).map(|k| k / n == 0).collect());
    for (mask, c) in [
        (Mask::none(), 1.0),
        (Mask::causal(), harmonic),
        (Mask::lengths(&[n]), n as f64),
        (Mask::allowed(isolated), n as f64),
    ] {
        let [found, proven] = of_values(&zeros(n), &zeros(n), None, mask.clone());
        approx::assert_relative_eq!(proven, c.sqrt(), max_relative = 1e-12);
        assert!(
            found <= proven * (1.0 + 1e-12),
            "{mask:?}: {found} and {proven}"
        );
    }
    // Fewer queries than keys: the last of them sees all.
    let [found, proven] = of_values(&zeros(2), &zeros(5), None, Mask::causal());
    approx::assert_relative_eq!(proven, (1.0f64 / 4.0 + 0.2).sqrt(), max_relative = 1e-12);
    assert!(found <= proven);
}

/// Self-attention in one dimension with all weights 1.
fn attend<'t>(x: Var<'t, f64>) -> Var<'t, f64> {
    let n = x.len();
    let heads = x.reshape(&[n, 1, 1]);
    let y = DenseAttention::new(1, Mask::none()).attend(Qkv::new(heads, heads, heads));
    y.reshape(&[n, 1])
}

/// Its bound on n tokens of at most R.
fn on_a_ball(n: usize, radius: f64) -> f64 {
    let tape = Tape::new();
    let x = tape.var(tensor(&[n, 1], vec![radius; n]));
    let proven = bound(attend(x), x, Lp::Two, Domain::Rows(radius));
    proven.unwrap().upper().get()
}

/// For any number of tokens: cosh R² + R² + R² e^(R²), where √n has no limit.
#[test]
fn the_constant_has_a_limit_for_many_tokens() {
    for radius in [0.3, 1.0, 1.5] {
        let square: f64 = radius * radius;
        let limit = square.cosh() + square + square * square.exp();
        let mut last = 0.0;
        for n in [2, 10, 100, 2000] {
            let size = n as f64;
            let largest = 1.0 / (1.0 + (size - 1.0) * (-2.0 * square).exp());
            let deviations = (size * largest.min(0.5)).sqrt();
            let coefficients = (size * share(2.0 * square, n)).sqrt();
            let expected = coefficients + square + square * deviations;
            let proven = on_a_ball(n, radius);
            approx::assert_relative_eq!(proven, expected, max_relative = 1e-11);
            assert!(last < proven && proven < limit, "{last} {proven} {limit}");
            last = proven;
        }
        assert!(last > 0.9 * limit, "{last} of {limit}");
    }
}

/// The tokens are moved to where the Jacobian is largest.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn limited_scores_are_attacked() {
    for (radius, n, least) in [(0.3, 6, 0.91), (1.0, 6, 0.47), (1.0, 24, 0.37)] {
        let search = Ascent {
            steps: 150,
            rate: 0.1,
            radius: Some(radius),
            ..Ascent::new(Objective::Two, 0)
        };
        let found = search.run(&[n, 1], attend).lower.get();
        let proven = on_a_ball(n, radius);
        println!("R = {radius}, n = {n}: {found:.4} of {proven:.4}");
        assert!(
            found <= proven && found >= least * proven,
            "{found} of {proven}"
        );
    }
}

/// The bound as a variable is the number, and its gradient that of difference quotients.
#[test]
fn the_bound_is_a_variable() {
    let layer = MultiHeadAttention::<f64>::new(AttentionConfig::new(4, 2), &mut init::rng(3));
    let layer = layer.unwrap();
    let x = tokens(5, 4, 0);
    let of = |layer: &MultiHeadAttention<f64>| {
        let tape = Tape::new();
        let pass = Pass::differentiable(&tape, layer);
        let x = tape.var(x.clone());
        let y = layer.forward(&pass, x, &Mask::causal());
        let found = bound(y, x, Lp::Two, Domain::Rows(0.4)).unwrap();
        let as_variable = found.var().unwrap();
        let weight = pass.param(&layer.query.weight);
        let slope = grad(as_variable, &[weight])[0][[1, 2]];
        approx::assert_relative_eq!(as_variable.item(), found.upper().get(), max_relative = 1e-6);
        (as_variable.item(), slope)
    };
    let at = |step: f64| {
        let mut moved = layer.clone();
        let mut weight = moved.query.weight.to_owned();
        weight[[1, 2]] += step;
        moved.query.weight = weight.into_shared();
        of(&moved)
    };
    let step = 1e-5;
    let quotient = (at(step).0 - at(-step).0) / (2.0 * step);
    let slope = at(0.0).1;
    assert!(slope.abs() > 1e-4, "{slope}");
    approx::assert_relative_eq!(slope, quotient, max_relative = 1e-4);
}
