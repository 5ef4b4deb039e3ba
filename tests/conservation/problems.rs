//! Problems for networks: random graphs, features and losses.

use emmy::graph::generators::random_graph;
use emmy::graph::{Duplicates, SelfLoops};
use emmy::init;
use emmy::nn::Input;
use emmy::sparse::Csr;
use emmy::{Graph, Real, Tape, Tensor, Var};
use proptest::collection::vec;
use proptest::prelude::*;

/// A problem: outputs for the nodes of a graph, and a loss of them.
#[derive(Debug, Clone)]
pub struct Problem {
    pub graph: Graph,
    /// The number of features per node.
    pub inputs: usize,
    /// Whether the features are given as a sparse matrix.
    pub sparse: bool,
    pub loss: Loss,
    /// The seed of features, labels, targets and dropout.
    pub seed: u64,
}

impl Problem {
    /// The features, drawn alike for both types; a third of them zeros where they are sparse.
    pub fn input<'t, F: Real>(&self, tape: &'t Tape<F>) -> Input<'t, F> {
        let shape = [self.graph.nodes(), self.inputs];
        let x: Tensor<F> = init::normal(&shape, 1.0, &mut init::rng(self.seed));
        if self.sparse {
            let small = F::of(0.43);
            let x = x.mapv(|x| if x.abs() < small { F::zero() } else { x });
            tape.sparse(&Csr::from_dense(&x.into_shared())).into()
        } else {
            tape.constant(x).into()
        }
    }
}

/// A loss of the outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    CrossEntropy,
    /// Over every second node.
    Masked,
    SquaredError,
    /// A smooth function that is not a sum over outputs.
    Smooth,
    /// Three tasks at once.
    Tasks,
}

impl Loss {
    pub const ALL: [Self; 5] = [
        Self::CrossEntropy,
        Self::Masked,
        Self::SquaredError,
        Self::Smooth,
        Self::Tasks,
    ];

    /// Whether the loss is unchanged when all outputs of a node are shifted alike.
    pub fn ignores_shifts(self) -> bool {
        matches!(self, Self::CrossEntropy | Self::Masked)
    }

    /// Its value for the outputs y, `[n, C]`.
    pub fn of<'t, F: Real>(self, y: Var<'t, F>, seed: u64) -> Var<'t, F> {
        let shape = y.shape();
        let draw = |k: u64| -> Tensor<F> { init::normal(&shape, 1.0, &mut init::rng(seed + k)) };
        let constant = |k: u64| y.tape().constant(draw(k));
        let label = |i: usize| (7 * i + seed as usize) % shape[1];
        let labels: Vec<usize> = (0..shape[0]).map(label).collect();
        let half: Vec<bool> = (0..shape[0]).map(|i| i % 2 == 0).collect();
        match self {
            Self::CrossEntropy => y.cross_entropy(&labels, None),
            Self::Masked => y.cross_entropy(&labels, Some(&half)),
            Self::SquaredError => y.mse(constant(1)),
            Self::Smooth => {
                let waves = (y * constant(1) + constant(2)).sin();
                waves.sum_all() + (y * y).sum_all().add_scalar(F::one()).ln()
            }
            Self::Tasks => {
                let flags = draw(3).mapv(|x| if x > F::zero() { F::one() } else { F::zero() });
                let flags = y.tape().constant(flags.into_shared());
                y.cross_entropy(&labels, Some(&half))
                    + y.tanh().mse(constant(1)).scale(F::of(0.7))
                    + y.bce_with_logits(flags)
            }
        }
    }
}

/// Directed or not, with and without self-loops, the last nodes sometimes without any edge.
pub fn graphs() -> impl Strategy<Value = Graph> {
    let pairs = vec((0_u32..9, 0_u32..9), 0..25);
    (1_u32..9, 0_usize..3, any::<bool>(), pairs).prop_map(|(n, loners, directed, pairs)| {
        let edges: Vec<_> = pairs.iter().map(|&(s, t)| (s % n, t % n)).collect();
        let nodes = n as usize + loners;
        let graph = Graph::new(nodes, &edges, Duplicates::Merge, SelfLoops::Keep).expect("valid");
        if directed { graph } else { graph.symmetrise() }
    })
}

/// Any of the losses on any graph with any features.
pub fn problems() -> impl Strategy<Value = Problem> {
    let loss = prop::sample::select(&Loss::ALL[..]);
    (graphs(), 1_usize..6, any::<bool>(), loss, 0..1_u64 << 40).prop_map(
        |(graph, inputs, sparse, loss, seed)| Problem {
            graph,
            inputs,
            sparse,
            loss,
            seed,
        },
    )
}

/// A graph of twelve nodes, some with a self-loop and one isolated, dense features.
pub fn example(inputs: usize, loss: Loss, seed: u64) -> Problem {
    let graph = random_graph(11, 18, seed);
    let loops: Vec<_> = (0..4).map(|i| (i, i)).collect();
    let edges: Vec<_> = graph.edge_list().chain(loops).collect();
    Problem {
        graph: Graph::new(12, &edges, Duplicates::Reject, SelfLoops::Keep).expect("valid"),
        inputs,
        sparse: false,
        loss,
        seed,
    }
}
