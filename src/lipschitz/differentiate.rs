//! A bound as a variable.

use super::matrix::{norm, product};
use super::tree::Tree;
use crate::autodiff::{Tape, Var};
use crate::error::{Error, Result};
use crate::real::Real;
use crate::tensor::scalar;
use std::collections::HashMap;
use std::rc::Rc;

pub(super) fn var<'t, F: Real>(tape: &'t Tape<F>, tree: &Rc<Tree>) -> Result<Var<'t, F>> {
    let mut writer = Writer {
        tape,
        known: HashMap::new(),
    };
    writer.write(tree)
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
            Tree::Number(x) => self.tape.constant(scalar(F::of(x.get()))),
            Tree::Here(_) | Tree::Rows(_) | Tree::Near(..) | Tree::NearNorm { .. } => {
                return Err(at_one_input());
            }
            Tree::Whole(_, Some(_)) => return Err(at_one_input()),
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
            Tree::Shares(shares, range) => shares.var(self.tape, self.write(range)?),
            Tree::Heads(maps) => maps.var(self.tape),
            // Where the search finds nothing, another bound is the smallest.
            Tree::Whole(network, None) => (network.var(self.tape))
                .unwrap_or_else(|| self.tape.constant(scalar(F::infinity()))),
            Tree::Recip(_, Some(_)) => return Err(at_one_input()),
            Tree::Recip(node, None) => self.tape.handle(*node).abs().min_all().powf(-F::one()),
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

fn at_one_input() -> Error {
    Error::invalid(
        "the bound as a variable",
        "a bound that does not depend on the recorded input",
        "a bound at one input, or on a ball around it, which is a number only",
    )
}
