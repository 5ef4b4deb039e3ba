//! The gated recurrent unit.

use super::{check_step, drawn, gated, gates_of};
use crate::autodiff::Var;
use crate::init::Rng;
use crate::nn::{Layer, Params, Pass};
use crate::ops::recurrent;
use crate::real::Real;
use crate::symmetry::Ports;
use crate::tensor::Tensor;

/// One step of a gated recurrent unit: a gate z decides, for each neuron, between its old value and a new
/// one.
///
/// ```text
/// r = σ(W_ir x + b_ir + W_hr h + b_hr)
/// z = σ(W_iz x + b_iz + W_hz h + b_hz)
/// n = tanh(W_in x + b_in + r ⊙ (W_hn h + b_hn))
/// h' = (1 − z) ⊙ n + z ⊙ h
/// ```
///
/// Cho et al., "Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine
/// Translation", EMNLP 2014, Eq. (5) to (8), in PyTorch's form: r multiplies W_hn h + b_hn, not h, and there
/// are two biases per gate.
///
/// | letter | shape |
/// |---|---|
/// | x | `[n, in]` |
/// | h, h' | `[n, h]` |
/// | W_i, W_h | `[3h, in]`, `[3h, h]`: r, z, n one below the other |
/// | b_i, b_h | `[3h]` |
///
/// Parameters, their order and their first values U(−1/√h, 1/√h) are those of PyTorch's `GRUCell`; the biases
/// cannot be left out.
///
/// ```
/// use emmy::nn::{GruCell, Module, Pass};
/// use emmy::{Tape, init, tensor::tensor};
/// let mut cell = GruCell::<f64>::new(3, 1, &mut init::rng(0));
/// for parameter in cell.tensors_mut() {
///     parameter.fill(0.0);
/// }
/// // Without weights z = σ(0) = ½ and n = 0, so h' = h / 2.
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &cell);
/// let x = tape.constant(tensor(&[1, 3], vec![1.0, 2.0, 3.0]));
/// let h = tape.constant(tensor(&[1, 1], vec![8.0]));
/// assert_eq!(cell.forward(&pass, x, h).value(), tensor(&[1, 1], vec![4.0]));
/// ```
#[derive(Debug, Clone)]
pub struct GruCell<F: Real> {
    /// W_i.
    pub weight_ih: Tensor<F>,
    /// W_h.
    pub weight_hh: Tensor<F>,
    /// b_i.
    pub bias_ih: Tensor<F>,
    /// b_h.
    pub bias_hh: Tensor<F>,
}
crate::module!(GruCell: weight_ih = Weight, weight_hh = Weight, bias_ih = Bias, bias_hh = Bias);

impl<F: Real> GruCell<F> {
    /// A unit of `hidden` neurons for an input of `input` features.
    pub fn new(input: usize, hidden: usize, rng: &mut Rng) -> Self {
        let [weight_ih, weight_hh, bias_ih, bias_hh] = drawn(3, input, hidden, rng);
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

    /// The state h = 0 of `rows` rows, with which a sequence begins.
    pub fn start<'t>(&self, pass: &Pass<'t, '_, F>, rows: usize) -> Var<'t, F> {
        pass.tape()
            .constant(Tensor::zeros(vec![rows, self.hidden()]))
    }

    /// h', the state after x.
    ///
    /// # Panics
    /// If x is not `[n, in]`, or h not `[n, h]`.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, h: Var<'t, F>) -> Var<'t, F> {
        check_step("GruCell", self.input(), x, self.hidden(), &[h]);
        self.steps(pass, x, h)
    }

    /// h after each step, `[T, n, h]`, for x `[n, T, in]`; h after one step, `[n, h]`, for x `[n, in]`.
    #[track_caller]
    pub(super) fn steps<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        h: Var<'t, F>,
    ) -> Var<'t, F> {
        pass.call(self, &[h, x], || {
            let gates = gates_of(x, pass.param(&self.weight_ih)) + pass.param(&self.bias_ih);
            let bias = pass.param(&self.bias_hh);
            let states = recurrent::gru(gates, pass.param(&self.weight_hh), bias, h);
            match x.ndim() {
                2 => states.squeeze(0),
                _ => states,
            }
        })
    }
}

impl<F: Real> Layer<F> for GruCell<F> {
    /// b_hn is inside r ⊙ (..) and b_in is not, so the law is about the biases of r and z only.
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let biases = [&self.bias_ih, &self.bias_hh];
        let added = 0..2 * self.hidden();
        Some(gated(params, 2, &self.weight_ih, biases, added))
    }
}
