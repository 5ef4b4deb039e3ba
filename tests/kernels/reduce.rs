//! Sums and extrema along axes against naive folds.

use crate::support::{bits, data};
use emmy::kernels::par;
use emmy::kernels::reduce::{max, min, sum, sum_to};
use emmy::sparse::Pattern;
use emmy::tensor::{Tensor, tensor};
use ndarray::Axis;
use proptest::prelude::*;

fn naive(x: &Tensor<f64>, axes: &[usize], init: f64, f: impl Fn(f64, f64) -> f64) -> Tensor<f64> {
    let mut y = x.clone();
    for &axis in axes {
        y = y
            .fold_axis(Axis(axis), init, |&a, &b| f(a, b))
            .insert_axis(Axis(axis))
            .into_shared();
    }
    y
}

proptest! {
    #[test]
    fn equals_the_naive_fold(
        shape in prop::collection::vec(0_usize..6, 0..5),
        chosen in prop::collection::vec(any::<bool>(), 5),
        turned in any::<bool>(),
    ) {
        let mut x = tensor(&shape, data::<f64>(shape.iter().product(), 1));
        if turned {
            x = x.reversed_axes();
        }
        let axes: Vec<usize> = (0..x.ndim()).filter(|&a| chosen[a]).collect();
        let expected = naive(&x, &axes, 0.0, |a, b| a + b);
        let y = sum(&x, &axes);
        prop_assert_eq!(y.shape(), expected.shape());
        prop_assert!(y.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-13));
        prop_assert_eq!(max(&x, &axes), naive(&x, &axes, f64::NEG_INFINITY, f64::max));
        prop_assert_eq!(min(&x, &axes), naive(&x, &axes, f64::INFINITY, f64::min));
    }
}

#[test]
fn sums_of_singles_are_accurate() {
    let x: Vec<f32> = data(3_000_000, 2);
    let x: Vec<f32> = x.into_iter().map(|x| x + 1.0).collect();
    let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
    let naive: f32 = x.iter().sum();
    assert!(
        (f64::from(naive) / exact - 1.0).abs() > 1e-6,
        "the test is too easy"
    );
    let flat = tensor(&[3_000_000], x.clone());
    assert!((f64::from(sum(&flat, &[0])[[0]]) / exact - 1.0).abs() < 1.5e-7);
    let tall = tensor(&[1_000_000, 3], x.clone());
    for (j, &y) in sum(&tall, &[0]).iter().enumerate() {
        let exact: f64 = x.iter().skip(j).step_by(3).map(|&x| f64::from(x)).sum();
        assert!((f64::from(y) / exact - 1.0).abs() < 4e-7);
    }
}

#[test]
fn not_a_number_is_not_lost() {
    for n in [1, 5, 16, 40] {
        for at in 0..n {
            let mut x = vec![1.0_f32; n];
            x[at] = f32::NAN;
            for x in [tensor(&[n, 1], x.clone()), tensor(&[n], x.clone())] {
                assert!(max(&x, &[0]).iter().all(|x| x.is_nan()));
                assert!(min(&x, &[0]).iter().all(|x| x.is_nan()));
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let x = tensor(&[70, 40, 90], data::<f32>(252_000, 3));
    let run = |n| {
        par::with_threads(n, || {
            [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[0, 1, 2]].map(|a| bits(sum(&x, a).iter()))
        })
    };
    let one = run(1);
    for n in 2..=4 {
        assert_eq!(run(n), one);
    }
}

#[test]
#[should_panic(expected = "axis 2 is outside a tensor of 2 dimensions")]
fn axes_must_exist() {
    sum(&tensor(&[1, 1], vec![0.0]), &[2]);
}

/// A pattern that is too large is refused before anything is allocated.
#[test]
fn a_pattern_of_too_many_rows_is_refused() {
    for rows in [usize::MAX, usize::MAX - 1, 1 << 32] {
        for (n, m) in [(rows, 1), (1, rows)] {
            let error = Pattern::from_pairs(n, m, &[]).unwrap_err().to_string();
            assert!(
                error.contains("at most 4294967295 rows, columns"),
                "{error}"
            );
        }
    }
}

/// Nothing is summed, and nothing is laid out anew.
#[test]
fn a_sum_to_the_same_shape_of_columns() {
    let x = tensor(&[2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reversed_axes();
    assert_eq!(sum_to(&x, &[3, 2]), x);
}
