//! Attention where scores are extreme: large, infinite, or those of a single key.

use emmy::autodiff::{grad, grad_graph};
use emmy::ops::attention::{DenseAttention, EdgeAttention, EdgeOperands, LeakySum, Mask, Qkv};
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var};

/// One query of size s and three equal keys: each has a third, however large the scores are.
#[test]
fn equal_keys_share_alike_whatever_their_score() {
    fn check<F: Real>(sizes: &[f64], tolerance: f64) {
        for &size in sizes {
            for sign in [1.0, -1.0] {
                let tape = Tape::new();
                let of = |numbers: &[f64]| {
                    let numbers: Vec<F> = numbers.iter().map(|&x| F::of(x)).collect();
                    tape.var(tensor(&[numbers.len(), 1, 1], numbers))
                };
                let (q, k) = (of(&[sign * size]), of(&[1.0; 3]));
                let v = of(&[1.0, 2.0, 6.0]);
                let y = DenseAttention::new(1, Mask::none()).attend(Qkv::new(q, k, v));
                let found = grad(y.sum_all(), &[k, v]);
                // k̄_j = α_j q (v_j − y), y = 3.
                let expected = [-2.0, -1.0, 3.0].map(|d| d * sign * size / 3.0);
                for j in 0..3 {
                    let [of_k, of_v] = [0, 1].map(|n| found[n][[j, 0, 0]].as_f64());
                    assert!((of_v - 1.0 / 3.0).abs() < tolerance, "{size}: {of_v}");
                    assert!(
                        (of_k / expected[j] - 1.0).abs() < tolerance,
                        "{size}: {of_k}"
                    );
                }
            }
        }
    }
    check::<f32>(&[1.0, 500.0, 1e4, 1e5, 1e6, 1e7, 1e20], 1e-4);
    check::<f64>(&[1.0, 500.0, 1e6, 1e12, 1e15, 1e100], 1e-12);
}

type Loss = for<'t> fn(&[Var<'t, f64>], &Mask) -> Var<'t, f64>;

fn qkv<'t>(x: &[Var<'t, f64>]) -> Qkv<'t, f64> {
    Qkv {
        beta: Some(x[3]),
        t: Some(x[4]),
        ..Qkv::new(x[0], x[1], x[2])
    }
}

/// A score that does not count may be −∞. It is no factor of a derivative.
#[test]
fn infinite_scores_have_no_part_in_second_derivatives() {
    let losses: [Loss; 3] = [
        |x, mask| {
            DenseAttention::new(1, mask.clone())
                .attend(qkv(x))
                .square()
                .sum_all()
        },
        |x, mask| {
            let alpha = DenseAttention::new(1, mask.clone()).attention_coefficients(qkv(x));
            alpha.square().sum_all()
        },
        |x, mask| {
            DenseAttention::new(1, mask.clone())
                .log_sum_exp(qkv(x))
                .square()
                .sum_all()
        },
    ];
    let tape = Tape::new();
    let rows = |numbers: &[f64]| tape.var(tensor(&[numbers.len(), 1, 1], numbers.to_vec()));
    let (q, k) = (rows(&[0.3, -0.8]), rows(&[0.5, 1.5, 0.9]));
    let (v, t) = (
        rows(&[1.0, 2.0, -3.0]),
        tape.var(tensor(&[2, 1], vec![1.0, 2.0])),
    );
    let beta = |last: f64| tape.var(tensor(&[3, 1], vec![0.1, 0.2, last]));
    // The third key is hidden: with a mask, by its score, or by both.
    let (none, hidden) = (Mask::none(), Mask::lengths(&[2]));
    for loss in losses {
        let derivatives = |beta: Var<'_, f64>, mask: &Mask| -> Vec<Tensor<f64>> {
            let beta = tape.var(beta.value());
            let x = [q, k, v, beta, t];
            let first = grad_graph(loss(&x, mask), &x);
            let length = first.iter().map(|g| g.square().sum_all());
            let length = length.reduce(|a, b| a + b).unwrap();
            let mut all = grad(loss(&x, mask), &x);
            all.extend(first.iter().map(|g| g.value()));
            all.extend(grad(length, &x));
            all
        };
        let expected = derivatives(beta(0.0), &hidden);
        for (last, mask) in [
            (f64::NEG_INFINITY, &none),
            (f64::NEG_INFINITY, &hidden),
            (f64::INFINITY, &hidden),
        ] {
            for (found, expected) in derivatives(beta(last), mask).iter().zip(&expected) {
                let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
                assert!(found.iter().zip(expected).all(near), "{found}\n{expected}");
            }
        }
    }
}

/// The only key of a query has all of it, whatever its score: no rounding stands in place of the derivative.
#[test]
fn a_single_key_has_no_derivative() {
    let tape = Tape::new();
    let numbers = |count: usize, size: f32| {
        let of = |k: usize| size * (0.37 + k as f32).sin();
        (0..count).map(of).collect::<Vec<_>>()
    };
    let of = |size, width| tape.var(tensor(&[2, 1, width], numbers(2 * width, size)));
    let (q, k, v) = (of(1.0, 4), of(1e4, 4), of(1.0, 33));
    let y = DenseAttention::new(4, Mask::causal()).attend(Qkv::new(q, k, v));
    let found = grad(y.square().sum_all(), &[q]);
    assert!(found[0].iter().take(4).all(|&g| g == 0.0), "{}", found[0]);
}

/// No heads, or heads without width.
#[test]
fn halves_of_nothing() {
    let pattern = Pattern::from_pairs(3, 3, &[(0, 0), (1, 0), (2, 2)]).unwrap();
    for (heads, width) in [(2, 0), (0, 3), (0, 0)] {
        let attention = EdgeAttention {
            pattern: pattern.clone(),
            dropout: None,
        };
        let tape = Tape::new();
        let of = |shape: &[usize]| tape.var(Tensor::<f64>::zeros(shape));
        let (z, a) = (of(&[3, heads, width]), of(&[heads, width]));
        let y = attention.attend(LeakySum { slope: 0.2 }, EdgeOperands::gat(z, a, a));
        assert_eq!(y.shape(), [3, heads, width]);
        for g in grad(y.sum_all(), &[z, a]) {
            assert!(g.is_empty());
        }
        let y = DenseAttention::new(1, Mask::none()).attend(Qkv::new(z, z, z));
        assert_eq!(y.shape(), [3, heads, width]);
    }
}
