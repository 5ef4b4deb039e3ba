//! The order of weights, for initialisation.

use super::Trace;
use crate::init::{LayerWeights, WeightOrder};
use crate::nn::Role;

impl Trace {
    /// The information about the model that [`Initialization`](crate::init::Initialization) needs.
    pub fn weight_order(&self) -> WeightOrder {
        WeightOrder {
            layers: self.weights(),
            slope: self.activation_slope(),
            laws: self.laws_to_balance(),
        }
    }

    /// The layers that hold weights, in the order in which the pass calls them, each parameter once.
    fn weights(&self) -> Vec<LayerWeights> {
        let mut seen = vec![false; self.names.len()];
        let mut layers = Vec::new();
        for call in self.declared.iter().map(|&c| &self.calls[c]) {
            let ports = call.ports.as_ref().expect("a declared call");
            let new = |&&p: &&usize| !seen[p];
            let own: Vec<usize> = call.parameters.iter().filter(new).copied().collect();
            own.iter().for_each(|&p| seen[p] = true);
            let of = |role| own.iter().copied().filter(move |&p| self.roles[p] == role);
            let averaged = |p: usize| {
                let written = ports.writers.iter().find(|t| t.slice.parameter == p);
                (p, written.map_or(1, |t| t.slice.shape[0]))
            };
            let layer = LayerWeights {
                weights: of(Role::Weight).map(averaged).collect(),
                attention: of(Role::Attention).collect(),
                zeros: of(Role::Bias).chain(of(Role::Skip)).collect(),
            };
            if !layer.weights.is_empty() {
                layers.push(layer);
            }
        }
        layers
    }

    /// The slope for negative arguments of the first activation of the pass: 1 if there is none,
    /// that of a LeakyReLU, 0 for all others.
    fn activation_slope(&self) -> f64 {
        let between = |&id: &usize| self.owner[id].is_none();
        let slope = |id: usize| self.nodes[id].function()?.negative_slope;
        (0..self.nodes.len())
            .filter(between)
            .find_map(slope)
            .unwrap_or(1.0)
    }
}
