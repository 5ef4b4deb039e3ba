//! Attention layers and transformers: PyTorch's values, masks, caches, heads, refusals.

use crate::reference::{Derivatives, Stored, check_derivatives, close, fill, read};
use emmy::nn::{
    Activation, AttentionConfig, Bert, BertConfig, BlockConfig, DropPath, FeedForward,
    FeedForwardConfig, Invariance, KeyValues, LanguageConfig, LanguageModel, Module,
    MultiHeadAttention, Norm, Pass, Positions, Score, ScoreNormalizer, Transformer,
    TransformerBlock, VisionConfig, VisionTransformer,
};
use emmy::ops::attention::Mask;
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var, init};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
struct Case {
    kind: String,
    config: serde_json::Value,
    parameters: BTreeMap<String, Stored>,
    inputs: Vec<Stored>,
    value: Stored,
    #[serde(flatten)]
    derivatives: Derivatives,
}

impl Case {
    fn size(&self, name: &str) -> usize {
        self.config[name].as_u64().expect(name) as usize
    }

    fn flag(&self, name: &str) -> bool {
        self.config[name].as_bool().expect(name)
    }

    fn mask(&self) -> Mask {
        let given = &self.config["mask"];
        match given.as_str() {
            Some("none") => Mask::none(),
            Some("causal") => Mask::causal(),
            Some("lengths") => Mask::lengths(&[3, 1]),
            _ => {
                let allowed = given["allowed"].as_array().expect("a mask");
                let allowed = allowed.iter().map(|x| x == 1).collect();
                Mask::allowed(tensor(&[3, 3], allowed))
            }
        }
    }

    /// Value and derivatives by the inputs, then by the parameters in the order of their names.
    fn check<M: Module<f64>>(
        &self,
        mut module: M,
        forward: impl for<'t> Fn(&M, &Pass<'t, '_, f64>, &[Var<'t, f64>]) -> Var<'t, f64>,
    ) {
        fill(&mut module, &self.parameters);
        let tape = Tape::new();
        let pass = Pass::train(&tape, &module, 0);
        let inputs: Vec<_> = self.inputs.iter().map(|x| tape.var(x.tensor())).collect();
        let y = forward(&module, &pass, &inputs);
        let what = format!("{} {}", self.kind, self.config);
        close(&y.value(), &self.value, &what);
        let names = module.parameters().into_iter().map(|(name, _)| name);
        let mut named: Vec<_> = names.zip(pass.vars().iter().copied()).collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let xs: Vec<_> = (inputs.into_iter())
            .chain(named.into_iter().map(|(_, var)| var))
            .collect();
        check_derivatives(y, &xs, &self.derivatives, &what);
    }
}

#[test]
fn layers_are_pytorchs() {
    let cases: Vec<Case> = read("attention.json");
    assert_eq!(cases.len(), 16);
    let rng = &mut init::rng(0);
    for case in cases {
        if case.kind == "attention" {
            let config = AttentionConfig {
                bias: case.flag("bias"),
                ..AttentionConfig::new(case.size("width"), case.size("heads"))
            };
            let layer = MultiHeadAttention::new(config, rng).unwrap();
            let mask = case.mask();
            case.check(layer, |layer, pass, x| {
                layer.cross(pass, x[0], x[x.len() - 1], &mask)
            });
            continue;
        }
        let sizes = [case.size("width"), case.size("heads"), case.size("hidden")];
        let [width, heads, hidden] = sizes;
        let mut config = match case.kind.as_str() {
            "encoder" => BlockConfig::encoder(width, heads, hidden),
            _ => BlockConfig::decoder(width, heads, hidden),
        };
        config = config.biased(case.flag("bias"));
        config.norm_first = case.flag("norm_first");
        if case.config["activation"] == "gelu" {
            config.feed_forward.activation = Activation::Gelu;
        }
        let block = TransformerBlock::new(config, rng).unwrap();
        case.check(block, |block, pass, x| match x {
            [x] => block.forward(pass, *x, &Mask::causal()),
            x => block.with_memory(pass, x[0], &Mask::causal(), x[1], &Mask::none()),
        });
    }
}

fn draw(shape: &[usize], seed: u64) -> Tensor<f64> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

fn layer(change: impl Fn(&mut AttentionConfig)) -> MultiHeadAttention<f64> {
    let mut config = AttentionConfig::new(8, 4);
    change(&mut config);
    let mut layer = MultiHeadAttention::new(config, &mut init::rng(3)).unwrap();
    for (k, (_, p)) in layer.parameters_mut().into_iter().enumerate() {
        *p = draw(p.shape(), k as u64);
    }
    layer
}

#[track_caller]
fn near(a: &Tensor<f64>, b: &Tensor<f64>) {
    assert_eq!(a.shape(), b.shape());
    let far = a
        .iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f64::max);
    assert!(far < 1e-12, "{far:e}");
}

/// The value of a layer in an evaluation.
fn value(
    layer: &MultiHeadAttention<f64>,
    f: impl for<'t> Fn(&Pass<'t, '_, f64>) -> Var<'t, f64>,
) -> Tensor<f64> {
    let tape = Tape::new();
    f(&Pass::eval(&tape, layer)).value()
}

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

/// Tokens fed one by one, or in pieces, through a cache give what they give at once.
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

/// The same seed gives the same bits, with dropout of every kind; an evaluation has none.
#[test]
fn dropout_follows_from_the_seed() {
    let mut config = BlockConfig::decoder(8, 2, 16).with_dropout(0.3);
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
    assert_eq!(model.parameter_count(), 804_096);
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

#[test]
fn configurations_that_cannot_be_built_are_refused() {
    let rng = &mut init::rng(0);
    let mut says = |config: AttentionConfig| {
        MultiHeadAttention::<f32>::new(config, rng)
            .unwrap_err()
            .to_string()
    };
    let base = AttentionConfig::new(8, 4);
    let cases = [
        (
            AttentionConfig { heads: 0, ..base },
            "attention: heads: expected at least 1, found 0",
        ),
        (
            AttentionConfig::new(8, 9),
            "attention: key_width: expected at least 1, found 0",
        ),
        (
            AttentionConfig { groups: 3, ..base },
            "attention: groups: expected a number that divides the 4 heads, found 3",
        ),
        (
            AttentionConfig {
                key_width: 3,
                rotary: Some(10.0),
                ..base
            },
            "rotary: expected an even width",
        ),
        (
            AttentionConfig {
                rotary: Some(-1.0),
                ..base
            },
            "rotary: expected a base above 0, found -1",
        ),
        (
            AttentionConfig {
                normalize: Some(f64::NAN),
                ..base
            },
            "normalize: expected ε at least 0, found NaN",
        ),
        (
            AttentionConfig {
                dropout: 2.0,
                ..base
            },
            "dropout: expected a probability, 0 to 1, found 2",
        ),
        (
            AttentionConfig {
                score: Score::L2Tied,
                groups: 2,
                ..base
            },
            "score l2-tied: expected as many groups as heads",
        ),
    ];
    for (config, expected) in cases {
        let found = says(config);
        assert!(found.contains(expected), "{found}");
    }
    let mut block = BlockConfig::encoder(8, 2, 16);
    block.feed_forward.width = 4;
    let found = block.validate().unwrap_err().to_string();
    assert_eq!(
        found,
        "block: feed-forward: width: expected the width 8 of the block, found 4"
    );
    let found = FeedForward::<f32>::new(FeedForwardConfig::relu(4, 0), rng).unwrap_err();
    assert_eq!(
        found.to_string(),
        "feed-forward: hidden: expected at least 1, found 0"
    );
    let found = VisionConfig::new(28, 1, 5, 10, 2, 2, 16)
        .validate()
        .unwrap_err();
    assert!(
        found
            .to_string()
            .contains("patch: expected a number that divides the image's 28 × 28 pixels, found 5")
    );
    let found = LanguageConfig::gpt(0, 8, 1, 1, 4).validate().unwrap_err();
    assert_eq!(
        found.to_string(),
        "language model: symbols: expected at least 1, found 0"
    );
    assert!(
        LanguageConfig {
            block: BlockConfig::decoder(4, 1, 4),
            ..LanguageConfig::gpt(3, 8, 1, 1, 4)
        }
        .validate()
        .is_err()
    );
    assert!(BertConfig::new(3, 0, 1, 1, 4).validate().is_err());
    assert!(Transformer::<f32>::new(0, BlockConfig::encoder(4, 1, 4), rng).is_err());
}

/// Misuse panics with a sentence that names the layer.
#[test]
fn misuse_is_named() {
    fn says(f: impl Fn(&Tape<f64>)) -> String {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&Tape::new())));
        let caught = caught.expect_err("it must panic");
        caught
            .downcast_ref::<String>()
            .cloned()
            .unwrap_or_else(|| caught.downcast_ref::<&str>().unwrap().to_string())
    }
    let attention = layer(|_| ());
    let tied = layer(|c| c.score = Score::L2Tied);
    let encoder =
        TransformerBlock::<f64>::new(BlockConfig::encoder(8, 2, 4), &mut init::rng(0)).unwrap();
    let model = LanguageModel::<f64>::new(LanguageConfig::gpt(7, 4, 1, 2, 8), 1).unwrap();
    let x = |t: &Tape<f64>, shape: &[usize]| -> Tensor<f64> {
        let _ = t;
        draw(shape, 0)
    };
    let found = says(|t| {
        let pass = Pass::eval(t, &attention);
        attention.forward(&pass, t.constant(x(t, &[3, 7])), &Mask::none());
    });
    assert!(
        found.starts_with(
            "MultiHeadAttention: x [3, 7], y [3, 7]: they must be [.., n, 8] and [.., m, 8]"
        ),
        "{found}"
    );
    let found = says(|t| {
        let pass = Pass::eval(t, &tied);
        tied.cross(
            &pass,
            t.constant(x(t, &[3, 8])),
            t.constant(x(t, &[3, 8])),
            &Mask::none(),
        );
    });
    assert!(
        found.contains("one weight for queries and keys is for self-attention"),
        "{found}"
    );
    let found = says(|t| {
        let pass = Pass::eval(t, &encoder);
        let x = t.constant(x(t, &[3, 8]));
        encoder.with_memory(&pass, x, &Mask::none(), x, &Mask::none());
    });
    assert!(
        found.contains("it has no attention to a memory; call forward"),
        "{found}"
    );
    let found = says(|t| {
        model.forward(&Pass::eval(t, &model), &[1, 2, 3, 4, 5], 1);
    });
    assert_eq!(
        found,
        "LanguageModel: a sequence of 5 symbols, the context holds 4"
    );
    let found = says(|t| {
        model.forward(&Pass::eval(t, &model), &[1, 2, 3], 2);
    });
    assert_eq!(
        found,
        "LanguageModel: 3 symbols are not 2 sequences of equal length"
    );
    let found = says(|t| {
        model.forward(&Pass::eval(t, &model), &[1, 9], 1);
    });
    assert_eq!(found, "Embedding: index 9 at place 1, the table has 7 rows");
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
