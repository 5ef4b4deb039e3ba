//! Laws as formulas.

use emmy::symmetry::{Generator, Law, Layout, Slice, Symmetry, Term};

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

/// The formula of a generator of W `[2, 3]` (entries 0 to 5), b `[3]` (6 to 8), s `[1]` (9), V `[4, 4]` (10
/// to 25) and U `[13, 2]` (26 to 51).
fn generated(matrix: &[(usize, usize, f64)], vector: &[(usize, f64)]) -> String {
    let shapes: [(&str, &[usize]); 5] = [
        ("W", &[2, 3]),
        ("b", &[3]),
        ("s", &[1]),
        ("V", &[4, 4]),
        ("U", &[13, 2]),
    ];
    let layout = Layout::new(shapes.map(|(name, shape)| (name.to_owned(), shape.to_vec())));
    Generator::new(matrix.to_vec(), vector.to_vec()).formula(&layout)
}

/// w times row `from` of W is added to row `to`.
fn rows(from: usize, to: usize, w: f64) -> Vec<(usize, usize, f64)> {
    (0..3).map(|c| (3 * to + c, 3 * from + c, w)).collect()
}

/// w times column `from` of W is added to column `to`.
fn columns(from: usize, to: usize, w: f64) -> Vec<(usize, usize, f64)> {
    (0..2).map(|r| (3 * r + to, 3 * r + from, w)).collect()
}

#[test]
fn a_generator_names_rows_columns_and_wholes() {
    let both = |w: [f64; 2]| [rows(0, 0, w[0]), rows(1, 1, w[1])].concat();
    let all_rows = [both([1.0; 2]), rows(0, 1, 1.0), rows(1, 0, 1.0)].concat();
    let pairs = (0..3).flat_map(|from| (0..3).map(move |to| columns(from, to, -1.0)));
    let all_columns: Vec<_> = pairs.flatten().collect();
    for (matrix, expected) in [
        (both([0.5, 0.5]), "0.5 ⟨W, G⟩"),
        (both([1.0, 10.0]), "⟨W[0,:], G⟩ + 10 ⟨W[1,:], G⟩"),
        (rows(1, 1, -1.0), "−⟨W[1,:], G⟩"),
        (rows(0, 1, 1.25), "1.25 ⟨W[0,:], G of W[1,:]⟩"),
        (all_rows, "⟨11ᵀ W, G⟩"),
        (columns(2, 2, 1.0), "⟨W[:,2], G⟩"),
        (columns(2, 0, -2.0), "−2 ⟨W[:,2], G of W[:,0]⟩"),
        (all_columns, "−⟨W 11ᵀ, G⟩"),
        (vec![(1, 1, 1.0)], "⟨W[0,1], G⟩"),
        (vec![(3, 1, 1.0)], "W[0,1] · G of W[1,0]"),
        // The middle of the row has another weight.
        (
            vec![(0, 0, 1.0), (1, 1, 2.0), (2, 2, 1.0)],
            "⟨W[0,0], G⟩ + 2 ⟨W[0,1], G⟩ + ⟨W[0,2], G⟩",
        ),
        // Row 0 goes to row 1, but one column further.
        (
            vec![(4, 0, 1.0), (5, 1, 1.0), (3, 2, 1.0)],
            "W[0,2] · G of W[1,0] + W[0,0] · G of W[1,1] + W[0,1] · G of W[1,2]",
        ),
        (vec![(7, 7, 1.0)], "⟨b[1], G⟩"),
        (vec![(9, 9, 1.0)], "⟨s, G⟩"),
        // Between parameters there are entries only.
        (
            vec![(6, 0, 2.0), (0, 6, -1.0)],
            "−b[0] · G of W[0,0] + 2 W[0,0] · G of b[0]",
        ),
    ] {
        assert_eq!(generated(&matrix, &[]), format!("{expected} = 0"));
    }
}

#[test]
fn a_generator_names_what_it_shifts() {
    let line = |entries: &[usize], w: f64| entries.iter().map(|&e| (e, w)).collect::<Vec<_>>();
    for (vector, expected) in [
        (line(&[0, 1, 2, 3, 4, 5], 2.0), "2 Σ G of W"),
        (line(&[3, 4, 5], -1.0), "−Σ G of W[1,:]"),
        (
            [line(&[0, 1, 2], 1.0), line(&[3, 4, 5], 3.0)].concat(),
            "Σ G of W[0,:] + 3 Σ G of W[1,:]",
        ),
        (line(&[1, 4], 1.0), "Σ G of W[:,1]"),
        (line(&[0, 1], 1.0), "G of W[0,0] + G of W[0,1]"),
        (line(&[6, 7, 8], 1.0), "Σ G of b"),
        (line(&[8], 1.0), "G of b[2]"),
        (line(&[9], 1.0), "G of s[0]"),
    ] {
        assert_eq!(generated(&[], &vector), format!("{expected} = 0"));
    }
    let mixed = generated(&rows(0, 0, 1.0), &[(7, -2.0)]);
    assert_eq!(mixed, "⟨W[0,:], G⟩ − 2 G of b[1] = 0");
}

/// Twelve entries are written out, thirteen are counted.
#[test]
fn a_generator_counts_what_is_too_much_to_write() {
    let sized = |count: usize| -> Vec<usize> { (0..count).collect() };
    let parts = |text: String| text.matches(" + ").count() + 1;
    // Different weights, so that no row or column is whole.
    let own = |n: usize| -> Vec<_> {
        let entry = |k| (10 + k, 10 + k, 1.0 + k as f64);
        sized(n).into_iter().map(entry).collect()
    };
    assert_eq!(parts(generated(&own(12), &[])), 12);
    let products = "(13 products of entries of V) = 0";
    assert_eq!(generated(&own(13), &[]), products);

    let shifts = |n: usize| -> Vec<_> {
        let entry = |k| (10 + k, 1.0 + k as f64);
        sized(n).into_iter().map(entry).collect()
    };
    assert_eq!(parts(generated(&[], &shifts(12))), 12);
    let entries = "(13 entries of G of V) = 0";
    assert_eq!(generated(&[], &shifts(13)), entries);

    let across =
        |n: usize| -> Vec<_> { sized(n).into_iter().map(|k| (k % 6, 10 + k, 1.0)).collect() };
    assert_eq!(parts(generated(&across(12), &[])), 12);
    let across = generated(&across(13), &[]);
    assert_eq!(across, "(13 products across parameters) = 0");

    // Rows are counted as rows, and written as entries if they are too many.
    let scaled = |n: usize| -> Vec<_> {
        let row = |r: usize| [26 + 2 * r, 27 + 2 * r].map(|e| (e, e, 1.0 + r as f64));
        sized(n).into_iter().flat_map(row).collect()
    };
    assert_eq!(parts(generated(&scaled(12), &[])), 12);
    let products = "(26 products of entries of U) = 0";
    assert_eq!(generated(&scaled(13), &[]), products);
    let shifted = |n: usize| -> Vec<_> {
        let row = |r: usize| [26 + 2 * r, 27 + 2 * r].map(|e| (e, 1.0 + r as f64));
        sized(n).into_iter().flat_map(row).collect()
    };
    assert_eq!(parts(generated(&[], &shifted(12))), 12);
    let entries = "(26 entries of G of U) = 0";
    assert_eq!(generated(&[], &shifted(13)), entries);
}
