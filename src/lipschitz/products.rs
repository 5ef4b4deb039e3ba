//! Matrix products: the norm of a map, and a smaller bound if the map follows another map.

use super::attention::{self, Scores};
use super::known::{Domain, Slot};
use super::matrix::Matrix;
use super::rescale::Pair;
use super::rule::{Rule, TreeResult};
use super::tree::{Tree, number, product, root, sum};
use crate::autodiff::{Kind, Map};
use crate::linalg::Lp;
use crate::real::Real;
use std::rc::Rc;

impl<F: Real> Rule<'_, '_, F> {
    /// a b, or a bᵀ: a matrix product, also of batches.
    pub(super) fn matrix_product(&self, transposed: bool) -> TreeResult {
        let (a, b) = (self.arg(0), self.arg(1));
        let (sa, sb) = (self.shape(a), self.shape(b));
        let out = self.shape(self.id);
        let batch = |s: &[usize]| {
            s[..s.len().saturating_sub(2)]
                .iter()
                .product::<usize>()
                .max(1)
        };
        let repeated = |s: &[usize]| self.copies(batch(&out) / batch(s).max(1), self.p());
        match (&self.constants[0], &self.constants[1]) {
            (Some(own), None) => {
                let map = Matrix::from(b);
                let map = if transposed { map } else { map.t() };
                Ok(self.mapped(map, product(vec![repeated(&sa), Rc::clone(own)])))
            }
            (None, Some(own)) => Ok(product(vec![
                Rc::new(Tree::Norm(self.p(), vec![a.into()])),
                repeated(&sb),
                Rc::clone(own),
            ])),
            (Some(own_a), Some(own_b)) => {
                let of = |id: usize, shape: &[usize], transposed: bool| -> TreeResult {
                    let matrix = Matrix {
                        node: id,
                        rows: None,
                        transposed,
                    };
                    if self.known.domain == Domain::Here {
                        return Ok(Rc::new(Tree::Norm(self.p(), vec![matrix])));
                    }
                    let reach = self.known.reach(id);
                    let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
                    let missing =
                        "a product of two matrices that depend on the input and have no limits";
                    match (self.p(), transposed) {
                        (Lp::Two, _) => {
                            let row = reach.row.ok_or(missing)?;
                            Ok(product(vec![root(m), row]))
                        }
                        (Lp::Inf, false) | (Lp::One, true) => {
                            let entry = reach.entry.ok_or(missing)?;
                            Ok(product(vec![number(n as f64), entry]))
                        }
                        (Lp::Inf, true) | (Lp::One, false) => {
                            let entry = reach.entry.ok_or(missing)?;
                            Ok(product(vec![number(m as f64), entry]))
                        }
                    }
                };
                let first = product(vec![
                    of(b, &sb, !transposed)?,
                    repeated(&sa),
                    Rc::clone(own_a),
                ]);
                let second = product(vec![of(a, &sa, false)?, repeated(&sb), Rc::clone(own_b)]);
                Ok(sum(vec![first, second]))
            }
            (None, None) => Err("both operands are fixed".into()),
        }
    }

    /// The constant of rows after they are mapped by a matrix, from their constant before.
    fn mapped(&self, map: Matrix, own: Rc<Tree>) -> Rc<Tree> {
        let norm = Tree::Norm(self.p(), vec![map.clone()]);
        let plain = product(vec![Rc::new(norm), own]);
        let tight = self.tightened(map.clone());
        match tight.or_else(|| self.behind_attention(map)) {
            Some(tight) => Rc::new(Tree::Min(vec![plain, tight])),
            None => plain,
        }
    }

    /// The bound of the heads of attention behind W_O, if the first operand of this product is that: one head
    /// beside the other.
    fn behind_attention(&self, w_o: Matrix) -> Option<Rc<Tree>> {
        let tape = self.known.tape;
        let side_by_side = self.arg(0);
        let node = tape.node(side_by_side);
        let id = *node.args.first()?;
        let kind = &tape.node(id).kind;
        let (
            Kind::Linear(Map::Reshape),
            Kind::Attention {
                options,
                beta: false,
                t: false,
            },
        ) = (&node.kind, kind)
        else {
            return None;
        };
        let [width, all] = [side_by_side, id].map(|id| tape.node(id).shape.to_vec());
        let [.., heads, d] = all[..] else { return None };
        let single = tape.node(w_o.node).shape.len() == 2;
        if !single || width.last() != Some(&(heads * d)) {
            return None;
        }
        let rule = Rule {
            known: self.known,
            id,
            constants: Vec::new(),
        };
        let scores = Scores {
            options,
            beta: None,
            t: None,
        };
        attention::behind(&rule, &scores, w_o)
    }

    /// The bound of W₂ σ(W₁ u) with respect to u, times the constant of u, if the first operand of this
    /// product is such an activation; likewise of a product of two linear maps.
    fn tightened(&self, w2: Matrix) -> Option<Rc<Tree>> {
        if self.known.tape.node(w2.node).shape.len() != 2 {
            return None;
        }
        let (z, slopes) = self.activation(self.arg(0));
        let (u, w1) = self.affine(z)?;
        let Slot::Moves(own) = self.known.slot(u) else {
            return None;
        };
        let tree = match slopes {
            Some(slopes) => Tree::Pair(Pair {
                p: self.p(),
                first: w1,
                second: w2,
                slopes,
            }),
            None => Tree::Norm(self.p(), vec![w2, w1]),
        };
        Some(product(vec![Rc::new(tree), own]))
    }

    /// The argument of the activation that computed this node, and its slopes; the node itself if there is
    /// none. Dropout is not looked through.
    fn activation(&self, mut id: usize) -> (usize, Option<[f64; 2]>) {
        let tape = self.known.tape;
        while matches!(tape.node(id).kind, Kind::Alias) {
            id = tape.node(id).args[0];
        }
        let node = tape.node(id);
        match &node.kind {
            Kind::Entrywise(function) if function.steepest().is_finite() => {
                (node.args[0], Some(function.slopes))
            }
            _ => (id, None),
        }
    }

    /// u and W, if this node is u Wᵀ + b with fixed W and b.
    fn affine(&self, mut id: usize) -> Option<(usize, Matrix)> {
        let tape = self.known.tape;
        loop {
            let node = tape.node(id);
            match node.kind {
                Kind::Add
                    if !self.known.moves(node.args[1])
                        && self.size_of(id) == self.size_of(node.args[0]) =>
                {
                    id = node.args[0];
                }
                Kind::MatMul { transposed }
                    if self.known.moves(node.args[0]) && !self.known.moves(node.args[1]) =>
                {
                    let (u, w) = (node.args[0], Matrix::from(node.args[1]));
                    let single = tape.node(w.node).shape.len() == 2;
                    let map = if transposed { w } else { w.t() };
                    return single.then_some((u, map));
                }
                _ => return None,
            }
        }
    }

    fn size_of(&self, id: usize) -> usize {
        self.known.tape.handle(id).len()
    }
}
