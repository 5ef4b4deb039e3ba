//! Tests of the tester: planted mistakes that `check_grads` must catch.

use emmy::autodiff::check_grads;
use emmy::tensor::tensor;
use emmy::{Tensor, Var};

/// y = x³ with the derivative times `first`, and the derivative of the derivative times `second`.
fn cube(x: Var<'_, f64>, first: f64, second: f64) -> Var<'_, f64> {
    x.unary(
        "cube",
        x.value().mapv(|x| x.powi(3)).into_shared(),
        move |p| {
            let x = p.x();
            let slope = x.unary(
                "slope",
                x.value().mapv(|x| 3.0 * first * x * x).into_shared(),
                move |p| p.gy() * p.x() * (6.0 * first * second),
            );
            p.gy() * slope
        },
    )
}

fn sample() -> Tensor<f64> {
    tensor(&[3], vec![0.7, -1.1, 1.9])
}

fn verdict(f: impl for<'t> Fn(&[Var<'t, f64>]) -> Var<'t, f64>, args: &[Tensor<f64>]) -> String {
    check_grads(f, args)
        .err()
        .map_or(String::new(), |e| e.to_string())
}

#[test]
fn planted_mistakes_are_caught() {
    assert_eq!(verdict(|x| cube(x[0], 1.0, 1.0), &[sample()]), "");
    for off in [1.001, 0.999, -1.0, 0.0] {
        let found = verdict(|x| cube(x[0], off, 1.0), &[sample()]);
        assert!(
            found.contains("order 1, argument 0, entry [0]"),
            "{off}: {found}"
        );
        let found = verdict(|x| cube(x[0], 1.0, off), &[sample()]);
        assert!(
            found.contains("order 2, argument 0, entry [0]"),
            "{off}: {found}"
        );
    }
}

#[test]
fn a_derivative_that_vanishes_is_suspicious() {
    let found = verdict(|x| x[0].relu(), &[tensor(&[2], vec![-1.0, -2.0])]);
    assert!(
        found.contains("a derivative that does not vanish"),
        "{found}"
    );
    let found = verdict(|x| x[0] * x[1].detach(), &[sample(), sample()]);
    assert!(found.contains("order 1, argument 1"), "{found}");
    let found = verdict(|x| x[0] + (x[1] * 0.0), &[sample(), sample()]);
    assert!(
        found.contains("argument 1: expected a derivative that does not vanish"),
        "{found}"
    );
}

#[test]
fn transposed_misplaced_and_missing_parts_are_caught() {
    let square = tensor(&[2, 2], vec![1.0, 2.0, 3.0, 4.5]);
    // ā = b ȳ in place of ȳ bᵀ.
    let found = verdict(
        |x| {
            x[0].binary(
                "wrong",
                x[1],
                emmy::kernels::gemm::matmul_batched(&x[0].value(), &x[1].value()),
                |p| p.b().matmul(p.gy()),
                |p| p.a().t().matmul(p.gy()),
            )
        },
        &[square.clone(), square.mapv(|x| x * x - 3.0).into_shared()],
    );
    assert!(found.contains("order 1, argument 0"), "{found}");
    // A broadcast operand whose adjoint is not summed but taken from the first row.
    let found = verdict(
        |x| {
            x[0].binary(
                "wrong",
                x[1],
                (x[0].value() + x[1].value()).into_shared(),
                |p| p.gy(),
                |p| p.gy().slice(0, 0..1).reshape(&[2]),
            )
        },
        &[square.clone(), tensor(&[2], vec![0.3, 0.4])],
    );
    assert!(found.contains("order 1, argument 1"), "{found}");
    // Right at first order; wrong at second order, because the factor is detached.
    let found = verdict(
        |x| {
            x[0].unary("wrong", x[0].value().mapv(f64::exp).into_shared(), |p| {
                p.gy() * p.y().detach()
            })
        },
        &[sample()],
    );
    assert!(found.contains("order 2"), "{found}");
    // NaN is equal to nothing.
    let found = verdict(|x| x[0].ln(), &[tensor(&[2], vec![1.0, -1.0])]);
    assert!(found.contains("NaN"), "{found}");
}

// Numbers of every size.

const SCALES: [f64; 5] = [1e-8, 1e-4, 1.0, 1e4, 1e8];

/// Every pair of a scale c of the function and a scale of its argument.
fn pairs() -> impl Iterator<Item = (f64, f64)> {
    SCALES
        .into_iter()
        .flat_map(|c| SCALES.map(|scale| (c, scale)))
}

fn scaled(scale: f64) -> Tensor<f64> {
    sample().mapv(|x| x * scale).into_shared()
}

#[test]
fn a_mistake_of_a_thousandth_is_caught_at_every_scale() {
    for (c, scale) in pairs() {
        let x = [scaled(scale)];
        assert_eq!(verdict(|x| cube(x[0], 1.0, 1.0) * c, &x), "");
        for off in [1.001, 0.99, -1.0, 0.0] {
            let found = verdict(|x| cube(x[0], off, 1.0) * c, &x);
            assert!(found.contains("order 1"), "{c} {scale} {off}: {found}");
            let found = verdict(|x| cube(x[0], 1.0, off) * c, &x);
            assert!(found.contains("order 2"), "{c} {scale} {off}: {found}");
        }
    }
}

#[test]
fn a_small_mistake_is_caught_beside_large_numbers() {
    let beside_one = |off| verdict(|x| cube(x[0], off, 1.0) * 1e-6 + 1.0, &[sample()]);
    assert_eq!(beside_one(1.0), "");
    assert!(beside_one(1.01).contains("order 1"));
    // Each argument has a scale of its own.
    let beside_another = |off| {
        verdict(
            |x| cube(x[0], off, 1.0) * 1e-6 + cube(x[1], 1.0, 1.0),
            &[sample(), sample()],
        )
    };
    assert_eq!(beside_another(1.0), "");
    assert!(beside_another(1.01).contains("order 1, argument 0"));
}

#[test]
fn correct_derivatives_pass_at_every_scale() {
    for (c, scale) in pairs() {
        let (x, positive) = (scaled(scale), scaled(scale).mapv(f64::abs).into_shared());
        let passes = |name: &str, f: for<'t> fn(Var<'t, f64>) -> Var<'t, f64>, x: &Tensor<f64>| {
            let found = verdict(|x| f(x[0]) * c, std::slice::from_ref(x));
            assert_eq!(found, "", "{name}, {c} {scale}");
        };
        passes("x³", |x| x * x * x, &x);
        passes("x⁻²", |x| x / x.powf(3.0), &x);
        passes("norm", |x| x.norm(&[], false), &x);
        passes("√x", |x| x.sqrt(), &positive);
        passes("x ln x", |x| x.ln() * x, &positive);
        if scale <= 1.0 {
            passes("exp", |x| x.exp(), &x);
            passes("tanh", |x| x.tanh(), &x);
            passes("softmax", |x| x.softmax(0), &x);
        }
    }
}

#[test]
fn near_a_flat_place_the_difference_is_good_enough() {
    let x = [tensor(&[1], vec![1.0 + 1e-6])];
    let flat = |off| verdict(|x| cube(x[0], off, 1.0) - x[0] * 3.0, &x);
    assert_eq!(flat(1.0), "");
    assert!(flat(1.0 + 1e-7).contains("order 1"));
}
