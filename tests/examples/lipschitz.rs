//! `lipschitz`: the promised keys of JSON, and a certificate of a small classifier.

use crate::transformers::write;
use crate::{command, files, json, refused, succeeded};
use emmy::data::images;
use serde_json::Value;
use tempfile::TempDir;

fn number(object: &Value, key: &str) -> f64 {
    object[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {object}"))
}

fn run(folder: &TempDir, args: &[&str]) -> Vec<Value> {
    let out = command("lipschitz", folder, args).output().unwrap();
    json(&succeeded(&out).0)
}

/// The lower ends of Figure 2 are at least those of the paper's claim.
#[test]
fn figure_two_has_an_object_per_number_of_tokens() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--figure", "2", "--tokens", "2,10,30", "--p", "inf", "--json",
    ];
    let objects = run(&folder, &args);
    for (object, (n, least)) in objects.iter().zip([(2, 1.55), (10, 4.2), (30, 6.5)]) {
        assert_eq!((&object["figure"], &object["n"]), (&2.into(), &n.into()));
        assert_eq!(object["p"], "∞");
        let (lower, upper) = (number(object, "lower"), number(object, "upper"));
        assert!(least <= lower && lower <= upper, "{object}");
    }
    assert_eq!(objects.len(), 3);
}

/// A line per logit and one for all, with narrow intervals.
fn certified(objects: &[Value], accuracy: f64, most: f64) {
    let names: Vec<_> = objects
        .iter()
        .map(|o| o["logit"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "all"]
    );
    for object in objects {
        let [lower, upper, product] = ["lower", "upper", "product"].map(|k| number(object, k));
        assert!(lower <= upper && upper <= most * lower, "{object}");
        assert!(
            upper < product && number(object, "accuracy") >= accuracy,
            "{object}"
        );
        assert!(number(object, "seconds") > 0.0);
    }
}

#[test]
fn a_classifier_of_generated_digits_is_certified() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    write(&data.join("mnist"), "t10k", &images::strokes(1400, 1));
    let args = [
        "--certify",
        "mnist",
        "--hidden",
        "32",
        "--epochs",
        "20",
        "--json",
    ];
    let args = [&args[..], &["--data", data.to_str().unwrap()]].concat();
    let objects = run(&folder, &args);
    certified(&objects, 0.4, 1.1);
    assert_eq!(run(&folder, &args)[10]["lower"], objects[10]["lower"]);
    let none = [&args[..], &["--restarts", "0"]].concat();
    let out = command("lipschitz", &folder, &none).output().unwrap();
    refused(&out, "--restarts: expected at least 1");
}

#[test]
fn a_classifier_of_mnist_is_certified() {
    let Some(data) = files::published() else {
        return;
    };
    let folder = TempDir::new().unwrap();
    let args = [
        "--certify",
        "mnist",
        "--json",
        "--data",
        data.to_str().unwrap(),
    ];
    certified(&run(&folder, &args), 0.94, 1.03);
}
