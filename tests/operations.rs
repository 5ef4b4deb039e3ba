//! Every operation of the registry: value, derivatives, modes, types, layouts; and the tester itself against planted mistakes.

use emmy::autodiff::{check_grads, grad, vjp};
use emmy::ops::registry::{Case, Draw, Operation, operations};
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var};
use ndarray::{Axis, Slice};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Draws of each operation in the tests that walk all of them.
const DRAWS: u64 = 25;

fn walk(mut check: impl FnMut(&Operation, &Case, &str)) {
    for operation in operations() {
        for seed in 0..DRAWS {
            let case = (operation.draw)(&mut Draw::new(seed));
            let shapes: Vec<_> = case.args.iter().map(|x| x.shape().to_vec()).collect();
            check(
                &operation,
                &case,
                &format!("{} of {shapes:?}, draw {seed}", operation.name),
            );
        }
    }
}

fn value(case: &Case, args: &[Tensor<f64>]) -> Tensor<f64> {
    let tape = Tape::new();
    let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
    (case.function.f64)(&vars).value()
}

#[track_caller]
fn close(found: &Tensor<f64>, expected: &Tensor<f64>, tolerance: f64, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * (1.0 + b.abs()) || (a.is_nan() && b.is_nan()),
            "{what}: element {index} is {a}, expected {b}"
        );
    }
}

#[test]
fn values_are_those_of_plain_loops() {
    walk(|_, case, what| {
        close(
            &value(case, &case.args),
            &(case.naive)(&case.args),
            1e-12,
            what,
        );
    });
}

#[test]
fn first_and_second_derivatives_are_those_by_differences() {
    walk(|_, case, what| {
        if let Err(error) = check_grads(|x| (case.function.f64)(x), &case.args) {
            // A few draws are too small for anything to flow; each operation must have others.
            assert!(
                error.to_string().contains("does not vanish"),
                "{what}: {error}"
            );
        }
    });
}

#[test]
fn every_operation_has_derivatives_that_do_not_vanish() {
    for operation in operations() {
        let flows = |seed| {
            let case = (operation.draw)(&mut Draw::new(seed));
            let full =
                case.args.iter().all(|x| !x.is_empty()) && !value(&case, &case.args).is_empty();
            full && check_grads(|x| (case.function.f64)(x), &case.args).is_ok()
        };
        let count = (0..DRAWS).filter(|&seed| flows(seed)).count();
        assert!(
            count >= 5,
            "{}: only {count} of {DRAWS} draws test its derivatives",
            operation.name
        );
    }
}

#[test]
fn single_precision_follows_double() {
    walk(|_, case, what| {
        let (tape, single) = (Tape::<f64>::new(), Tape::<f32>::new());
        let vars: Vec<_> = case.args.iter().map(|x| tape.var(x.clone())).collect();
        let singles: Vec<_> = case
            .args
            .iter()
            .map(|x| single.var(x.mapv(|x| x as f32).into_shared()))
            .collect();
        let (y, z) = ((case.function.f64)(&vars), (case.function.f32)(&singles));
        close(&widen(&z.value()), &y.value(), 2e-5, what);
        let (gy, gz) = (grad(weigh(y), &vars), grad(weigh(z), &singles));
        for (a, b) in gz.iter().zip(&gy) {
            close(&widen(a), b, 1e-4, what);
        }
    });
}

fn widen(x: &Tensor<f32>) -> Tensor<f64> {
    x.mapv(f64::from).into_shared()
}

/// A scalar in which every element has another weight.
fn weigh<F: Real>(y: Var<'_, F>) -> Var<'_, F> {
    let weights = (0..y.len())
        .map(|k| F::of((k as f64 * 0.7 + 0.3).sin()))
        .collect();
    (y * y.tape().constant(tensor(&y.shape(), weights))).sum_all()
}

/// The same numbers in other places: columns first; every other element of a larger array; backwards.
fn layouts(x: &Tensor<f64>) -> Vec<Tensor<f64>> {
    let mut all = Vec::new();
    let columns = x.t().as_standard_layout().into_owned().into_shared();
    all.push(columns.reversed_axes());
    if x.ndim() > 0 {
        let mut shape = x.shape().to_vec();
        let last = shape.len() - 1;
        shape[last] = 2 * shape[last] + 1;
        let mut spread = Tensor::from_elem(&shape[..], f64::NAN);
        let every_other = Slice::new(1, None, 2);
        spread.slice_axis_mut(Axis(last), every_other).assign(x);
        spread.slice_axis_inplace(Axis(last), every_other);
        all.push(spread);
        let mut backwards = x.clone();
        backwards.invert_axis(Axis(0));
        let mut backwards = backwards.as_standard_layout().into_owned().into_shared();
        backwards.invert_axis(Axis(0));
        all.push(backwards);
    }
    for view in &all {
        assert_eq!(view, x);
    }
    all
}

#[test]
fn strides_do_not_matter() {
    let mut strided = 0;
    walk(|_, case, what| {
        let run = |args: &[Tensor<f64>]| {
            let tape = Tape::new();
            let vars: Vec<_> = args.iter().map(|x| tape.var(x.clone())).collect();
            let y = (case.function.f64)(&vars);
            (y.value(), grad(weigh(y), &vars))
        };
        let (y, g) = run(&case.args);
        for k in 0..case.args.len() {
            for view in layouts(&case.args[k]) {
                strided += usize::from(!view.is_standard_layout());
                let mut args = case.args.clone();
                args[k] = view;
                let (z, h) = run(&args);
                close(&z, &y, 1e-14, what);
                h.iter().zip(&g).for_each(|(h, g)| close(h, g, 1e-13, what));
            }
        }
    });
    assert!(strided > 1000, "{strided}");
}

#[test]
fn an_adjoint_that_is_strided_changes_nothing() {
    walk(|_, case, what| {
        let tape = Tape::new();
        let vars: Vec<_> = case.args.iter().map(|x| tape.var(x.clone())).collect();
        let y = (case.function.f64)(&vars);
        let u: Tensor<f64> = tensor(&y.shape(), (0..y.len()).map(|k| (k as f64).cos()).collect());
        let expected = vjp(y, &vars, &u);
        for view in layouts(&u) {
            for (a, b) in vjp(y, &vars, &view).iter().zip(&expected) {
                close(a, b, 1e-13, what);
            }
        }
    });
}

#[test]
fn sizes_zero_and_one_are_among_the_draws() {
    for name in [
        "add",
        "exp",
        "sum",
        "reshape",
        "permute",
        "concat",
        "pad",
        "stack",
        "broadcast_to",
    ] {
        let (mut empty, mut single, mut scalar) = (false, false, false);
        for operation in operations().iter().filter(|o| o.name == name) {
            for seed in 0..4 * DRAWS {
                let case = (operation.draw)(&mut Draw::new(seed));
                empty |= case.args.iter().any(|x| x.is_empty());
                single |= case.args.iter().any(|x| x.len() == 1);
                scalar |= case.args.iter().any(|x| x.ndim() == 0);
                close(
                    &value(&case, &case.args),
                    &(case.naive)(&case.args),
                    1e-12,
                    name,
                );
            }
        }
        assert!(empty && single, "{name}");
        assert!(scalar || !["add", "exp", "sum"].contains(&name), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn drawn_at_random(seed in any::<u64>(), index in any::<prop::sample::Index>()) {
        let all = operations();
        let operation = &all[index.index(all.len())];
        let case = (operation.draw)(&mut Draw::new(seed));
        close(&value(&case, &case.args), &(case.naive)(&case.args), 1e-12, operation.name);
        if let Err(error) = check_grads(|x| (case.function.f64)(x), &case.args) {
            prop_assert!(error.to_string().contains("does not vanish"), "{}: {error}", operation.name);
        }
    }
}

/// What the sources record: names in `.unary("name", …)` and its kin. And what they make public.
fn named_in_the_sources() -> (BTreeSet<String>, BTreeSet<String>) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops");
    let (mut recorded, mut public) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code: String = text
            .lines()
            .filter(|l| !l.trim_start().starts_with("//"))
            .map(|l| format!("{}\n", l.trim()))
            .collect();
        for opening in [
            ".unary(\n\"",
            ".unary(\"",
            ".binary(\n\"",
            ".binary(\"",
            ".extremum(\"",
            "per_row(\n\"",
            "record(\n\"",
            "record(\"",
            "=> \"",
        ] {
            let after = code.split(opening).skip(1);
            recorded.extend(after.map(|rest| rest[..rest.find('"').unwrap()].to_owned()));
        }
        let after = code.split("pub fn ").skip(1);
        public.extend(after.map(|rest| rest[..rest.find(['(', '<']).unwrap()].to_owned()));
    }
    (recorded, public)
}

#[test]
fn an_operation_that_is_not_registered_is_found() {
    let (in_sources, public) = named_in_the_sources();
    assert!(
        in_sources.len() > 45 && public.len() > 80,
        "{} {}",
        in_sources.len(),
        public.len()
    );
    let (mut recorded, mut registered) = (BTreeSet::new(), BTreeSet::new());
    walk(|operation, case, _| {
        registered.insert(operation.name.rsplit("::").next().unwrap().to_owned());
        let tape = Tape::new();
        let vars: Vec<_> = case.args.iter().map(|x| tape.var(x.clone())).collect();
        let y = (case.function.f64)(&vars);
        emmy::autodiff::grad_graph(weigh(y), &vars);
        recorded.extend(tape.operations().into_keys().map(String::from));
    });
    let missing: Vec<_> = in_sources.difference(&recorded).collect();
    assert!(
        missing.is_empty(),
        "recorded by src/ops, reached by no entry of the registry: {missing:?}"
    );
    // Not operations: constructors.
    let exempt = ["new", "sparse"].map(String::from).into();
    let unregistered: Vec<_> = (public.difference(&exempt))
        .filter(|name| !registered.contains(*name))
        .collect();
    assert!(
        unregistered.is_empty(),
        "public in src/ops, not in the registry: {unregistered:?}"
    );
}

// Planted mistakes.

/// y = x³ with the derivative times `first`, and the derivative of the derivative times `second`.
fn cube(x: Var<'_, f64>, first: f64, second: f64) -> Var<'_, f64> {
    x.unary(
        "cube",
        |x| x.mapv(|x| x.powi(3)).into_shared(),
        move |p| {
            let slope = p.x().unary(
                "slope",
                move |x| x.mapv(|x| 3.0 * first * x * x).into_shared(),
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
                |a, b| emmy::kernels::gemm::matmul_batched(a, b),
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
                |a, b| (a + b).into_shared(),
                |p| p.gy(),
                |p| p.gy().slice(0, 0..1).reshape(&[2]),
            )
        },
        &[square.clone(), tensor(&[2], vec![0.3, 0.4])],
    );
    assert!(found.contains("order 1, argument 1"), "{found}");
    // Right at first order, but the factor is detached: wrong at second.
    let found = verdict(
        |x| {
            x[0].unary(
                "wrong",
                |x| x.mapv(f64::exp).into_shared(),
                |p| p.gy() * p.y().detach(),
            )
        },
        &[sample()],
    );
    assert!(found.contains("order 2"), "{found}");
    // NaN agrees with nothing.
    let found = verdict(|x| x[0].ln(), &[tensor(&[2], vec![1.0, -1.0])]);
    assert!(found.contains("NaN"), "{found}");
}

/// What a contract violation says.
#[track_caller]
fn panics(expected: &str, f: impl FnOnce(&Tape<f64>)) {
    let run = std::panic::AssertUnwindSafe(|| f(&Tape::new()));
    let payload = std::panic::catch_unwind(run).expect_err(expected);
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned());
    assert!(
        text.contains(expected),
        "{text:?} does not say {expected:?}"
    );
}

#[test]
fn a_violated_contract_names_operation_shapes_and_rule() {
    fn z<'t>(tape: &'t Tape<f64>, shape: &[usize]) -> Var<'t, f64> {
        tape.var(Tensor::zeros(shape))
    }
    panics("matmul: [3, 4] · [5, 2]: inner dimensions 4 ≠ 5", |t| {
        z(t, &[3, 4]).matmul(z(t, &[5, 2]));
    });
    panics(
        "add: [3, 4] and [3] do not broadcast: sizes 4 and 3 in axis 1",
        |t| {
            let _ = z(t, &[3, 4]) + z(t, &[3]);
        },
    );
    panics("linear: x [3, 4], weight [2, 5]", |t| {
        z(t, &[3, 4]).linear(z(t, &[2, 5]));
    });
    panics("sum: axis 2 is outside a tensor of 2 dimensions", |t| {
        z(t, &[3, 4]).sum(&[2], false);
    });
    panics("sum: an axis occurs twice", |t| {
        z(t, &[3, 4]).sum(&[1, -1], false);
    });
    panics(
        "index_select: index 3 is not below the size 3 of axis 0",
        |t| {
            z(t, &[3, 4]).index_select(0, vec![3]);
        },
    );
    panics("slice: 1..5 is not within axis 0 of [3, 4]", |t| {
        z(t, &[3, 4]).slice(0, 1..5);
    });
    panics("the mask [5] does not broadcast to [3, 4]", |t| {
        z(t, &[3, 4]).softmax_masked(1, &Tensor::from_elem(&[5][..], true));
    });
    panics("mse: ", |t| {
        z(t, &[3, 4]).mse(z(t, &[3, 1]));
    });
    panics("cross_entropy: ", |t| {
        z(t, &[3, 4]).cross_entropy(&[0, 1, 4], None);
    });
    panics("cross_entropy: ", |t| {
        z(t, &[3, 4]).cross_entropy(&[0, 1, 2], Some(&[false; 3]));
    });
    panics("the operands stand on different tapes", |t| {
        let other = Tape::new();
        let _ = z(&other, &[2]) + z(t, &[2]);
    });
    panics("dropout: ", |t| {
        z(t, &[3]).dropout(1.5, 0);
    });
}

#[test]
fn nan_is_never_swallowed() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2], vec![f64::NAN, 1.0]));
    let one = tape.var(tensor(&[2], vec![1.0, f64::NAN]));
    for y in [
        x.relu(),
        x.leaky_relu(0.2),
        x.elu(1.0),
        x.clamp(-1.0, 2.0),
        x.max(&[], false),
    ] {
        assert!(y.value().first().unwrap().is_nan());
    }
    for y in [x.maximum(one), x.minimum(one)] {
        assert!(y.value().iter().all(|y| y.is_nan()));
    }
}

#[test]
fn sparse_products_and_attention_refuse_operands_that_would_broadcast() {
    use emmy::ops::attention::EdgeAttention;
    use emmy::ops::sparse::spmm;
    fn z<'t>(tape: &'t Tape<f64>, shape: &[usize]) -> Var<'t, f64> {
        tape.var(Tensor::zeros(shape))
    }
    let pattern = emmy::sparse::Pattern::from_pairs(2, 2, &[(0, 0), (1, 0)]).unwrap();
    let edges = EdgeAttention {
        pattern: pattern.clone(),
        slope: 0.2,
        dropout: None,
    };
    panics("spmm: values []", |t| {
        spmm(&pattern, z(t, &[]), z(t, &[2, 3, 1]));
    });
    panics(
        "gatv2_attention: z_s [2, 2, 3], z_t [2, 2, 3], a [1, 3]",
        |t| {
            let x = z(t, &[2, 2, 3]);
            edges.gatv2(x, x, z(t, &[1, 3]));
        },
    );
    panics("gatv2_attention: z_s [2, 2, 3], z_t [2, 1, 3]", |t| {
        edges.gatv2_coefficients(z(t, &[2, 2, 3]), z(t, &[2, 1, 3]), z(t, &[2, 3]));
    });
    panics("different tapes", |t| {
        let other = Tape::new();
        edges.gatv2(z(t, &[2, 2, 3]), z(&other, &[2, 2, 3]), z(t, &[2, 3]));
    });
}
