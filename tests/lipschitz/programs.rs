//! No bound is exceeded, whatever operations follow each other.
//!
//! A program is drawn from a seed: up to five operations of the library. Each operand is the input, an earlier
//! value, a linear map of one, a variable or a constant; its shape is drawn too, and its numbers may be zero,
//! equal, small or large. The bounds are compared with the norms of Jacobians at inputs of each domain, and at
//! inputs to which random steps lead from the worst of these. Other tests draw what a user would write; seven
//! bounds that were too small were found in passes that nobody would.

#[path = "../programs/mod.rs"]
mod drawn;

use crate::support::cases;
use drawn::{Draw, Program};
use emmy::autodiff::jacobian;
use emmy::lipschitz::{Domain, Lp, bound};
use emmy::{Tape, Tensor, ndarray};
use ndarray::{Array2, Axis};

/// Steps of the ascent from the worst input, where this has at least a fifth of the bound.
const CLIMB: usize = 16;
const NEAR: f64 = 0.2;

fn length(x: &Tensor<f64>) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn longest_row(x: &Tensor<f64>) -> f64 {
    let rows = x.lanes(Axis(x.ndim() - 1)).into_iter();
    rows.map(|row| row.dot(&row).sqrt()).fold(0.0, f64::max)
}

/// The inputs of a domain.
struct Inputs {
    domain: Domain,
    centre: Tensor<f64>,
}

impl Inputs {
    /// The input itself, or moved into the domain.
    fn within(&self, x: &Tensor<f64>) -> Tensor<f64> {
        // Not on the border, where rounding may lead outside.
        let factor = |radius: f64, length: f64| (radius * (1.0 - 1e-12) / length).min(1.0);
        match self.domain {
            Domain::Everywhere => x.clone(),
            Domain::Rows(radius) => {
                let factor = factor(radius, longest_row(x));
                x.mapv(|x| x * factor).into_shared()
            }
            Domain::Ball(radius) => {
                let away = (x - &self.centre).into_shared();
                let factor = factor(radius, length(&away));
                (&self.centre + &away.mapv(|x| x * factor)).into_shared()
            }
            Domain::Here => self.centre.clone(),
        }
    }

    fn drawn(&self, d: &mut Draw) -> Vec<Tensor<f64>> {
        if self.domain == Domain::Here {
            return vec![self.centre.clone()];
        }
        let sizes = [1e-3, 0.1, 1.0, 10.0, 100.0, 100.0];
        let drawn = sizes.iter().map(|size| {
            let x = d.numbers(self.centre.shape());
            self.within(&x.mapv(|x| x * size).into_shared())
        });
        std::iter::once(self.within(&self.centre))
            .chain(drawn)
            .collect()
    }
}

/// The Jacobian, if it is finite.
fn matrix(program: Program, x: &Tensor<f64>) -> Option<Array2<f64>> {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    let y = program.run(x).0;
    let matrix = jacobian(y, x).into_shape_with_order((y.len(), x.len()));
    let matrix = matrix.expect("an entry per pair").into_owned();
    matrix.iter().all(|x| x.is_finite()).then_some(matrix)
}

/// The largest norm that is found, from the worst of some inputs on by random steps.
fn climbed(program: Program, inputs: &Inputs, p: Lp, proven: f64, d: &mut Draw) -> f64 {
    let norm = |x: &Tensor<f64>| matrix(program, x).map_or(0.0, |j| p.matrix(j.view()).get());
    let drawn = inputs.drawn(d).into_iter().map(|x| (norm(&x), x));
    let mut best = drawn.max_by(|a, b| a.0.total_cmp(&b.0)).expect("an input");
    let mut size = 0.5;
    let is_far = inputs.domain == Domain::Here || best.0 < NEAR * proven;
    let steps = if is_far { 0 } else { CLIMB };
    for _ in 0..steps {
        let step = d.numbers(best.1.shape()).mapv(|x| x * size);
        let next = inputs.within(&(&best.1 + &step).into_shared());
        match norm(&next) {
            found if found > best.0 => best = (found, next),
            _ => size *= 0.8,
        }
    }
    best.0
}

/// How many bounds there were, and how many that a Jacobian reached to a half.
#[derive(Default)]
struct Count {
    bounds: usize,
    reached: usize,
}

fn check(program: Program, count: &mut Count) {
    let d = &mut Draw::new(program.seed.rotate_left(32));
    let centre = d.numbers(&program.shape());
    let radius = [0.1, 0.5, 1.0, 3.0][d.count(0, 3)];
    let tape = Tape::new();
    let x = tape.var(centre.clone());
    let (y, done) = program.run(x);
    for domain in [
        Domain::Everywhere,
        Domain::Rows(radius),
        Domain::Ball(radius),
        Domain::Here,
    ] {
        let inputs = Inputs {
            domain,
            centre: centre.clone(),
        };
        for p in Lp::ALL {
            let Ok(proven) = bound(y, x, p, domain) else {
                continue;
            };
            let proven = proven.upper().get();
            if !proven.is_finite() {
                continue;
            }
            let found = climbed(program, &inputs, p, proven, d);
            count.bounds += 1;
            count.reached += usize::from(2.0 * found >= proven);
            // Jacobians are computed without bounds of their rounding errors.
            assert!(
                found <= proven * (1.0 + 1e-7) + 1e-12,
                "seed {}, {domain:?}, p = {p}: found {found}, proven {proven}\nx {:?}\n{}",
                program.seed,
                program.shape(),
                done.join("\n")
            );
        }
    }
}

#[test]
fn no_bound_is_exceeded() {
    let mut count = Count::default();
    for seed in cases(800) {
        let steps = 1 + seed as usize % 5;
        check(Program { seed, steps }, &mut count);
    }
    // Most programs have bounds, and most bounds are near: such a test can fail.
    let drawn = cases(800).count();
    assert!(count.bounds > 6 * drawn, "{} of {drawn}", count.bounds);
    assert!(
        3 * count.reached > count.bounds,
        "{} of {}",
        count.reached,
        count.bounds
    );
}
