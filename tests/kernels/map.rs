//! Functions of elements over every layout and broadcast, against ndarray's own iteration.

use crate::support::{bits, data};
use emmy::kernels::map::{add_assign, binary, ternary, unary};
use emmy::kernels::par;
use emmy::tensor::{Tensor, broadcast_shapes, tensor};
use ndarray::{Axis, Slice};
use proptest::prelude::*;

fn random(shape: &[usize], seed: u64) -> Tensor<f64> {
    tensor(shape, data(shape.iter().product(), seed))
}

/// The same through ndarray's own iteration.
fn naive(a: &Tensor<f64>, b: &Tensor<f64>, f: impl Fn(f64, f64) -> f64) -> Tensor<f64> {
    let shape = broadcast_shapes("naive", a.shape(), b.shape());
    let (a, b) = (
        a.broadcast(&shape[..]).unwrap(),
        b.broadcast(&shape[..]).unwrap(),
    );
    ndarray::Zip::from(a)
        .and(b)
        .map_collect(|&a, &b| f(a, b))
        .into_shared()
}

#[test]
fn the_usual_broadcasts() {
    for (a, b) in [
        (&[6, 5][..], &[6, 5][..]),
        (&[6, 5], &[5]),
        (&[5], &[6, 5]),
        (&[6, 5], &[6, 1]),
        (&[6, 1], &[1, 5]),
        (&[6, 5], &[]),
        (&[], &[6, 5]),
        (&[], &[]),
        (&[2, 3, 4], &[3, 1]),
        (&[2, 1, 4], &[3, 1]),
        (&[0, 5], &[5]),
        (&[3, 1], &[0]),
    ] {
        let (a, b) = (random(a, 1), random(b, 2));
        let f = |x: f64, y: f64| x - 2.0 * y;
        assert_eq!(binary("f", &a, &b, f), naive(&a, &b, f));
    }
}

proptest! {
    #[test]
    fn any_layout_broadcasts(
        shape in prop::collection::vec(1_usize..5, 0..4),
        ones in prop::collection::vec(any::<(bool, bool)>(), 4),
        drop in 0_usize..4,
        change in 0_usize..5,
    ) {
        let thin = |second: bool| -> Vec<usize> {
            shape.iter().zip(&ones).map(|(&n, one)| if second && one.1 || !second && one.0 { 1 } else { n }).collect()
        };
        let mut a = random(&thin(false), 3);
        let mut b = random(&thin(true)[drop.min(shape.len())..], 4);
        // Transpose, reverse, or leave gaps, without changing what broadcasts with what.
        for x in [&mut a, &mut b] {
            match change {
                1 => x.invert_axis_all(),
                2 => {
                    let order: Vec<usize> = (0..x.ndim()).rev().collect();
                    let turned = x.view().permuted_axes(order.clone()).as_standard_layout().into_owned();
                    *x = turned.permuted_axes(order).into_shared();
                }
                3 if x.ndim() > 0 => {
                    let wide = ndarray::concatenate![Axis(0), x.view(), x.view()];
                    let n = x.shape()[0];
                    *x = wide.into_shared();
                    x.slice_axis_inplace(Axis(0), Slice::from(..n));
                }
                4 if x.ndim() > 0 => {
                    let last = Axis(x.ndim() - 1);
                    let wide = ndarray::concatenate![last, x.view(), x.view()];
                    let n = x.shape()[last.0];
                    *x = wide.into_shared();
                    x.slice_axis_inplace(last, Slice::from(n..));
                }
                _ => {}
            }
        }
        let f = |x: f64, y: f64| x * y + x;
        let y = binary("f", &a, &b, f);
        prop_assert!(y.is_standard_layout());
        prop_assert_eq!(&y, &naive(&a, &b, f));
        prop_assert_eq!(unary(&a, |x| x * x), a.mapv(|x| x * x).into_shared());
        let c = ternary("f", &a, &b, &y, |a, b, c| a * b - c);
        prop_assert_eq!(c, naive(&naive(&a, &b, |a, b| a * b), &y, |x, c| x - c));
        let mut sum = y.clone();
        add_assign(&mut sum, &b);
        prop_assert_eq!(&sum, &naive(&y, &b, |y, b| y + b));
        add_assign(&mut sum, &y);
        prop_assert_eq!(sum, naive(&naive(&y, &b, |y, b| y + b), &y, |s, y| s + y));
    }
}

trait InvertAll {
    fn invert_axis_all(&mut self);
}

impl InvertAll for Tensor<f64> {
    fn invert_axis_all(&mut self) {
        for axis in 0..self.ndim() {
            self.invert_axis(Axis(axis));
        }
    }
}

#[test]
fn adding_in_place_leaves_shared_data_alone() {
    let a = random(&[4, 3], 1);
    let mut sum = a.clone();
    add_assign(&mut sum, &random(&[3], 2));
    add_assign(&mut sum, &a);
    assert_eq!(a, random(&[4, 3], 1));
    let at = sum.as_ptr();
    add_assign(&mut sum, &a);
    assert_eq!(sum.as_ptr(), at, "unshared data is added to in place");
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (a, b) = (random(&[3000, 70], 1), random(&[70], 2));
    let run = |n| {
        par::with_threads(n, || {
            let y = binary("f", &a, &b, |x, y| x.sin() * y);
            bits(unary(&y, |x| x * x + 1.0).iter())
        })
    };
    let one = run(1);
    for n in 2..=4 {
        assert_eq!(run(n), one);
    }
}

#[test]
#[should_panic(expected = "mul: [2, 3] and [2] do not broadcast")]
fn shapes_must_broadcast() {
    binary("mul", &random(&[2, 3], 1), &random(&[2], 2), |x, y| x * y);
}

#[test]
#[should_panic(expected = "add_assign: [2, 3] does not broadcast to [3]")]
fn the_sum_does_not_grow() {
    add_assign(&mut random(&[3], 1), &random(&[2, 3], 2));
}

/// One row is added to each row in place: above and below the size that threads share, with rows of one
/// number, and without rows.
#[test]
fn a_row_is_added_in_place() {
    for shape in [
        [1100, 64],
        [3, 64],
        [2000, 31],
        [60_000, 1],
        [1, 5],
        [0, 5],
        [4, 0],
    ] {
        let (a, b) = (random(&shape, 1), random(&shape[1..], 2));
        let expected = binary("add", &a, &b, |a, b| a + b);
        for threads in 1..=4 {
            let mut sum = a.to_owned().into_shared();
            let at = sum.as_ptr();
            par::with_threads(threads, || add_assign(&mut sum, &b));
            assert_eq!(sum, expected, "{shape:?}");
            assert!(shape[1] < 2 || sum.as_ptr() == at, "{shape:?}");
        }
    }
}
