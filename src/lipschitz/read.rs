//! The network of linear maps and activations that ends at a node of a tape.
//!
//! # Maps that mix rows
//! A network acts on rows: the weights act along the last axis, and all rows share them. A propagation over a
//! graph, S, mixes the rows instead. In a chain of layers with l u ≤ 0, S counts as a factor of the weights
//! that it stands beside, its norm ‖S‖:
//!
//! Take the same multipliers for every row. The form P of all rows ([`joint`](super::joint)) is linear in
//! each S, but for terms l u λ Aᵀ A ⊗ Sᵀ S, which are at least l u λ Aᵀ A ⊗ ‖S‖² I since l u ≤ 0. A matrix
//! with ‖S‖ ≤ c is c times a part V* U V of a unitary matrix U (Halmos, "Normal dilations and extensions of
//! operators", 1950), and the same part of a positive definite form is positive definite. So it is enough
//! that P is so for unitary matrices. In a chain each block meets its two neighbours alone: block by block
//! the unitary matrices become a change of basis, and P has the eigenvalues of the form of one row with c A
//! in place of A. With a residual connection the blocks form circles, and this is not possible.

use super::known::{Domain, Known};
use super::matrix::{Matrix, product_norm};
use super::sparse;
use super::whole::{Layer, Path, Step, Whole};
use crate::autodiff::{Function, Kind, Map, Tape};
use crate::linalg::{Lp, Upper};
use crate::real::Real;
use std::collections::{BTreeSet, HashMap};

/// The most neurons of a network whose bound is searched for unasked, as one of several bounds. The search
/// takes about a second for so many, and six for twice as many; [`joint`](super::joint) itself has a limit of
/// 8192.
const MOST_NEURONS: usize = 256;

/// The slopes of neurons that are linear maps.
const LINEAR: [f64; 2] = [1.0; 2];

/// What a node is in a network.
enum Part {
    /// Nothing that is known: the input of the network.
    Input,
    /// σ of this node.
    Neurons(usize, Function),
    /// A sum of maps of nodes, and of what does not depend on the input.
    Sum(Vec<(usize, Step)>),
}

/// Whether a node belongs to a network of neurons and linear maps, so that a bound of a later node may take
/// in more than this one.
pub(super) fn is_part<F: Real>(known: &Known<'_, F>, id: usize) -> bool {
    !matches!(part(known, id), Part::Input)
}

/// The network that ends at node `y`, back to the first node that is not part of one; `None` if it has one
/// layer and no residual connection, or linear maps alone (there are other bounds for these), two inputs, or
/// too many neurons. Between two matrices without an activation, as behind a residual connection, stands a
/// layer of neurons with the one slope 1: their product would be rounded.
pub(super) fn network_at<F: Real>(known: &Known<'_, F>, y: usize) -> Option<Whole> {
    if known.p != Lp::Two {
        return None;
    }
    let mut reader = Reader {
        known,
        layers: Vec::new(),
        paths: HashMap::new(),
        input: None,
    };
    // In the order of the tape, since a walk back from y would go as deep as the network.
    for id in ancestors(known, y) {
        reader.paths(id)?;
    }
    let output = reader.paths(y)?;
    let Reader { layers, input, .. } = reader;
    let on_ball = matches!(known.domain, Domain::Ball(_));
    let deep = layers.len() > 1 || layers.len() == 1 && (output.len() > 1 || on_ball);
    let all: usize = layers.iter().map(|l| l.count).sum();
    let bent = layers.iter().filter(|l| l.slopes != LINEAR);
    let bent: usize = bent.map(|l| l.count).sum();
    let few = (1..=MOST_NEURONS).contains(&bent) && all <= 2 * MOST_NEURONS;
    let input = input.filter(|_| deep && few)?;
    let network = Whole {
        input,
        inputs: width(known, input),
        layers,
        output,
        mixes: false,
    };
    without_mixing(network, known.tape)
}

/// The nodes of the network that ends at node `y`.
fn ancestors<F: Real>(known: &Known<'_, F>, y: usize) -> BTreeSet<usize> {
    let (mut all, mut next) = (BTreeSet::new(), vec![y]);
    while let Some(id) = next.pop() {
        if all.insert(id) {
            match part(known, id) {
                Part::Input => {}
                Part::Neurons(argument, _) => next.push(argument),
                Part::Sum(parts) => next.extend(parts.into_iter().map(|(id, _)| id)),
            }
        }
    }
    all
}

/// The network of one row, in which maps that mix rows are factors; `None` where that is not sound.
fn without_mixing<F: Real>(mut network: Whole, tape: &Tape<F>) -> Option<Whole> {
    if network.paths().all(|path| path.step.mixing.is_empty()) {
        return Some(network);
    }
    let reads = network.layers.iter().map(|l| &l.reads);
    let mut reads = reads.chain([&network.output]).enumerate();
    if !reads.all(|(k, reads)| matches!(&reads[..], [path] if path.block == k)) {
        return None;
    }
    drop(reads);
    network.mixes = true;
    for layer in &mut network.layers {
        let [l, u] = layer.slopes;
        layer.slopes = [l.min(0.0), u.max(0.0)];
    }
    let layers = network.layers.iter_mut().flat_map(|l| &mut l.reads);
    for Path { step, .. } in layers.chain(&mut network.output) {
        let norms = step.mixing.iter().map(|&id| norm_over_rows(tape, id));
        step.factor *= norms.product::<Upper>().get();
        step.roundings += 1;
    }
    Some(network)
}

/// The walk from an output backwards.
struct Reader<'k, 't, F: Real> {
    known: &'k Known<'t, F>,
    layers: Vec<Layer>,
    paths: HashMap<usize, Vec<Path>>,
    /// The node that is block 0.
    input: Option<usize>,
}

impl<F: Real> Reader<'_, '_, F> {
    /// The node as a sum of maps of blocks; `None` if it belongs to a second input.
    fn paths(&mut self, id: usize) -> Option<Vec<Path>> {
        if let Some(known) = self.paths.get(&id) {
            return Some(known.clone());
        }
        let paths = match part(self.known, id) {
            Part::Input => {
                if *self.input.get_or_insert(id) != id {
                    return None;
                }
                vec![Path {
                    block: 0,
                    step: Step::IDENTITY,
                }]
            }
            Part::Neurons(argument, function) => {
                let reads = self.paths(argument)?;
                self.layer(id, reads, Some((argument, function)))
            }
            Part::Sum(parts) => {
                let mut sum = Vec::new();
                for (id, next) in parts {
                    let mut paths = self.paths(id)?;
                    if next.matrix.is_some() && paths.iter().any(|p| p.step.matrix.is_some()) {
                        paths = self.layer(id, paths, None);
                        self.paths.insert(id, paths.clone());
                    }
                    let paths = paths.into_iter();
                    sum.extend(paths.map(|Path { block, step }| Path {
                        block,
                        step: step.then(&next),
                    }));
                }
                sum
            }
        };
        self.paths.insert(id, paths.clone());
        Some(paths)
    }

    /// Adds the layer whose values are node `id`, and gives its values.
    fn layer(
        &mut self,
        id: usize,
        reads: Vec<Path>,
        function: Option<(usize, Function)>,
    ) -> Vec<Path> {
        self.layers.push(Layer {
            reads,
            count: width(self.known, id),
            slopes: function.as_ref().map_or(LINEAR, |(_, f)| f.slopes),
            function,
        });
        vec![Path {
            block: self.layers.len(),
            step: Step::IDENTITY,
        }]
    }
}

/// The length of the rows of a node.
fn width<F: Real>(known: &Known<'_, F>, id: usize) -> usize {
    let node = known.tape.node(id);
    node.shape.last().copied().unwrap_or(1)
}

fn part<F: Real>(known: &Known<'_, F>, id: usize) -> Part {
    let node = known.tape.node(id);
    let size = |id: usize| known.tape.handle(id).len();
    let dimensions = |id: usize| known.tape.node(id).shape.len();
    let one = |k: usize, step: Step| Part::Sum(vec![(node.args[k], step)]);
    let moves: Vec<bool> = node.args.iter().map(|&a| known.moves(a)).collect();
    if !moves.contains(&true) {
        return Part::Input;
    }
    match (&node.kind, &moves[..]) {
        (Kind::Alias | Kind::Declared(_) | Kind::AddScalar(_), _) => one(0, Step::IDENTITY),
        (Kind::Scale(factor), _) => one(0, Step::scale(*factor)),
        (Kind::Entrywise(function), _) => {
            let [l, u] = function.slopes;
            match l < u && function.steepest().is_finite() {
                true => Part::Neurons(node.args[0], *function),
                false => Part::Input,
            }
        }
        (Kind::Linear(Map::Reshape), _) if width(known, id) == width(known, node.args[0]) => {
            one(0, Step::IDENTITY)
        }
        (Kind::Add | Kind::Subtract, _) => {
            let second = if matches!(node.kind, Kind::Add) {
                1.0
            } else {
                -1.0
            };
            let parts = node.args.iter().zip([1.0, second]).zip(&moves);
            let moving = parts.filter(|(_, moves)| **moves);
            let parts: Vec<_> = moving.map(|((&arg, c), _)| (arg, Step::scale(c))).collect();
            match parts.iter().all(|(arg, _)| size(*arg) == size(id)) {
                true => Part::Sum(parts),
                false => Part::Input,
            }
        }
        (Kind::MatMul { transposed }, [true, false]) if dimensions(node.args[1]) == 2 => {
            let weights = Matrix::from(node.args[1]);
            let matrix = Some(if *transposed { weights } else { weights.t() });
            let step = Step {
                matrix,
                ..Step::IDENTITY
            };
            one(0, step)
        }
        // S x for a matrix x and one matrix S, not one per head.
        (
            kind @ (Kind::MatMul { transposed: false } | Kind::SparseProduct { .. }),
            [false, true],
        ) if dimensions(id) == 2
            && dimensions(node.args[0]) == 1 + usize::from(matches!(kind, Kind::MatMul { .. })) =>
        {
            let step = Step {
                mixing: vec![id],
                ..Step::IDENTITY
            };
            one(1, step)
        }
        _ => Part::Input,
    }
}

/// The norm of the map that a node applies to the rows of its second operand.
fn norm_over_rows<F: Real>(tape: &Tape<F>, id: usize) -> Upper {
    let node = tape.node(id);
    match &node.kind {
        Kind::SparseProduct {
            pattern,
            transposed,
        } => {
            let values = tape.value(node.args[0]).mapv(Real::as_f64);
            let values: Vec<f64> = values.iter().copied().collect();
            sparse::matrix_norm(pattern, &values, *transposed, Lp::Two)
        }
        _ => product_norm(Lp::Two, &[Matrix::from(node.args[0]).values(tape)]),
    }
}
