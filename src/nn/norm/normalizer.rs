//! The norm as a layer that a network holds, whatever its type.

use super::NormLayer;
use crate::autodiff::Var;
use crate::graph::Neighbourhood;
use crate::nn::{Layer, Pass};
use crate::ops::attention::Mask;
use crate::real::Real;
use std::any::Any;
use std::fmt;

/// A norm that a network can hold: any [`Layer`] with `Debug` and `Clone` that says what it computes.
/// [`NormOptions`](super::NormOptions) says how a configuration builds such norms.
///
/// ScaleNorm, y = g x / ‖x‖ with one trained number g (Nguyen and Salazar, "Transformers without Tears",
/// IWSLT 2019, Eq. (5)), in a network whose configuration has no norm:
///
/// ```
/// use emmy::nn::{GraphNet, GraphNetConfig, Layer, NormContext, Normalizer, Pass};
/// use emmy::{Real, Tensor, Var};
///
/// #[derive(Debug, Clone)]
/// struct ScaleNorm<F: Real> {
///     gain: Tensor<F>,
/// }
/// emmy::module!(ScaleNorm: gain = Gain);
///
/// impl<F: Real> Layer<F> for ScaleNorm<F> {}
///
/// impl<F: Real> Normalizer<F> for ScaleNorm<F> {
///     fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
///         pass.call(self, &[x], || x / x.norm(&[-1], true) * pass.param(&self.gain))
///     }
///
///     fn mixes_rows(&self) -> bool {
///         false
///     }
/// }
///
/// let mut net = GraphNet::<f32>::new(GraphNetConfig::gcn(34, 2), 0)?;
/// net.norms = vec![Box::new(ScaleNorm { gain: Tensor::ones(vec![1]) })];
/// # Ok::<(), emmy::Error>(())
/// ```
pub trait Normalizer<F: Real>: Layer<F> + AnyNorm<F> + Any + fmt::Debug + Send + Sync {
    /// y, with the shape of x. A norm that treats all rows alike ignores the context.
    ///
    /// # Panics
    /// If the shape of x or the context does not fit.
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        context: NormContext<'_, F>,
    ) -> Var<'t, F>;

    /// Whether in an evaluation a row of the output depends on other rows of the input. A block of a
    /// transformer that gets tokens one by one ([`continued`](crate::nn::TransformerBlock::continued))
    /// refuses a norm that says so, since its cache does not hold those rows.
    fn mixes_rows(&self) -> bool {
        true
    }
}

/// What is known of the rows of the input of a norm.
#[derive(Debug, Clone, Copy)]
pub enum NormContext<'a, F: Real> {
    /// Nothing.
    None,
    /// They are the nodes of a graph.
    Graph(&'a Neighbourhood<F>),
    /// They are tokens, of which each sees the tokens that the mask shows it.
    Tokens(&'a Mask),
}

/// What every [`Normalizer`] with `Clone` has: a copy of its own type.
pub trait AnyNorm<F: Real> {
    /// A copy of the norm.
    fn boxed(&self) -> NormLayer<F>;
}

impl<F: Real, L: Normalizer<F> + Clone> AnyNorm<F> for L {
    fn boxed(&self) -> NormLayer<F> {
        Box::new(self.clone())
    }
}

impl<F: Real> Clone for NormLayer<F> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl<F: Real> dyn Normalizer<F> {
    /// y, with the shape of x.
    ///
    /// # Panics
    /// If the shape of x does not fit, or the norm needs a context.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        self.on(pass, x, NormContext::None)
    }

    /// y for the nodes of a graph.
    ///
    /// # Panics
    /// If the shape of x does not fit.
    #[track_caller]
    pub fn on_graph<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        self.on(pass, x, NormContext::Graph(neighbours))
    }

    /// y for tokens, of which each sees the tokens that `mask` shows it.
    ///
    /// # Panics
    /// If the shape of x or the mask does not fit.
    #[track_caller]
    pub fn masked<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, mask: &Mask) -> Var<'t, F> {
        self.on(pass, x, NormContext::Tokens(mask))
    }

    /// The norm, if it is of this type.
    pub fn downcast_ref<L: Normalizer<F>>(&self) -> Option<&L> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }

    /// The norm as a mutable reference, if it is of this type.
    pub fn downcast_mut<L: Normalizer<F>>(&mut self) -> Option<&mut L> {
        let any: &mut dyn Any = self;
        any.downcast_mut()
    }
}
