//! Lipschitz bounds of every registered operation, with respect to each of its operands: never below the norm
//! of a Jacobian, and listed in `docs/evidence/lipschitz.md`.

use crate::registry::{Case, Sampler, operations};
use emmy::autodiff::jacobian;
use emmy::lipschitz::{Domain, Lp, Upper, bound};
use emmy::{Tape, Tensor, Var, ndarray};
use std::collections::BTreeMap;

/// The draws of each operation.
const DRAWS: u64 = 12;

/// The bound with respect to operand k, the others fixed; none if it is not finite.
fn upper(case: &Case, k: usize, p: Lp, domain: Domain) -> Option<Upper> {
    let tape = Tape::new();
    let operand = |(m, x): (usize, &Tensor<f64>)| match m == k {
        true => tape.var(x.clone()),
        false => tape.constant(x.clone()),
    };
    let args: Vec<_> = case.args.iter().enumerate().map(operand).collect();
    let y = (case.function.f64)(&args);
    let found = bound(y, args[k], p, domain).ok()?.upper();
    found.is_finite().then_some(found)
}

fn longest_row(x: &Tensor<f64>) -> f64 {
    if x.ndim() == 0 {
        return x.first().map_or(0.0, |x| x.abs());
    }
    let rows = x.lanes(ndarray::Axis(x.ndim() - 1));
    let norms = rows.into_iter().map(|row| row.dot(&row).sqrt());
    norms.fold(0.0, f64::max)
}

/// For each operation, domain and operand: whether each draw has a bound in the 2-norm.
type Answers = BTreeMap<&'static str, [Vec<bool>; 3]>;

fn answers() -> Answers {
    let mut answers = Answers::new();
    for operation in operations() {
        for seed in 0..DRAWS {
            let case = (operation.draw)(&mut Sampler::new(seed));
            let entry = answers.entry(operation.name).or_default();
            for (k, x) in case.args.iter().enumerate() {
                let domains = [
                    Domain::Everywhere,
                    Domain::Rows(longest_row(x) * (1.0 + 1e-9)),
                    Domain::Here,
                ];
                let has = check(operation.name, &case, k, seed, domains);
                for (of_domain, has) in entry.iter_mut().zip(has) {
                    match of_domain.get_mut(k) {
                        Some(all) => *all &= has,
                        None => of_domain.push(has),
                    }
                }
            }
        }
    }
    answers
}

/// Compares the bounds on each domain with the norms of the Jacobian at the drawn point. Returns whether
/// there is a bound for p = 2.
fn check(name: &str, case: &Case, k: usize, seed: u64, domains: [Domain; 3]) -> [bool; 3] {
    let bounds = domains.map(|domain| Lp::ALL.map(|p| upper(case, k, p, domain)));
    if bounds.iter().flatten().any(Option::is_some) {
        let tape = Tape::new();
        let args: Vec<_> = case.args.iter().map(|x| tape.var(x.clone())).collect();
        let y = (case.function.f64)(&args);
        let matrix = jacobian(y, args[k])
            .into_shape_with_order((y.len(), args[k].len()))
            .unwrap();
        if matrix.iter().all(|x| x.is_finite()) {
            for (of_p, p) in Lp::ALL.into_iter().enumerate() {
                let norm = p.matrix(matrix.view()).get();
                for (domain, bounds) in domains.into_iter().zip(bounds) {
                    let bound = bounds[of_p];
                    assert!(
                        bound.is_none_or(|bound| norm <= bound.get() * (1.0 + 1e-9) + 1e-12),
                        "{name}, operand {k}, {domain:?}, p = {p}, seed {seed}: ‖J‖ = {norm}, bound {bound:?}"
                    );
                }
            }
        }
    }
    bounds.map(|bounds| bounds[1].is_some())
}

/// The operands with a bound: their letters, "all", or a dash.
fn listed(has: &[bool]) -> String {
    let letters = ["first", "second", "third", "fourth", "fifth", "sixth"];
    match has {
        _ if has.iter().all(|&has| has) => "yes".into(),
        _ if has.iter().all(|&has| !has) => "–".into(),
        _ => {
            let with = has.iter().zip(letters).filter(|(has, _)| **has);
            with.map(|(_, letter)| letter)
                .collect::<Vec<_>>()
                .join(", ")
        }
    }
}

/// Operations with the same answers share a row.
fn table(answers: &Answers) -> String {
    let mut rows: BTreeMap<[String; 3], Vec<&str>> = BTreeMap::new();
    for (name, has) in answers {
        let row = has.each_ref().map(|has| listed(has));
        rows.entry(row).or_default().push(name);
    }
    let lines = rows.iter().rev().map(|([everywhere, rows, here], names)| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!(
            "| {} | {everywhere} | {rows} | {here} |\n",
            names.join(", ")
        )
    });
    let head =
        "| operation | all inputs | inputs with limited rows | one input |\n|---|---|---|---|\n";
    format!("{head}{}", lines.collect::<String>())
}

/// Every bound of every operation holds, and the chapter lists which there are.
#[test]
fn no_bound_is_too_small_and_the_chapter_lists_them() {
    let table = table(&answers());
    let chapter = include_str!("../../docs/evidence/lipschitz.md");
    assert!(
        chapter.contains(&table),
        "docs/evidence/lipschitz.md does not contain this table:\n{table}"
    );
}

/// X ↦ XXᵀX on rows with ‖xᵢ‖ ≤ r. At n equal rows of this size its derivative in direction X is 3 n r² X.
/// With one column the bound is this number; with more columns it is not below.
#[test]
fn a_product_of_three_is_as_steep_as_its_bound_at_equal_rows() {
    let orders: [for<'t> fn(Var<'t, f64>) -> Var<'t, f64>; 3] = [
        |x| x.matmul(x.t().matmul(x)),
        |x| x.matmul(x.t()).matmul(x),
        |x| x.linear(x).matmul(x),
    ];
    for (n, d) in [(1, 1), (4, 1), (16, 1), (16, 2), (3, 4)] {
        let r = 0.7;
        let tape = Tape::new();
        let x = tape.var(Tensor::from_elem(vec![n, d], r / (d as f64).sqrt()));
        let steepest = 3.0 * n as f64 * r * r;
        for product in orders {
            let y = product(x);
            let found = bound(y, x, Lp::Two, Domain::Rows(r)).unwrap().upper().get();
            assert!(found >= steepest, "{n} × {d}: {found} < {steepest}");
            assert!(
                d > 1 || found < steepest * (1.0 + 1e-9),
                "{n}: {found} > {steepest}"
            );
        }
    }
}
