//! The attention along edges as an operation of the tape. Letters: see the table of
//! [`EdgeAttention`](super::EdgeAttention).

use super::{EdgeAttention, EdgeOperands, EdgeScore, Ends, slice};
use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::attention::{Attention, Backward, Operands, half_scores, half_scores_backward};
use crate::kernels::random::DropMask;
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
    #[inline(never)]
    pub fn attend<'t, F: Real>(
        &self,
        score: impl EdgeScore<F>,
        x: EdgeOperands<Var<'t, F>>,
    ) -> Var<'t, F> {
        x.check("EdgeAttention::attend", &self.pattern);
        self.check_dropout("EdgeAttention::attend");
        let (fusion, operands) = Fusion::new(self.clone(), score, x);
        fused(fusion, &operands)
    }
}

/// The operation.
struct Fusion<S> {
    edges: EdgeAttention,
    score: S,
    /// The number of each operand; 0 is v, and so are k and q where they are the same variable.
    numbers: EdgeOperands<usize>,
}

impl<S> Fusion<S> {
    /// The operation, and its operands in order.
    fn new<'t, F: Real>(
        edges: EdgeAttention,
        score: S,
        x: EdgeOperands<Var<'t, F>>,
    ) -> (Self, Vec<Var<'t, F>>) {
        let mut operands: Vec<Var<'t, F>> = Vec::new();
        // Nothing but v stands before k; and q is v only where k is.
        let numbers = x.map(|operand| match &operands[..] {
            [v] if v.id == operand.id => 0,
            _ => {
                operands.push(operand);
                operands.len() - 1
            }
        });
        let fusion = Self {
            edges,
            score,
            numbers,
        };
        (fusion, operands)
    }

    fn kernel<F: Real>(&self, v: &Tensor<F>) -> Attention<'_> {
        let dropout = self.edges.dropout;
        Attention {
            pattern: &self.edges.pattern,
            heads: v.shape()[1],
            width: v.shape()[2],
            dropout: dropout.map_or(DropMask::NONE, |(p, seed)| DropMask::new(p, seed)),
        }
    }

    /// The operands of the kernels. `halves` has k and q where they are halves.
    fn operands<'a, F: Real>(
        &self,
        args: &'a [Tensor<F>],
        halves: &'a Option<[Buffer<F>; 2]>,
    ) -> Operands<'a, F> {
        let x = |number: usize| slice(&args[number]);
        let (k, q, width) = match (self.numbers.ends, halves) {
            (Ends::Rows { k, q }, _) => {
                let apart = |number: usize| (number > 0).then(|| x(number));
                (apart(k), apart(q), args[k].shape()[2])
            }
            (_, Some([k, q])) => (Some(&k[..]), Some(&q[..]), 1),
            _ => unreachable!("halves are computed before"),
        };
        Operands {
            v: x(0),
            k,
            q,
            width,
            a: self.numbers.a.map(x),
            t: self.numbers.t.map(x),
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
            apart: matches!(self.numbers.ends, Ends::Rows { k, .. } if k > 0),
        }
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Saved<F>) {
        let args: Vec<_> = args.iter().map(contiguous).collect();
        let (kernel, x) = (self.kernel(&args[0]), |number: usize| slice(&args[number]));
        let halves = match self.numbers.ends {
            Ends::Rows { .. } => None,
            Ends::Halves { a_s, a_t } => {
                let n = args[0].shape()[0];
                Some(half_scores(n, x(0), [x(a_s), x(a_t)], kernel.heads))
            }
        };
        let score = self.score;
        let (y, alpha) = kernel.forward(
            self.operands(&args, &halves),
            #[inline(always)]
            move |k, q| score.value(k, q),
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
            symmetric: EdgeScore::<F>::symmetric(&self.score),
        };
        let (kernel, x) = (self.kernel(&rows[0]), |number: usize| slice(&rows[number]));
        let score = self.score;
        let mut g = kernel.backward(
            self.operands(&rows, &saved.halves),
            back,
            #[inline(always)]
            move |g, k, q| score.pull(g, k, q),
        );
        let ends = match self.numbers.ends {
            Ends::Rows { k: 0, q: 0 } => vec![],
            Ends::Rows { k: 0, .. } => vec![g.q],
            Ends::Rows { .. } => vec![g.k, g.q],
            Ends::Halves { a_s, a_t } => {
                let both = [&*g.k, &*g.q];
                half_scores_backward(x(0), [x(a_s), x(a_t)], kernel.heads, both, &mut g.v).into()
            }
        };
        let adjoints = std::iter::once(g.v).chain(ends);
        let adjoints = adjoints.chain(self.numbers.a.map(|_| g.a));
        (adjoints.chain(self.numbers.t.map(|_| g.t)).zip(args))
            .map(|(adjoint, arg)| Some(adjoint.into_tensor(arg.shape())))
            .collect()
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let x = self.numbers.map(|number| args[number]);
        let alpha = self.edges.coefficients(self.score, x);
        self.edges.combine(alpha, x.v, None)
    }
}
