//! Attention between queries and keys, by loops from the formula.

use super::reference::build;
use super::{Case, Operation, Sampler, function};
use emmy::kernels::random::DropMask;
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::sparse::Pattern;
use emmy::tensor::{Tensor, tensor};
use std::rc::Rc;

/// Whether item b, query i sees key j.
type Sees = Box<dyn Fn(usize, usize, usize) -> bool>;

/// The sizes and options of a case; β and t are there or not.
struct Setting {
    lead: Vec<usize>,
    n: usize,
    m: usize,
    heads: usize,
    groups: usize,
    width: usize,
    value_width: usize,
    attention: DenseAttention,
    with: [bool; 2],
    sees: Sees,
    /// The number of coefficient (b, h, i, j), for dropout.
    number: Box<dyn Fn([usize; 4]) -> usize>,
}

fn setting(d: &mut Sampler, on_edges: bool) -> Setting {
    let lead = match d.count(0, 2) {
        _ if on_edges => Vec::new(),
        0 => Vec::new(),
        1 => vec![2],
        _ => vec![2, 1],
    };
    let items: usize = lead.iter().product();
    let (n, m) = (d.one_of(&[0, 1, 2, 3, 4]), d.one_of(&[0, 1, 2, 3, 5]));
    let groups = d.one_of(&[1, 2]);
    let heads = groups * d.one_of(&[1, 1, 3]);
    let draw = |d: &mut Sampler, len: usize| (0..len).map(|_| d.flag()).collect::<Vec<_>>();
    let (mask, sees): (Mask, Sees) = match d.count(0, 5) {
        _ if on_edges => {
            let keep = draw(d, n * m);
            let pairs = (0..n * m).filter(|&k| keep[k]).map(|k| (k / m, k % m));
            let pairs: Vec<_> = pairs.collect();
            let pattern = Pattern::from_pairs(n, m, &pairs).unwrap_or_else(|e| panic!("{e}"));
            (
                Mask::edges(pattern),
                Box::new(move |_, i, j| keep[i * m + j]),
            )
        }
        0 => (Mask::none(), Box::new(|_, _, _| true)),
        1 => (Mask::causal(), Box::new(move |_, i, j| j + n <= i + m)),
        2 => {
            let lengths: Vec<usize> = (0..items).map(|_| d.count(0, m)).collect();
            (
                Mask::lengths(&lengths),
                Box::new(move |b, _, j| j < lengths[b]),
            )
        }
        3 => {
            let hidden = draw(d, n * m);
            let pairs = (0..n * m).filter(|&k| hidden[k]).map(|k| (k / m, k % m));
            let pattern = Pattern::from_pairs(n, m, &pairs.collect::<Vec<_>>());
            (
                Mask::all_but(pattern.unwrap_or_else(|e| panic!("{e}"))),
                Box::new(move |_, i, j| !hidden[i * m + j]),
            )
        }
        4 => {
            let keep = draw(d, n * m);
            let mask = Mask::causal().with_allowed(tensor(&[n, m], keep.clone()));
            (
                mask,
                Box::new(move |_, i, j| j + n <= i + m && keep[i * m + j]),
            )
        }
        _ => {
            let keep = draw(d, items * n * m);
            let mask = Mask::allowed(tensor(&[items, n, m], keep.clone()));
            (mask, Box::new(move |b, i, j| keep[(b * n + i) * m + j]))
        }
    };
    let number: Box<dyn Fn([usize; 4]) -> usize> = match mask.pattern() {
        Some(pattern) => {
            let pattern = pattern.clone();
            Box::new(move |[_, h, i, j]| {
                let at = pattern.row(i).find(|&e| pattern.indices()[e] as usize == j);
                at.expect("an edge") * heads + h
            })
        }
        None => Box::new(move |[b, h, i, j]| ((b * heads + h) * n + i) * m + j),
    };
    let seed = d.seed();
    Setting {
        lead,
        n,
        m,
        heads,
        groups,
        width: d.one_of(&[1, 2, 5]),
        value_width: d.one_of(&[1, 3]),
        attention: DenseAttention {
            scale: 0.7,
            mask,
            dropout: d.flag().then_some((0.3, seed)),
        },
        with: [d.flag(), d.flag()],
        sees,
        number,
    }
}

fn compared<'t, F: emmy::Real>(x: &[emmy::Var<'t, F>], with: [bool; 2]) -> Qkv<'t, F> {
    let mut extra = x[3..].iter().copied();
    let mut next = |there: bool| if there { extra.next() } else { None };
    let [beta, t] = with.map(&mut next);
    Qkv {
        beta,
        t,
        ..Qkv::new(x[0], x[1], x[2])
    }
}

impl Setting {
    fn args(&self, d: &mut Sampler) -> Vec<Tensor<f64>> {
        let shape = |rows: usize, rest: &[usize]| [&self.lead[..], &[rows], rest].concat();
        let (keys, queries) = (shape(self.m, &[self.groups]), shape(self.n, &[self.heads]));
        let with = |shape: &[usize], width: usize| [shape, &[width]].concat();
        let mut args = vec![
            d.signed(&with(&queries, self.width)),
            d.signed(&with(&keys, self.width)),
            d.signed(&with(&keys, self.value_width)),
        ];
        args.extend(self.with[0].then(|| d.signed(&keys)));
        args.extend(self.with[1].then(|| d.signed(&queries)));
        args
    }

    /// e^s of query i and key j.
    fn exponential(&self, x: &[Tensor<f64>], [b, h, i, j]: [usize; 4]) -> f64 {
        let g = h / (self.heads / self.groups);
        let flat = |k: usize| x[k].as_slice().expect("contiguous");
        let query = (b * self.n + i) * self.heads + h;
        let key = (b * self.m + j) * self.groups + g;
        let (q, k) = (&flat(0)[query * self.width..], &flat(1)[key * self.width..]);
        let product: f64 = (0..self.width).map(|c| q[c] * k[c]).sum();
        let beta = if self.with[0] { flat(3)[key] } else { 0.0 };
        let t = if self.with[1] {
            flat(3 + usize::from(self.with[0]))[query]
        } else {
            1.0
        };
        (0.7 * t * (product + beta)).exp()
    }

    /// Σ_j e^s over the keys that query i sees.
    fn sum(&self, x: &[Tensor<f64>], [b, h, i]: [usize; 3]) -> f64 {
        let seen = (0..self.m).filter(|&j| (self.sees)(b, i, j));
        seen.map(|j| self.exponential(x, [b, h, i, j])).sum()
    }

    /// α at (b, h, i, j).
    fn alpha(&self, x: &[Tensor<f64>], [b, h, i, j]: [usize; 4]) -> f64 {
        match (self.sees)(b, i, j) {
            true => self.exponential(x, [b, h, i, j]) / self.sum(x, [b, h, i]),
            false => 0.0,
        }
    }

    fn output(&self, x: &[Tensor<f64>]) -> Tensor<f64> {
        let shape = [&self.lead[..], &[self.n, self.heads, self.value_width]].concat();
        let v = x[2].as_slice().expect("contiguous");
        build(&shape, |index| {
            let (lead, rest) = index.split_at(self.lead.len());
            let b = self.item(lead);
            let (i, h, c) = (rest[0], rest[1], rest[2]);
            let g = h / (self.heads / self.groups);
            let term = |j: usize| {
                let kept = match self.attention.dropout {
                    Some((p, seed)) if (self.sees)(b, i, j) => {
                        DropMask::new(p, seed).factor::<f64>((self.number)([b, h, i, j]))
                    }
                    _ => 1.0,
                };
                let value = v[((b * self.m + j) * self.groups + g) * self.value_width + c];
                kept * self.alpha(x, [b, h, i, j]) * value
            };
            (0..self.m).map(term).sum()
        })
    }

    fn coefficients(&self, x: &[Tensor<f64>]) -> Tensor<f64> {
        if let Some(pattern) = self.attention.mask.pattern() {
            let rows = pattern.rows_of().to_vec();
            return build(&[pattern.nnz(), self.heads], |index| {
                let (i, j) = (
                    rows[index[0]] as usize,
                    pattern.indices()[index[0]] as usize,
                );
                self.alpha(x, [0, index[1], i, j])
            });
        }
        let shape = [&self.lead[..], &[self.heads, self.n, self.m]].concat();
        build(&shape, |index| {
            let (lead, rest) = index.split_at(self.lead.len());
            self.alpha(x, [self.item(lead), rest[0], rest[1], rest[2]])
        })
    }

    fn item(&self, lead: &[usize]) -> usize {
        lead.iter().zip(&self.lead).fold(0, |b, (&i, &n)| b * n + i)
    }
}

fn attend(d: &mut Sampler, on_edges: bool) -> Case {
    let s = Rc::new(setting(d, on_edges));
    let function = function!([s] | x | s.attention.attend::<F>(compared(x, s.with)));
    Case::new(s.args(d), function, move |x| s.output(x))
}

/// The coefficients do not depend on values: in place of v the keys are passed.
fn coefficients(d: &mut Sampler, on_edges: bool) -> Case {
    let s = Rc::new(setting(d, on_edges));
    let mut args = s.args(d);
    args.remove(2);
    let with_keys = |x: &[Tensor<f64>]| [&x[..2], &x[1..]].concat();
    let function = function!(
        [s] | x | {
            let x = [&x[..2], &x[1..]].concat();
            s.attention
                .attention_coefficients::<F>(compared(&x, s.with))
        }
    );
    Case::new(args, function, move |x| s.coefficients(&with_keys(x)))
}

/// ℓ. It is −∞ for a query that sees no key, so e^ℓ is compared.
fn log_sum_exp(d: &mut Sampler) -> Case {
    let s = Rc::new(setting(d, false));
    let mut args = s.args(d);
    args.remove(2);
    let with_keys = |x: &[Tensor<f64>]| [&x[..2], &x[1..]].concat();
    let function = function!(
        [s] | x | {
            let x = [&x[..2], &x[1..]].concat();
            let lse = s.attention.log_sum_exp::<F>(compared(&x, s.with));
            lse.exp()
        }
    );
    Case::new(args, function, move |x| {
        let x = with_keys(x);
        build(&[&s.lead[..], &[s.n, s.heads]].concat(), |index| {
            let (lead, rest) = index.split_at(s.lead.len());
            s.sum(&x, [s.item(lead), rest[1], rest[0]])
        })
    })
}

/// Queries and keys alike: without a mask, or without a set of edges, symmetric (a kernel of its own) or not.
fn attend_symmetric(d: &mut Sampler) -> Case {
    let leads: [&[usize]; 3] = [&[], &[2], &[1, 3]];
    let lead = leads[d.count(0, 2)];
    let n = d.one_of(&[0, 1, 2, 4]);
    let mut hidden: Vec<bool> = (0..n * n).map(|_| d.flag()).collect();
    match d.count(0, 2) {
        0 => hidden.fill(false),
        1 => (0..n * n).for_each(|k| hidden[k] = hidden[k.min(k % n * n + k / n)]),
        _ => {}
    }
    let pairs = (0..n * n).filter(|&k| hidden[k]).map(|k| (k / n, k % n));
    let pattern = Pattern::from_pairs(n, n, &pairs.collect::<Vec<_>>());
    let mask = match hidden.contains(&true) {
        true => Mask::all_but(pattern.unwrap_or_else(|e| panic!("{e}"))),
        false => Mask::none(),
    };
    let attention = DenseAttention {
        scale: 0.7,
        mask,
        dropout: None,
    };
    let (width, value_width) = (d.one_of(&[1, 2, 5]), d.one_of(&[1, 3]));
    let shape = |width: usize| [lead, &[n, width]].concat();
    let args = vec![d.signed(&shape(width)), d.signed(&shape(value_width))];
    let function = function!([attention] | x | attention.attend_symmetric::<F>(x[0], x[1]));
    let out = shape(value_width);
    Case::new(args, function, move |x| {
        let lead = out.len() - 2;
        build(&out, |index| {
            let at = |k: usize, i: usize, c: usize| {
                let mut place = index.to_vec();
                (place[lead], place[lead + 1]) = (i, c);
                x[k][&place[..]]
            };
            let i = index[lead];
            let seen = |j: &usize| !hidden[i * n + j];
            let e = |j: usize| {
                let product: f64 = (0..width).map(|c| at(0, i, c) * at(0, j, c)).sum();
                (0.7 * product).exp()
            };
            let total: f64 = (0..n).filter(seen).map(e).sum();
            let mean = |j: usize| e(j) / total * at(1, j, index[lead + 1]);
            (0..n).filter(seen).map(mean).sum()
        })
    })
}

/// Plane p of the token at position i, rotated by i · base^(−2p/d).
fn rotate_planes(d: &mut Sampler) -> Case {
    let mut shape = d.shape(3);
    shape[2] = 2 * d.count(0, 3);
    if d.flag() {
        shape.insert(0, 2);
    }
    let (start, base) = (d.count(0, 3), 10.0);
    let function = function!([] | x | x[0].rotate_planes(start, base));
    Case::new(vec![d.signed(&shape)], function, move |x| {
        let lead = shape.len() - 3;
        build(&shape, |index| {
            let (i, c) = (index[lead], index[lead + 2]);
            let speed = base.powf(-((c - c % 2) as f64) / shape[lead + 2] as f64);
            let (sin, cos) = ((start + i) as f64 * speed).sin_cos();
            let at = |c: usize| {
                let mut place = index.to_vec();
                place[lead + 2] = c;
                x[0][&place[..]]
            };
            match c % 2 {
                0 => at(c) * cos - at(c + 1) * sin,
                _ => at(c - 1) * sin + at(c) * cos,
            }
        })
    })
}

pub(super) fn operations() -> Vec<Operation> {
    let operation = |name, draw| Operation { name, draw };
    vec![
        operation("rotate_planes", rotate_planes),
        operation("attend", |d| attend(d, false)),
        operation("attend", |d| attend(d, true)),
        operation("log_sum_exp", log_sum_exp),
        operation("attend_symmetric", attend_symmetric),
        operation("attention_coefficients", |d| coefficients(d, false)),
        operation("attention_coefficients", |d| coefficients(d, true)),
    ]
}
