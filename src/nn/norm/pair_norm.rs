//! PairNorm: the mean squared distance of the nodes keeps its size.

use super::row_axes;
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::lipschitz::{Bound, Lower, Lp, Upper, declare, declare_here};
use crate::nn::{Fields, Layer, Module, NormContext, Normalizer, Params, Pass};
use crate::real::Real;
use crate::symmetry::{Change, Passage, Ports, Way};
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// Centres the nodes and brings their distances to one size, so that deep graph networks do not make all
/// nodes alike. With m = mean_i x_i over the n nodes:
///
/// | mode | y_i | size |
/// |---|---|---|
/// | [`Pn`](PairMode::Pn) | s (x_i − m) / size | √(ε + mean_k ‖x_k − m‖²), one number |
/// | [`PnSi`](PairMode::PnSi) | s (x_i − m) / size_i | √(ε + ‖x_i − m‖²) |
/// | [`PnScs`](PairMode::PnScs) | s x_i / size_i − m | √(ε + ‖x_i‖²); m is that of the x_i as they were |
///
/// Zhao and Akoglu, "PairNorm: Tackling Oversmoothing in GNNs", ICLR 2020, Eq. (10) and (11), where there is
/// no ε; PN-SI scales node by node; PN-SCS is in their code alone.
///
/// | letter | shape |
/// |---|---|
/// | x, y | `[.., d]`; all axes but the last number the nodes |
/// | s | a number, not trained; 1 |
/// | ε | 10⁻⁶ in their code |
///
/// [`PairNorm::new`] is their code. PyTorch Geometric's `PairNorm` ([`PairNorm::pyg`]) has an ε of 10⁻⁵; its
/// `scale_individually` divides by ε + ‖x_i − m‖ ([`PairEps::BesideNorm`]). It has no PN-SCS, and takes
/// several graphs at once, where here x is one graph.
///
/// The output rotates with x. In the first two modes it does not depend on an offset of all nodes nor, with ε
/// = 0, on the size of x. Hence laws of the layers that write x: the gradients of their biases are zero; with
/// ε = 0, ⟨W, G⟩ summed over all parameters that write x is zero, but not for a single neuron; if linear maps
/// read the output, there is a matrix law of rotations.
///
/// The nodes (0, 0) and (6, 8) have the distance 5 from their mean (3, 4). After the norm the mean is 0, and
/// the mean squared distance from it is s² = 1.
///
/// ```
/// use emmy::{Tape, nn::{PairMode, PairNorm, Pass}, tensor::tensor};
///
/// let norm = PairNorm { eps: 0.0, ..PairNorm::new(PairMode::Pn) };
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 2], vec![0.0_f64, 0.0, 6.0, 8.0]));
/// let y = norm.forward(&Pass::eval(&tape, &norm), x);
/// assert_eq!(y.value(), tensor(&[2, 2], vec![-0.6, -0.8, 0.6, 0.8]));
/// assert!((y.square().sum_all().item() / 2.0 - 1.0).abs() < 1e-12);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairNorm {
    /// What is centred and what is scaled.
    pub mode: PairMode,
    /// s.
    pub scale: f64,
    /// ε.
    pub eps: f64,
    /// Where ε stands.
    pub reading: PairEps,
}

/// The modes of [`PairNorm`], with the names of the published code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairMode {
    /// All nodes by one number.
    Pn,
    /// Each node on its own ("scale individually").
    PnSi,
    /// Each node on its own, then centred ("scale and centre simultaneously").
    PnScs,
}

/// Where ε stands in the size by which [`PairNorm`] divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairEps {
    /// √(ε + ‖·‖²), as in the published code.
    UnderRoot,
    /// ε + ‖·‖, as in PyTorch Geometric for single nodes. The derivative of the norm at 0 is 0.
    BesideNorm,
}

impl PairNorm {
    /// The published code: s = 1, ε = 10⁻⁶ under the root.
    pub const fn new(mode: PairMode) -> Self {
        Self {
            mode,
            scale: 1.0,
            eps: 1e-6,
            reading: PairEps::UnderRoot,
        }
    }

    /// PyTorch Geometric's `PairNorm(scale_individually=individually)`: s = 1, ε = 10⁻⁵, under the root for
    /// all nodes, beside the norm for single nodes.
    pub const fn pyg(individually: bool) -> Self {
        let (mode, reading) = match individually {
            true => (PairMode::PnSi, PairEps::BesideNorm),
            false => (PairMode::Pn, PairEps::UnderRoot),
        };
        Self {
            mode,
            scale: 1.0,
            eps: 1e-5,
            reading,
        }
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has fewer than two axes.
    #[track_caller]
    pub fn forward<'t, F: Real>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let shape = x.shape();
        let nodes = row_axes("PairNorm", &shape);
        let n: usize = shape[..shape.len() - 1].iter().product();
        pass.call(self, &[x], || {
            let mean = x.mean(&nodes, true);
            // The mean over the nodes of squared norms is a sum over all elements, divided by n.
            let (scaled, axes, n): (_, &[isize], _) = match self.mode {
                PairMode::Pn => (x - mean, &[], n as f64),
                PairMode::PnSi => (x - mean, &[-1], 1.0),
                PairMode::PnScs => (x, &[-1], 1.0),
            };
            let eps = F::of(self.eps);
            let size = match self.reading {
                PairEps::UnderRoot => {
                    let squares = scaled.square().sum(axes, true).scale(F::of(1.0 / n));
                    squares.add_scalar(eps).sqrt()
                }
                PairEps::BesideNorm => {
                    let norm = scaled.norm(axes, true).scale(F::of(n.sqrt().recip()));
                    norm.add_scalar(eps)
                }
            };
            let y = scaled.scale(F::of(self.scale)) / size;
            let y = self.stated(y, x, size);
            match self.mode {
                PairMode::PnScs => y - mean,
                _ => y,
            }
        })
    }

    /// y = s c / size with its constants in the 2-norm: s/size at a point, since c is a projection of x and
    /// the derivative of the size only makes the Jacobian smaller; everywhere s over the least size.
    fn stated<'t, F: Real>(&self, y: Var<'t, F>, x: Var<'t, F>, size: Var<'t, F>) -> Var<'t, F> {
        let s = Upper::new(self.scale.abs());
        let here = Bound::recip(size) * s;
        let y = declare_here(y, &[x], [(Lp::Two, here)]);
        let least = match self.reading {
            PairEps::UnderRoot => F::of(self.eps).as_f64().sqrt() * (1.0 - 1e-15),
            PairEps::BesideNorm => F::of(self.eps).as_f64(),
        };
        let global = s / Lower::new(least);
        let global = global
            .is_finite()
            .then(|| (Lp::Two, Bound::number(y.tape(), global)));
        declare(y, &[x], global)
    }

    /// Checks the options.
    ///
    /// # Errors
    /// If s or ε is not a finite number, or ε is negative.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("PairNorm");
        rules.finite("scale", self.scale)?;
        rules.from_zero("eps", self.eps)
    }

    fn passage(&self) -> Passage {
        match self.mode {
            PairMode::Pn | PairMode::PnSi => {
                Passage::rms_norm(self.eps).with(Change::Offset, Way::Absorbs)
            }
            PairMode::PnScs => Passage::BREAKS.with(Change::Turn, Way::Carries(1.0)),
        }
    }
}

impl<F: Real> Module<F> for PairNorm {
    fn collect<'a>(&'a self, _: &mut Fields<&'a Tensor<F>>) {}

    fn collect_mut<'a>(&'a mut self, _: &mut Fields<&'a mut Tensor<F>>) {}
}

impl<F: Real> Layer<F> for PairNorm {
    fn ports(&self, _: &Params<'_, F>) -> Option<Ports> {
        Some(Ports::passing(self.passage()))
    }
}

impl<F: Real> Normalizer<F> for PairNorm {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        self.forward(pass, x)
    }
}
