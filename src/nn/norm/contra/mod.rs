//! [`ContraNorm`], a step that moves rows apart, and the options of its forms.

mod config;

pub use config::{After, Between, ContraConfig, StepSize, Tau, Terms, UnitRows};

use super::behind;
use crate::autodiff::Var;
use crate::graph::Neighbourhood;
use crate::lipschitz::{Bound, Lp, declare_here};
use crate::nn::{Layer, LayerNorm, NormContext, Normalizer, Params, Pass};
use crate::ops::attention::{DenseAttention, Mask, Qkv};
use crate::real::Real;
use crate::symmetry::{Change, Passage, Ports, Way};
use crate::tensor::{Tensor, scalar};

/// The least length that a row is divided by.
const LEAST: f64 = 1e-12;

/// y = norm(H − (s/τ) softmax(HHᵀ/τ) H): every row moves away from similar rows, so that the rows do not
/// collapse to one row or to a few directions.
///
/// Guo, Wang, Du and Wang, "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond", ICLR
/// 2023, Eq. (9). The step is descent of the uniformity loss Σ_i log Σ_j exp(h_i·h_j/τ), whose gradient is
/// (D⁻¹A + AD⁻¹) H/τ with A = exp(HHᵀ/τ) and D its sums over rows (Eq. (5)), without its second term. The
/// paper prints softmax(HHᵀ) without τ in Eq. (7) to (9), which differs from its own Eq. (5) for τ ≠ 1;
/// [`Tau`] has both. Its published code has other forms, see [`ContraConfig`].
///
/// | letter | shape | meaning |
/// |---|---|---|
/// | H, y | `[.., n, d]` | n rows of each item: nodes, tokens |
/// | s | a number, or `[d]` where it is trained | size of the step |
/// | τ | a number | temperature |
///
/// It is attention with equal queries, keys and values ([`DenseAttention`]), so nothing of size n × n is
/// stored. The work is proportional to n² d, or to n d² if features are compared ([`ContraConfig::v2`]).
///
/// Laws: if s is one number, the output of the step rotates with H, so that a layer between linear maps keeps
/// their matrix law of rotations. If rows have length 1 only inside the softmax, the step also carries the
/// size of H. A LayerNorm after the step does not rotate with its input: then the layer has only the law of a
/// gain, for γ and β.
///
/// Lipschitz constants: like all attention by dot products, the step has no constant on all inputs. It has
/// one if the rows are limited, and one at a point. A LayerNorm after it has one.
///
/// The rows (2, 1) and (2, −1), with s = τ = 1 and without a norm. Their products are 5 with themselves and 3
/// with each other, so a row has the weight p = e²/(e² + 1) in its own mean. The part 2 that both share is
/// gone; what distinguishes them stays, in the size 1 − (2p − 1) = 2/(e² + 1).
///
/// ```
/// use emmy::{Tape, nn::{ContraConfig, Pass}, tensor::tensor};
///
/// let layer = ContraConfig::stopped(1.0).build::<f64>(2);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 2], vec![2.0, 1.0, 2.0, -1.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x);
/// assert_eq!(y.shape(), [2, 2]);
/// let rest = 2.0 / (2_f64.exp() + 1.0);
/// assert!(y.value().iter().zip([0.0, rest, 0.0, -rest]).all(|(y, e)| (y - e).abs() < 1e-12));
/// ```
#[derive(Debug, Clone)]
pub struct ContraNorm<F: Real> {
    /// s, or ln s, per feature, where it is trained.
    pub step: Option<Tensor<F>>,
    /// The LayerNorm after the step.
    pub norm: Option<LayerNorm<F>>,
    /// The options.
    pub config: ContraConfig,
}
crate::module!(ContraNorm: step = Gain as "scale", norm as "*");

impl<F: Real> ContraNorm<F> {
    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has fewer than two axes, its last axis does not have the width of the layer, or the options leave
    /// neighbours out: then call [`on_graph`](Self::on_graph).
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        self.needs_no_graph();
        self.masked(pass, x, &Mask::none())
    }

    #[track_caller]
    fn needs_no_graph(&self) {
        assert!(
            !self.config.without_neighbours,
            "ContraNorm: it leaves neighbours out, so it needs their graph: call on_graph"
        );
    }

    /// y for the nodes of a graph. The edges matter if the options leave neighbours out: then a row is
    /// compared only with rows that are not its neighbours. A node without such rows stays as it is, up to
    /// the factor 1 + s.
    ///
    /// # Panics
    /// As [`forward`](Self::forward), or if x does not have one row per node.
    #[track_caller]
    pub fn on_graph<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let mask = match self.config.without_neighbours {
            true => Mask::all_but(neighbours.pattern_with_self_loops().clone()),
            false => Mask::none(),
        };
        self.masked(pass, x, &mask)
    }

    /// y if row i is compared only with the rows that `mask` lets it see, for example without padding. If
    /// features are compared, or all rows by their products, a mask has no meaning.
    ///
    /// # Panics
    /// As [`forward`](Self::forward); if the mask does not fit, or if it has no meaning and hides rows.
    #[track_caller]
    pub fn masked<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        let shape = x.shape();
        super::row_axes("ContraNorm", &shape);
        super::check_width("ContraNorm", &shape, &[("s", self.step.as_ref())]);
        pass.call(self, &[x], || {
            let moved = self.step(pass, x, mask);
            match (&self.norm, self.config.after) {
                (Some(norm), _) => norm.forward(pass, moved),
                (None, After::UnitRows) => unit_rows(moved),
                (None, _) => moved,
            }
        })
    }

    /// The step without what follows it.
    fn step<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        let c = &self.config;
        let [inside, outside] = c.temperatures();
        let unit = (c.rows != UnitRows::Never).then(|| unit_rows(x));
        let compared = unit.unwrap_or(x);
        let compared = if c.detached {
            compared.detach()
        } else {
            compared
        };
        let summed = unit.filter(|_| c.rows == UnitRows::Summed).unwrap_or(x);
        let no_mask = match (c.between, c.terms) {
            (Between::Features, _) => Some("features are compared"),
            (_, Terms::Products) => Some("products are summed over all rows"),
            _ => None,
        };
        assert!(
            no_mask.is_none() || mask.is_none(),
            "ContraNorm: {}, a mask has no meaning",
            no_mask.unwrap_or_default()
        );
        let sum = match c.between {
            Between::Rows => of_rows(compared, summed, c.terms, inside, mask),
            Between::Features => of_features(compared, summed, c.terms, inside),
        };
        let Some(step) = &self.step else {
            let own = if c.identity { 1.0 + c.scale } else { 1.0 };
            return x.scale(F::of(own)) - sum.scale(F::of(c.scale / outside));
        };
        let step = pass.param(step);
        let s = match c.step {
            StepSize::LearntExponent => step.exp(),
            StepSize::Learnt | StepSize::Fixed => step,
        };
        let off = s * sum.scale(F::of(outside.recip()));
        match c.identity {
            true => x + s * x - off,
            false => x - off,
        }
    }

    fn passage(&self) -> Passage {
        let c = &self.config;
        let mut passage = Passage::BREAKS;
        if c.between == Between::Rows && c.step == StepSize::Fixed {
            passage = passage.with(Change::Turn, Way::Carries(1.0));
        }
        if c.rows == UnitRows::Compared {
            passage = passage.with(Change::All, Way::Carries(1.0));
        }
        match c.after {
            After::Nothing => passage,
            After::LayerNorm { eps } => passage.then(Passage::layer_norm(eps)),
            After::UnitRows => passage.then(Passage::rms_norm(0.0)),
        }
    }
}

impl<F: Real> Layer<F> for ContraNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let (gain, bias) = match &self.norm {
            Some(norm) => (norm.gain.as_ref(), norm.bias.as_ref()),
            None => (None, None),
        };
        Some(behind(params, self.passage(), gain, bias))
    }
}

impl<F: Real> Normalizer<F> for ContraNorm<F> {
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        context: NormContext<'_, F>,
    ) -> Var<'t, F> {
        match context {
            NormContext::None => self.forward(pass, x),
            NormContext::Graph(neighbours) => self.on_graph(pass, x, neighbours),
            NormContext::Tokens(mask) => {
                self.needs_no_graph();
                self.masked(pass, x, mask)
            }
        }
    }
}

/// D⁻¹A z, AD⁻¹ z or their sum, A = exp(uuᵀ/τ) over the pairs that the mask allows; or uuᵀz/τ.
fn of_rows<'t, F: Real>(
    u: Var<'t, F>,
    z: Var<'t, F>,
    terms: Terms,
    tau: f64,
    mask: &Mask,
) -> Var<'t, F> {
    let attention = DenseAttention {
        scale: tau.recip(),
        mask: mask.clone(),
        dropout: None,
    };
    let by_rows = || attention.attend_symmetric(u, z);
    // Σ_j exp(s_ij − ℓ_j) z_j with ℓ_j = ln D_j: a softmax with −ℓ_j added to the scores, times the sum that
    // it divides by.
    let by_columns = || {
        let one_head = u.unsqueeze(-2);
        let all = Qkv::new(one_head, one_head, z.unsqueeze(-2));
        let lse = attention.log_sum_exp(all);
        let offset = Qkv {
            beta: Some(lse.scale(F::of(-tau))),
            ..all
        };
        let total = attention.log_sum_exp(offset).exp();
        (attention.attend(offset) * total.unsqueeze(-1)).reshape(&z.shape())
    };
    match terms {
        Terms::Rows => by_rows(),
        Terms::Columns => by_columns(),
        Terms::Both => by_rows() + by_columns(),
        Terms::Products => u.matmul(u.t().matmul(z)).scale(F::of(tau.recip())),
    }
}

/// z P with P = softmax(uᵀu/τ) over rows, over columns, or their sum; or P = uᵀu/τ.
fn of_features<'t, F: Real>(u: Var<'t, F>, z: Var<'t, F>, terms: Terms, tau: f64) -> Var<'t, F> {
    let scores = u.t().matmul(u).scale(F::of(tau.recip()));
    let p = match terms {
        Terms::Rows => scores.softmax(-1),
        Terms::Columns => scores.softmax(-2),
        Terms::Both => scores.softmax(-1) + scores.softmax(-2),
        Terms::Products => scores,
    };
    z.matmul(p)
}

/// x_i / max(‖x_i‖, 10⁻¹²).
fn unit_rows<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let least = x.tape().constant(scalar(F::of(LEAST)));
    let size = x.norm(&[-1], true).maximum(least);
    // The derivative of the direction is a projection divided by the size.
    declare_here(x / size, &[x], [(Lp::Two, Bound::recip(size))])
}
