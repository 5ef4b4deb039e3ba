//! Long short-term memory.

use super::{check_step, drawn, gated, gates_of};
use crate::autodiff::{Tape, Var};
use crate::init::Rng;
use crate::nn::{Layer, Params, Pass};
use crate::ops::recurrent;
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;

/// The state of an LSTM: two tensors `[n, h]`.
#[derive(Debug, Clone, Copy)]
pub struct LstmState<'t, F: Real> {
    /// h, which is also the output.
    pub hidden: Var<'t, F>,
    /// c.
    pub cell: Var<'t, F>,
}

impl<F: Real> LstmState<'_, F> {
    /// The same numbers as constants on another tape. The next part of a long sequence begins with them, and
    /// no derivative flows back to this part (truncated backpropagation through time).
    pub fn carried<'u>(&self, tape: &'u Tape<F>) -> LstmState<'u, F> {
        LstmState {
            hidden: tape.constant(self.hidden.value()),
            cell: tape.constant(self.cell.value()),
        }
    }
}

/// One step of long short-term memory. Gates keep, change and read a cell c, so that a derivative flows back
/// along the cell without a multiplication by a weight.
///
/// ```text
/// i = σ(W_ii x + b_ii + W_hi h + b_hi)        c' = f ⊙ c + i ⊙ g
/// f = σ(W_if x + b_if + W_hf h + b_hf)        h' = o ⊙ tanh c'
/// g = tanh(W_ig x + b_ig + W_hg h + b_hg)
/// o = σ(W_io x + b_io + W_ho h + b_ho)
/// ```
///
/// Hochreiter and Schmidhuber, "Long Short-Term Memory", Neural Computation 1997, with the forget gate f of
/// Gers et al., "Learning to Forget", 2000.
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]` |
/// | h, h', c, c' | `[n, h]` |
/// | W_i, W_h | `[4h, in]`, `[4h, h]`: i, f, g, o one below the other |
/// | b_i, b_h | `[4h]` |
///
/// Parameters, their order and their first values U(−1/√h, 1/√h) are those of PyTorch's `LSTMCell`; the
/// biases cannot be left out.
///
/// ```
/// use emmy::nn::{LstmCell, LstmState, Module, Pass};
/// use emmy::{Tape, init, tensor::tensor};
/// let mut lstm = LstmCell::<f64>::new(3, 1, &mut init::rng(0));
/// for parameter in lstm.tensors_mut() {
///     parameter.fill(0.0);
/// }
/// // Without weights i = f = o = σ(0) = ½ and g = 0, so c' = c / 2 and h' = ½ tanh c'.
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &lstm);
/// let x = tape.constant(tensor(&[1, 3], vec![1.0, 2.0, 3.0]));
/// let [hidden, cell] = [0.0, 4.0].map(|s| tape.constant(tensor(&[1, 1], vec![s])));
/// let next = lstm.forward(&pass, x, LstmState { hidden, cell });
/// assert_eq!(next.cell.value(), tensor(&[1, 1], vec![2.0]));
/// assert!((next.hidden.value()[[0, 0]] - 0.5 * 2.0_f64.tanh()).abs() < 1e-12);
/// ```
#[derive(Debug, Clone)]
pub struct LstmCell<F: Real> {
    /// W_i.
    pub weight_ih: Tensor<F>,
    /// W_h.
    pub weight_hh: Tensor<F>,
    /// b_i.
    pub bias_ih: Tensor<F>,
    /// b_h.
    pub bias_hh: Tensor<F>,
}
crate::module!(LstmCell: weight_ih = Weight, weight_hh = Weight, bias_ih = Bias, bias_hh = Bias);

impl<F: Real> LstmCell<F> {
    /// A cell of `hidden` neurons for an input of `input` features.
    pub fn new(input: usize, hidden: usize, rng: &mut Rng) -> Self {
        let [weight_ih, weight_hh, bias_ih, bias_hh] = drawn(4, input, hidden, rng);
        Self {
            weight_ih,
            weight_hh,
            bias_ih,
            bias_hh,
        }
    }

    /// The number of features of x.
    pub fn input(&self) -> usize {
        self.weight_ih.shape()[1]
    }

    /// The number of neurons.
    pub fn hidden(&self) -> usize {
        self.weight_hh.shape()[1]
    }

    /// The state h = c = 0 of `rows` rows, with which a sequence begins.
    pub fn start<'t>(&self, pass: &Pass<'t, '_, F>, rows: usize) -> LstmState<'t, F> {
        let zeros = pass
            .tape()
            .constant(Tensor::zeros(vec![rows, self.hidden()]));
        LstmState {
            hidden: zeros,
            cell: zeros,
        }
    }

    /// h' and c', the state after x.
    ///
    /// # Panics
    /// If x is not `[n, in]`, or h or c not `[n, h]`.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        state: LstmState<'t, F>,
    ) -> LstmState<'t, F> {
        let LstmState { hidden: h, cell: c } = state;
        check_step("LstmCell", self.input(), x, self.hidden(), &[h, c]);
        let states = self.steps(pass, x, state);
        LstmState {
            hidden: states.slice(0, 0..1).squeeze(0),
            cell: states.slice(0, 1..2).squeeze(0),
        }
    }

    /// h after each step and c after the last, `[T + 1, n, h]`, for x `[n, T, in]`, or `[n, in]` for one
    /// step.
    ///
    /// They are one output, so that a trace sees everything that the call returns.
    #[track_caller]
    pub(super) fn steps<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        state: LstmState<'t, F>,
    ) -> Var<'t, F> {
        let LstmState { hidden: h, cell: c } = state;
        pass.call(self, &[h, c, x], || {
            let gates = gates_of(x, pass.param(&self.weight_ih));
            let bias = pass.param(&self.bias_ih) + pass.param(&self.bias_hh);
            recurrent::lstm(gates, pass.param(&self.weight_hh), bias, h, c)
        })
    }
}

impl<F: Real> Layer<F> for LstmCell<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let biases = [&self.bias_ih, &self.bias_hh];
        let added = 0..4 * self.hidden();
        Some(gated(params, 3, &self.weight_ih, biases, added))
    }
}
