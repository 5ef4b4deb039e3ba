//! Attention layers drawn at random.

use crate::compositions::{Composition, any_loss, conserved, fails};
use crate::layers::{Attention, Score, Shape, Sizes, attention};
use emmy::nn::{MultiHeadAttention, Params, Pass, Trace};
use emmy::ops::attention::Mask;
use emmy::symmetry::{Law, Symmetry};
use emmy::{Real, Tensor, Var, init};
use proptest::prelude::*;

/// An attention layer on random tokens, with a random loss of its outputs.
#[derive(Debug, Clone)]
pub struct Alone<F: Real> {
    pub layer: MultiHeadAttention<F>,
    x: Tensor<F>,
    /// `None` for tokens that attend to each other.
    y: Option<Tensor<F>>,
    mask: Mask,
    seed: u64,
}
emmy::module!(Alone: layer);

impl<F: Real> Composition<F> for Alone<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        let constant = |x: &Tensor<F>| pass.tape().constant(x.clone());
        let x = constant(&self.x);
        let y = self.y.as_ref().map_or(x, constant);
        any_loss(self.layer.cross(pass, x, y, &self.mask), self.seed)
    }
}

/// The parts of which such a layer is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub n: usize,
    pub m: usize,
    pub sizes: Sizes,
    pub score: Score,
    pub shape: Shape,
    pub seed: u64,
}

impl Case {
    pub fn draw<F: Real>(self) -> Alone<F> {
        let rng = &mut init::rng(self.seed);
        let layer = attention(self.sizes, self.score, rng);
        let x = init::normal(&[self.n, self.sizes.d_x], 1.0, rng);
        // One weight for both is for self-attention.
        let other = self.score != Score::Tied;
        let m = if other { self.m } else { self.n };
        Alone {
            layer,
            x,
            y: other.then(|| init::normal(&[m, self.sizes.d_y], 1.0, rng)),
            mask: self.shape.draw(self.n, m, rng),
            seed: self.seed,
        }
    }

    /// All laws named by `laws`, and those that are read off the pass, in both types. Those of biases alone
    /// are left to their own tests: where every softmax selects one token, all gradients beside them are
    /// rounding.
    pub fn conserves(self, laws: impl Fn(&Attention<'_, f64>, &Params<'_, f64>) -> Vec<Law>) {
        let net = self.draw::<f64>();
        let mut laws = laws(&Attention(&net.layer), &Params::of(&net));
        let read = Trace::of(&net, |pass| net.loss(pass)).laws();
        laws.extend((read.into_iter()).filter(|law| law.symmetry != Symmetry::Translation));
        conserved(&net, &self.draw::<f32>(), &laws);
    }

    /// For twenty draws, whatever the seed of this.
    pub fn violates(self, laws: impl Fn(&Attention<'_, f64>, &Params<'_, f64>) -> Vec<Law>) {
        fails(|seed| {
            let net = Self { seed, ..self }.draw::<f64>();
            let laws = laws(&Attention(&net.layer), &Params::of(&net));
            (net, laws)
        });
    }
}

/// Two heads of four and three, six tokens that attend to seven.
pub const CASE: Case = Case {
    n: 6,
    m: 7,
    sizes: Sizes {
        d_x: 5,
        d_y: 4,
        d_k: 4,
        d_v: 3,
        out: 4,
        heads: 2,
        groups: 2,
        bias: false,
    },
    score: Score::Dot,
    shape: Shape::Mask,
    seed: 0,
};

/// Any sizes and any mask or pattern; dot products, a key for each query, no biases.
pub fn cases() -> impl Strategy<Value = Case> {
    let widths = prop::array::uniform5(1..5_usize);
    let shape = prop_oneof![Just(Shape::Causal), Just(Shape::Mask), Just(Shape::Edges)];
    let tokens = prop::array::uniform2(2..7_usize);
    (tokens, widths, 1..4_usize, shape, any::<u64>()).prop_map(
        |([n, m], [d_x, d_y, d_k, d_v, out], heads, shape, seed)| Case {
            n,
            m,
            sizes: Sizes {
                d_x,
                d_y,
                d_k,
                d_v,
                out,
                heads,
                groups: heads,
                bias: false,
            },
            shape,
            seed,
            ..CASE
        },
    )
}

impl Case {
    pub fn biased(self, bias: bool) -> Self {
        self.sized(|sizes| Sizes { bias, ..sizes })
    }

    pub fn scored(self, score: Score) -> Self {
        Self { score, ..self }
    }

    pub fn sized(self, change: impl Fn(Sizes) -> Sizes) -> Self {
        Self {
            sizes: change(self.sizes),
            ..self
        }
    }

    /// `share` heads to each key.
    pub fn shared(self, share: usize) -> Self {
        self.sized(|sizes| Sizes {
            heads: share * sizes.groups,
            ..sizes
        })
    }
}
