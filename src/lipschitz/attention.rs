//! The constant of attention in the 2-norm, where queries, keys and values are limited: on a set of inputs,
//! or at one.
//!
//! | letter | meaning |
//! |---|---|
//! | s | the factor of the scores, t_i included |
//! | P | the coefficients, n × m; c = max_j Σ_i P_ij |
//! | m_i, k̄_i | Σ_j P_ij v_j and Σ_j P_ij k_j |
//! | Σ_i, C_i | the P-weighted covariance of the values of query i, and of values with keys |
//!
//! dy_i = Σ_j P_ij dv_j + s C_i dq_i + s Σ_j P_ij (v_j − m_i) (q_i · dk_j), so with constants L_q, L_k, L_v
//! of the three operands
//!
//! L ≤ √c L_v + s max_i ‖C_i‖ L_q + s √c max_i (‖q_i‖ √λ₁(Σ_i)) L_k.
//!
//! Dot-product attention has no constant on all inputs (Kim et al., "The Lipschitz Constant of
//! Self-Attention", ICML 2021, Theorem 3.1).

use super::bound::Tree;
use super::rules::{Rule, number, root, sum};
use super::walk::{Domain, product};
use crate::autodiff::Tape;
use crate::linalg::{Lp, Upper};
use crate::ops::attention::{Compared, DenseAttention, Scored};
use crate::real::Real;
use ndarray::{Array1, Array2, ArrayView2, Axis};
use std::rc::Rc;

/// The constant of `attend`.
pub(super) fn bound<F: Real>(rule: &Rule<'_, '_, F>) -> Result<Rc<Tree>, String> {
    let walk = rule.walk;
    if walk.p != Lp::Two {
        return Err(format!(
            "attention, which has bounds in the 2-norm only, not for p = {}",
            walk.p
        ));
    }
    if rule.constants[3..].iter().any(Option::is_some) {
        return Err(
            "attention whose scores have summands or factors that depend on the input".into(),
        );
    }
    let note = walk.tape.note::<Scored>(rule.id);
    let note = note.ok_or("attention whose scores are not known")?;
    let (heads, groups, n) = {
        let (q, k) = (rule.shape(rule.arg(0)), rule.shape(rule.arg(1)));
        (q[q.len() - 2], k[k.len() - 2], q[q.len() - 3])
    };
    let share = heads / groups.max(1);
    let constants = |k: usize| rule.constants[k].clone();
    let [of_q, of_k, of_v] = match walk.domain {
        Domain::Here => {
            let own = here(rule, &note.attention)?;
            own.map(|x| Rc::new(Tree::Here(x)))
        }
        _ => {
            // ‖C_i‖ and λ₁(Σ_i) are at most the products of the largest rows.
            let row = |k: usize, name: &str| {
                let id = rule.arg(k);
                match walk.moves(id) {
                    false => Ok(Rc::new(Tree::MaxRow(id))),
                    true => walk.reach(id).row.ok_or(format!(
                        "attention by dot products, whose {name} depend on the input and have no limits \
                         (it has a bound behind a norm, or on `Domain::Rows`)"
                    )),
                }
            };
            let mut scale = number(note.attention.scale.abs());
            if let Some(t) = note.t {
                scale = product(vec![scale, Rc::new(Tree::MaxAbs(t))]);
            }
            let [q, k, v] = [row(0, "queries")?, row(1, "keys")?, row(2, "values")?];
            [
                product(vec![scale.clone(), v.clone(), k]),
                product(vec![scale, root(n), q, v]),
                root(n),
            ]
        }
    };
    let parts = [(0, of_q, 1), (1, of_k, share), (2, of_v, share)];
    let parts = parts.into_iter().filter_map(|(k, factor, share)| {
        let own = constants(k)?;
        Some(product(vec![factor, root(share), own]))
    });
    Ok(sum(parts.collect()))
}

/// The three factors at the recorded input: of dq, dk and dv.
fn here<F: Real>(rule: &Rule<'_, '_, F>, note: &DenseAttention) -> Result<[Upper; 3], String> {
    let tape = rule.walk.tape;
    let args = tape.node(rule.id).args.clone();
    if args.len() > 3 {
        return Err("attention with summands or factors of its scores, at a point".into());
    }
    // A tape of its own: this one is being read.
    let aside = Tape::new();
    let [q, k, v] = [0, 1, 2].map(|k| aside.constant(tape.handle(args[k]).value()));
    let alpha = note.attention_coefficients(Compared::new(q, k, v)).value();
    let alpha = alpha.mapv(Real::as_f64);
    let flat = |x: ndarray::ArrayD<f64>, tail: &[usize]| {
        let shape = [&[usize::MAX], tail].concat();
        let items = x.len() / tail.iter().product::<usize>().max(1);
        let shape: Vec<usize> = shape
            .iter()
            .map(|&s| if s == usize::MAX { items } else { s })
            .collect();
        x.as_standard_layout()
            .into_owned()
            .into_shape_with_order(shape)
            .expect("as many")
    };
    let tail = |s: &[usize], k: usize| s[s.len() - k..].to_vec();
    let value = |x: crate::autodiff::Var<'_, F>| x.value().mapv(Real::as_f64).into_owned();
    let alpha = {
        let t = tail(alpha.shape(), 3);
        flat(alpha.into_owned(), &t)
    };
    let (q, k, v) = (
        flat(value(q), &tail(&q.shape(), 3)),
        flat(value(k), &tail(&k.shape(), 3)),
        flat(value(v), &tail(&v.shape(), 3)),
    );
    let (items, heads) = (alpha.shape()[0], alpha.shape()[1]);
    let share = heads / k.shape()[2].max(1);
    let s = note.scale.abs();
    let mut worst = [0.0f64; 3];
    for item in 0..items {
        for h in 0..heads {
            let matrix = |x: &ndarray::ArrayD<f64>, head: usize| {
                let x = x
                    .index_axis(Axis(0), item)
                    .index_axis(Axis(1), head)
                    .to_owned();
                x.into_dimensionality::<ndarray::Ix2>().expect("a matrix")
            };
            let p = alpha
                .index_axis(Axis(0), item)
                .index_axis(Axis(0), h)
                .to_owned();
            let p = p.into_dimensionality::<ndarray::Ix2>().expect("a matrix");
            let (q, k, v) = (matrix(&q, h), matrix(&k, h / share), matrix(&v, h / share));
            let c = p.sum_axis(Axis(0)).fold(0.0f64, |m, &x| m.max(x)).sqrt();
            worst[2] = worst[2].max(c);
            for (i, p) in p.outer_iter().enumerate() {
                let (between, within) = (
                    covariance(p, v.view(), k.view()),
                    covariance(p, v.view(), v.view()),
                );
                let norm = |a: &Array2<f64>| Lp::Two.matrix(a.view()).get();
                let length = q.row(i).dot(&q.row(i)).sqrt();
                worst[0] = worst[0].max(s * norm(&between));
                worst[1] = worst[1].max(s * c * length * norm(&within).sqrt());
            }
        }
    }
    Ok(worst.map(|x| Upper::rounded(x, 1e-9)))
}

/// Σ_j p_j (a_j − ā) (b_j − b̄)ᵀ.
fn covariance(
    p: ndarray::ArrayView1<'_, f64>,
    a: ArrayView2<'_, f64>,
    b: ArrayView2<'_, f64>,
) -> Array2<f64> {
    let centred = |x: ArrayView2<'_, f64>| {
        let mean: Array1<f64> = p.dot(&x);
        &x - &mean
    };
    let weighted = centred(a) * p.insert_axis(Axis(1));
    weighted.t().dot(&centred(b))
}
