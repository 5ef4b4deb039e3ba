//! Scores, masks, caches and score normalisers, compared with their formulas.

use super::{draw, layer, near, value};
use emmy::lipschitz::Lp;
use emmy::nn::{
    AttentionConfig, Invariance, KeyValues, LanguageConfig, LanguageModel, MultiHeadAttention,
    Pass, Score, ScoreNormalizer,
};
use emmy::ops::attention::Mask;
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var};
use std::sync::Arc;

/// Every kind of score from its formula: the coefficients are softmax_j of it.
#[test]
fn scores_are_their_formulas() {
    type Formula = fn(&[f64], &[f64], [usize; 2]) -> f64;
    let dot: Formula = |q, k, _| q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>();
    let distance: Formula = |q, k, _| -q.iter().zip(k).map(|(q, k)| (q - k).powi(2)).sum::<f64>();
    let rotary: Formula = |q, k, [i, j]| {
        let turn = |x: &[f64], i: usize| {
            let (s, c) = (i as f64).sin_cos();
            [x[0] * c - x[1] * s, x[0] * s + x[1] * c]
        };
        let (q, k) = (turn(q, i), turn(k, j));
        q[0] * k[0] + q[1] * k[1]
    };
    let normalised: Formula = |q, k, _| {
        let size = |x: &[f64]| (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
        q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() / size(q) / size(k)
    };
    let cases: [(MultiHeadAttention<f64>, Formula); 6] = [
        (layer(|_| ()), dot),
        (layer(|c| c.groups = 2), dot),
        (layer(|c| c.score = Score::L2), distance),
        (layer(|c| c.score = Score::L2Tied), distance),
        (layer(|c| c.rotary = Some(100.0)), rotary),
        (layer(|c| c.normalize = Some(0.0)), normalised),
    ];
    let n = 5;
    let x = draw(&[n, 8], 9);
    for (layer, formula) in &cases {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, layer);
        let x = tape.constant(x.clone());
        let (_, alpha) = layer.with_coefficients(&pass, x, x, &Mask::none());
        let (q, k) = (
            layer.query.forward(&pass, x).value(),
            layer.keys().forward(&pass, x).value(),
        );
        let row = |z: &Tensor<f64>, i: usize, h: usize| [z[[i, 2 * h]], z[[i, 2 * h + 1]]];
        let alpha = alpha.value();
        for (h, i) in (0..4).flat_map(|h| (0..n).map(move |i| (h, i))) {
            let g = h / (4 / layer.config.groups);
            let score = |j: usize| {
                let score = formula(&row(&q, i, h), &row(&k, j, g), [i, j]);
                (score / 2.0_f64.sqrt()).exp()
            };
            let total: f64 = (0..n).map(score).sum();
            for j in 0..n {
                let found = alpha[[h, i, j]];
                assert!(
                    (found - score(j) / total).abs() < 1e-12,
                    "{:?}",
                    layer.config
                );
            }
        }
    }
}

/// A mask as booleans, as lengths, as a set of edges: one function.
#[test]
fn masks_agree() {
    let layer = layer(|c| c.groups = 2);
    let x = draw(&[6, 8], 1);
    let causal = |i: usize, j: usize| j <= i;
    let pairs: Vec<_> = (0..36).map(|k| (k / 6, k % 6)).collect();
    let allowed = pairs.iter().map(|&(i, j)| causal(i, j)).collect();
    let edges: Vec<_> = pairs
        .iter()
        .copied()
        .filter(|&(i, j)| causal(i, j))
        .collect();
    let masks = [
        Mask::causal(),
        Mask::allowed(tensor(&[6, 6], allowed)),
        Mask::edges(Pattern::from_pairs(6, 6, &edges).unwrap()),
    ];
    let values = masks.map(|mask| {
        value(&layer, |pass| {
            let x = pass.tape().constant(x.clone());
            layer.forward(pass, x, &mask)
        })
    });
    near(&values[0], &values[1]);
    near(&values[0], &values[2]);
    // Padding: the first tokens alone.
    let batch = |mask: Mask, x: Tensor<f64>| {
        value(&layer, |pass| {
            let x = pass.tape().constant(x.clone());
            layer.forward(pass, x, &mask).slice(1, 0..4)
        })
    };
    let whole = x.clone().into_shape_with_order(vec![1, 6, 8]).unwrap();
    let short = whole.slice_axis(ndarray::Axis(1), (0..4).into()).to_owned();
    let padded = batch(Mask::lengths(&[4]), whole.into_shared());
    near(&padded, &batch(Mask::none(), short.into_shared()));
}

/// A token that sees nothing gets the output's bias.
#[test]
fn a_token_that_sees_nothing_gets_the_bias() {
    let layer = layer(|_| ());
    let y = value(&layer, |pass| {
        let x = pass.tape().constant(draw(&[1, 3, 8], 2));
        layer.forward(pass, x, &Mask::lengths(&[0]))
    });
    let bias = layer.output.bias.clone().unwrap();
    near(
        &y,
        &bias.broadcast(y.shape()).unwrap().to_owned().into_shared(),
    );
}

/// Tokens that pass through a cache one by one, or in pieces, give the same output as all tokens at once.
#[test]
fn a_cache_gives_what_one_pass_gives() {
    for change in [
        (|_: &mut AttentionConfig| ()) as fn(&mut AttentionConfig),
        |c| c.rotary = Some(10.0),
        |c| (c.score, c.groups) = (Score::L2, 2),
    ] {
        let layer = layer(change);
        let x = draw(&[2, 7, 8], 5);
        let at_once = value(&layer, |pass| {
            let x = pass.tape().constant(x.clone());
            layer.forward(pass, x, &Mask::causal())
        });
        let in_pieces = value(&layer, |pass| {
            let mut cache = KeyValues::new();
            let x = pass.tape().constant(x.clone());
            let parts =
                [0..3, 3..4, 4..7].map(|r| layer.continued(pass, x.slice(1, r), &mut cache));
            assert_eq!(cache.len(), 7);
            Var::concat(&parts, 1)
        });
        near(&at_once, &in_pieces);
    }
    let model = LanguageModel::<f64>::new(LanguageConfig::gpt(7, 6, 2, 2, 8), 1).unwrap();
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &model);
    let symbols = [3, 1, 6, 0, 2];
    let at_once = model.forward(&pass, &symbols, 1);
    let mut cache = Vec::new();
    let one_by_one: Vec<_> = (symbols.iter())
        .map(|&s| model.continued(&pass, &[s], &mut cache))
        .collect();
    near(&at_once.value(), &Var::concat(&one_by_one, 1).value());
}

/// t_i = 1 / (1 + ‖q_i‖).
#[derive(Debug)]
struct Bounded;

impl<F: Real> ScoreNormalizer<F> for Bounded {
    fn temperature<'t>(&self, q: Var<'t, F>, _: Var<'t, F>, _: Var<'t, F>) -> Var<'t, F> {
        q.norm(&[-1], false).add_scalar(F::one()).powf(-F::one())
    }

    fn invariance(&self) -> Invariance {
        Invariance::Rotations
    }
}

#[test]
fn a_score_normaliser_multiplies_the_scores() {
    let mut layer = layer(|_| ());
    let x = draw(&[5, 8], 4);
    layer.normalizer = Some(Arc::new(Bounded));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(x);
    let (_, alpha) = layer.with_coefficients(&pass, x, x, &Mask::none());
    let q = layer.query.forward(&pass, x).reshape(&[5, 4, 2]);
    let k = layer.keys().forward(&pass, x).reshape(&[5, 4, 2]);
    let t = Bounded.temperature(q, k, k).unsqueeze(2);
    let scores = q.permute(&[1, 0, 2]).matmul(k.permute(&[1, 2, 0]));
    let scores = scores * t.permute(&[1, 0, 2]).scale(0.5_f64.sqrt());
    near(&alpha.value(), &scores.softmax(-1).value());
}

fn bounded() -> MultiHeadAttention<f64> {
    let mut layer = layer(|_| ());
    layer.normalizer = Some(Arc::new(Bounded));
    layer
}

/// The divisor of a normaliser is that of all tokens, which a cache does not have.
#[test]
#[should_panic(expected = "continued: a score normaliser")]
fn a_cache_and_a_score_normaliser_do_not_go_together() {
    let layer = bounded();
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(draw(&[1, 2, 8], 5));
    layer.continued(&pass, x, &mut KeyValues::new());
}

/// A layer that contracts is divided by its bound, which it does not have with a normaliser.
#[test]
#[should_panic(expected = "there is no bound to divide by with a score normaliser")]
fn a_contraction_and_a_score_normaliser_do_not_go_together() {
    let mut layer = layer(|c| *c = AttentionConfig::contractive(8, 2, 0.5, Lp::Two));
    layer.normalizer = Some(Arc::new(Bounded));
    let x = draw(&[1, 2, 8], 5);
    value(&layer, |pass| {
        let x = pass.tape().constant(x.clone());
        layer.forward(pass, x, &Mask::none())
    });
}
