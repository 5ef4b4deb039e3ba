//! Dropout as a layer.

use super::{Input, Pass};
use crate::ops::Sparse;
use crate::real::Real;
use serde::{Deserialize, Serialize};

/// In a training pass y = x ⊙ m / (1 − p), where mᵢ is 1 with probability 1 − p, else 0; in an evaluation y =
/// x.
///
/// Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014, in its
/// inverted form. For a sparse matrix, only the stored values are masked: zeros stay zero anyway,
/// so the distribution of the result is the same as for the dense matrix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Dropout {
    /// The probability p of dropping an element.
    pub p: f64,
}

impl Dropout {
    /// Dropout with probability p.
    ///
    /// ```
    /// use emmy::{Tape, init, nn::{Dropout, Input, Linear, Pass}, tensor::tensor};
    /// let (half, layer) = (Dropout::new(0.5), Linear::new(4, 2, true, &mut init::rng(0)));
    /// let tape = Tape::new();
    /// let pass = Pass::train(&tape, &layer, 0);
    /// let x = tape.constant(tensor(&[1, 4], vec![1.0_f64; 4]));
    /// let Input::Dense(dropped) = half.forward(&pass, x) else { unreachable!("x is dense") };
    /// assert!(dropped.value().iter().all(|&x| x == 0.0 || x == 2.0));
    /// let y = layer.forward(&pass, dropped);
    /// ```
    ///
    /// # Panics
    /// If p is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn new(p: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&p),
            "Dropout: p = {p}, it must be a probability, 0 to 1"
        );
        Self { p }
    }

    /// The output. If p = 0, no seed is drawn, and a training pass does not differ from an
    /// evaluation.
    ///
    /// # Panics
    /// If p is not within 0 ≤ p ≤ 1.
    #[track_caller]
    pub fn forward<'t, F: Real>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
    ) -> Input<'t, F> {
        let x = x.into();
        let Some(seed) = self.seed(pass) else {
            return x;
        };
        match x {
            Input::Dense(x) => Input::Dense(x.dropout(self.p, seed)),
            Input::Sparse(x) => {
                let values = x.values.dropout(self.p, seed);
                Input::Sparse(Sparse::new(&x.pattern, values))
            }
        }
    }

    /// The seed of the next mask of this pass; `None` in an evaluation or if p = 0.
    pub(in crate::nn) fn seed<F: Real>(&self, pass: &Pass<'_, '_, F>) -> Option<u64> {
        if self.p == 0.0 { None } else { pass.draw() }
    }
}
