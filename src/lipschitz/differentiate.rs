//! A bound as a variable.

use super::bound::{Bound, Matrix, Tree};
use crate::autodiff::{Tape, Var};
use crate::error::{Error, Result};
use crate::linalg::Lp;
use crate::real::Real;
use std::collections::HashMap;
use std::rc::Rc;

/// Squarings of the Gram matrix: the norm is overestimated by a factor of at most n^(2^−12), 1.003 for n =
/// 100 000, and by much less if the singular values differ.
const SQUARINGS: u32 = 10;

pub(super) fn var<'t, F: Real>(bound: &Bound<'t, F>) -> Result<Var<'t, F>> {
    let mut writer = Writer {
        tape: bound.tape,
        known: HashMap::new(),
    };
    writer.write(&bound.tree)
}

struct Writer<'t, F: Real> {
    tape: &'t Tape<F>,
    known: HashMap<*const Tree, Var<'t, F>>,
}

impl<'t, F: Real> Writer<'t, F> {
    fn write(&mut self, tree: &Rc<Tree>) -> Result<Var<'t, F>> {
        if let Some(&known) = self.known.get(&Rc::as_ptr(tree)) {
            return Ok(known);
        }
        let value = match &**tree {
            Tree::Number(x) => self.tape.constant(crate::tensor::scalar(F::of(x.get()))),
            Tree::Here(_) | Tree::Rows(_) => {
                return Err(Error::invalid(
                    "the bound as a variable",
                    "a bound that holds on a set of inputs",
                    "a bound at one input, which is a number only",
                ));
            }
            Tree::Norm(p, factors) => norm(*p, product(self.tape, factors)),
            Tree::MaxAbs(node) => self.tape.handle(*node).abs().max_all(),
            Tree::MaxRow(node) => self.tape.handle(*node).norm(&[-1], false).max_all(),
            Tree::Sum(parts) => self.fold(parts, |a, b| a + b)?,
            Tree::Product(parts) => self.fold(parts, |a, b| a * b)?,
            Tree::Max(parts) => self.fold(parts, Var::maximum)?,
            Tree::Min(parts) => self.fold(parts, Var::minimum)?,
            Tree::Hypot(parts) => {
                let parts: Result<Vec<_>> = parts.iter().map(|t| self.write(t)).collect();
                Var::stack(&parts?, 0).norm(&[], false)
            }
            Tree::Steepest(function, ..) => {
                return Err(Error::invalid(
                    "the bound as a variable",
                    "functions whose largest slope is a formula",
                    format!("the largest slope of `{}` on an interval", function.name),
                ));
            }
            Tree::Sqrt(part) => self.write(part)?.sqrt(),
            Tree::Pair(pair) => pair.var(self.tape),
            Tree::Recip(node) => self.tape.handle(*node).abs().min_all().powf(-F::one()),
        };
        self.known.insert(Rc::as_ptr(tree), value);
        Ok(value)
    }

    fn fold(
        &mut self,
        parts: &[Rc<Tree>],
        join: impl Fn(Var<'t, F>, Var<'t, F>) -> Var<'t, F>,
    ) -> Result<Var<'t, F>> {
        let mut values = Vec::with_capacity(parts.len());
        for part in parts {
            values.push(self.write(part)?);
        }
        Ok(values.into_iter().reduce(join).expect("at least one part"))
    }
}

pub(super) fn product<'t, F: Real>(tape: &'t Tape<F>, factors: &[Matrix]) -> Var<'t, F> {
    let factors = factors.iter().map(|m| m.var(tape));
    factors.reduce(Var::matmul).expect("at least one factor")
}

/// ‖A‖_p, the largest of a batch.
pub(super) fn norm<F: Real>(p: Lp, a: Var<'_, F>) -> Var<'_, F> {
    match p {
        Lp::One => a.abs().sum(&[-2], false).max_all(),
        Lp::Inf => a.abs().sum(&[-1], false).max_all(),
        Lp::Two => spectral(a),
    }
}

/// σ_max by Gram iteration: with G₀ = AᵀA and G_{k+1} = (G_k/‖G_k‖_F)², ln σ_max² ≈ Σ 2⁻ᵏ ln ‖G_k‖_F.
fn spectral<F: Real>(a: Var<'_, F>) -> Var<'_, F> {
    let shape = a.shape();
    let n = shape.len();
    let mut g = match shape[n - 2] < shape[n - 1] {
        true => a.matmul(a.t()),
        false => a.t().matmul(a),
    };
    let size = |g: Var<'_, F>| g.value().iter().all(|x| *x == F::zero());
    if size(g) {
        // The derivative of a norm at 0 is 0.
        return g.sum_all();
    }
    let mut log = None;
    for k in 0..=SQUARINGS {
        let norm = g.norm(&[-2, -1], true);
        let term = norm.ln().scale(F::of(0.5f64.powi(k as i32)));
        log = Some(log.map_or(term, |log: Var<'_, F>| log + term));
        if k < SQUARINGS {
            let unit = g / norm;
            g = unit.matmul(unit);
        }
    }
    log.expect("a term").scale(F::of(0.5)).exp().max_all()
}
