//! The symmetry itself: parameters moved so that the loss stays as it is.

use super::{Law, Side, Symmetry, Term};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous};

impl Law {
    /// Moves the parameters along the change whose derivative is entry `entry` of δ, by t. If the law holds,
    /// the loss does not change, for any t: a test of the law without gradients.
    ///
    /// | symmetry | change |
    /// |---|---|
    /// | rescaling, entry j | M_j → e^(w t) M_j; of a mean M → M + (e^(w t) − 1) P M |
    /// | translation, entry j | M_j → M_j + w t |
    /// | linear, entry (i, j) | g = exp(t e_i e_jᵀ): M → g M for incoming entries, g⁻ᵀ M for attention and outgoing entries |
    /// | rotation, entry (i, j) | the rotation by t in the plane of i and j |
    ///
    /// # Panics
    /// If there is no such entry, or a parameter is missing or has another number of entries than the law
    /// says.
    #[track_caller]
    pub fn transform<F: Real>(&self, parameters: &mut [&mut Tensor<F>], entry: usize, t: f64) {
        assert!(
            entry < self.entries(),
            "{}: entry {entry} of {}",
            self.name,
            self.entries()
        );
        let (i, j) = match self.symmetry {
            Symmetry::Rescaling | Symmetry::Translation => (entry, entry),
            Symmetry::Linear | Symmetry::Rotation => {
                (entry / self.neurons(), entry % self.neurons())
            }
        };
        // Checked before any parameter is moved.
        for Term { slice, .. } in &self.terms {
            self.find(slice, parameters.get(slice.parameter), |p| p.len());
        }
        for term in &self.terms {
            let parameter = &mut *parameters[term.slice.parameter];
            if term.mean {
                move_mean(term, parameter, t);
                continue;
            }
            move_one(self.symmetry, term, parameter, (i, j), t);
        }
    }
}

/// The entries of the parameter, those of W + c I beside an identity.
fn beside_identity<F: Real>(term: &Term, parameter: &Tensor<F>) -> Vec<F> {
    let values = contiguous(parameter);
    let entries = values.iter().enumerate();
    (entries.map(|(entry, x)| F::of(x.as_f64() + term.added_to(entry)))).collect()
}

/// M → M + (e^(w t) − 1) P M.
fn move_mean<F: Real>(term: &Term, parameter: &mut Tensor<F>, t: f64) {
    let shape = parameter.shape().to_vec();
    let mut values = beside_identity(term, parameter);
    let (n, inner) = (term.slice.neurons(), term.slice.shape[2]);
    let growth = (term.weight * t).exp_m1();
    for stretch in term.slice.stretches() {
        for k in 0..inner {
            let at = |j: usize| stretch.start + j * inner + k;
            let mean = (0..n).map(|j| values[at(j)].as_f64()).sum::<f64>() / n as f64;
            for j in 0..n {
                values[at(j)] = F::of(values[at(j)].as_f64() + growth * mean);
            }
        }
    }
    for (entry, x) in values.iter_mut().enumerate() {
        *x = F::of(x.as_f64() - term.added_to(entry));
    }
    *parameter = crate::tensor::tensor(&shape, values);
}

fn move_one<F: Real>(
    symmetry: Symmetry,
    term: &Term,
    parameter: &mut Tensor<F>,
    (i, j): (usize, usize),
    t: f64,
) {
    let shape = parameter.shape().to_vec();
    let mut values = beside_identity(term, parameter);
    let inner = term.slice.shape[2];
    let incoming = term.side == Side::Incoming;
    for stretch in term.slice.stretches() {
        for k in 0..inner {
            let (at_i, at_j) = (stretch.start + i * inner + k, stretch.start + j * inner + k);
            let (x_i, x_j) = (values[at_i].as_f64(), values[at_j].as_f64());
            match symmetry {
                Symmetry::Rescaling => values[at_i] = F::of((term.weight * t).exp() * x_i),
                Symmetry::Translation => values[at_i] = F::of(x_i + term.weight * t),
                Symmetry::Linear if i == j => {
                    values[at_i] = F::of(if incoming { t.exp() } else { (-t).exp() } * x_i);
                }
                Symmetry::Linear if incoming => values[at_i] = F::of(x_i + t * x_j),
                Symmetry::Linear => values[at_j] = F::of(x_j - t * x_i),
                Symmetry::Rotation if i == j => {}
                Symmetry::Rotation => {
                    values[at_i] = F::of(t.cos() * x_i + t.sin() * x_j);
                    values[at_j] = F::of(t.cos() * x_j - t.sin() * x_i);
                }
            }
        }
    }
    for (entry, x) in values.iter_mut().enumerate() {
        *x = F::of(x.as_f64() - term.added_to(entry));
    }
    *parameter = crate::tensor::tensor(&shape, values);
}
