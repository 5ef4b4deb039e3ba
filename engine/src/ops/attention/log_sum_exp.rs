//! The logarithm of the sums that a softmax divides by.

use super::dense::FusedAttention;
use super::{DenseAttention, Qkv, slice};
use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::attention::dense::{Dense, LogSums, Operands, Outcome};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, tensor};

impl DenseAttention {
    /// ℓ_i = ln Σ_j exp(c t_i (q_i·k_j + β_j)) over the keys that the mask allows, for each head, shape `[..,
    /// n, H]`; −∞ for a query that may attend to no key.
    ///
    /// With it a sum over keys need not be a mean: Σ_j exp(s_ij) v_j = e^ℓ_i y_i. The values do not matter,
    /// nor does dropout. Fused as [`attend`](Self::attend): no scores are stored.
    ///
    /// ```
    /// use emmy::ops::attention::{DenseAttention, Mask, Qkv};
    /// use emmy::{Tape, tensor::tensor};
    ///
    /// let tape = Tape::new();
    /// let q = tape.var(tensor(&[1, 1, 1], vec![1.0]));
    /// let k = tape.var(tensor(&[2, 1, 1], vec![0.0, 3.0_f64.ln()]));
    /// let l = DenseAttention::new(1, Mask::none()).log_sum_exp(Qkv::new(q, k, k));
    /// assert_eq!(l.shape(), [1, 1]);
    /// assert!((l.item() - 4.0_f64.ln()).abs() < 1e-12); // e⁰ + e^(ln 3)
    /// ```
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the mask is a set of edges.
    #[track_caller]
    pub fn log_sum_exp<'t, F: Real>(&self, x: Qkv<'t, F>) -> Var<'t, F> {
        let x = Qkv { v: x.k, ..x };
        self.check("log_sum_exp", &x);
        assert!(
            self.mask.pattern().is_none(),
            "log_sum_exp: the mask is a set of edges; it must be one of all pairs"
        );
        // The values have no part: q and k alone, then β and t.
        let operands = [x.q, x.k].into_iter().chain(x.beta).chain(x.t);
        let operands: Vec<_> = operands.collect();
        fused(LogSumExp(self.operation(&x)), &operands)
    }
}

/// Its operands are q, k, then β and t if there are any.
struct LogSumExp(FusedAttention);

impl LogSumExp {
    /// The operands of attention, with the keys for values.
    fn with_values<T: Clone>(args: &[T]) -> Vec<T> {
        [&args[..2], &args[1..]].concat()
    }

    /// The kernel and its operands, for values of no width.
    fn of<'a, F: Real>(&'a self, rows: &'a [Tensor<F>]) -> (Dense<'a, F>, Operands<'a, F>) {
        let kernel = Dense {
            value_width: 0,
            dropout: crate::kernels::random::DropMask::NONE,
            ..self.0.kernel(rows)
        };
        let operands = Operands {
            v: &[],
            ..self.0.operands(rows)
        };
        (kernel, operands)
    }
}

impl<F: Real> Fused<F> for LogSumExp {
    /// ℓ as the kernel has it, `[items, H, n]`.
    type Saved = LogSums<F>;

    fn kind(&self) -> Kind {
        Kind::Opaque("log_sum_exp")
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, LogSums<F>) {
        let rows: Vec<_> = Self::with_values(args).iter().map(contiguous).collect();
        let (kernel, operands) = self.of(&rows);
        let (_, lse) = kernel.forward(&operands);
        let shape = &args[0].shape()[..args[0].ndim() - 1];
        (
            tensor(shape, swapped(&lse.rounded, kernel.heads, kernel.queries)),
            lse,
        )
    }

    fn backward(
        &self,
        args: &[Tensor<F>],
        _: &Tensor<F>,
        lse: &LogSums<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let rows: Vec<_> = Self::with_values(args).iter().map(contiguous).collect();
        let (kernel, operands) = self.of(&rows);
        let g = contiguous(gy);
        let outcome = Outcome {
            y: &[],
            lse,
            gy: &[],
            glse: Some(&swapped(slice(&g), kernel.queries, kernel.heads)),
        };
        let g = kernel.backward(&operands, &outcome);
        let main = [g.q, g.k].into_iter().zip(args);
        let mut adjoints: Vec<_> = main.map(|(g, x)| Some(g.into_tensor(x.shape()))).collect();
        adjoints.extend(self.0.extra(g.beta, g.t, &args[2..]));
        adjoints
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let x = self.0.qkv(&Self::with_values(args));
        let attention = &self.0.attention;
        let sizes = attention.check("log_sum_exp", &x);
        let lse = match attention.scores(&x, sizes) {
            (scores, Some(mask)) => scores.logsumexp_masked(-1, &mask, false),
            (scores, None) => scores.logsumexp(-1, false),
        };
        let shape = x.q.shape();
        lse.transpose(-1, -2).reshape(&shape[..shape.len() - 1])
    }
}

/// `[items, a, b]` → `[items, b, a]`.
fn swapped<F: Real>(x: &[F], a: usize, b: usize) -> Vec<F> {
    let mut out = Vec::with_capacity(x.len());
    for item in x.chunks_exact((a * b).max(1)) {
        out.extend((0..b).flat_map(|j| (0..a).map(move |i| item[i * b + j])));
    }
    out
}
