//! The search for laws: the laws found in the small models hold, and there are no others.

use emmy::init;
use emmy::nn::{
    Activation, BatchNorm, Entry, FeedForward, FeedForwardConfig, Linear, Module, Trace, discover,
};
use emmy::symmetry::{self, Discovery, Field, Generator, Layout, ParametricFunction, Search};
use papers::laws::models::{MODELS, Options};
use papers::laws::nets::Net;
use papers::laws::training::{How, Rule, train};

fn search(net: &dyn Net, how: &Search) -> Discovery {
    discover(net, how, |pass, seed| net.forward(pass, seed))
}

fn make(name: &str, eps: f64) -> Box<dyn Net> {
    let model = MODELS.iter().find(|m| m.name == name).expect("a model");
    (model.make)(Options { eps, seed: 0 })
}

#[test]
fn a_seed_draws_the_parameters_of_every_model() {
    for model in MODELS {
        let drawn = [0, 1].map(|seed| {
            let net = (model.make)(Options { eps: 0.0, seed });
            let bits = net.tensors().into_iter().map(|p| p.mapv(f64::to_bits));
            bits.collect::<Vec<_>>()
        });
        assert_ne!(drawn[0], drawn[1], "{}", model.name);
    }
}

/// Models whose search takes minutes together: parameters, laws, and those among them that are declared.
const LONG: [(&str, [usize; 3]); 5] = [
    ("gatv2-10-layers", [34823, 576, 576]),
    ("language-model", [72, 27, 27]),
    ("bert", [78, 24, 24]),
    ("decoder", [90, 39, 39]),
    ("vision-transformer", [65, 26, 26]),
];

fn is_long(name: &str) -> bool {
    LONG.iter().any(|(long, _)| *long == name)
}

/// The other small models: parameters, laws, and those among them that are declared.
const EXPECTED: [(&str, [usize; 3]); 34] = [
    ("mlp", [43, 5, 5]),
    ("mlp-gelu", [43, 0, 0]),
    ("mlp-deep", [324, 27, 27]),
    ("linear", [20, 10, 10]),
    ("gcn", [20, 3, 3]),
    ("sage", [35, 3, 3]),
    ("gat", [30, 3, 3]),
    ("gat-2-heads", [38, 4, 4]),
    ("gatv2", [30, 3, 3]),
    ("gatv2-separate", [50, 8, 8]),
    ("heads-averaged", [32, 2, 2]),
    ("sgc", [8, 0, 0]),
    ("gin", [34, 8, 8]),
    ("gcnii", [38, 6, 6]),
    ("ggnn", [58, 7, 7]),
    ("graph-transformer", [56, 16, 16]),
    ("gatv2-deep", [116, 27, 27]),
    ("residual", [48, 12, 12]),
    ("identity-map", [28, 4, 0]),
    ("attention", [24, 6, 6]),
    ("attention-biased", [33, 8, 8]),
    ("attention-2-heads", [36, 8, 8]),
    ("grouped-queries", [36, 6, 6]),
    ("rope", [36, 5, 5]),
    ("qk-norm", [24, 5, 5]),
    ("l2-untied", [24, 3, 3]),
    ("l2-attention", [18, 3, 3]),
    ("swiglu", [36, 4, 4]),
    ("lstm", [52, 8, 8]),
    ("gru", [40, 4, 4]),
    ("experts", [30, 9, 9]),
    ("layernorm-attention", [30, 9, 9]),
    ("preln-block", [60, 16, 16]),
    ("encoder", [60, 16, 16]),
];

/// The declared laws are among those found, and there are no others, as far as they are counted.
fn whole(name: &str, expected: [usize; 3]) {
    let found = search(&*make(name, 0.0), &Search::default());
    let counts = [found.parameters, found.found, found.declared];
    assert_eq!(counts, expected, "{name}");
    let counted = found.parameters <= Search::default().count_up_to;
    // A gain that one neuron reads has a law more, which is not quadratic (`one_reader` of the library's
    // tests).
    let most = found.found + usize::from(name == "decoder");
    assert_eq!(found.upper, counted.then_some(most), "{name}");
    assert!(
        found.broken.is_empty() && found.missing.is_empty(),
        "{name}: {found:?}"
    );
    assert!(found.max_delta <= 1e-10, "{name}: {:e}", found.max_delta);
    let (zero, other) = found.gap;
    assert!(
        zero < 1e-12 && other > 1e-5,
        "{name}: gap {zero:e} to {other:e}"
    );
    assert_eq!(found.laws.len(), found.found, "{name}");
}

/// The next tests show which laws are not declared.
#[test]
fn every_list_is_whole() {
    let others = |m: &&str| !is_long(m);
    let names: Vec<&str> = MODELS.iter().map(|m| m.name).filter(others).collect();
    assert_eq!(names, EXPECTED.map(|(name, _)| name));
    for (name, expected) in EXPECTED {
        whole(name, expected);
    }
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn every_long_list_is_whole() {
    for (name, expected) in &LONG[1..] {
        whole(name, *expected);
    }
}

/// The longest search, beside the others.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_list_of_ten_layers_is_whole() {
    whole(LONG[0].0, LONG[0].1);
}

fn formulas(found: &Discovery) -> Vec<&str> {
    found.discovered().map(|law| &*law.formula).collect()
}

/// A gated layer whose activation is homogeneous has two laws per neuron: up against down, and gate against
/// k · down. Both are read off the pass, and there is no other.
#[test]
fn a_homogeneous_gate_has_a_law_of_its_own() {
    for (activation, laws) in [
        (Activation::Relu, 8),
        (Activation::LeakyRelu { slope: 0.2 }, 8),
        (Activation::Identity, 8),
        (Activation::ReluSquared, 8),
        (Activation::Silu, 4),
        (Activation::Gelu, 4),
        (Activation::Mish, 4),
        (Activation::HardTanh, 4),
    ] {
        let config = FeedForwardConfig::gated(3, 4, activation);
        let unit = FeedForward::<f64>::new(config, &mut init::rng(0)).unwrap();
        let found = discover(&unit, &Search::default(), |pass, seed| {
            let x = init::normal(&[6, 3], 1.0, &mut init::rng(seed));
            unit.forward(pass, pass.tape().constant(x))
        });
        assert!(found.broken.is_empty(), "{activation:?}: {found:?}");
        assert!(
            found.max_delta <= 1e-10,
            "{activation:?}: {:e}",
            found.max_delta
        );
        assert_eq!(
            (found.declared, found.found),
            (laws, laws),
            "{activation:?}: {found:?}"
        );
        assert_eq!(found.upper, Some(laws), "{activation:?}");
    }
}

/// A batch norm with running statistics: the list and the search are of training passes, where the norm
/// uses the statistics of the batch. In an evaluation it is an affine map, and half of these laws would not
/// hold.
#[test]
fn laws_before_a_batch_norm_are_those_of_training() {
    struct Normed {
        first: Linear<f64>,
        norm: BatchNorm<f64>,
        last: Linear<f64>,
    }
    emmy::module!(Normed for f64: first, norm, last);
    let rng = &mut init::rng(0);
    let mut net = Normed {
        first: Linear::new(3, 4, true, rng),
        norm: BatchNorm::new(4),
        last: Linear::new(4, 2, true, rng),
    };
    net.norm.eps = 0.0;
    assert!(net.norm.running.is_some());
    let found = discover(&net, &Search::default(), |pass, seed| {
        let x = init::normal(&[6, 3], 1.0, &mut init::rng(seed));
        let h = net.first.forward(pass, pass.tape().constant(x));
        net.last.forward(pass, net.norm.forward(pass, h).relu())
    });
    assert!(
        found.broken.is_empty() && found.missing.is_empty(),
        "{found:?}"
    );
    assert!(found.max_delta <= 1e-10, "{:e}", found.max_delta);
    // In an evaluation the statistics are fixed, and only the law of the gain is listed.
    let evaluated = Trace::evaluated(&net, |pass| {
        let x = init::normal(&[6, 3], 1.0, &mut init::rng(0));
        let h = net.first.forward(pass, pass.tape().constant(x));
        net.last.forward(pass, net.norm.forward(pass, h).relu())
    });
    let names: Vec<String> = evaluated.laws().into_iter().map(|law| law.name).collect();
    assert_eq!(names, ["norm, neurons"]);
    // Per neuron: the bias does not move, the size of its row does not, and the gain is balanced against
    // its reader.
    assert_eq!(
        (found.declared, found.found, found.upper),
        (12, 12, Some(12)),
        "{found:?}"
    );
}

/// If the readout of a block reads the stream without a norm, the balance of the mean of the stream is
/// conserved for every ε, and that of the whole stream only for ε = 0.
#[test]
fn a_pre_norm_block_has_sixteen_laws_and_fifteen_with_an_eps() {
    for (eps, laws) in [(0.0, 16), (0.01, 15)] {
        let found = search(&*make("preln-block", eps), &Search::default());
        assert_eq!((found.found, found.upper), (laws, Some(laws)), "{eps}");
        let scale = |law: &symmetry::FoundLaw| law.declared.as_deref() == Some("embed, scale");
        assert_eq!(found.laws.iter().any(scale), eps == 0.0);
    }
}

/// The same laws, without any declaration: the search without a trace finds the balance of the mean.
#[test]
fn the_balance_of_a_mean_is_found() {
    let net = make("preln-block", 0.01);
    let named = |p: Entry<&emmy::Tensor<f64>>| (p.name, p.tensor.shape().to_vec());
    let layout = Layout::new(net.parameters().into_iter().map(named));
    let function = ParametricFunction::new(layout, |tape, vars, seed| {
        net.forward(&emmy::nn::Pass::bound(tape, &*net, vars), seed)
    });
    let found = symmetry::discover(&function, &[], &Search::default());
    assert_eq!((found.declared, found.found), (0, 15));
    let law = "⟨11ᵀ embed.weight, G⟩ + ⟨11ᵀ blocks.layers.0.attention.output.weight, G⟩ \
               + ⟨11ᵀ blocks.layers.0.feed_forward.down.weight, G⟩ − ⟨readout.weight 11ᵀ, G⟩ = 0";
    assert!(formulas(&found).contains(&law), "{:?}", formulas(&found));
}

/// A skip connection around a single map shifts its law: x + W x is (1 + W) x.
#[test]
fn what_is_not_declared_is_named() {
    let found = search(&*make("identity-map", 0.0), &Search::default());
    let law = |j: usize| {
        format!(
            "⟨inner.weight[{j},:], G⟩ + G of inner.weight[{j},{j}] − ⟨readout.weight[:,{j}], G⟩ = 0"
        )
    };
    assert_eq!(formulas(&found), [law(0), law(1), law(2), law(3)]);
}

/// The same seed finds the same laws, on any number of threads.
#[test]
fn a_search_is_reproducible() {
    let found = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let run = || search(&*make("gatv2-separate", 0.0), &Search::default());
        pool.expect("threads").install(run)
    };
    let (one, three) = (found(1), found(3));
    assert_eq!(one.generators, three.generators);
    assert_eq!(one.laws, three.laws);
    assert_eq!(one.gap, three.gap);
}

/// The laws that are measured in a training of a model: all laws, or all declared laws if the search takes
/// long.
fn watched(name: &str) -> Vec<Generator> {
    let net = &*make(name, 0.0);
    if is_long(name) {
        let laws = Trace::of(net, |pass| net.forward(pass, 0)).laws();
        let named = |p: Entry<&emmy::Tensor<f64>>| (p.name, p.tensor.shape().to_vec());
        let layout = Layout::new(net.parameters().into_iter().map(named));
        return laws
            .iter()
            .flat_map(|law| law.conserving(&layout))
            .collect();
    }
    let how = Search {
        brackets: 0,
        ..Search::default()
    };
    search(net, &how)
        .laws
        .into_iter()
        .map(|law| law.generator)
        .collect()
}

/// δ of every law vanishes along 60 steps of every rule, and c moves as predicted.
#[test]
fn the_laws_hold_along_every_training() {
    // The demonstration of `balance` takes minutes; `gatv2-deep` is the same at a small width.
    let models = MODELS.iter().map(|m| m.name);
    for name in models.filter(|name| *name != "gatv2-10-layers") {
        let laws = watched(name);
        for rule in [Rule::Descent, Rule::Momentum, Rule::Adam, Rule::AdamW] {
            let how = How {
                steps: 60,
                rule,
                lr: 0.01,
                decay: 0.01,
                seed: 1,
            };
            let run = train(&mut *make(name, 0.0), &how, &laws);
            assert_eq!(run.losses.len(), 60, "{name}, {rule:?}: it diverged");
            assert!(run.delta() <= 1e-10, "{name}, {rule:?}: {:e}", run.delta());
            let off = run.off();
            assert_eq!(off.is_none(), matches!(rule, Rule::Adam | Rule::AdamW));
            assert!(off.unwrap_or(0.0) <= 1e-9, "{name}, {rule:?}: {off:?}");
            assert!(laws.is_empty() || run.moved() > 1e-6, "{name}, {rule:?}");
            // The gradients of the deep network reach the limit later.
            let clips = rule == Rule::AdamW && name != "gatv2-deep";
            assert!(!clips || run.clipped > 0, "{name}");
        }
    }
}

/// What signs and orthogonal steps conserve: not the balances, but what rests on gradients that are zero or
/// equal. Of the LSTM the difference of its two biases is left along signs; before a LayerNorm, along
/// orthogonal steps, the sum over the neurons.
#[test]
fn few_quantities_survive_along_other_fields() {
    let count = |name: &str, field: Field| {
        let how = Search {
            field,
            ..Search::default()
        };
        let found = search(&*make(name, 0.0), &how);
        assert_eq!(found.upper.is_some(), field == Field::Gradient);
        found.found
    };
    for (name, expected) in [
        ("mlp", [5, 0, 0]),
        ("gat", [3, 0, 0]),
        ("linear", [10, 0, 0]),
        ("lstm", [8, 8, 8]),
        ("attention", [6, 0, 0]),
    ] {
        let found = [Field::Gradient, Field::Sign, Field::Polar].map(|field| count(name, field));
        println!("{name}: {found:?}");
        assert_eq!(found, expected, "{name}");
    }
}
