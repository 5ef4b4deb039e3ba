//! Networks of graph layers.

use super::models::{activations, homogeneous, norms};
use emmy::nn::{Conv, GraphNetConfig};
use proptest::prelude::*;

/// The networks of the papers that introduced the layers, a function of inputs and classes each.
const NETWORKS: [fn(usize, usize) -> GraphNetConfig; 9] = [
    GraphNetConfig::gcn,
    GraphNetConfig::sage,
    GraphNetConfig::sgc,
    GraphNetConfig::gin,
    GraphNetConfig::gat,
    GraphNetConfig::gatv2,
    GraphNetConfig::gcnii,
    GraphNetConfig::transformer,
    GraphNetConfig::ggnn,
];

/// Networks of graph layers of every kind, with the linear maps that they need at their ends, and with any
/// activation, norm and residual; without dropout. `inputs` is 1: set it to that of the problem.
///
/// ```
/// use emmy::nn::{GraphNet, GraphNetConfig};
/// use emmy::testing::{Subject, assert_equivariant};
/// use emmy_strategies::{graph_nets, problems, proptest::prelude::*};
///
/// proptest! {
///     #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..Default::default() })]
///     // In a test of yours: #[test]
///     fn relabelled_nodes(config in graph_nets(), problem in problems()) {
///         let config = GraphNetConfig { inputs: problem.inputs, ..config };
///         let net = GraphNet::<f64>::new(config, problem.seed).unwrap();
///         let (x, graph) = (problem.features(), &problem.graph);
///         let subject = Subject::on_graph(&net, &x, graph, problem.seed, |pass, x, graph| {
///             net.forward(pass, x, &config.neighbourhood(graph))
///         });
///         assert_equivariant(&subject);
///     }
/// }
/// relabelled_nodes();
/// ```
pub fn graph_nets() -> impl Strategy<Value = GraphNetConfig> {
    let network = prop::sample::select(&NETWORKS[..]);
    let sizes = (1_usize..5, 2_usize..4, 1_usize..5, 1_usize..4, 1_usize..3);
    let between = (
        activations(),
        prop::option::of(norms()),
        prop::option::of(1_usize..3),
    );
    let flags = (any::<bool>(), any::<bool>());
    (network, sizes, between, flags).prop_map(
        |(network, (hidden, classes, depth, heads, last), between, (bias, self_loops))| {
            let (activation, norm, residual) = between;
            GraphNetConfig {
                hidden,
                activation,
                norm,
                residual,
                self_loops,
                ..network(1, classes)
            }
            .depth(depth)
            .heads(heads, last)
            .biased(bias)
            .without_dropout()
        },
    )
}

/// The kinds of graph layers that [`homogeneous_graph_nets`] draws: those whose neurons all have laws.
pub const CONVS: [Conv; 4] = [Conv::GCN, Conv::GAT, Conv::gatv2(true), Conv::gatv2(false)];

/// Networks of the layers [`CONVS`] with a homogeneous activation, so that every hidden neuron has a law;
/// without dropout. `inputs` is 1: set it to that of the problem.
pub fn homogeneous_graph_nets() -> impl Strategy<Value = GraphNetConfig> {
    let conv = prop::sample::select(&CONVS[..]);
    let sizes = (1_usize..6, 2_usize..5, 2_usize..6, 1_usize..4, 1_usize..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let slopes = prop::sample::select(vec![0.2, -0.5, 0.0]);
    (conv, sizes, homogeneous(), flags, slopes).prop_map(
        |(conv, (hidden, classes, layers, heads, output_heads), activation, flags, slope)| {
            GraphNetConfig {
                hidden,
                classes,
                layers,
                activation,
                dropout: 0.0,
                self_loops: flags.2,
                ..GraphNetConfig::gcn(1, classes)
            }
            .of(conv)
            .heads(heads, output_heads)
            .attending(|a| {
                a.dropout = 0.0;
                a.residual = flags.1;
                a.slope = slope;
            })
            .biased(flags.0)
        },
    )
}
