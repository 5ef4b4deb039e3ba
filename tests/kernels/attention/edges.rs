//! The fused kernels against loops that follow the formulas, and the adjoints against central differences.

use crate::support::{bits, close, data, pattern};
use emmy::Real;
use emmy::kernels::attention::*;
use emmy::kernels::par;
use emmy::kernels::random::DropMask;
use emmy::sparse::Pattern;
use emmy::tensor::memory::Buffer;
use std::sync::Arc;

/// Heads and width per head: the sizes with code of their own, and others.
const SIZES: [(usize, usize); 9] = [
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

/// The operands of a layer with n targets and m sources.
#[derive(Clone)]
struct Case {
    pattern: Arc<Pattern>,
    heads: usize,
    d: usize,
    dropout: DropMask,
    zs: Vec<f64>,
    zt: Vec<f64>,
    a: Vec<f64>,
    s_src: Vec<f64>,
    s_tgt: Vec<f64>,
    gy: Vec<f64>,
    t: Option<Vec<f64>>,
}

fn case(n: usize, m: usize, nnz: usize, heads: usize, d: usize, p: f64) -> Case {
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
    fn both(self) -> [Self; 2] {
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
    fn mirrored(mut self) -> Self {
        let ends = self.pattern.rows_of().iter().zip(self.pattern.indices());
        let both =
            ends.flat_map(|(&i, &j)| [(i, j), (j, i)].map(|(i, j)| (i as usize, j as usize)));
        let (n, m) = self.pattern.shape();
        self.pattern = Pattern::from_pairs(n, m, &both.collect::<Vec<_>>()).unwrap();
        self
    }

    fn attention(&self) -> Attention<'_> {
        Attention {
            pattern: &self.pattern,
            heads: self.heads,
            width: self.d,
            dropout: self.dropout,
        }
    }

    fn gat(&self) -> Operands<'_, f64> {
        Operands {
            v: &self.zs,
            k: Some(&self.s_src),
            q: Some(&self.s_tgt),
            width: 1,
            a: None,
            t: self.t.as_deref(),
        }
    }

    fn gatv2(&self) -> Operands<'_, f64> {
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
    fn shared(&self) -> Operands<'_, f64> {
        Operands {
            q: None,
            ..self.gatv2()
        }
    }

    /// The value and the adjoints.
    fn run(&self, x: Operands<f64>) -> (Buffer<f64>, Buffer<f64>, Adjoints<f64>) {
        let (y, alpha) = self.attention().forward(x, leaky_sum);
        let back = Backward {
            alpha: &alpha,
            y: &y,
            gy: &self.gy,
            symmetric: true,
        };
        let g = self.attention().backward(x, back, pull);
        (y, alpha, g)
    }

    /// Asserts that the adjoints of shared rows are the sums of those of equal rows zs and zt.
    fn has_both_roles(
        &self,
        a: Option<&[f64]>,
        symmetric: bool,
        f: impl Fn(f64, f64) -> f64 + Copy + Sync,
        pull: impl Fn(f64, f64, f64) -> [f64; 3] + Copy + Sync,
    ) {
        let run = |x: Operands<f64>| {
            let x = Operands { a, ..x };
            let (y, alpha) = self.attention().forward(x, f);
            let back = Backward {
                alpha: &alpha,
                y: &y,
                gy: &self.gy,
                symmetric,
            };
            self.attention().backward(x, back, pull)
        };
        let (apart, shared) = (run(self.gatv2()), run(self.shared()));
        let sum: Vec<f64> = apart.v.iter().zip(&apart.q).map(|(v, q)| v + q).collect();
        close(&shared.v, &sum, 1e-12);
        close(&shared.a, &apart.a, 1e-12);
        close(&shared.t, &apart.t, 1e-12);
    }

    /// Output and coefficients from scores (entry, head), before t, by the definition.
    fn attend(&self, score: impl Fn(usize, usize) -> f64) -> (Vec<f64>, Vec<f64>) {
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

    fn naive_gat(&self) -> (Vec<f64>, Vec<f64>) {
        self.attend(|e, h| {
            let j = self.pattern.indices()[e] as usize;
            let i = self.pattern.rows_of()[e] as usize;
            leaky(
                self.s_src[j * self.heads + h] + self.s_tgt[i * self.heads + h],
                0.2,
            )
        })
    }

    fn naive_gatv2(&self) -> (Vec<f64>, Vec<f64>) {
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
fn leaky_sum<F: Real>(k: F, q: F) -> F {
    leaky(k + q, F::of(0.2))
}

fn pull<F: Real>(g: F, k: F, q: F) -> [F; 3] {
    let step = if k + q > F::zero() { g } else { g * F::of(0.2) };
    [step * (k + q), step, step]
}

fn leaky<F: Real>(x: F, slope: F) -> F {
    if x > F::zero() { x } else { slope * x }
}

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Central differences of `loss` by every element of the operand that `field` picks.
fn differences(
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
fn by_temperature(case: &mut Case, loss: impl Fn(&Case) -> f64) -> Vec<f64> {
    if case.t.is_none() {
        return Vec::new();
    }
    differences(case, |c| c.t.as_mut().expect("just seen"), loss)
}

#[test]
fn forward_is_the_definition() {
    for (n, m, nnz) in [
        (30, 30, 150),
        (1, 1, 1),
        (0, 5, 0),
        (5, 0, 0),
        (7, 9, 0),
        (20, 35, 90),
        (3, 60, 140),
    ] {
        for (heads, d) in SIZES {
            for p in [0.0, 0.6] {
                for case in case(n, m, nnz, heads, d, p).both() {
                    let (y, alpha) = case.attention().forward(case.gat(), leaky_sum);
                    let (expected_y, expected_alpha) = case.naive_gat();
                    close(&alpha, &expected_alpha, 1e-14);
                    close(&y, &expected_y, 1e-13);
                    let (y, alpha) = case.attention().forward(case.gatv2(), leaky_sum);
                    let (expected_y, expected_alpha) = case.naive_gatv2();
                    close(&alpha, &expected_alpha, 1e-13);
                    close(&y, &expected_y, 1e-12);
                }
            }
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let mut case = case(20, 20, 100, 2, 8, 0.0);
    case.zs
        .iter_mut()
        .chain(&mut case.zt)
        .for_each(|z| *z *= 1e150);
    case.a.iter_mut().for_each(|a| *a *= 1e150);
    case.s_src.iter_mut().for_each(|s| *s *= 1e300);
    for (_, alpha) in [
        case.attention().forward(case.gat(), leaky_sum),
        case.attention().forward(case.gatv2(), leaky_sum),
    ] {
        assert!(alpha.iter().all(|a| (0.0..=1.0).contains(a)));
    }
}

/// Where one coefficient is 1 and the others are 0, the adjoints of scores are exactly 0, with dropout too.
/// The first pass goes by columns if the rows k are given, and by rows if they are those of v.
#[test]
fn a_saturated_softmax_passes_no_adjoint() {
    let product = |k: f64, q: f64| k * q;
    let pull = |g: f64, k: f64, q: f64| [g * k * q, g * q, g * k];
    for (heads, p) in [(1, 0.0), (1, 0.3), (3, 0.3), (15, 0.3)] {
        let case = case(20, 20, 100, heads, 8, p);
        let v = &case.zs;
        let k: Vec<f64> = v.iter().map(|v| 1e8 * v).collect();
        let q: Vec<f64> = case.zt.iter().map(|q| 1e8 * q).collect();
        for k in [Some(&*k), None] {
            let x = Operands {
                v,
                k,
                q: Some(&q),
                width: 8,
                a: None,
                t: None,
            };
            let attention = case.attention();
            let (y, alpha) = attention.forward(x, product);
            assert!(alpha.iter().all(|&a| a == 0.0 || a == 1.0));
            let back = Backward {
                alpha: &alpha,
                y: &y,
                gy: &case.gy,
                symmetric: true,
            };
            let found = attention.backward(x, back, pull);
            let scores = found.q.iter().chain(&*found.k);
            assert!(scores.copied().all(|g| g == 0.0), "{heads} heads, {p}");
        }
    }
}

/// The same where k = q = v and every edge has its reverse: what is left is the adjoint of the values.
#[test]
fn a_saturated_softmax_of_mirrored_edges_passes_no_adjoint() {
    for p in [0.0, 0.5] {
        let mut case = case(30, 30, 150, 2, 8, p).mirrored();
        case.zs.iter_mut().for_each(|z| *z *= 1e8);
        let x = Operands {
            a: None,
            ..case.shared()
        };
        let (y, alpha) = case.attention().forward(x, |k, q| k * q);
        assert!(alpha.iter().all(|&a| a == 0.0 || a == 1.0));
        let back = Backward {
            alpha: &alpha,
            y: &y,
            gy: &case.gy,
            symmetric: true,
        };
        let pull = |g, k, q| [g * k * q, g * q, g * k];
        let found = case.attention().backward(x, back, pull);
        let mut expected = vec![0.0; case.zs.len()];
        for (e, &i) in case.pattern.rows_of().iter().enumerate() {
            let j = case.pattern.indices()[e] as usize;
            for c in 0..16 {
                let k = 2 * e + c / 8;
                let kept = alpha[k] * case.dropout.factor::<f64>(k);
                expected[16 * j + c] += kept * case.gy[16 * i as usize + c];
            }
        }
        close(&found.v, &expected, 1e-13);
    }
}

#[test]
fn the_adjoints_of_gat_are_differences() {
    for (n, m, nnz) in [(6, 6, 20), (4, 7, 15), (1, 1, 1), (3, 2, 0), (0, 2, 0)] {
        for (heads, d) in [(1, 64), (8, 8), (2, 3), (2, 0), (0, 2)] {
            for p in [0.0, 0.5] {
                for mut case in case(n, m, nnz, heads, d, p).both() {
                    let (_, _, got) = case.run(case.gat());
                    let loss = |c: &Case| inner(&c.naive_gat().0, &c.gy);
                    close(&got.v, &differences(&mut case, |c| &mut c.zs, loss), 1e-8);
                    let by_s_src = differences(&mut case, |c| &mut c.s_src, loss);
                    close(&got.k, &by_s_src, 1e-8);
                    let by_s_tgt = differences(&mut case, |c| &mut c.s_tgt, loss);
                    close(&got.q, &by_s_tgt, 1e-8);
                    close(&got.t, &by_temperature(&mut case, loss), 1e-8);
                }
            }
        }
    }
}

/// f(k, q) = k q², one number per end and head: unlike those of GAT, its derivatives by the two ends differ.
#[test]
fn the_two_ends_of_an_edge_are_not_confused() {
    for (n, m, nnz) in [(6, 6, 20), (4, 7, 15)] {
        for heads in [1, 2, 3, 8, 15] {
            for mut case in case(n, m, nnz, heads, 2, 0.0).both() {
                let f = |k: f64, q: f64| k * q * q;
                let forward = move |c: &Case| c.attention().forward(c.gat(), f);
                let (y, alpha) = forward(&case);
                let back = Backward {
                    alpha: &alpha,
                    y: &y,
                    gy: &case.gy,
                    symmetric: false,
                };
                let pull = |g: f64, k: f64, q: f64| [g * f(k, q), g * q * q, 2.0 * g * k * q];
                let got = case.attention().backward(case.gat(), back, pull);
                let loss = |c: &Case| inner(&forward(c).0, &c.gy);
                let by_source = differences(&mut case, |c| &mut c.s_src, loss);
                close(&got.k, &by_source, 1e-8);
                let by_target = differences(&mut case, |c| &mut c.s_tgt, loss);
                close(&got.q, &by_target, 1e-8);
            }
        }
    }
}

#[test]
fn the_adjoints_of_gatv2_are_differences() {
    for (n, m, nnz) in [(6, 6, 20), (4, 7, 15), (1, 1, 1), (3, 2, 0), (0, 2, 0)] {
        for (heads, d) in [(1, 34), (5, 8), (2, 3), (2, 0), (0, 2)] {
            for p in [0.0, 0.5] {
                for mut case in case(n, m, nnz, heads, d, p).both() {
                    let (_, _, got) = case.run(case.gatv2());
                    let loss = |c: &Case| inner(&c.naive_gatv2().0, &c.gy);
                    close(&got.v, &differences(&mut case, |c| &mut c.zs, loss), 1e-8);
                    close(&got.q, &differences(&mut case, |c| &mut c.zt, loss), 1e-8);
                    close(&got.a, &differences(&mut case, |c| &mut c.a, loss), 1e-8);
                    close(&got.t, &by_temperature(&mut case, loss), 1e-8);
                }
            }
        }
    }
}

#[test]
fn shared_weights_sum_both_adjoints() {
    for (heads, d) in SIZES {
        for mut case in case(25, 25, 120, heads, d, 0.3).both() {
            case.zt = case.zs.clone();
            let (_, _, apart) = case.run(case.gatv2());
            let (_, _, shared) = case.run(case.shared());
            let sum: Vec<f64> = apart.v.iter().zip(&apart.q).map(|(v, q)| v + q).collect();
            close(&shared.v, &sum, 1e-13);
            assert_eq!(shared.a, apart.a);
            assert_eq!(shared.t, apart.t);
        }
    }
}

/// The pass that adds both roles of a node against the two passes of rows that are equal and not the same. A
/// score that is not symmetric, and one with temperatures, take the two passes.
#[test]
fn mirrored_edges_have_the_adjoints_of_two_roles() {
    for (n, nnz) in [(25, 120), (300, 3000), (1, 1), (3, 0), (0, 0)] {
        for (heads, d) in SIZES {
            for p in [0.0, 0.3] {
                for mut case in case(n, n, nnz, heads, d, p).mirrored().both() {
                    case.zt = case.zs.clone();
                    for a in [Some(&*case.a), None] {
                        case.has_both_roles(a, true, leaky_sum, pull);
                        let product = |g, k, q| [g * k * q, g * q, g * k];
                        case.has_both_roles(a, true, |k, q| k * q, product);
                        let square = |g, k, q| [g * k * q * q, g * q * q, 2.0 * g * k * q];
                        case.has_both_roles(a, false, |k, q| k * q * q, square);
                    }
                }
            }
        }
    }
}

#[test]
fn a_temperature_of_one_gives_the_bits_of_none() {
    for (heads, d) in SIZES {
        for p in [0.0, 0.6] {
            let mut case = case(40, 40, 300, heads, d, p);
            let run = |case: &Case| {
                let all = [case.gat(), case.gatv2(), case.shared()].map(|x| {
                    let (y, alpha, g) = case.run(x);
                    [&y, &alpha, &g.v, &g.k, &g.q, &g.a].map(bits)
                });
                all.concat()
            };
            let without = run(&case);
            case.t = Some(vec![1.0; 40 * heads]);
            assert_eq!(run(&case), without, "{heads} heads of {d}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    for (heads, d) in [(1, 64), (8, 8), (3, 7)] {
        let case = case(300, 300, 3000, heads, d, 0.6);
        for case in case.clone().both().into_iter().chain([case.mirrored()]) {
            let run = |threads| {
                par::with_threads(threads, || {
                    let all = [case.gat(), case.gatv2(), case.shared()].map(|x| {
                        let (y, alpha, g) = case.run(x);
                        [&y, &alpha, &g.v, &g.k, &g.q, &g.a, &g.t].map(bits)
                    });
                    all.concat()
                })
            };
            let one = run(1);
            for threads in [2, 3] {
                assert_eq!(
                    run(threads),
                    one,
                    "{heads} heads of {d} on {threads} threads"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "edge attention: t must have shape [5, 2]")]
fn the_temperature_must_have_a_number_per_target_and_head() {
    let case = case(5, 5, 10, 2, 3, 0.0);
    let x = Operands {
        t: Some(&[1.0; 5]),
        ..case.gat()
    };
    case.attention().forward(x, leaky_sum);
}

#[test]
#[should_panic(expected = "edge attention: q must have shape [5, 2, 3]")]
fn sizes_must_agree() {
    let case = case(5, 5, 10, 2, 3, 0.0);
    let x = Operands {
        q: Some(&[0.0; 3]),
        ..case.gatv2()
    };
    case.attention().forward(x, leaky_sum);
}

/// The scores are summed in lanes of sixteen: what fills the last of them up is not data, and f never sees
/// it.
#[test]
fn the_score_sees_nothing_but_data() {
    for d in [9, 16, 20, 33] {
        let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)]).unwrap();
        let attention = Attention {
            pattern: &pattern,
            heads: 1,
            width: d,
            dropout: DropMask::NONE,
        };
        let v = vec![1.5; 2 * d];
        let x = Operands {
            v: &v,
            k: None,
            q: None,
            width: d,
            a: None,
            t: None,
        };
        attention.forward(x, |k: f64, q: f64| {
            assert_eq!((k, q), (1.5, 1.5), "d = {d}");
            k * q
        });
    }
}
