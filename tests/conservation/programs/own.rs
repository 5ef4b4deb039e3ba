//! Layers that a user might write, each with its ports.

use super::drawn::Draw;
use crate::support::normal;
use emmy::nn::{Layer, Params, Pass};
use emmy::symmetry::{Passage, Ports, Slice};
use emmy::{Tensor, Var};

/// What a layer computes, of matrices x and y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Form {
    /// W, a row per row of the data.
    Table,
    /// x Wᵀ + V, with V a row per row of x.
    Positions,
    /// x Wᵀ + 2 y Wᵀ.
    Twice,
    /// x Wᵀ + y Vᵀ.
    Sum,
    /// x Wᵀ ⊙ σ(x Vᵀ).
    Gated,
    /// relu(x) Wᵀ + b.
    Activated,
    /// x W + b.
    Transposed,
    /// The mean of x W_hᵀ over two heads, plus the sum of their b_h.
    Averaged,
}

use Form::*;

const FORMS: [Form; 8] = [
    Table, Positions, Twice, Sum, Gated, Activated, Transposed, Averaged,
];

pub struct Own {
    pub form: Form,
    w: Tensor<f64>,
    v: Tensor<f64>,
    b: Tensor<f64>,
}
emmy::module!(Own for f64: w, v, b);

impl Own {
    pub fn draw(d: &mut Draw) -> Self {
        let form = FORMS[d.count(0, FORMS.len() - 1)];
        let [rows, input, out] = [0; 3].map(|_| d.count(1, 3));
        let [w, v, b] = match form {
            Table => [vec![rows, out], vec![1], vec![1]],
            Positions => [vec![out, input], vec![rows, out], vec![1]],
            Transposed => [vec![input, out], vec![1], vec![out]],
            Averaged => [vec![2, out, input], vec![1], vec![2, out]],
            Twice | Sum | Gated | Activated => [vec![out, input], vec![out, input], vec![out]],
        };
        let [w, v, b] = [w, v, b].map(|shape| normal(&shape, d.seed()));
        Self { form, w, v, b }
    }

    /// Whether the layer takes matrices of this shape.
    pub fn takes(&self, shape: &[usize]) -> bool {
        let &[rows, width] = shape else { return false };
        let w = self.w.shape();
        match self.form {
            Table => true,
            Positions => [self.v.shape()[0], w[1]] == [rows, width],
            Transposed => w[0] == width,
            _ => w.last() == Some(&width),
        }
    }

    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, f64>,
        x: Var<'t, f64>,
        y: Var<'t, f64>,
    ) -> Var<'t, f64> {
        let inputs = match self.form {
            Table => vec![],
            Twice | Sum => vec![x, y],
            _ => vec![x],
        };
        pass.call(self, &inputs, || {
            let (w, v, b) = (
                pass.param(&self.w),
                pass.param(&self.v),
                pass.param(&self.b),
            );
            match self.form {
                Table => w,
                Positions => x.linear(w) + v,
                Twice => x.linear(w) + y.linear(w).scale(2.0),
                Sum => x.linear(w) + y.linear(v),
                Gated => x.linear(w) * x.linear(v).sigmoid(),
                Activated => x.relu().linear(w) + b,
                Transposed => x.matmul(w) + b,
                Averaged => x.linear(w.mean(&[0], false)) + b.sum(&[0], false),
            }
        })
    }
}

impl Layer<f64> for Own {
    fn ports(&self, q: &Params<'_, f64>) -> Option<Ports> {
        let (w, v, b) = (&self.w, &self.v, &self.b);
        let shape = w.shape();
        let biased = || Ports::writes([q.rows(w), q.rows(b)]);
        Some(match self.form {
            Table => Ports::writes([q.columns(w)]),
            Positions => Ports::writes([q.rows(w), q.columns(v)]).reads([q.columns(w)]),
            Twice => Ports::writes([q.rows(w)])
                .reads([q.columns(w)])
                .reads([q.columns(w)]),
            Sum => Ports::writes([q.rows(w), q.rows(v)])
                .reads([q.columns(w)])
                .reads([q.columns(v)]),
            Gated => Ports::writes([q.rows(w)]).reads_after(Passage::BREAKS, []),
            Activated => biased().reads_after(Passage::homogeneous(1.0), [q.columns(w)]),
            Transposed => {
                let rows = Slice::new(q.number(w), [1, shape[0], shape[1]]);
                Ports::writes([q.columns(w), q.columns(b)]).reads([rows])
            }
            Averaged => {
                let (heads, out, input) = (shape[0], shape[1], shape[2]);
                let written = Slice::new(q.number(w), [heads, out, input]);
                let read = Slice::new(q.number(w), [heads * out, input, 1]);
                Ports::writes([written, q.grouped(b, heads, out)]).reads([read])
            }
        })
    }
}
