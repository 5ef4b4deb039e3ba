//! Normalisation of rows, fused: LayerNorm and RMSNorm.

use crate::autodiff::{Fused, Kind, Var, fused};
use crate::kernels::norm::RowNorm;
use crate::real::Real;
use crate::tensor::memory::Buffer;
use crate::tensor::{Tensor, contiguous, tensor};

impl<'t, F: Real> Var<'t, F> {
    /// y = γ ⊙ (x − mean x) / √(var x + ε) + β, mean and variance over the last axis; γ is 1 and β is 0 if
    /// they are absent.   With z = (x − mean x) r and r = 1 / √(var x + ε):
    /// x̄ = r (γ ȳ − mean γ ȳ − z mean γ ȳ z), γ̄ = Σ ȳ z, β̄ = Σ ȳ over the other axes
    ///
    /// Shapes: x `[.., d]`, γ and β `[d]`. Ba, Kiros and Hinton, "Layer Normalization", 2016, Eq. (4). The
    /// variance is divided by d, as in PyTorch.
    ///
    /// ```
    /// use emmy::{Tape, tensor::tensor};
    /// let tape = Tape::new();
    /// let x = tape.var(tensor(&[1, 2], vec![1.0_f64, 3.0]));
    /// // Mean 2, variance 1.
    /// let z = x.layer_norm(None, None, 0.0);
    /// assert_eq!(z.value(), tensor(&[1, 2], vec![-1.0, 1.0]));
    /// let (gain, bias) = (tape.var(vec![2.0, 2.0]), tape.var(vec![5.0, 6.0]));
    /// let y = x.layer_norm(Some(gain), Some(bias), 0.0);
    /// assert_eq!(y.value(), tensor(&[1, 2], vec![3.0, 8.0]));
    /// ```
    ///
    /// # Panics
    /// If x has no axis, γ or β does not have the shape `[d]`, or ε is not at least 0.
    #[track_caller]
    pub fn layer_norm(self, gain: Option<Self>, bias: Option<Self>, eps: F) -> Self {
        self.row_norm(true, gain, bias, eps)
    }

    /// y = γ ⊙ x / √(mean x² + ε), the mean over the last axis; γ is 1 if it is absent.   With z = x r and
    /// r = 1 / √(mean x² + ε): x̄ = r (γ ȳ − z mean γ ȳ z), γ̄ = Σ ȳ z over the other axes
    ///
    /// Shapes: x `[.., d]`, γ `[d]`. Zhang and Sennrich, "Root Mean Square Layer Normalization", NeurIPS
    /// 2019, Eq. (4), with the ε that implementations add.
    ///
    /// # Panics
    /// If x has no axis, γ does not have the shape `[d]`, or ε is not at least 0.
    #[track_caller]
    pub fn rms_norm(self, gain: Option<Self>, eps: F) -> Self {
        self.row_norm(false, gain, None, eps)
    }

    #[track_caller]
    fn row_norm(self, centred: bool, gain: Option<Self>, bias: Option<Self>, eps: F) -> Self {
        let norm = FusedRowNorm {
            centred,
            eps,
            gain: gain.is_some(),
            bias: bias.is_some(),
        };
        let (op, shape) = (norm.kind().name(), self.shape());
        let Some(width) = shape.last() else {
            panic!("{op}: x has no axis")
        };
        for (name, p) in [("γ", gain), ("β", bias)] {
            let found = p.map_or(vec![*width], Var::shape);
            assert!(
                found == [*width],
                "{op}: x has shape {shape:?}, {name} {found:?}: it must be [{width}]"
            );
        }
        assert!(eps >= F::zero(), "{op}: ε is {eps}: it must be at least 0");
        let args: Vec<_> = [Some(self), gain, bias].into_iter().flatten().collect();
        fused(norm, &args)
    }
}

/// The fused operation. Its operands are x, then γ and β as far as they are there.
struct FusedRowNorm<F> {
    centred: bool,
    eps: F,
    gain: bool,
    bias: bool,
}

impl<F: Real> FusedRowNorm<F> {
    fn kind(&self) -> Kind {
        Kind::RowNorm {
            centred: self.centred,
            eps: self.eps.as_f64(),
            gain: self.gain,
            bias: self.bias,
        }
    }

    /// γ and β.
    fn split<'a, T>(&self, args: &'a [T]) -> [Option<&'a T>; 2] {
        let mut rest = args[1..].iter();
        [self.gain, self.bias].map(|there| there.then(|| rest.next()).flatten())
    }

    fn kernel<'a>(&self, rows: &'a [Tensor<F>]) -> RowNorm<'a, F> {
        let [gain, bias] = self.split(rows).map(|p| p.map(slice));
        RowNorm {
            width: rows[0].shape().last().copied().unwrap_or(1),
            centred: self.centred,
            eps: self.eps,
            gain,
            bias,
        }
    }
}

impl<F: Real> Fused<F> for FusedRowNorm<F> {
    /// The mean and 1 / √(var + ε) of each row.
    type Saved = Buffer<F>;

    fn kind(&self) -> Kind {
        self.kind()
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Buffer<F>) {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let (y, moments) = self.kernel(&rows).forward(slice(&rows[0]));
        (y.into_tensor(args[0].shape()), moments)
    }

    fn backward(
        &self,
        args: &[Tensor<F>],
        _: &Tensor<F>,
        moments: &Buffer<F>,
        gy: &Tensor<F>,
        wanted: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        let rows: Vec<_> = args.iter().map(contiguous).collect();
        let (kernel, gy) = (self.kernel(&rows), contiguous(gy));
        let parameters = wanted[1..].contains(&true);
        let g = kernel.backward(slice(&rows[0]), moments, slice(&gy), parameters);
        let width = [kernel.width];
        let of = |there: bool, g: Vec<F>| there.then(|| parameters.then(|| tensor(&width, g)));
        let x = Some(Some(g.x.into_tensor(args[0].shape())));
        let all = [x, of(self.gain, g.gain), of(self.bias, g.bias)];
        all.into_iter().flatten().collect()
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        let x = match self.centred {
            true => args[0] - args[0].mean(&[-1], true),
            false => args[0],
        };
        let y = x / x.square().mean(&[-1], true).add_scalar(self.eps).sqrt();
        let [gain, bias] = self.split(args);
        let y = gain.map_or(y, |&gain| y * gain);
        bias.map_or(y, |&bias| y + bias)
    }
}

fn slice<F>(x: &Tensor<F>) -> &[F] {
    x.as_slice().expect("contiguous")
}
