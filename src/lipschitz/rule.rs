//! One operation whose bound is asked for: what the rules of all kinds of operations need.

use super::known::Known;
use super::tree::{Tree, number, product, root};
use crate::linalg::Lp;
use crate::real::Real;
use std::rc::Rc;

/// One operation whose operands are bounded or fixed.
pub(super) struct Rule<'w, 't, F: Real> {
    pub known: &'w Known<'t, F>,
    pub id: usize,
    /// The constants of the operands; `None` for fixed ones.
    pub constants: Vec<Option<Rc<Tree>>>,
}

pub(super) type TreeResult = Result<Rc<Tree>, String>;

impl<F: Real> Rule<'_, '_, F> {
    pub fn arg(&self, k: usize) -> usize {
        self.known.tape.node(self.id).args[k]
    }

    pub fn shape(&self, id: usize) -> Vec<usize> {
        self.known.tape.node(id).shape.to_vec()
    }

    pub fn p(&self) -> Lp {
        self.known.p
    }

    /// The constant of the first operand, times a factor.
    pub fn times(&self, factor: Rc<Tree>) -> TreeResult {
        let own = self.constants[0]
            .clone()
            .ok_or("its first operand is fixed")?;
        Ok(product(vec![factor, own]))
    }

    /// The norm of a linear map that copies each input to at most `copies` places, or adds at most `copies`
    /// inputs in each place: `copies`, √`copies` or 1.
    pub fn copies(&self, count: usize, p: Lp) -> Rc<Tree> {
        match p {
            Lp::One => number(count as f64),
            Lp::Two => root(count),
            Lp::Inf => number(1.0),
        }
    }

    /// The factor of broadcasting operand k to the shape of the output.
    pub fn repeated(&self, k: usize) -> Rc<Tree> {
        let (from, to) = (self.shape(self.arg(k)), self.shape(self.id));
        let count = |s: &[usize]| s.iter().product::<usize>().max(1);
        self.copies(count(&to) / count(&from), self.p())
    }
}
