//! Strategies reach what they should, and shrink to the smallest case that still fails.

use emmy::Graph;
use emmy_strategies::{
    Perceptron, activations, features, graph_nets, graphs, perceptrons, shapes, tensors_of, widths,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

/// Draws of a strategy with a fixed seed.
fn draws<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>, count: usize) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    let draw = |_| strategy.new_tree(&mut runner).unwrap().current();
    (0..count).map(draw).collect()
}

/// The smallest case that proptest finds for a property that fails.
fn smallest<T: std::fmt::Debug>(
    strategy: impl Strategy<Value = T>,
    holds: impl Fn(&T) -> bool,
) -> T {
    let config = Config {
        cases: 1000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&strategy, |value| match holds(&value) {
        true => Ok(()),
        false => Err(TestCaseError::fail("as wanted")),
    });
    match result {
        Err(TestError::Fail(_, value)) => value,
        other => panic!("no case fails: {other:?}"),
    }
}

fn has_loop(graph: &Graph) -> bool {
    graph.edge_list().any(|(s, t)| s == t)
}

#[test]
fn graphs_of_every_family_are_drawn() {
    let all = draws(graphs(), 500);
    let count = |of: &dyn Fn(&Graph) -> bool| all.iter().filter(|g| of(g)).count();
    let symmetric = |g: &Graph| g.is_symmetric();
    let isolated = |g: &Graph| {
        let reached: Vec<u32> = g.edge_list().flat_map(|(s, t)| [s, t]).collect();
        (0..g.nodes() as u32).any(|i| !reached.contains(&i))
    };
    let found = [
        count(&|g| g.edges() == 0),
        count(&has_loop),
        count(&isolated),
        count(&|g| g.edges() > 0 && !symmetric(g)),
        // Trees, paths and stars.
        count(&|g| {
            g.nodes() > 2 && symmetric(g) && !has_loop(g) && g.edges() == 2 * (g.nodes() - 1)
        }),
    ];
    assert!(found.iter().all(|&n| n > 25), "{found:?}");
    assert!(all.iter().all(|g| g.nodes() > 0));
}

#[test]
fn failing_cases_shrink() {
    let graph = smallest(graphs(), |g| g.edges() < 3);
    assert!(graph.nodes() <= 3 && graph.edges() <= 4, "{graph:?}");
    let x = smallest(features::<f64>(3, 2), |x| x.iter().all(|&x| x < 2.0));
    assert!(x.iter().filter(|&&x| x == 0.0).count() == 5, "{x:?}");
    let net: Perceptron = smallest(perceptrons(activations()), |net| net.hidden.len() < 3);
    assert_eq!(net.hidden, [1, 1, 1]);
    assert_eq!((net.bias, net.seed), (false, 0));
    let config = smallest(graph_nets(), |config| config.layers < 4);
    assert_eq!((config.layers, config.hidden), (4, 1));
}

#[test]
fn shapes_and_widths_are_within_their_ranges() {
    for x in draws(tensors_of::<f32>(shapes(0..4, 0..3)), 200) {
        assert!(x.ndim() < 4 && x.shape().iter().all(|&n| n < 3));
    }
    for widths in draws(widths(2..5, 1..4), 200) {
        assert!((2..5).contains(&widths.len()) && widths.iter().all(|&w| (1..4).contains(&w)));
    }
    // Zeros and ties.
    let all = draws(features::<f64>(4, 4), 100);
    assert!(all.iter().flatten().filter(|&&x| x == 0.0).count() > 100);
    assert!(all.iter().flatten().filter(|&&x| x == 1.0).count() > 20);
}
