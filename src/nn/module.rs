//! Layers and models as owners of parameters, each with a name and a role.

use super::fields::{Entry, Fields, Role};
use super::torch::TorchPlace;
use crate::real::Real;
use crate::tensor::Tensor;

/// An owner of parameters: a tensor (one parameter), a layer, a list of layers, a model.
///
/// Parameters are plain tensors. A layer lists the fields that hold parameters with
/// [`module!`](crate::module); checkpoints and optimisers use the same order.
#[diagnostic::on_unimplemented(
    message = "`{Self}` holds no parameters of type `{F}`",
    label = "not a tensor, not a layer, and not an option, list or box of them",
    note = "list in `module!` only the fields that hold parameters; your own struct needs `emmy::module!(Name: field, ..)`, \
            and `emmy::module!(Name for f32: field, ..)` if it has no type parameter"
)]
pub trait Module<F: Real> {
    /// Adds every tensor to `out`, in a fixed order.
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>);

    /// Adds every tensor to `out`, in the same order, as a mutable reference.
    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>);

    /// Every parameter with name and role, in the order of the fields.
    fn parameters(&self) -> Vec<Entry<&Tensor<F>>> {
        let mut entries = entries(self);
        entries.retain(Entry::is_trained);
        entries
    }

    /// The tensor of each parameter, in the order of [`parameters`](Self::parameters).
    fn tensors(&self) -> Vec<&Tensor<F>> {
        let mut out = Fields::new();
        self.collect(&mut out);
        out.split().0
    }

    /// The tensor of each parameter, in the order of [`parameters`](Self::parameters), as a mutable
    /// reference.
    fn tensors_mut(&mut self) -> Vec<&mut Tensor<F>> {
        let mut out = Fields::new();
        self.collect_mut(&mut out);
        out.split().0
    }
}

/// Every tensor of a model with name and role: parameters, then state, each in the order of the fields.
///
/// ```
/// use emmy::nn::{BatchNorm, entries};
/// let norm = BatchNorm::<f32>::new(3);
/// let names = entries(&norm).into_iter().map(|entry| entry.name);
/// assert!(names.eq(["gain", "bias", "running.mean", "running.variance"]));
/// ```
pub fn entries<F: Real>(model: &(impl Module<F> + ?Sized)) -> Vec<Entry<&Tensor<F>>> {
    let mut out = Fields::new();
    model.collect(&mut out);
    out.entries()
}

/// Every tensor of a model with name and role, in the order of [`entries`], as a mutable reference.
pub fn entries_mut<F: Real>(model: &mut (impl Module<F> + ?Sized)) -> Vec<Entry<&mut Tensor<F>>> {
    let mut out = Fields::new();
    model.collect_mut(&mut out);
    out.entries()
}

/// The number of scalars in all parameters of a model.
pub fn parameter_count<F: Real>(model: &(impl Module<F> + ?Sized)) -> usize {
    model.tensors().iter().map(|p| p.len()).sum()
}

/// The role of every parameter of a model, in the model's order.
pub fn roles<F: Real>(model: &(impl Module<F> + ?Sized)) -> Vec<Role> {
    model.parameters().into_iter().map(|p| p.role).collect()
}

/// Every tensor of a model, parameters and state, in the order of the fields.
pub(crate) fn in_order<F: Real>(
    model: &mut (impl Module<F> + ?Sized),
) -> impl Iterator<Item = &mut Tensor<F>> {
    let mut out = Fields::new();
    model.collect_mut(&mut out);
    out.tensors().map(|(_, tensor)| tensor)
}

/// The tensors of state, in the order of the fields.
pub(super) fn states_mut<F: Real>(model: &mut (impl Module<F> + ?Sized)) -> Vec<&mut Tensor<F>> {
    let mut out = Fields::new();
    model.collect_mut(&mut out);
    out.split().1
}

/// Every tensor of a model with its place in PyTorch, in the order of the fields. A tensor that has two
/// names there is listed twice.
pub(crate) fn places<F: Real>(
    model: &(impl Module<F> + ?Sized),
) -> Vec<(Entry<&Tensor<F>>, TorchPlace)> {
    let mut out = Fields::new();
    model.collect(&mut out);
    out.places()
}

impl<F: Real> Module<F> for Tensor<F> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        out.push(self);
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        out.push(self);
    }
}

impl<F: Real, M: Module<F>> Module<F> for Option<M> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        if let Some(module) = self {
            module.collect(out);
        }
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        if let Some(module) = self {
            module.collect_mut(out);
        }
    }
}

impl<F: Real, M: Module<F> + ?Sized> Module<F> for Box<M> {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        (**self).collect(out);
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        (**self).collect_mut(out);
    }
}

/// A list of modules; the names of its elements are numbers from 0.
macro_rules! lists {
    ($([$($generics:tt)*] $list:ty),*) => {$(
        impl<F: Real, M: Module<F>, $($generics)*> Module<F> for $list {
            fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
                for (k, module) in self.iter().enumerate() {
                    out.element(k, |out| module.collect(out));
                }
            }

            fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
                for (k, module) in self.iter_mut().enumerate() {
                    out.element(k, |out| module.collect_mut(out));
                }
            }
        }
    )*};
}
lists!([] Vec<M>, [const N: usize] [M; N]);

/// A pair of modules; their names are 0 and 1.
impl<F: Real, A: Module<F>, B: Module<F>> Module<F> for (A, B) {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        out.element(0, |out| self.0.collect(out));
        out.element(1, |out| self.1.collect(out));
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        out.element(0, |out| self.0.collect_mut(out));
        out.element(1, |out| self.1.collect_mut(out));
    }
}
