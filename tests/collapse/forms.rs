//! The forms of the step: Eq. (8), (9), (26) to (28), (30). The steps are composed here of plain operations.

use super::support::{alike, cases, gradient, matrix, rows, shape, softmax, tensor, terms};
use emmy::collapse::{uniformity, value};
use emmy::ndarray::Array2;
use emmy::nn::{BlockConfig, Pass, TransformerBlock};
use emmy::ops::attention::Mask;
use emmy::{Tape, init};

/// Eq. (8) with τ inside the softmax: a step on the loss with the term −½ Σ‖h_i‖² and without the second term
/// of Eq. (5). If the softmax is the identity, Eq. (7) shrinks H to (1 − s/τ)H, and Eq. (8) with τ = 1 keeps
/// H.
#[test]
fn the_regularised_step() {
    let (s, tau) = (0.3, 0.5);
    let h = rows(6, 4, 1.0, 3);
    let [first, second] = terms(&h, tau);
    let regularised = gradient(&h, |h| uniformity(h, tau) - h.square().sum_all() * 0.5) - second;
    let stepped = &h - &(regularised * s);
    alike(&stepped, &(&h * (1.0 + s) - first * s), 1e-12);

    let h = Array2::<f64>::eye(4) * 40.0;
    let p = softmax(&h.dot(&h.t()));
    alike(&p, &Array2::eye(4), 1e-300);
    alike(&(&h - &(p.dot(&h) * s)), &(&h * (1.0 - s)), 1e-15);
    alike(&(&h * (1.0 + s) - p.dot(&h) * s), &h, 1e-15);
}

/// LayerNorm of each row, without gain and bias.
fn layer_norm(x: &Array2<f64>) -> Array2<f64> {
    let tape = Tape::new();
    matrix(
        &tape
            .constant(tensor(x))
            .layer_norm(None, None, 1e-12)
            .value(),
    )
}

/// Eq. (9): if the softmax is the identity, Eq. (7) only shrinks the rows, and LayerNorm cancels this. Equal
/// rows stay equal: the step does not separate them.
#[test]
fn layer_norm_keeps_the_size() {
    let h = rows(4, 4, 1.0, 2) + Array2::<f64>::eye(4) * 40.0;
    let step = &h - &(softmax(&h.dot(&h.t())).dot(&h) * 0.3);
    alike(&step, &(&h * 0.7), 1e-12);
    alike(&layer_norm(&step), &layer_norm(&h), 1e-9);
    let equal = Array2::<f64>::zeros((4, 4)) + rows(1, 4, 1.0, 3);
    let moved = layer_norm(&(&equal - &(softmax(&equal.dot(&equal.t())).dot(&equal) * 0.3)));
    for row in moved.outer_iter() {
        assert!((&row - &moved.row(0)).iter().all(|x| x.abs() < 1e-12));
    }
}

/// Eq. (26) to (28): ContraNorm comes after the first or the second of the three equations; without it they
/// are the first half of a post-norm block.
#[test]
fn the_attention_of_a_post_norm_block() {
    let rng = &mut init::rng(4);
    let config = BlockConfig {
        norm_first: false,
        ..BlockConfig::pre_norm_encoder(6, 2, 8)
    };
    let block = TransformerBlock::<f64>::new(config, rng).unwrap();
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &block);
    let x = tape.constant(tensor(&rows(5, 6, 1.0, 1)));
    let h = block.attention.forward(&pass, x, &Mask::none());
    let h = block.norm1.forward(&pass, h + x);
    let rest = block
        .norm2
        .forward(&pass, h + block.feed_forward.forward(&pass, h));
    let whole = block.forward(&pass, x, &Mask::none());
    alike(&matrix(&rest.value()), &matrix(&whole.value()), 1e-12);
}

/// Eq. (30): H softmax(HᵀH) is one of the two terms of the derivative of the uniformity loss of the columns
/// of H, the one that Eq. (7) drops for the rows. A small step lowers this loss. The matrix is d × d.
#[test]
fn the_linear_form_moves_columns_apart() {
    for seed in cases(60) {
        let (n, d, size) = shape(seed);
        let h = rows(n, d, size, seed);
        let p = softmax(&h.t().dot(&h));
        assert_eq!(p.dim(), (d, d));
        let printed = h.dot(&p);
        let [first, second] = terms(&h.t().to_owned(), 1.0);
        alike(&printed, &second.t().to_owned(), 1e-12);
        let found = gradient(&h, |h| uniformity(h.t(), 1.0));
        alike(&found, &(&printed + &first.t()), 1e-10);
        let loss = |h: &Array2<f64>| value(&tensor(h), |h| uniformity(h.t(), 1.0));
        let length = |x: &Array2<f64>| x.mapv(|x| x * x).sum().sqrt();
        let s = 1e-4 * length(&h) / length(&printed);
        assert!(loss(&(&h - &(&printed * s))) < loss(&h), "case {seed}");
    }
}
