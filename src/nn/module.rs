//! Layers and models as owners of parameters, each with a name and a role.

use super::torch::{self, Step, TorchName, TorchPlace};
use crate::autodiff::{Tape, Var};
use crate::real::Real;
use crate::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// The purpose of a tensor of a model. Initialisation, weight decay and recorders choose parameters
/// by their role.
///
/// [`module!`](crate::module) states the role next to the field; a field without a role is a
/// [`Weight`](Self::Weight).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A matrix that maps neurons to neurons, `[out, in]`.
    #[default]
    Weight,
    /// A number added to each neuron.
    Bias,
    /// A vector or matrix from which attention scores are computed.
    Attention,
    /// A factor per neuron that starts at 1, such as γ of a normaliser.
    Gain,
    /// One vector per item: embeddings, learnt positions.
    Table,
    /// The weight of a skip connection, which balanced initialisation starts at zero.
    Skip,
    /// Saved with the model and never trained: running statistics, vectors of a power iteration.
    State,
}

/// The tensors of a model while they are being listed; `R` is `&Tensor<F>` or `&mut Tensor<F>`.
///
/// A name is the path of fields that leads to the tensor: `layers.0.weight`.
pub struct Fields<R> {
    listing: Listing,
    path: Vec<Step>,
    role: Role,
    /// The number of the field whose tensors are being listed, if these tensors have a second name.
    copying: Option<usize>,
    /// How many such fields there have been.
    copies: usize,
    entries: Vec<Entry<R>>,
    /// The place of each entry in PyTorch.
    places: Vec<TorchPlace>,
}

/// What to list. Names cost more than addresses, so they are built on request only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listing {
    Tensors,
    Names,
    /// Names here and places in PyTorch, where one tensor may have several.
    Places,
}

/// One tensor of a model.
#[derive(Debug, Clone, Copy)]
pub struct Entry<R, N = String> {
    /// The path of fields that leads to the tensor.
    pub name: N,
    /// Its role.
    pub role: Role,
    /// The tensor.
    pub tensor: R,
}

impl<R> Fields<R> {
    fn new(listing: Listing) -> Self {
        Self {
            listing,
            path: Vec::new(),
            role: Role::default(),
            copying: None,
            copies: 0,
            entries: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Lists the tensors of a field called `name`. A `role` applies to the tensors of the field
    /// that do not state one themselves.
    pub fn within(&mut self, name: &str, role: Option<Role>, list: impl FnOnce(&mut Self)) {
        self.field(name, role, TorchName::default(), list);
    }

    /// The same for a field that PyTorch calls `torch`.
    pub fn field(
        &mut self,
        name: &str,
        role: Option<Role>,
        torch: TorchName,
        list: impl FnOnce(&mut Self),
    ) {
        let before = self.enter(name, role, torch);
        list(self);
        self.leave(before);
    }

    /// Lists the tensors of another field a second time, for a field that is absent here and that has a copy
    /// of them in PyTorch.
    pub fn copies(&mut self, name: &str, torch: TorchName, list: impl FnOnce(&mut Self)) {
        if self.listing == Listing::Places {
            let before = self.copying;
            self.copying = before.or(Some(self.copies));
            self.copies += 1;
            self.field(name, None, torch, list);
            self.copying = before;
        }
    }

    /// Begins a field; returns the role outside it.
    #[inline(never)]
    fn enter(&mut self, name: &str, role: Option<Role>, torch: TorchName) -> Role {
        if self.listing != Listing::Tensors {
            let name = name.to_owned();
            self.path.push(Step { name, torch });
        }
        let before = self.role;
        self.role = role.unwrap_or(before);
        before
    }

    #[inline(never)]
    fn leave(&mut self, before: Role) {
        self.path.pop();
        self.role = before;
    }

    #[inline(never)]
    fn push(&mut self, tensor: R) {
        if self.listing == Listing::Places {
            self.places.push(torch::place(&self.path, self.copying));
        }
        let names: Vec<_> = self.path.iter().map(|step| step.name.as_str()).collect();
        self.entries.push(Entry {
            name: names.join("."),
            role: self.role,
            tensor,
        });
    }
}

/// Every tensor of a model with its place in PyTorch, in the order of the fields. A tensor that has two
/// names there is listed twice.
pub(crate) fn places<F: Real>(
    model: &(impl Module<F> + ?Sized),
) -> Vec<(Entry<&Tensor<F>>, TorchPlace)> {
    let mut out = Fields::new(Listing::Places);
    model.collect(&mut out);
    out.entries.into_iter().zip(out.places).collect()
}

/// Every tensor of a model, parameters and state, in the order of the fields.
pub(crate) fn in_order<F: Real>(model: &mut (impl Module<F> + ?Sized)) -> Vec<&mut Tensor<F>> {
    let mut out = Fields::new(Listing::Tensors);
    model.collect_mut(&mut out);
    out.entries.into_iter().map(|e| e.tensor).collect()
}

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

    /// Every tensor with name and role: parameters, then state, each in the order of the fields.
    fn entries(&self) -> Vec<Entry<&Tensor<F>>> {
        let mut out = Fields::new(Listing::Names);
        self.collect(&mut out);
        sorted(out)
    }

    /// Every tensor with name and role, in the order of [`entries`](Self::entries), as a mutable
    /// reference.
    fn entries_mut(&mut self) -> Vec<Entry<&mut Tensor<F>>> {
        let mut out = Fields::new(Listing::Names);
        self.collect_mut(&mut out);
        sorted(out)
    }

    /// Every parameter with its name, without state.
    fn parameters(&self) -> Vec<(String, &Tensor<F>)> {
        let trained = self.entries().into_iter().filter(Entry::is_trained);
        trained.map(|e| (e.name, e.tensor)).collect()
    }

    /// Every parameter with its name, as a mutable reference.
    fn parameters_mut(&mut self) -> Vec<(String, &mut Tensor<F>)> {
        let trained = self.entries_mut().into_iter().filter(Entry::is_trained);
        trained.map(|e| (e.name, e.tensor)).collect()
    }

    /// The role of each parameter, in the order of [`parameters`](Self::parameters).
    fn roles(&self) -> Vec<Role> {
        let trained = self.entries().into_iter().filter(Entry::is_trained);
        trained.map(|e| e.role).collect()
    }

    /// Every parameter, in the order of [`parameters`](Self::parameters).
    fn tensors(&self) -> Vec<&Tensor<F>> {
        let mut out = Fields::new(Listing::Tensors);
        self.collect(&mut out);
        let trained = out.entries.into_iter().filter(Entry::is_trained);
        trained.map(|e| e.tensor).collect()
    }

    /// Every parameter, in the order of [`parameters`](Self::parameters), as a mutable reference.
    fn tensors_mut(&mut self) -> Vec<&mut Tensor<F>> {
        let mut out = Fields::new(Listing::Tensors);
        self.collect_mut(&mut out);
        let trained = out.entries.into_iter().filter(Entry::is_trained);
        trained.map(|e| e.tensor).collect()
    }

    /// Every tensor of state, in the order of the fields.
    fn states(&self) -> Vec<&Tensor<F>> {
        let mut out = Fields::new(Listing::Tensors);
        self.collect(&mut out);
        let state = out.entries.into_iter().filter(|e| !e.is_trained());
        state.map(|e| e.tensor).collect()
    }

    /// Every tensor of state, in the order of [`states`](Self::states), as a mutable reference.
    fn states_mut(&mut self) -> Vec<&mut Tensor<F>> {
        let mut out = Fields::new(Listing::Tensors);
        self.collect_mut(&mut out);
        let state = out.entries.into_iter().filter(|e| !e.is_trained());
        state.map(|e| e.tensor).collect()
    }

    /// A variable on `tape` for each parameter, in the order of [`parameters`](Self::parameters).
    /// In [`Pass::bound`](super::Pass::bound) these variables replace the parameters of the model.
    fn vars<'t>(&self, tape: &'t Tape<F>) -> Vec<Var<'t, F>> {
        let tensors = self.tensors().into_iter();
        tensors.map(|p| tape.var(p.clone())).collect()
    }

    /// The number of scalars in all parameters.
    fn parameter_count(&self) -> usize {
        self.tensors().iter().map(|p| p.len()).sum()
    }
}

impl<R, N> Entry<R, N> {
    /// Whether the tensor is a parameter, not state.
    pub fn is_trained(&self) -> bool {
        self.role != Role::State
    }
}

/// Parameters first, then state; each in the order in which they were listed.
fn sorted<R>(fields: Fields<R>) -> Vec<Entry<R>> {
    let mut entries = fields.entries;
    entries.sort_by_key(|e| !e.is_trained());
    entries
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
                    out.within(&k.to_string(), None, |out| module.collect(out));
                }
            }

            fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
                for (k, module) in self.iter_mut().enumerate() {
                    out.within(&k.to_string(), None, |out| module.collect_mut(out));
                }
            }
        }
    )*};
}
lists!([] Vec<M>, [const N: usize] [M; N]);

/// A pair of modules; their names are 0 and 1.
impl<F: Real, A: Module<F>, B: Module<F>> Module<F> for (A, B) {
    fn collect<'a>(&'a self, out: &mut Fields<&'a Tensor<F>>) {
        out.within("0", None, |out| self.0.collect(out));
        out.within("1", None, |out| self.1.collect(out));
    }

    fn collect_mut<'a>(&'a mut self, out: &mut Fields<&'a mut Tensor<F>>) {
        out.within("0", None, |out| self.0.collect_mut(out));
        out.within("1", None, |out| self.1.collect_mut(out));
    }
}
