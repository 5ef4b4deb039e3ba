//! Statements about Lipschitz constants at inputs where they are tight, or where each of their terms counts.

use super::checks::{constant, near};
use emmy::autodiff::vjp;
use emmy::lipschitz::{Lp, jacobian_norm};
use emmy::ndarray::{Array2, array};
use emmy::nn::{
    Activation, AttentionConfig, LipschitzNorm, Mlp, MultiHeadAttention, Pass, Score, Trace,
};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::tensor::tensor;
use emmy::testing::{Attack, Subject, check_bound};
use emmy::{Tape, Tensor, Var, init};

pub fn holds(name: &str, change: f64) -> bool {
    match name {
        "theorem 2.1" => theorem_2_1(change),
        "lemma 2.1" => lemma_2_1(change),
        "theorem 3.1" => theorem_3_1(change),
        "theorem 3.2, ∞" => theorem_3_2(change),
        "theorem 3.2, 2" => one_token(change),
        "two tokens" => two_tokens(change),
        "lemma f.1" => lemma_f_1(change),
        "theorem 1" => heads(change),
        "lemma 1" => lemma_1(change),
        "lemma 2" => lemma_2(change),
        "lemma 3" => lemma_3(change),
        "theorem 3" => any_scores(change),
        "corollary 1" => linear_scores(change),
        "corollary 2" => transformer_scores(change),
        "1.35" => coefficients(change),
        other => panic!("no check {other:?}"),
    }
}

/// ‖f(x) − f(x′)‖ ≤ f sup ‖Df‖ ‖x − x′‖ of tanh, whose derivative is 1 at 0.
fn theorem_2_1(change: f64) -> bool {
    (0..100).all(|k| {
        let (a, b) = (0.05 * f64::from(k % 10), -0.07 * f64::from(k / 10) - 1e-3);
        (a.tanh() - b.tanh()).abs() <= change * (a - b).abs()
    })
}

/// The bound of two maps in one direction, times f.
fn lemma_2_1(change: f64) -> bool {
    let mut net = Mlp::<f64>::new(&[2, 2, 2], Activation::Identity, false, &mut init::rng(0));
    for layer in &mut net.layers {
        layer.weight = tensor(&[2, 2], vec![3.0, 0.0, 0.0, 1.0]);
    }
    let x = tensor(&[1, 2], vec![1.0, 0.0]);
    let found = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
    let lower = found.lipschitz(Lp::Two).unwrap().lower.get();
    lower <= change * 9.0
}

/// L2 or dot-product attention of one number per token, all weights 1.
fn ones(score: Score) -> MultiHeadAttention<f64> {
    let config = AttentionConfig {
        score,
        bias: false,
        ..AttentionConfig::new(1, 1)
    };
    let mut layer = MultiHeadAttention::new(config, &mut init::rng(0)).unwrap();
    let one = tensor(&[1, 1], vec![1.0]);
    layer.query.weight = one.clone();
    layer.value.weight = one.clone();
    layer.output.weight = one.clone();
    if let Some(key) = &mut layer.key {
        key.weight = one;
    }
    layer
}

/// The first row of the Jacobian of self-attention.
fn first_row(layer: &MultiHeadAttention<f64>, x: &[f64]) -> Vec<f64> {
    let tape = Tape::new();
    let pass = Pass::eval(&tape, layer);
    let all = tape.var(tensor(&[x.len(), 1], x.to_vec()));
    let first = tape.var(tensor(&[1, 1], vec![x[0]]));
    let y = layer.cross(&pass, first, all, &Mask::none());
    let row = vjp(y, &[first, all], &tensor(&[1, 1], vec![1.0]));
    let mut out: Vec<f64> = row[1].iter().copied().collect();
    out[0] += row[0][[0, 0]];
    out
}

/// J_ii = a f Var(x) + 1/N at x_i = 0.
fn theorem_3_1(change: f64) -> bool {
    let layer = ones(Score::Dot);
    [1.0, 10.0, 100.0].iter().all(|size| {
        let x = [0.0, size * 1.0, -2.0 * size, 0.5 * size];
        let mean = x.iter().sum::<f64>() / 4.0;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        near(first_row(&layer, &x)[0], change * variance + 0.25, 1e-9)
    })
}

/// The row of the Jacobian of `docs/proofs.md` (a constant less than two above an input) at N = 2 001,
/// against f (4x + 1).
fn theorem_3_2(change: f64) -> bool {
    let (n, layer) = (2_001, ones(Score::L2));
    let mut x = (n as f64).ln();
    for _ in 0..60 {
        x -= (x.ln() + x + 1.0 - (n as f64 - 1.0).ln()) / (1.0 / x + 1.0);
    }
    let far = (1.0 + x).sqrt();
    let place = |k: usize| [far, -far][k % 2] * f64::from(k > 0);
    let row = first_row(&layer, &(0..n).map(place).collect::<Vec<_>>());
    row.iter().map(|j| j.abs()).sum::<f64>() <= change * (4.0 * x + 1.0)
}

/// One token, W_Q = 5 I: F(x) = x W_Q W_Qᵀ W_V W_O / √d reaches the bound.
fn one_token(change: f64) -> bool {
    let config = AttentionConfig {
        score: Score::L2Tied,
        metric_values: true,
        bias: false,
        ..AttentionConfig::new(2, 1)
    };
    let mut layer = MultiHeadAttention::<f64>::new(config, &mut init::rng(0)).unwrap();
    let eye = |size: f64| tensor(&[2, 2], vec![size, 0.0, 0.0, size]);
    layer.query.weight = eye(5.0);
    layer.value.weight = eye(1.0);
    layer.output.weight = eye(1.0);
    let x = tensor(&[1, 2], vec![0.3, -0.4]);
    let trace = Trace::at(&layer, &x, |pass, x| layer.forward(pass, x, &Mask::none()));
    let interval = trace.lipschitz(Lp::Two).unwrap();
    interval.lower.get() <= change * interval.upper.get()
}

/// Two tokens of one number at a distance of 1.406849, all weights 1: ‖J‖₂ = 1.6016, against f times the
/// bound 2.114.
fn two_tokens(change: f64) -> bool {
    let mut layer =
        MultiHeadAttention::<f64>::new(AttentionConfig::l2(1, 1), &mut init::rng(0)).unwrap();
    for map in [&mut layer.query, &mut layer.value, &mut layer.output] {
        map.weight.fill(1.0);
    }
    let x = tensor(&[2, 1], vec![0.0, 1.406849]);
    let trace = Trace::at(&layer, &x, |pass, x| layer.forward(pass, x, &Mask::none()));
    let interval = trace.lipschitz(Lp::Two).unwrap();
    interval.lower.get() <= change * interval.upper.get()
}

/// Untied weights 1 and −1 at x = (t, −3t): the variance is f 4t², and J_00 grows with it.
fn lemma_f_1(change: f64) -> bool {
    let mut layer = ones(Score::L2);
    layer.key.as_mut().expect("untied").weight = tensor(&[1, 1], vec![-1.0]);
    [1.0, 10.0, 100.0].iter().all(|&t| {
        // P_1 = (½, ½): the distances of t to −t and to 3t are equal.
        let p = first_row(&layer, &[t, -3.0 * t]);
        // −(x_i + x_j)² has the derivatives −2 (x_i + x_j): ∓4t; J_01 = ½ + 2 · ½ · (−2t) ..
        let of_query = p[0] + p[1] - 1.0;
        // A shift s of all tokens moves the scores by −4 s (x_i + x_j), so y by 1 − 4 Cov(x, x).
        near(of_query.abs(), 4.0 * change * 4.0 * t * t, 1e-6)
    })
}

/// One token and two heads with maps of norm 1 that read one feature: equality in Theorem 1.
fn heads(change: f64) -> bool {
    let mut layer = MultiHeadAttention::<f64>::new(
        AttentionConfig {
            bias: false,
            ..AttentionConfig::new(2, 2)
        },
        &mut init::rng(0),
    )
    .unwrap();
    layer.value.weight = tensor(&[2, 2], vec![1.0, 0.0, 1.0, 0.0]);
    layer.output.weight = tensor(&[2, 2], vec![0.5f64.sqrt(), 0.5f64.sqrt(), 0.0, 0.0]);
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.var(tensor(&[1, 2], vec![0.3, 0.2]));
    let y = layer.forward(&pass, x, &Mask::none());
    let found = jacobian_norm(y, x, Lp::Two).0.lower.get();
    found <= change * 2f64.sqrt() * (1.0 + 1e-9)
}

/// ‖D Att‖ ≤ ‖S‖_F + f R ‖Dg‖ for scores g_j = k (x_j − x̂_j), which are 0 at x̂ and steep.
fn lemma_1(change: f64) -> bool {
    let at = array![[1.0], [-1.0]];
    [0.1, 1.0, 10.0].iter().all(|&k| {
        let tape = Tape::new();
        let x = tape.var(tensor(&[2, 1], vec![1.0, -1.0]));
        let g = (x - constant(&tape, &at)).scale(k).t();
        let y = g.softmax(-1).matmul(x);
        let found = jacobian_norm(y, x, Lp::Two).0.lower.get();
        // A row of scores moves by at most k max_j |h_j|.
        found <= 0.5f64.sqrt() + change * k
    })
}

fn size_of_softmax(g: &Array2<f64>) -> f64 {
    let s = constant(&Tape::new(), g).softmax(-1).value();
    s.mapv(|s| s * s).sum().sqrt()
}

/// ‖S‖_F ≥ f √(m/n): equality at equal scores.
fn lemma_2(change: f64) -> bool {
    size_of_softmax(&Array2::zeros((2, 5))) >= change * (2.0f64 / 5.0).sqrt() * (1.0 - 1e-12)
}

/// ‖S‖_F ≤ f cosh α √(m/n): equality where a share of 1/(1 + e^2α) of the scores is α, the others −α.
fn lemma_3(change: f64) -> bool {
    let (n, k) = (1000, 119);
    let alpha = 0.5 * ((n - k) as f64 / k as f64).ln();
    let g = Array2::from_shape_fn((1, n), |(_, j)| if j < k { alpha } else { -alpha });
    size_of_softmax(&g) <= change * alpha.cosh() / (n as f64).sqrt() * (1.0 + 1e-9)
}

/// What an attack finds of y(x), against S + f (bound − S).
fn attacked(
    x: Tensor<f64>,
    [size, bound]: [f64; 2],
    change: f64,
    f: impl for<'t> Fn(Var<'t, f64>) -> Var<'t, f64> + Sync,
) -> bool {
    let none: Vec<Tensor<f64>> = Vec::new();
    let subject = Subject::new(&none, &x, 1, |_, x| f(x));
    // These are reached from any start.
    let attack = Attack {
        restarts: 1,
        ..Attack::default()
    };
    let claimed = size + change * (bound - size);
    check_bound(&subject, Lp::Two, claimed, &attack).holds()
}

fn normal(shape: &[usize]) -> Tensor<f64> {
    init::normal(shape, 1.0, &mut init::rng(1))
}

/// S of m = 1 query, α = 1.
fn size(n: usize) -> f64 {
    1f64.cosh() / (n as f64).sqrt()
}

/// Scores ±(x_0 − 1) of one query and inputs ±1 with the same signs: at 0 all scores are 0, and they move
/// together with x_0.
fn any_scores(change: f64) -> bool {
    let by = LipschitzNorm { alpha: 1.0 };
    let n = 16;
    let signs = Array2::from_shape_fn((1, n), |(_, j)| if j % 2 == 0 { 1.0 } else { -1.0 });
    let both = [size(n), by.constant_of_scores(n, 1).unwrap().get()];
    let x = tensor(&[n, 1], signs.iter().copied().collect());
    attacked(x, both, change, |x| {
        let g = constant(x.tape(), &signs) * x.slice(0, 0..1).add_scalar(-1.0);
        by.attend(g, x, x.tape().constant(emmy::tensor::scalar(1.0)))
    })
}

fn linear_scores(change: f64) -> bool {
    let by = LipschitzNorm { alpha: 1.0 };
    let both = [size(4), by.constant_of_linear(4, 1).unwrap().get()];
    attacked(normal(&[4, 1]), both, change, |x| {
        by.attend_linear(x.tape().constant(tensor(&[1, 1], vec![1.0])), x)
    })
}

fn transformer_scores(change: f64) -> bool {
    use emmy::nn::ScoreNormalizer;
    let by = LipschitzNorm { alpha: 1.0 };
    let (n, d) = (3, 2);
    let both = [size(n), by.constant(n, 1).unwrap().get()];
    attacked(normal(&[1 + 2 * n, d]), both, change, |all| {
        let part = |from: usize, to: usize| all.slice(0, from..to).reshape(&[to - from, 1, d]);
        let (q, k, v) = (part(0, 1), part(1, 1 + n), part(1 + n, 1 + 2 * n));
        let t = Some(by.temperature(q, k, v));
        DenseAttention::new(d, Mask::none()).attend(Qkv {
            t,
            ..Qkv::new(q, k, v)
        })
    })
}

/// Scores of ±¼ behind a LeakyReLU of slope 0.2 differ by at most f 0.3.
fn coefficients(change: f64) -> bool {
    let tape = Tape::new();
    let e = constant(&tape, &array![[1.0, -1.0]]).scale(LipschitzNorm::GAT.alpha);
    let s = e.leaky_relu(0.2).softmax(-1).value();
    (s[[0, 0]] / s[[0, 1]]).ln() <= change * 0.3 + 1e-12
}
