//! The attention along edges as an operation of the tape. Letters: see the table of
//! [`EdgeAttention`](super::EdgeAttention).

use super::{EdgeAttention, EdgeOperands, EdgeScore, Ends, slice};
use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::attention::{
    Attention, Backward, Operands, Rows, half_scores, half_scores_backward,
};
use crate::kernels::random::Dropout;
use crate::real::Real;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, contiguous};

impl EdgeAttention {
    /// y_i = Σ_j drop(α)_ij v_j with α = softmax_j(t_i Σ_c a_c f(k_j, q_i)_c), for each head; shape
    /// `[n, H, D]`. A target without neighbours gets zeros.
    ///
    /// ```
    /// use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
    /// use emmy::{Tape, data, init};
    ///
    /// let karate = data::karate();
    /// let pattern = karate.graph.with_self_loops().pattern().clone();
    /// let edges = EdgeAttention { pattern, dropout: None };
    /// let tape = Tape::<f64>::new();
    /// let draw = |shape: &[usize], seed| tape.var(init::normal(shape, 1.0, &mut init::rng(seed)));
    /// let (z, a) = (draw(&[34, 2, 8], 0), draw(&[2, 8], 1));
    /// let y = edges.attend(LeakySum { slope: 0.2 }, EdgeOperands::gatv2(z, z, a));
    /// assert_eq!(y.shape(), [34, 2, 8]);
    /// ```
    ///
    /// # Panics
    /// If the shapes do not fit, the tapes differ, or the probability of dropout is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn attend<'t, F: Real>(
        &self,
        score: impl EdgeScore<F>,
        x: EdgeOperands<'t, F>,
    ) -> Var<'t, F> {
        x.check("EdgeAttention::attend", &self.pattern);
        self.check_dropout("EdgeAttention::attend");
        fused(Fusion::new(self.clone(), score, &x), &x.list())
    }
}

/// The operation. Its operands are v, then what `reads` names, then a and t as far as they are there.
struct Fusion<S> {
    edges: EdgeAttention,
    score: S,
    reads: Reads,
    with_a: bool,
    with_t: bool,
}

/// The operands that give the rows k and q.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// None: k = q = v.
    Values,
    /// q; k = v.
    Targets,
    /// k and q.
    Rows,
    /// a_s and a_t.
    Halves,
}

impl<'t, F: Real> EdgeOperands<'t, F> {
    fn reads(&self) -> Reads {
        match self.ends {
            Ends::Halves { .. } => Reads::Halves,
            Ends::Rows { k, .. } if k.id != self.v.id => Reads::Rows,
            Ends::Rows { q, .. } if q.id != self.v.id => Reads::Targets,
            Ends::Rows { .. } => Reads::Values,
        }
    }

    /// The operands of the operation.
    fn list(&self) -> Vec<Var<'t, F>> {
        let ends = match (self.reads(), self.ends) {
            (Reads::Values, _) => vec![],
            (Reads::Targets, Ends::Rows { q, .. }) => vec![q],
            (_, Ends::Rows { k, q }) => vec![k, q],
            (_, Ends::Halves { a_s, a_t }) => vec![a_s, a_t],
        };
        let first = std::iter::once(self.v);
        first.chain(ends).chain(self.a).chain(self.t).collect()
    }
}

impl<S> Fusion<S> {
    fn new<F: Real>(edges: EdgeAttention, score: S, x: &EdgeOperands<'_, F>) -> Self {
        Self {
            edges,
            score,
            reads: x.reads(),
            with_a: x.a.is_some(),
            with_t: x.t.is_some(),
        }
    }

    /// a and t among the operands.
    fn others<'a, T>(&self, args: &'a [T]) -> [Option<&'a T>; 2] {
        let t = args.last().filter(|_| self.with_t);
        let before = args.len() - usize::from(self.with_t);
        [args[..before].last().filter(|_| self.with_a), t]
    }

    fn kernel<F: Real>(&self, v: &Tensor<F>) -> Attention<'_> {
        let dropout = self.edges.dropout;
        Attention {
            pattern: &self.edges.pattern,
            heads: v.shape()[1],
            width: v.shape()[2],
            dropout: dropout.map_or(Dropout::NONE, |(p, seed)| Dropout::new(p, seed)),
        }
    }

    /// The operands of the kernels. `ones` is space for an a that is not there, `halves` has k and q where they
    /// are halves.
    fn read<'a, F: Real>(
        &self,
        args: &'a [Tensor<F>],
        halves: &'a Option<[Buffer<F>; 2]>,
        ones: &'a mut Vec<F>,
    ) -> Operands<'a, F> {
        let [a, t] = self.others(args).map(|x| x.map(slice));
        let (rows, width) = match (self.reads, halves) {
            (_, Some([k, q])) => (Rows::Apart { k, q, width: 1 }, 1),
            (Reads::Values, _) => (Rows::Values, args[0].shape()[2]),
            (Reads::Targets, _) => (Rows::Targets(slice(&args[1])), args[0].shape()[2]),
            _ => {
                let (k, q, width) = (slice(&args[1]), slice(&args[2]), args[1].shape()[2]);
                (Rows::Apart { k, q, width }, width)
            }
        };
        if a.is_none() {
            ones.resize(args[0].shape()[1] * width, F::one());
        }
        Operands {
            v: slice(&args[0]),
            rows,
            a: a.unwrap_or(ones),
            t,
        }
    }
}

/// The results of the forward kernel that the adjoint needs.
struct Saved<F: Real> {
    /// The coefficients.
    alpha: Buffer<F>,
    /// ⟨a_s, v⟩ and ⟨a_t, v⟩, if the score reads them.
    halves: Option<[Buffer<F>; 2]>,
}

impl<F: Real, S: EdgeScore<F>> Fused<F> for Fusion<S> {
    type Saved = Saved<F>;

    fn kind(&self) -> Kind {
        Kind::EdgeAttention {
            score: self.score.name(),
            apart: self.reads == Reads::Rows,
        }
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Saved<F>) {
        let args: Vec<_> = args.iter().map(contiguous).collect();
        let (kernel, x) = (self.kernel(&args[0]), |k: usize| slice(&args[k]));
        let halves =
            (self.reads == Reads::Halves).then(|| half_scores(x(0), [x(1), x(2)], kernel.heads));
        let mut ones = Vec::new();
        let operands = self.read(&args, &halves, &mut ones);
        let (y, alpha) = kernel.forward(
            operands,
            #[inline(always)]
            |k, q| self.score.value(k, q),
        );
        let shape = [kernel.pattern.rows(), kernel.heads, kernel.width];
        (y.into_tensor(&shape), Saved { alpha, halves })
    }

    /// The kernels compute the adjoints of all operands together, including those that are not wanted.
    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        saved: &Saved<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let (y, gy) = (contiguous(y), contiguous(gy));
        let back = Backward {
            alpha: &saved.alpha,
            y: slice(&y),
            gy: slice(&gy),
        };
        let (kernel, x) = (self.kernel(&rows[0]), |k: usize| slice(&rows[k]));
        let mut ones = Vec::new();
        let mut g = kernel.backward(
            self.read(&rows, &saved.halves, &mut ones),
            back,
            #[inline(always)]
            |g, k, q| self.score.pull(g, k, q),
        );
        let ends = match self.reads {
            Reads::Values => vec![],
            Reads::Targets => vec![g.q],
            Reads::Rows => vec![g.k, g.q],
            Reads::Halves => {
                let both = [&*g.k, &*g.q];
                half_scores_backward(x(0), [x(1), x(2)], kernel.heads, both, &mut g.v).into()
            }
        };
        let others = [self.with_a.then_some(g.a), self.with_t.then_some(g.t)];
        let adjoints = std::iter::once(g.v).chain(ends);
        (adjoints.chain(others.into_iter().flatten()).zip(args))
            .map(|(adjoint, arg)| Some(adjoint.into_tensor(arg.shape())))
            .collect()
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let v = args[0];
        let [a, t] = self.others(args).map(|x| x.copied());
        let ends = match self.reads {
            Reads::Values => Ends::Rows { k: v, q: v },
            Reads::Targets => Ends::Rows { k: v, q: args[1] },
            Reads::Rows => Ends::Rows {
                k: args[1],
                q: args[2],
            },
            Reads::Halves => Ends::Halves {
                a_s: args[1],
                a_t: args[2],
            },
        };
        let x = EdgeOperands { v, ends, a, t };
        let alpha = self.edges.coefficients(&self.score, x);
        self.edges.combine(alpha, v, None)
    }
}
