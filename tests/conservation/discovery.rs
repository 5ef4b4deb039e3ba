//! The search for laws: the laws found in the small models hold, and there are no others.

use crate::models::{MODELS, Options};
use crate::nets::Net;
use crate::training::{How, Rule, train};
use emmy::init;
use emmy::nn::{
    Activation, BatchNorm, FeedForward, FeedForwardConfig, Linear, Mlp, Module, Trace, discover,
};
use emmy::symmetry::{
    self, Ansatz, Discovery, Function, Generator, Law, Layout, Search, Slice, Symmetry, Term,
};
use proptest::prelude::*;

fn search(net: &dyn Net, how: &Search) -> Discovery {
    discover(net, how, |pass, seed| net.forward(pass, seed))
}

fn make(name: &str, eps: f64) -> Box<dyn Net> {
    let model = MODELS.iter().find(|m| m.name == name).expect("a model");
    (model.make)(Options { eps, seed: 0 })
}

/// Models whose search takes a minute.
const LONG: [&str; 5] = [
    "gatv2-10-layers",
    "language-model",
    "bert",
    "decoder",
    "vision-transformer",
];

/// Models whose upper bound is one more than the number of laws found: there may be a law of another form.
const ONE_MORE: [&str; 1] = ["gin"];

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

/// The declared laws are among those found, and there are no others. The next tests show which laws are not
/// declared.
#[test]
fn every_list_is_whole() {
    let others = |m: &&str| !LONG.contains(m);
    let names: Vec<&str> = MODELS.iter().map(|m| m.name).filter(others).collect();
    assert_eq!(names, EXPECTED.map(|(name, _)| name));
    for (name, expected) in EXPECTED {
        let found = search(&*make(name, 0.0), &Search::default());
        let counts = [found.parameters, found.found, found.declared];
        assert_eq!(counts, expected, "{name}");
        let most = found.found + usize::from(ONE_MORE.contains(&name));
        assert_eq!(found.upper, Some(most), "{name}");
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
}

fn formulas(found: &Discovery) -> Vec<&str> {
    found.discovered().map(|law| &*law.formula).collect()
}

/// A gated layer whose activation is homogeneous has two laws per neuron: up against down, and gate against k · down.
/// Both are read off the pass, and there is no other.
#[test]
fn a_homogeneous_gate_has_a_law_of_its_own() {
    for (activation, laws) in [
        (Activation::Relu, 8),
        (Activation::LeakyRelu { slope: 0.2 }, 8),
        (Activation::Identity, 8),
        (Activation::ReluSquared, 8),
        (Activation::Silu, 4),
        (Activation::Gelu, 4),
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

/// A batch norm with running statistics: the list and the search are of training passes, where the norm uses the
/// statistics of the batch. In an evaluation it is an affine map, and half of these laws would not hold.
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
    // Per neuron: the bias does not move, the size of its row does not, and the gain is balanced against its reader.
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
        let scale = |law: &symmetry::Found| law.declared.as_deref() == Some("embed, scale");
        assert_eq!(found.laws.iter().any(scale), eps == 0.0);
    }
}

/// The same laws, without any declaration: the search without a trace finds the balance of the mean.
#[test]
fn the_balance_of_a_mean_is_found() {
    let net = make("preln-block", 0.01);
    let named = |(name, t): (String, &emmy::Tensor<f64>)| (name, t.shape().to_vec());
    let layout = Layout::new(net.parameters().into_iter().map(named));
    let function = Function::new(layout, |tape, vars, seed| {
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
    if LONG.contains(&name) {
        let laws = Trace::of(net, |pass| net.forward(pass, 0)).laws();
        let named = |(name, t): (String, &emmy::Tensor<f64>)| (name, t.shape().to_vec());
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

/// δ of every law vanishes along 200 steps of every rule, and c moves as predicted.
#[test]
fn the_laws_hold_along_every_training() {
    // The demonstration of `balance` takes minutes; `gatv2-deep` is the same at a small width.
    let models = MODELS.iter().map(|m| m.name);
    for name in models.filter(|name| *name != "gatv2-10-layers") {
        let laws = watched(name);
        for rule in [Rule::Descent, Rule::Momentum, Rule::Adam, Rule::AdamW] {
            let how = How {
                steps: 200,
                rule,
                lr: 0.01,
                decay: 0.01,
                seed: 1,
            };
            let run = train(&mut *make(name, 0.0), &how, &laws);
            assert_eq!(run.losses.len(), 200, "{name}, {rule:?}: it diverged");
            assert!(run.delta() <= 1e-10, "{name}, {rule:?}: {:e}", run.delta());
            let off = run.off();
            assert_eq!(off.is_none(), matches!(rule, Rule::Adam | Rule::AdamW));
            assert!(off.unwrap_or(0.0) <= 1e-9, "{name}, {rule:?}: {off:?}");
            assert!(laws.is_empty() || run.moved() > 1e-6, "{name}, {rule:?}");
            assert!(rule != Rule::AdamW || run.clipped > 0, "{name}");
        }
    }
}

/// A law that the model does not have is distinguished from one that the ansatz cannot express.
#[test]
fn declared_laws_are_audited() {
    let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Identity, false, &mut init::rng(0));
    let named = |(name, t): (String, &emmy::Tensor<f64>)| (name, t.shape().to_vec());
    let layout = Layout::new(net.parameters().into_iter().map(named));
    let function = Function::new(layout, |tape, vars, seed| {
        let x = tape.constant(init::normal(&[5, 3], 1.0, &mut init::rng(seed)));
        x.matmul(vars[0].t()).matmul(vars[1].t())
    });
    let terms = || {
        vec![
            Term::incoming(Slice::new(0, [1, 4, 3])),
            Term::outgoing(Slice::new(1, [2, 4, 1])),
        ]
    };
    let matrices = Law::new("matrices", 1, Symmetry::Linear, terms());
    let wrong = Law::new(
        "wrong",
        1,
        Symmetry::Rescaling,
        terms().into_iter().map(|t| t.times(2.0)).take(1).collect(),
    );
    let declared = [matrices, wrong];
    let found = symmetry::discover(&function, &declared, &Search::default());
    assert_eq!(
        (found.broken, found.missing),
        (vec!["wrong".to_owned()], vec![])
    );
    assert_eq!(
        (found.declared, found.found, found.upper),
        (10, 10, Some(10))
    );
    let neurons = Search {
        ansatz: Some(Ansatz::Neurons),
        ..Search::default()
    };
    let found = symmetry::discover(&function, &declared, &neurons);
    assert_eq!(found.missing, ["matrices"]);
    assert_eq!((found.declared, found.found, found.upper), (0, 4, Some(10)));
    assert!(!found.is_complete());
}

/// Generators state entry by entry what a law states for slices.
#[test]
fn a_law_is_the_sum_of_its_generators() {
    let shapes = [("W", vec![4, 3]), ("b", vec![4]), ("V", vec![2, 4])];
    let layout = Layout::new(shapes.map(|(name, shape)| (name.to_owned(), shape)));
    let rng = &mut init::rng(3);
    let draw = |rng: &mut init::Rng| -> Vec<emmy::Tensor<f64>> {
        layout
            .shapes()
            .iter()
            .map(|s| init::normal(s, 1.0, rng))
            .collect()
    };
    let (theta, gradients) = (draw(rng), draw(rng));
    let flat = |all: &[emmy::Tensor<f64>]| -> Vec<f64> {
        all.iter().flat_map(|t| t.iter().copied()).collect()
    };
    let refs: Vec<&emmy::Tensor<f64>> = theta.iter().collect();
    let terms = |outgoing: bool| {
        let mut all = vec![
            Term::incoming(Slice::new(0, [1, 4, 3])),
            Term::incoming(Slice::new(1, [1, 4, 1])),
        ];
        all.extend(outgoing.then(|| Term::outgoing(Slice::new(2, [2, 4, 1])).times(2.0)));
        all
    };
    let laws = [
        Law::new("rescaling", 1, Symmetry::Rescaling, terms(true)),
        Law::new("linear", 1, Symmetry::Linear, terms(true)),
        Law::new("rotation", 1, Symmetry::Rotation, terms(true)),
        Law::new("translation", 1, Symmetry::Translation, terms(false)),
        Law::new(
            "mean",
            1,
            Symmetry::Rescaling,
            terms(true).into_iter().map(Term::mean).collect(),
        ),
    ];
    for law in laws {
        let measured = law.measure(&refs, &gradients);
        for entry in 0..law.entries() {
            let generator = law.generator(&layout, entry);
            let (delta, _) = generator.delta(&flat(&theta), &flat(&gradients));
            let expected = measured.delta[entry];
            assert!(
                (delta - expected).abs() < 1e-12,
                "{}, {entry}: {delta} {expected}",
                law.name
            );
            // The generator is the derivative of the change.
            let t = 1e-6;
            let mut moved = theta.clone();
            law.transform(&mut moved.iter_mut().collect::<Vec<_>>(), entry, t);
            let direction = generator.direction(&flat(&theta));
            for ((new, old), d) in flat(&moved).iter().zip(flat(&theta)).zip(direction) {
                assert!(((new - old) / t - d).abs() < 1e-4, "{}, {entry}", law.name);
            }
        }
        // c of a law is twice that of its generator, except for shifts.
        let Some(balance) = law.balance(&refs) else {
            assert!(law.conserving(&layout).is_empty());
            continue;
        };
        if law.symmetry == Symmetry::Linear {
            continue;
        }
        let factor = if law.symmetry == Symmetry::Translation {
            1.0
        } else {
            2.0
        };
        for (c, generator) in balance.iter().zip(law.conserving(&layout)) {
            assert!(
                (factor * generator.conserved(&flat(&theta)) - c).abs() < 1e-12,
                "{}",
                law.name
            );
        }
    }
}

/// Random networks for which an earlier search was wrong: at most points the first network is dead and gives
/// no information; in the second, a direction of 10⁻⁸ was counted although it was rounding.
#[test]
fn networks_that_were_searched_wrongly_once() {
    let leaky = Activation::LeakyRelu { slope: 0.2 };
    for (widths, activation, seed, laws) in [
        ([3, 3, 1, 1], Activation::Relu, 2_400_438_070_941_296_609, 4),
        ([1, 3, 3, 1], leaky, 16_989_318_473_499_518_954, 6),
    ] {
        let net = Mlp::<f64>::new(&widths, activation, true, &mut init::rng(0));
        let how = Search {
            seed,
            ..Search::default()
        };
        let found = discover(&net, &how, |pass, seed| {
            let x = init::normal(&[4, widths[0]], 1.0, &mut init::rng(seed));
            net.forward(pass, pass.tape().constant(x))
        });
        let counts = (found.declared, found.found, found.upper);
        assert_eq!(counts, (laws, laws, Some(laws)), "{widths:?}");
    }
}

#[test]
#[should_panic(expected = "discover: a derivative of the outputs is not a finite number")]
fn a_function_without_numbers_is_refused() {
    let layout = Layout::new([("w".to_owned(), vec![2])]);
    let function = Function::new(layout, |_, vars, _| vars[0].scale(f64::NAN).exp());
    let _ = symmetry::discover(&function, &[], &Search::default());
}

#[test]
fn a_function_without_parameters_has_no_laws() {
    let function = Function::new(Layout::new([]), |tape, _, _| tape.scalar(1.0));
    let found = symmetry::discover(&function, &[], &Search::default());
    assert_eq!(
        (found.parameters, found.found, found.upper),
        (0, 0, Some(0))
    );
}

/// A small random network, and what is known of its laws: C1 for the hidden neurons of degree 1, C2.
#[derive(Debug, Clone)]
struct Random {
    widths: Vec<usize>,
    activation: Activation,
    bias: bool,
    seed: u64,
}

fn random() -> impl Strategy<Value = Random> {
    let activation = prop_oneof![
        Just(Activation::Relu),
        Just(Activation::LeakyRelu { slope: 0.2 }),
        Just(Activation::Gelu),
        Just(Activation::Tanh),
        Just(Activation::Identity),
    ];
    let widths = proptest::collection::vec(1..4_usize, 2..5);
    (widths, activation, any::<bool>(), any::<u64>()).prop_map(
        |(widths, activation, bias, seed)| Random {
            widths,
            activation,
            bias,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(crate::support::cases(40))]

    /// Every listed law holds at fresh points, every declared law is found, and the lower bound is at most
    /// the upper bound.
    #[test]
    fn no_law_is_listed_that_a_fresh_point_breaks(case in random()) {
        let net = Mlp::<f64>::new(&case.widths, case.activation, case.bias, &mut init::rng(0));
        let named = |(name, t): (String, &emmy::Tensor<f64>)| (name, t.shape().to_vec());
        let layout = Layout::new(net.parameters().into_iter().map(named));
        let function = Function::new(layout, |tape, vars, seed| {
            let x = init::normal(&[4, case.widths[0]], 1.0, &mut init::rng(seed));
            net.forward(&emmy::nn::Pass::bound(tape, &net, vars), tape.constant(x))
        });
        let declared = emmy::nn::Traced::laws(&net);
        let how = Search { seed: case.seed, ..Search::default() };
        let found = symmetry::discover(&function, &declared, &how);
        prop_assert!(found.broken.is_empty() && found.missing.is_empty(), "{found:?}");
        prop_assert!(found.declared <= found.found && Some(found.found) <= found.upper, "{found:?}");
        for k in 0..20 {
            let theta = function.draw(&mut init::rng(case.seed ^ (1000 + k)));
            let gradient = function.gradient(&theta, case.seed ^ (2000 + k));
            let worst = |g: &Generator| g.relative(&theta, &gradient);
            for law in &found.laws {
                prop_assert!(worst(&law.generator) <= 1e-10, "{}: {}", law.formula, worst(&law.generator));
            }
        }
    }
}
