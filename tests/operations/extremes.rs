//! Values and derivatives where a formula that is right on paper loses digits or makes ∞ − ∞: large
//! logits, far tails, infinite and masked elements, bounds.

use emmy::autodiff::{grad, grad_graph, vjp};
use emmy::tensor::{IntoTensor, scalar, tensor};
use emmy::train::metrics;
use emmy::{Real, Tape, Tensor, Var};

const INF: f64 = f64::INFINITY;

/// f(x) for a vector x.
fn value<F: Real, const N: usize>(
    x: [F; N],
    f: impl for<'t> Fn(Var<'t, F>) -> Var<'t, F>,
) -> Vec<F> {
    let tape = Tape::new();
    f(tape.var(x.into_tensor()))
        .value()
        .iter()
        .copied()
        .collect()
}

/// The derivatives of orders 0 to `order` of a function of one number, at x.
fn derivatives<F: Real>(x: F, order: usize, f: fn(Var<'_, F>) -> Var<'_, F>) -> Vec<F> {
    let tape = Tape::new();
    let x = tape.scalar(x);
    let mut y = f(x);
    let mut all = vec![y.item()];
    for _ in 0..order {
        y = grad_graph(y, &[x])[0];
        all.push(y.item());
    }
    all
}

#[track_caller]
fn near<F: Real>(found: F, expected: f64, relative: f64) {
    let found = found.as_f64();
    assert!(
        (found - expected).abs() <= relative * expected.abs(),
        "{found}, expected {expected}"
    );
}

/// ln(1 + e⁻²): the cross-entropy of logits that are 2 apart, at the larger one.
const TWO_APART: f64 = 0.126_928_011_042_972_5;

#[test]
fn large_logits_do_not_cancel() {
    fn check<F: Real>(large: f64, tolerance: f64) {
        for sign in [1.0, -1.0] {
            let logits = [sign * large, sign * large - 2.0].map(F::of);
            let y = value(logits, |x| x.log_softmax(0));
            near(y[0], -TWO_APART, tolerance);
            near(y[1], -TWO_APART - 2.0, tolerance);
            let loss = value(logits, |x| x.reshape(&[1, 2]).cross_entropy(&[0], None));
            near(loss[0], TWO_APART, tolerance);
            let rows = tensor(&[1, 2], logits.to_vec());
            let measured = metrics::cross_entropy(&rows, &[0], &[true]);
            near(measured, TWO_APART, 1e-14);
            let tape = Tape::new();
            let x = tape.var(rows);
            let g = &grad(x.cross_entropy(&[0], None), &[x])[0];
            let share = 1.0 / (1.0 + 2.0_f64.exp());
            near(g[[0, 0]], -share, 10.0 * tolerance);
            near(g[[0, 1]], share, 10.0 * tolerance);
        }
    }
    check::<f32>(1e7, 5e-7);
    check::<f64>(1e15, 2e-15);
}

#[test]
fn infinite_elements_of_a_logsumexp() {
    assert_eq!(value([INF, 1.0, 2.0], |x| x.logsumexp(0, false)), [INF]);
    assert_eq!(value([-INF; 3], |x| x.logsumexp(0, false)), [-INF]);
    let y = value([-INF, 1.0, 1.0], |x| x.logsumexp(0, false));
    near(y[0], 1.0 + 2.0_f64.ln(), 1e-15);
    let y = value([INF, f64::NAN], |x| x.logsumexp(0, false));
    assert!(y[0].is_nan());
    let y = value([-INF, 1.0, 1.0], |x| x.log_softmax(0));
    assert_eq!((y[0], y[1]), (-INF, -2.0_f64.ln()));
}

/// Masks that broadcast over leading, middle and trailing axes, along each axis: the same as the mask written
/// out, and as only the elements that the mask keeps.
#[test]
fn masks_broadcast_along_any_axis() {
    let shape = [3, 4, 5];
    let x: Tensor<f64> = tensor(&shape, (0..60).map(|k| (k as f64 * 1.7).sin()).collect());
    let mut masked = 0;
    for of in [
        &[4, 5][..],
        &[5],
        &[4, 1],
        &[3, 1, 1],
        &[1, 1, 5],
        &[3, 4, 1],
        &[],
        &[3, 4, 5],
    ] {
        let n: usize = of.iter().product();
        let mask = tensor(of, (0..n).map(|k| k % 3 != 1).collect::<Vec<bool>>());
        let whole = mask.broadcast(&shape[..]).unwrap().to_shared();
        let written = whole.as_standard_layout().into_owned().into_shared();
        for axis in [0, 1, -1] {
            let tape = Tape::new();
            let x = tape.var(x.clone());
            type Masked = for<'t> fn(Var<'t, f64>, isize, &Tensor<bool>) -> Var<'t, f64>;
            let operations: [Masked; 3] = [
                |x, axis, mask| x.softmax_masked(axis, mask),
                |x, axis, mask| x.log_softmax_masked(axis, mask),
                |x, axis, mask| x.logsumexp_masked(axis, mask, true),
            ];
            for f in operations {
                let (y, z) = (f(x, axis, &mask), f(x, axis, &written));
                assert_eq!(y.value(), z.value());
                let ones = Tensor::from_elem(y.value().raw_dim(), 1.5);
                assert_eq!(vjp(y, &[x], &ones), vjp(z, &[x], &ones));
            }
            let [soft, log, sum] = operations.map(|f| f(x, axis, &mask).value());
            for (index, &on) in written.indexed_iter() {
                masked += usize::from(!on);
                let lse = sum.broadcast(&shape[..]).unwrap()[&index];
                let expected = if on { x.value()[&index] - lse } else { -INF };
                assert!(log[&index] == expected || (log[&index] - expected).abs() < 1e-14);
                assert!((soft[&index] - expected.exp()).abs() < 1e-15);
            }
        }
    }
    assert!(masked > 100);
}

#[test]
fn adjoints_of_masked_elements_do_not_count() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2, 3], vec![0.5, 1.0, -2.0, 3.0, 1.0, 2.0]));
    // The second row has no element.
    let mask = tensor(&[2, 3], vec![true, false, true, false, false, false]);
    let y = x.log_softmax_masked(1, &mask);
    assert_eq!(y.value()[[0, 1]], -INF);
    assert!(y.value().iter().skip(3).all(|&y| y == -INF));
    let of = |second: f64, row: f64| {
        let u = tensor(&[2, 3], vec![0.3, second, 0.9, row, row, row]);
        vjp(y, &[x], &u).remove(0)
    };
    let expected = of(0.0, 0.0);
    assert_eq!(expected[[0, 1]], 0.0);
    assert_ne!(expected[[0, 0]], 0.0);
    for odd in [7.0, INF, f64::NAN] {
        assert_eq!(of(odd, odd), expected);
    }
    // To second order: a function of all elements that is finite at −∞.
    let loss = (y.exp() * y.exp()).sum_all();
    let g = grad_graph(loss, &[x])[0];
    let h = &grad(g.square().sum_all(), &[x])[0];
    assert!(h.iter().all(|h| h.is_finite()) && h[[0, 0]] != 0.0);
    assert!(h.iter().skip(3).all(|&h| h == 0.0) && h[[0, 1]] == 0.0);
}

/// Far out, where y + α has no digits left, every derivative of ELU is α eˣ.
#[test]
fn the_derivatives_of_elu_do_not_cancel() {
    for x in [-0.5, -5.0, -36.5, -40.0, -300.0, -700.0] {
        for &y in &derivatives::<f64>(x, 3, |x| x.elu(1.3))[1..] {
            near(y, 1.3 * x.exp(), 1e-15);
        }
        for &y in &derivatives::<f32>(x as f32, 3, |x| x.elu(1.3))[1..] {
            let expected = 1.3 * x.exp();
            assert!((f64::from(y) - expected).abs() <= 3e-7 * expected + 1e-45);
        }
    }
    assert_eq!(derivatives(2.0, 3, |x| x.elu(1.3)), [2.0, 1.0, 0.0, 0.0]);
    assert_eq!(derivatives(0.0, 2, |x| x.elu(1.3)), [0.0, 1.3, 1.3]);
    // The branch is chosen by x: with α < 0 the value is positive on the left.
    near(
        derivatives(-1.0, 1, |x| x.elu(-2.0))[1],
        -2.0 * (-1.0_f64).exp(),
        1e-15,
    );
}

#[test]
fn the_derivative_of_clamp_is_zero_at_its_bounds() {
    let clamped = [-2.0, -0.5, 0.0, 0.5, 2.0].map(|x| derivatives(x, 2, |x| x.clamp(-0.5, 0.5)));
    let slopes = clamped.map(|d| (d[1], d[2]));
    assert_eq!(
        slopes,
        [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    );
    for x in [-1.0, 0.0, 1.0] {
        let relu = derivatives(x, 1, |x| x.relu());
        assert_eq!(derivatives(x, 1, |x| x.clamp(0.0, INF)), relu);
    }
}

/// Φ, GELU and their derivatives, computed with 50 digits: `(x, Φ, x Φ, Φ + x φ, φ, (2 − x²) φ)`.
const NORMAL: [[f64; 6]; 7] = [
    [
        -37.0,
        5.725_571_222_524_577e-300,
        -2.118_461_352_334_093_5e-298,
        -7.838_298_669_418_516e-297,
        2.120_006_551_524_605_6e-298,
        -2.898_048_955_934_136e-295,
    ],
    [
        -11.5,
        6.595_771_446_113_675e-31,
        -7.585_137_163_030_726e-30,
        -8.721_946_008_864_147e-29,
        7.641_655_411_587_203e-30,
        -9.953_256_173_592_332e-28,
    ],
    [
        -4.25,
        0.000_010_688_525_774_934_42,
        -0.000_045_426_234_543_471_29,
        -0.000_192_115_679_525_186_6,
        0.000_047_718_636_541_204_945,
        -0.000_766_480_599_443_104_5,
    ],
    [
        -0.75,
        0.226_627_352_376_868_2,
        -0.169_970_514_282_651_14,
        0.000_774_278_260_764_895_7,
        0.301_137_432_154_804_43,
        0.432_885_058_722_531_36,
    ],
    [
        0.125,
        0.549_738_224_830_112_9,
        0.068_717_278_103_764_12,
        0.599_217_935_698_206_6,
        0.395_837_686_944_749_47,
        0.785_490_410_030_987_3,
    ],
    [
        1.5,
        0.933_192_798_731_141_9,
        1.399_789_198_096_713,
        1.127_469_192_229_979_5,
        0.129_517_595_665_891_72,
        -0.032_379_398_916_472_93,
    ],
    [
        9.0,
        1.0,
        9.0,
        1.00000000000000001,
        1.027_977_357_166_891_5e-18,
        -8.121_021_121_618_442e-17,
    ],
];

#[test]
fn gelu_is_accurate_in_both_tails() {
    for [x, cdf, y, slope, density, bend] in NORMAL {
        // Φ + x φ changes sign near −0.75, (2 − x²) φ at √2: there the terms are what is accurate.
        let d = derivatives::<f64>(x, 2, |x| x.gelu());
        near(d[0], y, 2e-15);
        assert!(
            (d[1] - slope).abs() <= 1e-15 * (cdf + (x * density).abs()),
            "{x}"
        );
        assert!(
            (d[2] - bend).abs() <= 2e-15 * (2.0 + x * x) * density,
            "{x}"
        );
        let d = derivatives::<f64>(x, 2, |x| x.normal_cdf());
        near(d[0], cdf, 2e-15);
        near(d[1], density, 1e-15);
        near(d[2], -x * density, 2e-15);
        // Where single precision has normal numbers.
        if x.abs() < 12.0 {
            let d = derivatives::<f32>(x as f32, 2, |x| x.gelu());
            near(d[0], y, 6e-7);
            assert!((f64::from(d[1]) - slope).abs() <= 6e-7 * (cdf + (x * density).abs()));
            assert!((f64::from(d[2]) - bend).abs() <= 8e-7 * (2.0 + x * x) * density);
        }
    }
}

#[test]
fn gelu_of_infinities_and_zeros() {
    let y = value([INF, -INF, f64::NAN, 0.0, -0.0, 100.0, -100.0], |x| {
        x.gelu()
    });
    assert_eq!((y[0], y[1], y[5], y[6]), (INF, 0.0, 100.0, 0.0));
    assert!(y[2].is_nan());
    assert!(y[3].is_sign_positive() && y[4].is_sign_negative());
    for (x, slope) in [(INF, 1.0), (-INF, 0.0), (0.0, 0.5), (-0.0, 0.5)] {
        assert_eq!(derivatives(x, 1, |x| x.gelu())[1], slope);
        assert_eq!(derivatives(x as f32, 1, |x| x.gelu())[1], slope as f32);
    }
    let y = value([f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30], |x| {
        x.gelu()
    });
    assert_eq!(y, [f32::INFINITY, 0.0, 1e30, 0.0]);
}

/// Rows, columns and slices between; repeats, none at all; views. Against the elements one by one.
#[test]
fn slices_are_selected_and_added_one_by_one() {
    let x: Tensor<f64> = tensor(&[4, 3, 5], (0..60).map(f64::from).collect());
    let turned = x.t().to_shared();
    for x in [x, turned] {
        for axis in 0..3 {
            let size = x.shape()[axis];
            for indices in [vec![], vec![size - 1], vec![1, 0, 1, 1, 2]] {
                let tape = Tape::new();
                let v = tape.var(x.clone());
                let y = v.index_select(axis as isize, indices.clone());
                let expected = x.select(ndarray::Axis(axis), &indices);
                assert_eq!(y.value(), expected);
                let sums = y
                    .index_add(axis as isize, indices.clone(), size + 1)
                    .value();
                let slices = sums.axis_iter(ndarray::Axis(axis)).enumerate();
                for (i, slice) in slices {
                    let times = indices.iter().filter(|&&k| k == i).count() as f64;
                    let own = match i {
                        i if i < size => x.index_axis(ndarray::Axis(axis), i).to_owned(),
                        _ => slice.to_owned(),
                    };
                    assert_eq!(slice, own * times);
                }
            }
        }
    }
    let tape = Tape::new();
    let empty = tape.var(Tensor::<f64>::zeros(&[2, 0, 3][..]));
    assert_eq!(empty.index_select(0, [1, 1, 0]).shape(), [3, 0, 3]);
    assert_eq!(
        empty.index_add(1, [], 2).value(),
        Tensor::<f64>::zeros(&[2, 2, 3][..])
    );
    let one = tape.var(
        scalar(2.0)
            .into_shape_with_order(ndarray::IxDyn(&[1]))
            .unwrap(),
    );
    assert_eq!(
        one.index_select(0, [0, 0]).value(),
        tensor(&[2], vec![2.0, 2.0])
    );
}

#[test]
fn the_sum_in_a_logsumexp_goes_on_behind_two_to_24() {
    let tape = Tape::new();
    let count = (1 << 25) + 1;
    let y = tape
        .constant(Tensor::<f32>::zeros(vec![count]))
        .logsumexp(0, false);
    near(y.item(), (count as f64).ln(), 1e-6);
}

/// A prediction that is certain and right has a small loss, and a small derivative.
#[test]
fn binary_cross_entropy_of_certain_predictions() {
    fn check<F: Real>(sizes: &[f64], tolerance: f64) {
        for &size in sizes {
            for (x, t) in [(size, 1.0), (-size, 0.0)] {
                let tape = Tape::new();
                let [x, t] = [x, t].map(|x| tape.var(tensor(&[1], vec![F::of(x)])));
                let loss = x.bce_with_logits(t);
                let small = (-size).exp();
                near(loss.item(), small.ln_1p(), tolerance);
                let sign = if t.item() > F::zero() { -1.0 } else { 1.0 };
                near(
                    grad(loss, &[x])[0][0],
                    sign * small / (1.0 + small),
                    tolerance,
                );
            }
        }
    }
    check::<f32>(&[1.0, 10.0, 15.0, 20.0], 1e-6);
    check::<f64>(&[1.0, 20.0, 36.0], 1e-14);
}

#[test]
fn derivatives_of_gelu_far_away() {
    for x in [2e19_f32, 1e20, 1e30] {
        let both: [fn(Var<'_, f32>) -> Var<'_, f32>; 2] = [|x| x.gelu_tanh(), |x| x.gelu()];
        for f in both {
            assert_eq!(derivatives(x, 2, f), [x, 1.0, 0.0]);
            let below = derivatives(-x, 2, f);
            assert!(below.iter().all(|&y| y == 0.0), "{below:?}");
        }
    }
}

#[test]
fn a_segment_without_finite_scores_has_no_shares() {
    use emmy::ops::sparse::segment_softmax;
    use emmy::sparse::Pattern;
    let edges = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 0)]).unwrap();
    for width in [1, 2, 3] {
        let tape = Tape::new();
        let scores = [-INF, -INF, 5.0].map(|s| vec![s; width]).concat();
        let y = segment_softmax(&edges, tape.var(tensor(&[3, width], scores)));
        let expected = [0.0, 0.0, 1.0].map(|s| vec![s; width]).concat();
        assert_eq!(y.value(), tensor(&[3, width], expected));
    }
}

#[test]
fn a_size_that_is_too_large_is_not_the_open_one() {
    let refused = std::panic::catch_unwind(|| {
        let tape = Tape::new();
        tape.var(vec![1.0; 4]).reshape(&[usize::MAX, 2]).len()
    });
    assert!(refused.is_err());
}
