//! Moments and shapes of random weights.

use emmy::Tensor;
use emmy::init::{
    fans, kaiming_normal, kaiming_uniform, orthogonal, rng, xavier_normal, xavier_uniform,
};
use ndarray::Array2;

/// Mean, standard deviation and largest size of the draws.
fn moments(x: &Tensor<f64>) -> (f64, f64, f64) {
    let n = x.len() as f64;
    let mean = x.sum() / n;
    let var = x.mapv(|x| (x - mean).powi(2)).sum() / n;
    (mean, var.sqrt(), x.fold(0.0, |m, x| m.max(x.abs())))
}

#[test]
fn moments_are_those_of_the_formulas() {
    let shape = [300, 500];
    let xavier = (2.0_f64 / 800.0).sqrt() * 1.5;
    let kaiming = (2.0_f64 / (1.04 * 500.0)).sqrt();
    let rng = &mut rng(7);
    for (x, std, bounded) in [
        (xavier_normal(&shape, 1.5, rng), xavier, false),
        (xavier_uniform(&shape, 1.5, rng), xavier, true),
        (kaiming_normal(&shape, 0.2, rng), kaiming, false),
        (kaiming_uniform(&shape, 0.2, rng), kaiming, true),
    ] {
        let (mean, found, largest) = moments(&x);
        // 150 000 draws: five standard errors.
        assert!(mean.abs() < 5.0 * std / 387.0, "mean {mean}");
        assert!((found / std - 1.0).abs() < 0.01, "{found} against {std}");
        let bound = std * 3.0_f64.sqrt();
        assert_eq!(largest <= bound, bounded, "{largest}, bound {bound}");
        assert!(!bounded || largest > 0.999 * bound);
    }
}

#[test]
fn orthogonal_in_both_directions() {
    for (out, input) in [(6, 6), (10, 4), (4, 10), (1, 5), (0, 3)] {
        let w: Tensor<f64> = orthogonal(out, input, 2.0, &mut rng(1));
        let w = w.into_dimensionality::<ndarray::Ix2>().unwrap();
        let gram = if out >= input {
            w.t().dot(&w)
        } else {
            w.dot(&w.t())
        };
        let wanted = Array2::<f64>::eye(out.min(input)) * 4.0;
        approx::assert_abs_diff_eq!(gram, wanted, epsilon = 1e-13);
    }
}

#[test]
fn same_seed_same_numbers_in_both_types() {
    let a: Tensor<f64> = xavier_uniform(&[5, 3], 1.0, &mut rng(3));
    let b: Tensor<f32> = xavier_uniform(&[5, 3], 1.0, &mut rng(3));
    assert_eq!(a.mapv(|x| x as f32).into_shared(), b);
    assert_ne!(a, xavier_uniform::<f64>(&[5, 3], 1.0, &mut rng(4)));
}

#[test]
fn fans_count_further_axes() {
    assert_eq!(fans(&[4, 3]), (3, 4));
    assert_eq!(fans(&[1, 8, 16]), (128, 16));
}

#[test]
#[should_panic(expected = "fans: [3] needs two axes")]
fn a_vector_has_no_fans() {
    let _: Tensor<f32> = xavier_normal(&[3], 1.0, &mut rng(0));
}
