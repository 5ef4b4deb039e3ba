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

#[cfg(test)]
mod tests {
    use super::*;

    /// D with entries 1, 2, …, row by row.
    fn counted(out: usize, input: usize) -> Tensor<f64> {
        let entries = (1..=out * input).map(|k| k as f64).collect();
        tensor(&[out, input], entries)
    }

    fn drawn(out: usize, input: usize, position: Position) -> Vec<f64> {
        let w = looks_linear(out, input, position, counted);
        assert_eq!(w.shape(), [out, input]);
        w.iter().copied().collect()
    }

    #[test]
    #[rustfmt::skip]
    fn blocks_are_those_of_the_paper() {
        assert_eq!(drawn(4, 2, Position::First), [
            1.0, 2.0,
            3.0, 4.0,
            -1.0, -2.0,
            -3.0, -4.0,
        ]);
        assert_eq!(drawn(2, 4, Position::Hidden), [
            1.0, 2.0, -1.0, -2.0,
            -1.0, -2.0, 1.0, 2.0,
        ]);
        assert_eq!(drawn(2, 4, Position::Last), [
            1.0, 2.0, -1.0, -2.0,
            3.0, 4.0, -3.0, -4.0,
        ]);
        assert_eq!(drawn(1, 3, Position::Only), [1.0, 2.0, 3.0]);
    }

    #[test]
    #[rustfmt::skip]
    fn of_odd_widths_the_mirrored_half_is_cut() {
        assert_eq!(drawn(3, 1, Position::First), [1.0, 2.0, -1.0]);
        assert_eq!(drawn(3, 3, Position::Hidden), [
            1.0, 2.0, -1.0,
            3.0, 4.0, -3.0,
            -1.0, -2.0, 1.0,
        ]);
        assert_eq!(drawn(1, 3, Position::Last), [1.0, 2.0, -1.0]);
        assert_eq!(drawn(1, 1, Position::Hidden), [1.0]);
    }

    #[test]
    fn positions() {
        use Position::{First, Hidden, Last, Only};
        assert_eq!([0, 1, 2].map(|l| Position::of(l, 3)), [First, Hidden, Last]);
        assert_eq!(Position::of(0, 1), Only);
    }

    #[test]
    #[rustfmt::skip]
    fn identities_are_cut_to_shape() {
        let entries = |out, input| identity::<f32>(out, input).into_iter().collect::<Vec<_>>();
        assert_eq!(entries(2, 3), [
            1.0, 0.0, 0.0,
            0.0, 1.0, 0.0,
        ]);
        assert_eq!(entries(2, 1), [1.0, 0.0]);
    }

    #[test]
    #[should_panic(expected = "looks_linear: a block for 4 neurons of 2, First layer")]
    fn a_block_has_the_shape_asked_for() {
        let _ = looks_linear(4, 2, Position::First, |out, _| counted(out, 1));
    }
}
