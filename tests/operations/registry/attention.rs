//! Attention over edges, by loops from the formulas.

use super::reference::build;
use super::{Case, Operation, Sampler, function};
use emmy::autodiff::Var;
use emmy::kernels::random::DropMask;
use emmy::ops::attention::{EdgeAttention, EdgeOperands, EdgeScore, LeakySum, ScaledProduct};
use emmy::real::Real;
use emmy::sparse::Pattern;
use emmy::tensor::Tensor;
use std::rc::Rc;
use std::sync::Arc;

const SLOPE: f64 = 0.2;

fn leaky(x: f64) -> f64 {
    if x > 0.0 { x } else { SLOPE * x }
}

/// The quantities drawn for every case: a square pattern (from two nodes on with a row of two entries),
/// heads, width, dropout.
struct Setting {
    pattern: Arc<Pattern>,
    heads: usize,
    width: usize,
    dropout: Option<(f64, u64)>,
}

fn setting(d: &mut Sampler) -> Setting {
    let n = d.one_of(&[0, 1, 2, 3, 4, 4]);
    let mut pairs: Vec<(usize, usize)> = (0..n).flat_map(|i| (0..n).map(move |j| (i, j))).collect();
    // The last node has no neighbours, unless it is the only one.
    pairs.retain(|&(i, j)| (i == 0 && j < 2) || (i + 1 < n && d.flag()));
    let seed = d.seed();
    Setting {
        pattern: Pattern::from_pairs(n, n, &pairs).unwrap_or_else(|e| panic!("{e}")),
        // Eight heads, and widths that eight or sixteen divide, have code of their own in the kernels.
        heads: d.one_of(&[1, 2, 3, 8]),
        width: d.one_of(&[1, 3, 5, 8, 16]),
        dropout: d.flag().then_some((0.3, seed)),
    }
}

impl Setting {
    fn edges(&self) -> EdgeAttention {
        EdgeAttention {
            pattern: Arc::clone(&self.pattern),
            dropout: self.dropout,
        }
    }

    /// The entries as (i, j), in order.
    fn ends(&self) -> Vec<(usize, usize)> {
        let rows = self.pattern.rows_of().iter().zip(self.pattern.indices());
        rows.map(|(&i, &j)| (i as usize, j as usize)).collect()
    }

    /// softmax over each row of `score(i, j, h)`, times t[i, h] if there is a temperature.
    fn coefficients(
        &self,
        t: Option<&Tensor<f64>>,
        score: impl Fn(usize, usize, usize) -> f64,
    ) -> Tensor<f64> {
        let ends = self.ends();
        let score = |i, j, h| t.map_or(1.0, |t| t[[i, h]]) * score(i, j, h);
        build(&[ends.len(), self.heads], |index| {
            let (i, j) = ends[index[0]];
            let row = ends.iter().filter(|end| end.0 == i);
            let total: f64 = row.map(|&(i, j)| score(i, j, index[1]).exp()).sum();
            score(i, j, index[1]).exp() / total
        })
    }

    /// Σ_j drop(α)_ij z_j.
    fn aggregate(&self, alpha: &Tensor<f64>, z: &Tensor<f64>) -> Tensor<f64> {
        let ends = self.ends();
        build(z.shape(), |index| {
            let mut sum = 0.0;
            for (e, &(i, j)) in ends.iter().enumerate() {
                if i == index[0] {
                    let kept = match self.dropout {
                        Some((p, seed)) => {
                            DropMask::new(p, seed).factor::<f64>(e * self.heads + index[1])
                        }
                        None => 1.0,
                    };
                    sum += kept * alpha[[e, index[1]]] * z[[j, index[1], index[2]]];
                }
            }
            sum
        })
    }

    fn gat(
        &self,
        z: &Tensor<f64>,
        a_s: &Tensor<f64>,
        a_t: &Tensor<f64>,
        t: Option<&Tensor<f64>>,
    ) -> Tensor<f64> {
        self.coefficients(t, |i, j, h| leaky(self.gat_sum(z, a_s, a_t, (i, j), h)))
    }

    /// ⟨a_s, z_j⟩ + ⟨a_t, z_i⟩.
    fn gat_sum(
        &self,
        z: &Tensor<f64>,
        a_s: &Tensor<f64>,
        a_t: &Tensor<f64>,
        (i, j): (usize, usize),
        h: usize,
    ) -> f64 {
        (0..self.width)
            .map(|c| a_s[[h, c]] * z[[j, h, c]] + a_t[[h, c]] * z[[i, h, c]])
            .sum()
    }

    /// z, a_s, a_t with no sum near the kink of the LeakyReLU.
    fn gat_args(&self, d: &mut Sampler) -> Vec<Tensor<f64>> {
        let (n, h, w) = (self.pattern.rows(), self.heads, self.width);
        loop {
            let args = vec![d.signed(&[n, h, w]), d.signed(&[h, w]), d.signed(&[h, w])];
            let near = |&end: &(usize, usize)| {
                (0..h).any(|h| self.gat_sum(&args[0], &args[1], &args[2], end, h).abs() < 0.01)
            };
            if !self.ends().iter().any(near) {
                return args;
            }
        }
    }

    /// z_s, z_t, a.
    fn gatv2_args(&self, d: &mut Sampler) -> Vec<Tensor<f64>> {
        let shape = [self.pattern.rows(), self.heads, self.width];
        let (z_s, z_t) = (projected(d, &shape, 0.03), projected(d, &shape, 0.04));
        vec![z_s, z_t, d.signed(&shape[1..])]
    }

    fn gatv2(
        &self,
        z_s: &Tensor<f64>,
        z_t: &Tensor<f64>,
        a: &Tensor<f64>,
        t: Option<&Tensor<f64>>,
    ) -> Tensor<f64> {
        self.coefficients(t, |i, j, h| {
            (0..self.width)
                .map(|c| a[[h, c]] * leaky(z_s[[j, h, c]] + z_t[[i, h, c]]))
                .sum()
        })
    }
}

/// Projected nodes on two interleaved grids, so that no sum of two comes near the kink of the LeakyReLU.
fn projected(d: &mut Sampler, shape: &[usize], offset: f64) -> Tensor<f64> {
    let x = d.signed(shape);
    x.mapv(|x| 0.2 * (x / 0.2).round() + offset).into_shared()
}

/// t, if there is to be a temperature, after the other operands.
fn with_temperature(
    s: &Setting,
    mut args: Vec<Tensor<f64>>,
    d: &mut Sampler,
    tempered: bool,
) -> Vec<Tensor<f64>> {
    args.extend(tempered.then(|| d.signed(&[s.pattern.rows(), s.heads])));
    args
}

fn leaky_sum<F: Real>() -> LeakySum<F> {
    LeakySum {
        slope: F::of(SLOPE),
    }
}

fn gat(d: &mut Sampler, tempered: bool) -> Case {
    let s = Rc::new(setting(d));
    let args = with_temperature(&s, s.gat_args(d), d, tempered);
    let function = function!(
        [s] | x | {
            let t = x.get(3).copied();
            let operands = EdgeOperands::gat(x[0], x[1], x[2]);
            s.edges()
                .attend(leaky_sum::<F>(), EdgeOperands { t, ..operands })
        }
    );
    Case::new(args, function, move |x| {
        s.aggregate(&s.gat(&x[0], &x[1], &x[2], x.get(3)), &x[0])
    })
}

fn gat_coefficients(d: &mut Sampler, tempered: bool) -> Case {
    let s = Rc::new(setting(d));
    let args = with_temperature(&s, s.gat_args(d), d, tempered);
    let function = function!(
        [s] | x | {
            let t = x.get(3).copied();
            let operands = EdgeOperands::gat(x[0], x[1], x[2]);
            s.edges()
                .coefficients(leaky_sum::<F>(), EdgeOperands { t, ..operands })
        }
    );
    Case::new(args, function, move |x| {
        s.gat(&x[0], &x[1], &x[2], x.get(3))
    })
}

fn gatv2(d: &mut Sampler, tempered: bool) -> Case {
    let s = Rc::new(setting(d));
    let args = with_temperature(&s, s.gatv2_args(d), d, tempered);
    let function = function!(
        [s] | x | {
            let t = x.get(3).copied();
            let operands = EdgeOperands::gatv2(x[0], x[1], x[2]);
            s.edges()
                .attend(leaky_sum::<F>(), EdgeOperands { t, ..operands })
        }
    );
    Case::new(args, function, move |x| {
        s.aggregate(&s.gatv2(&x[0], &x[1], &x[2], x.get(3)), &x[0])
    })
}

/// Shared weights: both ends are one variable.
fn gatv2_shared(d: &mut Sampler, tempered: bool) -> Case {
    let s = Rc::new(setting(d));
    let shape = [s.pattern.rows(), s.heads, s.width];
    let args = vec![projected(d, &shape, 0.03), d.signed(&shape[1..])];
    let args = with_temperature(&s, args, d, tempered);
    let function = function!(
        [s] | x | {
            let t = x.get(2).copied();
            let operands = EdgeOperands::gatv2(x[0], x[0], x[1]);
            s.edges()
                .attend(leaky_sum::<F>(), EdgeOperands { t, ..operands })
        }
    );
    Case::new(args, function, move |x| {
        s.aggregate(&s.gatv2(&x[0], &x[0], &x[1], x.get(2)), &x[0])
    })
}

fn gatv2_coefficients(d: &mut Sampler, tempered: bool) -> Case {
    let s = Rc::new(setting(d));
    let args = with_temperature(&s, s.gatv2_args(d), d, tempered);
    let function = function!(
        [s] | x | {
            let t = x.get(3).copied();
            let operands = EdgeOperands::gatv2(x[0], x[1], x[2]);
            s.edges()
                .coefficients(leaky_sum::<F>(), EdgeOperands { t, ..operands })
        }
    );
    Case::new(args, function, move |x| {
        s.gatv2(&x[0], &x[1], &x[2], x.get(3))
    })
}

/// f(k, q) = sin(k) q: a score that is not symmetric, on rows of another width than the values.
#[derive(Clone, Copy)]
struct Sine;

impl<F: Real> EdgeScore<F> for Sine {
    fn name(&self) -> &'static str {
        "sine"
    }

    fn value(&self, k: F, q: F) -> F {
        k.sin() * q
    }

    fn pull(&self, g: F, k: F, q: F) -> [F; 3] {
        [g * k.sin() * q, g * k.cos() * q, g * k.sin()]
    }

    fn compose<'t>(&self, k: Var<'t, F>, q: Var<'t, F>) -> Var<'t, F> {
        k.sin() * q
    }
}

/// Values, and other rows that the score reads, [`Sine`] or products of a scale; with a and t, or without.
fn apart(d: &mut Sampler, with: bool, scale: Option<f64>) -> Case {
    let s = Rc::new(setting(d));
    let (n, read) = (s.pattern.rows(), d.one_of(&[1, 3, 8, 17]));
    let mut args = vec![d.signed(&[n, s.heads, s.width])];
    args.extend([(); 2].map(|()| d.signed(&[n, s.heads, read])));
    if with {
        args.push(d.signed(&[s.heads, read]));
        args.push(d.signed(&[n, s.heads]));
    }
    let function = function!(
        [s] | x | {
            let operands = EdgeOperands {
                a: x.get(3).copied(),
                t: x.get(4).copied(),
                ..EdgeOperands::new(x[2], x[1], x[0])
            };
            match scale.map(F::of) {
                None => s.edges().attend(Sine, operands),
                Some(scale) => s.edges().attend(ScaledProduct { scale }, operands),
            }
        }
    );
    Case::new(args, function, move |x| {
        let score = |i, j, h| {
            let term = |c| {
                let a = x.get(3).map_or(1.0, |a| a[[h, c]]);
                let k = x[1][[j, h, c]];
                a * scale.map_or(k.sin(), |scale| scale * k) * x[2][[i, h, c]]
            };
            (0..read).map(term).sum()
        };
        s.aggregate(&s.coefficients(x.get(4), score), &x[0])
    })
}

pub(super) fn operations() -> Vec<Operation> {
    let operation = |name, draw| Operation { name, draw };
    vec![
        operation("gat", |d| gat(d, false)),
        operation("gat", |d| gat(d, true)),
        operation("gatv2", |d| gatv2(d, false)),
        operation("gatv2", |d| gatv2(d, true)),
        operation("gatv2", |d| gatv2_shared(d, false)),
        operation("gatv2", |d| gatv2_shared(d, true)),
        operation("EdgeAttention::attend", |d| apart(d, false, None)),
        operation("EdgeAttention::attend", |d| apart(d, true, None)),
        operation("EdgeAttention::attend", |d| apart(d, false, Some(0.7))),
        operation("EdgeAttention::attend", |d| apart(d, true, Some(0.7))),
        operation("EdgeAttention::coefficients", |d| {
            gat_coefficients(d, false)
        }),
        operation("EdgeAttention::coefficients", |d| gat_coefficients(d, true)),
        operation("EdgeAttention::coefficients", |d| {
            gatv2_coefficients(d, false)
        }),
        operation("EdgeAttention::coefficients", |d| {
            gatv2_coefficients(d, true)
        }),
    ]
}
