//! LipschitzNorm as its published code has it: the divisors differ from the paper's, and no theorem applies
//! to them.
//!
//! Dasoulas, Scaman and Virmaux, "Lipschitz Normalization for Self-Attention Layers with Application to Graph
//! Neural Networks", ICML 2021. The paper's divisors are those of [`LipschitzNorm`].

use super::{edge_attention, finished, heads_of};
use emmy::error::Rules;
use emmy::init::Rng;
use emmy::nn::{
    AttentionOptions, Conv, ConvOptions, GatConv, GraphContext, GraphConv, Heads, Input, Layer,
    Linear, LipschitzNorm, Params, Pass, Site, TransformerConv, TransformerOptions,
};
use emmy::ops::sparse::{gather_columns, gather_rows, segment_max, segment_mean, segment_softmax};
use emmy::sparse::Pattern;
use emmy::symmetry::{Law, Ports, Symmetry, Term};
use emmy::{Real, Result, Var};
use std::sync::Arc;

/// Added to divisors.
const EPS: f64 = 1e-12;

/// The options of the published class, `LipschitzNorm(recenter, scale_individually)`; its programs set
/// neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PublishedOptions {
    /// `scale_individually`: a norm of the attention vectors per head, in place of one over all heads.
    pub individually: bool,
    /// `recenter`: the mean over the sources of a target is subtracted from the vectors whose norms are in
    /// its divisor. The scores are those of the vectors as they are. (The published line subtracts a row per
    /// target from a row per edge, which stops with an error; this is what is evidently meant.)
    pub recenter: bool,
}

/// The same layers with the published divisors, if they are GAT or the graph transformer with a
/// [`LipschitzNorm`]; other layers as they are. The options are those of GAT's class.
pub fn published(conv: Conv, divisors: PublishedOptions) -> Conv {
    match conv {
        Conv::Gat(options) if options.score_norm.is_some() => {
            super::conv(PublishedGat(options, divisors))
        }
        Conv::Transformer(options) if options.score_norm.is_some() => {
            super::conv(PublishedTransformer(options))
        }
        other => other,
    }
}

/// α/c, zeros of c set to [`EPS`].
fn over<F: Real>(norm: LipschitzNorm, c: Var<'_, F>) -> Var<'_, F> {
    c.add_scalar(F::of(EPS))
        .powf(-F::one())
        .scale(F::of(norm.alpha))
}

/// The factors of GAT's scores, per edge and head `[nnz, H]`, from z `[n, H, C]` and a_s, a_t `[H, C]`.
///
/// There is one norm of a over all heads, if not [`individually`](PublishedOptions::individually). The norm
/// of the edge's own source stands in place of ‖z_i‖ of the target. The maxima, a table of nodes × heads,
/// are read at the number of the target as if the table had one column, so that with several heads target i
/// gets the entry of node ⌊i/H⌋.
///
/// # Panics
/// If the shapes do not fit.
#[track_caller]
pub fn of_edges<'t, F: Real>(
    (norm, divisors): (LipschitzNorm, PublishedOptions),
    edges: &Arc<Pattern>,
    z: Var<'t, F>,
    [a_s, a_t]: [Var<'t, F>; 2],
) -> Var<'t, F> {
    let (n, heads) = (z.shape()[0], z.shape()[1]);
    let sources = match divisors.recenter {
        true => {
            let all = gather_columns(edges, z);
            (all - gather_rows(edges, segment_mean(edges, all))).norm(&[2], false)
        }
        false => gather_columns(edges, z.norm(&[2], false)),
    };
    let table = segment_max(edges, sources).reshape(&[n * heads]);
    let read = gather_rows(edges, table.slice(0, 0..n)).unsqueeze(1);
    let axes: &[isize] = if divisors.individually { &[1] } else { &[] };
    let a = Var::concat(&[a_s, a_t], 1).norm(axes, false);
    let both = [read.broadcast_to(&sources.shape()), sources].map(|x| x.unsqueeze(-1));
    over(norm, Var::concat(&both, -1).norm(&[-1], false) * a)
}

/// The factors of scores q_i · k_j, per target and head `[n, H]`: max{uv, uw, vw}⁻¹ α with v and w the
/// largest norms of keys and values of the sources. u is the norm of all queries of the graph, each counted
/// once per edge into it; the paper has ‖q_i‖.
fn of_targets<'t, F: Real>(
    norm: LipschitzNorm,
    edges: &Arc<Pattern>,
    [q, k, v]: [Var<'t, F>; 3],
) -> Var<'t, F> {
    let largest = |x: Var<'t, F>| segment_max(edges, gather_columns(edges, x.norm(&[2], false)));
    let u = gather_rows(edges, q).norm(&[0, 2], false).unsqueeze(0);
    let (v, w) = (largest(k), largest(v));
    over(norm, (u * v).maximum(u * w).maximum(v * w))
}

/// [`GatConv`] with the published divisors.
///
/// All heads share the norms in the divisors. So all neurons of the layer have one law together, and so have
/// the attention vectors of all heads, or those of each head if they are scaled individually.
#[derive(Debug, Clone)]
pub struct PublishedGatConv<F: Real> {
    /// The layer, with a [`LipschitzNorm`].
    pub gat: GatConv<F>,
    /// The divisors.
    pub divisors: PublishedOptions,
}
emmy::module!(PublishedGatConv: gat as "*");

impl<F: Real> Layer<F> for PublishedGatConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let ports = self.gat.ports(params)?;
        let vectors = match self.divisors.individually {
            true => self.gat.options.heads,
            false => 1,
        };
        let all = |p| Term::incoming(params.grouped(p, 1, vectors));
        let vectors = [&self.gat.att_source, &self.gat.att_target].map(all);
        let name = "size of the attention vectors";
        Some(Ports {
            together: ports.together * ports.heads,
            inside: vec![Law::new(name, 0, Symmetry::Rescaling, vectors.into())],
            ..ports
        })
    }
}

impl<F: Real> GraphConv<F> for PublishedGatConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        around: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        let edges = around.neighbours.pattern();
        let GatConv { options, .. } = &self.gat;
        let norm = options.score_norm.expect("LipschitzNorm");
        pass.call(self, &[x.var()], || {
            let attention = edge_attention(pass, options.dropout, edges);
            let z = heads_of(x.linear(pass.param(&self.gat.weight)), options.heads);
            let [a_s, a_t] = [&self.gat.att_source, &self.gat.att_target].map(|a| pass.param(a));
            let factors = of_edges((norm, self.divisors), edges, z, [a_s, a_t]);
            let half = |a: Var<'t, F>| (z * a).sum(&[2], false);
            let scores = gather_columns(edges, half(a_s)) + gather_rows(edges, half(a_t));
            let scores = scores.leaky_relu(F::of(options.slope)) * factors;
            let y = attention.combine(segment_softmax(edges, scores), z, None);
            let rest = (self.gat.residual.as_ref(), self.gat.bias.as_ref());
            finished(pass, options, y, rest, &x)
        })
    }
}

/// The options of [`PublishedGatConv`].
#[derive(Debug, Clone, Copy)]
struct PublishedGat(AttentionOptions, PublishedOptions);

impl ConvOptions for PublishedGat {
    type Layer<F: Real> = PublishedGatConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> PublishedGatConv<F> {
        PublishedGatConv {
            gat: self.0.build(at, rng),
            divisors: self.1,
        }
    }

    fn validate(&self, at: Site) -> Result<()> {
        self.0.validate(at)
    }

    fn weights(&self) -> usize {
        self.0.weights()
    }

    fn heads(&self) -> usize {
        self.0.heads
    }

    fn join(&self) -> Heads {
        self.0.join
    }
}

/// [`TransformerConv`] with the published divisors, its heads concatenated, without a gate.
#[derive(Debug, Clone)]
pub struct PublishedTransformerConv<F: Real> {
    /// The layer, with a [`LipschitzNorm`].
    pub conv: TransformerConv<F>,
}
emmy::module!(PublishedTransformerConv: conv as "*");

impl<F: Real> Layer<F> for PublishedTransformerConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        self.conv.ports(params)
    }
}

impl<F: Real> GraphConv<F> for PublishedTransformerConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        around: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        let edges = around.neighbours.pattern();
        let TransformerConv { options, .. } = &self.conv;
        let norm = options.score_norm.expect("LipschitzNorm");
        pass.call(self, &[x.var()], || {
            let attention = edge_attention(pass, options.dropout, edges);
            let of = |map: &Linear<F>| heads_of(map.forward(pass, x.clone()), options.heads);
            let [q, k, v] = [&self.conv.query, &self.conv.key, &self.conv.value].map(of);
            // The scores are divided by √d, and by the divisor.
            let factors = of_targets(norm, edges, [q, k, v]);
            let y = attention.dot(q * factors.unsqueeze(2), k, v, None);
            let y = y.reshape(&[y.shape()[0], y.shape()[1] * y.shape()[2]]);
            match &self.conv.skip {
                Some(skip) => y + skip.forward(pass, x.clone()),
                None => y,
            }
        })
    }
}

/// The options of [`PublishedTransformerConv`].
#[derive(Debug, Clone, Copy)]
struct PublishedTransformer(TransformerOptions);

impl ConvOptions for PublishedTransformer {
    type Layer<F: Real> = PublishedTransformerConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> PublishedTransformerConv<F> {
        PublishedTransformerConv {
            conv: self.0.build(at, rng),
        }
    }

    /// # Errors
    /// Those of the layer; and if the heads are averaged, or there is a gate.
    fn validate(&self, at: Site) -> Result<()> {
        let TransformerOptions { join, gate, .. } = self.0;
        let plain = join == Heads::Concatenate && !gate;
        let rule = "concatenated heads without a gate";
        Rules("network").hold(plain, "published LipschitzNorm", rule, format!("{self:?}"))?;
        self.0.validate(at)
    }

    fn weights(&self) -> usize {
        self.0.weights()
    }

    fn heads(&self) -> usize {
        self.0.heads
    }
}
