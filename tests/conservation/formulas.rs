//! Laws as formulas.

use emmy::symmetry::{Law, Slice, Symmetry, Term};

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
