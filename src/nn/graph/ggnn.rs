//! Gated graph network.

use super::sgc::check_steps;
use super::{CommonOptions, ConvOptions, GraphContext, GraphConv, Site, sum_over};
use crate::autodiff::Var;
use crate::error::Result;
use crate::graph::Neighbourhood;
use crate::init::{self, Rng};
use crate::nn::{GruCell, Input, Layer, Linear, Pass};
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// K times h ← GRU(Σ_{j ∈ N(i)} W_k h_j, h_i): the sum of the messages of the neighbours is the input of a
/// gated recurrent unit, whose state is the representation of the node; it begins with x.
///
/// Li et al., "Gated Graph Sequence Neural Networks", ICLR 2016, Section 3.2, for one kind of edge and with
/// the unit in PyTorch's form ([`GruCell`]).
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]` with in ≤ d; columns of zeros are added up to d |
/// | h | `[n, d]` |
/// | W_k | `[d, d]`, one per step |
///
/// As PyTorch Geometric's `GatedGraphConv`, where the W_k are stored transposed, one after the other. The
/// paper has one W for all steps. All parameters start from U(−1/√d, 1/√d).
///
/// With all weights 0, every gate of the unit is ½ and the state that it proposes is 0: each step halves h. x
/// has one feature, h has two, so a column of zeros is added.
///
/// ```
/// use emmy::graph::{Duplicates, Neighbourhood, SelfLoops};
/// use emmy::nn::{GatedGraphConv, GatedGraphOptions, Pass, entries_mut};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?;
/// let mut layer = GatedGraphConv::<f64>::new(2, GatedGraphOptions { steps: 2 }, &mut init::rng(0));
/// for entry in entries_mut(&mut layer) {
///     entry.tensor.fill(0.0);
/// }
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![4.0, 8.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, &Neighbourhood::of(pair));
/// assert_eq!(y.value(), tensor(&[2, 2], vec![1.0, 0.0, 2.0, 0.0]));
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Conservation laws
/// The layer is transparent. The sum of the messages is multiplied by the weight W_i of the unit, without a
/// function in between. So the rows of all W_k are balanced against the columns of W_i, as matrices. The
/// gates saturate, so no law goes through the unit.
#[derive(Debug, Clone)]
pub struct GatedGraphConv<F: Real> {
    /// W_k, first step to last, without biases.
    pub messages: Vec<Linear<F>>,
    /// The unit.
    pub cell: GruCell<F>,
}
crate::module!(GatedGraphConv: messages in "*" [_, 1, 0], cell as "rnn");

/// The options of [`GatedGraphConv`]. Its unit always has biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatedGraphOptions {
    /// K, the number of steps.
    pub steps: usize,
}

impl<F: Real> GatedGraphConv<F> {
    /// A layer of width d.
    pub fn new(width: usize, options: GatedGraphOptions, rng: &mut Rng) -> Self {
        let bound = (width.max(1) as f64).sqrt().recip();
        let mut message = |_| Linear {
            weight: init::uniform(&[width, width], bound, rng),
            bias: None,
        };
        Self {
            messages: (0..options.steps).map(&mut message).collect(),
            cell: GruCell::new(width, width, rng),
        }
    }

    /// The output `[n, d]`.
    ///
    /// # Panics
    /// If x does not have one row per node, or has more than d features.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        Input::from(x).check_nodes("GatedGraphConv", neighbours.nodes());
        let (shape, width) = (x.shape(), self.cell.hidden());
        assert!(
            shape.len() == 2 && shape[1] <= width,
            "GatedGraphConv: x has shape {shape:?}, it must be [nodes, features] with at most {width} features"
        );
        pass.call(self, &[x], || {
            let sum = sum_over(pass, neighbours.pattern());
            let start = match width - shape[1] {
                0 => x,
                more => x.pad(1, 0, more),
            };
            self.messages.iter().fold(start, |h, message| {
                let heard = sum.matmul(message.forward(pass, h));
                self.cell.forward(pass, heard, h)
            })
        })
    }
}

impl<F: Real> Layer<F> for GatedGraphConv<F> {}

impl ConvOptions for GatedGraphOptions {
    type Layer<F: Real> = GatedGraphConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> GatedGraphConv<F> {
        GatedGraphConv::new(at.width, *self, rng)
    }

    fn validate(&self, at: Site) -> Result<()> {
        check_steps(self.steps, 1)?;
        at.check_equal_widths(self)
    }

    fn weights(&self) -> usize {
        // Those of the unit have three times as many rows.
        self.steps.saturating_add(6)
    }

    fn common(&mut self) -> CommonOptions<'_> {
        CommonOptions {
            steps: Some(&mut self.steps),
            ..CommonOptions::default()
        }
    }
}

impl<F: Real> GraphConv<F> for GatedGraphConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        context: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        self.forward(pass, x.to_dense(), context.neighbours)
    }
}
