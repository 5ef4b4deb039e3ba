//! The forms of ContraNorm, in the paper and in its published code.

use super::ContraNorm;
use crate::error::{Result, Rules};
use crate::nn::LayerNorm;
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// The options of a [`ContraNorm`]. Start from a constructor, and change fields.
///
/// | constructor | form | source |
/// |---|---|---|
/// | [`new`](Self::new) | LayerNorm(H − s/τ softmax(HHᵀ/τ) H) | Eq. (9), the paper's layer |
/// | [`full`](Self::full) | H − s/τ (D⁻¹A + AD⁻¹) H | Eq. (6), a whole step of descent |
/// | [`stopped`](Self::stopped) | H − s/τ D⁻¹A H | Eq. (7) |
/// | [`regularized`](Self::regularized) | (1 + s) H − s/τ D⁻¹A H | Eq. (8) |
/// | [`dimension`](Self::dimension) | (1 + s) H − s HHᵀH | Eq. (10), descent of the dimension loss |
/// | [`unit`](Self::unit) | rows of the output of length 1 in place of LayerNorm | Table 4, L₂N |
/// | [`v2`](Self::v2) | LayerNorm(H − s/τ H softmax(HᵀH/τ)) | Eq. (30), linear in the number of rows |
/// | [`graph_code`](Self::graph_code) | (1 + s) H − s softmax(ĤĤᵀ) H without neighbours, then LayerNorm | published, `gnn` |
/// | [`vision_code`](Self::vision_code) | H − s softmax(ĤĤᵀ/τ) H, then LayerNorm | published, `ViT_imagenet` |
/// | [`text_code`](Self::text_code) | (1 + s) H − s softmax(ĤĤᵀ) H | published, `bert` |
/// | [`dual_code`](Self::dual_code) | (1 + s) H − s H softmax(ĤᵀĤ) | published, `ogbn-arxiv` |
///
/// Ĥ has the rows of H at length 1.
///
/// The mean over a single row is the row itself: Eq. (7) gives (1 − s) H, Eq. (8) gives H.
///
/// ```
/// use emmy::{Tape, nn::{ContraConfig, Pass}, tensor::tensor};
///
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[1, 2], vec![2.0, 4.0]));
/// let of = |config: ContraConfig| {
///     let layer = config.build::<f64>(2);
///     layer.forward(&Pass::eval(&tape, &layer), x).value()
/// };
/// assert_eq!(of(ContraConfig::stopped(0.5)), tensor(&[1, 2], vec![1.0, 2.0]));
/// assert_eq!(of(ContraConfig::regularized(0.5)), x.value());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ContraConfig {
    /// s.
    pub scale: f64,
    /// Whether s is trained.
    pub step: StepSize,
    /// τ.
    pub temperature: f64,
    /// Where τ stands.
    pub tau: Tau,
    /// Which sums over the rows are subtracted.
    pub terms: Terms,
    /// Whether H has the factor 1 + s, else 1.
    pub identity: bool,
    /// Whether rows have length 1 inside the sums.
    pub rows: UnitRows,
    /// What is compared: rows, or features.
    pub between: Between,
    /// Whether rows that are neighbours in a graph, and a row itself, are left out of the softmax.
    pub without_neighbours: bool,
    /// Whether the coefficients are constants for derivatives.
    pub detached: bool,
    /// What follows.
    pub after: After,
}

/// Whether s is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepSize {
    /// It is a constant.
    Fixed,
    /// One parameter s per feature.
    Learnt,
    /// One parameter ln s per feature.
    LearntExponent,
}

/// Where τ stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tau {
    /// s/τ and softmax(HHᵀ/τ), which the derivation of Eq. (7) gives.
    Both,
    /// s/τ and softmax(HHᵀ), as Eq. (7) to (9) are printed.
    Outside,
    /// s and softmax(HHᵀ/τ), as the published code has it.
    Inside,
}

/// The sums that are subtracted, with A = exp(HHᵀ/τ) and D its row sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Terms {
    /// D⁻¹A H, the mean that attention computes: the stop-gradient form.
    Rows,
    /// AD⁻¹ H, the other term of the gradient.
    Columns,
    /// Both, the gradient of the uniformity loss.
    Both,
    /// HHᵀH/τ, with the scalar products themselves in place of their softmax.
    Products,
}

/// Whether rows have length 1 inside the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitRows {
    /// They are as they are.
    Never,
    /// Only in the scalar products.
    Compared,
    /// In the scalar products and in the sum of rows.
    Summed,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// The rows, nodes or tokens: HHᵀ.
    Rows,
    /// The features: HᵀH.
    Features,
}

/// What follows the step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// Nothing.
    Nothing,
    /// [`LayerNorm`] with γ and β.
    LayerNorm {
        /// ε.
        eps: f64,
    },
    /// Each row at length 1.
    UnitRows,
}

impl ContraConfig {
    /// H − s/τ D⁻¹A H with τ = 1, Eq. (7).
    pub const fn stopped(scale: f64) -> Self {
        Self {
            scale,
            step: StepSize::Fixed,
            temperature: 1.0,
            tau: Tau::Both,
            terms: Terms::Rows,
            identity: false,
            rows: UnitRows::Never,
            between: Between::Rows,
            without_neighbours: false,
            detached: false,
            after: After::Nothing,
        }
    }

    /// The paper's layer, Eq. (9), with τ = 1 and ε = 10⁻⁵.
    pub const fn new(scale: f64) -> Self {
        Self {
            after: After::LayerNorm { eps: 1e-5 },
            ..Self::stopped(scale)
        }
    }

    /// A step of descent of the uniformity loss, Eq. (6), with τ = 1.
    pub const fn full(scale: f64) -> Self {
        Self {
            terms: Terms::Both,
            ..Self::stopped(scale)
        }
    }

    /// Eq. (8) with τ = 1.
    pub const fn regularized(scale: f64) -> Self {
        Self {
            identity: true,
            ..Self::stopped(scale)
        }
    }

    /// Eq. (10): H + s (I − HHᵀ) H with τ = 1. It is a step of descent of the
    /// [`dimension_loss`](crate::collapse::dimension_loss) ‖I − HHᵀ‖²/4, whose gradient is −(I − HHᵀ) H.
    ///
    /// A singular value σ of H becomes σ (1 + s − s σ²), and its singular vectors stay. The effective rank
    /// does not fall if 1 + s ≥ 3 s σ_max². (The condition that Proposition 2 prints has σ_max² in place of
    /// 3 σ_max² and is too weak.)
    /// Work and memory are linear in the number of rows.
    ///
    /// ```
    /// use emmy::{Tape, nn::{ContraConfig, Pass}, tensor::tensor};
    ///
    /// // Singular values 1 and ½, s = ½: they become 1 and ½ (3/2 − 1/8).
    /// let layer = ContraConfig::dimension(0.5).build::<f64>(2);
    /// let tape = Tape::new();
    /// let x = tape.constant(tensor(&[2, 2], vec![1.0, 0.0, 0.0, 0.5]));
    /// let y = layer.forward(&Pass::eval(&tape, &layer), x);
    /// assert_eq!(y.value(), tensor(&[2, 2], vec![1.0, 0.0, 0.0, 0.6875]));
    /// ```
    pub const fn dimension(scale: f64) -> Self {
        Self {
            terms: Terms::Products,
            identity: true,
            ..Self::stopped(scale)
        }
    }

    /// The paper's layer with rows of length 1 in place of LayerNorm, Table 4.
    pub const fn unit(scale: f64) -> Self {
        Self {
            after: After::UnitRows,
            ..Self::stopped(scale)
        }
    }

    /// ContraNorm-v2, Eq. (30), with τ = 1: work and memory are linear in the number of rows.
    pub const fn v2(scale: f64) -> Self {
        Self {
            between: Between::Features,
            ..Self::new(scale)
        }
    }

    /// The published code for graphs, with its LayerNorm.
    pub const fn graph_code(scale: f64) -> Self {
        Self {
            identity: true,
            rows: UnitRows::Compared,
            tau: Tau::Inside,
            without_neighbours: true,
            ..Self::new(scale)
        }
    }

    /// The published code for images, with its LayerNorm of ε = 10⁻⁶.
    pub const fn vision_code(scale: f64) -> Self {
        Self {
            rows: UnitRows::Compared,
            tau: Tau::Inside,
            after: After::LayerNorm { eps: 1e-6 },
            ..Self::stopped(scale)
        }
    }

    /// The published code for text; the norm of the block follows.
    pub const fn text_code(scale: f64) -> Self {
        Self {
            identity: true,
            rows: UnitRows::Compared,
            tau: Tau::Inside,
            ..Self::stopped(scale)
        }
    }

    /// The published code for ogbn-arxiv: features are compared.
    pub const fn dual_code(scale: f64) -> Self {
        Self {
            between: Between::Features,
            ..Self::text_code(scale)
        }
    }

    /// A layer for rows of `width` features.
    pub fn build<F: Real>(&self, width: usize) -> ContraNorm<F> {
        let start = match self.step {
            StepSize::Fixed => None,
            StepSize::Learnt => Some(self.scale),
            StepSize::LearntExponent => Some(self.scale.ln()),
        };
        let norm = match self.after {
            After::LayerNorm { eps } => Some(LayerNorm {
                eps,
                ..LayerNorm::new(width)
            }),
            After::Nothing | After::UnitRows => None,
        };
        ContraNorm {
            step: start.map(|s| Tensor::from_elem(vec![width], F::of(s))),
            norm,
            config: *self,
        }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// If s is not finite, or not above 0 where its logarithm is trained; if τ is not a finite number above
    /// 0; if ε is negative; if neighbours are to be left out of a comparison of features, of sums by
    /// columns, or of products.
    pub fn validate(&self) -> Result<()> {
        let rules = Rules("ContraNorm");
        rules.finite("s", self.scale)?;
        let trained = self.step == StepSize::LearntExponent;
        let rule = "above 0, since its logarithm is trained";
        rules.hold(!trained || self.scale > 0.0, "s", rule, self.scale)?;
        rules.above_zero("temperature", self.temperature)?;
        if self.without_neighbours {
            let rule = "comparison of rows and sums by rows, where neighbours are left out";
            let of_rows = self.between != Between::Features;
            rules.hold(of_rows, "form", rule, "comparison of features")?;
            let found = match self.terms {
                Terms::Products => "products without a softmax",
                _ => "sums by columns",
            };
            rules.hold(self.terms == Terms::Rows, "form", rule, found)?;
        }
        match self.after {
            After::LayerNorm { eps } => rules.from_zero("eps", eps),
            After::Nothing | After::UnitRows => Ok(()),
        }
    }

    /// τ inside the softmax, and the number by which s is divided.
    pub(super) fn temperatures(&self) -> [f64; 2] {
        match self.tau {
            Tau::Both => [self.temperature; 2],
            Tau::Outside => [1.0, self.temperature],
            Tau::Inside => [self.temperature, 1.0],
        }
    }
}
