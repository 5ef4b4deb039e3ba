//! Layers over sequences.

use super::{GruCell, LstmCell, LstmState, check_sequence, check_states};
use crate::autodiff::Var;
use crate::init::Rng;
use crate::nn::{Dropout, Input, Layer, Pass};
use crate::real::Real;

/// Long short-term memory over sequences: the output of each layer, in all steps, is the input of the next.
/// The formulas are those of [`LstmCell`].
///
/// | letter | shape |
/// |---|---|
/// | x | `[batch, time, in]` |
/// | y, the output of the last layer in all steps | `[batch, time, h]` |
/// | state | per layer, h and c `[batch, h]` |
///
/// As PyTorch's `LSTM` with `batch_first=True`, in one direction and with biases; its `weight_ih_l0` is
/// `layers.0.weight_ih`. A state is a list with one entry per layer, which PyTorch stacks.
///
/// ```
/// use emmy::{Tape, init, nn::{Lstm, Pass}};
/// let lstm = Lstm::<f32>::new(8, 16, 2, &mut init::rng(0));
/// let text = init::normal(&[4, 20, 8], 1.0, &mut init::rng(1));
/// let tape = Tape::new();
/// let pass = Pass::train(&tape, &lstm, 0);
/// let (y, state) = lstm.forward(&pass, tape.constant(text.clone()), None);
/// assert_eq!(y.shape(), [4, 20, 16]);
///
/// // The next part of the text goes on from this state, on another tape.
/// let next = Tape::new();
/// let pass = Pass::train(&next, &lstm, 1);
/// let state: Vec<_> = state.iter().map(|s| s.carried(&next)).collect();
/// let (y, _) = lstm.forward(&pass, next.constant(text), Some(&state));
/// assert_eq!(y.shape(), [4, 20, 16]);
/// ```
#[derive(Debug, Clone)]
pub struct Lstm<F: Real> {
    /// The parameters of each layer.
    pub layers: Vec<LstmCell<F>>,
    /// Dropout of the output of each layer but the last; `new` sets 0.
    pub dropout: Dropout,
}
crate::module!(Lstm: layers as "*_l#");

impl<F: Real> Lstm<F> {
    /// `layers` layers of `hidden` neurons for an input of `input` features.
    ///
    /// # Panics
    /// If there is no layer.
    #[track_caller]
    pub fn new(input: usize, hidden: usize, layers: usize, rng: &mut Rng) -> Self {
        assert!(layers > 0, "Lstm: it needs at least one layer");
        let width = |l| if l == 0 { input } else { hidden };
        let cells = (0..layers).map(|l| LstmCell::new(width(l), hidden, rng));
        Self {
            layers: cells.collect(),
            dropout: Dropout { p: 0.0 },
        }
    }

    /// The output in all steps, and the state of each layer after the last step. Without a `state` the
    /// sequence begins with zeros.
    ///
    /// # Panics
    /// If x is not `[batch, time, in]` with one step or more, the state is not one per layer, or not
    /// `[batch, h]`.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        state: Option<&[LstmState<'t, F>]>,
    ) -> (Var<'t, F>, Vec<LstmState<'t, F>>) {
        check_sequence("Lstm", self.layers[0].input(), x);
        let (rows, time) = (x.shape()[0], x.shape()[1]);
        let state = match state {
            Some(state) => state.to_vec(),
            None => self.layers.iter().map(|l| l.start(pass, rows)).collect(),
        };
        check_count("Lstm", self.layers.len(), state.len());
        let all: Vec<_> = state.iter().flat_map(|s| [s.hidden, s.cell]).collect();
        for (layer, s) in self.layers.iter().zip(&state) {
            check_states("Lstm", [rows, layer.hidden()], &[s.hidden, s.cell]);
        }
        let inputs: Vec<_> = std::iter::once(x).chain(all).collect();
        pass.call(self, &inputs, || {
            let (mut y, mut last) = (x, Vec::new());
            for (l, (layer, &state)) in self.layers.iter().zip(&state).enumerate() {
                if l > 0 {
                    y = dropped(pass, self.dropout, y);
                }
                let states = layer.steps(pass, y, state);
                let step = |t: usize| states.slice(0, t..t + 1).squeeze(0);
                last.push(LstmState {
                    hidden: step(time - 1),
                    cell: step(time),
                });
                y = states.slice(0, 0..time).transpose(0, 1);
            }
            (y, last)
        })
    }
}

/// Transparent: each layer is a call of its own.
impl<F: Real> Layer<F> for Lstm<F> {}

/// Gated recurrent units over sequences: the output of each layer, in all steps, is the input of the next.
/// The formulas are those of [`GruCell`].
///
/// | letter | shape |
/// |---|---|
/// | x | `[batch, time, in]` |
/// | y, the output of the last layer in all steps | `[batch, time, h]` |
/// | state | per layer, h `[batch, h]` |
///
/// As PyTorch's `GRU` with `batch_first=True`, in one direction and with biases; its `weight_ih_l0` is
/// `layers.0.weight_ih`. A state is a list with one entry per layer, which PyTorch stacks.
///
/// ```
/// use emmy::nn::{Gru, Module, Pass};
/// use emmy::{Tape, init, tensor::{Tensor, tensor}};
/// let mut gru = Gru::<f64>::new(3, 1, 1, &mut init::rng(0));
/// for parameter in gru.tensors_mut() {
///     parameter.fill(0.0);
/// }
/// // Without weights the gate is z = σ(0) = ½ and the new value is 0: each step halves the state.
/// let tape = Tape::new();
/// let pass = Pass::eval(&tape, &gru);
/// let x = tape.constant(Tensor::ones(vec![1, 3, 3]));
/// let h = tape.constant(tensor(&[1, 1], vec![8.0]));
/// let (y, state) = gru.forward(&pass, x, Some(&[h]));
/// assert_eq!(y.value(), tensor(&[1, 3, 1], vec![4.0, 2.0, 1.0]));
/// assert_eq!(state[0].value(), tensor(&[1, 1], vec![1.0]));
/// ```
#[derive(Debug, Clone)]
pub struct Gru<F: Real> {
    /// The parameters of each layer.
    pub layers: Vec<GruCell<F>>,
    /// Dropout of the output of each layer but the last; `new` sets 0.
    pub dropout: Dropout,
}
crate::module!(Gru: layers as "*_l#");

impl<F: Real> Gru<F> {
    /// `layers` layers of `hidden` neurons for an input of `input` features.
    ///
    /// # Panics
    /// If there is no layer.
    #[track_caller]
    pub fn new(input: usize, hidden: usize, layers: usize, rng: &mut Rng) -> Self {
        assert!(layers > 0, "Gru: it needs at least one layer");
        let width = |l| if l == 0 { input } else { hidden };
        let cells = (0..layers).map(|l| GruCell::new(width(l), hidden, rng));
        Self {
            layers: cells.collect(),
            dropout: Dropout { p: 0.0 },
        }
    }

    /// The output in all steps, and the state of each layer after the last step. Without a `state` the
    /// sequence begins with zeros.
    ///
    /// # Panics
    /// If x is not `[batch, time, in]` with one step or more, the state is not one per layer, or not
    /// `[batch, h]`.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        state: Option<&[Var<'t, F>]>,
    ) -> (Var<'t, F>, Vec<Var<'t, F>>) {
        check_sequence("Gru", self.layers[0].input(), x);
        let (rows, time) = (x.shape()[0], x.shape()[1]);
        let state = match state {
            Some(state) => state.to_vec(),
            None => self.layers.iter().map(|l| l.start(pass, rows)).collect(),
        };
        check_count("Gru", self.layers.len(), state.len());
        for (layer, &h) in self.layers.iter().zip(&state) {
            check_states("Gru", [rows, layer.hidden()], &[h]);
        }
        let inputs: Vec<_> = std::iter::once(x).chain(state.iter().copied()).collect();
        pass.call(self, &inputs, || {
            let (mut y, mut last) = (x, Vec::new());
            for (l, (layer, &h)) in self.layers.iter().zip(&state).enumerate() {
                if l > 0 {
                    y = dropped(pass, self.dropout, y);
                }
                let states = layer.steps(pass, y, h);
                last.push(states.slice(0, time - 1..time).squeeze(0));
                y = states.transpose(0, 1);
            }
            (y, last)
        })
    }
}

/// Transparent: each layer is a call of its own.
impl<F: Real> Layer<F> for Gru<F> {}

#[track_caller]
fn check_count(layer: &str, layers: usize, states: usize) {
    assert!(
        states == layers,
        "{layer}: {states} states for {layers} layers: there must be one per layer"
    );
}

#[track_caller]
fn dropped<'t, F: Real>(pass: &Pass<'t, '_, F>, dropout: Dropout, x: Var<'t, F>) -> Var<'t, F> {
    match dropout.forward(pass, x) {
        Input::Dense(x) => x,
        Input::Sparse(_) => unreachable!("x is dense"),
    }
}
