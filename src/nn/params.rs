//! The numbers of parameters in the list of a model.

use super::{Fields, Module};
use crate::real::Real;
use crate::symmetry::Slice;
use crate::tensor::Tensor;
use std::collections::BTreeMap;

/// The parameters and state of a model, found by address: a layer passes references to its own
/// fields. The model stays borrowed, so an address belongs to one tensor as long as this value
/// exists.
///
/// ```
/// use emmy::{init, nn::{Linear, Params}};
///
/// let layer = Linear::<f64>::new(2, 3, true, &mut init::rng(0));
/// let params = Params::of(&layer);
/// assert_eq!(params.tensors().len(), 2);
/// assert_eq!(params.number(&layer.weight), 0);
/// assert_eq!(params.find(layer.bias.as_ref().unwrap()), Some(1));
/// // A copy is another tensor, at another address.
/// assert_eq!(params.find(&layer.weight.clone()), None);
/// ```
#[derive(Debug, Clone)]
pub struct Params<'m, F: Real> {
    trained: Vec<&'m Tensor<F>>,
    states: Vec<&'m Tensor<F>>,
    /// Maps the address of a tensor to its number; state is numbered after the parameters.
    numbers: BTreeMap<usize, usize>,
}

fn address<F>(tensor: &Tensor<F>) -> usize {
    std::ptr::from_ref(tensor).addr()
}

impl<'m, F: Real> Params<'m, F> {
    /// The parameters and state of `model`, with their numbers.
    pub fn of(model: &'m (impl Module<F> + ?Sized)) -> Self {
        let mut fields = Fields::new();
        model.collect(&mut fields);
        let (trained, states) = fields.split();
        let all = trained.iter().chain(&states);
        let numbers = all.enumerate().map(|(k, p)| (address(p), k)).collect();
        Self {
            trained,
            states,
            numbers,
        }
    }

    /// The parameters, in the model's order.
    pub fn tensors(&self) -> &[&'m Tensor<F>] {
        &self.trained
    }

    /// The state, in the model's order.
    pub fn states(&self) -> &[&'m Tensor<F>] {
        &self.states
    }

    /// The number of a parameter in the model's list, if it is one of the model's.
    pub fn find(&self, parameter: &Tensor<F>) -> Option<usize> {
        let number = *self.numbers.get(&address(parameter))?;
        (number < self.trained.len()).then_some(number)
    }

    /// The number of a tensor of state in the model's list, if it is one of the model's.
    pub(super) fn find_state(&self, state: &Tensor<F>) -> Option<usize> {
        let number = *self.numbers.get(&address(state))?;
        number.checked_sub(self.trained.len())
    }

    /// The number of a parameter in the model's list.
    ///
    /// # Panics
    /// If it is not a parameter of the model.
    #[track_caller]
    pub fn number(&self, parameter: &Tensor<F>) -> usize {
        match self.find(parameter) {
            Some(number) => number,
            None => panic!("{}", self.stranger(parameter)),
        }
    }

    /// Which of these tensors is the first that is not a parameter of the model.
    #[inline(never)]
    pub(super) fn first_stranger(&self, tensors: &[&Tensor<F>]) -> Option<usize> {
        tensors.iter().position(|p| self.find(p).is_none())
    }

    /// The message about a tensor that does not belong to the model.
    pub(super) fn stranger(&self, tensor: &Tensor<F>) -> String {
        let shape = tensor.shape();
        let alike = self.trained.iter().filter(|p| p.shape() == shape).count();
        format!(
            "a tensor of shape {shape:?} is not a parameter of the model of this pass, which has {} parameters, {alike} of this \
             shape: it is a copy, a temporary, or not listed in `module!`",
            self.trained.len()
        )
    }

    /// One neuron per row of a weight `[out, in]`, or per entry of a bias `[out]`.
    ///
    /// # Panics
    /// If the tensor is not a parameter of the model.
    #[track_caller]
    pub fn rows(&self, parameter: &Tensor<F>) -> Slice {
        self.grouped(parameter, 1, parameter.shape()[0])
    }

    /// One neuron per column of a weight `[out, in]`.
    ///
    /// # Panics
    /// If the tensor is not a parameter of the model.
    #[track_caller]
    pub fn columns(&self, weight: &Tensor<F>) -> Slice {
        let input = weight.shape().last().copied().unwrap_or(1);
        let outer = weight.len().checked_div(input).unwrap_or(0);
        Slice::new(self.number(weight), [outer, input, 1])
    }

    /// `width` neurons, each with `groups` stretches of entries: with 1 group the entries of a
    /// neuron are consecutive, with H groups they are those of H averaged heads.
    ///
    /// # Panics
    /// If the tensor is not a parameter of the model.
    #[track_caller]
    pub fn grouped(&self, parameter: &Tensor<F>, groups: usize, width: usize) -> Slice {
        let inner = parameter.len().checked_div(groups * width).unwrap_or(0);
        Slice::new(self.number(parameter), [groups, width, inner])
    }

    /// All entries of a parameter as one neuron.
    ///
    /// # Panics
    /// If the tensor is not a parameter of the model.
    #[track_caller]
    pub fn whole(&self, parameter: &Tensor<F>) -> Slice {
        self.grouped(parameter, parameter.len().max(1), 1)
    }
}
