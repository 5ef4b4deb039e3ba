//! Group normalisation whose groups are learnt.

use emmy::error::Rules;
use emmy::init::Rng;
use emmy::nn::{
    BatchNorm, Layer, Linear, Norm, NormContext, NormOptions, Normalizer, Params, Pass,
};
use emmy::symmetry::{Law, Ports, Symmetry, Term};
use emmy::{Real, Result, Var};

/// y = x + λ Σ_g BN_g(s_g ⊙ x) with s = softmax(x U): each node has a share in each of G groups, and each
/// group is normalised separately, so that groups stay distinct.
///
/// Zhou et al., "Towards Deeper Graph Neural Networks with Differentiable Group Normalization", NeurIPS 2020
/// (DGN), Eq. (4) and (5), where every node has a share in each group.
///
/// | letter | shape | meaning |
/// |---|---|---|
/// | x, y | `[n, d]` | nodes |
/// | U | `[G, d]`, as the weight of a linear map | groups |
/// | s | `[n, G]` | the shares of each node |
/// | λ | a number | the published code has 0.001 below six layers, else 0.03, on Cora |
///
/// As PyTorch Geometric's `DiffGroupNorm`: no bias of the groups, one batch norm of G · d features.
///
/// # Conservation laws
/// If one vector is added to all rows of U, the softmax does not change: Σ_g G of U\[g,:\] = 0. The β of each
/// group is added to the same output: their gradients are equal, G of β_g = G of β_1.
#[derive(Debug, Clone)]
pub struct DiffGroupNorm<F: Real> {
    /// U.
    pub groups: Linear<F>,
    /// BN of all groups, one after the other.
    pub norm: BatchNorm<F>,
    /// λ.
    pub scale: f64,
}
emmy::module!(DiffGroupNorm: groups as "lin", norm);

impl<F: Real> DiffGroupNorm<F> {
    /// A norm of `width` features with the given number of groups.
    pub fn new(width: usize, groups: usize, scale: f64, rng: &mut Rng) -> Self {
        Self {
            groups: Linear::new(width, groups, false, rng),
            norm: BatchNorm::new(groups * width),
            scale,
        }
    }

    /// y, with the shape of x.
    ///
    /// # Panics
    /// If x has fewer than two axes or not the width of the layer, or a training pass has fewer than two
    /// rows.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        let shape = x.shape();
        assert!(
            shape.len() >= 2,
            "DiffGroupNorm: x has shape {shape:?}, it must be [.., rows, features]"
        );
        let (rows, width) = shape.split_at(shape.len() - 1);
        let groups = self.groups.weight.shape()[0];
        pass.call(self, &[x], || {
            let shares = self.groups.forward(pass, x).softmax(-1);
            let of_groups = shares.unsqueeze(-1) * x.unsqueeze(-2);
            let flat = of_groups.reshape(&[rows, &[groups * width[0]]].concat());
            let flat = self.norm.forward(pass, flat);
            let of_groups = flat.reshape(&[rows, &[groups], width].concat());
            x + of_groups.sum(&[-2], false).scale(F::of(self.scale))
        })
    }
}

impl<F: Real> Layer<F> for DiffGroupNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let [groups, width] = self.groups.weight.shape() else {
            return Some(Ports::opaque(1));
        };
        let shares = vec![Term::incoming(params.columns(&self.groups.weight))];
        let of_group = |g: usize| {
            let bias = params.rows(self.norm.bias.as_ref()?);
            let own = Term::incoming(bias.narrow(g * width..(g + 1) * width));
            Some(vec![own.times(self.scale.recip())])
        };
        // With λ = 0, β has no effect at all.
        let heard = (0..*groups).filter(|_| self.scale != 0.0);
        Some(Ports {
            offsets: heard.filter_map(of_group).collect(),
            inside: vec![Law::new("shares", 0, Symmetry::Translation, shares)],
            ..Ports::opaque(1)
        })
    }
}

impl<F: Real> Normalizer<F> for DiffGroupNorm<F> {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        self.forward(pass, x)
    }
}

/// The options of [`DiffGroupNorm`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiffGroupOptions {
    /// G, the number of groups.
    pub groups: usize,
    /// λ.
    pub scale: f64,
}

impl DiffGroupOptions {
    /// Norms of this kind, with a name for configurations.
    pub fn norm(self) -> Norm {
        super::norm(self)
    }
}

impl NormOptions for DiffGroupOptions {
    type Layer<F: Real> = DiffGroupNorm<F>;

    fn build<F: Real>(&self, width: usize, rng: &mut Rng) -> DiffGroupNorm<F> {
        DiffGroupNorm::new(width, self.groups, self.scale, rng)
    }

    /// # Errors
    /// If there is no group, or λ is not a finite number.
    fn validate(&self, _: usize) -> Result<()> {
        let rules = Rules("DiffGroupNorm");
        rules.sizes(&[("groups", self.groups)])?;
        rules.finite("scale", self.scale)
    }
}
