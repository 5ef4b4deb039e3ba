//! "The Lipschitz Constant of Self-Attention" (Kim, Papamakarios and Mnih, ICML 2021): its theorems,
//! including those that do not hold as printed (E2, E3, E13, E14).

use super::support::{cases, near, tokens};
use emmy::autodiff::jacobian;
use emmy::lipschitz::{
    Ascent, Domain, Lp, Objective, bound, invert, iterate, jacobian_norm, quotient,
};
use emmy::ndarray::Ix2;
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass, Score, Trace};
use emmy::ops::attention::Mask;
use emmy::sparse::Pattern;
use emmy::{Tape, Tensor, Var, init, tensor::tensor};

type Attention = MultiHeadAttention<f64>;

fn layer(config: AttentionConfig, seed: u64) -> Attention {
    MultiHeadAttention::new(config, &mut init::rng(seed)).unwrap()
}

fn contractive(width: usize, heads: usize, c: f64, p: Lp, seed: u64) -> Attention {
    layer(AttentionConfig::contractive(width, heads, c, p), seed)
}

/// One head of width 1 with all weights w.
fn scalar(score: Score, w: f64) -> Attention {
    let mut f = layer(
        AttentionConfig {
            score,
            bias: false,
            ..AttentionConfig::new(1, 1)
        },
        0,
    );
    for p in [&mut f.query, &mut f.value, &mut f.output]
        .into_iter()
        .chain(&mut f.key)
    {
        p.weight.fill(w);
    }
    f
}

fn run<'t>(f: &Attention, x: Var<'t, f64>, mask: &Mask) -> Var<'t, f64> {
    let pass = Pass::eval(x.tape(), f);
    f.forward(&pass, x, mask)
}

/// ‖J‖₂ of the map at a point.
fn norm_at(f: &Attention, x: &Tensor<f64>) -> f64 {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    jacobian_norm(run(f, x, &Mask::none()), x, Lp::Two)
        .0
        .lower
        .get()
}

/// Eq. (5) and (6) at any inputs, D = H = 1: J_ij = a Xᵀ P⁽ⁱ⁾ E_ji X + δ_ij a Xᵀ P⁽ⁱ⁾ X + P_ij with P⁽ⁱ⁾ =
/// diag(P_i) − P_iᵀ P_i, for queries and keys with weights whose product is a; Eq. (7), Xᵀ P⁽ⁱ⁾ X is the
/// variance under P_i.
#[test]
fn the_jacobian_of_dot_product_attention() {
    let (n, a) = (5, 0.6 * 0.6);
    let mut f = scalar(Score::Dot, 1.0);
    f.query.weight.fill(0.6);
    if let Some(key) = &mut f.key {
        key.weight.fill(0.6);
    }
    for seed in cases(20) {
        let x = tokens(n, 1, seed);
        let tape = Tape::new();
        let v = tape.var(x.clone().into_shared());
        let j = jacobian(run(&f, v, &Mask::none()), v);
        let at = |i: usize| x[[i, 0]];
        for i in 0..n {
            let total: f64 = (0..n).map(|k| (a * at(i) * at(k)).exp()).sum();
            let p = |k: usize| (a * at(i) * at(k)).exp() / total;
            let mean: f64 = (0..n).map(|k| p(k) * at(k)).sum();
            // Entry k of Xᵀ P⁽ⁱ⁾.
            let spread = |k: usize| p(k) * (at(k) - mean);
            let variance: f64 = (0..n).map(|k| spread(k) * at(k)).sum();
            let about: f64 = (0..n).map(|k| p(k) * (at(k) - mean).powi(2)).sum();
            near(variance, about, 1e-12);
            for k in 0..n {
                let own = if i == k { a * variance } else { 0.0 };
                // The terms may cancel.
                let terms = [a * spread(k) * at(i), own, p(k)];
                let size: f64 = terms.iter().map(|term| term.abs()).sum();
                let (found, expected) = (j[[i, 0, k, 0]], terms.iter().sum::<f64>());
                assert!(
                    (found - expected).abs() <= 1e-12 * size,
                    "{found} and {expected}"
                );
            }
        }
    }
}

/// Theorem 3.1, exactly: with D = H = 1 and x_i = 0, J_ii = a Var(x) + 1/N, a the product of the weights of
/// queries and keys. So the norm grows without bound.
#[test]
fn dot_product_attention_is_not_lipschitz() {
    let f = scalar(Score::Dot, 1.0);
    for seed in cases(20) {
        let mut x = tokens(6, 1, seed) * (1.0 + seed as f64);
        x[[2, 0]] = 0.0;
        let tape = Tape::new();
        let v = tape.var(x.clone().into_shared());
        let j = jacobian(run(&f, v, &Mask::none()), v);
        let mean = x.sum() / 6.0;
        let variance = x.mapv(|x| (x - mean).powi(2)).sum() / 6.0;
        near(j[[2, 0, 2, 0]], variance + 1.0 / 6.0, 1e-12);
    }
    let at = |t: f64| norm_at(&f, &tensor(&[3, 1], vec![0.0, t, -t]));
    assert!(at(100.0) > 50.0 * at(10.0) && at(1000.0) > 50.0 * at(100.0));
    // Biases of queries and keys do not help (Appendix D): they only shift the inputs at which the norm is
    // large.
    let mut biased = layer(AttentionConfig::new(1, 1), 0);
    for map in [&mut biased.query, &mut biased.value, &mut biased.output] {
        map.weight.fill(1.0);
        map.bias.as_mut().unwrap().fill(0.7);
    }
    let key = biased.key.as_mut().unwrap();
    key.weight.fill(1.0);
    key.bias.as_mut().unwrap().fill(-0.4);
    let at = |t: f64| norm_at(&biased, &tensor(&[3, 1], vec![-0.7, t - 0.7, -t - 0.7]));
    assert!(at(1000.0) > 50.0 * at(100.0));
}

/// E13: "all weights ≠ 0" does not make dot-product attention unbounded; it is necessary that W_Q W_Kᵀ ≠ 0
/// and that a part of the output does not vanish.
#[test]
fn weights_that_are_not_zero_may_still_give_a_linear_map() {
    // W_Q reads the first feature into the first neuron of the head, W_K the first into the second.
    let plain = AttentionConfig {
        bias: false,
        ..AttentionConfig::new(2, 1)
    };
    let mut f = layer(plain, 1);
    f.query.weight = tensor(&[2, 2], vec![1.0, 0.0, 0.0, 0.0]);
    f.key.as_mut().unwrap().weight = tensor(&[2, 2], vec![0.0, 0.0, 1.0, 0.0]);
    for t in [1.0, 1e3, 1e6] {
        let x = (tokens(4, 2, 3) * t).into_shared();
        let tape = Tape::new();
        let y = run(&f, tape.constant(x.clone()), &Mask::none()).value();
        // P is uniform: all rows are the map of the mean.
        for ((_, j), a) in y
            .clone()
            .into_dimensionality::<Ix2>()
            .unwrap()
            .indexed_iter()
        {
            near(*a, y[[0, j]], 1e-12);
        }
        near(
            norm_at(&f, &x),
            norm_at(&f, &tokens(4, 2, 9).into_shared()),
            1e-9,
        );
    }
    // Two equal heads whose outputs cancel: F = 0.
    let mut f = layer(
        AttentionConfig {
            bias: false,
            ..AttentionConfig::new(2, 2)
        },
        2,
    );
    let (w, one) = (0.8, vec![1.0, 0.5, 1.0, 0.5]);
    f.query.weight = tensor(&[2, 2], one.clone()) * w;
    f.key.as_mut().unwrap().weight = tensor(&[2, 2], one.clone());
    f.value.weight = tensor(&[2, 2], one);
    f.output.weight = tensor(&[2, 2], vec![1.0, -1.0, 1.0, -1.0]);
    assert!(norm_at(&f, &(tokens(5, 2, 1) * 100.0).into_shared()) < 1e-9);
}

/// Theorem 3.2 in both norms, without a mask and with a causal one: no Jacobian and no quotient exceeds the
/// bound.
#[test]
fn l2_attention_with_tied_weights_is_lipschitz() {
    for seed in cases(30) {
        let (n, d, heads) = (
            1 + seed as usize % 5,
            2 + 2 * (seed as usize % 2),
            1 + seed as usize % 2,
        );
        let mut f = layer(AttentionConfig::l2(d, heads), seed);
        let stretch = [0.3, 1.0, 3.0][seed as usize % 3];
        f.query.weight.mapv_inplace(|w| w * stretch);
        for mask in [Mask::none(), Mask::causal()] {
            let x = (tokens(n, d, seed) * [0.3, 1.0, 3.0][seed as usize / 3 % 3]).into_shared();
            let tape = Tape::new();
            let v = tape.var(x.clone());
            let y = run(&f, v, &mask);
            let other = (&x + &(tokens(n, d, seed + 100) * 0.5)).into_shared();
            for p in [Lp::Two, Lp::Inf] {
                let upper = bound(y, v, p, Domain::Everywhere).unwrap().upper();
                let (at, _) = jacobian_norm(y, v, p);
                assert!(
                    at.lower.get() <= upper.get(),
                    "seed {seed}, p = {p}: {at} above {upper}"
                );
                let far = quotient(|x| run(&f, x, &mask), &x, &other, p);
                assert!(
                    far.get() <= upper.get(),
                    "seed {seed}, p = {p}: {far} above {upper}"
                );
            }
        }
    }
}

/// Padding hides a token from itself. At (R, −R, 0) the third token, which sees the first two alone, has the
/// derivative 2R² with respect to itself.
#[test]
fn a_token_that_does_not_see_itself_has_no_constant() {
    let mut f = layer(AttentionConfig::l2(1, 1), 0);
    for map in [&mut f.query, &mut f.value, &mut f.output] {
        map.weight.fill(1.0);
    }
    let edges = |list: &[(usize, usize)]| Pattern::from_pairs(3, 3, list).unwrap();
    let without_last = tensor(
        &[3, 3],
        vec![true, true, true, true, true, true, true, true, false],
    );
    let hiding = [
        Mask::lengths(&[2]),
        Mask::allowed(without_last),
        Mask::edges(edges(&[(0, 0), (1, 1), (2, 0), (2, 1)])),
        Mask::all_but(edges(&[(2, 2)])),
    ];
    for mask in hiding {
        for far in [1.0, 10.0] {
            let tape = Tape::new();
            let x = tape.var(tensor(&[3, 1], vec![far, -far, 0.0]));
            let y = run(&f, x, &mask);
            near(jacobian(y, x)[[2, 0, 2, 0]], 2.0 * far * far, 1e-12);
            for p in [Lp::Two, Lp::Inf] {
                assert!(bound(y, x, p, Domain::Everywhere).is_err(), "{mask:?}");
            }
        }
    }
    let showing = [
        Mask::lengths(&[3]),
        Mask::edges(edges(&[(0, 0), (0, 2), (1, 1), (2, 1), (2, 2)])),
        Mask::all_but(edges(&[(0, 1), (1, 2)])).with_lengths(&[3]),
    ];
    for mask in showing {
        let tape = Tape::new();
        let x = tape.var(tensor(&[3, 1], vec![1.0, -1.0, 0.0]));
        assert!(bound(run(&f, x, &mask), x, Lp::Inf, Domain::Everywhere).is_ok());
    }
}

/// With all norms 1 and d = 1, the constant in the norm ‖·‖_∞ is 4 φ⁻¹(n − 1) + 1.
#[test]
fn the_constant_has_the_inverse_of_phi() {
    let mut f = layer(AttentionConfig::l2(1, 1), 0);
    for map in [&mut f.query, &mut f.value, &mut f.output] {
        map.weight.fill(1.0);
    }
    let inverse = |n: usize| {
        let tape = Tape::new();
        let constant = f
            .lipschitz(&Pass::eval(&tape, &f), n, Lp::Inf, None)
            .unwrap();
        (constant.upper().get() - 1.0) / 4.0
    };
    assert!(inverse(1).abs() < 1e-14);
    for n in [1, 2, 5, 9, 29, 99, 999, 1_000_000] {
        let x = inverse(n + 1);
        let back = x * (x + 1.0).exp() / n as f64;
        assert!(
            (1.0 - 1e-13..1.0 + 1e-11).contains(&back),
            "φ({x}) is {back} of {n}"
        );
    }
    // The printed value at N = 10 would be 1.1569.
    assert!((inverse(10) - 1.1010).abs() < 5e-5);
}

/// E3: with ‖W_Q‖₂² under the root, as printed, the bound is too small: F is quadratic in W_Q.
#[test]
fn the_printed_bound_in_the_two_norm_is_too_small() {
    let mut f = layer(AttentionConfig::l2(2, 1), 0);
    let eye = |s: f64| tensor(&[2, 2], vec![s, 0.0, 0.0, s]);
    f.query.weight = eye(5.0);
    f.value.weight = eye(1.0);
    f.output.weight = eye(1.0);
    let x = tensor(&[1, 2], vec![0.3, -0.2]);
    let (truth, printed) = (norm_at(&f, &x), 5.0 / 2f64.sqrt());
    near(truth, 25.0 / 2f64.sqrt(), 1e-9);
    near(printed, 3.5355, 1e-4);
    let trace = Trace::at(&f, &x, |pass, x| f.forward(pass, x, &Mask::none()));
    let upper = trace.lipschitz(Lp::Two).unwrap().upper.get();
    assert!(printed < truth && truth <= upper && upper < truth * (1.0 + 1e-8));
}

/// Lemma F.1: with weights that are not tied, L2 attention has no constant; the witness of the errata.
#[test]
fn untied_weights_have_no_constant() {
    let mut f = scalar(Score::L2, 1.0);
    f.key.as_mut().unwrap().weight.fill(-1.0);
    let at = |t: f64| norm_at(&f, &tensor(&[2, 1], vec![t, -3.0 * t]));
    assert!(at(100.0) > 80.0 * at(10.0) && at(1000.0) > 80.0 * at(100.0));
    let x = tensor(&[2, 1], vec![1.0, -3.0]);
    let trace = Trace::at(&f, &x, |pass, x| f.forward(pass, x, &Mask::none()));
    assert!(trace.lipschitz(Lp::Two).is_err());
}

/// Figure 2: with all weights 1, ascent on the Jacobian's norm comes close to the bound, which grows as log N
/// − log log N.
#[test]
fn the_bound_is_tight_up_to_a_constant() {
    let mut f = scalar(Score::L2Tied, 1.0);
    f.config.metric_values = true;
    for (n, least, most) in [(2, 1.55, 2.12), (10, 4.2, 5.41)] {
        let search = Ascent {
            restarts: 6,
            steps: 150,
            spread: 2.0,
            rate: 0.1,
            ..Ascent::new(Objective::Row(0), 0)
        };
        let found = search.run(&[n, 1], |x| run(&f, x, &Mask::none()));
        let tape = Tape::new();
        let x = tape.var(found.at.clone());
        let upper = bound(run(&f, x, &Mask::none()), x, Lp::Inf, Domain::Everywhere)
            .unwrap()
            .upper();
        assert!(upper.get() < most, "{upper} at n = {n}");
        assert!(found.lower.get() >= least, "{} at n = {n}", found.lower);
        assert!(found.lower.get() <= upper.get());
    }
}

/// A fixed-point iteration inverts contractive blocks x + y to 1e-10 within the predicted number of steps.
#[test]
fn contractive_attention_is_inverted() {
    for (seed, c) in [(0, 0.5), (1, 0.7), (2, 0.9)] {
        let f = contractive(6, 2, c, Lp::Two, seed);
        let g = |x: &Tensor<f64>| {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, &f);
            f.forward(&pass, tape.constant(x.clone()), &Mask::none())
                .value()
        };
        let x = (tokens(7, 6, seed) * 2.0).into_shared();
        let trace = Trace::at(&f, &x, |pass, x| f.forward(pass, x, &Mask::none()));
        let certified = trace.lipschitz(Lp::Two).unwrap();
        assert!(certified.upper.get() <= c * (1.0 + 1e-9) && !certified.is_contradicted(1e-9));
        let y = (&x + &g(&x)).into_shared();
        let inverse = invert(g, &y, certified.upper, 1e-10).unwrap();
        let error = (&inverse.x - &x).mapv(|e| e * e).sum().sqrt();
        assert!(
            error <= 1e-10 && inverse.error <= 1e-10,
            "c = {c}: {error}, promised {}",
            inverse.error
        );
        let first = inverse.residuals[0];
        let predicted = ((1e-10 * (1.0 - c) / first).ln() / c.ln()).ceil() as usize;
        assert!(
            inverse.steps <= predicted,
            "{} steps of {predicted}",
            inverse.steps
        );
    }
}

/// E14: x + F(x)/Lip F need not be invertible: with W_O = −1 and one token, F = −x.
#[test]
fn a_factor_of_one_does_not_suffice() {
    let mut f = contractive(1, 1, 1.0, Lp::Two, 0);
    for map in [&mut f.query, &mut f.value] {
        map.weight.fill(1.0);
    }
    f.output.weight.fill(-1.0);
    let g = |x: &Tensor<f64>| {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &f);
        f.forward(&pass, tape.constant(x.clone()), &Mask::none())
            .value()
    };
    let x = tensor(&[1, 1], vec![3.0]);
    near(g(&x)[[0, 0]], -3.0, 1e-9);
    let y = (&x + &g(&x)).into_shared();
    assert!(y[[0, 0]].abs() < 1e-8);
    let refused = invert(g, &y, f.contraction().unwrap(), 1e-9)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("need not be invertible"), "{refused}");
    // The iteration can be tried without a guarantee; here it ends at another x.
    let tried = iterate(g, &y, 50).unwrap();
    assert!((tried.x[[0, 0]] - 3.0).abs() > 1.0);
}

/// Derivatives flow through the divisor, and a training step changes it; with stopped gradients none flow
/// through it.
#[test]
fn derivatives_flow_through_the_divisor() {
    let mut f = contractive(4, 2, 0.9, Lp::Inf, 5);
    let x = tokens(5, 4, 5).into_shared();
    let loss = |theta: &[Tensor<f64>], f: &Attention| {
        let tape = Tape::new();
        let vars: Vec<_> = theta.iter().map(|t| tape.var(t.clone())).collect();
        let pass = Pass::bound(&tape, f, &vars);
        let y = f.forward(&pass, tape.constant(x.clone()), &Mask::none());
        let loss = (y * y).sum_all();
        (loss.item(), emmy::autodiff::grad(loss, &vars))
    };
    use emmy::nn::Module;
    let theta: Vec<Tensor<f64>> = f.tensors().into_iter().cloned().collect();
    let numeric = |k: usize, f: &Attention| {
        let h = 1e-6;
        let at = |s: f64| {
            let mut moved = theta.clone();
            moved[k].as_slice_mut().unwrap()[0] += s;
            loss(&moved, f).0
        };
        (at(h) - at(-h)) / (2.0 * h)
    };
    let (_, through) = loss(&theta, &f);
    for (k, g) in through.iter().enumerate() {
        let (a, b) = (g.as_slice().unwrap()[0], numeric(k, &f));
        assert!((a - b).abs() <= 1e-5 * (1e-3 + b.abs()), "{k}: {a} and {b}");
    }
    f.config.contraction.as_mut().unwrap().stop_gradient = true;
    let (_, stopped) = loss(&theta, &f);
    assert!(
        stopped
            .iter()
            .zip(&through)
            .any(|(a, b)| (a - b).mapv(f64::abs).sum() > 1e-6)
    );
}
