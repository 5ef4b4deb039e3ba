//! Every operation of the registry: value, derivatives, modes, types, layouts; and a check that no
//! operation is missing from the registry.

use crate::cases::{cases, proptest_cases};
use crate::registry::{Case, Operation, Sampler, operations};
use emmy::autodiff::{check_grads, grad, vjp};
use emmy::tensor::tensor;
use emmy::{Real, Tape, Tensor, Var};
use ndarray::{Axis, Slice};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Draws of each operation in the tests that walk all of them.
const DRAWS: u64 = 25;

fn walk(mut check: impl FnMut(&Operation, &Case, &str)) {
    for operation in operations() {
        for seed in cases(DRAWS) {
            let case = (operation.draw)(&mut Sampler::new(seed));
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
            &(case.reference)(&case.args),
            1e-12,
            what,
        );
    });
}

/// Through draws that are too small for a derivative to flow it vanishes; enough others test each operation.
#[test]
fn first_and_second_derivatives_are_those_by_differences() {
    let mut flows = BTreeMap::<_, usize>::new();
    walk(|operation, case, what| {
        let count = flows.entry(operation.name).or_default();
        match check_grads(|x| (case.function.f64)(x), &case.args) {
            Ok(()) => {
                let result = value(case, &case.args);
                let full = case.args.iter().chain([&result]).all(|x| !x.is_empty());
                *count += usize::from(full);
            }
            Err(error) => assert!(
                error.to_string().contains("does not vanish"),
                "{what}: {error}"
            ),
        }
    });
    let draws = cases(DRAWS).count();
    for (name, count) in flows {
        assert!(
            5 * count >= draws,
            "{name}: only {count} of {draws} draws test its derivatives"
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

/// A scalar: a sum in which every element has a different weight.
fn weigh<F: Real>(y: Var<'_, F>) -> Var<'_, F> {
    let weights = (0..y.len())
        .map(|k| F::of((k as f64 * 0.7 + 0.3).sin()))
        .collect();
    (y * y.tape().constant(tensor(&y.shape(), weights))).sum_all()
}

/// The same numbers in another memory layout: columns first; every second element of a larger
/// array; backwards.
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
        "gat",
        "gatv2",
    ] {
        let (mut empty, mut single, mut scalar) = (false, false, false);
        for operation in operations().iter().filter(|o| o.name == name) {
            for seed in 0..4 * DRAWS {
                let case = (operation.draw)(&mut Sampler::new(seed));
                empty |= case.args.iter().any(|x| x.is_empty());
                single |= case.args.iter().any(|x| x.len() == 1);
                scalar |= case.args.iter().any(|x| x.ndim() == 0);
                close(
                    &value(&case, &case.args),
                    &(case.reference)(&case.args),
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
    #![proptest_config(proptest_cases(400))]

    #[test]
    fn drawn_at_random(seed in any::<u64>(), index in any::<prop::sample::Index>()) {
        let all = operations();
        let operation = &all[index.index(all.len())];
        let case = (operation.draw)(&mut Sampler::new(seed));
        let found = value(&case, &case.args);
        close(&found, &(case.reference)(&case.args), 1e-12, operation.name);
        // The mean over no elements is NaN, and has no derivative.
        prop_assume!(!found.iter().any(|y| y.is_nan()));
        if let Err(error) = check_grads(|x| (case.function.f64)(x), &case.args) {
            prop_assert!(error.to_string().contains("does not vanish"), "{}: {error}", operation.name);
        }
    }
}

/// The names that the sources record, in `.unary("name", …)`, `named("name")` and similar calls and in the
/// table of kinds, and the names of public functions of operations.
fn named_in_the_sources() -> (BTreeSet<String>, BTreeSet<String>) {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src");
    let (mut recorded, mut public) = (BTreeSet::new(), BTreeSet::new());
    let mut paths = vec![source.join("ops"), source.join("autodiff/kind.rs")];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        // Masks are no operations.
        if path.extension().is_none_or(|e| e != "rs") || path.ends_with("options.rs") {
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
            "Opaque(\"",
            "named(\"",
            "bent(\"",
            "limits(\"",
            "square_root(\"",
            "=> \"",
        ] {
            let after = code.split(opening).skip(1);
            recorded.extend(after.map(|rest| rest[..rest.find('"').unwrap()].to_owned()));
        }
        if path.ends_with("kind.rs") {
            continue;
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
        "recorded by engine/src/ops, reached by no entry of the registry: {missing:?}"
    );
    // These are constructors, the two ways to define an operation, methods of `Activation`, and `forget`,
    // which computes nothing (`forgotten.rs`). The last two are hidden; the tests of the measures of collapse,
    // which use them, cover them.
    let exempt = [
        "new",
        "sparse",
        "unary",
        "binary",
        "apply",
        "consume",
        "degree",
        "forget",
        "sqrt_or_zero",
        "recip_or_zero",
    ]
    .map(String::from)
    .into();
    let unregistered: Vec<_> = (public.difference(&exempt))
        .filter(|name| !registered.contains(*name))
        .collect();
    assert!(
        unregistered.is_empty(),
        "public in engine/src/ops, not in the registry: {unregistered:?}"
    );
}
