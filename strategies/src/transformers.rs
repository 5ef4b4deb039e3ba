//! Attention, blocks of a transformer, and language models.

use super::models::{activations, contra_norms, row_norms};
use emmy::linalg::Lp;
use emmy::nn::{
    AttentionConfig, BlockConfig, BlockContra, ContraPlace, Contraction, FeedForwardConfig,
    LanguageConfig, Positions, Score,
};
use proptest::prelude::*;

/// Self-attention by dot products, and by distances; with keys shared by heads, rotary positions, normalised
/// queries, and divided by a bound of its Lipschitz constant. Without score normalisers and dropout.
pub fn self_attentions() -> impl Strategy<Value = AttentionConfig> {
    attentions_of(1_usize..7)
}

fn attentions_of(width: impl Strategy<Value = usize>) -> impl Strategy<Value = AttentionConfig> {
    let sizes = (width, 1_usize..6, 1_usize..3, 1_usize..4);
    // Keys of an even width, which rotary positions need, and values.
    let widths = (1_usize..3, 1_usize..4);
    let score = prop::sample::select(&[Score::Dot, Score::L2, Score::L2Tied][..]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let contraction =
        prop::option::of((0.3..2.0_f64, prop::sample::select(&[Lp::Two, Lp::Inf][..])));
    (sizes, widths, score, flags, contraction).prop_map(
        |((width, out, share, groups), (planes, value_width), score, flags, contraction)| {
            let (bias, rotary, normalize, metric_values) = flags;
            let tied = score == Score::L2Tied;
            let metric_values = metric_values && tied;
            let plain = AttentionConfig {
                out,
                heads: if tied { groups } else { share * groups },
                groups,
                key_width: 2 * planes,
                value_width,
                bias,
                score,
                metric_values,
                ..AttentionConfig::new(width, 1)
            };
            match metric_values {
                true => AttentionConfig {
                    contraction: contraction.map(|(factor, p)| Contraction::new(factor, p)),
                    ..plain
                },
                false => AttentionConfig {
                    rotary: rotary.then_some(100.0),
                    normalize: normalize.then_some(0.1),
                    ..plain
                },
            }
        },
    )
}

/// Blocks of an encoder with such self-attention: pre-norm and post-norm, with and without gates
/// and ContraNorm; without dropout.
pub fn blocks() -> impl Strategy<Value = BlockConfig> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let place =
        prop::sample::select(&[ContraPlace::BeforeResidual, ContraPlace::AfterResidual][..]);
    let contra = prop::option::of((contra_norms(), place));
    let hidden = (1_usize..6, activations());
    (
        attentions_of(2_usize..7),
        hidden,
        row_norms(),
        flags,
        contra,
    )
        .prop_map(
            |(attention, (hidden, activation), norm, (norm_first, gated, bias), contra)| {
                let width = attention.width;
                BlockConfig {
                    attention: AttentionConfig {
                        out: width,
                        ..attention
                    },
                    feed_forward: FeedForwardConfig {
                        activation,
                        gated,
                        bias,
                        ..FeedForwardConfig::relu(width, hidden)
                    },
                    norm,
                    norm_first,
                    contra: contra.map(|(norm, place)| BlockContra { norm, place }),
                    ..BlockConfig::pre_norm_encoder(width, 1, hidden)
                }
            },
        )
}

/// Causal language models of such blocks, with every kind of positions.
pub fn language_models() -> impl Strategy<Value = LanguageConfig> {
    let positions = [Positions::None, Positions::Sinusoidal, Positions::Learned];
    let sizes = (2_usize..6, 2_usize..7, 1_usize..4);
    let positions = prop::sample::select(positions.to_vec());
    (sizes, blocks(), positions, any::<bool>()).prop_map(
        |((symbols, context, layers), block, positions, tied)| LanguageConfig {
            symbols,
            context,
            layers,
            block,
            positions,
            tied,
        },
    )
}
