//! Rounding errors of every registered operation: the value in `f32` is as close to the exact one as
//! `lipschitz::rounding` says, at the recorded input and around it.

use crate::cases::cases;
use crate::registry::{Case, Sampler, operations};
use emmy::lipschitz::rounding;
use emmy::{Real, Tape, Tensor, Var, init};
use std::collections::BTreeMap;

/// The draws of each operation, of which `cargo test` takes an eighth.
const DRAWS: u64 = 40;

/// Distances of inputs.
const RADII: [f64; 2] = [0.0, 0.05];

/// Operations with numbers that differ between the two types (a slope of 0.2, coefficients that are
/// computed from fixed operands): f32 and f64 stand for two functions. `tests/lipschitz/rounding.rs` has
/// the first two.
const APART: [&str; 5] = ["clamp", "leaky_relu", "attend", "combine", "dot"];

/// The operations whose rounding error is known for each operand.
const BOUNDED: &str = "Sparse::column_sums Sparse::linear Sparse::matmul Sparse::row_sums \
    Sparse::t Sparse::t_matmul Sparse::to_dense abs add add_bias add_scalar broadcast_to clamp column_norms concat div div_scalar \
    frobenius_norm gather_columns gather_rows hardtanh index_add index_select inf_2_norm leaky_relu linear \
    matmul max max_all maximum mean mean_all min min_all minimum mse mul neg nll norm pad permute relu reshape \
    row_norms scalar_add scalar_div scalar_mul scalar_sub scale sddmm sddmm_add segment_max segment_mean \
    segment_sum segment_sum_columns slice spmm spmm_t sqrt square squeeze stack sub sub_scalar sum sum_all \
    sum_to t transpose unsqueeze var where_";

fn narrow(x: &Tensor<f64>) -> Tensor<f32> {
    x.mapv(|x| x as f32).into_shared()
}

fn widen<F: Real>(x: &Tensor<F>) -> Tensor<f64> {
    x.mapv(Real::as_f64).into_shared()
}

/// The operands with x as the k-th, which alone is a variable.
fn operands<'t, F: Real>(
    tape: &'t Tape<F>,
    case: &Case,
    k: usize,
    x: &Tensor<f32>,
) -> Vec<Var<'t, F>> {
    let cast = |x: &Tensor<f32>| x.mapv(|x| F::of(f64::from(x))).into_shared();
    let all = case.args.iter().enumerate();
    all.map(|(m, arg)| match m == k {
        true => tape.var(cast(x)),
        false => tape.constant(cast(&narrow(arg))),
    })
    .collect()
}

/// The value in `f32`, and in `f64` with its own error, at x′; and the error in `f32` around x.
fn values(
    case: &Case,
    k: usize,
    x: &Tensor<f32>,
    other: &Tensor<f32>,
    radius: f64,
) -> Option<[Tensor<f64>; 4]> {
    let (single, double) = (Tape::<f32>::new(), Tape::<f64>::new());
    let args = operands(&single, case, k, x);
    let around = rounding((case.function.f32)(&args), args[k], radius).ok()?;
    let args = operands(&single, case, k, other);
    let computed = widen(&(case.function.f32)(&args).value());
    let args = operands(&double, case, k, other);
    let y = (case.function.f64)(&args);
    let exact = rounding(y, args[k], 0.0).ok()?;
    Some([
        computed,
        y.value(),
        exact.entries().clone(),
        around.entries().clone(),
    ])
}

/// x with rows that are moved by at most the radius.
fn moved(x: &Tensor<f32>, radius: f64, seed: u64) -> Tensor<f32> {
    let width = x.shape().last().copied().unwrap_or(1).max(1) as f64;
    let step: Tensor<f64> = init::uniform(
        x.shape(),
        0.99 * radius / width.sqrt(),
        &mut init::rng(seed),
    );
    narrow(&(&widen(x) + &step).into_shared())
}

/// Every error holds. Which operations have none is listed, so that one that loses its bound is seen.
#[test]
fn no_error_is_larger_than_its_bound() {
    let mut bounded = BTreeMap::new();
    for operation in operations() {
        // An operation stands there several times, with different options.
        let always = bounded.entry(operation.name).or_insert(true);
        for seed in cases(DRAWS) {
            let case = (operation.draw)(&mut Sampler::new(seed));
            for (k, radius) in (0..case.args.len()).flat_map(|k| RADII.map(|r| (k, r))) {
                let x = narrow(&case.args[k]);
                let other = moved(&x, radius, seed);
                let Some([computed, double, error, bound]) = values(&case, k, &x, &other, radius)
                else {
                    *always &= radius > 0.0;
                    continue;
                };
                let entries = computed.iter().zip(&double).zip(error.iter().zip(&bound));
                for ((c, d), (e, b)) in entries.filter(|_| !APART.contains(&operation.name)) {
                    assert!(
                        (c - d).abs() <= b + e,
                        "{}, operand {k}, seed {seed}, radius {radius}: {c} for {d} ± {e:e}, bound {b:e}",
                        operation.name
                    );
                }
            }
        }
    }
    let bounded = bounded.iter().filter(|(_, always)| **always);
    let bounded: Vec<&str> = bounded.map(|(name, _)| *name).collect();
    assert_eq!(bounded, BOUNDED.split_whitespace().collect::<Vec<_>>());
}

/// Attention is linear in its values, with coefficients that `f32` computes from the fixed operands. Unit
/// values show these coefficients; with them the sums are as exact as the bound says.
#[test]
fn attention_with_the_coefficients_of_its_type_is_within_its_bound() {
    const VALUES: usize = 2;
    let mut compared = 0;
    for operation in operations().iter().filter(|o| o.name == "attend") {
        for seed in cases(DRAWS) {
            let case = (operation.draw)(&mut Sampler::new(seed));
            let x = narrow(&case.args[VALUES]);
            let Some([computed, _, _, bound]) = values(&case, VALUES, &x, &x, 0.0) else {
                continue;
            };
            let mut exact = Tensor::<f64>::zeros(computed.raw_dim());
            for (i, &value) in x.iter().enumerate() {
                let mut unit = Tensor::<f32>::zeros(x.raw_dim());
                *unit.iter_mut().nth(i).unwrap() = 1.0;
                let tape = Tape::<f32>::new();
                let column = (case.function.f32)(&operands(&tape, &case, VALUES, &unit)).value();
                exact = exact + widen(&column) * f64::from(value);
            }
            for ((y, f), b) in computed.iter().zip(&exact).zip(&bound) {
                compared += 1;
                assert!(
                    (y - f).abs() <= b * (1.0 + 1e-9),
                    "seed {seed}: {y} for {f} ± {b:e}"
                );
            }
        }
    }
    assert!(compared > 0);
}
