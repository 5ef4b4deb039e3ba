//! Operations, their kernels, and those of optimisers and laws, compiled here, once per type of numbers,
//! instead of in every program.
//!
//! Rust compiles a generic function in each program that uses it, vector loops included. There is one
//! exception: if the function is marked `#[inline(never)]`, and the library itself uses it with the same
//! type, a program links to the copy of the library. The kernels are marked so, and this file uses them
//! with `f32` and with `f64`.
//!
//! Nothing in this file ever runs. A kernel that is missing here works in the same way, but each program
//! compiles it again; `tests/kernels/instances.rs` finds it.

use crate::autodiff::{Tape, Var, grad, grad_graph, vjp};
use crate::kernels::draw::{self, Rng};
use crate::kernels::neurons::{self, Entries};
use crate::kernels::update::{self, AdamStep};
use crate::ops::attention::{
    DenseAttention, EdgeAttention, EdgeOperands, LeakySum, Mask, Qkv, ScaledProduct,
};
use crate::ops::recurrent;
use crate::ops::sparse::{self, Sparse};
use crate::real::Real;
use crate::sparse::{Csr, Pattern};
use crate::tensor::Tensor;
use std::sync::Arc;

/// The functions below, for both types. It is public and not inlined, so that they are compiled.
#[doc(hidden)]
#[inline(never)]
pub fn instances() -> [*const (); 8] {
    [
        operations::<f32> as *const (),
        operations::<f64> as *const (),
        updates::<f32> as *const (),
        updates::<f64> as *const (),
        measures::<f32> as *const (),
        measures::<f64> as *const (),
        draws::<f32> as *const (),
        draws::<f64> as *const (),
    ]
}

fn operations<F: Real>(x: Tensor<F>, mask: &Tensor<bool>, matrix: &Csr<F>, pattern: &Arc<Pattern>) {
    let tape = Tape::new();
    let (x, c, shape) = (tape.var(x), F::one(), [1]);
    let results = [
        operators(x, c),
        of_elements(x, c, mask),
        of_shapes(x, &shape),
        of_axes(x, mask),
        of_edges(x, matrix, pattern),
        recurrent::lstm(x, x, x, x, x) + recurrent::gru(x, x, x, x),
    ];
    let graph = grad_graph(results[0], &results);
    vjp(graph[0], &graph, &x.value());
    grad(results[0], &results);
}

fn updates<F: Real>([p, m, v]: [&mut [F]; 3], g: &[F], step: AdamStep<F>) {
    update::adam(p, g, [m, v], step);
    update::sgd(p, g, [step.lr; 2]);
    update::momentum(p, m, g, [step.lr; 4]);
    update::average(m, v, g, [step.lr; 2]);
    update::combine(p, g, [step.lr; 2]);
    update::sum_of_squares(g);
}

fn measures<F: Real>(of: &Entries, x: &[F], [a, b]: [&mut [f64]; 2]) {
    neurons::products(of, 1.0, x, x, [a, b]);
    neurons::sums(of, 1.0, x, [a, b]);
}

fn draws<F: Real>(rng: &mut Rng) -> [Tensor<F>; 2] {
    [draw::normal(&[1], 1.0, rng), draw::uniform(&[1], 1.0, rng)]
}

fn operators<F: Real>(x: Var<'_, F>, c: F) -> Var<'_, F> {
    let y = x + x - x * x / x + (-x).scale(c).add_scalar(c);
    let y = y + c - (y * c) / c;
    y.matmul(x).add_bias(x).linear(x).maximum(y).minimum(y)
}

fn of_elements<'t, F: Real>(x: Var<'t, F>, c: F, mask: &Tensor<bool>) -> Var<'t, F> {
    let y = x.powf(c).square().exp().ln().sqrt().abs().sin().cos();
    let y = y.tanh().clamp(c, c).where_(mask, x).dropout(0.5, 0);
    let y = y.sigmoid().relu().leaky_relu(c).gate(x.value(), c).elu(c);
    y.gelu()
        .normal_cdf()
        .gelu_tanh()
        .silu()
        .mish()
        .hardtanh()
        .softplus()
}

fn of_shapes<'t, F: Real>(x: Var<'t, F>, shape: &[usize]) -> Var<'t, F> {
    let y = x.broadcast_to(shape).sum_to(shape).reshape(shape);
    let y = y.unsqueeze(0).squeeze(0).permute(&[0]).transpose(0, 1).t();
    let y = y.slice(0, 0..1).pad(0, 0, 1);
    let y = y.index_select(0, [0]).index_add(0, [0], 1);
    let y = y.rotate_planes(0, 1.0);
    Var::concat(&[x, Var::stack(&[x, y], 0)], 0)
}

fn of_axes<'t, F: Real>(x: Var<'t, F>, mask: &Tensor<bool>) -> Var<'t, F> {
    let y = x.sum(&[0], true).mean(&[0], true).var(&[0], true);
    let y = y.max(&[0], true).min(&[0], true).norm(&[0], true);
    let y = y.row_norms() + y.column_norms() + y.frobenius_norm() + y.inf_2_norm();
    let y = y.softmax(0).softmax_masked(0, mask);
    let y = y.logsumexp(0, true).logsumexp_masked(0, mask, true);
    let y = y.log_softmax(0).log_softmax_masked(0, mask);
    let y = y
        .layer_norm(Some(x), Some(x), F::one())
        .rms_norm(Some(x), F::one());
    let losses = y.cross_entropy(&[0], None) + y.nll(&[0], None);
    losses + y.mse(x) + y.bce_with_logits(x)
}

fn of_edges<'t, F: Real>(x: Var<'t, F>, matrix: &Csr<F>, pattern: &Arc<Pattern>) -> Var<'t, F> {
    let y = sparse::gather_rows(pattern, x) + sparse::gather_columns(pattern, x);
    let y = y + sparse::segment_sum(pattern, x) + sparse::segment_sum_columns(pattern, x);
    let y = y + sparse::segment_mean(pattern, x) + sparse::segment_max(pattern, x);
    let y = y + sparse::segment_softmax(pattern, x);
    let y = y + sparse::spmm(pattern, x, x) + sparse::spmm_t(pattern, x, x);
    let y = y + sparse::sddmm(pattern, x, x) + sparse::sddmm_add(pattern, x, x);
    let m: Sparse<'_, F> = x.tape().sparse(matrix);
    let y = y + m.linear(x).add_bias(x) + m.t().softmax().matmul(y) + m.t_matmul(y);
    let y = y + m.row_sums() + m.column_sums() + m.to_dense();
    let attention = EdgeAttention {
        pattern: pattern.clone(),
        dropout: None,
    };
    let (score, operands) = (LeakySum { slope: F::one() }, EdgeOperands::gat(x, x, x));
    let y = y + attention.attend(score, operands) + attention.coefficients(score, operands);
    let y = y + attention.attend(ScaledProduct { scale: F::one() }, operands);
    let dense = DenseAttention::new(1, Mask::none());
    let x = Qkv::new(x, x, x);
    y + dense.attend(x)
        + dense.attention_coefficients(x)
        + dense.log_sum_exp(x)
        + dense.attend_symmetric(x.q, x.v)
}
