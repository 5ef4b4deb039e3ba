//! Theorems 2 and 3 of "Lipschitz Normalization for Self-Attention Layers" (Dasoulas, Scaman and Virmaux,
//! ICML 2021) for scores that are not linear, attacked over inputs and weights.

use super::support::tokens;
use crate::cases::cases;
use emmy::lipschitz::{Domain, Lp, bound};
use emmy::nn::{Activation, LipschitzNorm, Mlp, Pass};
use emmy::tensor::{scalar, tensor};
use emmy::testing::{Attack, Subject, check_bound};
use emmy::{Tape, Tensor, Var, init};

/// Scores `[m, n]` of n inputs, with a constant of x ↦ g from the Frobenius norm to ‖·‖_(2,∞).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scores {
    /// −‖x_j − z_i‖, z_i weights. A row moves by at most max_j ‖h_j‖: √m.
    Distances,
    /// ⟨v_i, tanh(W x_j + b)⟩ + b_i, the additive scores of Bahdanau et al., 2015: ‖V‖_F ‖W‖_F.
    Additive,
    /// The same of x_j − max_k x_k, entry by entry, so that a score depends on all inputs: 1 + √n times that.
    Contrasted,
    /// ±⟨z_i, x_0⟩, the sign + for even inputs: all scores follow one input. ‖z‖_F.
    Common,
}

/// z, or v, W and b.
fn weights(scores: Scores, m: usize, d: usize, seed: u64) -> (Tensor<f64>, Mlp<f64>) {
    let rng = &mut init::rng(seed);
    let width = if scores == Scores::Distances { 1 } else { 3 };
    (
        init::normal(&[m, d], 1.0, rng),
        Mlp::new(&[d, width, m], Activation::Tanh, true, rng),
    )
}

/// g, and the constant.
fn scored<'t>(
    scores: Scores,
    (z, net): &(Tensor<f64>, Mlp<f64>),
    pass: &Pass<'t, '_, f64>,
    x: Var<'t, f64>,
) -> [Var<'t, f64>; 2] {
    let (n, m) = (x.shape()[0], z.shape()[0]);
    let size = |k: usize| pass.param(&net.layers[k].weight).norm(&[], false);
    let l = size(0) * size(1);
    let of = |x: Var<'t, f64>| net.forward(pass, x).t();
    match scores {
        Scores::Distances => {
            let apart = x.unsqueeze(0) - pass.param(z).unsqueeze(1);
            let l = pass.tape().constant(scalar((m as f64).sqrt()));
            [-apart.norm(&[2], false), l]
        }
        Scores::Additive => [of(x), l],
        Scores::Common => {
            let signs = (0..n).map(|j| if j % 2 == 0 { 1.0 } else { -1.0 });
            let signs = pass.tape().constant(tensor(&[1, n], signs.collect()));
            let z = pass.param(z);
            [z.matmul(x.slice(0, 0..1).t()) * signs, z.norm(&[], false)]
        }
        Scores::Contrasted => {
            let largest = x.max(&[0], true).broadcast_to(&x.shape());
            [of(x - largest), l.scale(1.0 + (n as f64).sqrt())]
        }
    }
}

/// Theorem 3: found ≤ S + 2α, S the size of the softmax, and at least the stated part of it is reached.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn theorem_3_is_attacked() {
    for (scores, alpha, least) in [
        (Scores::Distances, 1.0, 0.3),
        (Scores::Distances, 0.25, 0.55),
        (Scores::Additive, 1.0, 0.45),
        (Scores::Additive, 3.0, 0.32),
        (Scores::Contrasted, 1.0, 0.27),
        (Scores::Common, 1.0, 0.49),
    ] {
        let mut best = 0.0_f64;
        for seed in 0..3 {
            let (n, m, d) = (4, 2, 2);
            let net = weights(scores, m, d, seed);
            let subject = Subject::new(&net, &tokens(n, d, seed), seed, |pass, x| {
                let [g, l] = scored(scores, &net, pass, x);
                LipschitzNorm { alpha }.attend(g, x, l)
            });
            let attack = Attack {
                steps: 150,
                weights: true,
                ..Attack::default()
            };
            let by = LipschitzNorm { alpha };
            let constant = by.constant_of_scores(n, m).unwrap().get();
            let report = check_bound(&subject, Lp::Two, constant, &attack).assert();
            best = best.max(report.rows[0].r.expect("a bound"));
        }
        println!("Theorem 3, {scores:?}, α = {alpha}: r = {best:.4}");
        assert!(best >= least, "{scores:?}, α = {alpha}: r = {best}");
    }
}

/// Theorem 2 asks of a divisor c, of scores g, inputs X and R = ‖Xᵀ‖_(∞,2): ‖g‖_∞ ≤ αc, R ‖Dg‖ ≤ αc, and R
/// ‖Dc‖ ‖g‖_(2,∞) ≤ αc². Eq. (15) has all three along every direction for α = 1.
#[test]
fn the_conditions_of_theorem_2() {
    let two_infinity = |g: &Tensor<f64>| {
        let row = |row: emmy::ndarray::ArrayView1<'_, f64>| {
            row.iter().fold(0.0, |a: f64, x| a.max(x.abs()))
        };
        g.rows()
            .into_iter()
            .map(|r| row(r).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    for scores in [
        Scores::Distances,
        Scores::Additive,
        Scores::Contrasted,
        Scores::Common,
    ] {
        for seed in cases(20) {
            let (n, m, d) = (4, 2, 2);
            let net = weights(scores, m, d, seed);
            // g and c at x.
            let at = |x: &Tensor<f64>| {
                let tape = Tape::new();
                let pass = Pass::eval(&tape, &net);
                let x = tape.var(x.clone());
                let [g, l] = scored(scores, &net, &pass, x);
                let r = x.norm(&[1], false).max_all().item();
                // What is read off the tape is no larger than the product of the norms of the maps.
                if scores == Scores::Additive {
                    let read = bound(g, x, Lp::Two, Domain::Everywhere).unwrap();
                    assert!(read.upper().get() <= l.item() * (1.0 + 1e-9), "{scores:?}");
                }
                let g = g.value();
                let c = two_infinity(&g).max(r * l.item());
                (g, c, r)
            };
            let x = tokens(n, d, seed + 50).into_shared();
            let (g, c, r) = at(&x);
            let rounded = 1.0 + 1e-6;
            assert!(g.iter().all(|g| g.abs() <= c * rounded));
            for k in 0..10 {
                let h = tokens(n, d, 1000 * seed + k).into_shared();
                let h = (&h / h.mapv(|h| h * h).sum().sqrt()).into_shared();
                let step = 1e-6;
                let (g2, c2, _) = at(&(&x + &(&h * step)).into_shared());
                let dg = two_infinity(&((&g2 - &g) / step).into_shared());
                let dc = (c2 - c).abs() / step;
                assert!(
                    r * dg <= c * rounded + 1e-6,
                    "{scores:?} {seed}: {r} {dg} {c}"
                );
                assert!(
                    r * dc * two_infinity(&g) <= c * c * rounded + 1e-6,
                    "{scores:?} {seed}"
                );
            }
        }
    }
}
