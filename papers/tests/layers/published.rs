//! LipschitzNorm with the divisors of the published code.

use crate::compositions::{Composition, any_loss, conserved};
use crate::support::near;
use emmy::graph::generators::path;
use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
use emmy::lipschitz::Lp;
use emmy::nn::{
    Activation, AttentionOptions, Conv, GraphLayer, GraphNet, GraphNetConfig, Heads, Linear,
    LipschitzNorm, Module, Pass, Trace, TransformerConv, TransformerOptions, discover,
};
use emmy::symmetry::{Law, Search};
use emmy::{Graph, Real, Tape, Tensor, Var, init};
use papers::layers::{PublishedOptions, PublishedTransformerConv, of_edges, published};

/// As the published programs have it.
const PLAIN: PublishedOptions = PublishedOptions {
    individually: false,
    recenter: false,
};

/// E6: the published code divides by the norm of the edge's own source instead of the norm of the target. If
/// the target is large and has no self-loop, its scores are not bounded.
#[test]
fn the_published_divisor_does_not_bound_the_scores() {
    let graph = Graph::new(3, &[(0, 2), (1, 2)], Duplicates::Reject, SelfLoops::Reject).unwrap();
    let edges = graph.pattern();
    let tape = Tape::<f64>::new();
    let score = |size: f64, published: bool| {
        let z = emmy::tensor::tensor(&[3, 1, 1], vec![1.0, 2.0, size]);
        let (z, a) = (
            tape.constant(z),
            tape.constant(emmy::tensor::tensor(&[1, 1], vec![1.0])),
        );
        let e = z.value()[[2, 0, 0]];
        let factor = match published {
            true => of_edges((LipschitzNorm::GAT, PLAIN), edges, z, [a, a]).value()[[0, 0]],
            false => LipschitzNorm::GAT.of_targets(edges, z, [a, a]).value()[[2, 0]],
        };
        (e + 1.0) * factor
    };
    for size in [1.0, 1e3, 1e6] {
        assert!(score(size, false) <= 0.25 * (1.0 + 1e-9));
    }
    let far = score(1e6, true);
    assert!(far > 1e4, "{far}");
    // With two heads the table of maxima is read at the wrong place: the entry of node ⌊i/H⌋.
    let z = tape.constant(init::normal(&[3, 2, 1], 1.0, &mut init::rng(4)));
    let a = tape.constant(emmy::tensor::tensor(&[2, 1], vec![1.0, 1.0]));
    let factors = of_edges((LipschitzNorm::GAT, PLAIN), edges, z, [a, a]).value();
    let squares = z.value().mapv(|z| z * z);
    // Node 2 with two heads reads entry 2 of the flattened table: node 1, head 0, and node 1 has no
    // neighbours.
    let expected = 0.25 / (4f64.sqrt() * squares[[0, 1, 0]].sqrt());
    near(factors[[0, 1]], expected, 1e-9);
}

const INDIVIDUAL: PublishedOptions = PublishedOptions {
    individually: true,
    recenter: false,
};

const RECENTRED: PublishedOptions = PublishedOptions {
    individually: true,
    recenter: true,
};

/// `scale_individually`: a head of small vectors keeps its own norm. `recenter`: a shift of all nodes changes
/// no divisor.
#[test]
fn the_options_of_the_published_class() {
    let graph = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject).unwrap();
    let graph = graph.with_self_loops();
    let edges = graph.pattern();
    let tape = Tape::<f64>::new();
    let [z, a_s, a_t] = [(2, 3), (1, 4), (1, 5)].map(|(n, seed)| {
        let shape: &[usize] = if n == 2 { &[2, 2, 3] } else { &[2, 3] };
        tape.constant(init::normal(shape, 1.0, &mut init::rng(seed)))
    });
    let factors =
        |divisors, z| of_edges((LipschitzNorm::GAT, divisors), edges, z, [a_s, a_t]).value();
    let (plain, own) = (factors(PLAIN, z), factors(INDIVIDUAL, z));
    let squares = |k: usize| {
        let of_head = |a: Tensor<f64>| -> f64 { a.iter().skip(3 * k).take(3).map(|a| a * a).sum() };
        of_head(a_s.value()) + of_head(a_t.value())
    };
    for k in 0..2 {
        let expected = ((squares(0) + squares(1)) / squares(k)).sqrt();
        near(own[[1, k]] / plain[[1, k]], expected, 1e-9);
    }
    let moved = z + tape.constant(init::normal(&[1, 2, 3], 5.0, &mut init::rng(6)));
    let (here, there) = (factors(RECENTRED, z), factors(RECENTRED, moved));
    assert!((&here - &there).iter().all(|d| d.abs() < 1e-9));
    assert!(
        (&own - &factors(INDIVIDUAL, moved))
            .iter()
            .any(|d| d.abs() > 1e-3)
    );
}

/// Two layers of a kind on a path.
fn config(conv: Conv, activation: Activation) -> GraphNetConfig {
    GraphNetConfig {
        hidden: 3,
        activation,
        ..GraphNetConfig::gcn(3, 2).without_dropout()
    }
    .of(conv)
}

fn gat(heads: usize, join: Heads, divisors: PublishedOptions) -> GraphNetConfig {
    let options = AttentionOptions {
        heads,
        join,
        residual: true,
        score_norm: Some(LipschitzNorm::GAT),
        ..AttentionOptions::DEFAULT
    };
    let last = AttentionOptions {
        heads: 1,
        join: Heads::Average,
        ..options
    };
    GraphNetConfig {
        conv: published(Conv::Gat(options), divisors),
        last: published(Conv::Gat(last), divisors),
        ..config(Conv::GAT, Activation::Relu)
    }
}

fn transformer() -> GraphNetConfig {
    let options = TransformerOptions {
        score_norm: Some(LipschitzNorm::DOT),
        ..TransformerOptions::DEFAULT
    };
    config(
        published(Conv::Transformer(options), PLAIN),
        Activation::Relu,
    )
}

#[derive(Debug, Clone)]
struct OnPath<F: Real> {
    net: GraphNet<F>,
    seed: u64,
}
emmy::module!(OnPath: net);

impl<F: Real> OnPath<F> {
    fn draw(config: GraphNetConfig, seed: u64) -> Self {
        let mut net = GraphNet::new(config, seed).expect("a valid configuration");
        let rng = &mut init::rng(seed);
        for p in net.tensors_mut() {
            *p = init::normal(p.shape(), 1.0, rng);
        }
        Self { net, seed }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let neighbours: Neighbourhood<F> = self.net.config.neighbourhood(&path(8));
        let x: Tensor<F> = init::normal(&[8, 3], 1.0, &mut init::rng(seed));
        self.net.forward(pass, pass.tape().constant(x), &neighbours)
    }

    fn laws(&self) -> Vec<Law> {
        Trace::of(self, |pass| self.output(pass, self.seed)).laws()
    }
}

impl<F: Real> Composition<F> for OnPath<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.output(pass, self.seed), self.seed)
    }
}

/// The graph transformer from its formulas. The scores ⟨q_i, k_j⟩ / √D are multiplied by α / max{uv, uw, vw}:
/// u is the norm of the queries of all edges, v and w are the largest norms of the keys and the values of a
/// target's sources.
#[test]
fn the_published_graph_transformer_by_loops() {
    let (n, heads, width) = (6, 2, 3);
    let pairs = [(0, 2), (1, 2), (2, 0), (2, 1), (3, 2), (3, 4), (4, 3)];
    let graph = Graph::new(n, &pairs, Duplicates::Reject, SelfLoops::Reject).unwrap();
    let options = TransformerOptions {
        heads,
        score_norm: Some(LipschitzNorm::DOT),
        ..TransformerOptions::DEFAULT
    };
    let rng = &mut init::rng(2);
    let mut conv = TransformerConv::<f64>::new(4, width, None, options, rng);
    for p in conv.tensors_mut() {
        *p = init::normal(p.shape(), 1.0, rng);
    }
    let layer = PublishedTransformerConv { conv };
    let boxed: GraphLayer<f64> = Box::new(layer.clone());
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &boxed);
    let x = tape.constant(init::normal(&[n, 4], 1.0, rng));
    let around = Neighbourhood::of(graph.clone());
    let y = boxed.forward(&pass, x, &around).value();

    let of_layer = Pass::eval(&tape, &layer);
    let map = |linear: &Linear<f64>| linear.forward(&of_layer, x).value();
    let PublishedTransformerConv { conv } = &layer;
    let [q, k, v] = [&conv.query, &conv.key, &conv.value].map(map);
    let skip = map(conv.skip.as_ref().unwrap());
    let row = |x: &Tensor<f64>, i: usize, h: usize| -> Vec<f64> {
        (0..width).map(|c| x[[i, h * width + c]]).collect()
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let norm = |a: Vec<f64>| dot(&a, &a).sqrt();
    let pattern = graph.pattern();
    for h in 0..heads {
        let targets = pattern.rows_of().iter().map(|&i| row(&q, i as usize, h));
        let u = targets.map(|q| dot(&q, &q)).sum::<f64>().sqrt();
        for i in 0..n {
            let sources = pattern.indices()[pattern.row(i)]
                .iter()
                .map(|&j| j as usize);
            let largest = |x: &Tensor<f64>| {
                let norms = sources.clone().map(|j| norm(row(x, j, h)));
                norms.fold(0.0, f64::max)
            };
            let (v_most, w_most) = (largest(&k), largest(&v));
            let divisor = (u * v_most).max(u * w_most).max(v_most * w_most);
            let score = |j: usize| {
                let product = dot(&row(&q, i, h), &row(&k, j, h));
                (LipschitzNorm::DOT.alpha * product / divisor / (width as f64).sqrt()).exp()
            };
            let total: f64 = sources.clone().map(score).sum();
            for c in 0..width {
                let at = h * width + c;
                let mean: f64 = sources.clone().map(|j| score(j) / total * v[[j, at]]).sum();
                near(y[[i, at]], mean + skip[[i, at]], 1e-9);
            }
        }
    }
}

/// All heads of GAT share the norms: one law of all neurons, and one of all attention vectors. For dot
/// products the search finds one more: here the norm u of all queries is larger than v and w, so that the
/// divisor is u max{v, w}, and the size of the queries has no effect.
#[test]
fn listed_laws_hold_and_are_all() {
    for (config, more) in [
        (gat(2, Heads::Concatenate, PLAIN), 0),
        (gat(2, Heads::Average, PLAIN), 0),
        (gat(2, Heads::Concatenate, INDIVIDUAL), 0),
        (gat(2, Heads::Average, RECENTRED), 0),
        (transformer(), 1),
    ] {
        for seed in 0..5 {
            let net = OnPath::<f64>::draw(config, seed);
            conserved(&net, &OnPath::<f32>::draw(config, seed), &net.laws());
        }
        let net = OnPath::<f64>::draw(config, 0);
        let found = discover(&net, &Search::default(), |pass, seed| {
            net.output(pass, seed)
        });
        assert!(found.broken.is_empty() && found.missing.is_empty());
        let all = found.declared + more;
        assert_eq!((found.found, found.upper), (all, Some(all)), "{config:?}");
    }
}

#[test]
fn there_is_no_bound() {
    let edges = Neighbourhood::of(path(8).with_self_loops());
    for config in [gat(1, Heads::Concatenate, PLAIN), transformer()] {
        let net = OnPath::<f64>::draw(config, 0).net;
        let x = init::normal(&[8, 3], 1.0, &mut init::rng(1));
        let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &edges));
        assert!(trace.lipschitz(Lp::Two).is_err());
    }
}

/// Neighbourhoods of zeros have divisors of 0, and gradients that are numbers.
#[test]
fn neighbourhoods_of_zeros_have_gradients() {
    for config in [gat(2, Heads::Concatenate, RECENTRED), transformer()] {
        let net = GraphNet::<f32>::new(config, 0).unwrap();
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 0);
        let x = tape.constant(Tensor::zeros(vec![8, 3]));
        let loss = net.forward(&pass, x, &config.neighbourhood(&path(8)));
        let all = pass.gradients(loss.sum_all());
        assert!(all.iter().flatten().all(|g| g.is_finite()));
    }
}
