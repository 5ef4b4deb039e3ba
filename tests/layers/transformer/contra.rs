//! ContraNorm in blocks: its places, the tokens that it compares, and the collapse that it prevents.

use super::{draw, near};
use emmy::linalg::effective_rank;
use emmy::nn::{
    Bert, BertConfig, BlockConfig, BlockContra, ContraConfig, ContraPlace, LanguageConfig,
    LanguageModel, Module, Norm, Pass, Role, Transformer, TransformerBlock, VisionConfig,
    VisionTransformer, entries_mut,
};
use emmy::ops::attention::Mask;
use emmy::store::weights;
use emmy::{Tape, Tensor, Var, init};

const PLACES: [ContraPlace; 2] = [ContraPlace::BeforeResidual, ContraPlace::AfterResidual];

fn with(place: ContraPlace) -> BlockConfig {
    let norm = ContraConfig::text_code(0.3);
    BlockConfig {
        contra: Some(BlockContra { norm, place }),
        ..BlockConfig::pre_norm_encoder(8, 2, 16)
    }
}

/// A block is the formula of the table of `ContraPlace`.
#[test]
fn a_block_has_contranorm_in_its_place() {
    for place in PLACES {
        for norm_first in [true, false] {
            let config = BlockConfig {
                norm_first,
                ..with(place)
            };
            let block = TransformerBlock::<f64>::new(config, &mut init::rng(1)).unwrap();
            let tape = Tape::new();
            let pass = Pass::eval(&tape, &block);
            let x = tape.constant(draw(&[2, 5, 8], 2));
            let mask = Mask::lengths(&[5, 3]);
            let contra = block.contra.as_ref().unwrap();
            let spread = |at, x| match at == place {
                true => contra.masked(&pass, x, &mask),
                false => x,
            };
            let attend = |x| block.attention.forward(&pass, x, &mask);
            let add = |x, y| {
                let sum = x + spread(ContraPlace::BeforeResidual, y);
                spread(ContraPlace::AfterResidual, sum)
            };
            let forth = |x| block.feed_forward.forward(&pass, x);
            let [one, two] = [&block.norm1, &block.norm2];
            let expected = match norm_first {
                true => {
                    let x = add(x, attend(one.forward(&pass, x)));
                    x + forth(two.forward(&pass, x))
                }
                false => {
                    let x = one.forward(&pass, add(x, attend(x)));
                    two.forward(&pass, x + forth(x))
                }
            };
            near(&block.forward(&pass, x, &mask).value(), &expected.value());
            let (y, alpha) = block.with_coefficients(&pass, x, &mask);
            near(&y.value(), &expected.value());
            assert_eq!(alpha.shape(), [2, 2, 5, 5]);
            near(
                &alpha.sum(&[-1], false).value(),
                &Tensor::ones(&[2, 2, 5][..]),
            );
        }
    }
}

/// The layers of a stack, one by one.
#[test]
fn a_stack_shows_its_layers() {
    let config = with(ContraPlace::AfterResidual);
    let net = Transformer::<f64>::new(3, config, &mut init::rng(2)).unwrap();
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &net);
    let x = tape.constant(draw(&[2, 4, 8], 3));
    let layers = net.by_layer(&pass, x, &Mask::none());
    assert_eq!(layers.len(), 3);
    let norm = net.norm.as_ref().unwrap();
    near(
        &norm.forward(&pass, layers[2].0).value(),
        &net.forward(&pass, x, &Mask::none()).value(),
    );
    let first = net.layers[0].attention.with_coefficients(
        &pass,
        net.layers[0].norm1.forward(&pass, x),
        net.layers[0].norm1.forward(&pass, x),
        &Mask::none(),
    );
    near(&layers[0].1.value(), &first.1.value());
}

/// Files of weights fit models with ContraNorm and without, and configurations that were written before there
/// was ContraNorm can be read.
#[test]
fn names_and_configurations_are_those_without_it() {
    let plain = BlockConfig::pre_norm_encoder(8, 2, 16);
    let keys = |config| {
        let net = Transformer::<f64>::new(2, config, &mut init::rng(0)).unwrap();
        weights::keys(&net)
    };
    for place in PLACES {
        assert_eq!(keys(with(place)), keys(plain));
    }
    let norm = Norm::Contra(ContraConfig::vision_code(0.2));
    assert_eq!(keys(BlockConfig { norm, ..plain }), keys(plain));

    let mut json = serde_json::to_value(plain).unwrap();
    assert!(json.as_object_mut().unwrap().remove("contra").is_some());
    assert_eq!(serde_json::from_value::<BlockConfig>(json).unwrap(), plain);
    let config = with(ContraPlace::BeforeResidual);
    let json = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<BlockConfig>(&json).unwrap(), config);

    let mut config = with(ContraPlace::AfterResidual);
    config.contra.as_mut().unwrap().norm.temperature = 0.0;
    let found = config.validate().unwrap_err().to_string();
    assert!(found.starts_with("ContraNorm: temperature"), "{found}");
}

/// As a norm, and in addition to a norm, it compares only tokens that the mask shows: no padding and no later
/// tokens.
#[test]
fn it_sees_what_the_attention_sees() {
    let norm = Norm::Contra(ContraConfig::vision_code(0.3));
    let as_norm = BlockConfig {
        norm,
        ..BlockConfig::pre_norm_encoder(8, 2, 16)
    };
    for config in [with(PLACES[0]), with(PLACES[1]), as_norm] {
        let net = Transformer::<f64>::new(2, config, &mut init::rng(3)).unwrap();
        let run = |x: &Tensor<f64>, mask: &Mask| {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, &net);
            net.forward(&pass, tape.constant(x.clone()), mask).value()
        };
        let x = draw(&[1, 5, 8], 4);
        let mut changed = x.clone();
        changed.slice_mut(emmy::ndarray::s![.., 3.., ..]).fill(7.0);
        for mask in [Mask::lengths(&[3]), Mask::causal()] {
            let before = |y: Tensor<f64>| {
                let part = y.slice(emmy::ndarray::s![.., ..3, ..]).to_owned();
                part.into_dyn().into_shared()
            };
            let (a, b) = (run(&x, &mask), run(&changed, &mask));
            assert_ne!(a, b);
            near(&before(a), &before(b));
        }
        assert!(run(&x, &Mask::none()) != run(&changed, &Mask::none()));
    }
    // An encoder's own norm too.
    let config = BertConfig {
        block: as_norm,
        ..BertConfig::new(11, 9, 1, 2, 8)
    };
    let bert = Bert::<f64>::new(config, 0).unwrap();
    let run = |symbols: &[usize]| {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &bert);
        let tokens = bert.forward(&pass, symbols, &[0; 4], 1, &Mask::lengths(&[2]));
        tokens.slice(1, 0..2).value()
    };
    near(&run(&[1, 2, 3, 4]), &run(&[1, 2, 9, 9]));
}

/// Tokens that are generated one by one are not compared with those before them.
#[test]
fn a_cache_is_refused() {
    let norm = Norm::Contra(ContraConfig::new(0.1));
    let as_norm = |block| BlockConfig { norm, ..block };
    let placed = |block| BlockConfig {
        contra: with(PLACES[0]).contra,
        ..block
    };
    for change in [&as_norm as &dyn Fn(BlockConfig) -> BlockConfig, &placed] {
        let mut config = LanguageConfig::gpt(7, 4, 1, 2, 8);
        config.block = change(config.block);
        let model = LanguageModel::<f64>::new(config, 1).unwrap();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let tape = Tape::new();
            model.continued(&Pass::eval(&tape, &model), &[1], &mut Vec::new());
        }));
        let caught = caught.expect_err("it must panic");
        let found = caught.downcast_ref::<&str>().unwrap();
        assert!(found.contains("which a cache does not hold"), "{found}");
    }
}

/// Gives the weights of a new model the gain that they have at `reference` neurons.
fn widen(model: &mut impl Module<f64>, reference: f64, width: usize) {
    let factor = (reference / width as f64).sqrt();
    for entry in entries_mut(model) {
        if matches!(entry.role, Role::Weight | Role::Table) {
            *entry.tensor = entry.tensor.mapv(|w| factor * w).into_shared();
        }
    }
}

/// The effective rank of an item's tokens before the first block and after each block.
fn ranks(x: Var<'_, f64>, layers: &[(Var<'_, f64>, Var<'_, f64>)]) -> Vec<f64> {
    let all = std::iter::once(x).chain(layers.iter().map(|(y, _)| *y));
    let of = |x: Var<'_, f64>| {
        let shape = x.shape();
        let value = x.slice(0, 0..1).value();
        let rows = value.into_shape_with_order((shape[1], shape[2])).unwrap();
        effective_rank(rows.view())
    };
    all.map(of).collect()
}

/// At initialisation: 24 blocks of the encoder halve the effective rank of a sentence's tokens; with
/// ContraNorm after the residual they keep it.
#[test]
fn a_deep_encoder_collapses_and_contranorm_prevents_it() {
    let of = |contra: Option<BlockContra>, seed: u64| {
        let mut config = BertConfig::new(50, 20, 24, 4, 32);
        config.block.contra = contra;
        let mut bert = Bert::<f64>::new(config, seed).unwrap();
        widen(&mut bert, 768.0, 32);
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &bert);
        let symbols: Vec<usize> = (0..20).map(|k| (7 * k + 3) % 50).collect();
        let x = bert.embedded(&pass, &symbols, &[0; 20], 1, &Mask::none());
        ranks(x, &bert.blocks.by_layer(&pass, x, &Mask::none()))
    };
    let norm = ContraConfig::text_code(0.2);
    let place = ContraPlace::AfterResidual;
    for seed in 0..3 {
        let plain = of(None, seed);
        let held = of(Some(BlockContra { norm, place }), seed);
        assert!(plain[0] > 14.0 && plain[0] == held[0], "{plain:?}");
        assert!(plain[24] < 0.65 * plain[0], "{plain:?}");
        assert!(plain[12] < 0.85 * plain[0], "{plain:?}");
        let least = held.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.93 * held[0], "{held:?}");
    }
}

/// The same for a vision transformer, whose stream loses a fifth of its rank.
#[test]
fn a_deep_vision_transformer_collapses_and_contranorm_prevents_it() {
    let images = crate::strokes::strokes(10, 1).rows::<f64>();
    let images = images.into_shape_with_order(vec![10, 1, 28, 28]).unwrap();
    let of = |contra: Option<BlockContra>, seed: u64| {
        let mut config = VisionConfig::new(28, 1, 7, 10, 24, 4, 32);
        config.block.contra = contra;
        let mut vit = VisionTransformer::<f64>::new(config, seed).unwrap();
        widen(&mut vit, 768.0, 32);
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &vit);
        let x = vit.embedded(&pass, tape.constant(images.clone()));
        ranks(x, &vit.blocks.by_layer(&pass, x, &Mask::none()))
    };
    let norm = ContraConfig::stopped(0.2);
    let norm = ContraConfig {
        rows: emmy::nn::contra::UnitRows::Compared,
        ..norm
    };
    let place = ContraPlace::AfterResidual;
    for seed in 0..3 {
        let plain = of(None, seed);
        let held = of(Some(BlockContra { norm, place }), seed);
        assert!(plain[24] < 0.9 * plain[0], "{plain:?}");
        assert!(held[24] > 0.9 * held[0], "{held:?}");
    }
}

/// Forms of ContraNorm that need all rows, or a graph, are refused before a model is built.
#[test]
fn forms_that_tokens_cannot_have_are_refused() {
    for (norm, part) in [
        (ContraConfig::dimension(0.5), "products without a softmax"),
        (
            ContraConfig::graph_code(0.5),
            "comparison without neighbours",
        ),
    ] {
        let mut config = LanguageConfig::gpt(7, 6, 2, 2, 8);
        config.block.norm = Norm::Contra(norm);
        let error = config.validate().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
