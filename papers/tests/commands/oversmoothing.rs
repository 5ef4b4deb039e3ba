//! `oversmoothing`: cells, tables and figures of the graph networks of ContraNorm, on small plans.

use crate::files::npz;
use crate::{command, json, refused, succeeded};
use std::process::Output;
use tempfile::TempDir;

fn run(folder: &TempDir, args: &[&str]) -> Output {
    command("oversmoothing", folder, args).output().unwrap()
}

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let base = [
        "--dataset",
        "karate",
        "--epochs",
        "5",
        "--hidden",
        "8",
        "--layers",
        "3",
    ];
    base.iter().chain(more).copied().collect()
}

#[test]
fn a_cell_is_named_and_answered_with_one_object() {
    let folder = TempDir::new().unwrap();
    let args = small(&[
        "--norm", "contra", "--s", "0.2", "--s", "1", "--seeds", "2", "--json",
    ]);
    let (out, err) = succeeded(&run(&folder, &args));
    // Only the demonstration says how long the demonstration takes.
    assert!(!err.contains("on two processors"), "{err}");
    let [object] = &json(&out)[..] else {
        panic!("one object: {out}");
    };
    for (key, value) in [
        ("dataset", serde_json::json!("karate")),
        ("norm", "contra".into()),
        ("layers", 3.into()),
        ("split", "published".into()),
        ("seeds", 2.into()),
    ] {
        assert_eq!(object[key], value, "{key}");
    }
    // The s with the better mean validation accuracy is chosen; its two runs are reported.
    let lines =
        json(&std::fs::read_to_string(folder.path().join("results/oversmoothing.jsonl")).unwrap());
    assert_eq!(lines.len(), 4);
    let mean = |s: f64, key: &str| {
        let own = lines.iter().filter(|line| line["cell"]["scale"] == s);
        own.map(|line| line[key].as_f64().unwrap()).sum::<f64>() / 2.0
    };
    let s = if mean(1.0, "val_acc") > mean(0.2, "val_acc") {
        1.0
    } else {
        0.2
    };
    assert_eq!(object["s"], s);
    approx::assert_relative_eq!(
        object["test_acc_mean"].as_f64().unwrap(),
        mean(s, "test_acc")
    );
    let published = mean(0.2, "last_test_acc").max(mean(1.0, "last_test_acc"));
    approx::assert_relative_eq!(
        object["published_test_acc_mean"].as_f64().unwrap(),
        published
    );
    assert!(object["erank_last"].as_f64().unwrap() >= 1.0);
    // Finished cells are not run again.
    let (again, err) = succeeded(&run(&folder, &args));
    assert_eq!(again, out);
    assert!(!err.contains("of 4: karate"), "{err}");
}

#[test]
fn every_norm_runs_in_both_splits() {
    let folder = TempDir::new().unwrap();
    let norms = [
        "none",
        "layer",
        "pair",
        "pair-si",
        "pair-scs",
        "contra",
        "contra-paper",
        "contra-v2",
        "dgn",
    ];
    for split in ["published", "public"] {
        let mut args = small(&[
            "--seeds", "1", "--s", "0.5", "--json", "--out", "none", "--split", split,
        ]);
        args.extend(norms.iter().flat_map(|norm| ["--norm", norm]));
        let (out, _) = succeeded(&run(&folder, &args));
        let objects = json(&out);
        assert_eq!(objects.len(), norms.len());
        for object in objects {
            assert_eq!(object["split"], split);
            assert!(object["test_acc_mean"].as_f64().is_some(), "{object}");
        }
    }
}

/// Without training: collapse by layer falls to one direction without ContraNorm, and not with it.
#[test]
fn the_figures_that_need_no_training() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&run(&folder, &["--figure", "1", "--json"]));
    let last = |name: &str| {
        let all = json(&out);
        let of = all.iter().rfind(|line| line["norm"] == name).unwrap();
        of["erank"].as_f64().unwrap()
    };
    assert!(
        last("without") < 1.3 && last("with ContraNorm") > 1.8,
        "{out}"
    );
    let (out, err) = succeeded(&run(&folder, &["--figure", "circle", "--json"]));
    let last = |name: &str, key: &str| {
        let all = json(&out);
        let of = all.iter().rfind(|line| line["company"] == name).unwrap();
        of[key].as_f64().unwrap()
    };
    assert!(last("attention", "residual") < 1e-6);
    assert!(last("+ skip", "residual") > 1e-3);
    assert!(last("+ ContraNorm", "erank") > 2.0 * last("attention", "erank"));
    assert!(err.contains("oversmoothing-circle.png"), "{err}");
    for name in ["oversmoothing-figure-1.svg", "oversmoothing-circle.svg"] {
        assert!(folder.path().join("figures").join(name).is_file(), "{name}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = TempDir::new().unwrap();
    for (args, part) in [
        (vec!["--s", "-1", "--norm", "contra"], "--s"),
        (vec!["--layers", "0"], "--layers"),
        (vec!["--layers", "1"], "--layers: expected at least 2"),
        (vec!["--epochs", "0"], "--epochs"),
        (vec!["--dropout", "2", "--layers", "2"], "--dropout"),
        (vec!["--hidden", "0", "--layers", "2"], "--hidden"),
    ] {
        let mut args = args;
        args.extend(["--dataset", "karate"]);
        refused(&run(&folder, &args), part);
    }
}

/// PairNorm with the shared LayerNorm behind it: another network, beside the paper's one row of PairNorm.
#[test]
fn pair_norm_has_a_layer_norm_if_asked() {
    let folder = TempDir::new().unwrap();
    let args = small(&[
        "--norm",
        "pair",
        "--norm",
        "pair-layer",
        "--s",
        "1",
        "--seeds",
        "1",
        "--json",
    ]);
    let (out, _) = succeeded(&run(&folder, &args));
    let objects = json(&out);
    let names: Vec<_> = objects
        .iter()
        .map(|x| x["norm"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["pair", "pair-layer"]);
    let lines =
        json(&std::fs::read_to_string(folder.path().join("results/oversmoothing.jsonl")).unwrap());
    assert_eq!(lines.len(), 2);
    assert_ne!(lines[0]["final_loss"], lines[1]["final_loss"]);
    let args = [
        "--dataset",
        "cora",
        "--norm",
        "pair",
        "--norm",
        "pair-layer",
        "--layers",
        "2",
    ];
    let show = ["--s", "1", "--seeds", "1", "--json", "--show"];
    let (out, _) = succeeded(&run(&folder, &[&args[..], &show].concat()));
    for object in json(&out) {
        assert_eq!(object["paper"], "75.32 ± 1.05", "{object}");
    }
}

/// Rows of features sum to one on every graph, as in the published code, unless raw features are asked for.
#[test]
fn features_are_normalised_on_heterophilic_graphs_too() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let twos: Vec<u8> = [2.0f32; 18]
        .into_iter()
        .flat_map(f32::to_le_bytes)
        .collect();
    let features = npz::npy("<f4", false, "(6, 3)", &twos);
    let set = npz::with("node_features.npy", features);
    std::fs::write(data.join("texas.npz"), set).unwrap();
    let texas = "--data data --dataset texas --norm none --layers 3 --epochs 4 --seeds 1";
    let texas: Vec<&str> = texas.split(' ').collect();
    let (normalised, _) = succeeded(&run(&folder, &texas));
    let (raw, _) = succeeded(&run(&folder, &[&texas[..], &["--raw-features"]].concat()));
    assert!(raw.contains("texas GCN, raw features"), "{raw}");
    assert!(!normalised.contains("raw features"), "{normalised}");
    let lines =
        json(&std::fs::read_to_string(folder.path().join("results/oversmoothing.jsonl")).unwrap());
    let [first, second] = &lines[..] else {
        panic!("two runs: {lines:?}");
    };
    let raw = |line: &serde_json::Value| line["cell"]["raw_features"].as_bool();
    assert_eq!((raw(first), raw(second)), (Some(false), Some(true)));
    assert_ne!(first["final_loss"], second["final_loss"]);
}
