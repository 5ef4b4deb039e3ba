//! Models that the strategies draw, and recurrent layers, pass the checks of the kit.

use crate::cases::proptest_cases;
use emmy::nn::{
    Activation, GraphNet, GraphNetConfig, Gru, LanguageModel, Lstm, Module, MultiHeadAttention,
    Norm, TransformerBlock,
};
use emmy::ops::attention::Mask;
use emmy::testing::{
    Problem, Subject, assert_equivariant, assert_grads, assert_invariant, assert_laws,
    assert_round_trip,
};
use emmy::{Real, Tensor, init};
use emmy_strategies::{blocks, graph_nets, language_models, problems, seeds, self_attentions};
use proptest::prelude::*;

/// The model with random numbers added to each parameter whose numbers are all equal: a bias of 0 leaves the
/// neurons behind a dead layer at a kink, and factors of 1 make laws hold that others break.
fn drawn<F: Real, M: Module<F>>(mut model: M, seed: u64) -> M {
    let rng = &mut init::rng(seed);
    for parameter in model.tensors_mut() {
        let first = parameter.iter().next().copied();
        if parameter.iter().all(|x| Some(*x) == first) {
            let by: Tensor<F> = init::normal(parameter.shape(), 0.3, rng);
            *parameter = (&*parameter + &by).into_shared();
        }
    }
    model
}

fn normal<F: Real>(shape: &[usize], seed: u64) -> Tensor<F> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

/// Derivatives are compared with differences, which a kink within a step would make wrong.
fn smooth(activation: Activation) -> Activation {
    match activation {
        Activation::Relu | Activation::LeakyRelu { .. } | Activation::HardTanh => Activation::Tanh,
        other => other,
    }
}

/// Batch norm refuses the statistics of a single row.
fn is_defined(config: GraphNetConfig, problem: &Problem) -> bool {
    problem.graph.nodes() > 1 || !matches!(config.norm, Some(Norm::Batch { .. }))
}

fn graph_net<F: Real>(config: GraphNetConfig, problem: &Problem) -> GraphNet<F> {
    let config = GraphNetConfig {
        inputs: problem.inputs,
        ..config
    };
    drawn(GraphNet::new(config, problem.seed).expect("valid"), 3)
}

/// Outputs of a graph network on the problem's graph, or the same relabelled.
fn on_graph<'a, F: Real>(net: &'a GraphNet<F>, problem: &Problem) -> Subject<'a, F> {
    Subject::on_graph(
        net,
        &problem.features(),
        &problem.graph,
        problem.seed,
        |pass, x, graph| net.forward(pass, x, &net.config.neighbourhood(graph)),
    )
    .with_loss(problem.loss)
}

proptest! {
    #![proptest_config(proptest_cases(100))]

    #[test]
    fn graph_networks(config in graph_nets(), problem in problems(), seed in seeds()) {
        prop_assume!(is_defined(config, &problem));
        let net = graph_net::<f64>(config, &problem);
        let subject = on_graph(&net, &problem);
        assert_laws(&subject);
        assert_invariant(&subject);
        assert_equivariant(&subject);
        let single = graph_net::<f32>(config, &problem);
        assert_equivariant(&on_graph(&single, &problem));
        let mut other = GraphNet::new(net.config, seed).expect("valid");
        assert_round_trip(&net, &mut other);
    }

    #[test]
    fn derivatives_of_graph_networks(config in graph_nets(), problem in problems()) {
        prop_assume!(is_defined(config, &problem));
        let problem = Problem { sparse: false, ..problem };
        let activation = smooth(config.activation);
        let net = graph_net::<f64>(GraphNetConfig { activation, ..config }, &problem);
        assert_grads(&on_graph(&net, &problem));
    }

    #[test]
    fn self_attention(config in self_attentions(), batch in 1_usize..3, n in 1_usize..6, seed in seeds()) {
        let layer = drawn(MultiHeadAttention::<f64>::new(config, &mut init::rng(seed)).expect("valid"), 3);
        let x = normal(&[batch, n, config.width], seed);
        let subject = Subject::new(&layer, &x, seed, |pass, x| layer.forward(pass, x, &Mask::none()));
        assert_laws(&subject);
        assert_invariant(&subject);
        assert_grads(&subject);
        if config.rotary.is_none() {
            assert_equivariant(&subject);
        }
    }

    #[test]
    fn blocks_of_a_transformer(config in blocks(), n in 1_usize..6, seed in seeds()) {
        let block = drawn(TransformerBlock::<f64>::new(config, &mut init::rng(seed)).expect("valid"), 3);
        let x = normal(&[n, config.attention.width], seed);
        let subject = Subject::new(&block, &x, seed, |pass, x| block.forward(pass, x, &Mask::none()));
        assert_laws(&subject);
        assert_invariant(&subject);
        if config.attention.rotary.is_none() {
            assert_equivariant(&subject);
        }
        let mut other = TransformerBlock::new(config, &mut init::rng(seed + 1)).expect("valid");
        assert_round_trip(&block, &mut other);
    }

    #[test]
    fn language(config in language_models(), seed in seeds()) {
        let model = drawn(LanguageModel::<f64>::new(config, seed).expect("valid"), 3);
        let symbols: Vec<usize> = (0..config.context).map(|k| (k * k + 1) % config.symbols).collect();
        let subject = Subject::without_input(&model, seed, |pass| model.forward(pass, &symbols, 1));
        assert_laws(&subject);
        assert_invariant(&subject);
    }

    #[test]
    fn recurrent(inputs in 1_usize..4, hidden in 1_usize..5, layers in 1_usize..3, steps in 1_usize..5, seed in seeds()) {
        let rng = &mut init::rng(seed);
        let (lstm, gru) = (Lstm::<f64>::new(inputs, hidden, layers, rng), Gru::new(inputs, hidden, layers, rng));
        let x = normal(&[2, steps, inputs], seed);
        let all = [
            Subject::new(&lstm, &x, seed, |pass, x| lstm.forward(pass, x, None).0),
            Subject::new(&gru, &x, seed, |pass, x| gru.forward(pass, x, None).0),
        ];
        for subject in &all {
            assert_laws(subject);
            assert_grads(subject);
        }
    }
}
