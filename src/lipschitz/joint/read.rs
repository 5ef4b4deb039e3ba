//! Networks read off a tape: which nodes are neurons, which maps they read, and the bound of the network as a
//! formula over the tape.
//!
//! # Maps that mix rows
//! A network acts on rows: the weights act along the last axis, and all rows share them. A propagation over a
//! graph, S, mixes the rows instead. In a chain of layers with l u ≤ 0, S counts as a factor of the weights
//! that it stands beside, its norm ‖S‖:
//!
//! Write Z for the multipliers of one row. The form M of all rows is linear in each S, but for terms l u λ
//! Aᵀ A ⊗ Sᵀ S, which are at least l u λ Aᵀ A ⊗ ‖S‖² I since l u ≤ 0. A matrix with ‖S‖ ≤ c is c times a part
//! V* U V of a unitary U (Halmos 1950), and a part of a positive matrix is positive. So it is enough that M is
//! positive for unitary S. In a chain each block meets its neighbours alone: block by block the unitary
//! matrices can be moved into a change of basis, and M has the eigenvalues of the form of one row, with c A
//! in place of A. With a residual connection blocks form circles, and that is not possible.

use super::sensitivity::sensitivity;
use super::{Network, Neurons};
use crate::autodiff::{Kind, Map, Tape, Var};
use crate::linalg::{Lp, Upper};
use crate::lipschitz::known::Known;
use crate::lipschitz::matrix::{Matrix, product_norm};
use crate::lipschitz::sparse;
use crate::real::Real;
use crate::tensor::scalar;
use ndarray::Array2;
use std::collections::HashMap;

/// The most neurons of a network whose bound is searched for unasked, as one of several bounds. It takes about
/// a second.
const MOST_NEURONS: usize = 512;

/// A network on a tape, between a node and another.
#[derive(Debug)]
pub(in crate::lipschitz) struct Recorded {
    /// The node that is the input, and the length of its rows.
    pub input: usize,
    inputs: usize,
    layers: Vec<Layer>,
    output: Vec<Path>,
}

/// Neurons v = σ(y), all with the same slopes.
#[derive(Debug, Clone)]
struct Layer {
    reads: Vec<Path>,
    count: usize,
    slopes: [f64; 2],
}

/// A linear map of a block.
#[derive(Debug, Clone)]
struct Path {
    block: usize,
    step: Step,
}

/// A factor times a matrix, or times the identity, and maps that mix rows.
#[derive(Debug, Clone)]
struct Step {
    factor: f64,
    matrix: Option<Matrix>,
    /// The nodes that are maps which mix rows.
    mixing: Vec<usize>,
}

impl Step {
    const IDENTITY: Self = Self {
        factor: 1.0,
        matrix: None,
        mixing: Vec::new(),
    };

    /// The map that is this one first, then another; `None` for two matrices, whose product is rounded.
    fn then(&self, next: &Self) -> Option<Self> {
        if self.matrix.is_some() && next.matrix.is_some() {
            return None;
        }
        Some(Self {
            factor: self.factor * next.factor,
            matrix: self.matrix.clone().or_else(|| next.matrix.clone()),
            mixing: [&self.mixing[..], &next.mixing].concat(),
        })
    }
}

/// What a node is in a network.
enum Part {
    /// Nothing that is known: the input of the network.
    Input,
    /// σ of this node, with these slopes.
    Neurons(usize, [f64; 2]),
    /// A sum of maps of nodes, and of what does not depend on the input.
    Sum(Vec<(usize, Step)>),
}

/// Whether a node belongs to a network of neurons and linear maps, so that a bound of a later node may take in
/// more than this one.
pub(in crate::lipschitz) fn is_part<F: Real>(known: &Known<'_, F>, id: usize) -> bool {
    !matches!(part(known, id), Part::Input)
}

impl Recorded {
    /// The network that ends at node `y`, back to the first node that is not part of one; `None` if it has
    /// fewer than two layers of neurons and no residual connection (there are other bounds for these), two
    /// inputs, or too many neurons.
    pub fn ending_at<F: Real>(known: &Known<'_, F>, y: usize) -> Option<Self> {
        if known.p != Lp::Two {
            return None;
        }
        let mut reader = Reader {
            known,
            layers: Vec::new(),
            paths: HashMap::new(),
            input: None,
        };
        let output = reader.paths(y)?;
        let Reader { layers, input, .. } = reader;
        let neurons: usize = layers.iter().map(|l| l.count).sum();
        let deep = layers.len() > 1 || layers.len() == 1 && output.len() > 1;
        let input = input.filter(|_| deep && neurons <= MOST_NEURONS)?;
        let mut network = Self {
            input,
            inputs: width(known, input),
            layers,
            output,
        };
        network.settle_mixing(known)?;
        Some(network)
    }

    /// The maps of all layers, then those of the output.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.layers
            .iter()
            .flat_map(|l| &l.reads)
            .chain(&self.output)
    }

    /// Moves maps that mix rows into the factors, where that is sound.
    fn settle_mixing<F: Real>(&mut self, known: &Known<'_, F>) -> Option<()> {
        if self.paths().all(|path| path.step.mixing.is_empty()) {
            return Some(());
        }
        let reads = self.layers.iter().map(|l| &l.reads).chain([&self.output]);
        let chain =
            (reads.enumerate()).all(|(k, reads)| matches!(&reads[..], [path] if path.block == k));
        if !chain {
            return None;
        }
        for layer in &mut self.layers {
            let [l, u] = layer.slopes;
            layer.slopes = [l.min(0.0), u.max(0.0)];
        }
        let layers = self.layers.iter_mut().flat_map(|l| &mut l.reads);
        for Path { step, .. } in layers.chain(&mut self.output) {
            let norms = step.mixing.iter().map(|&id| norm_over_rows(known.tape, id));
            step.factor *= norms.product::<Upper>().get();
        }
        Some(())
    }

    /// The network with the values of the tape.
    fn network<F: Real>(&self, tape: &Tape<F>) -> Option<Network> {
        let mut sizes = vec![self.inputs];
        sizes.extend(self.layers.iter().map(|l| l.count));
        let read = |Path { block, step }: &Path| {
            let map = match &step.matrix {
                Some(matrix) => matrix.values(tape).swap_remove(0),
                None => Array2::eye(sizes[*block]),
            };
            (*block, map * step.factor)
        };
        let reads = |paths: &[Path]| paths.iter().map(read).collect();
        let layers = self.layers.iter().map(|layer| Neurons {
            reads: reads(&layer.reads),
            slopes: vec![layer.slopes; layer.count],
        });
        let mut network = Network::new(self.inputs, layers.collect(), reads(&self.output)).ok()?;
        if self.paths().any(|path| path.step.factor.abs() != 1.0) {
            // That of the factor, which may be a product, and that of its product with an entry.
            network.roundings = 4;
        }
        Some(network)
    }

    /// The proven constant; infinite if there is none.
    pub fn upper<F: Real>(&self, tape: &Tape<F>) -> Upper {
        let certificate = self
            .network(tape)
            .and_then(|network| network.certify().ok());
        certificate.map_or(Upper::INFINITE, |c| Upper::new(c.lipschitz))
    }

    /// The constant as a variable. By the envelope theorem its derivative is that of the smallest τ with the
    /// multipliers held fixed: the search is not differentiated. Second derivatives are 0.
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Option<Var<'t, F>> {
        let (lipschitz, slopes) = sensitivity(&self.network(tape)?)?;
        let mut moved = tape.constant(scalar(F::zero()));
        for (Path { step, .. }, slope) in self.paths().zip(slopes) {
            let Some(matrix) = &step.matrix else { continue };
            let slope = slope.mapv(|x| F::of(x * step.factor)).into_dyn();
            moved = moved + (matrix.var(tape) * tape.constant(slope.into_shared())).sum_all();
        }
        let level = F::of(lipschitz) - moved.item();
        Some(moved.add_scalar(level))
    }
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
            Part::Neurons(argument, slopes) => {
                let reads = self.paths(argument)?;
                self.layers.push(Layer {
                    reads,
                    count: width(self.known, id),
                    slopes,
                });
                vec![Path {
                    block: self.layers.len(),
                    step: Step::IDENTITY,
                }]
            }
            Part::Sum(parts) => {
                let mut sum = Vec::new();
                for (id, next) in parts {
                    for Path { block, step } in self.paths(id)? {
                        let step = step.then(&next)?;
                        sum.push(Path { block, step });
                    }
                }
                sum
            }
        };
        self.paths.insert(id, paths.clone());
        Some(paths)
    }
}

/// The length of the rows of a node.
fn width<F: Real>(known: &Known<'_, F>, id: usize) -> usize {
    known
        .tape
        .node(id)
        .value
        .shape()
        .last()
        .copied()
        .unwrap_or(1)
}

fn part<F: Real>(known: &Known<'_, F>, id: usize) -> Part {
    let node = known.tape.node(id);
    let size = |id: usize| known.tape.node(id).value.len();
    let dimensions = |id: usize| known.tape.node(id).value.ndim();
    let one = |k: usize, step: Step| Part::Sum(vec![(node.args[k], step)]);
    let moves: Vec<bool> = node.args.iter().map(|&a| known.moves(a)).collect();
    if !moves.contains(&true) {
        return Part::Input;
    }
    // S x for a matrix x and one matrix S, not one per head.
    let mixes_rows = match node.kind {
        Kind::MatMul { .. } => dimensions(node.args[0]) == 2,
        _ => dimensions(node.args[0]) == 1,
    } && dimensions(id) == 2;
    match (&node.kind, &moves[..]) {
        (Kind::Alias | Kind::Declared(_) | Kind::AddScalar(_), _) => one(0, Step::IDENTITY),
        (Kind::Scale(factor), _) => one(
            0,
            Step {
                factor: *factor,
                ..Step::IDENTITY
            },
        ),
        (Kind::Entrywise(function), _) => {
            let [l, u] = function.slopes;
            match l < u && function.steepest().is_finite() {
                true => Part::Neurons(node.args[0], [l, u]),
                false => Part::Input,
            }
        }
        (Kind::Linear(Map::Reshape), _) if width(known, id) == width(known, node.args[0]) => {
            one(0, Step::IDENTITY)
        }
        (Kind::Add | Kind::Subtract, _) => {
            let sign = match node.kind {
                Kind::Subtract => -1.0,
                _ => 1.0,
            };
            let parts = node.args.iter().zip([1.0, sign]).zip(&moves);
            let parts = parts
                .filter(|(_, moves)| **moves)
                .map(|((&arg, factor), _)| {
                    (
                        arg,
                        Step {
                            factor,
                            ..Step::IDENTITY
                        },
                    )
                });
            let parts: Vec<_> = parts.collect();
            match parts.iter().all(|(arg, _)| size(*arg) == size(id)) {
                true => Part::Sum(parts),
                false => Part::Input,
            }
        }
        (Kind::MatMul { transposed }, [true, false]) if dimensions(node.args[1]) == 2 => {
            let weights = Matrix::from(node.args[1]);
            let matrix = if *transposed { weights } else { weights.t() };
            one(
                0,
                Step {
                    matrix: Some(matrix),
                    ..Step::IDENTITY
                },
            )
        }
        (Kind::MatMul { transposed: false } | Kind::SparseProduct { .. }, [false, true])
            if mixes_rows =>
        {
            one(
                1,
                Step {
                    mixing: vec![id],
                    ..Step::IDENTITY
                },
            )
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
            let values = tape.node(node.args[0]).value.mapv(Real::as_f64);
            let values: Vec<f64> = values.iter().copied().collect();
            sparse::matrix_norm(pattern, &values, *transposed, Lp::Two)
        }
        _ => product_norm(Lp::Two, &[Matrix::from(node.args[0]).values(tape)]),
    }
}
