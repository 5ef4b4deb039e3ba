//! The norms for p = 1 and p = ∞, by the same relaxation.
//!
//! # p = ∞
//! The constant of several outputs is the largest of those of one. For one output y and every t > 0,
//!
//! ‖Δy‖² ≤ Σ_i t_i Δx_i² for all Δ ⇒ |Δy| ≤ √(Σ_i t_i) ‖Δx‖_∞.
//!
//! The left side is what P proves with diag(t) in the place of I, the block of the inputs. So an input is a
//! neuron with slopes 0 that reads nothing: its f and g are e_i, and its multiplier is t_i. P grows with
//! (t, Λ, 1/τ) together, so the smallest τ Σ t is found by the smallest τ + Σ t, which is linear; the
//! search and the proof stay as they are. Since each Δx_i² is at most 1, this is Shor's relaxation of the
//! largest y over all signs of the inputs and all slopes of the neurons. With one layer of neurons that is
//! a bilinear form in signs, so by Grothendieck's inequality the bound is at most 1.7823 times the largest
//! ‖W₂ diag(s) W₁‖_∞ (Krivine, "Constantes de Grothendieck et fonctions de type positif sur les sphères",
//! 1979).
//!
//! # p = 1
//! Between two inputs the outputs differ by J Δx, where J = Σ A ⋯ is the product of all maps with some slope
//! within \[l, u\] per neuron, and ‖J‖₁ = ‖Jᵀ‖_∞. Jᵀ belongs to the network with all maps transposed and in
//! the opposite order. So its constant for p = ∞ over all slopes is one of the network for p = 1.

use super::{Network, Neurons, Read};
use crate::error::Result;
use crate::linalg::{Lp, Upper};
use ndarray::Array2;

impl Network {
    /// The proven Lipschitz constant in the norm ‖·‖_p: [`lipschitz`](Self::lipschitz) for p = 2; a search
    /// per output for p = ∞, and per input for p = 1.
    ///
    /// ```
    /// use emmy::lipschitz::{Lp, joint::Network};
    /// use ndarray::array;
    ///
    /// // relu(x₁ + x₂) + relu(x₁ − x₂) has the constant 2 in both norms. For p = ∞ the product of norms
    /// // is 4, and the bound is 1 + √2.
    /// let w1 = array![[1.0, 1.0], [1.0, -1.0]];
    /// let net = Network::chain(vec![w1, array![[1.0, 1.0]]], [0.0, 1.0])?;
    /// let [one, all] = [net.lipschitz_in(Lp::One)?, net.lipschitz_in(Lp::Inf)?];
    /// assert!((one.get() - 2.0).abs() < 1e-6 && (all.get() - 2.414214).abs() < 1e-6);
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`certify`](Self::certify).
    pub fn lipschitz_in(&self, p: Lp) -> Result<Upper> {
        match p {
            Lp::Two => self.lipschitz(),
            Lp::Inf => {
                let mut each = (0..self.outputs()).map(|k| self.one_output(k).of_signs());
                each.try_fold(Upper::ZERO, |most, one| Ok(most.max(one?)))
            }
            Lp::One => self.transposed()?.lipschitz_in(Lp::Inf),
        }
    }

    /// The constant of one output for p = ∞.
    fn of_signs(&self) -> Result<Upper> {
        if self.output.iter().all(|(_, c)| c.iter().all(|x| *x == 0.0)) {
            return Ok(Upper::ZERO);
        }
        let at = self.with_free_inputs().proven_point()?;
        let inputs = at.multipliers[..self.inputs].iter();
        let size: Upper = inputs.map(|t| Upper::new(*t)).sum();
        Ok(Upper::new(at.square.sqrt()) * size.sqrt())
    }

    /// The network without inputs, in which those of this one are the first layer.
    fn with_free_inputs(&self) -> Self {
        let later = |reads: &[Read]| reads.iter().map(|(j, a)| (j + 1, a.clone())).collect();
        let inputs = Neurons {
            reads: Vec::new(),
            slopes: vec![[0.0; 2]; self.inputs],
        };
        let layers = self.layers.iter().map(|layer| Neurons {
            reads: later(&layer.reads),
            slopes: layer.slopes.clone(),
        });
        Self {
            inputs: 0,
            layers: [inputs].into_iter().chain(layers).collect(),
            output: later(&self.output),
            roundings: self.roundings,
        }
    }

    /// The network whose Jacobians are the transposed ones.
    fn transposed(&self) -> Result<Self> {
        let sizes = self.sizes();
        let last = self.layers.len() + 1;
        // Who reads block j: the new block of the reader, and the map transposed.
        let mut readers: Vec<Vec<Read>> = vec![Vec::new(); last];
        let layers = self.layers.iter().map(|layer| &layer.reads);
        for (k, reads) in (1..).zip(layers.chain([&self.output])) {
            for (j, a) in reads {
                readers[*j].push((last - k, a.t().to_owned()));
            }
        }
        for (reads, size) in readers.iter_mut().zip(&sizes) {
            if reads.is_empty() {
                reads.push((0, Array2::zeros((*size, self.outputs()))));
            }
        }
        let output = readers.remove(0);
        let layers = readers.into_iter().zip(&self.layers).rev();
        let layers = layers.map(|(reads, layer)| Neurons {
            reads,
            slopes: layer.slopes.clone(),
        });
        let transposed = Self::new(self.outputs(), layers.collect(), output)?;
        Ok(transposed.with_roundings(self.roundings))
    }
}
