//! A search for the laws of a model that needs nothing but its forward function.

use super::{Entry, Module, Pass, Trace};
use crate::autodiff::Var;
use crate::symmetry::{self, Discovery, Layout, ParametricFunction, Search};

/// Searches for the conservation laws of a model that hold for every loss of its outputs, computes an upper
/// bound on their number, and compares them with the laws that its [`Trace`] declares.
///
/// `forward` is the forward function on random data that are drawn from a seed. The parameters are drawn
/// anew, so only the shapes of the parameters of `model` matter. The passes are training passes, as those of the
/// trace are: norms over a batch use the statistics of the batch, and dropout follows from the seed.
///
/// # Panics
/// If derivatives of the outputs are not finite at random points.
///
/// ```
/// use emmy::{init, nn::{Activation, Mlp, discover}, symmetry::Search};
/// let net = Mlp::<f64>::new(&[3, 4, 2], Activation::Relu, true, &mut init::rng(0));
/// let laws = discover(&net, &Search::default(), |pass, seed| {
///     let x = init::normal(&[5, 3], 1.0, &mut init::rng(seed));
///     net.forward(pass, pass.tape().constant(x))
/// });
/// // One law per hidden neuron, all declared, and there can be no other.
/// assert_eq!((laws.declared, laws.found, laws.upper), (4, 4, Some(4)));
/// assert_eq!(laws.discovered().count(), 0);
/// ```
pub fn discover<M: Module<f64> + Sync + ?Sized>(
    model: &M,
    search: &Search,
    forward: impl for<'t, 'm> Fn(&Pass<'t, 'm, f64>, u64) -> Var<'t, f64> + Sync,
) -> Discovery {
    let declared = Trace::of(model, |pass| forward(pass, 0)).laws();
    let named = |p: Entry<&crate::Tensor<f64>>| (p.name, p.tensor.shape().to_vec());
    let layout = Layout::new(model.parameters().into_iter().map(named));
    let function = ParametricFunction::new(layout, |tape, vars, seed| {
        forward(&Pass::bound_as(tape, model, vars, Some(seed)), seed)
    });
    symmetry::discover(&function, &declared, search)
}
