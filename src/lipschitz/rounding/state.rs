//! What is known of the nodes on the way from an input to an output. The letters are those of the rules.

use crate::autodiff::Tape;
use crate::real::Real;
use crate::tensor::Tensor;
use ndarray::Axis;
use std::collections::HashMap;

/// E, V and S of a node, of its shape.
#[derive(Clone)]
pub(super) struct Entries {
    pub error: Tensor<f64>,
    pub moved: Tensor<f64>,
    pub size: Tensor<f64>,
}

impl Entries {
    pub fn map(&self, f: impl Fn(&Tensor<f64>) -> Tensor<f64>) -> Self {
        Self {
            error: f(&self.error),
            moved: f(&self.moved),
            size: f(&self.size),
        }
    }

    pub fn with(&self, b: &Self, f: impl Fn(&Tensor<f64>, &Tensor<f64>) -> Tensor<f64>) -> Self {
        Self {
            error: f(&self.error, &b.error),
            moved: f(&self.moved, &b.moved),
            size: f(&self.size, &b.size),
        }
    }

    pub fn beside(parts: &[Self], axis: usize) -> Self {
        let joined = |of: fn(&Self) -> &Tensor<f64>| {
            let views: Vec<_> = parts.iter().map(|part| of(part).view()).collect();
            let joined = ndarray::concatenate(Axis(axis), &views);
            joined.expect("the shapes of the operation").into_shared()
        };
        Self {
            error: joined(|e| &e.error),
            moved: joined(|e| &e.moved),
            size: joined(|e| &e.size),
        }
    }
}

/// The state of a walk from an input to an output.
pub(super) struct Walk<'t, F: Real> {
    pub tape: &'t Tape<F>,
    pub x: usize,
    pub radius: f64,
    /// The nodes that depend on the input.
    pub known: HashMap<usize, Entries>,
}

impl<F: Real> Walk<'_, F> {
    pub fn moves(&self, id: usize) -> bool {
        self.known.contains_key(&id)
    }

    pub fn input(&self) -> Entries {
        let value = self.absolute(self.x);
        let radius = self.radius;
        let size = match radius > 0.0 {
            true => value.mapv(|x| (x + radius).next_up()).into_shared(),
            false => value.clone(),
        };
        Entries {
            error: value.mapv(|_| 0.0).into_shared(),
            moved: value.mapv(|_| radius).into_shared(),
            size,
        }
    }

    /// |value| of a node.
    pub fn absolute(&self, id: usize) -> Tensor<f64> {
        self.tape.value(id).mapv(|x| x.as_f64().abs()).into_shared()
    }
}
