//! Weights with which a ReLU network starts as a linear one.

use crate::real::Real;
use crate::tensor::{Tensor, tensor};

/// Where a layer stands in its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Before all others.
    First,
    /// Between others.
    Hidden,
    /// After all others.
    Last,
    /// There are no others.
    Only,
}

impl Position {
    /// The position of layer `l`, from 0, of `layers`.
    pub fn of(l: usize, layers: usize) -> Self {
        match (l == 0, l + 1 >= layers) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, false) => Self::Hidden,
            (false, true) => Self::Last,
        }
    }
}

/// A looks-linear weight `[out, in]`: hidden neurons come in pairs, and the weights of the second of a pair
/// are minus those of the first.
///
/// | layer | weight | D |
/// |---|---|---|
/// | first | [D; −D] | `[⌈out/2⌉, in]` |
/// | hidden | [[D, −D], [−D, D]] | `[⌈out/2⌉, ⌈in/2⌉]` |
/// | last | [D, −D] | `[out, ⌈in/2⌉]` |
/// | only | D | `[out, in]` |
///
/// After a ReLU a pair holds relu(u) and relu(−u), and the next layer takes their difference, u: the network
/// computes the product of its D, as a linear network would. `block` draws D for the shape it is given.
/// Neuron j is paired with neuron j + ⌈n/2⌉; if the number is odd, the mirrored half lacks its last row or
/// column, so that one neuron has no partner and keeps only relu(u).
///
/// Shang et al., "Understanding and Improving Convolutional Neural Networks via Concatenated Rectified Linear
/// Units", ICML 2016, for the pairs; Balduzzi et al., "The Shattered Gradients Problem", ICML 2017, for the
/// initialisation.
///
/// # Panics
/// If `block` gives another shape than it is asked for.
#[track_caller]
pub fn looks_linear<F: Real>(
    out: usize,
    input: usize,
    position: Position,
    block: impl FnOnce(usize, usize) -> Tensor<F>,
) -> Tensor<F> {
    // The numbers of rows and columns that are not mirrored.
    let (rows, columns) = match position {
        Position::First => (out.div_ceil(2), input),
        Position::Hidden => (out.div_ceil(2), input.div_ceil(2)),
        Position::Last => (out, input.div_ceil(2)),
        Position::Only => (out, input),
    };
    let d = block(rows, columns);
    assert_eq!(
        d.shape(),
        [rows, columns],
        "looks_linear: a block for {out} neurons of {input}, {position:?} layer"
    );
    let entry = |k: usize| {
        let (i, j) = (k / input, k % input);
        let x = d[[i % rows, j % columns]];
        if (i >= rows) == (j >= columns) { x } else { -x }
    };
    tensor(&[out, input], (0..out * input).map(entry).collect())
}

/// Ones on the diagonal of `[out, in]`, zeros elsewhere; with in = out the identity.
pub fn identity<F: Real>(out: usize, input: usize) -> Tensor<F> {
    let one = |k: usize| {
        if k / input == k % input {
            F::one()
        } else {
            F::zero()
        }
    };
    tensor(&[out, input], (0..out * input).map(one).collect())
}
