//! The constant of attention in the 2-norm if queries, keys and values are limited: on a set of inputs, or at
//! one input.
//!
//! | letter | meaning |
//! |---|---|
//! | s | the factor of the scores, t_i included |
//! | P | the coefficients, n × m |
//! | m_i, k̄_i | Σ_j P_ij v_j and Σ_j P_ij k_j |
//! | C_i | the covariance of values and keys under P_i |
//! | λ_i | the largest eigenvalue of the covariance of the values under P_i |
//!
//! dy_i = Σ_j P_ij dv_j + s C_i dq_i + s Σ_j P_ij (v_j − m_i) (q_i · dk_j), so with constants L_q, L_k, L_v
//! of the three operands
//!
//! L ≤ ‖P‖₂ L_v + s max_i ‖C_i‖ L_q + s max_j ‖Σ_i P_ij λ_i q_i q_iᵀ‖^½ L_k,
//!
//! since the last sum of query i has a squared norm of at most λ_i Σ_j P_ij (q_i · dk_j)².
//!
//! On inputs whose values, keys and queries have rows of at most V, K and Q, ‖C_i‖ ≤ V K, and the scores of
//! a query differ by at most r = 2 s (Q K + max |β_j|). There [`shares`](super::shares) limits the other two
//! parts: a bound σ stands for ‖P‖₂, and the last part is s σ′ Q V L_k with a bound σ′² of Σ_ij P_ij²
//! ‖v_j − m_i‖² / V². They are √n and √(n/2) where scores are large.
//!
//! Dot-product attention has no constant on all inputs (Kim et al., "The Lipschitz Constant of
//! Self-Attention", ICML 2021, Theorem 3.1).

use super::heads::HeadMaps;
use super::known::{Domain, Slot};
use super::matrix::Matrix;
use super::operands::{Map, maps_of};
use super::recorded::{at_point, at_point_of_self};
use super::rule::Rule;
use super::shares::{Share, Shares};
use super::tree::{Tree, number, product, root, sum};
use crate::linalg::{Lp, Upper};
use crate::ops::attention::DenseAttention;
use crate::real::Real;
use std::rc::Rc;

/// How queries are compared with keys: the options, and the nodes of β and t if they are there.
pub(super) struct Scores<'a> {
    pub options: &'a DenseAttention,
    pub beta: Option<usize>,
    pub t: Option<usize>,
}

/// The constant of `attend`, computed from the constants of queries, keys and values. If all three are maps
/// of one operand u, it is also computed from the constant of u, and the smaller result counts.
pub(super) fn bound<F: Real>(
    rule: &Rule<'_, '_, F>,
    scores: &Scores<'_>,
) -> Result<Rc<Tree>, String> {
    let known = rule.known;
    if known.p != Lp::Two {
        return Err(format!(
            "attention, which has bounds in the 2-norm only, not for p = {}",
            known.p
        ));
    }
    if rule.constants[3..].iter().any(Option::is_some) {
        return Err(
            "attention whose scores have summands or factors that depend on the input".into(),
        );
    }
    // Dropout multiplies each coefficient by 0 or by this factor: values of their own for each query.
    let kept = kept(scores.options);
    if kept > Upper::ONE && known.domain == Domain::Here {
        return Err("attention with dropout, which has no bound at a point".into());
    }
    let apart = of_parts(rule, scores)?;
    let bound = match of_self(rule, scores) {
        Some(together) => Rc::new(Tree::Min(vec![apart, together])),
        None => apart,
    };
    Ok(product(vec![Rc::new(Tree::Number(kept)), bound]))
}

/// The factor of the coefficients that dropout keeps.
pub(super) fn kept(options: &DenseAttention) -> Upper {
    match options.dropout {
        Some((p, _)) if p > 0.0 => Upper::new((1.0 - p).recip().next_up()),
        _ => Upper::ONE,
    }
}

/// From the constants of queries, keys and values.
fn of_parts<F: Real>(rule: &Rule<'_, '_, F>, scores: &Scores<'_>) -> Result<Rc<Tree>, String> {
    let known = rule.known;
    let [_, heads, groups] = sizes(rule);
    let share = heads / groups.max(1);
    let [of_q, of_k, of_v] = match known.domain {
        Domain::Here => at_point(rule, scores.options)?.map(|x| Rc::new(Tree::Here(x))),
        _ => {
            // ‖C_i‖ and λ_i are at most the products of the largest rows.
            let row = |k: usize, name: &str| {
                let id = rule.arg(k);
                match known.moves(id) {
                    false => Ok(Rc::new(Tree::MaxRow(id))),
                    true => known.reach(id).row.ok_or(format!(
                        "attention by dot products, whose {name} depend on the input and have no limits \
                         (it has a bound behind a norm, and on `Domain::Rows`, `Domain::Ball` and \
                         `Domain::Here`)"
                    )),
                }
            };
            let scale = scale(scores);
            let [q, k, v] = [row(0, "queries")?, row(1, "keys")?, row(2, "values")?];
            let [all, halves] = shares(rule, scores, product(vec![q.clone(), k.clone()]));
            [
                product(vec![scale.clone(), v.clone(), k]),
                product(vec![scale, halves, q, v]),
                all,
            ]
        }
    };
    let parts = [(0, of_q, 1), (1, of_k, share), (2, of_v, share)];
    let parts = parts.into_iter().filter_map(|(k, factor, share)| {
        let own = rule.constants[k].clone()?;
        Some(product(vec![factor, root(share), own]))
    });
    Ok(sum(parts.collect()))
}

/// Queries, heads and groups.
fn sizes<F: Real>(rule: &Rule<'_, '_, F>) -> [usize; 3] {
    let (q, k) = (rule.shape(rule.arg(0)), rule.shape(rule.arg(1)));
    [q[q.len() - 3], q[q.len() - 2], k[k.len() - 2]]
}

/// σ and σ′, if no product of a query and a key is larger than `size`.
fn shares<F: Real>(rule: &Rule<'_, '_, F>, scores: &Scores<'_>, size: Rc<Tree>) -> [Rc<Tree>; 2] {
    let ([n, ..], k) = (sizes(rule), rule.shape(rule.arg(1)));
    let size = match scores.beta {
        Some(beta) => sum(vec![size, Rc::new(Tree::MaxAbs(beta))]),
        None => size,
    };
    let range = product(vec![number(2.0), scale(scores), size]);
    let (mask, queries) = (&scores.options.mask, [n, k[k.len() - 3]]);
    [Share::Coefficients, Share::Deviations]
        .map(|of| Rc::new(Tree::Shares(Shares::new(of, mask, queries), range.clone())))
}

/// s.
fn scale(scores: &Scores<'_>) -> Rc<Tree> {
    let scale = number(scores.options.scale.abs());
    match scores.t {
        Some(t) => product(vec![scale, Rc::new(Tree::MaxAbs(t))]),
        None => scale,
    }
}

/// The constant for q = W_Q u + b_Q, k = W_K u + b_K and v = W_V u + b_V. It uses A = W_Kᵀ W_Q of each head,
/// which does not change under the symmetry q → gq, k → g⁻ᵀk (the product of the norms of W_K and W_Q does):
///
/// L_h ≤ ‖P‖₂ ‖W_V‖ + s max_i ‖W_V S_i A‖ + s max_j ‖Σ_i P_ij λ_i a_i a_iᵀ‖^½, L ≤ √Σ_h L_h² L_u,
///
/// where S_i is the covariance of u under P_i, and a_i = W_Kᵀ q_i.
///
/// On the inputs with ‖u_j‖ ≤ R, ‖S_i‖ ≤ R² and ‖a_i‖ ≤ ‖A‖ R + ‖W_Kᵀ b_Q‖. This number times 2 s R
/// limits how far the scores of a query differ; a bias of the keys adds one number to all of them. Then σ
/// stands for ‖P‖₂, and σ′ R ‖W_V‖ max_i ‖a_i‖ for the last root.
fn of_self<F: Real>(rule: &Rule<'_, '_, F>, scores: &Scores<'_>) -> Option<Rc<Tree>> {
    let known = rule.known;
    let [q, k, v] = maps_of(rule)?;
    let Slot::Moves(own) = known.slot(q.from) else {
        return None;
    };
    if k.from != q.from || v.from != q.from {
        return None;
    }
    let [_, heads, groups] = sizes(rule);
    let share = heads / groups.max(1);
    let of_heads: Vec<Rc<Tree>> = match known.domain {
        Domain::Here => {
            let each = at_point_of_self(rule, scores.options, [heads, groups], [&q, &k, &v])?;
            each.into_iter().map(|x| Rc::new(Tree::Here(x))).collect()
        }
        _ => {
            let means = means(rule, scores, [&q, &k])?;
            let of = |(h, mean): (usize, Rc<Tree>)| {
                let value = v.head(h / share, groups);
                let value = Rc::new(Tree::Norm(Lp::Two, vec![value]));
                product(vec![value, mean])
            };
            means.into_iter().enumerate().map(of).collect()
        }
    };
    Some(product(vec![Rc::new(Tree::Hypot(of_heads)), own]))
}

/// c_h: the constants in u of the means P_h u of each head, on inputs of limited size.
fn means<F: Real>(
    rule: &Rule<'_, '_, F>,
    scores: &Scores<'_>,
    [q, k]: [&Map; 2],
) -> Option<Vec<Rc<Tree>>> {
    let [_, heads, groups] = sizes(rule);
    let share = heads / groups.max(1);
    let row = rule.known.reach(q.from).row?;
    let of = |h: usize| {
        let (w_q, w_k) = (q.head(h, heads), k.head(h / share, groups));
        let form = Rc::new(Tree::Norm(Lp::Two, vec![w_k.clone().t(), w_q]));
        let asked = product(vec![form.clone(), row.clone()]);
        let asked = match q.bias {
            // ‖W_Kᵀ b‖ ≤ ‖W_K‖ ‖b‖, the bias of all heads together.
            Some(bias) => {
                let key = Rc::new(Tree::Norm(Lp::Two, vec![w_k]));
                sum(vec![asked, product(vec![key, Rc::new(Tree::MaxRow(bias))])])
            }
            None => asked,
        };
        let s = scale(scores);
        let [all, halves] = shares(rule, scores, product(vec![asked.clone(), row.clone()]));
        sum(vec![
            all,
            product(vec![s.clone(), form, row.clone(), row.clone()]),
            product(vec![s, halves, asked, row.clone()]),
        ])
    };
    Some((0..heads).map(of).collect())
}

/// The constant of W_O times the heads side by side, on inputs of limited size, for q, k and v that are
/// maps of one operand ([`HeadMaps`]); `None` elsewhere.
pub(super) fn behind<F: Real>(
    rule: &Rule<'_, '_, F>,
    scores: &Scores<'_>,
    output: Matrix,
) -> Option<Rc<Tree>> {
    let known = rule.known;
    let dropped = matches!(scores.options.dropout, Some((p, _)) if p > 0.0);
    if known.p != Lp::Two || known.domain == Domain::Here || dropped {
        return None;
    }
    let [q, k, v] = maps_of(rule)?;
    let Slot::Moves(own) = known.slot(q.from) else {
        return None;
    };
    if k.from != q.from || v.from != q.from {
        return None;
    }
    let [_, heads, groups] = sizes(rule);
    let maps = Tree::Heads(HeadMaps {
        output,
        value: v.weight,
        heads,
        share: heads / groups.max(1),
    });
    let means = Rc::new(Tree::Hypot(means(rule, scores, [&q, &k])?));
    Some(product(vec![Rc::new(maps), means, own]))
}
