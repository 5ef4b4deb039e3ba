//! Graph convolution with initial residual and identity map.

use super::{ConvOptions, GraphContext, GraphConv, Site};
use crate::autodiff::Var;
use crate::error::{Result, Rules};
use crate::init::Rng;
use crate::nn::{Input, Layer, Linear, Params, Pass};
use crate::real::Real;
use crate::sparse::Csr;
use crate::symmetry::{Passage, Ports, Reader, Term};
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// y = ((1 − β) I + β W) h with h = (1 − α) Â x + α x₀: a graph convolution that keeps some of the network's
/// first representation x₀, and whose weight is near the identity in deep layers.
///
/// Chen et al., "Simple and Deep Graph Convolutional Networks", ICML 2020, Eq. (5), without the activation;
/// with a separate weight V for x₀ (their variant GCNII*, Appendix), y = ((1 − β) I + β W) (1 − α) Â x + ((1
/// − β) I + β V) α x₀.
///
/// | letter | shape |
/// |---|---|
/// | Â | n × n sparse, usually [`Graph::gcn_norm`](crate::Graph::gcn_norm), D^-½ (A + I) D^-½ |
/// | x, x₀ | `[n, d]` |
/// | W, V | `[d, d]` |
/// | α | the share of x₀ |
/// | β | ln(θ / l + 1) in layer l of a network, counted from 1; the paper calls θ λ |
///
/// As PyTorch Geometric's `GCN2Conv` with `layer` = l, where W and V are stored transposed; W and V start
/// Xavier-uniform. There is no bias.
///
/// Two connected nodes with the features 2 and 4, which are x₀ too. With W the identity y = h: a share 0.9 of
/// the mean 3, and a share 0.1 of their own feature.
///
/// ```
/// use emmy::graph::{Duplicates, SelfLoops};
/// use emmy::nn::{GcniiConv, GcniiOptions, Pass};
/// use emmy::{Graph, Tape, init, tensor::tensor};
///
/// let pair = Graph::new(2, &[(0, 1), (1, 0)], Duplicates::Reject, SelfLoops::Reject)?;
/// let mut layer = GcniiConv::<f64>::new(1, 1, GcniiOptions::DEFAULT, &mut init::rng(0));
/// layer.map.weight = tensor(&[1, 1], vec![1.0]);
/// let tape = Tape::new();
/// let x = tape.constant(tensor(&[2, 1], vec![2.0, 4.0]));
/// let y = layer.forward(&Pass::eval(&tape, &layer), x, x, &pair.gcn_norm());
/// assert_eq!(y.shape(), [2, 1]);
/// assert!((y.value()[[0, 0]] - 2.9).abs() < 1e-12 && (y.value()[[1, 0]] - 3.1).abs() < 1e-12);
/// assert!((layer.beta() - 1.5_f64.ln()).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
///
/// # Conservation laws
/// (1 − β) I + β W is β (W + c I) with c = 1/β − 1, and takes part in laws as the weight of a graph
/// convolution does: ⟨(W + c I)\[j,:\], G⟩ = ⟨W\[j,:\], G⟩ + c G\[j,j\] stands where ⟨W\[j,:\], G⟩ alone does
/// not give a law. With one weight, W also reads x₀, so x₀ and the inputs of all layers have one law: the map
/// that writes x₀ and the rows of every W but the last against the columns of every W. With V, x₀ and the
/// stream of the layers have a law each.
#[derive(Debug, Clone)]
pub struct GcniiConv<F: Real> {
    /// W, without bias.
    pub map: Linear<F>,
    /// V, without bias; `None` if W is also the weight of x₀.
    pub initial: Option<Linear<F>>,
    /// α, θ.
    pub options: GcniiOptions,
    /// l, from 1.
    pub layer: usize,
}
crate::module!(GcniiConv: map as "*1" [1, 0], initial as "*2" [1, 0]);

/// The options of [`GcniiConv`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GcniiOptions {
    /// α, the share of x₀.
    pub alpha: f64,
    /// θ: β = ln(θ / l + 1) in layer l.
    pub theta: f64,
    /// Whether x₀ has the weight W of the layer and not a separate weight V.
    pub shared: bool,
}

impl GcniiOptions {
    /// The paper's for Cora: α = 0.1, θ = 0.5, one weight.
    pub const DEFAULT: Self = Self {
        alpha: 0.1,
        theta: 0.5,
        shared: true,
    };
}

impl<F: Real> GcniiConv<F> {
    /// Layer number `layer` (from 1) of width d.
    ///
    /// # Panics
    /// If `layer` is 0.
    #[track_caller]
    pub fn new(width: usize, layer: usize, options: GcniiOptions, rng: &mut Rng) -> Self {
        assert!(layer > 0, "GcniiConv: layer 0: layers are counted from 1");
        let mut map = || Linear::new(width, width, false, rng);
        Self {
            map: map(),
            initial: (!options.shared).then(map),
            options,
            layer,
        }
    }

    /// β.
    pub fn beta(&self) -> f64 {
        (self.options.theta / self.layer as f64).ln_1p()
    }

    /// The output `[n, d]`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        x0: Var<'t, F>,
        adjacency: &Csr<F>,
    ) -> Var<'t, F> {
        let input = Input::from(x);
        input.check_nodes("GcniiConv", adjacency.pattern.cols());
        input.check_features("GcniiConv", self.map.weight.shape()[1]);
        let (expected, found) = (x.shape(), x0.shape());
        assert!(
            found == expected,
            "GcniiConv: x has shape {expected:?}, x₀ {found:?}: they must be equal"
        );
        pass.call(self, &[x, x0], || {
            let alpha = F::of(self.options.alpha);
            let near = (pass.tape().sparse(adjacency).matmul(x)).scale(F::one() - alpha);
            let first = x0.scale(alpha);
            let Some(initial) = &self.initial else {
                return self.mapped(pass, &self.map, near + first);
            };
            self.mapped(pass, &self.map, near) + self.mapped(pass, initial, first)
        })
    }

    /// (1 − β) h + β h Wᵀ.
    fn mapped<'t>(&self, pass: &Pass<'t, '_, F>, map: &Linear<F>, h: Var<'t, F>) -> Var<'t, F> {
        let beta = F::of(self.beta());
        h.scale(F::one() - beta) + map.forward(pass, h).scale(beta)
    }
}

impl<F: Real> Layer<F> for GcniiConv<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        // (1 − β) I + β W = β (W + c I), and W + c I has rows and columns as any weight.
        let c = self.beta().recip() - 1.0;
        let near = &self.map.weight;
        let first = self.initial.as_ref().map_or(near, |map| &map.weight);
        let reader = |weight: &Tensor<F>, share: f64| Reader {
            passage: match share {
                0.0 => Passage::ABSORBS,
                _ => Passage::CARRIES,
            },
            terms: vec![Term::outgoing(params.columns(weight)).beside_identity(c)],
            // The pass shows h and h Wᵀ, not W + c I.
            mixes: true,
        };
        let weights = || std::iter::once(&self.map).chain(&self.initial);
        let rows = |map: &Linear<F>| Term::incoming(params.rows(&map.weight)).beside_identity(c);
        Some(Ports {
            writers: weights().map(rows).collect(),
            readers: vec![
                reader(near, 1.0 - self.options.alpha),
                reader(first, self.options.alpha),
            ],
            mixes: true,
            ..Ports::writes([])
        })
    }
}

impl ConvOptions for GcniiOptions {
    type Layer<F: Real> = GcniiConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> GcniiConv<F> {
        GcniiConv::new(at.width, at.layer, *self, rng)
    }

    fn validate(&self, at: Site) -> Result<()> {
        let rules = Rules("network");
        let share = (0.0..=1.0).contains(&self.alpha);
        rules.hold(share, "alpha", "a share, 0 to 1", self.alpha)?;
        rules.above_zero("theta", self.theta)?;
        at.check_first(self)?;
        at.check_equal_widths(self)
    }

    fn weights(&self) -> usize {
        2 - usize::from(self.shared)
    }
}

impl<F: Real> GraphConv<F> for GcniiConv<F> {
    #[track_caller]
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        context: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        let Some(first) = context.first else {
            panic!("GcniiConv: it needs x₀, the first hidden representation, and there is none")
        };
        self.forward(
            pass,
            x.to_dense(),
            first,
            context.neighbours.symmetric_norm(),
        )
    }
}
