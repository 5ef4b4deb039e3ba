//! `deep_attention`: cells, tables and figures of the paper about LipschitzNorm, on small plans.

mod growth;

use crate::{command, json, refused, succeeded};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;
use tempfile::TempDir;

fn deep(folder: &TempDir, args: &[&str]) -> Output {
    command("deep_attention", folder, args).output().unwrap()
}

fn results(folder: &TempDir) -> PathBuf {
    folder.path().join("results/deep_attention.jsonl")
}

/// The finished cells in the order of their names, without the fields that differ from run to run.
fn outcomes(folder: &TempDir) -> Vec<serde_json::Value> {
    let mut lines = json(&std::fs::read_to_string(results(folder)).unwrap());
    for line in &mut lines {
        for key in ["seconds", "threads", "date", "machine"] {
            assert!(line.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
    }
    lines.sort_by_key(|line| line["cell"].to_string());
    lines
}

const SMALL: [&str; 8] = [
    "--dataset",
    "cora-like",
    "--epochs",
    "2",
    "--hidden",
    "8",
    "--seeds",
    "2",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

#[test]
fn a_cell_is_named_and_answered_with_one_object() {
    let folder = TempDir::new().unwrap();
    let args = small(&[
        "--model",
        "gat",
        "--norm",
        "lipschitz",
        "--layers",
        "3",
        "--json",
    ]);
    let (out, _) = succeeded(&deep(&folder, &args));
    let [object] = &json(&out)[..] else {
        panic!("one object: {out}");
    };
    for (key, value) in [
        ("dataset", serde_json::json!("cora-like")),
        ("model", "gat".into()),
        ("norm", "lipschitz".into()),
        ("layers", 3.into()),
        ("residual", false.into()),
        ("missing", 0.0.into()),
        ("seeds", 2.into()),
    ] {
        assert_eq!(object[key], value, "{key}");
    }
    let lines = outcomes(&folder);
    let accuracy = |k: usize| lines[k]["test_acc"].as_f64().unwrap();
    let (mean, half) = (
        (accuracy(0) + accuracy(1)) / 2.0,
        (accuracy(0) - accuracy(1)) / 2.0,
    );
    approx::assert_relative_eq!(object["test_acc_mean"].as_f64().unwrap(), mean);
    // The sample deviation of two values is their distance over √2.
    let std = object["test_acc_std"].as_f64().unwrap();
    approx::assert_relative_eq!(std, half.abs() * 2f64.sqrt(), epsilon = 1e-12);
    let largest = |key: &str| {
        let norms = lines.iter().map(|line| line[key].as_f64().unwrap());
        norms.reduce(f64::max).unwrap()
    };
    let norm = largest("max_gradient_norm");
    assert_eq!(object["max_gradient_norm"], norm);
    // Attention is a part of a layer.
    assert!(0.0 < norm && norm < largest("max_layer_gradient_norm"));
    // Finished cells are not run again.
    let before = std::fs::read_to_string(results(&folder)).unwrap();
    let (again, err) = succeeded(&deep(&folder, &args));
    assert_eq!(again, out);
    assert!(!err.contains("of 2: cora-like"), "{err}");
    assert_eq!(before, std::fs::read_to_string(results(&folder)).unwrap());
}

/// Cora's features are 0 and 1, a row of sum 1 is much smaller.
#[test]
fn normalised_features_are_another_cell() {
    let folder = TempDir::new().unwrap();
    let published = small(&["--model", "gcn", "--norm", "none", "--layers", "2"]);
    let normalised = [&published[..], &["--normalized-features"]].concat();
    succeeded(&deep(&folder, &published));
    let (_, err) = succeeded(&deep(&folder, &normalised));
    assert!(
        err.contains("of 2: cora-like GCN L=2, rows sum to 1, seed"),
        "{err}"
    );
    let lines = outcomes(&folder);
    let of = |normalised: bool| {
        let flag = normalised.then_some(true);
        let chosen = lines
            .iter()
            .filter(|line| line["cell"]["normalized"].as_bool() == flag);
        chosen
            .map(|line| line["final_loss"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!([of(false).len(), of(true).len()], [2, 2]);
    assert_ne!(of(false), of(true));
}

/// Linear maps that start as in the published code are smaller, and another cell.
#[test]
fn a_published_start_is_another_cell() {
    let folder = TempDir::new().unwrap();
    let usual = small(&["--model", "gt", "--norm", "none", "--layers", "2"]);
    let published = [&usual[..], &["--published-start"]].concat();
    succeeded(&deep(&folder, &usual));
    let (out, err) = succeeded(&deep(&folder, &published));
    assert!(err.contains("GT L=2, published start, seed"), "{err}");
    assert!(out.contains(", start as published"), "{out}");
    let lines = outcomes(&folder);
    let losses: BTreeSet<String> = lines
        .iter()
        .map(|line| line["final_loss"].to_string())
        .collect();
    assert_eq!((lines.len(), losses.len()), (4, 4));
}

#[test]
fn every_model_takes_its_normalisers() {
    let folder = TempDir::new().unwrap();
    let run = |more: &[&str], norms: &[&str], models: &[&str]| {
        let mut args = vec![
            "--dataset",
            "karate",
            "--epochs",
            "4",
            "--hidden",
            "8",
            "--layers",
            "3",
        ];
        args.extend(["--seeds", "1", "--json"]);
        args.extend(more);
        args.extend(norms.iter().flat_map(|norm| ["--norm", norm]));
        args.extend(models.iter().flat_map(|model| ["--model", model]));
        let (out, _) = succeeded(&deep(&folder, &args));
        json(&out)
    };
    let all = ["gcn", "gin", "ggnn", "gat", "gt", "gcnii"];
    let mut objects = run(&[], &["none", "pair"], &all);
    let of_scores = ["lipschitz", "lipschitz-published", "layer"];
    objects.extend(run(&[], &of_scores, &["gat", "gt"]));
    let more = ["--residual", "--missing", "50", "--heads", "2"];
    objects.extend(run(&more, &of_scores, &["gat", "gt"]));
    for place in ["before-activation", "dropped"] {
        let residual = format!("--residual={place}");
        let of_place = run(&[&residual], &of_scores, &["gat"]);
        assert!(of_place.iter().all(|object| object["place"] == place));
        objects.extend(of_place);
    }
    assert_eq!(objects.len(), 30);
    for object in objects {
        assert_eq!(object["stopped"], 0, "{object}");
        assert!(object["test_acc_mean"].as_f64().is_some(), "{object}");
    }
    // Each setting makes another run.
    let lines = outcomes(&folder);
    let losses = lines.iter().map(|line| line["final_loss"].to_string());
    let losses: BTreeSet<String> = losses.collect();
    assert_eq!((lines.len(), losses.len()), (30, 30));
}

/// Without dropout, x with dropout is x.
#[test]
fn every_place_of_a_residual_makes_another_run() {
    let losses = |dropout: &str| {
        ["", "=last", "=dropped", "=before-activation"].map(|place| {
            let folder = TempDir::new().unwrap();
            let residual = format!("--residual{place}");
            let mut args = small(&["--model", "gat", "--norm", "none", &residual]);
            args.extend(["--dropout", dropout]);
            succeeded(&deep(&folder, &args));
            outcomes(&folder)[0]["final_loss"].to_string()
        })
    };
    let [usual, last, dropped, before] = losses("0");
    assert!(usual == last && usual == dropped && usual != before);
    let [usual, last, dropped, before] = losses("0.5");
    assert!(usual == last && usual != dropped && usual != before && dropped != before);
}

#[test]
fn scores_are_normalised_only_where_there_are_some() {
    let folder = TempDir::new().unwrap();
    let output = deep(&folder, &small(&["--model", "gcn", "--norm", "lipschitz"]));
    refused(
        &output,
        "--norm lipschitz: expected a model with scores of attention, gat or gt, found gcn",
    );
    for (args, reason) in [
        (vec!["--table", "4"], "4 is not in 1..=3"),
        (vec!["--figure", "1"], "1 is not in 2..=6"),
        (vec!["--missing", "101"], "not a percentage"),
        (vec!["--dataset", "trees-1"], "trees-2 to trees-10"),
        (
            vec!["--dataset", "trees-3", "--trees", "9"],
            "--trees: expected at least 10",
        ),
        (vec!["--epochs", "0"], "--epochs: expected at least 1"),
        (vec!["--heads", "0"], "--heads: expected at least 1"),
        (
            vec!["--layers", "0"],
            "network: layers: expected at least 1",
        ),
        (vec!["--dropout", "2"], "not a probability"),
        (vec!["--table", "3", "--layers", "7"], "Table 3"),
        (vec!["--table", "1", "--residual"], "cannot be used with"),
        (vec!["--residual=first"], "possible values: last"),
        (
            vec!["--growth", "--residual=dropped"],
            "--residual: expected residuals at their usual place, with --growth, found dropped",
        ),
    ] {
        refused(&deep(&folder, &args), reason);
    }
}

#[test]
fn outcomes_do_not_depend_on_jobs_and_threads() {
    let run = |jobs, threads| {
        let folder = TempDir::new().unwrap();
        let args = [
            "--layers",
            "2",
            "--missing",
            "50",
            "--jobs",
            jobs,
            "--threads",
            threads,
        ];
        succeeded(&deep(&folder, &small(&args)));
        outcomes(&folder)
    };
    let one = run("1", "1");
    assert_eq!(one.len(), 4);
    assert_eq!(one, run("2", "3"));
}

/// The line of a finished cell with some of its values changed.
fn changed(line: &serde_json::Value, changes: &[(&str, serde_json::Value)]) -> String {
    let mut line = line.clone();
    for (key, value) in changes {
        let of_cell = line["cell"].get(key).is_some();
        match of_cell {
            true => line["cell"][key] = value.clone(),
            false => line[key] = value.clone(),
        }
    }
    line.to_string() + "\n"
}

#[test]
fn tables_choose_the_depth_on_the_validation_nodes() {
    let folder = TempDir::new().unwrap();
    let args = ["--norm", "lipschitz", "--layers", "2", "--seeds", "1"];
    let mut first: Vec<&str> = small(&args);
    first.drain(6..8);
    succeeded(&deep(&folder, &first));
    let text = std::fs::read_to_string(results(&folder)).unwrap();
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    // The deeper network is better in validation and worse in the test. The deepest has one run only.
    let mut lines = String::new();
    let depths: [(u64, f64, &[f64]); 3] = [
        (5, 0.7, &[0.81, 0.83]),
        (8, 0.8, &[0.74, 0.78]),
        (11, 0.9, &[0.9]),
    ];
    for (layers, val, tests) in depths {
        for (seed, &test) in tests.iter().enumerate() {
            lines += &changed(
                &line,
                &[
                    ("dataset", "cora".into()),
                    ("layers", layers.into()),
                    ("seed", seed.into()),
                    ("val_acc", val.into()),
                    ("test_acc", test.into()),
                ],
            );
        }
    }
    std::fs::write(results(&folder), &lines).unwrap();
    let args = [
        "--table",
        "1",
        "--dataset",
        "cora",
        "--missing",
        "0",
        "--model",
        "gat",
        "--epochs",
        "2",
        "--hidden",
        "8",
        "--seeds",
        "2",
        "--show",
    ];
    let (out, _) = succeeded(&deep(&folder, &args));
    assert!(out.contains("76.0 ± 2.8, L=8 (83.1 ± 0.5, L=5)"), "{out}");
    assert!(out.contains("– (82.3 ± 2.3, L=2)"), "{out}");
    let (out, _) = succeeded(&deep(
        &folder,
        &[&args[..], &["--norm", "lipschitz", "--json"]].concat(),
    ));
    let object = &json(&out)[0];
    assert_eq!(
        (&object["layers"], &object["seeds"]),
        (&8.into(), &2.into())
    );
    let (out, _) = succeeded(&deep(&folder, &[&args[..], &["--layers", "5"]].concat()));
    assert!(out.contains("82.0 ± 1.4 (83.1"), "{out}");
    assert_eq!(lines, std::fs::read_to_string(results(&folder)).unwrap());
}

#[test]
fn the_demonstration_draws_a_heat_map() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&deep(&folder, &["--epochs", "2", "--hidden", "4"]));
    assert!(
        out.contains("| L=20 |") && out.contains("figures/deep-attention.svg"),
        "{out}"
    );
    let svg = std::fs::read_to_string(folder.path().join("figures/deep-attention.svg")).unwrap();
    for name in ["GAT, ", "GAT-Lip, ", "layer", "epoch"] {
        assert!(svg.contains(name), "{name}");
    }
    // Two panels of twenty layers and two epochs.
    assert!(svg.matches("<rect").count() >= 80);
}

#[test]
fn trees_are_learnt() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--figure",
        "5",
        "--dataset",
        "trees-2",
        "--model",
        "gat",
        "--trees",
        "30",
        "--epochs",
        "40",
        "--lr",
        "0.02",
        "--seeds",
        "1",
        "--json",
    ];
    let (out, _) = succeeded(&deep(&folder, &args));
    let objects = json(&out);
    assert_eq!(objects.len(), 3);
    for object in &objects {
        assert_eq!(
            (&object["dataset"], &object["layers"]),
            (&"trees-2".into(), &3.into())
        );
    }
    // A quarter is guessing one of four labels.
    let best = objects
        .iter()
        .map(|object| object["train_acc_mean"].as_f64().unwrap());
    assert!(best.fold(0.0, f64::max) > 0.5, "{out}");
    assert!(
        folder
            .path()
            .join("figures/deep-attention-figure-5.svg")
            .exists()
    );
}

#[test]
fn figures_of_finished_cells_are_drawn() {
    let folder = TempDir::new().unwrap();
    let args = small(&["--layers", "2", "--norm", "none", "--norm", "lipschitz"]);
    succeeded(&deep(&folder, &args));
    let mut lines = String::new();
    for line in json(&std::fs::read_to_string(results(&folder)).unwrap()) {
        let plain = [("dataset", "cora".into())];
        lines += &changed(&line, &plain);
        let dynamics = serde_json::json!({
            "train_acc": [0.2, 0.3], "val_acc": [0.2, 0.3], "gradients": [[1.0, 2.0], [null, 3.0]],
        });
        let mut recorded: serde_json::Value = serde_json::from_str(&changed(
            &line,
            &[
                ("dataset", "cora".into()),
                ("layers", 10.into()),
                ("recorded", true.into()),
            ],
        ))
        .unwrap();
        recorded["dynamics"] = dynamics;
        lines += &(recorded.to_string() + "\n");
    }
    std::fs::write(results(&folder), lines).unwrap();
    let args = [
        "--figure",
        "3",
        "--figure",
        "6",
        "--dataset",
        "cora",
        "--epochs",
        "2",
        "--hidden",
        "8",
        "--seeds",
        "2",
    ];
    let (out, _) = succeeded(&deep(&folder, &[&args[..], &["--show"]].concat()));
    for figure in ["3", "6"] {
        assert!(
            out.contains(&format!("deep-attention-figure-{figure}.svg")),
            "{out}"
        );
    }
}
