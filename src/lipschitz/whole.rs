//! A network of linear maps and activations on a tape, and its bound as a whole: the certified number, and a
//! variable.

use super::joint::{self, Network, Neurons};
use super::matrix::Matrix;
use crate::autodiff::{Function, Tape, Var};
use crate::error::Result;
use crate::linalg::Upper;
use crate::real::Real;
use crate::tensor::scalar;
use ndarray::Array2;

/// A network on a tape, between a node and another.
#[derive(Debug)]
pub(super) struct Whole {
    /// The node that is the input, block 0.
    pub input: usize,
    /// The length of its rows.
    pub inputs: usize,
    pub layers: Vec<Layer>,
    pub output: Vec<Path>,
    /// Whether maps that mix rows are among the factors.
    pub mixes: bool,
}

/// Neurons v = σ(y), all with the same slopes.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub reads: Vec<Path>,
    pub count: usize,
    pub slopes: [f64; 2],
    /// The node of y, and σ; nothing for linear maps.
    pub function: Option<(usize, Function)>,
}

/// A linear map of a block.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub block: usize,
    pub step: Step,
}

/// A factor times a matrix, or times the identity, and maps that mix rows.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub factor: f64,
    /// How often the factor was rounded.
    pub roundings: usize,
    pub matrix: Option<Matrix>,
    /// The nodes that are maps which mix rows.
    pub mixing: Vec<usize>,
}

impl Step {
    pub const IDENTITY: Self = Self {
        factor: 1.0,
        roundings: 0,
        matrix: None,
        mixing: Vec::new(),
    };

    /// x ↦ c x.
    pub fn scale(factor: f64) -> Self {
        Self {
            factor,
            ..Self::IDENTITY
        }
    }

    /// The map that is this one first, then another. One of them at most has a matrix: the product of two
    /// would be rounded.
    pub fn then(&self, next: &Self) -> Self {
        assert!(
            self.matrix.is_none() || next.matrix.is_none(),
            "a step with two matrices"
        );
        Self {
            factor: self.factor * next.factor,
            roundings: self.roundings + next.roundings + 1,
            matrix: self.matrix.clone().or_else(|| next.matrix.clone()),
            mixing: [&self.mixing[..], &next.mixing].concat(),
        }
    }
}

impl Whole {
    /// The maps of all layers, then those of the output.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.layers
            .iter()
            .flat_map(|l| &l.reads)
            .chain(&self.output)
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
        let network = Network::new(self.inputs, layers.collect(), reads(&self.output)).ok()?;
        // A product with ±1 is exact. That of any other factor with an entry is rounded once more.
        let inexact = self.paths().filter(|path| path.step.factor.abs() != 1.0);
        let roundings = inexact.map(|path| path.step.roundings + 1).max();
        Some(network.with_roundings(roundings.unwrap_or(0)))
    }

    /// The proven constant, on the ball of this radius if there is one; infinite if there is none.
    pub fn upper<F: Real>(&self, tape: &Tape<F>, radius: Option<Upper>) -> Upper {
        let Some(network) = self.network(tape) else {
            return Upper::INFINITE;
        };
        let constant = |network: Network| network.lipschitz().unwrap_or(Upper::INFINITE);
        let near = radius.filter(|radius| radius.is_finite()).map(|radius| {
            let near = self.within(&network, tape, radius);
            near.map_or(Upper::INFINITE, constant)
        });
        let everywhere = constant(network);
        near.map_or(everywhere, |near| near.min(everywhere))
    }

    /// The network with the slopes that its neurons have on the ball of this radius, in any row.
    fn within<F: Real>(&self, network: &Network, tape: &Tape<F>, radius: Upper) -> Result<Network> {
        let arguments: Vec<Option<Array2<f64>>> = (self.layers.iter())
            .map(|layer| {
                let (node, _) = layer.function.as_ref()?;
                let value = tape.value(*node).mapv(Real::as_f64);
                let value = value.as_standard_layout().into_owned();
                let rows = value.len() / layer.count.max(1);
                let value = value.into_shape_with_order((rows, layer.count));
                Some(value.expect("rows of neurons"))
            })
            .collect();
        network.within(radius.get(), |k, i, distance| {
            let layer = &self.layers[k];
            let (Some((_, function)), Some(arguments)) = (&layer.function, &arguments[k]) else {
                return layer.slopes;
            };
            let [mut low, mut high] = match self.mixes {
                true => [0.0; 2],
                false => [f64::INFINITY, f64::NEG_INFINITY],
            };
            for y in arguments.column(i) {
                let ends = [(y - distance).next_down(), (y + distance).next_up()];
                let [l, u] = function.slopes_on(ends[0], ends[1]);
                (low, high) = (low.min(l), high.max(u));
            }
            [low, high]
        })
    }

    /// The constant as a variable. By the envelope theorem its derivative is that of the smallest τ with the
    /// multipliers held fixed: the search is not differentiated. Second derivatives are 0.
    pub fn var<'t, F: Real>(&self, tape: &'t Tape<F>) -> Option<Var<'t, F>> {
        let (lipschitz, slopes) = joint::sensitivity(&self.network(tape)?)?;
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
