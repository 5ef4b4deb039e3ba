//! Attention with queries, keys and values, written down head by head.

use super::norms::Norm;
use super::terms::linear;
use emmy::init::{self, Rng};
use emmy::nn::{Layer, Linear, Params, Pass};
use emmy::ops::sparse::{gather_columns, gather_rows, segment_softmax, spmm};
use emmy::sparse::Pattern;
use emmy::symmetry::Ports;
use emmy::tensor::tensor;
use emmy::{Real, Tensor, Var};
use std::sync::Arc;

/// How a query and a key are compared; q and k have d_k entries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Score {
    /// q · k / √d_k
    Dot,
    /// The same after each plane (q_2p, q_2p+1) of the query at position i is rotated by i · 100^(−2p/d_k),
    /// and the plane of the key alike: Su et al., "RoFormer", 2021, Section 3.2; their 10000 in place of 100
    /// is for longer texts.
    Rotary,
    /// The same of q/rms(q) and k/rms(k): Henry et al., "Query-Key Normalization", 2020, with a constant for
    /// the temperature.
    Normalised,
    /// −‖q − k‖² / √d_k: Kim et al., "The Lipschitz Constant of Self-Attention", ICML 2021, Section 3.2.
    Distance,
}

/// The tokens to which each token may attend.
#[derive(Debug, Clone)]
pub enum Reach {
    /// Where it holds, `[n, m]`.
    Mask(Tensor<bool>),
    /// Along the entries of a pattern.
    Edges(Arc<Pattern>),
}

/// | letter | shape |
/// |---|---|
/// | x | `[n, d_x]`, of which queries are made |
/// | y | `[m, d_y]`, of which keys and values are made |
/// | q | `[n, H d_k]`, H heads |
/// | k, v | `[m, G d_k]`, `[m, G d_v]`; H/G heads share each of the G |
#[derive(Debug, Clone)]
pub struct Attention<F: Real> {
    pub query: Linear<F>,
    /// `None` if the key has the weight of the query.
    pub key: Option<Linear<F>>,
    pub value: Linear<F>,
    pub output: Linear<F>,
    /// H.
    pub heads: usize,
    /// G.
    pub groups: usize,
    pub score: Score,
}
emmy::module!(Attention: query, key, value, output);

/// The sizes of an [`Attention`].
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

impl<F: Real> Attention<F> {
    pub fn new(sizes: Sizes, score: Score, rng: &mut Rng) -> Self {
        let Sizes { heads, groups, .. } = sizes;
        let mut map = |input, out| linear(input, out, sizes.bias, rng);
        Self {
            query: map(sizes.d_x, heads * sizes.d_k),
            key: Some(map(sizes.d_y, groups * sizes.d_k)),
            value: map(sizes.d_y, groups * sizes.d_v),
            output: map(heads * sizes.d_v, sizes.out),
            heads,
            groups,
            score,
        }
    }

    /// [head 1, .., head H] W_Oᵀ + b_O
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        y: Var<'t, F>,
        reach: &Reach,
    ) -> Var<'t, F> {
        pass.call(self, &[x, y], || {
            let (q, k) = (self.query.forward(pass, x), self.keys().forward(pass, y));
            let v = self.value.forward(pass, y);
            let part = |z: Var<'t, F>, of: usize, h: usize| {
                let width = z.shape()[1] / of;
                z.slice(1, h * width..(h + 1) * width)
            };
            let head = |h: usize| {
                let g = h / (self.heads / self.groups);
                let (q, k) = (part(q, self.heads, h), part(k, self.groups, g));
                attend(self.score, reach, q, k, part(v, self.groups, g))
            };
            let heads: Vec<_> = (0..self.heads).map(head).collect();
            self.output.forward(pass, Var::concat(&heads, 1))
        })
    }

    /// The map that computes keys.
    pub fn keys(&self) -> &Linear<F> {
        self.key.as_ref().unwrap_or(&self.query)
    }
}

impl<F: Real> Layer<F> for Attention<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let read = |map: &Linear<F>| params.columns(&map.weight);
        let of_y = self.key.iter().chain([&self.value]);
        let written = std::iter::once(&self.output.weight).chain(&self.output.bias);
        let ports = Ports::writes(written.map(|p| params.rows(p)));
        Some(Ports {
            inside: self.inside(params),
            ..ports.reads([read(&self.query)]).reads(of_y.map(read))
        })
    }
}

/// softmax_j score(q_i, k_j) v_j over those j to which i may attend; zero for an i that may attend
/// to none.
fn attend<'t, F: Real>(
    score: Score,
    reach: &Reach,
    q: Var<'t, F>,
    k: Var<'t, F>,
    v: Var<'t, F>,
) -> Var<'t, F> {
    let (q, k) = match score {
        Score::Dot | Score::Distance => (q, k),
        Score::Rotary => (rotary(q), rotary(k)),
        Score::Normalised => (Norm::Rms.apply(q), Norm::Rms.apply(k)),
    };
    // A row for each pair (q_i, k_j).
    let (q, k) = match reach {
        Reach::Mask(_) => (q.unsqueeze(1), k.unsqueeze(0)),
        Reach::Edges(edges) => (gather_rows(edges, q), gather_columns(edges, k)),
    };
    let compared = match score {
        Score::Distance => -(q - k).powf(F::of(2.0)),
        _ => q * k,
    };
    let width = F::of(*q.shape().last().expect("an axis") as f64);
    let scores = compared.sum(&[-1], false).scale(width.sqrt().recip());
    match reach {
        Reach::Mask(mask) => scores.softmax_masked(1, mask).matmul(v),
        Reach::Edges(edges) => spmm(edges, segment_softmax(edges, scores), v),
    }
}

/// Plane p of row i, rotated by i · 100^(−2p/d).
fn rotary<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let (n, d) = (x.shape()[0], x.shape()[1]);
    let planes = x.reshape(&[n, d / 2, 2]);
    let (a, b) = (planes.slice(2, 0..1), planes.slice(2, 1..2));
    let angle =
        |k: usize| (k / (d / 2)) as f64 * 100.0_f64.powf(-2.0 * (k % (d / 2)) as f64 / d as f64);
    let table = |f: fn(f64) -> f64| {
        let values = (0..n * d / 2).map(|k| F::of(f(angle(k)))).collect();
        x.tape().constant(tensor(&[n, d / 2, 1], values))
    };
    let (cos, sin) = (table(f64::cos), table(f64::sin));
    Var::concat(&[a * cos - b * sin, a * sin + b * cos], 2).reshape(&[n, d])
}

/// Which shape a random [`Reach`] has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Token i sees those up to i.
    Causal,
    /// A random mask; some tokens may see none.
    Mask,
    /// A random set of edges.
    Edges,
}

impl Reach {
    /// Of n tokens to m.
    pub fn random(shape: Shape, n: usize, m: usize, rng: &mut Rng) -> Self {
        let draw = init::uniform::<f64>(&[n, m], 1.0, rng);
        let sees = |i: usize, j: usize| match shape {
            Shape::Causal => j <= i,
            Shape::Mask | Shape::Edges => draw[[i, j]] < 0.3,
        };
        let pairs = (0..n).flat_map(|i| (0..m).map(move |j| (i, j)));
        if shape == Shape::Edges {
            let pairs: Vec<_> = pairs.filter(|&(i, j)| sees(i, j)).collect();
            return Self::Edges(Pattern::from_pairs(n, m, &pairs).expect("pairs within range"));
        }
        Self::Mask(tensor(&[n, m], pairs.map(|(i, j)| sees(i, j)).collect()))
    }
}
