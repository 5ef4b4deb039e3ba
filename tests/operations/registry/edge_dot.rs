//! Dot-product attention over edges, by loops from the formulas.

use super::reference::build;
use super::{Case, Operation, Sampler, function};
use emmy::kernels::random::DropMask;
use emmy::ops::attention::EdgeAttention;
use emmy::sparse::Pattern;
use emmy::tensor::Tensor;
use std::rc::Rc;

/// The quantities drawn for every case: a pattern, heads, width, dropout, terms of edges or none.
struct Setting {
    edges: EdgeAttention,
    heads: usize,
    width: usize,
    terms: bool,
}

fn setting(d: &mut Sampler, terms: bool) -> Setting {
    let (n, m) = (d.one_of(&[0, 1, 2, 3, 4]), d.one_of(&[1, 2, 3, 4]));
    let mut pairs: Vec<(usize, usize)> = (0..n).flat_map(|i| (0..m).map(move |j| (i, j))).collect();
    // The last target has no neighbours, unless it is the only one; the first has two if there are two.
    pairs.retain(|&(i, j)| (i == 0 && j < 2) || (i + 1 < n && d.flag()));
    let seed = d.seed();
    Setting {
        edges: EdgeAttention {
            pattern: Pattern::from_pairs(n, m, &pairs).unwrap_or_else(|e| panic!("{e}")),
            dropout: d.flag().then_some((0.3, seed)),
        },
        heads: d.one_of(&[1, 2, 3]),
        width: d.one_of(&[1, 3, 8]),
        terms,
    }
}

impl Setting {
    fn shape(&self, first: usize) -> [usize; 3] {
        [first, self.heads, self.width]
    }

    /// The entries as (i, j), in order.
    fn ends(&self) -> Vec<(usize, usize)> {
        let pattern = &self.edges.pattern;
        let rows = pattern.rows_of().iter().zip(pattern.indices());
        rows.map(|(&i, &j)| (i as usize, j as usize)).collect()
    }

    /// q, k and e.
    fn compared(&self, d: &mut Sampler) -> Vec<Tensor<f64>> {
        let (n, m) = self.edges.pattern.shape();
        let mut args = vec![d.signed(&self.shape(n)), d.signed(&self.shape(m))];
        args.extend(self.drawn_terms(d));
        args
    }

    fn drawn_terms(&self, d: &mut Sampler) -> Option<Tensor<f64>> {
        let shape = self.shape(self.edges.pattern.nnz());
        self.terms.then(|| d.signed(&shape))
    }

    /// softmax_j(⟨q_i, k_j + e_ij⟩ / √D).
    fn alpha(&self, q: &Tensor<f64>, k: &Tensor<f64>, e: Option<&Tensor<f64>>) -> Tensor<f64> {
        let ends = self.ends();
        let score = |t: usize, h: usize| {
            let (i, j) = ends[t];
            let term = |c: usize| e.map_or(0.0, |e| e[[t, h, c]]);
            let sum: f64 = (0..self.width)
                .map(|c| q[[i, h, c]] * (k[[j, h, c]] + term(c)))
                .sum();
            sum / (self.width as f64).sqrt()
        };
        build(&[ends.len(), self.heads], |index| {
            let row = (0..ends.len()).filter(|&t| ends[t].0 == ends[index[0]].0);
            let total: f64 = row.map(|t| score(t, index[1]).exp()).sum();
            score(index[0], index[1]).exp() / total
        })
    }

    /// Σ_j drop(α)_ij (v_j + e_ij).
    fn sum(&self, alpha: &Tensor<f64>, v: &Tensor<f64>, e: Option<&Tensor<f64>>) -> Tensor<f64> {
        let ends = self.ends();
        build(&self.shape(self.edges.pattern.rows()), |index| {
            let (h, c) = (index[1], index[2]);
            let mut sum = 0.0;
            for (t, &(_, j)) in ends.iter().enumerate().filter(|(_, end)| end.0 == index[0]) {
                let kept = match self.edges.dropout {
                    Some((p, seed)) => DropMask::new(p, seed).factor::<f64>(t * self.heads + h),
                    None => 1.0,
                };
                let term = e.map_or(0.0, |e| e[[t, h, c]]);
                sum += kept * alpha[[t, h]] * (v[[j, h, c]] + term);
            }
            sum
        })
    }
}

fn attend(d: &mut Sampler, terms: bool) -> Case {
    let s = Rc::new(setting(d, terms));
    let mut args = s.compared(d);
    args.insert(2, d.signed(&s.shape(s.edges.pattern.cols())));
    let function = function!([s] | x | s.edges.dot(x[0], x[1], x[2], x.get(3).copied()));
    Case::new(args, function, move |x| {
        s.sum(&s.alpha(&x[0], &x[1], x.get(3)), &x[2], x.get(3))
    })
}

fn coefficients(d: &mut Sampler, terms: bool) -> Case {
    let s = Rc::new(setting(d, terms));
    let args = s.compared(d);
    let function = function!([s] | x | s.edges.dot_coefficients(x[0], x[1], x.get(2).copied()));
    Case::new(args, function, move |x| s.alpha(&x[0], &x[1], x.get(2)))
}

fn combine(d: &mut Sampler, terms: bool) -> Case {
    let s = Rc::new(setting(d, terms));
    let (nnz, m) = (s.edges.pattern.nnz(), s.edges.pattern.cols());
    let mut args = vec![d.signed(&[nnz, s.heads]), d.signed(&s.shape(m))];
    args.extend(s.drawn_terms(d));
    let function = function!([s] | x | s.edges.combine(x[0], x[1], x.get(2).copied()));
    Case::new(args, function, move |x| s.sum(&x[0], &x[1], x.get(2)))
}

pub(super) fn operations() -> Vec<Operation> {
    let operation = |name, draw| Operation { name, draw };
    vec![
        operation("dot", |d| attend(d, false)),
        operation("dot", |d| attend(d, true)),
        operation("dot_coefficients", |d| coefficients(d, false)),
        operation("dot_coefficients", |d| coefficients(d, true)),
        operation("combine", |d| combine(d, false)),
        operation("combine", |d| combine(d, true)),
    ]
}
