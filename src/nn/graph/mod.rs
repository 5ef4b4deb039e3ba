//! Layers over graphs, and the network that composes them.
//!
//! Each layer is one file, with a struct, its forward function, its ports and [`GraphConv`]; its options have
//! [`ConvOptions`] and a name in [`Conv`], so that a configuration can name the kind of the layer. A layer of
//! another crate has the same two traits, and [`Conv::register`] gives it a name.

mod config;
mod gat;
mod gatv2;
mod gcn;
mod gcnii;
mod ggnn;
mod gin;
mod heads;
mod kind;
mod network;
mod options;
mod sage;
mod sgc;
mod transformer;

pub use config::{EndMaps, GraphNetConfig, MOST_WEIGHTS};
pub use gat::GatConv;
pub use gatv2::{Gatv2Conv, Gatv2Options};
pub use gcn::{GcnConv, GcnOptions};
pub use gcnii::{GcniiConv, GcniiOptions};
pub use ggnn::{GatedGraphConv, GatedGraphOptions};
pub use gin::{GinConv, GinOptions};
pub use heads::AttentionOptions;
pub use kind::Conv;
pub use network::GraphNet;
pub use options::{CommonOptions, ConvOptions, Heads, MOST_LAYERS, Site};
pub use sage::{SageConv, SageOptions};
pub use sgc::{SgcConv, SgcOptions};
pub use transformer::{TransformerConv, TransformerOptions};

use super::{Input, Layer, Pass};
use crate::autodiff::Var;
use crate::graph::Neighbourhood;
use crate::ops::Sparse;
use crate::real::Real;
use crate::sparse::Pattern;
use crate::tensor::Tensor;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A layer that a [`GraphNet`] can hold: any [`Layer`] with `Debug` and `Clone` that says what it computes on
/// a graph. [`ConvOptions`] says how a configuration builds such layers.
///
/// ```
/// use emmy::{Real, Var, nn::{GraphContext, GraphConv, GraphNet, GraphNetConfig, Input, Layer, Linear, Pass}};
///
/// /// y_i = W (mean of x_j over the neighbours j of i) + b.
/// #[derive(Debug, Clone)]
/// struct MeanConv<F: Real> {
///     map: Linear<F>,
/// }
/// emmy::module!(MeanConv: map);
///
/// impl<F: Real> Layer<F> for MeanConv<F> {}
///
/// impl<F: Real> GraphConv<F> for MeanConv<F> {
///     fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Input<'t, F>, context: GraphContext<'_, 't, F>) -> Var<'t, F> {
///         let mean = pass.tape().sparse(context.neighbours.mean());
///         pass.call(self, &[x.var()], || mean.matmul(self.map.forward(pass, x)))
///     }
/// }
///
/// let mut net = GraphNet::<f32>::new(GraphNetConfig::gcn(34, 2), 0)?;
/// let map = Linear::new(34, 16, true, &mut emmy::init::rng(0));
/// net.layers[0] = Box::new(MeanConv { map });
/// # Ok::<(), emmy::Error>(())
/// ```
pub trait GraphConv<F: Real>: Layer<F> + AnyGraphConv<F> + Any + fmt::Debug + Send + Sync {
    /// The output `[n, out]` on a graph.
    ///
    /// # Panics
    /// If the shapes do not fit, or the layer needs the first hidden representation and there is none.
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        context: GraphContext<'_, 't, F>,
    ) -> Var<'t, F>;
}

/// What every [`GraphConv`] with `Clone` has: a copy of its own type.
pub trait AnyGraphConv<F: Real> {
    /// A copy of the layer.
    fn boxed(&self) -> GraphLayer<F>;
}

impl<F: Real, L: GraphConv<F> + Clone> AnyGraphConv<F> for L {
    fn boxed(&self) -> GraphLayer<F> {
        Box::new(self.clone())
    }
}

/// One layer of a [`GraphNet`].
pub type GraphLayer<F> = Box<dyn GraphConv<F>>;

impl<F: Real> Clone for GraphLayer<F> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl<F: Real> dyn GraphConv<F> {
    /// The layer's output, `[n, out]`. `context` is a [`Neighbourhood`], alone or with the other inputs of
    /// the layer.
    ///
    /// # Panics
    /// If the shapes do not fit, or the layer needs the first hidden representation and there is none.
    #[track_caller]
    pub fn forward<'a, 't>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        context: impl Into<GraphContext<'a, 't, F>>,
    ) -> Var<'t, F> {
        self.on(pass, x.into(), context.into())
    }

    /// The layer, if it is of this type.
    pub fn downcast_ref<L: GraphConv<F>>(&self) -> Option<&L> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// What a layer of a network may read besides its input.
#[derive(Debug, Clone, Copy)]
pub struct GraphContext<'a, 't, F: Real> {
    /// The edges: which nodes receive messages from which.
    pub neighbours: &'a Neighbourhood<F>,
    /// x₀, the first hidden representation of the network: the output of the linear map before its layers.
    pub first: Option<Var<'t, F>>,
}

impl<'a, F: Real> From<&'a Neighbourhood<F>> for GraphContext<'a, '_, F> {
    fn from(neighbours: &'a Neighbourhood<F>) -> Self {
        Self {
            neighbours,
            first: None,
        }
    }
}

/// The matrix of ones at the edges: a product with it sums over the neighbours.
fn sum_over<'t, F: Real>(pass: &Pass<'t, '_, F>, edges: &Arc<Pattern>) -> Sparse<'t, F> {
    let ones = Tensor::ones(vec![edges.nnz()]);
    Sparse::new(edges, pass.tape().constant(ones))
}
