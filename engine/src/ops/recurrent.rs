//! Sequences of steps of LSTM and GRU: fused operations, and the compositions that define them.
//!
//! | letter | shape | meaning |
//! |---|---|---|
//! | x | `[T, n, g h]` | the part of the g gates that comes from the input, for T steps of n rows |
//! | W, b | `[g h, h]`, `[g h]` | weight and bias of the hidden state |
//! | h, c | `[n, h]` | the state before the first step |
//!
//! The input's part is one product for all steps, outside: x = (input) W_iᵀ + b_i.

use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::recurrent::{Adjoints, GruOperands, LstmOperands, LstmSaved, Sequence};
use crate::real::Real;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, contiguous};

/// T steps of an LSTM: i, f, o = σ(..) and g = tanh(..) of x + h Wᵀ + b, gates in this order;
/// c ← f ⊙ c + i ⊙ g, h ← o ⊙ tanh c.
///
/// Shape `[T + 1, n, h]`: h after each step, and c after the last.
///
/// Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, with the forget gate of Gers et al., "Learning
/// to Forget", 2000.
///
/// With all weights and inputs 0, i = f = o = ½ and g = 0: a step halves c.
///
/// ```
/// use emmy::{Tape, Tensor, ops::recurrent::lstm};
/// let tape = Tape::new();
/// let zeros = |shape: &[usize]| tape.var(Tensor::<f64>::zeros(shape));
/// // One step of one row, width 1.
/// let (x, weight, bias) = (zeros(&[1, 1, 4]), zeros(&[4, 1]), zeros(&[4]));
/// let (h, c) = (zeros(&[1, 1]), zeros(&[1, 1]) + 2.0);
/// let y = lstm(x, weight, bias, h, c).value();
/// assert_eq!(y.shape(), [2, 1, 1]);
/// assert!((y[[0, 0, 0]] - 0.5 * 1_f64.tanh()).abs() < 1e-12);
/// assert!((y[[1, 0, 0]] - 1.0).abs() < 1e-12);
/// ```
///
/// # Panics
/// If the shapes do not fit, there is no step, or the tapes differ.
#[track_caller]
pub fn lstm<'t, F: Real>(
    x: Var<'t, F>,
    weight: Var<'t, F>,
    bias: Var<'t, F>,
    h: Var<'t, F>,
    c: Var<'t, F>,
) -> Var<'t, F> {
    let sizes = check("lstm", 4, [x, weight, bias], &[("h", h), ("c", c)]);
    fused(LstmSteps(sizes), &[x, weight, bias, h, c])
}

/// T steps of a gated recurrent unit: r, z = σ(x + q) and n = tanh(x + r ⊙ q) with q = h Wᵀ + b, gates in the
/// order r, z, n; h ← (1 − z) ⊙ n + z ⊙ h.
///
/// Shape `[T, n, h]`: h after each step.
///
/// Cho et al., "Learning Phrase Representations using RNN Encoder–Decoder for Statistical Machine
/// Translation", EMNLP 2014, in PyTorch's form: r multiplies h Wᵀ + b, not h.
///
/// With all weights and inputs 0, z = ½ and n = 0: a step halves h.
///
/// ```
/// use emmy::{Tape, Tensor, ops::recurrent::gru};
/// let tape = Tape::new();
/// let zeros = |shape: &[usize]| tape.var(Tensor::<f64>::zeros(shape));
/// // Two steps of one row, width 1.
/// let y = gru(zeros(&[2, 1, 3]), zeros(&[3, 1]), zeros(&[3]), zeros(&[1, 1]) + 4.0).value();
/// assert_eq!(y.shape(), [2, 1, 1]);
/// assert!(y.iter().zip([2.0, 1.0]).all(|(y, e)| (y - e).abs() < 1e-12));
/// ```
///
/// # Panics
/// If the shapes do not fit, there is no step, or the tapes differ.
#[track_caller]
pub fn gru<'t, F: Real>(
    x: Var<'t, F>,
    weight: Var<'t, F>,
    bias: Var<'t, F>,
    h: Var<'t, F>,
) -> Var<'t, F> {
    let sizes = check("gru", 3, [x, weight, bias], &[("h", h)]);
    fused(GruSteps(sizes), &[x, weight, bias, h])
}

/// The sizes, after a check of all shapes.
#[track_caller]
fn check<F: Real>(
    op: &str,
    gates: usize,
    [x, weight, bias]: [Var<'_, F>; 3],
    states: &[(&str, Var<'_, F>)],
) -> Sequence {
    x.tape().accept(op, &[weight, bias]);
    let (x, weight, bias) = (x.shape(), weight.shape(), bias.shape());
    let &[rows, width] = &weight[..] else {
        panic!("{op}: the weight has shape {weight:?}, it must be [{gates} h, h]")
    };
    assert!(
        rows == gates * width,
        "{op}: the weight has shape {weight:?}, it must be [{gates} h, h]"
    );
    assert!(
        bias == [rows],
        "{op}: the bias has shape {bias:?}, it must be [{rows}], one number per row of the weight"
    );
    assert!(
        x.len() == 3 && x[0] > 0 && x[2] == rows,
        "{op}: x has shape {x:?}, it must be [steps, rows, {rows}], with one step or more"
    );
    for (name, state) in states {
        state.tape().accept(op, &[*state]);
        let (found, expected) = (state.shape(), [x[1], width]);
        assert!(
            found == expected,
            "{op}: {name} has shape {found:?}, it must be {expected:?}: one row per row of x"
        );
    }
    Sequence {
        steps: x[0],
        rows: x[1],
        width,
    }
}

struct LstmSteps(Sequence);

impl<F: Real> Fused<F> for LstmSteps {
    type Saved = LstmSaved<F>;

    fn kind(&self) -> Kind {
        Kind::Opaque("lstm")
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, LstmSaved<F>) {
        let dense: Vec<_> = args.iter().map(contiguous).collect();
        let Sequence { steps, rows, width } = self.0;
        let (y, saved) = self.0.lstm(lstm_args(&dense));
        (y.into_tensor(&[steps + 1, rows, width]), saved)
    }

    /// The kernel computes the adjoints of all operands together, including those that are not wanted.
    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        saved: &LstmSaved<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let dense: Vec<_> = args.iter().map(contiguous).collect();
        let (y, gy) = (contiguous(y), contiguous(gy));
        let args = lstm_args(&dense);
        let adjoints = self.0.lstm_backward(args, slice(&y), saved, slice(&gy));
        listed(self.0, 4, adjoints)
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let [x, weight, bias, mut h, mut c] = *args else {
            unreachable!("lstm has five operands")
        };
        let width = self.0.width;
        let mut states = Vec::new();
        for x in steps(x) {
            let gates = x + h.linear(weight) + bias;
            let [i, f, g, o] = [0, 1, 2, 3].map(|k| gates.slice(1, k * width..(k + 1) * width));
            c = f.sigmoid() * c + i.sigmoid() * g.tanh();
            h = o.sigmoid() * c.tanh();
            states.push(h);
        }
        states.push(c);
        Var::stack(&states, 0)
    }
}

struct GruSteps(Sequence);

impl<F: Real> Fused<F> for GruSteps {
    /// The gates.
    type Saved = Buffer<F>;

    fn kind(&self) -> Kind {
        Kind::Opaque("gru")
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Buffer<F>) {
        let dense: Vec<_> = args.iter().map(contiguous).collect();
        let Sequence { steps, rows, width } = self.0;
        let (y, saved) = self.0.gru(gru_args(&dense));
        (y.into_tensor(&[steps, rows, width]), saved)
    }

    /// The kernel computes the adjoints of all operands together, including those that are not wanted.
    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        saved: &Buffer<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let dense: Vec<_> = args.iter().map(contiguous).collect();
        let (y, gy) = (contiguous(y), contiguous(gy));
        let args = gru_args(&dense);
        let adjoints = self.0.gru_backward(args, slice(&y), saved, slice(&gy));
        listed(self.0, 3, adjoints)
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let [x, weight, bias, mut h] = *args else {
            unreachable!("gru has four operands")
        };
        let width = self.0.width;
        let gate = |x: Var<'t, F>, k: usize| x.slice(1, k * width..(k + 1) * width);
        let mut states = Vec::new();
        for x in steps(x) {
            let q = h.linear(weight) + bias;
            let [r, z] = [0, 1].map(|k| (gate(x, k) + gate(q, k)).sigmoid());
            let n = (gate(x, 2) + r * gate(q, 2)).tanh();
            h = n + z * (h - n);
            states.push(h);
        }
        Var::stack(&states, 0)
    }
}

/// The steps of x `[T, n, w]`, each `[n, w]`.
///
/// The adjoint of a slice is as large as what it was cut from. By halves, all of them together take T log T
/// times the memory of a step, one by one T².
fn steps<F: Real>(x: Var<'_, F>) -> Vec<Var<'_, F>> {
    let count = x.shape()[0];
    if count == 1 {
        return vec![x.squeeze(0)];
    }
    let middle = count / 2;
    let halves = [0..middle, middle..count];
    halves
        .into_iter()
        .flat_map(|part| steps(x.slice(0, part)))
        .collect()
}

/// The adjoints as tensors, in the order of the operands.
fn listed<F: Real>(sizes: Sequence, gates: usize, g: Adjoints<F>) -> Vec<Option<Tensor<F>>> {
    let Sequence { steps, rows, width } = sizes;
    let mut out = vec![
        g.x.into_tensor(&[steps, rows, gates * width]),
        g.weight.into_dyn().into_shared(),
        g.bias.into_tensor(&[gates * width]),
        g.h.into_tensor(&[rows, width]),
    ];
    if gates == 4 {
        out.push(g.c.into_tensor(&[rows, width]));
    }
    out.into_iter().map(Some).collect()
}

fn lstm_args<F: Real>(args: &[Tensor<F>]) -> LstmOperands<'_, F> {
    LstmOperands {
        x: slice(&args[0]),
        weight: slice(&args[1]),
        bias: slice(&args[2]),
        h: slice(&args[3]),
        c: slice(&args[4]),
    }
}

fn gru_args<F: Real>(args: &[Tensor<F>]) -> GruOperands<'_, F> {
    GruOperands {
        x: slice(&args[0]),
        weight: slice(&args[1]),
        bias: slice(&args[2]),
        h: slice(&args[3]),
    }
}

fn slice<F>(x: &Tensor<F>) -> &[F] {
    x.as_slice().expect("contiguous")
}
