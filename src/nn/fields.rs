//! The list of the tensors of a model: each with the path of fields that leads to it, and with its role.

use super::torch::{self, Name, Step, TorchName, TorchPlace};
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

/// One tensor of a model; `R` is `&Tensor<F>` or `&mut Tensor<F>`.
#[derive(Debug, Clone)]
pub struct Entry<R> {
    /// The path of fields that leads to the tensor: `layers.0.weight`.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The tensor.
    pub tensor: R,
}

impl<R> Entry<R> {
    /// Whether the tensor is a parameter, not state.
    pub fn is_trained(&self) -> bool {
        self.role != Role::State
    }
}

/// The tensors of a model while they are being listed. [`Module::collect`](super::Module::collect) adds them
/// field by field.
///
/// Only the fields are noted. The names of the tensors, here and in PyTorch, follow from them when someone
/// asks.
pub struct Fields<R> {
    /// Every field so far; the first is the model itself.
    fields: Vec<Field>,
    /// The field whose tensors are being listed.
    here: usize,
    /// Each tensor with its field.
    tensors: Vec<(usize, R)>,
}

struct Field {
    /// The field around this one; that of the model is its own.
    parent: usize,
    step: Step,
    /// The role of the tensors that do not state one themselves.
    role: Role,
    /// If the tensors are those of another field, listed a second time: the outermost field of which this is
    /// true.
    copy: Option<usize>,
}

impl<R> Fields<R> {
    #[inline(never)]
    pub(super) fn new() -> Self {
        let model = Field {
            parent: 0,
            step: Step {
                name: Name::Field(""),
                torch: TorchName::default(),
            },
            role: Role::default(),
            copy: None,
        };
        Self {
            fields: vec![model],
            here: 0,
            tensors: Vec::new(),
        }
    }

    /// Lists the tensors of a field called `name`, whose name in PyTorch is `torch`. A `role` applies to the
    /// tensors of the field that do not state one themselves.
    pub fn field(
        &mut self,
        name: &'static str,
        role: Option<Role>,
        torch: TorchName,
        list: impl FnOnce(&mut Self),
    ) {
        let outside = self.enter(Name::Field(name), role, torch);
        list(self);
        self.here = outside;
    }

    /// Lists the tensors of one element of a list; its name is its number.
    pub fn element(&mut self, number: usize, list: impl FnOnce(&mut Self)) {
        let outside = self.enter(Name::Element(number), None, TorchName::default());
        list(self);
        self.here = outside;
    }

    /// Lists the tensors of another field a second time, for a field that is absent here and that has a copy
    /// of them in PyTorch.
    pub fn copies(&mut self, name: &'static str, torch: TorchName, list: impl FnOnce(&mut Self)) {
        let outside = self.enter(Name::Field(name), None, torch);
        let copy = &mut self.fields[self.here].copy;
        *copy = copy.or(Some(self.here));
        list(self);
        self.here = outside;
    }

    /// Begins a field; returns the field around it.
    #[inline(never)]
    fn enter(&mut self, name: Name, role: Option<Role>, torch: TorchName) -> usize {
        let parent = self.here;
        let around = &self.fields[parent];
        let field = Field {
            parent,
            step: Step { name, torch },
            role: role.unwrap_or(around.role),
            copy: around.copy,
        };
        self.here = self.fields.len();
        self.fields.push(field);
        parent
    }

    #[inline(never)]
    pub(super) fn push(&mut self, tensor: R) {
        self.tensors.push((self.here, tensor));
    }

    /// The tensors with their roles, each once, in the order of the fields.
    pub(super) fn tensors(self) -> impl Iterator<Item = (Role, R)> {
        let Self {
            fields, tensors, ..
        } = self;
        let own = move |(at, tensor): (usize, R)| {
            let field = &fields[at];
            field.copy.is_none().then_some((field.role, tensor))
        };
        tensors.into_iter().filter_map(own)
    }

    /// The parameters, and the state.
    #[inline(never)]
    pub(super) fn split(self) -> (Vec<R>, Vec<R>) {
        let (mut trained, mut states) = (Vec::new(), Vec::new());
        for (role, tensor) in self.tensors() {
            match role {
                Role::State => states.push(tensor),
                _ => trained.push(tensor),
            }
        }
        (trained, states)
    }

    /// The tensors with names and roles, each once: parameters, then state, each in the order of the fields.
    #[inline(never)]
    pub(super) fn entries(self) -> Vec<Entry<R>> {
        let Self {
            fields, tensors, ..
        } = self;
        let own = |(at, tensor): (usize, R)| {
            let is_own = fields[at].copy.is_none();
            is_own.then(|| entry(&fields, at, tensor))
        };
        let mut entries: Vec<_> = tensors.into_iter().filter_map(own).collect();
        entries.sort_by_key(|e| !e.is_trained());
        entries
    }

    /// The tensors in the order of the fields, each with its place in PyTorch; one that has two names there
    /// stands here twice.
    #[inline(never)]
    pub(super) fn places(self) -> Vec<(Entry<R>, TorchPlace)> {
        let Self {
            fields, tensors, ..
        } = self;
        let placed = |(at, tensor): (usize, R)| {
            let place = torch::place(&path(&fields, at), fields[at].copy);
            (entry(&fields, at, tensor), place)
        };
        tensors.into_iter().map(placed).collect()
    }
}

/// The fields from the model to field `at`, without the model.
fn path(fields: &[Field], mut at: usize) -> Vec<&Step> {
    let mut path = Vec::new();
    while at != 0 {
        path.push(&fields[at].step);
        at = fields[at].parent;
    }
    path.reverse();
    path
}

fn entry<R>(fields: &[Field], at: usize, tensor: R) -> Entry<R> {
    let names = path(fields, at)
        .into_iter()
        .map(|step| step.name.to_string());
    Entry {
        name: names.collect::<Vec<_>>().join("."),
        role: fields[at].role,
        tensor,
    }
}
