//! Random operands of an attention along edges, scores, and slow references for both.

use crate::support::{data, pattern};
use emmy::Real;
use emmy::kernels::attention::*;
use emmy::kernels::random::DropMask;
use emmy::sparse::Pattern;
use emmy::tensor::memory::Buffer;
use std::sync::Arc;

/// Heads and width per head: the sizes with code of their own, and others.
pub const SIZES: [(usize, usize); 9] = [
    (1, 64),
    (8, 8),
    (1, 1),
    (1, 16),
    (3, 5),
    (2, 33),
    (2, 20),
    (2, 0),
    (0, 4),
];

/// f, and its [`pull`](Attention::backward).
#[derive(Clone, Copy)]
pub struct Score {
    pub value: fn(f64, f64) -> f64,
    pub pull: fn(f64, f64, f64) -> [f64; 3],
    pub symmetric: bool,
}

/// LeakyReLU(k + q), of GAT and GATv2.
pub const LEAKY_SUM: Score = Score {
    value: leaky_sum,
    pull: |g, k, q| {
        let step = if k + q > 0.0 { g } else { 0.2 * g };
        [step * (k + q), step, step]
    },
    symmetric: true,
};

/// k q.
pub const PRODUCT: Score = Score {
    value: |k, q| k * q,
    pull: |g, k, q| [g * k * q, g * q, g * k],
    symmetric: true,
};

/// k q², whose derivatives by the two ends differ.
pub const SQUARE: Score = Score {
    value: |k, q| k * q * q,
    pull: |g, k, q| [g * k * q * q, g * q * q, 2.0 * g * k * q],
    symmetric: false,
};

/// The operands of a layer with n targets and m sources.
#[derive(Clone)]
pub struct Case {
    pub pattern: Arc<Pattern>,
    pub heads: usize,
    pub d: usize,
    pub dropout: DropMask,
    pub zs: Vec<f64>,
    pub zt: Vec<f64>,
    pub a: Vec<f64>,
    pub s_src: Vec<f64>,
    pub s_tgt: Vec<f64>,
    pub gy: Vec<f64>,
    pub t: Option<Vec<f64>>,
}

pub fn case(n: usize, m: usize, nnz: usize, heads: usize, d: usize, p: f64) -> Case {
    let w = heads * d;
    Case {
        pattern: pattern(n, m, nnz, 1),
        heads,
        d,
        dropout: DropMask::new(p, 11),
        zs: data(m * w, 2),
        zt: data(n * w, 3),
        a: data(w, 4),
        s_src: data(m * heads, 5),
        s_tgt: data(n * heads, 6),
        gy: data(n * w, 7),
        t: None,
    }
}

impl Case {
    /// The case without a temperature, and with one that is 0 for the last target and head.
    pub fn both(self) -> [Self; 2] {
        let mut t = data(self.pattern.rows() * self.heads, 8);
        if let Some(t) = t.last_mut() {
            *t = 0.0;
        }
        let with_t = Self {
            t: Some(t),
            ..self.clone()
        };
        [self, with_t]
    }

    /// The case with the reverse of every edge.
    pub fn mirrored(mut self) -> Self {
        let ends = self.pattern.rows_of().iter().zip(self.pattern.indices());
        let both =
            ends.flat_map(|(&i, &j)| [(i, j), (j, i)].map(|(i, j)| (i as usize, j as usize)));
        let (n, m) = self.pattern.shape();
        self.pattern = Pattern::from_pairs(n, m, &both.collect::<Vec<_>>()).unwrap();
        self
    }

    pub fn attention(&self) -> Attention<'_> {
        Attention {
            pattern: &self.pattern,
            heads: self.heads,
            width: self.d,
            dropout: self.dropout,
        }
    }

    pub fn gat(&self) -> Operands<'_, f64> {
        Operands {
            v: &self.zs,
            k: Some(&self.s_src),
            q: Some(&self.s_tgt),
            width: 1,
            a: None,
            t: self.t.as_deref(),
        }
    }

    pub fn gatv2(&self) -> Operands<'_, f64> {
        Operands {
            v: &self.zs,
            k: None,
            q: Some(&self.zt),
            width: self.d,
            a: Some(&self.a),
            t: self.t.as_deref(),
        }
    }

    /// GATv2 with shared weights, zt = zs.
    pub fn shared(&self) -> Operands<'_, f64> {
        Operands {
            q: None,
            ..self.gatv2()
        }
    }

    /// The value, the coefficients and the adjoints, with the score of GAT and GATv2.
    pub fn run(&self, x: Operands<f64>) -> (Buffer<f64>, Buffer<f64>, Adjoints<f64>) {
        self.run_with(LEAKY_SUM, x)
    }

    /// The same with any score.
    pub fn run_with(
        &self,
        score: Score,
        x: Operands<f64>,
    ) -> (Buffer<f64>, Buffer<f64>, Adjoints<f64>) {
        let (y, alpha) = self.attention().forward(x, score.value);
        let back = Backward {
            alpha: &alpha,
            y: &y,
            gy: &self.gy,
            symmetric: score.symmetric,
        };
        let g = self.attention().backward(x, back, score.pull);
        (y, alpha, g)
    }

    /// Output and coefficients from scores (entry, head), before t, by the definition.
    pub fn attend(&self, score: impl Fn(usize, usize) -> f64) -> (Vec<f64>, Vec<f64>) {
        let (p, w) = (&self.pattern, self.heads * self.d);
        let mut alpha = vec![0.0; p.nnz() * self.heads];
        let mut y = vec![0.0; p.rows() * w];
        for i in 0..p.rows() {
            for h in 0..self.heads {
                let t = self.t.as_ref().map_or(1.0, |t| t[i * self.heads + h]);
                let score = |e, h| t * score(e, h);
                let total: f64 = p.row(i).map(|e| score(e, h).exp()).sum();
                for e in p.row(i) {
                    let k = e * self.heads + h;
                    alpha[k] = score(e, h).exp() / total;
                    let c = alpha[k] * self.dropout.factor::<f64>(k);
                    let j = p.indices()[e] as usize;
                    for at in h * self.d..(h + 1) * self.d {
                        y[i * w + at] += c * self.zs[j * w + at];
                    }
                }
            }
        }
        (y, alpha)
    }

    pub fn naive_gat(&self) -> (Vec<f64>, Vec<f64>) {
        self.attend(|e, h| {
            let j = self.pattern.indices()[e] as usize;
            let i = self.pattern.rows_of()[e] as usize;
            leaky(
                self.s_src[j * self.heads + h] + self.s_tgt[i * self.heads + h],
                0.2,
            )
        })
    }

    pub fn naive_gatv2(&self) -> (Vec<f64>, Vec<f64>) {
        let w = self.heads * self.d;
        self.attend(|e, h| {
            let j = self.pattern.indices()[e] as usize;
            let i = self.pattern.rows_of()[e] as usize;
            (h * self.d..(h + 1) * self.d)
                .map(|c| self.a[c] * leaky(self.zs[j * w + c] + self.zt[i * w + c], 0.2))
                .sum()
        })
    }
}

/// f(k, q) = LeakyReLU(k + q).
pub fn leaky_sum<F: Real>(k: F, q: F) -> F {
    leaky(k + q, F::of(0.2))
}

pub fn leaky<F: Real>(x: F, slope: F) -> F {
    if x > F::zero() { x } else { slope * x }
}

/// Central differences of `loss` by every element of the operand that `field` picks.
pub fn differences(
    case: &mut Case,
    field: fn(&mut Case) -> &mut Vec<f64>,
    loss: impl Fn(&Case) -> f64,
) -> Vec<f64> {
    let step = 1e-6;
    (0..field(case).len())
        .map(|k| {
            let x = field(case)[k];
            field(case)[k] = x + step;
            let above = loss(case);
            field(case)[k] = x - step;
            let below = loss(case);
            field(case)[k] = x;
            (above - below) / (2.0 * step)
        })
        .collect()
}

/// Central differences of `loss` by every element of t; empty without a temperature.
pub fn by_temperature(case: &mut Case, loss: impl Fn(&Case) -> f64) -> Vec<f64> {
    if case.t.is_none() {
        return Vec::new();
    }
    differences(case, |c| c.t.as_mut().expect("just seen"), loss)
}
