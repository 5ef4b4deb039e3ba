//! Configurations that are refused, and misuse that panics with a sentence.

use super::{draw, layer};
use emmy::nn::{
    AttentionConfig, BertConfig, BlockConfig, BlockContra, ContraConfig, ContraPlace, FeedForward,
    FeedForwardConfig, LanguageConfig, LanguageModel, MultiHeadAttention, Norm, PairNorm, Pass,
    Score, Transformer, TransformerBlock, VisionConfig,
};
use emmy::ops::attention::Mask;
use emmy::{Tape, Tensor, init};

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
    let mut block = BlockConfig::pre_norm_encoder(8, 2, 16);
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
            block: BlockConfig::pre_norm_decoder(4, 1, 4),
            ..LanguageConfig::gpt(3, 8, 1, 1, 4)
        }
        .validate()
        .is_err()
    );
    // Their statistics are those of all symbols.
    for norm in [
        Norm::BATCH,
        Norm::Graph { eps: 1e-5 },
        Norm::Pair(PairNorm::pyg(false)),
    ] {
        let block = BlockConfig {
            norm,
            ..BlockConfig::pre_norm_encoder(4, 1, 4)
        };
        assert!(block.validate().is_ok());
        let config = LanguageConfig {
            block,
            ..LanguageConfig::gpt(3, 8, 1, 1, 4)
        };
        let error = config.validate().unwrap_err().to_string();
        assert!(
            error.starts_with("language model: norm: expected one of each symbol alone"),
            "{error}"
        );
    }
    // Features are those of all symbols, so this ContraNorm would see the next ones.
    let features = ContraConfig::dual_code(1.0);
    let plain = BlockConfig::pre_norm_encoder(4, 1, 4);
    for block in [
        BlockConfig {
            norm: Norm::Contra(features),
            ..plain
        },
        BlockConfig {
            contra: Some(BlockContra {
                norm: features,
                place: ContraPlace::AfterResidual,
            }),
            ..plain
        },
    ] {
        assert!(block.validate().is_ok());
        let causal = LanguageConfig {
            block,
            ..LanguageConfig::gpt(3, 8, 1, 1, 4)
        };
        let error = LanguageModel::<f32>::new(causal, 0)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("language model: ContraNorm: expected comparison of rows"),
            "{error}"
        );
    }
    assert!(BertConfig::new(3, 0, 1, 1, 4).validate().is_err());
    assert!(Transformer::<f32>::new(0, BlockConfig::pre_norm_encoder(4, 1, 4), rng).is_err());
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
        TransformerBlock::<f64>::new(BlockConfig::pre_norm_encoder(8, 2, 4), &mut init::rng(0))
            .unwrap();
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
