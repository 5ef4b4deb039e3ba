//! Models: their first weights, their random operations, their variants.

use super::draw;
use emmy::nn::{
    Activation, Bert, BertConfig, BlockConfig, DropPath, FeedForwardConfig, LanguageConfig,
    LanguageModel, Norm, Pass, Positions, Transformer, VisionConfig, VisionTransformer,
    parameter_count,
};
use emmy::ops::attention::Mask;
use emmy::{Tape, Tensor, init};

/// The same seed gives the same bits, with dropout of every kind; an evaluation has none.
#[test]
fn dropout_follows_from_the_seed() {
    let mut config = BlockConfig::pre_norm_decoder(8, 2, 16).with_dropout(0.3);
    config.drop_path = 0.4;
    let net = Transformer::<f64>::new(2, config, &mut init::rng(0)).unwrap();
    let run = |seed: Option<u64>| {
        let tape = Tape::new();
        let pass = match seed {
            Some(seed) => Pass::train(&tape, &net, seed),
            None => Pass::eval(&tape, &net),
        };
        let x = tape.constant(draw(&[4, 5, 8], 1));
        let memory = tape.constant(draw(&[4, 3, 8], 2));
        let y = net.with_memory(&pass, x, &Mask::causal(), memory, &Mask::none());
        y.value()
    };
    assert_eq!(run(Some(1)), run(Some(1)));
    assert_ne!(run(Some(1)), run(Some(2)));
    assert_eq!(run(None), run(None));
    let tape = Tape::<f64>::new();
    let nothing: Vec<Tensor<f64>> = Vec::new();
    let pass = Pass::train(&tape, &nothing, 3);
    let y = DropPath { p: 0.5 }.forward(&pass, tape.constant(Tensor::ones(&[400, 2, 3][..])));
    let y = y.value();
    let rows: Vec<f64> = y
        .outer_iter()
        .map(|row| row.iter().sum::<f64>() / 6.0)
        .collect();
    assert!(rows.iter().all(|&x| x == 0.0 || x == 2.0));
    let kept = rows.iter().filter(|&&x| x > 0.0).count();
    assert!((150..250).contains(&kept), "{kept}");
}

/// GPT-2's start, and the sizes of the models.
#[test]
fn models_start_as_in_their_papers() {
    let std = |x: &Tensor<f64>| (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64).sqrt();
    let model = LanguageModel::<f64>::new(LanguageConfig::gpt(65, 64, 4, 4, 128), 0).unwrap();
    assert_eq!(parameter_count(&model), 804_096);
    let block = &model.blocks.layers[3];
    let close = |x: &Tensor<f64>, expected: f64| {
        let found = std(x);
        assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
    };
    close(&model.tokens.weight, 0.02);
    close(&block.attention.query.weight, 0.02);
    close(&block.attention.output.weight, 0.02 / 8.0_f64.sqrt());
    close(&block.feed_forward.down.weight, 0.02 / 8.0_f64.sqrt());
    let vit = VisionTransformer::<f64>::new(VisionConfig::new(28, 1, 7, 10, 2, 2, 16), 0).unwrap();
    assert_eq!(vit.config.patches(), 16);
    let tape = Tape::new();
    let images = tape.constant(draw(&[3, 1, 28, 28], 1));
    let pass = Pass::eval(&tape, &vit);
    assert_eq!(vit.forward(&pass, images).shape(), [3, 10]);
    assert_eq!(vit.tokens(&pass, images).shape(), [3, 17, 16]);
    let bert = Bert::<f64>::new(BertConfig::new(11, 9, 2, 2, 8), 0).unwrap();
    let pass = Pass::eval(&tape, &bert);
    let tokens = bert.forward(
        &pass,
        &[1, 2, 3, 4, 5, 6],
        &[0, 0, 1, 0, 1, 1],
        2,
        &Mask::lengths(&[3, 2]),
    );
    assert_eq!(tokens.shape(), [2, 3, 8]);
    assert_eq!(bert.pooled(&pass, tokens).shape(), [2, 8]);
}

/// The first patch is the upper left corner, channel by channel, row by row.
#[test]
fn patches_are_cut_row_by_row() {
    let mut vit = VisionTransformer::<f64>::new(VisionConfig::new(4, 2, 2, 2, 1, 1, 8), 0).unwrap();
    vit.patches.weight = Tensor::from_shape_fn(vec![8, 8], |i| f64::from(u8::from(i[0] == i[1])));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &vit);
    let image = Tensor::from_shape_fn(vec![1, 2, 4, 4], |i| (100 * i[1] + 10 * i[2] + i[3]) as f64);
    let image = tape.constant(image);
    let cut = image
        .reshape(&[1, 2, 2, 2, 2, 2])
        .permute(&[0, 2, 4, 1, 3, 5]);
    let tokens = vit.patches.forward(&pass, cut.reshape(&[1, 4, 8])).value();
    let second: Vec<f64> = (0..8).map(|c| tokens[[0, 1, c]]).collect();
    assert_eq!(second, [2.0, 3.0, 12.0, 13.0, 102.0, 103.0, 112.0, 113.0]);
}

/// The named variants: sinusoidal positions, no positions, untied heads, RMSNorm, gated feed-forward layers.
#[test]
fn variants_of_a_language_model_run() {
    let base = LanguageConfig::gpt(7, 6, 2, 2, 8);
    let mut modern = base;
    modern.positions = Positions::None;
    modern.tied = false;
    modern.block.norm = Norm::RMS;
    modern.block.attention.rotary = Some(10_000.0);
    modern.block.attention.normalize = Some(1e-6);
    modern.block.attention.groups = 1;
    modern.block.feed_forward = FeedForwardConfig::gated(8, 20, Activation::Silu);
    let sinusoidal = LanguageConfig {
        positions: Positions::Sinusoidal,
        ..base
    };
    for config in [base, modern, sinusoidal] {
        let model = LanguageModel::<f64>::new(config, 1).unwrap();
        let tape = Tape::new();
        let pass = Pass::train(&tape, &model, 0);
        let logits = model.forward(&pass, &[1, 2, 3, 4, 5, 6], 2);
        let loss = logits
            .reshape(&[6, 7])
            .cross_entropy(&[2, 3, 4, 5, 6, 0], None);
        let gradients = pass.gradients(loss);
        assert!(gradients.iter().all(|g| g.iter().any(|x| *x != 0.0)));
    }
    let wave = emmy::nn::sinusoidal::<f64>(3, 4);
    assert!((wave[[2, 2]] - (2.0 * 0.01_f64).sin()).abs() < 1e-15);
    assert!((wave[[2, 1]] - 2.0_f64.cos()).abs() < 1e-15);
}
