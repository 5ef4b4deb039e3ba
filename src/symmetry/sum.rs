//! Sums of laws.

use super::{Law, Side, Slice, Symmetry, Term};

/// The part of a sum of laws that belongs to one parameter.
struct Total {
    parameter: usize,
    /// The side on which the parameter was first found.
    side: Side,
    /// c of the identity beside it.
    identity: f64,
    /// The weight of each entry.
    weights: Vec<f64>,
}

impl Law {
    /// The sum of laws of rescaling over all their neurons, as one law about one neuron; entries that are on
    /// both sides cancel.
    ///
    /// Over the neurons of one layer this is the sum of Corollary 2.4 of "Are GATs Out of Balance?", which
    /// says that gradient flow conserves its c. Over all layers it is the telescoping sum, Eq. (9): ⟨W¹, G⟩ −
    /// Σ_l ⟨a^l, G⟩ = ⟨W^L, G⟩, at every point.
    ///
    /// # Panics
    /// If a law is not a law of rescaling or has a term of a mean, the laws do not have the same weight for
    /// all entries of a parameter, or nothing is left.
    #[track_caller]
    pub fn sum(name: impl Into<String>, laws: &[Self]) -> Self {
        let mut totals: Vec<Total> = Vec::new();
        for law in laws {
            assert_eq!(
                law.symmetry,
                Symmetry::Rescaling,
                "sum: {} is no law of rescaling",
                law.name
            );
            for term in &law.terms {
                assert!(
                    !term.mean,
                    "sum: {} is about a mean, not about single entries",
                    law.name
                );
                add(&mut totals, term);
            }
        }
        let mut terms = Vec::new();
        for total in &totals {
            terms.extend(total.term());
        }
        let layer = laws.first().map_or(0, |law| law.layer);
        Self::new(name, layer, Symmetry::Rescaling, terms)
    }
}

#[track_caller]
fn add(totals: &mut Vec<Total>, term: &Term) {
    let Slice { parameter, .. } = term.slice;
    let known = totals.iter().position(|t| t.parameter == parameter);
    let at = known.unwrap_or_else(|| {
        totals.push(Total {
            parameter,
            side: term.side,
            identity: term.identity,
            weights: vec![0.0; term.slice.len()],
        });
        totals.len() - 1
    });
    assert_eq!(
        totals[at].identity, term.identity,
        "sum: the laws do not agree on the identity beside parameter {parameter}"
    );
    let weights = &mut totals[at].weights;
    assert_eq!(
        weights.len(),
        term.slice.len(),
        "sum: the laws do not agree on the entries of parameter {parameter}"
    );
    for stretch in term.slice.stretches() {
        weights[stretch].iter_mut().for_each(|w| *w += term.weight);
    }
}

impl Total {
    /// The whole parameter as one term; `None` if it cancelled.
    #[track_caller]
    fn term(&self) -> Option<Term> {
        let &weight = self.weights.first()?;
        assert!(
            self.weights.iter().all(|w| (w - weight).abs() < 1e-9),
            "sum: the laws do not weigh all of parameter {} alike",
            self.parameter
        );
        (weight.abs() >= 1e-9).then(|| Term {
            slice: Slice::new(self.parameter, [1, 1, self.weights.len()]),
            side: self.side,
            weight,
            mean: false,
            identity: self.identity,
        })
    }
}
