//! The table of rules: how the bound of an operation follows from the bounds of its operands.
//!
//! An operation that is not in the table has no bound, so that a result is never too small.

use super::attention;
use super::bound::Tree;
use super::slopes::{slopes, slopes_at};
use super::softmax::softmax_norm;
use super::sparse;
use super::walk::{Domain, Slot, Walk, product};
use crate::linalg::{Lp, Upper};
use crate::ops::activation::Slopes;
use crate::ops::elementwise::Limits;
use crate::ops::index::Indices;
use crate::ops::layer_norm::GainAndBias;
use crate::real::Real;
use std::rc::Rc;

/// Whether the table has a rule for a fused operation; for others the rules are applied to their
/// compositions.
pub(super) fn knows<F: Real>(walk: &Walk<'_, F>, id: usize) -> bool {
    let node = walk.tape.node(id);
    !node.custom && matches!(node.op, "layer_norm" | "rms_norm" | "attend")
}

/// The constant of node `id`, from the constants of its arguments, at least one of which depends on the
/// input.
pub(super) fn derive<F: Real>(walk: &Walk<'_, F>, id: usize, slots: &[Slot]) -> Slot {
    let composed = compose(walk, id, slots);
    // An activation that is composed of operations: its largest slope everywhere, or at a point the bound
    // from its parts.
    let note = walk.tape.note::<Slopes>(id);
    let slope = note.and_then(|note| match walk.slot(note.of) {
        Slot::Moves(of) => {
            let [low, high] = note.slopes;
            Some(product(vec![number(low.abs().max(high)), of]))
        }
        _ => None,
    });
    match (slope, composed) {
        (Some(slope), Slot::Moves(parts)) => Slot::Moves(Rc::new(Tree::Min(vec![slope, parts]))),
        (Some(slope), _) => Slot::Moves(slope),
        (None, composed) => composed,
    }
}

fn compose<F: Real>(walk: &Walk<'_, F>, id: usize, slots: &[Slot]) -> Slot {
    if let Some(unbounded) = slots.iter().find(|s| matches!(s, Slot::Unbounded { .. })) {
        return unbounded.clone();
    }
    let constants: Vec<Option<Rc<Tree>>> = slots
        .iter()
        .map(|slot| match slot {
            Slot::Moves(tree) => Some(Rc::clone(tree)),
            _ => None,
        })
        .collect();
    let rule = Rule {
        walk,
        id,
        constants,
    };
    match rule.apply() {
        Ok(tree) => Slot::Moves(tree),
        Err(reason) => Slot::Unbounded { node: id, reason },
    }
}

pub(super) fn number(x: f64) -> Rc<Tree> {
    Rc::new(Tree::Number(Upper::new(x)))
}

pub(super) fn root(x: usize) -> Rc<Tree> {
    Rc::new(Tree::Number(Upper::new(x as f64).sqrt()))
}

/// One operation whose operands are bounded or fixed.
pub(super) struct Rule<'w, 't, F: Real> {
    pub walk: &'w Walk<'t, F>,
    pub id: usize,
    /// The constants of the operands; `None` for fixed ones.
    pub constants: Vec<Option<Rc<Tree>>>,
}

pub(super) type Outcome = Result<Rc<Tree>, String>;

impl<F: Real> Rule<'_, '_, F> {
    pub fn arg(&self, k: usize) -> usize {
        self.walk.tape.node(self.id).args[k]
    }

    pub fn shape(&self, id: usize) -> Vec<usize> {
        self.walk.tape.node(id).value.shape().to_vec()
    }

    pub fn p(&self) -> Lp {
        self.walk.p
    }

    /// The constant of the first operand, times a factor.
    fn times(&self, factor: Rc<Tree>) -> Outcome {
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
    fn repeated(&self, k: usize) -> Rc<Tree> {
        let (from, to) = (self.shape(self.arg(k)), self.shape(self.id));
        let count = |s: &[usize]| s.iter().product::<usize>().max(1);
        self.copies(count(&to) / count(&from), self.p())
    }

    fn apply(&self) -> Outcome {
        let node = self.walk.tape.node(self.id);
        let c = node.constant;
        match node.op {
            "alias" | "neg" | "reshape" | "permute" | "slice" | "pad" | "abs" | "add_scalar"
            | "max" | "min" | "rotate_planes" | "segment_max" => self.times(number(1.0)),
            "scale" => self.times(number(c.abs())),
            "dropout" => self.times(number(c)),
            "add" | "sub" => self.joined(true),
            "maximum" | "minimum" | "where_" | "concat" => self.joined(false),
            "mul" => self.entrywise_product(),
            "div" => self.quotient(),
            "sum" | "sum_to" => {
                let (from, to) = (self.shape(self.arg(0)), self.shape(self.id));
                let count = |s: &[usize]| s.iter().product::<usize>().max(1);
                self.times(self.copies(count(&from) / count(&to), self.p().dual()))
            }
            "broadcast_to" => self.times(self.repeated(0)),
            "index_select" => self.times(self.copies(self.chosen()?, self.p())),
            "index_add" => self.times(self.copies(self.chosen()?, self.p().dual())),
            "matmul" => self.matrix_product(),
            "linear" => self.linear(),
            "softmax" if self.walk.domain == Domain::Here => {
                let y = node.value.mapv(Real::as_f64);
                let last = ndarray::Axis(y.ndim() - 1);
                let norms = y.lanes(last).into_iter().map(|p| {
                    let p: Vec<f64> = p.iter().copied().collect();
                    softmax_norm(&p, self.p())
                });
                let worst = norms.fold(0.0, |m: f64, n| if n > m || n.is_nan() { n } else { m });
                match worst.is_nan() {
                    true => Err("a softmax that is not a number".into()),
                    false => self.times(Rc::new(Tree::Here(Upper::rounded(worst, 1e-12)))),
                }
            }
            "softmax" | "segment_softmax" => self.times(number(0.5)),
            "log_softmax" => {
                // I − 1 pᵀ, whose norm is convex in p: the worst p is a corner of the simplex.
                let n = self.shape(self.id).last().copied().unwrap_or(1);
                self.times(match self.p() {
                    Lp::One => number((n.max(2) - 1) as f64),
                    Lp::Two => root(n),
                    Lp::Inf => number(2.0),
                })
            }
            "logsumexp" => self.times(number(1.0)),
            "layer_norm" | "rms_norm" => self.row_norm(c),
            "attend" => attention::bound(self),
            "gather_rows"
            | "gather_columns"
            | "segment_sum"
            | "segment_sum_columns"
            | "spmm"
            | "spmm_t"
            | "sddmm" => sparse::bound(self),
            op => match slopes(op, c) {
                Some(range) if self.walk.domain != Domain::Here => {
                    self.times(number(range[0].abs().max(range[1])))
                }
                _ => self.slope(op, c),
            },
        }
    }

    /// a + b, or one of the two entry by entry, or both side by side.
    fn joined(&self, sum: bool) -> Outcome {
        let concat = self.walk.tape.node(self.id).op == "concat";
        let parts = self.constants.iter().enumerate().filter_map(|(k, own)| {
            let own = own.clone()?;
            let repeated = if concat {
                number(1.0)
            } else {
                self.repeated(k)
            };
            Some(product(vec![repeated, own]))
        });
        let parts: Vec<_> = parts.collect();
        if let [only] = &parts[..] {
            return Ok(Rc::clone(only));
        }
        let tree = match (sum, self.p()) {
            (true, _) => Tree::Sum(parts),
            // Entries of a maximum move by no more than one of the two.
            (false, Lp::Inf) => Tree::Max(parts),
            (false, Lp::Two) if concat && self.same(&parts) => {
                return Ok(product(vec![root(parts.len()), Rc::clone(&parts[0])]));
            }
            (false, Lp::Two) => Tree::Hypot(parts),
            (false, Lp::One) => Tree::Sum(parts),
        };
        Ok(Rc::new(tree))
    }

    fn same(&self, parts: &[Rc<Tree>]) -> bool {
        parts.iter().all(|part| Rc::ptr_eq(part, &parts[0]))
    }

    /// How often the most frequent index occurs.
    fn chosen(&self) -> Result<usize, String> {
        let note = self.walk.tape.note::<Indices>(self.id);
        let note = note.ok_or("its indices are not known")?;
        let mut counts = std::collections::HashMap::new();
        for &index in note.0.iter() {
            *counts.entry(index).or_insert(0usize) += 1;
        }
        Ok(counts.into_values().max().unwrap_or(0))
    }

    /// a ⊙ b: the constant of each, times the reach of the other.
    fn entrywise_product(&self) -> Outcome {
        let mut parts = Vec::new();
        for (k, own) in self.constants.iter().enumerate() {
            let Some(own) = own else { continue };
            let other = self.arg(1 - k);
            let limit = match self.walk.moves(other) {
                false => Rc::new(Tree::MaxAbs(other)),
                true => (self.walk.reach(other).entry).ok_or(
                    "a product of two operands that depend on the input and have no limits",
                )?,
            };
            parts.push(product(vec![limit, self.repeated(k), Rc::clone(own)]));
        }
        Ok(sum(parts))
    }

    /// a / b.
    fn quotient(&self) -> Outcome {
        let (a, b) = (self.arg(0), self.arg(1));
        let recip = || Rc::new(Tree::Recip(b));
        match (&self.constants[0], &self.constants[1]) {
            (Some(own), None) => Ok(product(vec![recip(), self.repeated(0), Rc::clone(own)])),
            (own_a, Some(own_b)) if self.walk.domain == Domain::Here => {
                let mut parts = vec![product(vec![
                    Rc::new(Tree::MaxAbs(a)),
                    recip(),
                    recip(),
                    self.repeated(1),
                    Rc::clone(own_b),
                ])];
                if let Some(own) = own_a {
                    parts.push(product(vec![recip(), self.repeated(0), Rc::clone(own)]));
                }
                Ok(sum(parts))
            }
            _ => Err("a division by something that depends on the input".into()),
        }
    }

    /// LayerNorm and RMSNorm: their Jacobian is diag(γ) (a projection) / √(var + ε), or in place of the
    /// projection a matrix between 0 and one.
    fn row_norm(&self, eps: f64) -> Outcome {
        let node = self.walk.tape.node(self.id);
        if node.args[1..].iter().any(|&a| self.walk.moves(a)) {
            return Err("its gain depends on the input".into());
        }
        let shape = node.value.shape().to_vec();
        let d = shape.last().copied().unwrap_or(1);
        let least = match self.walk.domain {
            Domain::Here => {
                let x = self.walk.tape.node(node.args[0]).value.mapv(Real::as_f64);
                let centred = node.op == "layer_norm";
                let moments = x
                    .lanes(ndarray::Axis(shape.len() - 1))
                    .into_iter()
                    .map(|row| {
                        let mean = if centred { row.sum() / d as f64 } else { 0.0 };
                        row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / d as f64
                    });
                // Rounding: the computed variance is a sum of squares, up to the error of the mean.
                let least = moments.fold(f64::MAX, |m, x| if x.is_nan() { 0.0 } else { m.min(x) });
                least * (1.0 - 1e-9)
            }
            _ => 0.0,
        };
        let inner = least + eps;
        if inner <= 0.0 {
            return Err(match self.walk.domain {
                Domain::Here => "its input has a row without variance, and ε is 0".into(),
                _ => "ε is 0, and an input may have any variance".into(),
            });
        }
        let scale = Upper::rounded(1.0 / inner.sqrt(), 8.0 * f64::EPSILON);
        // Rows do not interact; within a row ‖·‖_p ≤ √d ‖·‖₂ for p = 1, and likewise for ∞.
        let spread = match self.p() {
            Lp::Two => Upper::ONE,
            _ => Upper::new(d as f64).sqrt(),
        };
        let parts = self.walk.tape.note::<GainAndBias>(self.id);
        let gain = parts.and_then(|p| p.gain);
        let gain = gain.map(|g| Rc::new(Tree::MaxAbs(g)));
        let scale = Rc::new(match self.walk.domain {
            Domain::Here => Tree::Here(scale * spread),
            _ => Tree::Number(scale * spread),
        });
        self.times(product([Some(scale), gain].into_iter().flatten().collect()))
    }

    /// The largest slope of a function of one number, over the entries at the recorded input; or over the
    /// limits of its argument.
    fn slope(&self, op: &str, c: f64) -> Outcome {
        let x = self.arg(0);
        if self.walk.domain == Domain::Here && self.constants.len() == 1 {
            let value = self.walk.tape.node(x).value.mapv(Real::as_f64);
            let limits = self
                .walk
                .tape
                .note::<Limits>(self.id)
                .map(|limits| limits.0);
            if let Some(slopes) = slopes_at(op, c, limits) {
                let largest = value.iter().flat_map(|&x| slopes(x)).map(f64::abs);
                let largest =
                    largest.fold(0.0, |m: f64, s| if s > m || s.is_nan() { s } else { m });
                if !largest.is_nan() {
                    return self.times(Rc::new(Tree::Here(Upper::new(largest))));
                }
            }
        }
        if op == "powf" && c == 2.0 {
            let reach = self.walk.reach(x).entry;
            let reach = reach.ok_or("a square, whose slope grows with its argument")?;
            return self.times(product(vec![number(2.0), reach]));
        }
        if op == "powf" && c == 1.0 {
            return self.times(number(1.0));
        }
        Err("no bound of its slope is known".into())
    }
}

pub(super) fn sum(mut parts: Vec<Rc<Tree>>) -> Rc<Tree> {
    match parts.len() {
        1 => parts.swap_remove(0),
        _ => Rc::new(Tree::Sum(parts)),
    }
}
