//! The graph transformer.

mod laws;

use super::heads::WithHeads;
use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Heads, Site};
use crate::autodiff::Var;
use crate::error::Result;
use crate::init::{self, Rng};
use crate::lipschitz::{Bound, Lp, declare};
use crate::nn::{Input, Linear, LipschitzNorm, Params, Pass};
use crate::ops::Sparse;
use crate::ops::attention::EdgeAttention;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// a_i = Σ_j α_ij (W_v x_j + b_v + W_e e_ij) with α_i = softmax_j ⟨W_q x_i + b_q, W_k x_j + b_k + W_e e_ij⟩ /
/// √C for each head, plus a map of the node itself, r_i = W_r x_i + b_r: the attention of a transformer along
/// the edges of a graph.
///
/// Shi et al., "Masked Label Prediction: Unified Message Passing Model for Semi-Supervised Classification",
/// IJCAI 2021, Eq. (3) to (5).
///
/// | switches | output |
/// |---|---|
/// | neither | a |
/// | skip | a + r |
/// | skip, gate | β ⊙ r + (1 − β) ⊙ a with β_i = sigmoid ⟨w, a_i ‖ r_i ‖ a_i − r_i⟩, one number per node |
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]`, dense or sparse |
/// | e | `[edges, d_e]`, features of the edges in the order of [`Graph::edge_list`](crate::Graph::edge_list) |
/// | W_q, W_k, W_v | `[H·C, in]`, H heads of width C |
/// | W_e | `[H·C, d_e]` |
/// | W_r | `[H·C, in]`, averaged heads `[C, in]` |
/// | w | `[1, 3·H·C]`, averaged heads `[1, 3·C]` |
/// | α | `[edges, H]`, summing to 1 over the edges into a node |
///
/// As PyTorch Geometric's `TransformerConv` (there the skip is `root_weight`, the gate `beta`), except for
/// the initialisation: weights start Xavier-uniform, biases at 0. The edges are given as a pattern; its rows
/// are the targets i. The layer adds no self-loops; a node without neighbours has a_i = 0.
///
/// Two connected nodes with the features 2 and 4. With W_q = 0 all scores are 0, so a_i is the mean 3; with
/// W_r = 1 the feature of the node itself is added.
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::nn::{Linear, Pass, TransformerConv, TransformerOptions};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?.with_self_loops();
/// let options = TransformerOptions::DEFAULT;
/// let mut layer = TransformerConv::<f64>::new(1, 1, None, options, &mut init::rng(0));
/// layer.query.weight = tensor(&[1, 1], vec![0.0]);
/// layer.value.weight = tensor(&[1, 1], vec![1.0]);
/// layer.skip = Some(Linear { weight: tensor(&[1, 1], vec![1.0]), bias: None });
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![2.0, 4.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, pair.pattern(), None);
/// assert_eq!(y.shape(), [2, 1]);
/// assert!((y.value()[[0, 0]] - 5.0).abs() < 1e-12 && (y.value()[[1, 0]] - 7.0).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Conservation laws
/// Without edge features, queries and keys of each head are balanced against each other, biases included,
/// whatever follows the layer; the bias of the keys never moves. The rows of W_v, b_v, W_r and b_r write the
/// neurons of a head, and the next layer reads them. The gate reads the neurons linearly and takes part in
/// the law as attention vectors do. Edge features are added to keys and to values with the same weight W_e.
/// So a neuron's rows of W_k, b_k and W_e count with those of W_v, and its rows of W_q and b_q balance those
/// of W_k: one law in place of two. Where every node has a neighbour and no coefficient is dropped, b_v and
/// b_r add the same number to all nodes, so their gradients are equal (without a gate). Under LipschitzNorm
/// the rows of W_q, W_k, W_v and W_r of a head and their biases have one law together. The gate reads a, r
/// and a − r, and the third follows from the first two: this gives one more law of the gate's weight.
#[derive(Debug, Clone)]
pub struct TransformerConv<F: Real> {
    /// W_q and b_q.
    pub query: Linear<F>,
    /// W_k and b_k.
    pub key: Linear<F>,
    /// W_v and b_v.
    pub value: Linear<F>,
    /// W_e, if the edges have features.
    pub edge: Option<Tensor<F>>,
    /// W_r and b_r.
    pub skip: Option<Linear<F>>,
    /// w.
    pub gate: Option<Tensor<F>>,
    /// Heads, dropout, switches.
    pub options: TransformerOptions,
}
crate::module!(TransformerConv:
    query as "lin_query",
    key as "lin_key",
    value as "lin_value",
    edge = Weight as "lin_edge.weight",
    skip as "lin_skip",
    gate = Attention as "lin_beta.weight"
);

/// The options of [`TransformerConv`]; the defaults are those of PyTorch Geometric's layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TransformerOptions {
    /// H, the number of heads.
    pub heads: usize,
    /// How the heads are joined.
    pub join: Heads,
    /// Whether there are biases.
    pub bias: bool,
    /// Whether the map of the node itself is added.
    pub skip: bool,
    /// Whether β mixes the attention with the map of the node; without `skip` this has no effect.
    pub gate: bool,
    /// The probability of dropping an attention coefficient in training.
    pub dropout: f64,
    /// LipschitzNorm of the scores, which then have no 1/√D.
    #[serde(default)]
    pub score_norm: Option<LipschitzNorm>,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TransformerOptions {
    /// One head with biases and skip, no gate, no dropout.
    pub const DEFAULT: Self = Self {
        heads: 1,
        join: Heads::Concatenate,
        bias: true,
        skip: true,
        gate: false,
        dropout: 0.0,
        score_norm: None,
    };
}

/// Queries, keys, values and terms of the edges, split into heads.
struct Projected<'t, F: Real> {
    q: Var<'t, F>,
    k: Var<'t, F>,
    v: Var<'t, F>,
    e: Option<Var<'t, F>>,
}

impl<F: Real> TransformerConv<F> {
    /// A layer of `options.heads` heads of the given width, for edges with `edge_features` features or
    /// none; all weights Xavier-uniform, biases 0.
    pub fn new(
        input: usize,
        width: usize,
        edge_features: Option<usize>,
        options: TransformerOptions,
        rng: &mut Rng,
    ) -> Self {
        let (all, out) = (options.heads * width, options.output(width));
        let mut map = |out| Linear::new(input, out, options.bias, rng);
        let [query, key, value] = [map(all), map(all), map(all)];
        let skip = options.skip.then(|| map(out));
        let mut weight = |shape: &[usize]| init::xavier_uniform(shape, 1.0, rng);
        Self {
            query,
            key,
            value,
            edge: edge_features.map(|d| weight(&[all, d])),
            skip,
            gate: (options.skip && options.gate).then(|| weight(&[1, 3 * out])),
            options,
        }
    }

    /// The output `[n, H·C]`, or `[n, C]` with averaged heads.
    ///
    /// # Panics
    /// If the shapes do not fit, or if features `e` of the edges are given and the layer has no weight for
    /// them, or the reverse.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
        e: Option<Var<'t, F>>,
    ) -> Var<'t, F> {
        let x = x.into();
        self.check(&x, edges, e);
        let ports = |params: &Params<'_, F>| self.ports_on(params, edges);
        pass.call_with(self, &inputs(&x, e), ports, || {
            let attention = self.options.edges(pass, edges);
            let Projected { q, k, v, e } = self.project(pass, &x, e);
            let y = attention.dot(self.scaled(edges, q, k, v), k, v, e);
            self.finish(pass, self.stated(&attention, [q, k, v], y), &x)
        })
    }

    /// The output, and the coefficients α before dropout as a sparse matrix with H values per entry.
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[track_caller]
    pub fn forward_with_attention<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        edges: &Arc<Pattern>,
        e: Option<Var<'t, F>>,
    ) -> (Var<'t, F>, Sparse<'t, F>) {
        let x = x.into();
        self.check(&x, edges, e);
        let ports = |params: &Params<'_, F>| self.ports_on(params, edges);
        pass.call_with(self, &inputs(&x, e), ports, || {
            let attention = self.options.edges(pass, edges);
            let Projected { q, k, v, e } = self.project(pass, &x, e);
            let alpha = attention.dot_coefficients(self.scaled(edges, q, k, v), k, e);
            let y = self.finish(pass, attention.combine(alpha, v, e), &x);
            (y, Sparse::new(edges, alpha))
        })
    }

    #[track_caller]
    fn check(&self, x: &Input<'_, F>, edges: &Pattern, e: Option<Var<'_, F>>) {
        x.check_nodes("TransformerConv", edges.cols());
        x.check_nodes("TransformerConv", edges.rows());
        x.check_features("TransformerConv", self.query.weight.shape()[1]);
        let features = self.edge.as_ref().map(|w| w.shape()[1]);
        let (found, expected) = (e.map(|e| e.shape()), features.map(|d| vec![edges.nnz(), d]));
        assert!(
            found == expected,
            "TransformerConv: features of the edges {found:?}, the layer reads {expected:?}"
        );
    }

    /// The queries, times the factor of LipschitzNorm and √D if there is one.
    fn scaled<'t>(
        &self,
        edges: &Arc<Pattern>,
        q: Var<'t, F>,
        k: Var<'t, F>,
        v: Var<'t, F>,
    ) -> Var<'t, F> {
        let Some(norm) = self.options.score_norm else {
            return q;
        };
        let root = F::of((q.shape()[2] as f64).sqrt());
        q * norm.on_graph(edges, q, k, v).scale(root).unsqueeze(2)
    }

    /// The heads, with the constant that LipschitzNorm gives them.
    fn stated<'t>(
        &self,
        attention: &EdgeAttention,
        qkv: [Var<'t, F>; 3],
        y: Var<'t, F>,
    ) -> Var<'t, F> {
        let plain = self.edge.is_none() && attention.dropout.is_none();
        let norm = self.options.score_norm.filter(|_| plain);
        let Some(norm) = norm else { return y };
        let constant = Bound::number(y.tape(), norm.constant_on(&attention.pattern));
        declare(y, &qkv, [(Lp::Two, constant)])
    }

    fn project<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: &Input<'t, F>,
        e: Option<Var<'t, F>>,
    ) -> Projected<'t, F> {
        let map = |map: &Linear<F>| self.options.split(map.forward(pass, x.clone()));
        let weight = self.edge.as_ref().map(|w| pass.param(w));
        Projected {
            q: map(&self.query),
            k: map(&self.key),
            v: map(&self.value),
            e: e.zip(weight).map(|(e, w)| self.options.split(e.linear(w))),
        }
    }

    /// The layer's output from the heads `[n, H, C]`: they are joined, skip and gate are added.
    fn finish<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        heads: Var<'t, F>,
        x: &Input<'t, F>,
    ) -> Var<'t, F> {
        let a = self.options.joined(heads);
        let Some(skip) = &self.skip else { return a };
        let r = skip.forward(pass, x.clone());
        match &self.gate {
            Some(w) => {
                let both = Var::concat(&[a, r, a - r], 1);
                let beta = both.linear(pass.param(w)).sigmoid();
                beta * r + (-beta + F::one()) * a
            }
            None => a + r,
        }
    }
}

/// The variables that the layer reads.
fn inputs<'t, F: Real>(x: &Input<'t, F>, e: Option<Var<'t, F>>) -> Vec<Var<'t, F>> {
    std::iter::once(x.var()).chain(e).collect()
}

impl ConvOptions for TransformerOptions {
    type Layer<F: Real> = TransformerConv<F>;

    /// A layer for edges without features.
    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> TransformerConv<F> {
        TransformerConv::new(at.input, at.width, None, *self, rng)
    }

    fn validate(&self, _: Site) -> Result<()> {
        self.check_heads()?;
        self.score_norm.map_or(Ok(()), |norm| norm.validate())
    }

    fn weights(&self) -> usize {
        4
    }

    fn heads(&self) -> usize {
        self.heads
    }

    fn join(&self) -> Heads {
        self.join
    }

    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            heads: Some((&mut self.heads, &mut self.join)),
            bias: Some(&mut self.bias),
            dropout: Some(&mut self.dropout),
            steps: None,
        }
    }
}

impl WithHeads for TransformerOptions {
    fn dropout(&self) -> f64 {
        self.dropout
    }
}

impl<F: Real> GraphConv<F> for TransformerConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        around: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        self.forward(pass, x, around.neighbours.pattern(), None)
    }
}
