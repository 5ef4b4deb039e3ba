//! The example that searches for laws.

use super::{command, refused, succeeded, text};
use serde_json::Value;
use std::process::Output;
use tempfile::TempDir;

fn laws(folder: &TempDir, args: &[&str]) -> Output {
    command("laws", folder, args).output().unwrap()
}

fn objects(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn one_object_per_model() {
    let folder = TempDir::new().unwrap();
    let (out, err) = succeeded(&laws(
        &folder,
        &["--model", "linear", "identity-map", "--json"],
    ));
    let [linear, identity] = &objects(&out)[..] else {
        panic!("{out}");
    };
    assert_eq!(linear["model"], "linear");
    for (key, expected) in [
        ("parameters", 20),
        ("declared", 10),
        ("found", 10),
        ("upper", 10),
    ] {
        assert_eq!(linear[key], expected, "{key}");
    }
    assert_eq!(linear["complete"], true);
    assert!(linear["max_delta"].as_f64().unwrap() < 1e-10);
    assert!(linear["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(identity["discovered"].as_array().unwrap().len(), 4);
    assert!(err.contains("complete, 4 not declared"), "{err}");
}

#[test]
fn the_table_names_the_laws_that_are_not_declared() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&laws(&folder, &["--model", "identity-map"]));
    let expected = "⟨inner.weight[0,:], G⟩ + G of inner.weight[0,0] − ⟨readout.weight[:,0], G⟩ = 0";
    assert!(out.contains(expected), "{out}");
    // Declared ones are printed if asked for.
    let plain = ["--model", "swiglu"];
    let (short, _) = succeeded(&laws(&folder, &plain));
    let (long, _) = succeeded(&laws(&folder, &[&plain[..], &["--laws"]].concat()));
    assert!(
        !short.contains('⟨') && long.contains("⟨up.weight[0,:], G⟩"),
        "{short}{long}"
    );
}

#[test]
fn a_norm_with_an_eps_has_one_law_less() {
    let folder = TempDir::new().unwrap();
    for (eps, found) in [("0", 16), ("0.01", 15)] {
        let args = ["--model", "preln-block", "--eps", eps, "--json"];
        let (out, _) = succeeded(&laws(&folder, &args));
        let object = &objects(&out)[0];
        assert_eq!(
            (&object["found"], &object["complete"]),
            (&found.into(), &true.into())
        );
    }
}

#[test]
fn a_training_is_drawn() {
    let folder = TempDir::new().unwrap();
    for (rule, known) in [
        ("descent", true),
        ("momentum", true),
        ("adam", false),
        ("adamw", false),
        ("muon", false),
    ] {
        let args = [
            "--model", "linear", "--train", "50", "--rule", rule, "--json",
        ];
        let (out, err) = succeeded(&laws(&folder, &args));
        let train = &objects(&out)[0]["train"];
        assert_eq!(train["steps"], 50);
        assert!(train["max_delta"].as_f64().unwrap() < 1e-10, "{train}");
        assert!(train["moved"].as_f64().unwrap() > 1e-6, "{train}");
        assert_eq!(
            train["off_the_drift"].as_f64().map(|off| off < 1e-9),
            known.then_some(true)
        );
        assert!(err.contains("figure: figures"), "{err}");
        for ending in ["svg", "png"] {
            let figure = folder.path().join(format!("figures/laws-linear.{ending}"));
            assert!(std::fs::metadata(figure).unwrap().len() > 1000, "{rule}");
        }
    }
    let (_, err) = succeeded(&laws(
        &folder,
        &[
            "--model",
            "linear",
            "--train",
            "3",
            "--figures",
            "none",
            "--json",
        ],
    ));
    assert!(!err.contains("figure"), "{err}");
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = TempDir::new().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["--model", "mpl"], "possible values: mlp"),
        (&["--eps", "-1"], "not a finite number from 0 up"),
        (&["--eps", "nan"], "not a finite number from 0 up"),
        (&["--lr", "0.1"], "--train"),
        (&["--rule", "adam"], "--train"),
        (&["--train", "0"], "0 is not in 1..="),
        (&["--threads", "8000"], "8000 is not in 0..=256"),
    ];
    for (args, expected) in cases {
        let output = laws(&folder, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{args:?}: {}",
            text(&output.stderr)
        );
    }
}

/// A training that diverges ends there and says so; the laws found are printed.
#[test]
fn a_training_that_diverges_is_reported() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--model",
        "linear",
        "--train",
        "500",
        "--lr",
        "100",
        "--figures",
        "none",
    ];
    let (out, _) = succeeded(&laws(&folder, &args));
    assert!(out.contains("diverged"), "{out}");
}

#[test]
fn all_models_are_not_some_models() {
    let folder = TempDir::new().unwrap();
    let output = laws(&folder, &["--all", "--model", "linear"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot be used with"));
}

/// Along another field the laws that layers declare need not hold. The object says neither that they hold nor
/// that they do not.
#[test]
fn an_object_names_its_field() {
    let folder = TempDir::new().unwrap();
    let args = ["--model", "linear", "--json"];
    let (out, _) = succeeded(&laws(&folder, &args));
    assert_eq!(objects(&out)[0]["field"], "gradient");
    let (out, _) = succeeded(&laws(&folder, &[&args[..], &["--field", "sign"]].concat()));
    let found = &objects(&out)[0];
    assert_eq!(found["field"], "sign");
    for key in ["complete", "false", "not_found"] {
        assert_eq!(found[key], Value::Null, "{key}");
    }
}

#[test]
fn what_has_no_law_does_not_drift() {
    let folder = TempDir::new().unwrap();
    refused(
        &laws(&folder, &["--drift", "--model", "mlp-gelu"]),
        "--drift: expected a model with a law, found mlp-gelu, which has none",
    );
}
