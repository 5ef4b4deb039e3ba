//! No bound becomes looser: the bounds of the library's layers and models, as they were when they were last
//! written to a file.
//!
//! `EMMY_UPDATE=1 cargo test -p tests --test lipschitz kept -- --include-ignored` writes the file anew, after
//! bounds became sharper or there are more models.

use emmy::graph::{Graph, generators::random_graph};
use emmy::lipschitz::{Domain, Lp};
use emmy::nn::{
    Activation, AttentionConfig, Bert, BertConfig, BlockConfig, ContraConfig, FeedForward,
    FeedForwardConfig, GraphNet, GraphNetConfig, Gru, LanguageConfig, LanguageModel, Linear,
    LipschitzNorm, Lstm, Mlp, Module, MultiHeadAttention, Norm, PairMode, PairNorm, Pass, Trace,
    Transformer, TransformerBlock, VisionConfig, VisionTransformer,
};
use emmy::ops::attention::Mask;
use emmy::{Tensor, Var, init};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The part by which a bound may be above that of the file, for rounding on other processors.
const ROUNDING: f64 = 1e-6;

/// Rows of an input, their length, and classes.
const ROWS: usize = 5;
const WIDTH: usize = 4;
const CLASSES: usize = 3;

/// By model and layer: for p = 1, 2 and ∞, of a model for each of the domains; none where there is no bound.
type Bounds = BTreeMap<String, Vec<Option<f64>>>;

const DOMAINS: [Domain; 4] = [
    Domain::Everywhere,
    Domain::Rows(5.0),
    Domain::Ball(0.1),
    Domain::Here,
];

/// The bounds of the whole on each domain, and those of its layers on all inputs.
fn record(all: &mut Bounds, name: &str, trace: &Trace) {
    for p in Lp::ALL {
        for domain in DOMAINS {
            let upper = trace.lipschitz_on(p, domain).ok().map(|found| found.upper);
            let upper = upper.filter(|upper| upper.is_finite());
            let row = all.entry(name.to_owned()).or_default();
            row.push(upper.map(|upper| upper.get()));
        }
        let table = trace.lipschitz_by_layer(p, Domain::Everywhere).unwrap();
        for layer in table.layers.iter().filter(|layer| !layer.path.is_empty()) {
            let upper = layer.upper.as_ref().ok().filter(|u| u.is_finite());
            // Several calls of one layer are told apart by their order.
            let row = all.entry(format!("{name} | {}", layer.path)).or_default();
            row.push(upper.map(|u| u.get()));
        }
    }
}

/// The bounds of a model at tokens of this length, with the weights that it begins with, and with others: the
/// first ones have gains of 1 and biases of 0.
fn at<M: Module<f64> + Clone>(
    all: &mut Bounds,
    name: &str,
    shape: &[usize],
    net: &M,
    forward: impl for<'t> Fn(&M, &Pass<'t, '_, f64>, Var<'t, f64>) -> Var<'t, f64>,
) {
    let rng = &mut init::rng(1);
    let x = init::normal(shape, 1.0, rng);
    let mut other = net.clone();
    for tensor in other.tensors_mut() {
        let noise: Tensor<f64> = init::normal(tensor.shape(), 0.3, rng);
        *tensor += &noise;
    }
    for (net, which) in [(net, ""), (&other, ", moved")] {
        let trace = Trace::at(net, &x, |pass, x| forward(net, pass, x));
        record(all, &format!("{name}{which}"), &trace);
    }
}

fn perceptrons(all: &mut Bounds) {
    let rng = &mut init::rng(0);
    let tokens = [ROWS, WIDTH];
    at(
        all,
        "Linear",
        &tokens,
        &Linear::new(WIDTH, CLASSES, true, rng),
        |net, pass, x| net.forward(pass, x),
    );
    for activation in [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.2 },
        Activation::Gelu,
        Activation::Tanh,
        Activation::Sigmoid,
    ] {
        for widths in [
            &[WIDTH, 8, CLASSES][..],
            &[WIDTH, 6, 6, CLASSES],
            &[WIDTH, 5, 5, 5, 5, 1],
        ] {
            let net = Mlp::new(widths, activation, true, rng);
            let name = format!("Mlp {activation:?} {widths:?}");
            at(all, &name, &tokens, &net, |net, pass, x| {
                net.forward(pass, x)
            });
        }
    }
    for (name, config) in [
        ("FeedForward", FeedForwardConfig::relu(WIDTH, 9)),
        (
            "gated FeedForward",
            FeedForwardConfig::gated(WIDTH, 9, Activation::Silu),
        ),
    ] {
        let net = FeedForward::new(config, rng).unwrap();
        at(all, name, &tokens, &net, |net, pass, x| {
            net.forward(pass, x)
        });
    }
    let net = Lstm::new(WIDTH, 3, 2, rng);
    at(all, "Lstm", &[2, ROWS, WIDTH], &net, |net, pass, x| {
        net.forward(pass, x, None).0
    });
    let net = Gru::new(WIDTH, 3, 2, rng);
    at(all, "Gru", &[2, ROWS, WIDTH], &net, |net, pass, x| {
        net.forward(pass, x, None).0
    });
}

fn norms(all: &mut Bounds) {
    let rng = &mut init::rng(0);
    for norm in [
        Norm::LAYER,
        Norm::RMS,
        Norm::BATCH,
        Norm::GRAPH,
        Norm::PAIR,
        Norm::Pair(PairNorm::new(PairMode::PnSi)),
        Norm::Pair(PairNorm::new(PairMode::PnScs)),
        Norm::Contra(ContraConfig::new(0.5)),
    ] {
        // Two maps, so that what is before and behind a norm counts.
        let maps = [0, 1]
            .map(|_| Linear::new(WIDTH, WIDTH, true, rng))
            .to_vec();
        let layer = norm.build::<f64>(WIDTH, rng);
        let net = (maps, layer);
        let rng = &mut init::rng(1);
        let x = init::normal(&[ROWS, WIDTH], 1.0, rng);
        let trace = Trace::at(&net.0, &x, |pass, x| {
            let y = net.0[0].forward(pass, x);
            net.0[1].forward(pass, net.1.forward(&Pass::eval(x.tape(), &net.1), y))
        });
        record(all, &format!("{norm:?}"), &trace);
    }
}

fn transformers(all: &mut Bounds) {
    let rng = &mut init::rng(0);
    let tokens = [ROWS, WIDTH];
    let mask = Mask::none();
    for (name, config, normalised) in [
        ("attention", AttentionConfig::new(WIDTH, 2), false),
        ("L2 attention", AttentionConfig::l2(WIDTH, 2), false),
        (
            "contractive attention",
            AttentionConfig::contractive(WIDTH, 2, 0.9, Lp::Two),
            false,
        ),
        (
            "attention with LipschitzNorm",
            AttentionConfig::new(WIDTH, 2),
            true,
        ),
    ] {
        let mut net = MultiHeadAttention::new(config, rng).unwrap();
        if normalised {
            net.normalizer = Some(Arc::new(LipschitzNorm::DOT));
        }
        at(all, name, &tokens, &net, |net, pass, x| {
            net.forward(pass, x, &mask)
        });
    }
    let configs = [
        ("pre-norm block", BlockConfig::pre_norm_encoder(WIDTH, 2, 8)),
        (
            "post-norm block",
            BlockConfig::post_norm_encoder(WIDTH, 2, 8),
        ),
    ];
    for (name, config) in configs {
        let net = TransformerBlock::new(config, rng).unwrap();
        at(all, name, &tokens, &net, |net, pass, x| {
            net.forward(pass, x, &mask)
        });
    }
    let net = Transformer::new(2, configs[0].1, rng).unwrap();
    at(all, "Transformer", &tokens, &net, |net, pass, x| {
        net.forward(pass, x, &mask)
    });
    let net = LanguageModel::new(LanguageConfig::gpt(6, 8, 1, 2, WIDTH), 0).unwrap();
    at(
        all,
        "LanguageModel",
        &[1, ROWS, WIDTH],
        &net,
        |net, pass, x| net.of_embedded(pass, x),
    );
    let net = VisionTransformer::new(VisionConfig::new(4, 1, 2, CLASSES, 1, 2, WIDTH), 0).unwrap();
    at(
        all,
        "VisionTransformer",
        &[1, 1, 4, 4],
        &net,
        |net, pass, x| net.forward(pass, x),
    );
    let net = Bert::new(BertConfig::new(6, 8, 1, 2, WIDTH), 0).unwrap();
    at(
        all,
        "Bert's blocks",
        &[1, ROWS, WIDTH],
        &net,
        |net, pass, x| net.blocks.forward(pass, x, &mask),
    );
}

fn graphs(all: &mut Bounds) {
    let graph: Graph = random_graph(8, 12, 0);
    let presets = [
        ("GCN", GraphNetConfig::gcn(WIDTH, CLASSES)),
        ("GAT", GraphNetConfig::gat(WIDTH, CLASSES)),
        ("GATv2", GraphNetConfig::gatv2(WIDTH, CLASSES)),
        ("SAGE", GraphNetConfig::sage(WIDTH, CLASSES)),
        ("SGC", GraphNetConfig::sgc(WIDTH, CLASSES)),
        ("GIN", GraphNetConfig::gin(WIDTH, CLASSES)),
        ("GCNII", GraphNetConfig::gcnii(WIDTH, CLASSES)),
        (
            "graph transformer",
            GraphNetConfig::transformer(WIDTH, CLASSES),
        ),
        ("GGNN", GraphNetConfig::ggnn(WIDTH, CLASSES)),
    ];
    for (name, preset) in presets {
        let config = GraphNetConfig {
            hidden: 4,
            ..preset.heads(2, 1).depth(3).without_dropout()
        };
        let neighbours = config.neighbourhood(&graph);
        let net = GraphNet::new(config, 0).unwrap();
        at(all, name, &[8, WIDTH], &net, |net, pass, x| {
            net.forward(pass, x, &neighbours)
        });
    }
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn no_bound_is_looser_than_before() {
    let mut present = Bounds::new();
    perceptrons(&mut present);
    norms(&mut present);
    transformers(&mut present);
    graphs(&mut present);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bounds.json");
    if std::env::var_os("EMMY_UPDATE").is_some() {
        std::fs::write(path, text(&present)).unwrap();
        return;
    }
    let before: Bounds = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        before.keys().eq(present.keys()),
        "other models than in bounds.json (EMMY_UPDATE=1 writes it)"
    );
    for (key, before) in before {
        assert_eq!(before.len(), present[&key].len(), "{key}");
        for (k, (before, present)) in before.into_iter().zip(&present[&key]).enumerate() {
            let infinite = |bound: Option<f64>| bound.unwrap_or(f64::INFINITY);
            let (before, present) = (infinite(before), infinite(*present));
            assert!(
                present <= before * (1.0 + ROUNDING),
                "{key}, number {k}: the bound was {before} and is {present}"
            );
        }
    }
}

/// An object with a line per layer, and ten digits per number.
fn text(bounds: &Bounds) -> String {
    let number = |bound: &Option<f64>| match bound {
        Some(bound) => format!("{bound:.9e}"),
        None => "null".into(),
    };
    let lines = bounds.iter().map(|(key, row)| {
        let row: Vec<String> = row.iter().map(number).collect();
        let key = serde_json::to_string(key).unwrap();
        format!("{key}: [{}]", row.join(", "))
    });
    format!("{{\n{}\n}}\n", lines.collect::<Vec<_>>().join(",\n"))
}

/// The walk along 64 layers does not use up the stack of a thread.
#[test]
fn a_deep_network_has_a_bound() {
    let config = GraphNetConfig::gcnii(WIDTH, CLASSES).depth(64);
    let config = GraphNetConfig {
        hidden: 4,
        ..config
    };
    let neighbours = config.neighbourhood(&random_graph(8, 12, 0));
    let net = GraphNet::<f64>::new(config, 0).unwrap();
    let x = init::normal(&[8, WIDTH], 1.0, &mut init::rng(1));
    let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &neighbours));
    assert!(trace.lipschitz(Lp::Two).unwrap().upper.is_finite());
}
