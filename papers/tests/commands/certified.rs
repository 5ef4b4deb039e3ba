//! The language model with a chosen constant: its parts, its certificate during the training, and lower
//! bounds.

use crate::cases::{cases, near};
use crate::tokens;
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, Upper, jacobian_norm, quotient};
use emmy::nn::{
    AttentionConfig, Contraction, Module, MultiHeadAttention, Pass, Trace, entries_mut,
};
use emmy::ops::attention::Mask;
use emmy::testing::{Attack, Subject, check_bound};
use emmy::{Tape, Tensor, Var, init};
use papers::certified::{
    AlmostOrthogonal, CertifiedConfig, CertifiedEnsemble, CertifiedLanguageModel,
};

type Model = CertifiedLanguageModel<f64>;

const SYMBOLS: [usize; 8] = [3, 1, 4, 1, 5, 2, 6, 5];

fn model(constant: f64) -> Model {
    let config = CertifiedConfig {
        window: 3,
        heads: 2,
        constant,
        ..CertifiedConfig::new(7, 8, 2, 16)
    };
    CertifiedLanguageModel::new(config, 0).unwrap()
}

fn logits<'t>(model: &Model, x: Var<'t, f64>) -> Var<'t, f64> {
    model.of_embedded(&Pass::eval(x.tape(), model), x)
}

fn embedded(model: &Model) -> Tensor<f64> {
    let tape = Tape::new();
    let pass = Pass::eval(&tape, model);
    model.embedded(&pass, &SYMBOLS, 1).value()
}

/// Steps of gradient descent on the loss of a sequence; the length of each step is proportional to the size
/// of the weights.
fn trained(model: &mut Model, steps: usize) -> [f64; 2] {
    let mut seen = [0.0; 2];
    for step in 0..=steps {
        let tape = Tape::new();
        let pass = Pass::train(&tape, model, 0);
        let z = model.forward(&pass, &SYMBOLS[..7], 1);
        let loss = z.reshape(&[7, 7]).cross_entropy(&SYMBOLS[1..], None);
        seen[usize::from(step > 0)] = loss.item();
        let gradients = pass.gradients(loss);
        drop(pass);
        for (p, g) in model.tensors_mut().into_iter().zip(gradients) {
            let size = |x: &Tensor<f64>| x.iter().map(|x| x * x).sum::<f64>().sqrt();
            let rate = 0.02 * size(p).max(0.1) / size(&g).max(1e-12);
            p.scaled_add(-rate, &g);
        }
    }
    seen
}

fn norm(layer: &AlmostOrthogonal<f64>) -> f64 {
    let tape = Tape::new();
    let w = layer.normalized(&Pass::eval(&tape, layer)).value();
    let w = w.view().into_dimensionality().unwrap();
    Lp::Two.matrix(w).get()
}

/// Prach and Lampert, Theorem 1: the norm is at most 1, for wide and for high weights of any size.
#[test]
fn almost_orthogonal_maps_do_not_expand() {
    for (seed, [input, out]) in [[5, 3], [3, 5], [4, 4], [1, 6], [6, 1], [40, 20]]
        .into_iter()
        .enumerate()
    {
        let mut layer = AlmostOrthogonal::new(input, out, true, &mut init::rng(seed as u64));
        let first = norm(&layer);
        assert!(0.3 < first && first < 1.0 + 1e-12, "{first}");
        // All rows equal: without the sums over the other rows the norm would be √out.
        let row = tokens(1, input, seed as u64);
        layer.weight = row
            .broadcast(vec![out, input])
            .unwrap()
            .to_owned()
            .into_shared();
        let alike = norm(&layer);
        assert!(alike < 1.0 + 1e-12 && alike > 0.3, "{alike}");
        layer.weight.mapv_inplace(|x| 1e3 * x);
        near(norm(&layer), alike, 1e-9);
    }
    // Orthogonal rows of any lengths: nothing is lost.
    let mut layer = AlmostOrthogonal::new(4, 3, false, &mut init::rng(0));
    layer.weight.fill(0.0);
    for (i, (j, x)) in [(2, 5.0), (0, -0.1), (3, 30.0)].into_iter().enumerate() {
        layer.weight[[i, j]] = x;
    }
    near(norm(&layer), 1.0, 1e-9);
    // A weight of zeros is a map to the bias.
    layer.weight.fill(0.0);
    assert_eq!(norm(&layer), 0.0);
}

/// Quotient ≤ norm of the Jacobian (also the largest found by ascent) ≤ the certificate ≤ the constant: at
/// the start, after training, and with very large factors.
#[test]
fn the_constant_holds_whatever_the_weights_are() {
    let mut model = model(2.0);
    for round in 0..3 {
        match round {
            0 => {}
            1 => {
                let [first, last] = trained(&mut model, 40);
                assert!(last < 0.5 * first, "{first} {last}");
            }
            _ => {
                for entry in entries_mut(&mut model) {
                    if entry.name.ends_with("gain") {
                        entry.tensor.mapv_inplace(|x| -50.0 * x);
                    }
                }
            }
        }
        let x = embedded(&model);
        let certificate = model.certificate(8).unwrap();
        assert!(
            certificate <= Upper::new(2.0),
            "round {round}: {certificate}"
        );
        let trace = Trace::at(&model, &x, |pass, x| model.of_embedded(pass, x));
        let interval = trace.lipschitz(Lp::Two).unwrap();
        assert_eq!(interval.upper, certificate);
        let tape = Tape::new();
        let v = tape.var(x.clone());
        let here = jacobian_norm(logits(&model, v), v, Lp::Two).0.lower.get();
        near(interval.lower.get(), here, 1e-3);
        let search = Ascent {
            steps: 5,
            rate: 0.05 * model.config.scale(),
            ..Ascent::new(Objective::Two, 0)
        };
        let found = search
            .from(vec![x.clone()], |x| logits(&model, x))
            .lower
            .get();
        assert!(0.0 < here && here <= found * (1.0 + 1e-9) && found <= certificate.get());
        // Shorter sequences move no further.
        assert!(model.certificate(4).unwrap() <= certificate);
        for seed in cases(20) {
            let reach = 10f64.powi(seed as i32 % 7) * model.config.scale() / 1e4;
            let step = tokens(8, model.config.features, seed).mapv(|e| e * reach);
            let moved = (&x + &step.insert_axis(emmy::ndarray::Axis(0))).into_shared();
            let q = quotient(|x| logits(&model, x), &x, &moved, Lp::Two);
            assert!(q.get() <= certificate.get(), "{q} {certificate}");
        }
    }
}

/// The constant attacked. With the weights of the start the ascent over inputs finds little of it; over
/// inputs and weights together 0.94. So the constant that is promised for all weights cannot be lowered by
/// much. At the start the loose factor is attention (printed: found 0.02 of the proven 1, in a residual
/// with c = 30), which is divided by a bound that is for all weights and inputs too.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn the_constant_is_attacked() {
    let model = model(2.0);
    let scale = model.config.scale();
    // x / K, of size 1.
    let x = embedded(&model).mapv(|x| x / scale).into_shared();
    let subject = Subject::new(&model, &x, 0, |pass, x| {
        model.of_embedded(pass, x.scale(scale))
    });
    let found = |weights: bool, steps: usize| {
        let attack = Attack {
            weights,
            steps,
            ..Attack::default()
        };
        let report = check_bound(&subject, Lp::Two, 2.0 * scale, &attack).assert();
        report.rows[0].r.expect("a bound")
    };
    let chain = Trace::at(&model, &embedded(&model), |pass, x| {
        model.of_embedded(pass, x)
    });
    println!(
        "{}",
        chain
            .lipschitz_by_layer(Lp::Two, Domain::Everywhere)
            .unwrap()
    );
    let (fixed, all) = (found(false, 30), found(true, 300));
    println!("certified model: r = {fixed:.4} over inputs, {all:.4} over weights too");
    assert!(fixed > 3e-4 && all > 0.9, "{fixed} {all}");
}

/// The size of the input is free: a certificate below the constant makes K smaller, and changes no logit.
#[test]
fn a_tightened_model_predicts_the_same() {
    for constant in [0.5, 2.0] {
        let mut model = model(constant);
        trained(&mut model, 5);
        let value = |model: &Model| {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, model);
            model.forward(&pass, &SYMBOLS, 1).value()
        };
        let (before, logits) = (model.certificate(8).unwrap().get(), value(&model));
        let scale = model.scale[[0]];
        let tight = model.tighten().unwrap();
        near(tight / scale, before / (0.999 * constant), 1e-9);
        assert!(tight < scale);
        let after = model.certificate(8).unwrap().get();
        assert!(0.99 * constant < after && after <= constant, "{after}");
        for (a, b) in value(&model).iter().zip(&logits) {
            assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()));
        }
    }
}

/// The mean of M members has the constant of one divided by √M.
#[test]
fn the_mean_of_members_has_their_constant_over_the_root_of_their_number() {
    let config = model(2.0).config;
    let members = |count| {
        let member = |seed| CertifiedLanguageModel::<f64>::new(config, seed).unwrap();
        CertifiedEnsemble::of((0..count).map(member).collect())
    };
    let mut model = members(3).unwrap();

    // The logits are the mean of the members', also as a function of the embedded sequence.
    let value = |net: &CertifiedLanguageModel<f64>| {
        let tape = Tape::new();
        net.forward(&Pass::eval(&tape, net), &SYMBOLS, 1).value()
    };
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &model);
    let x = model.embedded(&pass, &SYMBOLS, 1);
    let z = model.of_embedded(&pass, x).value();
    assert_eq!(z, model.forward(&pass, &SYMBOLS, 1).value());
    let all: Vec<_> = model.members().iter().map(value).collect();
    for (k, z) in z.iter().enumerate() {
        let sum: f64 = all.iter().filter_map(|z| z.iter().nth(k)).sum();
        near(*z, sum / 3.0, 1e-12);
    }
    let alone = members(1).unwrap();
    let pass = Pass::eval(&tape, &alone);
    assert_eq!(alone.forward(&pass, &SYMBOLS, 1).value(), all[0]);
    let [whole, member] = [alone.certificate(8), alone.members()[0].certificate(8)];
    near(whole.unwrap().get(), member.unwrap().get(), 1e-12);

    // √(Σ L_m²) / M, of the first sizes of the members and of tightened ones.
    let x = x.value();
    for _ in 0..2 {
        let certificate = model.certificate(8).unwrap();
        let of = |net: &CertifiedLanguageModel<f64>| net.certificate(8).unwrap().get();
        let squares: f64 = model.members().iter().map(|net| of(net).powi(2)).sum();
        near(certificate.get(), squares.sqrt() / 3.0, 1e-12);
        assert!(certificate <= Upper::new(2.0 / 3f64.sqrt()));
        let quotient = |x: &Tensor<f64>, moved: &Tensor<f64>| {
            quotient(
                |x| model.of_embedded(&Pass::eval(x.tape(), &model), x),
                x,
                moved,
                Lp::Two,
            )
        };
        for seed in cases(20) {
            let reach = 10f64.powi(seed as i32 % 7) * config.scale() / 1e4;
            let step = tokens(8, 3 * config.features, seed).mapv(|e| e * reach);
            let moved = (&x + &step.insert_axis(emmy::ndarray::Axis(0))).into_shared();
            let q = quotient(&x, &moved);
            assert!(q.get() <= certificate.get(), "{q} {certificate}");
        }
        model.tighten().unwrap();
    }
    let tight = model.certificate(8).unwrap().get() * 3f64.sqrt();
    assert!(1.99 < tight && tight <= 2.0, "{tight}");

    let none = CertifiedEnsemble::<f64>::of(Vec::new()).unwrap_err();
    assert!(none.to_string().contains("members: expected at least 1"));
    let other = CertifiedConfig {
        window: 2,
        ..config
    };
    let mixed = [config, other].map(|config| CertifiedLanguageModel::<f64>::new(config, 0));
    let error = CertifiedEnsemble::of(mixed.map(Result::unwrap).into()).unwrap_err();
    assert!(
        error.to_string().contains("configuration of member 1"),
        "{error}"
    );
}

/// In f32 the certificate holds too: norms are rounded up, and a thousandth of the constant is reserved for
/// the rounding of the divisors.
#[test]
fn the_certificate_of_small_numbers() {
    let config = CertifiedConfig::new(7, 8, 2, 16);
    let mut model = CertifiedLanguageModel::<f32>::new(config, 1).unwrap();
    assert!(model.certificate(8).unwrap().get() <= 2.0);
    model.tighten().unwrap();
    let tight = model.certificate(8).unwrap().get();
    assert!(1.99 < tight && tight <= 2.0, "{tight}");
}

/// A divisor that consists of norms of the weights affects the laws of attention: with 2-norms the laws of
/// rotations are left, with the ∞-norm none, and a divisor that is a constant for derivatives changes
/// nothing.
#[test]
fn the_laws_of_attention_that_is_divided_by_its_bound() {
    for (p, stop_gradient, expected) in [
        (Lp::Two, false, 4),
        (Lp::Inf, false, 0),
        (Lp::Two, true, 4),
        (Lp::Inf, true, 4),
    ] {
        let config = AttentionConfig {
            contraction: Some(Contraction {
                stop_gradient,
                ..Contraction::new(1.0, p)
            }),
            ..AttentionConfig::l2(6, 2)
        };
        let layer = MultiHeadAttention::<f64>::new(config, &mut init::rng(3)).unwrap();
        let x = tokens(5, 6, 0);
        let trace = Trace::at(&layer, &x, |pass, x| layer.forward(pass, x, &Mask::none()));
        let tape = Tape::new();
        let pass = Pass::train(&tape, &layer, 0);
        let y = layer.forward(&pass, tape.constant(x), &Mask::none());
        let gradients = pass.gradients(y.scale(10.0).tanh().exp().sum_all());
        let laws = trace.laws();
        assert_eq!(laws.len(), expected, "{p} {stop_gradient}");
        for law in laws {
            let worst = law.measure(&layer.tensors(), &gradients).worst();
            assert!(worst < 1e-9, "{p} {stop_gradient} {}: {worst}", law.name);
        }
    }
}

/// A logit depends on no later symbol, and the window ends where the sequence begins.
#[test]
fn later_symbols_are_not_seen() {
    let model = model(2.0);
    let value = |symbols: &[usize]| {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &model);
        model.forward(&pass, symbols, 1).value()
    };
    let all = value(&SYMBOLS);
    for n in 1..8 {
        let some = value(&SYMBOLS[..n]);
        for (a, b) in some.iter().zip(&all) {
            near(*a, *b, 1e-9);
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let config = CertifiedConfig::new(7, 8, 2, 16);
    let refused = |config| {
        CertifiedLanguageModel::<f64>::new(config, 0)
            .unwrap_err()
            .to_string()
    };
    assert!(
        refused(CertifiedConfig {
            window: 0,
            ..config
        })
        .contains("window")
    );
    assert!(refused(CertifiedConfig { heads: 3, ..config }).contains("a multiple of the 3 heads"));
    assert!(
        refused(CertifiedConfig {
            constant: 0.0,
            ..config
        })
        .contains("above 0")
    );
    assert!(
        refused(CertifiedConfig {
            layers: 99,
            ..config
        })
        .contains("at most 1e12")
    );
    assert!(
        refused(CertifiedConfig {
            dropout: 1.0,
            ..config
        })
        .contains("below 1")
    );
}

#[test]
#[should_panic(expected = "CertifiedEnsemble: x [1, 8, 500] needs")]
fn an_ensemble_takes_the_vectors_of_its_members() {
    let config = model(2.0).config;
    let member = CertifiedLanguageModel::<f64>::new(config, 0).unwrap();
    let model = CertifiedEnsemble::of(vec![member]).unwrap();
    let tape = Tape::new();
    let x = tape.constant(init::zeros(&[1, 8, 500]));
    model.of_embedded(&Pass::eval(&tape, &model), x);
}
