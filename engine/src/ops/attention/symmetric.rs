//! Attention whose queries are its keys.

use super::{DenseAttention, Qkv, slice};
use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::attention::symmetric::Symmetric;
use crate::real::Real;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, contiguous};

impl DenseAttention {
    /// y_i = Σ_j softmax_j(c u_i·u_j) z_j over the pairs that the mask allows: [`attend`](Self::attend) with
    /// queries and keys alike, and one head.
    ///
    /// | letter | shape |
    /// |---|---|
    /// | u | `[.., n, d]` |
    /// | z, y | `[.., n, e]` |
    ///
    /// Scores are symmetric, so each pair is compared once, in a kernel of its own. It serves where c > 0,
    /// there is no dropout, the mask is none or leaves out a symmetric set of edges, and the rows do not
    /// differ so much in size that exponentials vanish; elsewhere this is `attend`.
    ///
    /// Two rows at a right angle, c = ln 3: a row has the score ln 3 with itself and 0 with the other.
    ///
    /// ```
    /// use emmy::ops::attention::{DenseAttention, Mask};
    /// use emmy::{Tape, tensor::tensor};
    ///
    /// let attention = DenseAttention { scale: 3.0_f64.ln(), mask: Mask::none(), dropout: None };
    /// let tape = Tape::new();
    /// let u = tape.var(tensor(&[2, 2], vec![1.0_f64, 0.0, 0.0, 1.0]));
    /// let z = tape.var(tensor(&[2, 1], vec![0.0, 4.0]));
    /// let y = attention.attend_symmetric(u, z);
    /// assert_eq!(y.shape(), [2, 1]);
    /// assert!(y.value().iter().zip([1.0, 3.0]).all(|(y, e)| (y - e).abs() < 1e-12));
    /// ```
    ///
    /// # Panics
    /// If the shapes do not fit, or the tapes differ.
    #[track_caller]
    pub fn attend_symmetric<'t, F: Real>(&self, u: Var<'t, F>, z: Var<'t, F>) -> Var<'t, F> {
        u.tape().accept("attend_symmetric", &[z]);
        let (of_u, of_z) = (u.shape(), z.shape());
        let fits = of_u.len() >= 2
            && of_z.len() == of_u.len()
            && of_u[..of_u.len() - 1] == of_z[..of_z.len() - 1];
        assert!(
            fits,
            "attend_symmetric: u {of_u:?}, z {of_z:?}: they must be [.., n, d] and [.., n, e]"
        );
        let rows = of_u[of_u.len() - 2];
        let items = of_u[..of_u.len() - 2].iter().product();
        self.mask.check("attend_symmetric", items, rows, rows);
        let operation = FusedSymmetric(self.clone());
        let exact = contiguous(&u.value());
        match operation.serves()
            && operation
                .kernel(&of_u, &of_z)
                .weights(slice(&exact))
                .is_some()
        {
            true => fused(operation, &[u, z]),
            false => operation.reference(&[u, z]),
        }
    }
}

/// The fused operation of u and z.
struct FusedSymmetric(DenseAttention);

impl FusedSymmetric {
    /// Whether the options allow the kernel.
    fn serves(&self) -> bool {
        let DenseAttention {
            scale,
            mask,
            dropout,
        } = &self.0;
        let masked = match mask.excepted() {
            Some(pattern) => pattern.is_symmetric(),
            None => mask.is_none(),
        };
        *scale > 0.0 && dropout.is_none() && masked
    }

    fn kernel<F: Real>(&self, u: &[usize], z: &[usize]) -> Symmetric<'_, F> {
        let lead = u.len() - 2;
        Symmetric {
            batch: u[..lead].iter().product(),
            rows: u[lead],
            width: u[lead + 1],
            value_width: z[lead + 1],
            scale: F::of(self.0.scale),
            except: self.0.mask.excepted(),
        }
    }
}

/// Sums of exponentials, and the weights of the rows.
struct Saved<F: Real> {
    sums: Buffer<F>,
    weights: [Vec<F>; 2],
}

impl<F: Real> Fused<F> for FusedSymmetric {
    type Saved = Saved<F>;

    fn kind(&self) -> Kind {
        Kind::Opaque("attend_symmetric")
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Saved<F>) {
        let [u, z] = [0, 1].map(|k| contiguous(&args[k]));
        let kernel = self.kernel(u.shape(), z.shape());
        let weights = kernel.weights(slice(&u)).expect("checked before");
        let (y, sums) = kernel.forward(slice(&u), slice(&z), &weights);
        (y.into_tensor(z.shape()), Saved { sums, weights })
    }

    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        saved: &Saved<F>,
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let [u, z] = [0, 1].map(|k| contiguous(&args[k]));
        let (y, gy) = (contiguous(y), contiguous(gy));
        let kernel = self.kernel(u.shape(), z.shape());
        let outcome = [slice(&y), &saved.sums, slice(&gy)];
        let adjoints = kernel.backward([slice(&u), slice(&z)], &saved.weights, outcome);
        let shaped = adjoints.into_iter().zip(args);
        shaped
            .map(|(g, x)| Some(g.into_tensor(x.shape())))
            .collect()
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let one_head = |x: Var<'t, F>| x.unsqueeze(-2);
        let (u, z) = (one_head(args[0]), one_head(args[1]));
        let y = self.0.attend(Qkv::new(u, u, z));
        y.reshape(&args[1].shape())
    }
}
