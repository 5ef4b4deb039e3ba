//! ActNorm, and spectral normalisation.

use super::x;
use emmy::autodiff::jacobian;
use emmy::nn::{ActNorm, Pass, Spectral};
use emmy::{Tape, init, linalg, tensor::tensor};

#[test]
fn act_norm_starts_from_data_and_can_be_inverted() {
    for shape in [&[9, 4][..], &[3, 4, 4]] {
        let data = (x(shape, 1) * 3.0 + 2.0).into_shared();
        let mut norm = ActNorm::<f64>::new(4);
        assert!(!norm.has_started());
        norm.initialize(&data);
        assert!(norm.has_started());
        let tape = Tape::new();
        let pass = Pass::train(&tape, &norm, 0);
        let input = tape.constant(&data);
        let y = norm.forward(&pass, input);
        let rows: Vec<isize> = (0..shape.len() as isize - 1).collect();
        assert!(y.mean(&rows, false).value().iter().all(|m| m.abs() < 1e-14));
        assert!(
            y.var(&rows, false)
                .value()
                .iter()
                .all(|v| (v - 1.0).abs() < 1e-13)
        );
        let back = norm.inverse(&pass, y).value();
        assert!(back.iter().zip(&data).all(|(a, b)| (a - b).abs() < 1e-13));
        // The parameters are trained from here on.
        let gradients = pass.gradients(y.tanh().sum_all() + norm.log_det(&pass));
        assert!(gradients.iter().flatten().all(|g| *g != 0.0));
    }
}

#[test]
fn log_det_is_that_of_the_derivative() {
    let mut norm = ActNorm::<f64>::new(3);
    norm.initialize(&x(&[5, 3], 2));
    norm.scale[[1]] *= -1.0;
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &norm);
    let row = tape.var(x(&[1, 3], 3));
    let j = jacobian(norm.forward(&pass, row), row);
    // The derivative is diagonal.
    let j = j.into_shape_with_order((3, 3)).unwrap();
    let det: f64 = (0..3).map(|k| j[[k, k]]).product();
    assert!((norm.log_det(&pass).item() - det.abs().ln()).abs() < 1e-14);
    assert!((j.iter().map(|x| x.abs()).sum::<f64>() - j.diag().mapv(f64::abs).sum()).abs() < 1e-14);
}

#[test]
fn a_feature_that_never_changes_starts_with_scale_one() {
    let mut norm = ActNorm::<f64>::new(2);
    norm.initialize(&tensor(&[3, 2], vec![5.0, 1.0, 5.0, 2.0, 5.0, 6.0]));
    assert_eq!((norm.scale[[0]], norm.bias[[0]]), (1.0, -5.0));
    // The mean of three times 0.1 is rounded, so the variance is not 0.
    norm.initialize(&tensor(&[3, 2], vec![0.1, 1.0, 0.1, 2.0, 0.1, 6.0]));
    assert_eq!(norm.scale[[0]], 1.0);
    assert!((norm.bias[[0]] + 0.1).abs() < 1e-15);
}

/// In one pass a layer may run twice: the second run goes on where the first one stopped.
#[test]
fn state_is_updated_by_every_run_of_a_pass() {
    let mut weight = Spectral::new(x(&[4, 3], 5), &mut init::rng(6));
    // Far from the singular vectors, so that every step moves.
    weight.right = tensor(&[3], vec![1.0, 0.0, 0.0]);
    let mut twice = weight.clone();
    for _ in 0..2 {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &weight, 0);
        weight.forward(&pass);
        pass.into_updates().apply(&mut weight);
    }
    let tape = Tape::new();
    let pass = Pass::train(&tape, &twice, 0);
    twice.forward(&pass);
    twice.forward(&pass);
    pass.into_updates().apply(&mut twice);
    assert_eq!((twice.left, twice.right), (weight.left, weight.right));
}

/// The estimate is a lower bound, so the norm of the normalised weight is never less than 1; with enough
/// passes it is near 1.
#[test]
fn the_estimate_of_spectral_normalisation_is_a_lower_bound() {
    for seed in 0..20 {
        let rng = &mut init::rng(seed);
        let mut layer = Spectral::<f64> {
            weight: init::normal(&[4, 6], 1.0, rng),
            ..Spectral::new(init::normal(&[4, 6], 1.0, rng), rng)
        };
        let stretch = |layer: &Spectral<f64>, training: bool| {
            let tape = Tape::new();
            let pass = match training {
                true => Pass::train(&tape, layer, 0),
                false => Pass::eval(&tape, layer),
            };
            let w = layer
                .forward(&pass)
                .value()
                .into_dimensionality::<ndarray::Ix2>()
                .unwrap();
            (linalg::svd(w.view()).1[0], pass.into_updates())
        };
        let mut last = f64::INFINITY;
        for step in 0..200 {
            let (found, updates) = stretch(&layer, true);
            assert!(found >= 1.0 - 1e-12, "{found}");
            // Each iteration can only bring the estimate closer.
            assert!(
                found <= last * (1.0 + 1e-12),
                "{step}: {found} after {last}"
            );
            last = found;
            updates.apply(&mut layer);
        }
        assert!(last < 1.0 + 1e-2, "{seed}: {last}");
        assert!((stretch(&layer, false).0 - last).abs() < 1e-3);
    }
}
