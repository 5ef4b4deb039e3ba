//! The constant of attention in the 2-norm at the recorded input. Letters and formulas: see
//! [`attention`](super::attention).

use super::operands::Map;
use super::rule::Rule;
use crate::autodiff::{Tape, Var};
use crate::linalg::{Lp, Upper};
use crate::ops::attention::{DenseAttention, Qkv};
use crate::real::Real;
use ndarray::{Array1, Array2, ArrayD, ArrayView1, ArrayView2, Axis, Ix2};

/// Coefficients, queries, keys and values of attention at the recorded input, for one item and one head.
struct RecordedHead {
    head: usize,
    p: Array2<f64>,
    q: Array2<f64>,
    k: Array2<f64>,
    v: Array2<f64>,
}

impl RecordedHead {
    /// max_j ‖Σ_i P_ij λ_i a_i a_iᵀ‖^½. It is computed from the factors of the products, since the
    /// products of small numbers vanish and those of large numbers overflow.
    fn of_keys(&self, a: ArrayView2<'_, f64>) -> f64 {
        let weighted = |x: ArrayView2<'_, f64>, weights: Array1<f64>| {
            norm(&(&x * &weights.insert_axis(Axis(1))))
        };
        let spread = |p: ArrayView1<'_, f64>| weighted(centred(p, self.v.view()).view(), p.sqrt());
        let spreads: Array1<f64> = self.p.outer_iter().map(spread).collect();
        let of_key = |p: ArrayView1<'_, f64>| weighted(a, p.sqrt() * &spreads);
        self.p.axis_iter(Axis(1)).map(of_key).fold(0.0, larger)
    }
}

fn points<F: Real>(
    rule: &Rule<'_, '_, F>,
    options: &DenseAttention,
) -> Result<Vec<RecordedHead>, String> {
    let tape = rule.known.tape;
    let args = tape.node(rule.id).args.clone();
    if args.len() > 3 {
        return Err("attention with summands or factors of its scores, at a point".into());
    }
    // A separate tape: this one is being read. In f64, so that coefficients are not rounded to the model's
    // type.
    let aside = Tape::new();
    let of_model = |id| tape.handle(id).value().mapv(Real::as_f64).into_shared();
    let [q, k, v] = [0, 1, 2].map(|k| aside.constant(of_model(args[k])));
    let alpha = options.attention_coefficients(Qkv::new(q, k, v));
    // The axes in front as one.
    let flat = |x: Var<'_, f64>| -> ArrayD<f64> {
        let shape = x.shape();
        let tail = &shape[shape.len() - 3..];
        let items = shape[..shape.len() - 3].iter().product::<usize>();
        let x = x.value().as_standard_layout().into_owned();
        x.into_shape_with_order([&[items], tail].concat())
            .expect("as many")
    };
    let [alpha, q, k, v] = [alpha, q, k, v].map(flat);
    let (items, heads) = (alpha.shape()[0], alpha.shape()[1]);
    let share = heads / k.shape()[2].max(1);
    let rows = |x: &ArrayD<f64>, item: usize, head: usize| {
        let x = x
            .index_axis(Axis(0), item)
            .index_axis(Axis(1), head)
            .to_owned();
        x.into_dimensionality::<Ix2>().expect("a matrix")
    };
    let of = |item: usize, head: usize| {
        let p = alpha
            .index_axis(Axis(0), item)
            .index_axis(Axis(0), head)
            .to_owned();
        RecordedHead {
            head,
            p: p.into_dimensionality().expect("a matrix"),
            q: rows(&q, item, head),
            k: rows(&k, item, head / share),
            v: rows(&v, item, head / share),
        }
    };
    Ok((0..items)
        .flat_map(|item| (0..heads).map(move |h| (item, h)))
        .map(|(i, h)| of(i, h))
        .collect())
}

fn norm(a: &Array2<f64>) -> f64 {
    match a.iter().all(|x| x.is_finite()) {
        true => Lp::Two.matrix(a.view()).get(),
        false => f64::INFINITY,
    }
}

/// The larger of two sizes; no limit if one overflowed.
fn larger(a: f64, b: f64) -> f64 {
    if b.is_nan() { f64::INFINITY } else { a.max(b) }
}

/// A bound that also covers the rounding of the coefficients and of the computation after them.
fn rounded(x: f64) -> Upper {
    Upper::rounded(x, 1e-9)
}

/// The factors of dq, dk and dv at the recorded input.
pub(super) fn at_point<F: Real>(
    rule: &Rule<'_, '_, F>,
    options: &DenseAttention,
) -> Result<[Upper; 3], String> {
    let s = options.scale.abs();
    let mut worst = [0.0f64; 3];
    for point in points(rule, options)? {
        for p in point.p.outer_iter() {
            let between = norm(&covariance(p, point.v.view(), point.k.view()));
            worst[0] = larger(worst[0], s * between);
        }
        worst[1] = larger(worst[1], s * point.of_keys(point.q.view()));
        worst[2] = larger(worst[2], norm(&point.p));
    }
    Ok(worst.map(rounded))
}

/// L_h of each head at the recorded input, the worst over the items.
pub(super) fn at_point_of_self<F: Real>(
    rule: &Rule<'_, '_, F>,
    options: &DenseAttention,
    [heads, groups]: [usize; 2],
    [q, k, v]: [&Map; 3],
) -> Option<Vec<Upper>> {
    let share = heads / groups.max(1);
    let s = options.scale.abs();
    let mut worst = vec![0.0f64; heads];
    let weight = |map: &Map, h: usize, heads: usize| {
        map.head(h, heads).values(rule.known.tape).swap_remove(0)
    };
    for point in points(rule, options).ok()? {
        let h = point.head;
        let (w_q, w_k) = (weight(q, h, heads), weight(k, h / share, groups));
        let w_v = weight(v, h / share, groups);
        let mut asking = 0.0f64;
        for p in point.p.outer_iter() {
            let between = covariance(p, point.v.view(), point.k.view()).dot(&w_q);
            asking = larger(asking, norm(&between));
        }
        let asked = point.of_keys(point.q.dot(&w_k).view());
        let own = norm(&point.p) * norm(&w_v);
        worst[h] = larger(worst[h], own + s * (asking + asked));
    }
    Some(worst.into_iter().map(rounded).collect())
}

/// Σ_j p_j (a_j − ā) (b_j − b̄)ᵀ.
fn covariance(
    p: ArrayView1<'_, f64>,
    a: ArrayView2<'_, f64>,
    b: ArrayView2<'_, f64>,
) -> Array2<f64> {
    let weighted = centred(p, a) * p.insert_axis(Axis(1));
    weighted.t().dot(&centred(p, b))
}

/// The rows a_j − ā, ā = Σ_j p_j a_j.
fn centred(p: ArrayView1<'_, f64>, a: ArrayView2<'_, f64>) -> Array2<f64> {
    &a - &p.dot(&a)
}
