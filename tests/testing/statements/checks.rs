//! Statements that are no law of one layer, as functions of one number in them: with 1 the statement holds,
//! and with the number of its mutant it does not.

use super::tight;
use emmy::autodiff::grad;
use emmy::collapse::{Spectrum, uniformity};
use emmy::graph::generators::random_graph;
use emmy::init::{self, Balancing, Initialization, WeightInit};
use emmy::linalg::{effective_rank_of, eigh};
use emmy::ndarray::{Array1, Array2, Axis, Ix2, array};
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Mlp, Module, Pass};
use emmy::testing::Loss;
use emmy::{Tape, Tensor, Var};

/// Whether the statement of this name holds with this number in it.
pub fn holds(name: &str, change: f64) -> bool {
    match name {
        "corollary 2.3" => corollary_2_3(change),
        "corollary 2.4" => sums(change)[0],
        "equation 8" => sums(change)[1],
        "equation 9" => sums(change)[2],
        "procedure 2.6" => procedure_2_6(change),
        "lemma 6.2" => lemma_6_2(change),
        "equation 5" => equation_5(change),
        "definition 3.1" => definition_3_1(change),
        "proposition 1" => proposition_1(change),
        "proposition 2" => proposition_2(change),
        "lemma b.1" => lemma_b_1(change),
        "lemma b.2" => lemma_b_2(change),
        "lemma b.3" => lemma_b_3(change),
        "equation 25" => equation_25(change),
        _ => tight::holds(name, change),
    }
}

pub fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (a.abs() + b.abs() + 1e-6)
}

pub fn matrix(x: &Tensor<f64>) -> Array2<f64> {
    let x = x.to_owned().into_dimensionality::<Ix2>();
    x.expect("a matrix")
}

fn tensor(x: &Array2<f64>) -> Tensor<f64> {
    x.as_standard_layout().into_owned().into_dyn().into_shared()
}

fn rows(n: usize, d: usize, seed: u64) -> Array2<f64> {
    matrix(&init::normal(&[n, d], 1.0, &mut init::rng(seed)))
}

/// A GATv2 with shared weights, three layers of width 3 without biases, and its gradients.
fn gatv2(seed: u64) -> (GraphNet<f64>, Vec<Tensor<f64>>) {
    let config = GraphNetConfig {
        layers: 3,
        hidden: 3,
        dropout: 0.0,
        activation: Activation::Relu,
        ..GraphNetConfig::gcn(4, 3)
    };
    let config = config.of(Conv::gatv2(true)).biased(false);
    let config = config.attending(|a| a.dropout = 0.0);
    let neighbours = config.neighbourhood(&random_graph(6, 9, 1).symmetrise());
    let net = GraphNet::<f64>::new(config, seed).unwrap();
    let tape = Tape::new();
    let pass = Pass::train(&tape, &net, 0);
    let x = tape.constant(init::normal(&[6, 4], 1.0, &mut init::rng(seed)));
    let y = net.forward(&pass, x, &neighbours);
    let gradients = pass.gradients(Loss::Smooth.of(y, seed));
    drop(pass);
    (net, gradients)
}

/// Corollary 2.4, Eq. (8) of the first neuron with a gradient, and Eq. (9), with a factor of the outgoing
/// side.
fn sums(change: f64) -> [bool; 3] {
    let mut all = [true; 3];
    for seed in 0..5 {
        let (net, g) = gatv2(seed);
        let p = net.tensors();
        let inner = |k: usize| (p[k] * &g[k]).sum();
        // W, a of layer 1, W, a of layer 2, ..
        let side = inner(0) - inner(1);
        all[0] &= near(side, change * inner(2), 1e-9);
        let own = |k: usize, axis: usize, i: usize| {
            let (w, g) = (matrix(p[k]), matrix(&g[k]));
            let lanes = [w.index_axis(Axis(axis), i), g.index_axis(Axis(axis), i)];
            let pairs = lanes[0].iter().zip(&lanes[1]);
            pairs.map(|(w, g)| w * w * (g / w)).sum::<f64>()
        };
        let of_vector = |i: usize| p[1].iter().zip(&g[1]).nth(i).map_or(0.0, |(a, g)| a * g);
        for i in 0..3 {
            let left = own(0, 0, i) - of_vector(i);
            all[1] &= near(left, change * own(2, 1, i), 1e-9);
        }
        all[2] &= near(inner(0) - inner(1) - inner(3), change * inner(4), 1e-9);
    }
    all
}

/// dc/dt = 0 of c = ‖W[i,:]‖² − a_i² − f ‖W⁺[:,i]‖² summed over i: along −G it is −2⟨·, G⟩, here by a small
/// step.
fn corollary_2_3(change: f64) -> bool {
    let c = |net: &GraphNet<f64>| {
        let square = |k: usize| net.tensors()[k].mapv(|x| x * x).sum();
        square(0) - square(1) - change * square(2)
    };
    (0..5).all(|seed| {
        let (mut net, g) = gatv2(seed);
        let (before, step) = (c(&net), 1e-6);
        for (p, g) in net.tensors_mut().into_iter().zip(&g) {
            p.scaled_add(-step, g);
        }
        let size: f64 = g.iter().map(|g| g.mapv(|g| g * g).sum()).sum();
        (c(&net) - before).abs() / step < 1e-4 * size.sqrt().max(size)
    })
}

/// ‖W⁺[:,i]‖² is the given part of ‖W[i,:]‖², and ‖W¹[i,:]‖² of 2.
fn procedure_2_6(change: f64) -> bool {
    let (mut net, _) = gatv2(1);
    let scheme = Initialization {
        base: WeightInit::XavierNormal,
        balance: Some(Balancing::constant(2.0)),
        ..Initialization::XAVIER_ZERO
    };
    scheme.apply(&mut net, 3).unwrap();
    let p = net.tensors();
    let squares = |k: usize, axis: usize| matrix(p[k]).mapv(|w| w * w).sum_axis(Axis(axis));
    let same = |a: Array1<f64>, b: Array1<f64>| a.iter().zip(&b).all(|(a, b)| near(*a, *b, 1e-9));
    let zero = [1, 3, 5].iter().all(|&k| p[k].iter().all(|a| *a == 0.0));
    zero && same(squares(0, 1), Array1::from_elem(3, 2.0 * change))
        && same(squares(2, 0), squares(0, 1) * change)
        && same(squares(4, 0), squares(2, 1) * change)
}

/// L(λθ₁, θ₂/λ) = L(θ₁, θ₂) of a perceptron, and then ⟨θ₁, G₁⟩ = f ⟨θ₂, G₂⟩.
fn lemma_6_2(change: f64) -> bool {
    let net = Mlp::<f64>::new(&[4, 5, 3], Activation::Relu, false, &mut init::rng(3));
    let loss = |factor: f64| {
        let tape = Tape::new();
        let vars: Vec<_> = net
            .tensors()
            .into_iter()
            .map(|p| tape.var(p.clone()))
            .collect();
        let x = tape.constant(init::normal(&[6, 4], 1.0, &mut init::rng(4)));
        let h = x.linear(vars[0].scale(factor)).relu();
        let loss = Loss::Smooth.of(h.linear(vars[1].scale(1.0 / factor)), 5);
        let g = grad(loss, &vars);
        let inner = |k: usize| (net.tensors()[k] * &g[k]).sum();
        (loss.item(), [inner(0), inner(1)])
    };
    let (here, [first, second]) = loss(1.0);
    near(here, loss(1.7).0, 1e-12) && near(first, change * second, 1e-9)
}

fn softmax(x: &Array2<f64>) -> Array2<f64> {
    matrix(&Tape::new().constant(tensor(x)).softmax(-1).value())
}

/// ∂L/∂H = (D⁻¹A + f A D⁻¹) H/τ.
fn equation_5(change: f64) -> bool {
    let (h, tau) = (rows(5, 3, 1), 0.7);
    let tape = Tape::new();
    let x = tape.var(tensor(&h));
    let found = matrix(&grad(uniformity(x, tau), &[x])[0]);
    let s = softmax(&(h.dot(&h.t()) / tau));
    let expected = (&s + &(&s.t() * change)).dot(&h) / tau;
    found.iter().zip(&expected).all(|(a, b)| near(*a, *b, 1e-9))
}

/// f times the number of equal singular values.
fn definition_3_1(change: f64) -> bool {
    (1..5).all(|k| {
        let x = Array2::from_shape_fn((6, 5), |(i, j)| f64::from(i == j && i < k));
        near(
            Spectrum::of(&tensor(&x)).effective_rank(),
            change * k as f64,
            1e-12,
        )
    })
}

/// ‖(I − eeᵀ)H‖_F².
fn spread(h: &Array2<f64>) -> f64 {
    let mean = h.mean_axis(Axis(0)).expect("a row");
    (h - &mean).mapv(|x| x * x).sum()
}

fn centring(n: usize) -> Array2<f64> {
    Array2::eye(n) - Array2::from_elem((n, n), 1.0 / n as f64)
}

fn eigenvalues(x: &Array2<f64>) -> Array1<f64> {
    eigh(x.view()).0
}

/// Var(H_t) ≥ (1 + f s σ_min) Var(H_b); among the inputs the rows 10, −10, −5 (E9).
fn proposition_1(change: f64) -> bool {
    let mut inputs: Vec<_> = (0..20).map(|seed| rows(4, 2, seed) * 2.0).collect();
    inputs.push(array![[10.0], [-10.0], [-5.0]]);
    inputs.iter().all(|h| {
        let (n, s) = (h.nrows(), 1.0);
        let a = softmax(&h.dot(&h.t()));
        let q = centring(n).dot(&(Array2::eye(n) - &a));
        let values = eigenvalues(&(&q + &q.t()));
        let least = values.iter().fold(f64::INFINITY, |m, x| m.min(*x));
        let after = h * (1.0 + s) - a.dot(h) * s;
        spread(&after) >= (1.0 + change * s * least) * spread(h) - 1e-9 * spread(h)
    })
}

fn stepped(sigma: f64, s: f64) -> f64 {
    sigma * (1.0 + s - s * sigma * sigma)
}

/// If 1 + (1 − 3f σ_max²) s ≥ 0, the effective rank does not fall.
fn proposition_2(change: f64) -> bool {
    let mut all = true;
    for k in 1..60 {
        for j in 1..=k {
            for s in [0.1, 1.0, 3.0] {
                let sigma = array![0.025 * k as f64, 0.025 * j as f64];
                if 1.0 + (1.0 - 3.0 * change * sigma[0] * sigma[0]) * s < 0.0 {
                    continue;
                }
                let after = sigma.mapv(|x| stepped(x, s).abs());
                let [before, after] = [&sigma, &after].map(|x| effective_rank_of(x.view()));
                all &= after >= before - 1e-9;
            }
        }
    }
    all
}

/// The singular values after the step H ↦ (1 + s)H − s HHᵀH are |σ (1 + s − f sσ²)|.
fn equation_25(change: f64) -> bool {
    let (h, s) = (rows(4, 3, 2), 0.4);
    let after = &h * (1.0 + s) - h.dot(&h.t()).dot(&h) * s;
    let squares = |x: &Array2<f64>| eigenvalues(&x.t().dot(x)).mapv(|x| x.max(0.0));
    let expected = squares(&h).mapv(|x| x * (1.0 + s - change * s * x).powi(2));
    let sorted = |x: Array1<f64>| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        x
    };
    let pairs = sorted(squares(&after)).into_iter().zip(sorted(expected));
    pairs.into_iter().all(|(a, b)| near(a, b, 1e-9))
}

/// With the least λ for which the condition holds, Var(PX) ≥ f Var(X)/λ for all X: equality along the
/// eigenvector.
fn lemma_b_1(change: f64) -> bool {
    let (n, p) = (4, rows(4, 4, 3) + Array2::<f64>::eye(4) * 3.0);
    let (c, shift) = (centring(n), Array2::from_elem((n, n), 1.0 / n as f64));
    // C − λ PᵀCP ⪯ 0 on the centred vectors, for P that keeps them: P ← C P C + eeᵀ.
    let p = c.dot(&p).dot(&c) + &shift;
    // The direction e, in which both forms vanish, is moved out of the way.
    let inner = p.t().dot(&c).dot(&p) + &shift * 1e3;
    let (values, vectors) = eigh(inner.view());
    let k = (0..n)
        .min_by(|&i, &j| values[i].total_cmp(&values[j]))
        .expect("a value");
    let lambda = 1.0 / values[k];
    let condition = eigenvalues(&(&c - &(p.t().dot(&c).dot(&p) * lambda)));
    let worst = vectors.column(k).insert_axis(Axis(1)).to_owned();
    let mut inputs: Vec<_> = (0..10).map(|seed| rows(n, 2, seed)).collect();
    inputs.push(worst);
    condition.iter().all(|x| *x < 1e-9)
        && inputs.iter().all(|x| {
            let bound = change * spread(x) / lambda;
            spread(&p.dot(x)) >= bound - 1e-9 * bound
        })
}

/// Weyl: γ_k ≤ α_i + f β_j for i + j = k + 1, in descending order; equality for multiples.
fn lemma_b_2(change: f64) -> bool {
    let symmetric = |seed: u64| {
        let x = rows(4, 4, seed);
        &x + &x.t() + Array2::<f64>::eye(4) * 9.0
    };
    (0..10).all(|seed| {
        let a = symmetric(seed);
        let b = if seed == 0 {
            a.clone()
        } else {
            symmetric(seed + 50)
        };
        let descending = |x: Array2<f64>| {
            let mut x = eigenvalues(&x).to_vec();
            x.sort_by(|a, b| b.total_cmp(a));
            x
        };
        let sum = descending(&a + &b);
        let (a, b) = (descending(a), descending(b));
        (0..4).all(|k| (0..=k).all(|i| sum[k] <= a[i] + change * b[k - i] + 1e-9))
    })
}

/// σ_i/λ_i increasing in i gives erank(B) ≥ erank(A); f = −1 reverses the order of the ratios.
fn lemma_b_3(change: f64) -> bool {
    let lambda = array![3.0_f64, 2.0, 1.0, 0.5];
    let ratio = array![1.0_f64, 1.2, 1.4, 1.9];
    let sigma = &lambda * &ratio.mapv(|r| r.powf(change));
    let rank = |squares: &Array1<f64>| effective_rank_of(squares.mapv(f64::sqrt).view());
    rank(&sigma) >= rank(&lambda)
}

/// A constant of the tape, for `tight`.
pub fn constant<'t>(tape: &'t Tape<f64>, x: &Array2<f64>) -> Var<'t, f64> {
    tape.constant(tensor(x))
}
