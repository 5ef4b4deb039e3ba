//! `vision` and `encoder`: cells, the table and the figures of "ContraNorm" on transformers, on small plans.

use crate::{command, json, refused, succeeded};
use emmy::data::images::Images;
use papers::vision::strokes::strokes;
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Settings of a small cell.
const SMALL: [[&str; 2]; 7] = [
    ["--width", "8"],
    ["--heads", "2"],
    ["--batch", "4"],
    ["--steps", "5"],
    ["--jobs", "2"],
    ["--tested", "40"],
    ["--seeds", "1"],
];

/// A program on small cells; `args` may change the settings.
pub fn run(program: &str, folder: &TempDir, args: &[&str]) -> Output {
    let kept = SMALL.iter().filter(|[option, _]| !args.contains(option));
    let args: Vec<&str> = kept.flatten().chain(args).copied().collect();
    command(program, folder, &args).output().unwrap()
}

fn objects(program: &str, folder: &TempDir, args: &[&str]) -> Vec<Value> {
    let args = [args, &["--json"]].concat();
    json(&succeeded(&run(program, folder, &args)).0)
}

pub fn list(value: &Value) -> Vec<f64> {
    let list = value.as_array().unwrap().iter();
    list.map(|x| x.as_f64().unwrap()).collect()
}

#[test]
fn a_cell_is_named_and_answered_with_one_object() {
    for (program, data) in [
        ("vision", ["--dataset", "strokes"]),
        ("encoder", ["--task", "entailment"]),
    ] {
        let folder = TempDir::new().unwrap();
        let cell = ["--depth", "2", "--norm", "contra", "--s", "0.3"];
        let args = [&data[..], &cell, &["--seeds", "2", "--json"]].concat();
        let (out, _) = succeeded(&run(program, &folder, &args));
        let [object] = &json(&out)[..] else {
            panic!("one object: {out}");
        };
        for (key, value) in [
            (data[0].trim_start_matches('-'), Value::from(data[1])),
            ("depth", 2.into()),
            ("norm", "contra".into()),
            ("s", 0.3.into()),
            ("steps", 5.into()),
            ("seeds", 2.into()),
            ("stopped", 0.into()),
        ] {
            assert_eq!(object[key], value, "{program} {key}");
        }
        for key in ["test_acc_mean", "test_acc_std", "final_loss_mean"] {
            assert!(object[key].as_f64().is_some(), "{program} {key}");
        }
        for ending in ["", "_start"] {
            let ranks = list(&object[&format!("erank{ending}")]);
            assert_eq!(ranks.len(), 3);
            assert!(ranks.iter().all(|&r| (1.0..=8.0).contains(&r)), "{ranks:?}");
            let attention = list(&object[&format!("attention_similarity{ending}")]);
            assert_eq!(attention.len(), 2);
            assert!(attention.iter().all(|a| (0.0..=1.0 + 1e-6).contains(a)));
        }
        approx::assert_relative_eq!(
            object["erank_last"].as_f64().unwrap(),
            list(&object["erank"])[2],
            max_relative = 1e-6
        );
        // Finished cells are not run again.
        let (again, err) = succeeded(&run(program, &folder, &args));
        assert_eq!(again, out);
        assert!(!err.contains("of 2: "), "{err}");
    }
}

#[test]
fn every_setting_makes_another_run() {
    for program in ["vision", "encoder"] {
        let folder = TempDir::new().unwrap();
        let data = match program {
            "vision" => ["--dataset", "strokes"],
            _ => ["--task", "acceptability"],
        };
        let mut losses: Vec<String> = Vec::new();
        let mut last = String::new();
        for more in [
            &["--norm", "none"][..],
            &["--norm", "contra", "--place", "before-residual"],
            &["--norm", "contra", "--place", "after-residual"],
            &["--norm", "contra", "--place", "before-norms"],
            &["--norm", "contra-paper", "--std", "0.5"],
            &["--norm", "contra", "--s", "0.9"],
            &["--norm", "none", "--lr", "0.01"],
            &["--norm", "none", "--dropout", "0.3"],
            &["--norm", "none", "--std", "0.3"],
            &["--norm", "none", "--weight-decay", "0.9"],
            &["--norm", "none", "--depth", "1"],
        ] {
            let depth = if more.contains(&"--depth") {
                &[][..]
            } else {
                &["--depth", "2"]
            };
            let args = [&data[..], depth, more].concat();
            for object in objects(program, &folder, &args) {
                last = object["final_loss_mean"].to_string();
                assert!(!losses.contains(&last), "{program} {more:?}: {last}");
            }
            losses.push(last.clone());
        }
    }
    // Only images have no padding, so only there can features be compared.
    let folder = TempDir::new().unwrap();
    let v2 = ["--depth", "1", "--norm", "contra-v2"];
    assert_eq!(objects("vision", &folder, &v2).len(), 1);
    let refused_v2 = run("encoder", &folder, &v2);
    refused(
        &refused_v2,
        "--norm: expected a normaliser that compares tokens",
    );
}

#[test]
fn without_data_images_are_drawn_and_a_line_says_so() {
    let folder = TempDir::new().unwrap();
    let (out, err) = succeeded(&run("vision", &folder, &["--steps", "1"]));
    assert!(
        err.contains("training on generated images, strokes of ten shapes"),
        "{err}"
    );
    assert!(
        out.contains("Eight blocks with ContraNorm and without"),
        "{out}"
    );
    assert!(out.contains("contra after-residual"), "{out}");
    let svg = std::fs::read_to_string(folder.path().join("figures/vision.svg")).unwrap();
    for name in [
        "effective rank",
        "attention similarity",
        "feature similarity",
    ] {
        assert!(svg.contains(name), "{name}");
    }
    assert!(folder.path().join("figures/vision.png").exists());
    // A set that is named must be there.
    let named = run(
        "vision",
        &folder,
        &["--dataset", "fashion-mnist", "--depth", "1"],
    );
    refused(&named, "fashion-mnist");
}

/// Writes images as idx files.
pub fn write(folder: &Path, prefix: &str, set: &Images) {
    std::fs::create_dir_all(folder).unwrap();
    let head = |numbers: &[usize]| -> Vec<u8> {
        let numbers = numbers.iter().map(|&n| u32::try_from(n).unwrap());
        numbers.flat_map(u32::to_be_bytes).collect()
    };
    let pixels = [head(&[2051, set.len(), 28, 28]), set.pixels.clone()].concat();
    let labels = [head(&[2049, set.len()]), set.labels.clone()].concat();
    std::fs::write(folder.join(format!("{prefix}-images-idx3-ubyte")), pixels).unwrap();
    std::fs::write(folder.join(format!("{prefix}-labels-idx1-ubyte")), labels).unwrap();
}

#[test]
fn files_are_read() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let place = data.to_str().unwrap().to_owned();
    write(&data.join("mnist"), "t10k", &strokes(60, 1));
    let args = ["--data", &place, "--depth", "1", "--norm", "none"];
    let (_, err) = succeeded(&run("vision", &folder, &args));
    assert!(
        err.contains(
            "only the test images were found; 54 of them are for training, 6 for the test"
        ),
        "{err}"
    );
    write(&data.join("fashion-mnist"), "train", &strokes(50, 1));
    write(&data.join("fashion-mnist"), "t10k", &strokes(20, 2));
    let args = [&args[..], &["--dataset", "fashion-mnist"]].concat();
    let (_, err) = succeeded(&run("vision", &folder, &args));
    assert!(!err.contains("only the test images"), "{err}");
}

#[test]
fn tables_stand_beside_the_papers_numbers() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--table",
        "2",
        "--depth",
        "1",
        "--depth",
        "12",
        "--steps",
        "1",
        "--dataset",
        "strokes",
    ];
    let output = run("vision", &folder, &args);
    let (out, _) = succeeded(&output);
    let lines: Vec<&str> = out.lines().collect();
    let row = |name: &str| *lines.iter().find(|line| line.starts_with(name)).unwrap();
    assert!(row("| none").ends_with("(76.58) |"), "{out}");
    assert!(row("| contra before-norms").ends_with("(79.34) |"), "{out}");
    assert!(out.contains("Effective rank of the tokens"), "{out}");
    let args = [
        "--table",
        "6",
        "--task",
        "entailment",
        "--depth",
        "12",
        "--show",
    ];
    let output = command("encoder", &folder, &args).output().unwrap();
    refused(&output, "encoder.jsonl");
    let args = ["--table", "6", "--task", "entailment", "--depth", "1"];
    let (out, _) = succeeded(&run("encoder", &folder, &args));
    for name in [
        "| none",
        "| contra before-residual",
        "| contra after-residual",
    ] {
        assert!(out.contains(name), "{out}");
    }
}

#[test]
fn figures_are_drawn() {
    let folder = TempDir::new().unwrap();
    for (program, data) in [
        ("vision", ["--dataset", "strokes"]),
        ("encoder", ["--task", "entailment"]),
    ] {
        let figures = [
            "--figure", "2", "--figure", "3", "--depth", "1", "--depth", "2",
        ];
        let (out, _) = succeeded(&run(program, &folder, &[&data[..], &figures].concat()));
        for number in [2, 3] {
            let name = format!("figures/{program}-figure-{number}.svg");
            assert!(out.contains(&name), "{out}");
            let svg = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(svg.contains("effective rank"));
        }
    }
}

/// The demonstrations say how long they take, and their tables fit into 100 columns.
#[test]
fn demonstrations_fit_a_terminal() {
    let folder = TempDir::new().unwrap();
    let small = ["--steps", "0", "--tested", "16", "--width", "8"];
    for (program, data) in [
        ("vision", &["--dataset", "strokes"][..]),
        ("encoder", &["--examples", "40"]),
    ] {
        let args = [&small[..], data].concat();
        let (out, err) = succeeded(&command(program, &folder, &args).output().unwrap());
        assert!(err.contains(" s on two processors"), "{err}");
        assert!(out.contains("contra after-residual"), "{out}");
        // The first line repeats the options that are not the default.
        let lines = out.lines().skip(1);
        let longest = lines.map(|line| line.chars().count()).max();
        assert!(longest <= Some(100), "{out}");
        let svg = folder.path().join(format!("figures/{program}.svg"));
        let svg = std::fs::read_to_string(svg).unwrap();
        for title in [
            "feature similarity",
            "attention similarity",
            "singular values after the last block",
            "effective rank",
        ] {
            assert!(svg.contains(title), "{title}");
        }
    }
}

#[test]
fn arguments_that_choose_nothing_are_refused() {
    let folder = TempDir::new().unwrap();
    for (args, reason) in [
        (&["--table", "3"][..], "3 is not in 2..=2"),
        (&["--depth", "0"], "0 is not in 1.."),
        (&["--norm", "layer"], "invalid value 'layer'"),
        (&["--norm", "none", "--place", "after-residual"], "--place"),
        (&["--s=-1", "--depth", "1"], "--s"),
        (
            &["--depth", "1", "--patch", "5"],
            "patch: expected a number that divides",
        ),
        (
            &["--depth", "1", "--heads", "3"],
            "--width: expected a multiple of the 3 heads",
        ),
        (
            &["--depth", "1", "--dropout", "2"],
            "not a probability, 0 to 1",
        ),
        (&["--depth", "1", "--only", "nothing"], "expected a cell"),
    ] {
        let args = [
            &["--dataset", "strokes", "--width", "8", "--steps", "1"][..],
            args,
        ]
        .concat();
        refused(&command("vision", &folder, &args).output().unwrap(), reason);
    }
}
