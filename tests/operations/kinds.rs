//! What operations say of themselves, compared with numbers: those of the crate, and a user's.

use crate::registry::{Sampler, operations};
use emmy::autodiff::{Function, Kind, Map, check_kind};
use emmy::kernels::map;
use emmy::lipschitz::{Domain, Lp, bound};
use emmy::nn::Activation;
use emmy::tensor::tensor;
use emmy::{Tape, Var};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every claim of every registered operation; a composition is left out, its parts are registered too.
#[test]
fn no_operation_says_what_is_false() {
    let mut checked = BTreeSet::new();
    for operation in operations() {
        for seed in 0..20 {
            let case = (operation.draw)(&mut Sampler::new(seed));
            match check_kind(|x| (case.function.f64)(x), &case.args) {
                Ok(true) => {
                    checked.insert(operation.name);
                }
                Ok(false) => (),
                Err(error) => assert!(
                    error.to_string().contains("one operation on the arguments"),
                    "{}, seed {seed}: {error}",
                    operation.name
                ),
            }
        }
    }
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "scale",
        "add_scalar",
        "powf",
        "square",
        "exp",
        "ln",
        "sqrt",
        "abs",
        "sin",
        "cos",
        "tanh",
        "sigmoid",
        "relu",
        "leaky_relu",
        "elu",
        "gelu",
        "gelu_tanh",
        "silu",
        "mish",
        "hardtanh",
        "softplus",
        "clamp",
        "normal_cdf",
        "maximum",
        "minimum",
        "where_",
        "sum",
        "sum_to",
        "broadcast_to",
        "reshape",
        "permute",
        "slice",
        "pad",
        "index_select",
        "index_add",
        "gather_rows",
        "gather_columns",
        "segment_sum",
        "segment_sum_columns",
        "rotate_planes",
    ] {
        assert!(checked.contains(name), "{name} was never one operation");
    }
}

/// Kinks, flat places and large arguments, which no draw may hit.
#[test]
fn activations_at_special_arguments() {
    let x = tensor(
        &[9],
        vec![0.0, -0.0, 1.0, -1.0, 3.5, -7.0, 30.0, -30.0, 1e-3],
    );
    for activation in [
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.2 },
        Activation::LeakyRelu { slope: -0.5 },
        Activation::LeakyRelu { slope: 3.0 },
        Activation::Elu,
        Activation::Gelu,
        Activation::Silu,
        Activation::Softplus,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Mish,
        Activation::HardTanh,
    ] {
        check_kind(|x| activation.apply(x[0]), std::slice::from_ref(&x)).unwrap();
    }
    for alpha in [-0.5, 0.5, 2.0] {
        check_kind(|x| x[0].elu(alpha), std::slice::from_ref(&x)).unwrap();
    }
    check_kind(|x| x[0].clamp(-0.3, 0.3), std::slice::from_ref(&x)).unwrap();
    check_kind(|x| x[0].clamp(1.0, 1.0), std::slice::from_ref(&x)).unwrap();
}

/// The degree that an activation has is the one that its operation says; a square of ReLU is two operations.
#[test]
fn the_degree_of_an_activation_is_that_of_its_function() {
    let x = tensor(&[4], vec![0.5, -0.5, 2.0, -3.0]);
    for (activation, degree) in [
        (Activation::Relu, Some(1)),
        (Activation::LeakyRelu { slope: 0.2 }, Some(1)),
        (Activation::ReluSquared, Some(2)),
        (Activation::HardTanh, None),
        (Activation::Mish, None),
        (Activation::Gelu, None),
    ] {
        assert_eq!(activation.degree(), degree);
        let at = |scale: f64| {
            let tape = Tape::new();
            let x = tape.constant((&x * scale).into_shared());
            activation.apply(x).value()
        };
        let scaled = match degree {
            Some(k) => (at(1.0) * 3.0f64.powi(k as i32)).into_shared(),
            None => (at(1.0) * 3.0).into_shared(),
        };
        let same = at(3.0)
            .iter()
            .zip(&scaled)
            .all(|(a, b)| (a - b).abs() < 1e-12);
        assert_eq!(same, degree.is_some(), "{activation:?}");
    }
}

/// y = x³ / (1 + x²), whose slopes are 0 to 9/8, with some facts changed.
fn own(x: Var<'_, f64>, function: Function) -> Var<'_, f64> {
    let value = map::unary(&x.value(), |x: f64| x.powi(3) / (1.0 + x * x));
    x.unary(function, value, |p| {
        let square = p.x().square();
        p.gy() * (square.square() + square * 3.0) / square.add_scalar(1.0).square()
    })
}

fn facts() -> Function {
    Function {
        slopes: [0.0, 1.125],
        slope: |_, x| {
            let slope = (x.powi(4) + 3.0 * x * x) / (1.0 + x * x).powi(2);
            [slope - 1e-12, slope + 1e-12]
        },
        growth: Some(1.0),
        ..Function::named("own")
    }
}

#[test]
fn a_false_claim_is_found() {
    let x = tensor(&[4], vec![0.5, -2.0, 1.7, 4.0]);
    let check = |function: Function| check_kind(|x| own(x[0], function), std::slice::from_ref(&x));
    check(facts()).unwrap();
    let wrong = [
        (
            Function {
                degree: Some(1.0),
                ..facts()
            },
            "degree 1",
        ),
        (
            Function {
                power: Some(3.0),
                ..facts()
            },
            "power",
        ),
        // 0.1 % too small.
        (
            Function {
                slopes: [0.0, 1.1238],
                ..facts()
            },
            "slope between",
        ),
        (
            Function {
                slopes: [0.001, 1.125],
                ..facts()
            },
            "slope between",
        ),
        (
            Function {
                slope: |_, x| [x, x],
                ..facts()
            },
            "slope at",
        ),
        (
            Function {
                turns: Some(&[]),
                ..facts()
            },
            "slope between",
        ),
        (
            Function {
                range: [-1.0, 1.0],
                ..facts()
            },
            "range",
        ),
        (
            Function {
                growth: Some(0.5),
                ..facts()
            },
            "growth",
        ),
    ];
    for (function, expected) in wrong {
        let error = check(function).unwrap_err().to_string();
        assert!(
            error.contains("`own`") && error.contains(expected),
            "{expected}: {error}"
        );
    }
}

/// y_i = x_i − x_{i+1}, with x_{n+1} = x_1.
fn differences(x: Var<'_, f64>, norms: [f64; 3], square: bool) -> Var<'_, f64> {
    let n = x.len();
    let next: Vec<usize> = (0..n).map(|i| (i + 1) % n).collect();
    let plain = x.value();
    let power = if square { 2 } else { 1 };
    let value = tensor(
        &[n],
        (0..n)
            .map(|i| (plain[[i]] - plain[[next[i]]]).powi(power))
            .collect(),
    );
    let map = Map::Own {
        name: "differences",
        norms,
    };
    x.unary(map, value, move |p| {
        p.gy() - p.gy().index_add(0, next.clone(), n)
    })
}

#[test]
fn a_false_claim_of_a_linear_map_is_found() {
    let x = tensor(&[4], vec![0.5, -2.0, 1.7, 4.0]);
    let check = |norms, square| {
        check_kind(
            |x| differences(x[0], norms, square),
            std::slice::from_ref(&x),
        )
    };
    check([2.0; 3], false).unwrap();
    for k in 0..3 {
        let mut norms = [2.0; 3];
        norms[k] = 1.99;
        let error = check(norms, false).unwrap_err().to_string();
        assert!(error.contains("norm for p = "), "{error}");
    }
    let error = check([2.0; 3], true).unwrap_err().to_string();
    assert!(error.contains("linearity"), "{error}");
}

#[test]
fn what_is_not_a_sum_or_a_product_is_found() {
    let [a, b] = [tensor(&[2], vec![1.0, 2.0]), tensor(&[2], vec![3.0, -1.0])];
    for kind in [Kind::Add, Kind::Subtract, Kind::Multiply, Kind::Divide] {
        let wrong = |x: &[Var<'_, f64>]| {
            let value = map::binary("wrong", &x[0].value(), &x[1].value(), |a, b| a + 1.01 * b);
            value.mapv(|y| y + 0.1).into_shared()
        };
        let error = check_kind(
            |x| x[0].binary(kind.clone(), x[1], wrong(x), |p| p.gy(), |p| p.gy()),
            &[a.clone(), b.clone()],
        );
        assert!(error.unwrap_err().to_string().contains("value"));
    }
    // A name alone says nothing.
    check_kind(|x| x[0].unary("relu", x[0].value(), |p| p.gy()), &[a]).unwrap();
}

/// Whether a line of code compares a text: with a literal, as a pattern or by an operator, or as a name.
fn compares_a_text(line: &str) -> bool {
    let literals = [
        "\" =>",
        "\" |",
        "== \"",
        "!= \"",
        "Opaque(\"",
        "matches!(name",
    ];
    let names = [
        "name() ==",
        "name() !=",
        "name ==",
        "name !=",
        "op ==",
        "op !=",
    ];
    let matched = ["name() {", "name {", "op {", "operation {"];
    literals
        .iter()
        .chain(&names)
        .any(|part| line.contains(part))
        || line.contains("match ") && matched.iter().any(|part| line.ends_with(part))
}

/// The files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files_below(&path),
            false => vec![path],
        })
        .collect()
}

/// What an operation is stands in its kind: no reader of the tape compares texts. A reader is any file
/// above the operations, or in the engine itself, that has to do with kinds or with the names of
/// operations.
#[test]
fn no_reader_of_the_tape_matches_on_a_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut readers = BTreeMap::new();
    for room in [
        "engine/src/autodiff",
        "src/symmetry",
        "src/lipschitz",
        "src/collapse",
        "src/init",
        "src/nn",
        "src/train",
    ] {
        for path in files_below(&root.join(room)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let (code, _) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
            let lines = code.lines().map(str::trim);
            let lines: Vec<_> = lines.filter(|line| !line.starts_with("//")).collect();
            let reads = ["Kind", ".kind", ".operations()", ".node("];
            if !lines.iter().any(|l| reads.iter().any(|r| l.contains(r))) {
                continue;
            }
            for line in lines {
                assert!(!compares_a_text(line), "{}: {line}", path.display());
            }
            *readers.entry(room).or_insert(0) += 1;
        }
    }
    for (room, least) in [
        ("engine/src/autodiff", 4),
        ("src/lipschitz", 5),
        ("src/nn", 7),
    ] {
        assert!(readers[room] >= least, "{readers:?}");
    }
    // What the test would find.
    for line in [
        "match node.kind.name() {",
        "\"relu\" | \"tanh\" => 1.0,",
        "if kind.name() == RELU {",
        "let linear = node.op == \"matmul\";",
        "Kind::Opaque(\"attend\") => Join::Unknown,",
    ] {
        assert!(compares_a_text(line), "{line}");
    }
}

/// Where a function bends, its slope at the point may be any between those of its two sides.
#[test]
fn at_a_kink_the_slope_is_that_of_either_side() {
    type Bent = for<'t> fn(Var<'t, f64>) -> Var<'t, f64>;
    let bent: [(&str, f64, Bent, f64); 8] = [
        ("relu", 0.0, |x| x.relu(), 1.0),
        ("leaky_relu", 0.0, |x| x.leaky_relu(-3.0), 3.0),
        ("elu", 0.0, |x| x.elu(2.0), 2.0),
        ("abs", 0.0, |x| x.abs(), 1.0),
        ("clamp, low", -0.5, |x| x.clamp(-0.5, 2.0), 1.0),
        ("clamp, high", 2.0, |x| x.clamp(-0.5, 2.0), 1.0),
        ("clamp to one number", 2.0, |x| x.clamp(2.0, 2.0), 0.0),
        ("hardtanh", 1.0, |x| x.hardtanh(), 1.0),
    ];
    for (name, at, function, expected) in bent {
        let tape = Tape::new();
        let x = tape.var(vec![at]);
        let found = bound(function(x), x, Lp::Two, Domain::Here).unwrap();
        assert_eq!(found.upper().get(), expected, "{name}");
    }
}
