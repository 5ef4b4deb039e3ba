//! The search on functions of a few numbers, whose laws can be found by hand.

use emmy::Var;
use emmy::init;
use emmy::symmetry::{
    Ansatz, Discovery, Field, Law, Layout, ParametricFunction, Search, Slice, Symmetry, Term,
    discover,
};
use emmy::tensor::scalar;

/// Parameters `a`, `b`, .. of these shapes.
fn layout(shapes: &[&[usize]]) -> Layout {
    let named =
        |(k, shape): (usize, &&[usize])| (char::from(b'a' + k as u8).to_string(), shape.to_vec());
    Layout::new(shapes.iter().enumerate().map(named).collect::<Vec<_>>())
}

/// y = x Π θ_k^{n_k} for single numbers θ.
fn product(exponents: &'static [f64]) -> ParametricFunction<'static> {
    let shapes: Vec<&[usize]> = vec![&[1]; exponents.len()];
    ParametricFunction::new(layout(&shapes), move |tape, theta, seed| {
        let x = tape.constant(init::normal(&[1], 1.0, &mut init::rng(seed)));
        let factors = theta.iter().zip(exponents);
        factors.fold(x, |y, (theta, &n)| y * theta.powf(n))
    })
}

/// Σ w_k ⟨θ_k, G⟩ = 0.
fn law(weights: &[(usize, f64)]) -> Law {
    let term = |&(k, w): &(usize, f64)| Term::incoming(Slice::new(k, [1, 1, 1])).times(w);
    Law::new(
        "declared",
        1,
        Symmetry::Rescaling,
        weights.iter().map(term).collect(),
    )
}

fn formulas(found: &Discovery) -> Vec<&str> {
    found.laws.iter().map(|law| &law.formula[..]).collect()
}

/// A declared law is listed first; the others are written beside it as shortly as they can be.
#[test]
fn laws_of_products_of_powers() {
    type Case = (&'static [f64], Vec<Law>, Vec<&'static str>);
    let cases: [Case; 6] = [
        (&[2.0, 1.0], vec![], vec!["⟨a, G⟩ − 2 ⟨b, G⟩ = 0"]),
        (
            &[1.0, 1.0, 1.0],
            vec![],
            vec!["⟨a, G⟩ − ⟨c, G⟩ = 0", "⟨b, G⟩ − ⟨c, G⟩ = 0"],
        ),
        (
            &[1.0, 1.0, 1.0],
            vec![law(&[(1, 1.0), (2, -1.0)])],
            vec!["⟨b, G⟩ − ⟨c, G⟩ = 0", "⟨a, G⟩ − ⟨c, G⟩ = 0"],
        ),
        (
            &[2.0, 3.0, 1.0],
            vec![law(&[(0, 3.0), (1, -2.0)])],
            vec!["3 ⟨a, G⟩ − 2 ⟨b, G⟩ = 0", "⟨a, G⟩ − 2 ⟨c, G⟩ = 0"],
        ),
        (
            &[1.0, 2.0, 3.0, 4.0],
            vec![law(&[(0, 1.0), (1, 1.0), (2, -1.0)])],
            vec![
                "⟨a, G⟩ + ⟨b, G⟩ − ⟨c, G⟩ = 0",
                "⟨a, G⟩ − 0.25 ⟨d, G⟩ = 0",
                "⟨b, G⟩ − 0.5 ⟨d, G⟩ = 0",
            ],
        ),
        (
            &[1.0; 4],
            vec![law(&[(0, 1.0), (1, 1.0), (2, -1.0), (3, -1.0)])],
            vec![
                "⟨a, G⟩ + ⟨b, G⟩ − ⟨c, G⟩ − ⟨d, G⟩ = 0",
                "⟨a, G⟩ − ⟨d, G⟩ = 0",
                "⟨b, G⟩ − ⟨d, G⟩ = 0",
            ],
        ),
    ];
    for (exponents, declared, expected) in cases {
        let found = discover(&product(exponents), &declared, &Search::default());
        assert_eq!(formulas(&found), expected, "{exponents:?}");
        assert_eq!(found.declared, declared.len());
        assert!(found.is_complete());
    }
}

/// Where the numbers are not finite at some random points, others are taken: √w v has the law of w and v.
#[test]
fn points_without_numbers_are_drawn_again() {
    let found = discover(&product(&[0.5, 1.0]), &[], &Search::default());
    assert_eq!(formulas(&found), ["⟨a, G⟩ − 0.5 ⟨b, G⟩ = 0"]);
    assert!(found.is_complete());
}

/// A parameter that changes no output has no gradient.
#[test]
fn parameters_without_effect_are_constant() {
    let none = ParametricFunction::new(layout(&[&[2]]), |tape, theta, _| {
        theta[0].sum_all() * tape.constant(scalar(0.0))
    });
    let found = discover(&none, &[], &Search::default());
    assert_eq!(formulas(&found), ["G of a[0] = 0", "G of a[1] = 0"]);
    assert!(found.is_complete());
}

/// f = (a, b + a c + ½ a² d). The gradient of the first output is the direction of a. Along it, the gradient of
/// the second has the derivatives (d, 0, 1, a) and (0, 0, 0, 1). So each bracket adds a direction, until no law
/// can be left.
#[test]
fn each_bracket_lowers_the_upper_bound() {
    let shapes: [&[usize]; 4] = [&[1]; 4];
    let function = ParametricFunction::new(layout(&shapes), |_, theta, _| {
        let &[a, b, c, d] = theta else {
            panic!("four numbers")
        };
        Var::concat(&[a, b + a * c + (a * a * d).scale(0.5)], 0)
    });
    for brackets in 0..=3 {
        let search = Search {
            brackets,
            ..Search::default()
        };
        let found = discover(&function, &[], &search);
        let upper = 2_usize.saturating_sub(brackets);
        assert_eq!((found.found, found.upper), (0, Some(upper)), "{brackets}");
    }
}

/// 3-4-2 without activation has ten laws, G Wᵀ − VᵀG = 0, which mix rows and columns.
fn linear() -> ParametricFunction<'static> {
    ParametricFunction::new(layout(&[&[4, 3], &[2, 4]]), |tape, theta, seed| {
        let x = tape.constant(init::normal(&[5, 3], 1.0, &mut init::rng(seed)));
        x.matmul(theta[0].t()).matmul(theta[1].t())
    })
}

/// A softmax does not see a number that is added to a whole row of W: a law per row.
fn normed() -> ParametricFunction<'static> {
    ParametricFunction::new(layout(&[&[3, 2]]), |tape, theta: &[Var<'_, f64>], seed| {
        let x = tape.constant(init::normal(&[5, 3], 1.0, &mut init::rng(seed)));
        x.matmul(theta[0]).softmax(-1)
    })
}

#[test]
fn every_form_finds_what_it_can_express() {
    for (function, counts) in [(linear(), [10, 10, 4]), (normed(), [3, 3, 3])] {
        let most = counts[0];
        for (ansatz, count) in Ansatz::ALL.into_iter().zip(counts) {
            let search = Search {
                ansatz: Some(ansatz),
                ..Search::default()
            };
            let found = discover(&function, &[], &search);
            assert_eq!(
                (found.found, found.upper),
                (count, Some(most)),
                "{ansatz:?}"
            );
            assert_eq!(found.laws.len(), count);
        }
    }
}

/// softmax(x W + a + b). The gradients of a and b are equal, and so are their signs. The gradients of a sum to
/// zero, and so do those of each row of W. The nearest orthogonal matrix keeps the sums of rows; signs do not.
#[test]
fn equal_gradients_have_equal_signs() {
    let shapes: [&[usize]; 3] = [&[3], &[3], &[3, 3]];
    let function = ParametricFunction::new(layout(&shapes), |tape, theta, seed| {
        let x = tape.constant(init::normal(&[5, 3], 1.0, &mut init::rng(seed)));
        (x.matmul(theta[2]) + theta[0] + theta[1]).softmax(-1)
    });
    for (field, count) in [
        (Field::Gradient, 3 + 1 + 3),
        (Field::Sign, 3),
        (Field::Polar, 3 + 3),
    ] {
        let search = Search {
            field,
            ..Search::default()
        };
        let found = discover(&function, &[], &search);
        let upper = (field == Field::Gradient).then_some(count);
        assert_eq!((found.found, found.upper), (count, upper), "{field:?}");
    }
}
