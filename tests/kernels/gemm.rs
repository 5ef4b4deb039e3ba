//! Products of matrices: every element is the sum that is stated.

use crate::support::{bits, data};
use emmy::Real;
use emmy::kernels::gemm::{matmul, matmul_batched};
use emmy::kernels::par;
use emmy::tensor::{Tensor, tensor};
use ndarray::{Array2, Array3, ArrayView2, ArrayViewD, Axis, Ix2};
use std::ops::Range;

/// The length of the parts of an inner dimension.
const INNER: usize = 512;

/// One matrix of a batch.
fn item<'a>(mut x: ArrayViewD<'a, f64>, index: &[usize]) -> ArrayView2<'a, f64> {
    for &i in index {
        x = x.index_axis_move(Axis(0), i);
    }
    x.into_dimensionality::<Ix2>().unwrap()
}

fn naive(a: ArrayView2<f64>, b: ArrayView2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        (0..a.ncols()).map(|l| a[[i, l]] * b[[l, j]]).sum()
    })
}

fn matrix(m: usize, n: usize, seed: u64) -> Array2<f64> {
    Array2::from_shape_vec((m, n), data(m * n, seed)).unwrap()
}

fn close(a: &Array2<f64>, b: &Array2<f64>, tolerance: f64) {
    assert_eq!(a.dim(), b.dim());
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).abs() <= tolerance, "{x} against {y}");
    }
}

#[test]
fn equals_the_naive_product_for_every_layout() {
    for (m, k, n) in [
        (0, 3, 2),
        (3, 0, 2),
        (3, 2, 0),
        (2, 64, 0),
        (4, 70, 0),
        (1, 1, 1),
        (1, 70, 1),
        (5, 7, 3),
        (17, 1, 33),
        (40, 1100, 9),
        (300, 130, 70),
        (70, 130, 300),
    ] {
        let (a, b) = (matrix(m, k, 1), matrix(k, n, 2));
        let expected = naive(a.view(), b.view());
        let (at, bt) = (a.t().as_standard_layout().into_owned(), b.t().to_owned());
        let bt = bt.as_standard_layout().into_owned();
        for left in [a.view(), at.t()] {
            for right in [b.view(), bt.t()] {
                close(&matmul(left, right), &expected, 1e-12);
            }
        }
        let reversed = matmul(a.slice(ndarray::s![..;-1, ..]), b.view());
        close(
            &reversed.slice(ndarray::s![..;-1, ..]).to_owned(),
            &expected,
            1e-12,
        );
        let singles = matmul(a.mapv(|x| x as f32).view(), b.mapv(|x| x as f32).view());
        close(&singles.mapv(f64::from), &expected, 1e-3);
    }
}

/// An element as the module states it: parts of the inner dimension, each a sum in order; or sixteen sums,
/// for few rows and a right factor in columns.
fn stated<F: Real>(a: ArrayView2<F>, b: ArrayView2<F>, fused: bool) -> Array2<F> {
    let in_columns = b.t().is_standard_layout() && (1..=4).contains(&a.nrows()) && a.ncols() >= 64;
    // Slices, whose elements are reached fast without optimisation too.
    let (rows, columns) = (
        a.as_standard_layout(),
        b.t().as_standard_layout().into_owned(),
    );
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| {
        let (row, column) = (rows.row(i), columns.row(j));
        let (row, column) = (row.to_slice().unwrap(), column.to_slice().unwrap());
        // A loop without an iterator, which is fast without optimisation too.
        let sum = |mut l: usize, end: usize, step: usize| {
            let mut sum = F::zero();
            while l < end {
                sum = match fused {
                    true => row[l].mul_add(column[l], sum),
                    false => row[l] * column[l] + sum,
                };
                l += step;
            }
            sum
        };
        if in_columns {
            let mut sums: Vec<F> = (0..16).map(|lane| sum(lane, a.ncols(), 16)).collect();
            for half in [8, 4, 2, 1] {
                sums = (0..half).map(|l| sums[l] + sums[l + half]).collect();
            }
            return sums[0];
        }
        let part = |inner: Range<usize>| sum(inner.start, inner.end, 1);
        let parts = par::chunks(a.ncols(), INNER).into_iter().map(part);
        parts.reduce(|sum, part| sum + part).unwrap_or(F::zero())
    })
}

#[test]
fn every_element_is_the_sum_that_is_stated() {
    fn check<F: Real>() {
        // Few terms, with every width of a last panel: less than a group of them, and one group and a rest.
        let narrow = (1..=130)
            .flat_map(|n| [(1, 5), (2, 5), (3, 2), (4, 5), (7, 3), (7, 5)].map(|(m, k)| (m, k, n)));
        let sizes = [
            (1, 1, 1),
            (1, 1300, 5),
            (3, 40, 100),
            // Few rows, with sums in lanes if the right factor lies in columns, and with loops of their own
            // if it lies in rows.
            (2, 1030, 260),
            (3, 520, 130),
            (4, 1040, 100),
            (1, 64, 1),
            (1, 128, 70),
            (1, 600, 200),
            (2, 63, 9),
            (3, 77, 6),
            (4, 1040, 33),
            (5, 100, 7),
            (10, 513, 32),
            (21, 1030, 16),
            (64, 64, 64),
            (23, 65, 600),
            (35, 2, 1100),
            // Copied rows: in two parts of the inner dimension, and in several blocks per task.
            (7, 520, 262),
            (301, 70, 270),
            // Short rows of the right factor, which is read in place where they fill vectors, in parts of the
            // inner dimension too, with every width of a last panel.
            (90, 1030, 24),
            (35, 520, 72),
            (35, 520, 80),
            (35, 520, 96),
            (35, 520, 128),
            // The last products of this kind in f32, and the first that copies the right factor.
            (48, 4, 512),
            (49, 4, 512),
            (13, 4, 528),
            // Few columns, whose transpose is computed if the left factor lies in columns.
            (66, 9, 3),
            (130, 1030, 7),
            (64, 40, 1),
        ];
        for (m, k, n) in sizes.into_iter().chain(narrow) {
            let of = |m, n, seed| Array2::from_shape_vec((m, n), data::<F>(m * n, seed)).unwrap();
            let (a, b) = (of(m, k, 5), of(k, n, 6));
            let (at, bt) = (a.t().to_owned(), b.t().to_owned());
            let [at, bt] = [at, bt].map(|x| x.as_standard_layout().into_owned());
            // Gaps behind rows, between rows, and between all elements.
            let [mut wide, mut tall, mut loose] =
                [(m, 2 * k), (2 * m, k), (2 * m, 2 * k)].map(|(m, k)| of(m, k, 7));
            wide.slice_mut(ndarray::s![.., ..k]).assign(&a);
            tall.slice_mut(ndarray::s![..;2, ..]).assign(&a);
            loose.slice_mut(ndarray::s![..;2, ..;2]).assign(&a);
            let lefts = [
                a.view(),
                at.t(),
                wide.slice(ndarray::s![.., ..k]),
                tall.slice(ndarray::s![..;2, ..]),
                loose.slice(ndarray::s![..;2, ..;2]),
            ];
            for right in [b.view(), bt.t()] {
                let found = lefts.map(|left| bits(&matmul(left, right)));
                let is = |fused| {
                    let expected = bits(&stated(a.view(), right, fused));
                    found.iter().all(|found| *found == expected)
                };
                assert!(is(true) || is(false), "{m} {k} {n} {}", F::NAME);
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn broadcasts_operands_without_copying() {
    let row = matrix(1, 4, 1);
    let a = row.broadcast((6, 4)).unwrap();
    let b = matrix(4, 5, 2);
    close(&matmul(a, b.view()), &naive(a, b.view()), 1e-14);
}

#[test]
fn bits_do_not_depend_on_threads() {
    for (m, k, n) in [
        (2708, 64, 64),
        (64, 2708, 64),
        (64, 2000, 600),
        (600, 700, 530),
        // Strips that end with a single row or column, products with vectors, long inner dimensions.
        (13, 700, 300),
        (13, 500, 41),
        (257, 129, 129),
        (1, 1500, 2000),
        (3000, 800, 1),
        (2, 900, 1300),
        (200, 1023, 193),
        (768, 128, 65),
        // Right factors that are read in place by threads that share the rows of the output or its columns.
        (6, 400, 512),
        (48, 128, 512),
        (128, 128, 128),
        (45, 300, 256),
        (12, 400, 1024),
        (64, 2000, 64),
        (66, 2000, 30),
        (30, 2000, 66),
        (64, 5000, 5),
    ] {
        same_on_threads::<f32>(m, k, n);
        same_on_threads::<f64>(m, k, n);
    }
}

/// Asserts that a product has the same bits on one thread, on two and on four, for factors in rows and in
/// columns.
fn same_on_threads<F: Real>(m: usize, k: usize, n: usize) {
    let of = |m, n, seed| Array2::from_shape_vec((m, n), data::<F>(m * n, seed)).unwrap();
    let (a, b) = (of(m, k, 3), of(k, n, 4));
    let [at, bt] = [&a, &b].map(|x| x.t().as_standard_layout().into_owned());
    let all = || {
        [
            (&a.view(), &b.view()),
            (&at.t(), &b.view()),
            (&a.view(), &bt.t()),
            (&at.t(), &bt.t()),
        ]
        .map(|(a, b)| bits(&matmul(a.view(), b.view())))
    };
    let one = par::with_threads(1, all);
    for t in [2, 4] {
        assert!(
            par::with_threads(t, all) == one,
            "{m} {k} {n} on {t} threads, {}",
            F::NAME
        );
    }
}

#[test]
fn batches_broadcast() {
    let a = tensor(&[2, 1, 3, 4], data(24, 5));
    let b = tensor(&[5, 4, 6], data(120, 6));
    let out = matmul_batched(&a, &b);
    assert_eq!(out.shape(), [2, 5, 3, 6]);
    for i in 0..2 {
        for j in 0..5 {
            let x = item(a.view(), &[i, 0]);
            let y = item(b.view(), &[j]);
            close(&item(out.view(), &[i, j]).to_owned(), &naive(x, y), 1e-14);
        }
    }
    let plain = matmul_batched(
        &tensor(&[3, 4], data::<f64>(12, 1)),
        &tensor(&[4, 2], data(8, 2)),
    );
    assert_eq!(plain.shape(), [3, 2]);
    for (sa, sb, so) in [
        ([0, 2, 3], [0, 3, 4], [0, 2, 4]),
        ([2, 0, 3], [1, 3, 4], [2, 0, 4]),
        ([2, 2, 0], [2, 0, 4], [2, 2, 4]),
    ] {
        let out = matmul_batched(&Tensor::<f64>::zeros(&sa[..]), &Tensor::zeros(&sb[..]));
        assert_eq!(out.shape(), so);
        assert!(out.iter().all(|&x| x == 0.0));
    }
    let big = |n, seed| Array3::from_shape_vec((3, n, n), data::<f64>(3 * n * n, seed)).unwrap();
    let (a, b) = (
        big(160, 1).into_dyn().into_shared(),
        big(160, 2).into_dyn().into_shared(),
    );
    let run = |t| par::with_threads(t, || bits(matmul_batched(&a, &b).iter()));
    assert_eq!(run(1), run(4));
}

#[test]
#[should_panic(expected = "matmul: [3, 4] · [5, 2]: inner dimensions 4 ≠ 5")]
fn inner_dimensions_must_agree() {
    matmul(matrix(3, 4, 1).view(), matrix(5, 2, 1).view());
}

#[test]
#[should_panic(expected = "fewer than two dimensions")]
fn vectors_are_refused() {
    matmul_batched(&Tensor::<f64>::zeros(&[3][..]), &Tensor::zeros(&[3, 2][..]));
}
