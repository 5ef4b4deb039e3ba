//! The tensors of a file that contain the tensors of a model.

use crate::nn::{Entry, Module, TorchPlace, places};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous, memory};
use ndarray::{Axis, IxDyn, Slice};
use std::collections::{BTreeMap, BTreeSet};

/// The axes of a tensor in PyTorch: see [`TorchName`](crate::nn::TorchName).
type Axes = Option<&'static [Option<usize>]>;

/// A tensor of a file: one tensor of the model, or several, one after the other along the first axis.
pub(super) struct Key<F: Real> {
    pub name: String,
    pub shape: Vec<usize>,
    pub parts: Vec<Part<F>>,
}

/// A tensor of a model as a part of a tensor in a file.
pub(super) struct Part<F: Real> {
    /// Its number among those of the model, in the order of the fields.
    pub number: usize,
    /// The path to it in the model.
    path: String,
    joined: bool,
    /// See [`TorchPlace`].
    copy: Option<usize>,
    axes: Axes,
    /// The tensor with the axes that it has in the file.
    laid: Tensor<F>,
}

/// The tensors of a file that hold those of `model`.
///
/// # Panics
/// If two tensors have one name and are not joined, or axes are named that a tensor does not have.
#[track_caller]
pub(super) fn plan<F: Real>(model: &(impl Module<F> + ?Sized)) -> Vec<Key<F>> {
    arrange(places(model))
}

#[inline(never)]
#[track_caller]
fn arrange<F: Real>(places: Vec<(Entry<&Tensor<F>>, TorchPlace)>) -> Vec<Key<F>> {
    let address = |tensor| std::ptr::from_ref::<Tensor<F>>(tensor).addr();
    let own = places.iter().filter(|(_, place)| place.copy.is_none());
    let numbers = own.enumerate();
    let numbers: BTreeMap<_, _> = numbers.map(|(k, (e, _))| (address(e.tensor), k)).collect();
    let mut keys: Vec<Key<F>> = Vec::new();
    let mut found = BTreeMap::new();
    let apart = apart(&places);
    for (entry, place) in &places {
        let (key, joined) = match &place.apart {
            Some(own) if apart.contains(&*place.key) => (own, false),
            _ => (&place.key, place.joined),
        };
        let part = Part {
            number: numbers[&address(entry.tensor)],
            path: entry.name.clone(),
            joined,
            copy: place.copy,
            axes: place.axes,
            laid: lay(entry.tensor, place.axes, &entry.name),
        };
        let at = *found.entry(key).or_insert(keys.len());
        match keys.get_mut(at) {
            Some(found) => found.join(part),
            None => keys.push(Key {
                name: key.clone(),
                shape: part.laid.shape().to_vec(),
                parts: vec![part],
            }),
        }
    }
    keys
}

/// The names whose tensors cannot be joined along the first axis, since they differ in another.
fn apart<'a, F: Real>(places: &'a [(Entry<&Tensor<F>>, TorchPlace)]) -> BTreeSet<&'a str> {
    let mut first: BTreeMap<&str, &[usize]> = BTreeMap::new();
    let mut apart = BTreeSet::new();
    for (entry, place) in places.iter().filter(|(_, place)| place.joined) {
        let shape = entry.tensor.shape();
        let of_first = *first.entry(&place.key).or_insert(shape);
        if shape.len() != of_first.len() || shape.get(1..) != of_first.get(1..) {
            apart.insert(&*place.key);
        }
    }
    apart
}

impl<F: Real> Key<F> {
    #[track_caller]
    fn join(&mut self, part: Part<F>) {
        let (first, key) = (&self.parts[0], &self.name);
        let (a, b) = (&first.path, &part.path);
        assert!(
            first.joined && part.joined,
            "module!: {a} and {b} are both called \"{key}\" in PyTorch: give them names of their own, or join them (`in`)"
        );
        let (x, y) = (first.laid.shape(), part.laid.shape());
        assert!(
            x.len() == y.len() && !x.is_empty() && x[1..] == y[1..],
            "module!: {a} {x:?} and {b} {y:?}, joined as \"{key}\": all axes but the first must be equal"
        );
        self.shape[0] += y[0];
        self.parts.push(part);
    }

    /// The tensors of the model in this one, each with its number, from the numbers in the file.
    #[inline(never)]
    pub fn split(&self, numbers: Vec<F>) -> Vec<(usize, Tensor<F>)> {
        // In memory that begins at a line of the cache.
        let whole = memory::copy(&numbers).into_tensor(&self.shape);
        let mut start = 0;
        let part = |part: &Part<F>| {
            let rows = match self.parts.len() {
                1 => whole.clone(),
                _ => {
                    let count = part.laid.shape()[0];
                    let rows = Slice::from(start..start + count);
                    start += count;
                    whole.slice_axis(Axis(0), rows).to_shared()
                }
            };
            (part.number, contiguous(&unlay(rows, part.axes)))
        };
        self.parts.iter().map(part).collect()
    }

    /// The numbers of the tensors of the model in this one.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.number)
    }

    /// The fields with second names ([`TorchPlace`]) whose tensors this tensor contains under their second
    /// names.
    pub fn copies(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(|part| part.copy)
    }

    /// The tensors of the model that make this one, in their order, with the axes of the file.
    pub fn laid(&self) -> impl Iterator<Item = &Tensor<F>> {
        self.parts.iter().map(|part| &part.laid)
    }
}

/// A tensor of the model with its axes in PyTorch.
#[track_caller]
fn lay<F: Real>(tensor: &Tensor<F>, axes: Axes, path: &str) -> Tensor<F> {
    let Some(axes) = axes else {
        return tensor.clone();
    };
    let order: Vec<_> = axes.iter().flatten().copied().collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(
        sorted.iter().copied().eq(0..tensor.ndim()),
        "module!: {path} {:?} has the axes {order:?} in PyTorch: each of its own must be named once",
        tensor.shape()
    );
    let mut laid = tensor.clone().permuted_axes(IxDyn(&order));
    for new in (0..axes.len()).filter(|&k| axes[k].is_none()) {
        laid = laid.insert_axis(Axis(new));
    }
    laid
}

/// The reverse of [`lay`].
fn unlay<F: Real>(mut laid: Tensor<F>, axes: Axes) -> Tensor<F> {
    let Some(axes) = axes else {
        return laid;
    };
    for new in (0..axes.len()).rev().filter(|&k| axes[k].is_none()) {
        laid = laid.index_axis_move(Axis(new), 0);
    }
    let mut order = vec![0; laid.ndim()];
    for (k, &own) in axes.iter().flatten().enumerate() {
        order[own] = k;
    }
    laid.permuted_axes(IxDyn(&order))
}
