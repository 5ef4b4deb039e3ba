//! Gradients that are clipped.

use emmy::Tensor;
use emmy::optim::Clip;
use emmy::tensor::tensor;

fn gradients() -> [Tensor<f64>; 2] {
    [
        tensor(&[2, 2], vec![3.0, -1.0, 0.5, 2.0]),
        tensor(&[3], vec![-4.0, 0.0, 1.0]),
    ]
}

fn all(g: &[Tensor<f64>]) -> Vec<f64> {
    g.iter().flatten().copied().collect()
}

#[test]
fn a_global_norm_is_that_of_all_parameters_together() {
    // ‖g‖² = 9 + 1 + ¼ + 4 + 16 + 1, and PyTorch's factor is 2 / (‖g‖ + 10⁻⁶).
    let norm = 31.25_f64.sqrt();
    let mut g = gradients();
    assert_eq!(Clip::GlobalNorm(2.0).apply(&mut g), norm);
    let expected: Vec<f64> = all(&gradients())
        .iter()
        .map(|x| x * (2.0 / (norm + 1e-6)))
        .collect();
    assert_eq!(all(&g), expected);
    // What is small enough keeps its bits.
    let mut g = gradients();
    assert_eq!(Clip::GlobalNorm(5.7).apply(&mut g), norm);
    assert_eq!(g, gradients());
}

#[test]
fn values_are_clipped_one_by_one() {
    let mut g = gradients();
    Clip::Value(1.5).apply(&mut g);
    assert_eq!(all(&g), [1.5, -1.0, 0.5, 1.5, -1.5, 0.0, 1.0]);
}

#[test]
fn a_transposed_gradient_is_clipped_where_it_is() {
    let mut g = gradients();
    g[0] = g[0].t().to_owned().into_shared();
    let mut turned = gradients();
    turned[0] = turned[0].clone().reversed_axes();
    let clip = Clip::GlobalNorm(1.0);
    assert_eq!(clip.apply(&mut turned), clip.apply(&mut g));
    assert_eq!(turned, g);
}

#[test]
fn a_gradient_that_is_not_finite_does_not_pass_for_a_small_one() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut g = [tensor(&[2], vec![bad, 1.0])];
        Clip::GlobalNorm(1.0).apply(&mut g);
        assert!(g[0][0].is_nan() && g[0][1] != 1.0, "{g:?}");
    }
    for c in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Clip::Value(c).validate().is_err() && Clip::GlobalNorm(c).validate().is_err());
    }
}
