//! The measures of a model's layers, read off a pass.

use super::support::{matrix, near, rows, softmax, tensor};
use emmy::collapse::{
    Spectrum, attention_similarity, cosine_similarity, dirichlet_energy, value, variance,
};
use emmy::graph::generators::karate_club;
use emmy::lipschitz::Lp;
use emmy::nn::{BlockConfig, GraphNet, GraphNetConfig, Layer, Linear, Pass, Trace, Transformer};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::sparse::Csr;
use emmy::{Real, Tape, Var, init};

/// The numbers are those of the outputs, for the input, blocks and parts of blocks; means over a batch.
#[test]
fn of_a_transformer() {
    let rng = &mut init::rng(0);
    let net = Transformer::<f64>::new(3, BlockConfig::pre_norm_encoder(8, 2, 16), rng).unwrap();
    let x = init::normal(&[2, 5, 8], 1.0, rng);
    let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &Mask::causal()));
    let all = trace.collapse(None).unwrap();
    assert_eq!(all.layers.len(), trace.calls().len());
    let blocks = trace
        .collapse_where(None, |call| call.kind == "TransformerBlock")
        .unwrap();
    let paths: Vec<&str> = blocks.layers.iter().map(|m| &m.path[..]).collect();
    assert_eq!(paths, ["layers.0", "layers.1", "layers.2"]);

    let tape = Tape::new();
    let pass = Pass::eval(&tape, &net);
    let mut h = tape.constant(x.clone());
    for (k, found) in [blocks.input.as_ref().unwrap()]
        .into_iter()
        .chain(&blocks.layers)
        .enumerate()
    {
        if k > 0 {
            h = net.layers[k - 1].forward(&pass, h, &Mask::causal());
        }
        assert_eq!(found.shape, [2, 5, 8]);
        let items: Vec<_> = h
            .value()
            .outer_iter()
            .map(|x| x.to_owned().into_shared())
            .collect();
        let mean = |f: &dyn Fn(&emmy::Tensor<f64>) -> f64| items.iter().map(f).sum::<f64>() / 2.0;
        near(
            found.effective_rank,
            mean(&|x| Spectrum::of(x).effective_rank()),
            1e-10,
        );
        near(
            found.numerical_rank,
            mean(&|x| Spectrum::of(x).numerical_rank()),
            1e-10,
        );
        near(
            found.similarity,
            mean(&|x| value(x, cosine_similarity)),
            1e-10,
        );
        near(found.variance, mean(&|x| value(x, variance)), 1e-10);
        assert_eq!(found.energy, None);
        assert_eq!(found.attention.is_some(), k > 0);
    }
    // A block's attention is that of the layer of attention inside it.
    let inside = all
        .layers
        .iter()
        .find(|m| m.kind == "MultiHeadAttention")
        .unwrap();
    assert_eq!(inside.attention, blocks.layers[0].attention);
    assert!(inside.depth > blocks.layers[0].depth);
    let table = all.to_string();
    assert_eq!(table.lines().count(), all.layers.len() + 2);
    assert!(table.starts_with("layer") && table.contains("attention") && !table.contains("energy"));
}

struct Head<F: Real> {
    query: Linear<F>,
    key: Linear<F>,
}
emmy::module!(Head: query, key);

impl<F: Real> Layer<F> for Head<F> {}

impl<F: Real> Head<F> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let [q, k] = [&self.query, &self.key].map(|map| map.forward(pass, x).unsqueeze(1));
            let t = pass
                .tape()
                .constant(vec![F::of(0.5); x.shape()[0]])
                .unsqueeze(1);
            let attention = DenseAttention::new(4, Mask::none());
            let once = attention.attend(Qkv::new(q, k, x.unsqueeze(1)));
            let mut cooler = Qkv::new(q, k, once);
            cooler.t = Some(t);
            attention.attend(cooler).squeeze(1)
        })
    }
}

/// The similarity of attention is that of the coefficients: here of two operations, one with a temperature.
#[test]
fn of_attention() {
    let rng = &mut init::rng(1);
    let head = Head::<f64> {
        query: Linear::new(4, 4, true, rng),
        key: Linear::new(4, 4, true, rng),
    };
    let x = init::normal(&[6, 4], 2.0, rng);
    let trace = Trace::at(&head, &x, |pass, x| head.forward(pass, x));
    let found = trace
        .collapse_where(None, |call| call.kind == "Head")
        .unwrap();
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &head);
    let x = tape.constant(x);
    let [q, k] = [&head.query, &head.key].map(|map| matrix(&map.forward(&pass, x).value()));
    let of = |t: f64| {
        value(
            &tensor(&softmax(&(q.dot(&k.t()) * (t / 2.0)))),
            attention_similarity,
        )
    };
    near(
        found.layers[0].attention.unwrap(),
        (of(1.0) + of(0.5)) / 2.0,
        1e-10,
    );
}

/// On a graph, with the energy; the same from sparse features, without an input to look at.
#[test]
fn of_a_graph_network() {
    let graph = karate_club();
    let config = GraphNetConfig {
        hidden: 6,
        layers: 4,
        dropout: 0.5,
        ..GraphNetConfig::gcn(5, 2)
    };
    let net = GraphNet::<f64>::new(config, 0).unwrap();
    let near_nodes = config.neighbourhood(&graph);
    let x = tensor(&rows(34, 5, 1.0, 2));
    let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &near_nodes));
    let dense = trace.collapse(Some(&graph)).unwrap();
    let input = dense.input.as_ref().unwrap();
    near(
        input.energy.unwrap(),
        value(&x, |x| dirichlet_energy(x, &graph)),
        1e-12,
    );
    let tape = Tape::new();
    let y = net.forward(
        &Pass::eval(&tape, &net),
        tape.constant(x.clone()),
        &near_nodes,
    );
    let last = dense.layers.iter().find(|m| m.kind == "GraphNet").unwrap();
    near(
        last.energy.unwrap(),
        value(&y.value(), |x| dirichlet_energy(x, &graph)),
        1e-12,
    );
    assert!(dense.to_string().contains("energy"));

    let sparse = Csr::from_dense(&x);
    let other = Trace::evaluated(&net, |pass| {
        net.forward(pass, pass.tape().sparse(&sparse), &near_nodes)
    });
    let other = other.collapse(Some(&graph)).unwrap();
    assert_eq!(other.input, None);
    let convolutions = |c: &emmy::nn::Collapse| -> Vec<(String, f64)> {
        let chosen = c.layers.iter().filter(|m| m.kind == "GcnConv");
        chosen.map(|m| (m.path.clone(), m.effective_rank)).collect()
    };
    let (a, b) = (convolutions(&dense), convolutions(&other));
    assert_eq!((a.len(), b.len()), (4, 4));
    for ((path, x), (same, y)) in a.iter().zip(&b) {
        assert_eq!(path, same);
        near(*x, *y, 1e-9);
    }
}

/// Values that are not finite give NaN, not a panic in the middle of a training.
#[test]
fn of_a_model_that_has_broken_down() {
    let rng = &mut init::rng(0);
    let mut net = Linear::<f64>::new(3, 3, true, rng);
    net.weight.mapv_inplace(|_| f64::INFINITY);
    let x = tensor(&rows(4, 3, 1.0, 0));
    let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
    let found = &trace.collapse(None).unwrap().layers[0];
    assert!(found.effective_rank.is_nan() && found.variance.is_nan() && found.similarity.is_nan());
}

/// A trace that does not keep values says so.
#[test]
fn traces_of_other_kinds_are_refused() {
    let rng = &mut init::rng(0);
    let net = Linear::<f64>::new(3, 3, true, rng);
    let x = tensor(&rows(4, 3, 1.0, 0));
    let of = Trace::of(&net, |pass| {
        net.forward(pass, pass.tape().constant(x.clone()))
    });
    assert!(
        of.collapse(None)
            .unwrap_err()
            .to_string()
            .contains("Trace::evaluated")
    );
    let evaluated = Trace::evaluated(&net, |pass| {
        net.forward(pass, pass.tape().constant(x.clone()))
            .sum(&[0], false)
    });
    assert!(
        evaluated
            .lipschitz(Lp::Two)
            .unwrap_err()
            .to_string()
            .contains("Trace::at")
    );
    assert_eq!(evaluated.collapse(None).unwrap().layers[0].shape, [4, 3]);
    // A call whose output has no rows is left out: here the last, of the sum over all rows.
    let pool = Pool::<f64> {
        map: Linear::new(3, 3, true, rng),
    };
    let trace = Trace::at(&pool, &x, |pass, x| pool.forward(pass, x));
    assert_eq!(trace.calls().len(), 2);
    let found = trace.collapse(None).unwrap();
    assert_eq!(found.layers.len(), 1);
    assert_eq!(found.layers[0].kind, "Linear");
}

struct Pool<F: Real> {
    map: Linear<F>,
}
emmy::module!(Pool: map);

impl<F: Real> Layer<F> for Pool<F> {}

impl<F: Real> Pool<F> {
    fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || self.map.forward(pass, x).sum(&[0], false))
    }
}
