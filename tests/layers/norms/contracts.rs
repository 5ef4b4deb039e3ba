//! Configurations, and inputs that are refused.

use super::{KINDS, pairs, run, x};
use emmy::nn::{ActNorm, ContraConfig, Norm, PairNorm, Pass, Spectral, entries};
use emmy::{Tape, Tensor, init, store, tensor::tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn configurations_are_read_written_and_checked() {
    let pairs = pairs().into_iter().map(Norm::Pair);
    for norm in KINDS.into_iter().chain(pairs) {
        norm.validate(3).unwrap();
        let text = serde_json::to_string(&norm).unwrap();
        assert_eq!(serde_json::from_str::<Norm>(&text).unwrap(), norm, "{text}");
        let layer = norm.build::<f64>(3, &mut init::rng(0));
        assert_eq!(run(&layer, &x(&[4, 3], 0)).shape(), [4, 3]);
    }
    let batch = |momentum| Norm::Batch {
        eps: 1e-5,
        affine: true,
        momentum,
    };
    for (norm, says) in [
        (
            Norm::Graph { eps: -1.0 },
            "GraphNorm: eps: expected a number, at least 0, found -1",
        ),
        (
            Norm::Rms {
                eps: f64::NAN,
                gain: true,
            },
            "RmsNorm: eps: expected a number, at least 0, found NaN",
        ),
        (
            batch(Some(1.5)),
            "BatchNorm: momentum: expected a number from 0 to 1, found 1.5",
        ),
        (
            Norm::Pair(PairNorm {
                scale: f64::INFINITY,
                ..PairNorm::pyg(true)
            }),
            "PairNorm: scale: expected a finite number, found inf",
        ),
    ] {
        assert_eq!(norm.validate(3).unwrap_err().to_string(), says);
    }
    let without = |norm: Norm| entries(&norm.build::<f64>(3, &mut init::rng(0))).len();
    assert_eq!(
        without(Norm::Layer {
            eps: 0.0,
            gain: false,
            bias: false
        }),
        0
    );
    assert_eq!(
        without(Norm::Layer {
            eps: 0.0,
            gain: true,
            bias: false
        }),
        1
    );
    assert_eq!((without(batch(None)), without(batch(Some(0.1)))), (2, 4));
    assert_eq!(
        without(Norm::Batch {
            eps: 0.0,
            affine: false,
            momentum: None
        }),
        0
    );
}

/// The names and the positions under which saved configurations hold the norms.
#[test]
fn saved_norms_keep_their_form() {
    let saved = [
        (
            Norm::LAYER,
            r#"{"layer":{"eps":0.00001,"gain":true,"bias":true}}"#,
        ),
        (Norm::RMS, r#"{"rms":{"eps":1e-6,"gain":true}}"#),
        (
            Norm::BATCH,
            r#"{"batch":{"eps":0.00001,"affine":true,"momentum":0.1}}"#,
        ),
        (Norm::GRAPH, r#"{"graph":{"eps":0.00001}}"#),
        (
            Norm::PAIR,
            r#"{"pair":{"mode":"pn","scale":1.0,"eps":1e-6,"reading":"under-root"}}"#,
        ),
        (
            Norm::Contra(ContraConfig::new(0.5)),
            r#"{"contra":{"scale":0.5,"step":"fixed","temperature":1.0,"tau":"both","terms":"rows","#,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("norm.ckpt");
    for (position, (norm, text)) in saved.into_iter().enumerate() {
        let found = serde_json::to_string(&norm).unwrap();
        assert!(found.starts_with(text), "{found}");
        assert_eq!(serde_json::from_str::<Norm>(&found).unwrap(), norm);
        // The body of a checkpoint begins at byte 28, and an enumeration with the number of its variant.
        store::save::<f64>(&path, &norm).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(usize::from(bytes[28]), position, "{text}");
    }
}

/// The message of a contract violation.
#[track_caller]
fn refused(expected: &str, f: impl FnOnce(&Tape<f64>)) {
    let run = AssertUnwindSafe(|| f(&Tape::new()));
    let payload = catch_unwind(run).expect_err(expected);
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.unwrap_or_else(|| (*payload.downcast_ref::<&str>().unwrap()).to_owned());
    assert_eq!(text, expected);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let on = |norm: Norm, shape: &'static [usize]| {
        move |tape: &Tape<f64>| {
            let layer = norm.build(3, &mut init::rng(0));
            let pass = Pass::train(tape, &layer, 0);
            layer.forward(&pass, tape.constant(Tensor::zeros(shape)));
        }
    };
    refused(
        "LayerNorm: x has shape [2, 4], γ [3]: the last axes must be equal",
        on(Norm::LAYER, &[2, 4]),
    );
    refused("RmsNorm: x has no axis", on(Norm::RMS, &[]));
    refused(
        "RmsNorm: x has shape [2, 4], γ [3]: the last axes must be equal",
        on(Norm::RMS, &[2, 4]),
    );
    refused(
        "BatchNorm: x has shape [3], it must be [.., rows, features]",
        on(Norm::BATCH, &[3]),
    );
    refused(
        "BatchNorm: x has shape [1, 3]: at least two rows have a variance",
        on(Norm::BATCH, &[1, 3]),
    );
    refused(
        "GraphNorm: x has shape [2, 4], γ [3]: the last axes must be equal",
        on(Norm::GRAPH, &[2, 4]),
    );
    refused(
        "PairNorm: x has shape [3], it must be [.., rows, features]",
        on(Norm::PAIR, &[3]),
    );
    let fresh = ActNorm::<f64>::new(3);
    refused(
        "ActNorm: s and b have not started: call `initialize` with a first batch",
        |tape| {
            let pass = Pass::train(tape, &fresh, 0);
            fresh.forward(&pass, tape.constant(x(&[2, 3], 0)));
        },
    );
    refused(
        "ActNorm, inverse: s and b have not started: call `initialize` with a first batch",
        |tape| {
            let pass = Pass::eval(tape, &fresh);
            fresh.inverse(&pass, tape.constant(x(&[2, 3], 0)));
        },
    );
    refused(
        "ActNorm: x has shape [1, 3]: at least two rows have a variance",
        |_| {
            ActNorm::<f64>::new(3).initialize(&x(&[1, 3], 0));
        },
    );
    refused("ActNorm: the variances of x are not finite numbers", |_| {
        ActNorm::<f64>::new(1).initialize(&tensor(&[2, 1], vec![f64::NAN, 1.0]));
    });
    refused("Spectral: a weight of shape [3] is not a matrix", |_| {
        Spectral::<f64>::new(init::zeros(&[3]), &mut init::rng(0));
    });
}
