//! Operands that an operation refuses: the panic names the operation, the shapes and the rule. NaN
//! is not refused; it stays NaN.

use emmy::ops::attention::{EdgeAttention, EdgeOperands, LeakySum};
use emmy::ops::sparse::spmm;
use emmy::sparse::Pattern;
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, Var};

/// The message of a contract violation.
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

fn z<'t>(tape: &'t Tape<f64>, shape: &[usize]) -> Var<'t, f64> {
    tape.var(Tensor::zeros(shape))
}

#[test]
fn a_violated_contract_names_operation_shapes_and_rule() {
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
    let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (1, 0)]).unwrap();
    let edges = EdgeAttention {
        pattern: pattern.clone(),
        dropout: None,
    };
    panics("spmm: values []", |t| {
        spmm(&pattern, z(t, &[]), z(t, &[2, 3, 1]));
    });
    let score = LeakySum { slope: 0.2 };
    panics("EdgeAttention::attend: a has shape [1, 3]", |t| {
        let x = z(t, &[2, 2, 3]);
        edges.attend(score, EdgeOperands::gatv2(x, x, z(t, &[1, 3])));
    });
    panics("EdgeAttention::coefficients: q has shape [2, 1, 3]", |t| {
        let (source, target) = (z(t, &[2, 2, 3]), z(t, &[2, 1, 3]));
        let operands = EdgeOperands::gatv2(source, target, z(t, &[2, 3]));
        edges.coefficients(score, operands);
    });
    panics("different tapes", |t| {
        let other = Tape::new();
        let (source, target) = (z(t, &[2, 2, 3]), z(&other, &[2, 2, 3]));
        edges.attend(score, EdgeOperands::gatv2(source, target, z(t, &[2, 3])));
    });
}
