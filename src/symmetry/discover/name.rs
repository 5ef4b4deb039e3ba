//! Generators without rounding errors, and the laws that are not declared.

use super::{FoundLaw, Generator, Layout};
use crate::linalg::Span;
use std::collections::BTreeMap;

/// The generator without rounding errors: entries near zero are dropped, and if all others are multiples of
/// 1/12 of the first one up to rounding, they are set to exactly these multiples. The first entry is made
/// positive. `None` if the generator is zero.
pub(super) fn neat(generator: &Generator) -> Option<Generator> {
    if generator.largest() < 1e-9 {
        return None;
    }
    let cleaned = generator.cleaned(1e-9);
    let matrix = cleaned.matrix().iter().map(|&(.., w)| w);
    let first = matrix
        .chain(cleaned.vector().iter().map(|&(_, w)| w))
        .next()?;
    let snap = |w: f64| (12.0 * w).round() / 12.0;
    let scaled = cleaned.map(|w| w / first);
    let near = |w: f64| (w - snap(w)).abs() < 1e-8 * w.abs();
    let all = (scaled.matrix().iter().map(|e| e.2)).chain(scaled.vector().iter().map(|e| e.1));
    let exact = all.into_iter().all(near);
    Some(if exact { scaled.map(snap) } else { scaled })
}

/// Of the named laws, then of the laws found: those that are independent, at θ, of the ones before them.
/// Each found law is written as shortly as possible; a shorter one is taken only if it `holds`.
pub(super) fn independent(
    found: &[Generator],
    named: &[(String, Generator)],
    layout: &Layout,
    theta: &[f64],
    holds: impl Fn(&Generator) -> bool,
) -> Vec<FoundLaw> {
    let count = found.len();
    let mut known = Span::default();
    let mut out: Vec<FoundLaw> = Vec::new();
    for (name, generator) in named {
        if known.add(&super::direction(generator, theta, count), 0.0) {
            out.push(FoundLaw {
                declared: Some(name.clone()),
                generator: generator.clone(),
                formula: generator.formula(layout),
            });
        }
    }
    let mut others: Vec<&Generator> = found.iter().collect();
    let first = |g: &Generator| {
        let matrix = g.matrix().first().map(|e| e.0);
        matrix
            .into_iter()
            .chain(g.vector().first().map(|e| e.0))
            .min()
    };
    // G = 0 says more than ⟨θ, G⟩ = 0.
    others.sort_by_key(|g| (g.entries(), !g.matrix().is_empty(), first(g)));
    for generator in others {
        if known.add(&super::direction(generator, theta, count), 0.0) {
            let before = out.iter().map(|f| &f.generator).collect();
            // What is left of a difference may be rounding that was made large.
            let simple = simplified(generator, before, layout);
            let generator = match holds(&simple) {
                true => simple,
                false => generator.clone(),
            };
            let formula = generator.formula(layout);
            out.push(FoundLaw {
                declared: None,
                generator,
                formula,
            });
        }
    }
    out
}

/// The generator minus multiples of others, as long as this shortens its formula.
fn simplified(generator: &Generator, others: Vec<&Generator>, layout: &Layout) -> Generator {
    let mut best = generator.clone();
    let mut shortest = best.length(layout);
    loop {
        let before = shortest;
        for &other in &others {
            // A sum may be shorter too: all rows of a weight are the weight.
            for share in ratios(&best, other).into_iter().chain([1.0, -1.0]) {
                let less = Generator::combination([(1.0, &best), (-share, other)]);
                if let Some(less) = neat(&less).filter(|less| less.length(layout) < shortest) {
                    shortest = less.length(layout);
                    best = less;
                }
            }
        }
        if shortest == before {
            return best;
        }
    }
}

/// The multiples of `b` that would cancel an entry of `a`, each once.
fn ratios(a: &Generator, b: &Generator) -> Vec<f64> {
    let matrix: BTreeMap<_, _> = b.matrix().iter().map(|&(i, j, w)| ((i, j), w)).collect();
    let vector: BTreeMap<_, _> = b.vector().iter().copied().collect();
    let of_matrix = (a.matrix().iter()).filter_map(|&(i, j, w)| Some(w / matrix.get(&(i, j))?));
    let of_vector = (a.vector().iter()).filter_map(|&(i, w)| Some(w / vector.get(&i)?));
    let mut all: Vec<f64> = of_matrix.chain(of_vector).collect();
    all.sort_by(f64::total_cmp);
    all.dedup_by(|x, y| (*x - *y).abs() < 1e-9 * y.abs());
    all
}
