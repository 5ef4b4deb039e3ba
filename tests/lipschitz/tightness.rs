//! How tight the constant of L2 attention is in the ∞-norm, in one dimension with weights 1: `docs/proofs.md`
//! has inputs whose Jacobian has the norm 4x + 2/(1 + x) − 1, where x e^(x + 1) = N − 1. The bound of
//! Theorem 3.2 is 4x + 1, so less than 2 above it, for every odd N.

use emmy::autodiff::vjp;
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass, Score};
use emmy::ops::attention::Mask;
use emmy::tensor::tensor;
use emmy::{Tape, init};

/// x with x e^(x + 1) = n, by Newton's method on its logarithm.
fn inverse_of_phi(n: f64) -> f64 {
    let mut x = n.ln_1p();
    for _ in 0..60 {
        x -= (x.ln() + x + 1.0 - n.ln()) / (1.0 / x + 1.0);
    }
    x
}

#[test]
fn the_constant_is_less_than_two_above_an_input() {
    let config = AttentionConfig {
        score: Score::L2,
        bias: false,
        ..AttentionConfig::new(1, 1)
    };
    let mut layer = MultiHeadAttention::<f64>::new(config, &mut init::rng(0)).unwrap();
    let one = tensor(&[1, 1], vec![1.0]);
    layer.query.weight = one.clone();
    layer.value.weight = one.clone();
    layer.output.weight = one.clone();
    layer.key.as_mut().expect("not tied").weight = one;
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
