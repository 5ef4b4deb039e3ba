//! The layer `ContraNorm`: its forms are the steps of the paper; its laws, its Lipschitz constants, and its
//! effect on deep networks.

use emmy::autodiff::grad;
use emmy::collapse::{Spectrum, uniformity, value, variance};
use emmy::lipschitz::{Domain, Lp, bound, jacobian_norm};
use emmy::nn::contra::Tau;
use emmy::nn::{
    AttentionConfig, ContraConfig, ContraNorm, LayerNorm, Linear, Module, MultiHeadAttention, Pass,
    Trace,
};
use emmy::ops::attention::Mask;
use emmy::{Tape, Tensor, Var, init};

fn rows(shape: &[usize], size: f64, seed: u64) -> Tensor<f64> {
    init::normal(shape, size, &mut init::rng(seed))
}

fn apply(layer: &ContraNorm<f64>, x: &Tensor<f64>) -> Tensor<f64> {
    let tape = Tape::new();
    let pass = Pass::eval(&tape, layer);
    layer.forward(&pass, tape.constant(x)).value()
}

/// Eq. (6) is H − s ∂L/∂H for the uniformity loss L, at every τ; Eq. (7) is half of it where the other half
/// is equal, at points evenly on a circle; as printed, without τ in the softmax, it is not (E12).
#[test]
fn its_step_is_descent_of_the_uniformity_loss() {
    let (s, tau) = (0.3, 0.6);
    let with = |config: ContraConfig| ContraConfig {
        temperature: tau,
        ..config
    };
    let step = |h: &Tensor<f64>| {
        let tape = Tape::new();
        let x = tape.var(h);
        h - s * &grad(uniformity(x, tau), &[x])[0]
    };
    let apart =
        |a: &Tensor<f64>, b: &Tensor<f64>| (a - b).iter().fold(0.0_f64, |m, d| m.max(d.abs()));
    for seed in 0..10 {
        let h = rows(&[7, 3], 1.0, seed);
        let full = with(ContraConfig::full(s)).build::<f64>(3);
        assert!(apart(&apply(&full, &h), &step(&h).into_shared()) < 1e-13);
    }
    let angle = |i: usize| std::f64::consts::TAU * i as f64 / 6.0;
    let circle = Tensor::from_shape_fn(vec![6, 2], |at| match at[1] {
        0 => angle(at[0]).cos(),
        _ => angle(at[0]).sin(),
    });
    let half = 0.5 * (&circle + &step(&circle));
    let stopped = with(ContraConfig::stopped(s));
    assert!(
        apart(
            &apply(&stopped.build(2), &circle),
            &half.clone().into_shared()
        ) < 1e-13
    );
    let printed = ContraConfig {
        tau: Tau::Outside,
        ..stopped
    };
    assert!(apart(&apply(&printed.build(2), &circle), &half.into_shared()) > 1e-3);
}

/// Two maps with a step between.
struct Between {
    first: Linear<f64>,
    step: ContraNorm<f64>,
    last: Linear<f64>,
}
emmy::module!(Between for f64: first, step, last);

/// The output of the step rotates with its rows, so two linear maps around it keep the law of rotations. If
/// the rows have length 1 only inside the softmax, the step also carries their size. With a LayerNorm after
/// it, only the law of γ and β is left. No other laws are listed, and the listed laws hold.
#[test]
fn its_laws() {
    let laws = |config: ContraConfig| {
        let rng = &mut init::rng(3);
        let net = Between {
            first: Linear::new(4, 3, false, rng),
            step: config.build(3),
            last: Linear::new(3, 2, false, rng),
        };
        let trace = Trace::of(&net, |pass| run(&net, pass));
        let found = trace.laws();
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, 0);
        let y = run(&net, &pass);
        let loss = (y.tanh() * tape.constant(rows(&[5, 2], 1.0, 8))).sum_all();
        let gradients = pass.gradients(loss);
        for law in &found {
            let worst = law.measure(&net.tensors(), &gradients).worst();
            assert!(worst < 1e-11, "{}: {worst}", law.name);
        }
        found.into_iter().map(|law| law.name).collect::<Vec<_>>()
    };
    fn run<'t>(net: &Between, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
        let x = pass.tape().constant(rows(&[5, 4], 1.0, 7));
        let y = net.step.forward(pass, net.first.forward(pass, x));
        net.last.forward(pass, y)
    }
    let turns = "first, turns";
    assert_eq!(laws(ContraConfig::stopped(0.4)), [turns]);
    assert_eq!(laws(ContraConfig::dimension(0.4)), [turns]);
    assert_eq!(laws(ContraConfig::text_code(0.4)), ["first, scale", turns]);
    assert_eq!(laws(ContraConfig::new(0.4)), ["step, neurons"]);
    assert_eq!(laws(ContraConfig::v2(0.4)), ["step, neurons"]);
}

/// Like all attention by dot products (Kim et al., Theorem 3.1), the step has no Lipschitz constant on all
/// inputs: at rows of size r it stretches by about s r². It has a constant on rows of limited size, and at a
/// point.
#[test]
fn its_lipschitz_constants() {
    let layer = ContraConfig::regularized(0.5).build::<f64>(1);
    let stretch = |r: f64| {
        let tape = Tape::new();
        // A row at 0 compares all others alike, whatever their size.
        let x = Tensor::from_shape_vec(vec![3, 1], vec![0.0, r, -r]).expect("three rows");
        let x = tape.var(x);
        let y = layer.forward(&Pass::eval(&tape, &layer), x);
        jacobian_norm(y, x, Lp::Two).0.lower.get()
    };
    for r in [10.0, 100.0, 1000.0] {
        let ratio = stretch(r) / (0.5 * 2.0 / 3.0 * r * r);
        assert!((0.9..1.2).contains(&ratio), "{r}: {ratio}");
    }
    for config in [
        ContraConfig::regularized(0.5),
        ContraConfig::stopped(0.5),
        ContraConfig::dimension(0.5),
    ] {
        let layer = config.build::<f64>(3);
        for seed in 0..20 {
            let x = rows(&[5, 3], 0.7, seed);
            let tape = Tape::new();
            let x = tape.var(x);
            let y = layer.forward(&Pass::eval(&tape, &layer), x);
            let there = jacobian_norm(y, x, Lp::Two).0.lower.get();
            let values = x.value();
            let sizes = values.rows().into_iter().map(|r| r.dot(&r).sqrt());
            let largest = sizes.fold(0.0, f64::max);
            let upper = |domain| bound(y, x, Lp::Two, domain).map(|b| b.upper().get());
            let here = upper(Domain::Here).expect("at a point");
            let limited = upper(Domain::Rows(largest)).expect("rows of limited size");
            assert!(there <= here && here <= limited, "{there} {here} {limited}");
            assert!(upper(Domain::Everywhere).is_err());
        }
    }
}

/// In layers of only attention with random weights, the effective rank of the tokens falls to 1; with
/// ContraNorm after each layer it does not fall.
#[test]
fn it_holds_the_rank_of_deep_attention() {
    let (tokens, width, depth) = (24, 16, 12);
    let ranks = |contra: Option<ContraConfig>, seed: u64| {
        let rng = &mut init::rng(seed);
        let mut x = rows(&[tokens, width], 1.0, seed + 50);
        for _ in 0..depth {
            let attention =
                MultiHeadAttention::<f64>::new(AttentionConfig::new(width, 2), rng).unwrap();
            let tape = Tape::new();
            let pass = Pass::eval(&tape, &attention);
            x = attention
                .forward(&pass, tape.constant(&x), &Mask::none())
                .value();
            if let Some(contra) = contra {
                x = apply(&contra.build(width), &x);
            }
        }
        (Spectrum::of(&x).effective_rank(), value(&x, variance))
    };
    for seed in 0..4 {
        let (alone, _) = ranks(None, seed);
        let (with, spread) = ranks(Some(ContraConfig::vision_code(0.9)), seed);
        assert!(alone < 1.01, "{alone}");
        assert!(with > 3.0 && spread > 1.0, "{with} {spread}");
    }
}

/// E22: behind a LayerNorm rows have the norm √d, and the largest entry of a row of HHᵀ is by far that of
/// the row itself. So softmax(HHᵀ) is nearly I and Eq. (9) as printed takes (1 − s) H, which LayerNorm
/// makes H again: it acts only on rows that are nearly alike, d (1 − cos) below about ln n. The published
/// code compares rows of length 1: its softmax is nearly uniform, and its step moves all rows. In deep
/// attention with residuals the printed layer holds some rank, after most of it is lost, and that of the
/// code more.
#[test]
fn the_printed_layer_changes_little_behind_a_layer_norm() {
    let (tokens, width, depth) = (24, 64, 12);
    let norm = |x: &Tensor<f64>| {
        let layer = LayerNorm::<f64>::new(width);
        let tape = Tape::new();
        let y = layer.forward(&Pass::eval(&tape, &layer), tape.constant(x));
        y.value()
    };
    let size = |x: &Tensor<f64>| x.mapv(|x| x * x).sum().sqrt();
    let (printed, code) = (ContraConfig::new(0.5), ContraConfig::vision_code(0.5));
    let moved = |config: ContraConfig, h: &Tensor<f64>| {
        let y = norm(&apply(&config.build(width), h));
        size(&(&y - h).into_shared()) / size(h)
    };
    let ranks = |contra: Option<ContraConfig>, seed: u64| {
        let rng = &mut init::rng(seed);
        let mut x = norm(&rows(&[tokens, width], 1.0, seed + 50));
        for _ in 0..depth {
            let layer =
                MultiHeadAttention::<f64>::new(AttentionConfig::new(width, 2), rng).unwrap();
            let tape = Tape::new();
            let at = tape.constant(&x);
            let y = layer.forward(&Pass::eval(&tape, &layer), at, &Mask::none()) + at;
            x = norm(&y.value());
            if let Some(contra) = contra {
                x = norm(&apply(&contra.build(width), &x));
            }
        }
        Spectrum::of(&x).effective_rank()
    };
    for seed in 0..4 {
        let h = norm(&rows(&[tokens, width], 1.0, seed));
        let [little, much] = [printed, code].map(|config| moved(config, &h));
        let [alone, as_printed, as_coded] =
            [None, Some(printed), Some(code)].map(|c| ranks(c, seed));
        assert!(little < 1e-4 && much > 0.02, "{little} {much}");
        assert!(
            alone < as_printed && as_printed < 0.7 * as_coded,
            "{alone} {as_printed} {as_coded}"
        );
    }
}
