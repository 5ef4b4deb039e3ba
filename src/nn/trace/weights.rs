//! The order of weights, as initialisation needs it.

use super::Trace;
use crate::nn::Role;

/// The parameters of one layer, by number, as initialisation draws them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerWeights {
    /// The weights that read neurons and write neurons, with the number of averaged heads that each writes to (1 without).
    pub weights: Vec<(usize, usize)>,
    /// What makes attention scores.
    pub attention: Vec<usize>,
    /// Biases, and weights of skip connections.
    pub zeros: Vec<usize>,
}

impl Trace {
    /// The layers that hold weights, in the order in which the pass calls them, each parameter once.
    pub fn weights(&self) -> Vec<LayerWeights> {
        let mut seen = vec![false; self.names.len()];
        let mut layers = Vec::new();
        for call in self.declared().into_iter().map(|c| &self.calls[c]) {
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

    /// The slope for negative arguments of the first activation of the pass: 1 of none, that of a LeakyReLU, 0 of all others.
    pub fn activation_slope(&self) -> f64 {
        let declared = self.declared();
        let between = |id: &usize| declared.iter().all(|&c| !self.calls[c].nodes.contains(id));
        let slope = |id: usize| match self.nodes[id].op {
            "leaky_relu" => Some(self.nodes[id].constant),
            "relu" | "elu" | "normal_cdf" | "sigmoid" | "softplus" | "tanh" => Some(0.0),
            _ => None,
        };
        (0..self.nodes.len())
            .filter(between)
            .find_map(slope)
            .unwrap_or(1.0)
    }
}
