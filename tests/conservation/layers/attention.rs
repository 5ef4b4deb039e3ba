//! The library's attention layer with any options, and the tokens to which each token may attend.

use super::terms::linear;
use emmy::init::{self, Rng};
use emmy::nn::{self, AttentionConfig, MultiHeadAttention};
use emmy::ops::attention::Mask;
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Real, Tensor};
use std::ops::Deref;

/// How a query and a key are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// q · k / √d_k
    Dot,
    /// The same with rotary positions, of base 100 in place of 10000, which is for longer texts.
    Rotary,
    /// The same of q/rms(q) and k/rms(k).
    Normalised,
    /// −‖q − k‖² / √d_k
    Distance,
    /// The same with one weight for both.
    Tied,
}

/// The sizes of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    pub d_x: usize,
    pub d_y: usize,
    pub d_k: usize,
    pub d_v: usize,
    pub out: usize,
    pub heads: usize,
    pub groups: usize,
    pub bias: bool,
}

/// A layer with every weight and bias drawn.
pub fn attention<F: Real>(sizes: Sizes, score: Score, rng: &mut Rng) -> MultiHeadAttention<F> {
    let config = AttentionConfig {
        width: sizes.d_x,
        memory: sizes.d_y,
        out: sizes.out,
        heads: sizes.heads,
        groups: sizes.groups,
        key_width: sizes.d_k,
        value_width: sizes.d_v,
        bias: sizes.bias,
        score: match score {
            Score::Distance => nn::Score::L2,
            Score::Tied => nn::Score::L2Tied,
            _ => nn::Score::Dot,
        },
        rotary: (score == Score::Rotary).then_some(100.0),
        normalize: (score == Score::Normalised).then_some(0.0),
        ..AttentionConfig::new(sizes.d_x, 1)
    };
    let mut layer =
        MultiHeadAttention::new(config, &mut init::rng(0)).expect("a valid configuration");
    let maps = std::iter::once(&mut layer.query).chain(&mut layer.key);
    for map in maps.chain([&mut layer.value, &mut layer.output]) {
        let (out, input) = (map.weight.shape()[0], map.weight.shape()[1]);
        *map = linear(input, out, sizes.bias, rng);
    }
    layer
}

/// A layer whose laws are written down here.
#[derive(Clone, Copy)]
pub struct Attention<'a, F: Real>(pub &'a MultiHeadAttention<F>);

impl<F: Real> Deref for Attention<'_, F> {
    type Target = MultiHeadAttention<F>;

    fn deref(&self) -> &Self::Target {
        self.0
    }
}

/// To which tokens each may attend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Token i sees those up to i.
    Causal,
    /// A random mask; some tokens may see none.
    Mask,
    /// A random set of edges.
    Edges,
}

impl Shape {
    /// Of n tokens to m.
    pub fn draw(self, n: usize, m: usize, rng: &mut Rng) -> Mask {
        let draw: Tensor<f64> = init::uniform(&[n, m], 1.0, rng);
        let sees = |i: usize, j: usize| match self {
            Self::Causal => j <= i,
            Self::Mask | Self::Edges => draw[[i, j]] < 0.3,
        };
        let pairs = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
        if self == Self::Edges {
            let pairs: Vec<_> = pairs.filter(|&(i, j)| sees(i, j)).collect();
            return Mask::edges(Pattern::from_pairs(n, m, &pairs).expect("pairs within range"));
        }
        Mask::allowed(tensor(&[n, m], pairs.map(|(i, j)| sees(i, j)).collect()))
    }
}
