//! How tight the constant of L2 attention is (`docs/proofs.md`). In the ∞-norm, in one dimension with weights
//! 1, there are inputs whose Jacobian has the norm 4x + 2/(1 + x) − 1, where x e^(x + 1) = N − 1. The bound
//! of Theorem 3.2 is 4x + 1, so less than 2 above it, for every odd N. In the 2-norm it has a bound that
//! grows as N^¼ log N, and inputs at which the norm of the Jacobian grows as N^¼.

use super::support::{cases, tokens};
use emmy::autodiff::{jvp, vjp};
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, bound, jacobian_norm};
use emmy::ndarray::Array2;
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass, Score};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, init};

/// x with x e^(x + 1) = n, by Newton's method on its logarithm.
fn inverse_of_phi(n: f64) -> f64 {
    let mut x = n.ln_1p();
    for _ in 0..60 {
        x -= (x.ln() + x + 1.0 - n.ln()) / (1.0 / x + 1.0);
    }
    x
}

/// Attention with one head of one number, without biases, all weights 1.
fn with_weights_of_one(score: Score) -> MultiHeadAttention<f64> {
    let config = AttentionConfig {
        score,
        bias: false,
        ..AttentionConfig::new(1, 1)
    };
    let mut layer = MultiHeadAttention::new(config, &mut init::rng(0)).unwrap();
    let one = tensor(&[1, 1], vec![1.0]);
    layer.query.weight = one.clone();
    layer.value.weight = one.clone();
    layer.output.weight = one.clone();
    layer.key.as_mut().expect("not tied").weight = one;
    layer
}

#[test]
fn the_constant_is_less_than_two_above_an_input() {
    let layer = with_weights_of_one(Score::L2);
    for tokens in [3, 11, 101, 10_001, 1_000_001] {
        let x = inverse_of_phi(tokens as f64 - 1.0);
        let far = (1.0 + x).sqrt();
        let place = |k: usize| match k {
            0 => 0.0,
            k if k % 2 == 0 => far,
            _ => -far,
        };
        // The first row of the Jacobian: the first token asks, and is one of those that answer.
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let first = tape.var(tensor(&[1, 1], vec![0.0]));
        let all = tape.var(tensor(&[tokens, 1], (0..tokens).map(place).collect()));
        let y = layer.cross(&pass, first, all, &Mask::none());
        let row = vjp(y, &[first, all], &tensor(&[1, 1], vec![1.0]));
        let own = row[0][[0, 0]] + row[1][[0, 0]];
        let found = own.abs() + row[1].iter().skip(1).map(|j| j.abs()).sum::<f64>();
        let expected = 4.0 * x + 2.0 / (1.0 + x) - 1.0;
        assert!(
            (found - expected).abs() < 1e-9 * expected,
            "N = {tokens}: {found} and {expected}"
        );
        let bound = 4.0 * x + 1.0;
        assert!(found <= bound && bound - found < 2.0, "N = {tokens}");
    }
}

/// Castin, Ablin and Peyré, "How Smooth Is Attention?" (ICML 2024): on inputs of at most R the constant of
/// dot-product attention grows as √n, as long as n is below e^(2γR²). With A = W_QᵀW_K = −γ and V = 1 in
/// one dimension, one token at R and n − 1 at −R: the others see the one with the weight p = 1/(1 + (n − 1)
/// e^(−2γR²)), so all of them follow it, and ‖J‖₂ ≥ √(n − 1) p. Their upper bound is √3 (R⁴ (4n + 1) γ² +
/// n)^½, and that of [`Domain::Rows`] is σ + γR² + σ′ γR² with σ² = n min(p, cosh²(γR²) / n) and σ′² = n
/// min(½, p).
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn dot_products_grow_as_the_root_of_the_number_of_tokens() {
    let mut layer = with_weights_of_one(Score::Dot);
    layer.key.as_mut().expect("not tied").weight = tensor(&[1, 1], vec![-1.0]);
    let (gamma, radius) = (1.0f64, 2.5f64);
    let square = gamma * radius * radius;
    let mut found = Vec::new();
    for n in [3, 9, 33, 129, 513] {
        let place = |k: usize| if k == 0 { radius } else { -radius };
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &layer);
        let x = tape.var(tensor(&[n, 1], (0..n).map(place).collect()));
        let y = layer.forward(&pass, x, &Mask::none());
        let norm = jacobian_norm(y, x, Lp::Two).0.lower.get();
        let (m, size) = (n as f64 - 1.0, n as f64);
        let least = m.sqrt() / (1.0 + m * (-2.0 * square).exp());
        let printed = 3f64.sqrt() * (square * square * (4.0 * size + 1.0) + size).sqrt();
        let read = bound(y, x, Lp::Two, Domain::Rows(radius))
            .unwrap()
            .upper()
            .get();
        println!("n = {n}: {least:.3} ≤ {norm:.3} ≤ {read:.3}, printed {printed:.3}");
        assert!(least <= norm * (1.0 + 1e-9) && norm <= read && norm <= printed);
        let share = 1.0 / (1.0 + m * (-2.0 * square).exp());
        let coefficients = (size * share).min(square.cosh().powi(2)).sqrt();
        let ours = coefficients + square + (size * share.min(0.5)).sqrt() * square;
        approx::assert_relative_eq!(read, ours, max_relative = 1e-9);
        found.push(norm);
    }
    // Four times as many tokens, twice the norm.
    assert!(
        found.windows(2).all(|pair| pair[1] > 1.9 * pair[0]),
        "{found:?}"
    );
}

/// The part of the keys in the constant of dot products, s √(n/2) Q V, is reached: two keys at 0, values ±V,
/// and all n queries alike.
#[test]
fn the_part_of_the_keys_is_reached() {
    let tape = Tape::new();
    for n in [1, 5, 40] {
        let queries = [3.0, 0.0].repeat(n);
        let q = tape.constant(tensor(&[n, 1, 2], queries));
        let v = tape.constant(tensor(&[2, 1, 1], vec![2.0, -2.0]));
        let k = tape.var(tensor(&[2, 1, 2], vec![0.0; 4]));
        let y = DenseAttention::new(2, Mask::none()).attend(Qkv::new(q, k, v));
        let found = jacobian_norm(y, k, Lp::Two).0.lower.get();
        let proven = bound(y, k, Lp::Two, Domain::Rows(1.0)).unwrap();
        let expected = (n as f64 / 2.0).sqrt() * 3.0 * 2.0 / 2f64.sqrt();
        approx::assert_relative_eq!(proven.upper().get(), expected, max_relative = 1e-12);
        approx::assert_relative_eq!(found, expected, max_relative = 1e-9);
    }
}

/// c and c′ of `docs/proofs.md`: the most that a column of P_ij ∝ e^(−‖z_i − z_j‖²), and of P_ij ‖z_i −
/// z_j‖², can sum to; without a mask, and with a causal one.
fn columns(tokens: usize, causal: bool) -> [f64; 2] {
    let n = tokens as f64 - 1.0;
    let t = match causal {
        false => (2.0 * n - 1.0).sqrt(),
        true => (4.0 * n - 3.0).sqrt().min(n),
    };
    let own = if causal { 1.0 } else { 1.0 / (1.0 + t) };
    let x = (t / n).min(inverse_of_phi(1.0));
    [own + n * t / (n + t), -n * x * x.ln() / (1.0 + x)]
}

/// The constant of the layer with all weights 1 in the 2-norm.
fn of_the_layer(tokens: usize, mask: &Mask) -> f64 {
    let mut layer = with_weights_of_one(Score::L2);
    (layer.config, layer.key) = (AttentionConfig::l2(1, 1), None);
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let bound = layer.lipschitz(&pass, tokens, Lp::Two, Some(mask));
    bound.expect("tied weights").upper().get()
}

/// With all weights 1 the constant is √c + 2v + 2√(v c′). Behind another mask that hides no token from itself
/// it is the paper's.
#[test]
fn the_constant_in_the_two_norm() {
    approx::assert_relative_eq!(of_the_layer(1, &Mask::none()), 1.0, max_relative = 1e-11);
    for n in [2, 3, 10, 64, 1000, 1_000_000] {
        let v = inverse_of_phi(n as f64 - 1.0);
        let paper = (n as f64).sqrt() * (4.0 * v + 1.0);
        for (causal, mask) in [(false, Mask::none()), (true, Mask::causal())] {
            let [c, squares] = columns(n, causal);
            let ours = c.sqrt() + 2.0 * v + 2.0 * (v * squares).sqrt();
            approx::assert_relative_eq!(of_the_layer(n, &mask), ours, max_relative = 1e-11);
            let most = if causal { 0.79 } else { 0.71 };
            assert!(ours <= most * paper, "N = {n}: {ours} and {paper}");
        }
        let whole = of_the_layer(n, &Mask::lengths(&[n]));
        approx::assert_relative_eq!(whole, paper, max_relative = 1e-11);
    }
    let paper = of_the_layer(64, &Mask::lengths(&[64]));
    for (mask, expected) in [(Mask::none(), 0.245), (Mask::causal(), 0.257)] {
        let share = of_the_layer(64, &mask) / paper;
        assert!((share - expected).abs() < 5e-4, "{share}");
    }
}

/// The columns of P, and those weighted by squared distances, of random tokens, of tokens around one in
/// orthogonal directions, and of tokens around a crowd. They are at most c and c′, which two tokens reach.
/// The step of the proof holds too: with q = 1/P_ik − 1 in growing order, the sum of the first 1/q is at most
/// the last q, or twice that with a causal mask.
#[test]
fn columns_of_distance_attention_are_limited() {
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    // P, and the squared distances, of the tokens that see each token.
    let seen = |z: &[Vec<f64>], causal: bool| {
        let mut all = vec![Vec::new(); z.len()];
        for i in 0..z.len() {
            let seen = if causal { i + 1 } else { z.len() };
            let distances: Vec<f64> = z[..seen].iter().map(|other| apart(&z[i], other)).collect();
            let total: f64 = distances.iter().map(|d| (-d).exp()).sum();
            for (k, d) in distances.into_iter().enumerate() {
                all[k].push((i, (-d).exp() / total, d));
            }
        }
        all
    };
    let mut most = [[0.0f64; 2]; 2];
    let mut hold = |z: &[Vec<f64>]| {
        for causal in [false, true] {
            let limit = columns(z.len(), causal);
            for (k, column) in seen(z, causal).into_iter().enumerate() {
                let sums = [
                    column.iter().map(|(_, p, _)| p).sum::<f64>(),
                    column.iter().map(|(_, p, d)| p * d).sum::<f64>(),
                ];
                for (which, (found, limit)) in sums.into_iter().zip(limit).enumerate() {
                    assert!(
                        found <= limit * (1.0 + 1e-12),
                        "{} tokens, causal: {causal}: {found}, at most {limit}",
                        z.len()
                    );
                    if z.len() == 2 {
                        let most = &mut most[usize::from(causal)][which];
                        *most = most.max(found / limit);
                    }
                }
                let others = column.iter().filter(|(i, _, _)| *i != k);
                let mut q: Vec<f64> = others.map(|(_, p, _)| 1.0 / p - 1.0).collect();
                q.sort_by(f64::total_cmp);
                let mut sum = 0.0;
                for q in q {
                    sum += 1.0 / q;
                    let limit = if causal { 2.0 * q } else { q };
                    assert!(
                        sum <= limit * (1.0 + 1e-9),
                        "causal: {causal}: {sum} and {limit}"
                    );
                }
            }
        }
    };
    for seed in cases(200) {
        let (n, d) = (2 + seed as usize % 30, 1 + seed as usize % 5);
        let x = tokens(n, d, seed) * (0.2 + 0.1 * (seed % 37) as f64);
        let rows: Vec<_> = x.rows().into_iter().map(|row| row.to_vec()).collect();
        hold(&rows);
    }
    for step in 1..40 {
        let far = 0.08 * f64::from(step);
        hold(&[vec![0.0], vec![far]]);
        for (crowd, others) in [(1, 4), (1, 30), (4, 30), (10, 30)] {
            let mut z = vec![vec![0.0; others]; crowd + others];
            (0..others).for_each(|k| z[crowd + k][k] = far);
            hold(&z);
        }
    }
    assert!(most.iter().flatten().all(|&r| r > 0.998), "{most:?}");
}

/// 2√n tokens in one place, and n around them, at √(½ ln n) in orthogonal directions; the width is n + 1. If
/// the crowd moves together in one more direction, all others follow it by more than half of it: ‖J‖₂ ≥
/// n^¼/√8.
#[test]
fn the_constant_in_the_two_norm_grows_at_least_as_a_fourth_root() {
    for n in [4_usize, 16, 64, 256] {
        let crowd = 2 * (n as f64).sqrt() as usize;
        let far = (0.5 * (n as f64).ln()).sqrt();
        let mut layer = with_weights_of_one(Score::L2);
        layer.config = AttentionConfig {
            score: Score::L2,
            bias: false,
            ..AttentionConfig::new(n + 1, 1)
        };
        // Scores are divided by the root of the width.
        let root = ((n + 1) as f64).powf(0.25);
        let eye: Tensor<f64> = Array2::eye(n + 1).into_dyn().into_shared();
        let scaled = (&eye * root).into_shared();
        layer.query.weight = scaled.clone();
        layer.key.as_mut().expect("not tied").weight = scaled;
        layer.value.weight = eye.clone();
        layer.output.weight = eye;
        let mut x = vec![0.0; (crowd + n) * (n + 1)];
        (0..n).for_each(|k| x[(crowd + k) * (n + 1) + k] = far);
        let mut along = vec![0.0; x.len()];
        (0..crowd).for_each(|k| along[k * (n + 1) + n] = (crowd as f64).sqrt().recip());
        let shape = [crowd + n, n + 1];
        let tape = Tape::new();
        let at = tape.var(tensor(&shape, x));
        let y = layer.forward(&Pass::eval(&tape, &layer), at, &Mask::none());
        let found = jvp(y, &[at], &[tensor(&shape, along)])
            .mapv(|x| x * x)
            .sum()
            .sqrt();
        let least = (n as f64).powf(0.25) / 8f64.sqrt();
        let most = of_the_layer(crowd + n, &Mask::none());
        println!("N = {}: {least:.3} ≤ {found:.3} ≤ {most:.3}", crowd + n);
        assert!(least <= found && found <= most);
    }
}

/// What ascent finds with one number per token and all weights 1 grows as N^0.33 up to 64 tokens.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn growth_in_the_two_norm_by_search() {
    let layer = with_weights_of_one(Score::L2);
    let mut points = Vec::new();
    for n in [2, 4, 8, 16, 32, 64] {
        let search = Ascent {
            restarts: 6,
            steps: 150,
            spread: 1.5,
            ..Ascent::new(Objective::Two, 3)
        };
        // Besides random starts the input of the ∞-norm: half of the tokens at a, half at −a, one at 0.
        let a = (1.0 + inverse_of_phi(n as f64 - 1.0)).sqrt();
        let place = |k: usize| f64::from(k > 0) * if k.is_multiple_of(2) { a } else { -a };
        let mut starts = vec![tensor(&[n, 1], (0..n).map(place).collect())];
        starts.extend(
            (0..search.restarts as u64)
                .map(|k| init::normal(&[n, 1], search.spread, &mut init::rng(k))),
        );
        let steepest = search.from(starts, |x| {
            layer.forward(&Pass::eval(x.tape(), &layer), x, &Mask::none())
        });
        let found = steepest.lower.get();
        let bound = of_the_layer(n, &Mask::none());
        println!(
            "N = {n}: found {found:.3}, bound {bound:.3}, found/√N {:.3}",
            found / (n as f64).sqrt()
        );
        assert!(found <= bound);
        points.push((n as f64, found));
    }
    let [(n, first), .., (m, last)] = points[..] else {
        unreachable!()
    };
    let exponent = (last / first).ln() / (m / n).ln();
    println!("exponent of N: {exponent:.3}");
    assert!((0.3..0.36).contains(&exponent));
    assert!(
        points.windows(2).all(|pair| pair[1].1 > pair[0].1),
        "{points:?}"
    );
}
