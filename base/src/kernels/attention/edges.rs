//! The attention along edges with a score Σ_c a[h, c] f(k[j, h, c], q[i, h, c]), for any function f of two
//! numbers. Letters: see the table of [the parent module](super).

use super::Attention;
use super::blocks::Output;
use super::heads::scores;
use super::operands::{Adjoints, Backward, Operands};
use super::passes::Passes;
use super::steps::Temperatures;
use crate::kernels::simd;
use crate::kernels::spmm::check;
use crate::real::Real;
use crate::tensor::memory::{self, Buffer};

impl Attention<'_> {
    /// y[i, h, :] = Σⱼ drop(α)ᵢⱼₕ v[j, h, :] with α = softmaxⱼ(t[i, h] eᵢⱼₕ). Returns y and α.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn forward<F: Real>(
        &self,
        x: Operands<F>,
        f: impl Fn(F, F) -> F + Copy + Sync,
    ) -> (Buffer<F>, Buffer<F>) {
        self.check("edge attention", &x);
        let (p, w, wide) = (self.pattern, self.row_len(), x.width);
        let (v, k, q) = (x.v, x.k.unwrap_or(x.v), x.q.unwrap_or(x.v));
        let mut y = memory::scratch(p.rows() * w);
        let mut alpha = memory::scratch(p.nnz() * self.heads);
        let outputs = [
            Output::by_row(&mut y, w),
            Output::by_entry(&mut alpha, self.heads),
        ];
        self.pass(p, outputs, |block, [y, alpha]| {
            let (heads, edges) = (self.heads, (p, block.rows.clone()));
            simd(
                #[inline(always)]
                || {
                    // A copy, so that what it captures is in registers.
                    let own_f = f;
                    // Without a, q takes its place, which nothing reads.
                    match x.a {
                        Some(a) => {
                            let term = |a: F, k, q| a * own_f(k, q);
                            scores((heads, wide), edges, [a, k, q], alpha, &term);
                        }
                        None => {
                            let term = |_, k, q| own_f(k, q);
                            scores((heads, wide), edges, [q, k, q], alpha, &term);
                        }
                    }
                },
            );
            self.softmax_and_sums(&block, x.t, v, [y, alpha]);
        });
        (y, alpha)
    }

    /// The adjoints of the operands of [`Attention::forward`], where `pull(g, k, q)` returns g f, g ∂f/∂k and
    /// g ∂f/∂q.
    ///
    /// Let ᾱ = drop ⟨gyᵢ, vⱼ⟩ per head. Then Σⱼ α ᾱ = ⟨gyᵢ, yᵢ⟩, and g = α (ᾱ − Σⱼ α ᾱ) is the adjoint of
    /// the score t e after the temperature. With uᵢ = Σⱼ g f the adjoints are:
    ///
    /// - Σⱼ g e = ⟨a, uᵢ⟩ of tᵢ,
    /// - Σᵢ tᵢ uᵢ of a,
    /// - a ⊙ Σⱼ tᵢ g ∂f/∂q of qᵢ,
    /// - a ⊙ Σᵢ tᵢ g ∂f/∂k of kⱼ,
    /// - Σᵢ drop(α) gyᵢ of vⱼ.
    ///
    /// Where k = q = v, f is symmetric and there is no t, an edge and its reverse compare the same rows.
    /// If every edge has a reverse, one sum serves node i as target and as source:
    /// a ⊙ Σⱼ (g_ij + g_ji) ∂f/∂q.
    ///
    /// Where α is 1, g is exactly 0, with dropout too.
    ///
    /// # Panics
    /// If the length of an operand is not that of its shape.
    #[track_caller]
    #[inline(never)]
    pub fn backward<F: Real>(
        &self,
        x: Operands<F>,
        back: Backward<F>,
        pull: impl Fn(F, F, F) -> [F; 3] + Copy + Sync,
    ) -> Adjoints<F> {
        let op = "adjoints of edge attention";
        self.check(op, &x);
        let (n, nnz) = (self.pattern.rows(), self.pattern.nnz());
        check(op, "alpha", back.alpha, &[nnz, self.heads]);
        check(op, "y", back.y, &[n, self.heads, self.width]);
        check(op, "gy", back.gy, &[n, self.heads, self.width]);
        let mut space = Buffer::default();
        let kept = self.kept(back.alpha, &mut space);
        let ones = vec![F::one(); self.heads * x.width.max(1)];
        let means = self.dots(back.y, back.gy);
        Passes {
            attention: self,
            x,
            back,
            kept,
            a: x.a.unwrap_or(&ones),
            t: Temperatures::new(x.t, &ones[..self.heads]),
            means: &means,
            pull,
        }
        .run()
    }

    #[track_caller]
    fn check<F>(&self, op: &str, x: &Operands<F>) {
        let ((n, m), h, width) = (self.pattern.shape(), self.heads, x.width);
        assert!(
            x.k.is_none() || x.q.is_some(),
            "{op}: rows k apart from the values, and no q"
        );
        check(op, "v", x.v, &[m, h, self.width]);
        check(op, "k", x.k.unwrap_or(x.v), &[m, h, width]);
        check(op, "q", x.q.unwrap_or(x.v), &[n, h, width]);
        if let Some(a) = x.a {
            check(op, "a", a, &[h, width]);
        }
        if let Some(t) = x.t {
            check(op, "t", t, &[n, h]);
        }
    }
}
