//! Laws as formulas.

mod generator;

use super::{Law, Side, Slice, Symmetry, Term};
use std::fmt::Write;

impl Law {
    /// The law as a formula, given the names of the model's parameters; G is the gradient of the parameter
    /// beside it.
    ///
    /// ```
    /// use emmy::symmetry::{Law, Slice, Symmetry, Term};
    /// let terms = vec![
    ///     Term::incoming(Slice::new(0, [1, 8, 5])).narrow(4..8),
    ///     Term::outgoing(Slice::new(1, [3, 8, 1])).narrow(4..8),
    /// ];
    /// let law = Law::new("head 2, values and output", 1, Symmetry::Linear, terms);
    /// assert_eq!(law.formula(&["V", "O"]), "G V[4..8,:]ᵀ − O[:,4..8]ᵀ G = 0");
    /// ```
    pub fn formula(&self, names: &[impl AsRef<str>]) -> String {
        let mut out = String::new();
        for term in self.terms.iter().filter(|term| term.weight != 0.0) {
            let name = names.get(term.slice.parameter).map_or("?", AsRef::as_ref);
            let beside = match term.identity {
                0.0 => None,
                1.0 => Some(format!("({name} + I)")),
                c => Some(format!("({name} + {c} I)")),
            };
            let name = beside.as_deref().unwrap_or(name);
            // A rotation acts on both sides in the same way; in a law of matrices the side determines the
            // sign.
            let negative = match self.symmetry {
                Symmetry::Rotation => false,
                Symmetry::Linear => term.side != Side::Incoming,
                _ => term.weight < 0.0,
            };
            let sign = match (out.is_empty(), negative) {
                (true, false) => "",
                (true, true) => "−",
                (false, false) => " + ",
                (false, true) => " − ",
            };
            let weighted = matches!(self.symmetry, Symmetry::Rescaling | Symmetry::Translation);
            let factor = match term.weight.abs() {
                w if weighted && w != 1.0 => format!("{w} "),
                _ => String::new(),
            };
            let product = match self.symmetry {
                Symmetry::Rescaling if term.mean => {
                    format!("⟨{}, G⟩", projected(name, &term.slice))
                }
                Symmetry::Rescaling => format!("⟨{name}{}, G⟩", one(&term.slice)),
                Symmetry::Translation if term.slice.is_single() => {
                    format!("G of {name}{}", one(&term.slice))
                }
                Symmetry::Translation => format!("Σ G of {name}{}", one(&term.slice)),
                Symmetry::Linear | Symmetry::Rotation => self.products(name, term),
            };
            write!(out, "{sign}{factor}{product}").expect("a string takes what it is given");
        }
        if self.terms.iter().any(|term| term.mean) {
            let n = self.terms[0].slice.neurons();
            return format!("{out} = 0, P = 11ᵀ/{n}");
        }
        out + " = 0"
    }

    /// N Mᵀ, M Nᵀ or their difference, written for a parameter whose neurons are its rows or its columns.
    fn products(&self, name: &str, term: &Term) -> String {
        let theta = format!("{name}{}", all(&term.slice));
        let (forward, backward) = match term.slice.shape {
            [outer, _, 1] if outer > 1 => (format!("Gᵀ {theta}"), format!("{theta}ᵀ G")),
            _ => (format!("G {theta}ᵀ"), format!("{theta} Gᵀ")),
        };
        match (self.symmetry, term.side) {
            (Symmetry::Rotation, _) => format!("({forward} − {backward})"),
            (_, Side::Incoming) => forward,
            (_, Side::Attention | Side::Outgoing) => backward,
        }
    }
}

impl Slice {
    /// Whether a neuron has one entry.
    fn is_single(&self) -> bool {
        self.shape[0] == 1 && self.shape[2] == 1
    }

    /// The index of neurons called `neurons`.
    fn index(&self, neurons: &str) -> String {
        match self.shape {
            [1, _, 1] => format!("[{neurons}]"),
            [1, _, _] => format!("[{neurons},:]"),
            [_, _, 1] => format!("[:,{neurons}]"),
            _ => format!("[:,{neurons},:]"),
        }
    }
}

/// P W or W P, P = 11ᵀ/n, for neurons that are rows or columns.
fn projected(name: &str, slice: &Slice) -> String {
    let theta = format!("{name}{}", all(slice));
    match slice.shape {
        [outer, _, 1] if outer > 1 => format!("{theta} P"),
        _ => format!("P {theta}"),
    }
}

/// The index of neuron j.
fn one(slice: &Slice) -> String {
    match (slice.shape[1], slice.range.start, slice.neurons()) {
        (1, _, _) => String::new(),
        (_, start, 1) => slice.index(&start.to_string()),
        (_, 0, _) => slice.index("j"),
        (_, start, _) => slice.index(&format!("{start}+j")),
    }
}

/// The index of all neurons; empty if they are all neurons of the parameter.
fn all(slice: &Slice) -> String {
    match slice.neurons() == slice.shape[1] {
        true => String::new(),
        false => slice.index(&format!("{}..{}", slice.range.start, slice.range.end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formula(symmetry: Symmetry, terms: Vec<Term>) -> String {
        Law::new("", 1, symmetry, terms).formula(&["W", "a", "V", "b"])
    }

    #[test]
    fn a_formula_names_its_parameters() {
        let terms = || {
            vec![
                Term::incoming(Slice::new(0, [1, 3, 4])),
                Term::attention(Slice::new(1, [1, 3, 1])),
                Term::outgoing(Slice::new(2, [5, 3, 1])).times(2.0),
            ]
        };
        assert_eq!(
            formula(Symmetry::Rescaling, terms()),
            "⟨W[j,:], G⟩ − ⟨a[j], G⟩ − 2 ⟨V[:,j], G⟩ = 0"
        );
        let second = |term: Term| term.narrow(1..3);
        assert_eq!(
            formula(
                Symmetry::Rescaling,
                terms().into_iter().map(second).collect()
            ),
            "⟨W[1+j,:], G⟩ − ⟨a[1+j], G⟩ − 2 ⟨V[:,1+j], G⟩ = 0"
        );
        let last = |term: Term| term.narrow(2..3);
        assert_eq!(
            formula(Symmetry::Rescaling, terms().into_iter().map(last).collect()),
            "⟨W[2,:], G⟩ − ⟨a[2], G⟩ − 2 ⟨V[:,2], G⟩ = 0"
        );
    }

    #[test]
    fn a_matrix_law_is_one_of_matrices() {
        let rows = || Slice::new(0, [1, 6, 4]);
        let columns = || Slice::new(2, [5, 6, 1]);
        let bias = || Slice::new(3, [1, 6, 1]);
        let terms = vec![
            Term::incoming(rows()),
            Term::incoming(bias()),
            Term::outgoing(columns()),
        ];
        assert_eq!(
            formula(Symmetry::Linear, terms.clone()),
            "G Wᵀ + G bᵀ − Vᵀ G = 0"
        );
        assert_eq!(
            formula(Symmetry::Rotation, terms),
            "(G Wᵀ − W Gᵀ) + (G bᵀ − b Gᵀ) + (Gᵀ V − Vᵀ G) = 0"
        );
        let part = vec![
            Term::outgoing(rows()).narrow(0..3),
            Term::incoming(columns()).narrow(3..6),
        ];
        assert_eq!(
            formula(Symmetry::Linear, part),
            "−W[0..3,:] Gᵀ + Gᵀ V[:,3..6] = 0"
        );
    }

    #[test]
    fn a_translation_shifts_one_or_many() {
        let columns = vec![Term::incoming(Slice::new(2, [5, 3, 1]))];
        assert_eq!(formula(Symmetry::Translation, columns), "Σ G of V[:,j] = 0");
        let whole = vec![Term::incoming(Slice::new(3, [3, 1, 1]))];
        assert_eq!(formula(Symmetry::Translation, whole), "Σ G of b = 0");
        let entries = vec![
            Term::incoming(Slice::new(3, [1, 3, 1])),
            Term::reference(Slice::new(0, [1, 3, 4])),
        ];
        assert_eq!(formula(Symmetry::Translation, entries), "G of b[j] = 0");
    }
}
