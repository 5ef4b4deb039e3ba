//! The example `cora` as a program: what it prints where, what it refuses, that threads do not matter, that a run can be resumed.

mod files;

use emmy::data::{Dataset, Options};
use emmy::nn::{GraphNet, GraphNetConfig, Pass};
use emmy::sparse::Csr;
use emmy::train::Progress;
use emmy::{Tape, store};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The program as cargo has built it beside this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let path = profile
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is not built: run `cargo test`, which builds the examples",
        path.display()
    );
    path
}

/// Runs `cora` in a folder of its own, where no data are.
fn cora(folder: &TempDir, args: &[&str]) -> Output {
    Command::new(program("cora"))
        .args(args)
        .current_dir(folder.path())
        .env_remove("EMMY_DATA")
        .env("XDG_CACHE_HOME", folder.path())
        .env("HOME", folder.path())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn succeeded(output: &Output) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    (out, err)
}

#[track_caller]
fn refused(output: &Output, reason: &str) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!output.status.success() && out.is_empty(), "{out}\n{err}");
    assert!(err.contains(reason), "{err}");
    assert!(!err.contains("panicked"), "{err}");
}

fn json(out: &str) -> Vec<serde_json::Value> {
    let lines = out.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

/// The lines without what differs from run to run.
fn untimed(out: &str) -> Vec<serde_json::Value> {
    let mut lines = json(out);
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("ms_per_epoch");
    }
    lines
}

#[test]
fn json_has_the_promised_keys_and_all_else_goes_to_standard_error() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--dataset",
        "karate",
        "--model",
        "gatv2",
        "--seeds",
        "2",
        "--seed",
        "5",
        "--epochs",
        "4",
        "--json",
    ];
    let (out, err) = succeeded(&cora(&folder, &args));
    let lines = json(&out);
    assert_eq!(lines.len(), 3);
    for (k, line) in lines[..2].iter().enumerate() {
        let keys = [
            "dataset",
            "model",
            "layers",
            "seed",
            "test_acc",
            "val_acc",
            "best_epoch",
            "epochs",
            "ms_per_epoch",
            "final_loss",
        ];
        assert!(keys.iter().all(|key| !line[key].is_null()), "{line}");
        assert_eq!(line["dataset"], "karate");
        assert_eq!(line["model"], "gatv2");
        assert_eq!(
            (line["layers"].as_u64(), line["epochs"].as_u64()),
            (Some(2), Some(4))
        );
        assert_eq!(line["seed"].as_u64(), Some(5 + k as u64));
    }
    let summary = &lines[2];
    assert_eq!(summary["summary"], true);
    let accuracies = [0, 1].map(|k| lines[k]["test_acc"].as_f64().unwrap());
    let mean = summary["test_acc_mean"].as_f64().unwrap();
    assert!((mean - (accuracies[0] + accuracies[1]) / 2.0).abs() < 1e-12);
    let std = (accuracies[0] - accuracies[1]).abs() / 2.0_f64.sqrt();
    assert!((summary["test_acc_std"].as_f64().unwrap() - std).abs() < 1e-12);
    assert!(
        err.contains("figure: figures/karate-gatv2-L2-seed5.svg"),
        "{err}"
    );
    let figure =
        std::fs::read_to_string(folder.path().join("figures/karate-gatv2-L2-seed6.svg")).unwrap();
    assert!(
        figure.starts_with("<svg")
            && figure.contains("accuracy")
            && figure.trim_end().ends_with("</svg>")
    );
}

#[test]
fn a_run_among_several_is_the_run_of_its_seed_alone() {
    let folder = TempDir::new().unwrap();
    let run = |seed: &str, seeds: &str| {
        let args = ["--dataset", "karate", "--epochs", "4", "--json"];
        let more = ["--seed", seed, "--seeds", seeds];
        untimed(&succeeded(&cora(&folder, &[&args[..], &more].concat())).0)
    };
    let several = run("5", "2");
    assert_eq!(several[0], run("5", "1")[0]);
    assert_eq!(several[1], run("6", "1")[0]);
    assert_ne!(several[0]["final_loss"], several[1]["final_loss"]);
}

#[test]
fn every_option_of_model_and_training_makes_a_difference() {
    let folder = TempDir::new().unwrap();
    let loss = |more: &[&str]| {
        let args = ["--dataset", "karate", "--epochs", "4", "--json"];
        let (out, _) = succeeded(&cora(&folder, &[&args[..], more].concat()));
        json(&out)[0]["final_loss"].as_f64().unwrap()
    };
    let of = |model: &str, options: &[&str]| {
        let args: Vec<&str> = options.iter().flat_map(|o| o.split(' ')).collect();
        loss(&[&["--model", model][..], &args].concat())
    };
    let mut losses: Vec<f64> = [
        "--lr 0.02",
        "--weight-decay 0.1",
        "--optimizer sgd",
        "--optimizer adamw",
        "--dropout 0.2",
        "--hidden 5",
        "--heads 3",
        "--layers 3",
        "--float f64",
        "--seed 1",
    ]
    .iter()
    .map(|option| of("gat", &[option]))
    .collect();
    losses.push(of("gat", &[]));
    losses.push(of("gcn", &[]));
    losses.push(of("gatv2", &[]));
    losses.push(of("gatv2", &["--share-weights"]));
    losses.sort_by(f64::total_cmp);
    let all = losses.len();
    losses.dedup();
    assert_eq!(losses.len(), all, "{losses:?}");
}

#[test]
fn the_split_is_the_one_asked_for() {
    let folder = TempDir::new().unwrap();
    let archive = files::npz::archive(&files::npz::small_set());
    std::fs::write(folder.path().join("texas.npz"), archive).unwrap();
    let loss = |split: &str| {
        let args = ["--data", ".", "--dataset", "texas", "--dropout", "0"];
        let more = ["--epochs", "1", "--json", "--split", split];
        let (out, _) = succeeded(&cora(&folder, &[&args[..], &more].concat()));
        json(&out)[0]["final_loss"].as_f64().unwrap()
    };
    // The masks of the small set move on from split to split, and come round with the third.
    assert_ne!(loss("0"), loss("1"));
    assert_eq!(loss("0"), loss("3"));
}

#[test]
fn what_is_reported_is_of_the_best_epoch() {
    let folder = TempDir::new().unwrap();
    // A rate so high that the best is soon over.
    let args = ["--dataset", "karate", "--dropout", "0.2", "--epochs", "30"];
    let args = [&args[..], &["--lr", "0.5", "--seed", "2"]].concat();
    let run = |more: &[&str]| succeeded(&cora(&folder, &[&args[..], more].concat())).0;
    let line = &json(&run(&["--json", "--save", "run.ckpt"]))[0];
    let path = folder.path().join("run.ckpt");
    let progress = store::load::<f32, Progress<f32>>(&path).unwrap();
    let (best, last) = (
        progress.history.best().unwrap(),
        progress.history.last().unwrap(),
    );
    assert!(best.test_acc != last.test_acc && best.val_acc != last.val_acc);
    for (key, expected) in [
        ("test_acc", best.test_acc),
        ("val_acc", best.val_acc),
        ("best_epoch", best.epoch as f64),
        ("final_loss", last.loss),
    ] {
        approx::assert_relative_eq!(line[key].as_f64().unwrap(), expected, epsilon = 1e-12);
    }
    assert!(progress.description.contains("attention_dropout: 0.2"));

    // The table of who was taken for what comes to the same.
    let out = run(&["--resume", "run.ckpt"]);
    let rows = out
        .lines()
        .skip_while(|line| !line.contains("recall"))
        .skip(1)
        .take_while(|line| !line.contains("precis."));
    let rows: Vec<Vec<f64>> = rows
        .map(|row| {
            let numbers = row.split_whitespace().skip(1).take(2);
            numbers.map(|count| count.parse().unwrap()).collect()
        })
        .collect();
    let all: f64 = rows.iter().flatten().sum();
    let karate = emmy::data::karate();
    assert_eq!(all as usize, karate.splits[0].counts()[2]);
    assert_eq!((rows[0][0] + rows[1][1]) / all, best.test_acc, "{out}");
}

#[test]
fn patience_ends_a_run() {
    let folder = TempDir::new().unwrap();
    let args = ["--dataset", "karate", "--epochs", "300", "--json"];
    let (out, _) = succeeded(&cora(&folder, &[&args[..], &["--patience", "4"]].concat()));
    let line = &json(&out)[0];
    let [epochs, best] = ["epochs", "best_epoch"].map(|key| line[key].as_u64().unwrap());
    assert!(epochs < 300 && epochs == best + 4, "{line}");
}

/// The training loss of the first epoch of a GCN without dropout.
fn first_loss(set: &Dataset, x: &Csr<f32>) -> f64 {
    let config = GraphNetConfig {
        dropout: 0.0,
        ..GraphNetConfig::gcn(set.feature_count(), set.classes)
    };
    let adjacency = config.adjacency(&set.graph);
    let tape = Tape::new();
    let net = GraphNet::new(config, 0).unwrap();
    let logits = net.forward(&Pass::train(&tape, 0), tape.sparse(x), &adjacency);
    let loss = logits.cross_entropy(&set.labels, Some(&set.splits[0].train));
    f64::from(loss.item())
}

#[test]
fn citation_sets_are_learnt_from_rows_that_sum_to_one_and_the_others_as_published() {
    let folder = TempDir::new().unwrap();
    let mut members = files::npz::small_set();
    let words = [1.0_f32, 1.0, 0.0, 0.0, 1.0, 1.0].repeat(3);
    let words: Vec<u8> = words.iter().flat_map(|x| x.to_le_bytes()).collect();
    members[0].1 = files::npz::npy("<f4", false, "(6, 3)", &words);
    let archive = files::npz::archive(&members);
    std::fs::write(folder.path().join("texas.npz"), archive).unwrap();
    let set = |name: &str| {
        let options = Options {
            folder: Some(folder.path().to_path_buf()),
            ..Options::default()
        };
        emmy::data::load(name.parse().unwrap(), &options).unwrap()
    };
    for (name, normalised) in [("texas", false), ("cora-like", true)] {
        let args = ["--data", ".", "--dataset", name, "--model", "gcn"];
        let more = ["--dropout", "0", "--epochs", "1", "--json"];
        let (out, _) = succeeded(&cora(&folder, &[&args[..], &more].concat()));
        let found = json(&out)[0]["final_loss"].as_f64().unwrap();
        let set = set(name);
        let (rows, raw) = (set.normalized_features(), set.raw_features());
        let (rows, raw) = (first_loss(&set, &rows), first_loss(&set, &raw));
        assert!((rows - raw).abs() > 1e-4, "{name}: {rows}, {raw}");
        let expected = if normalised { rows } else { raw };
        approx::assert_relative_eq!(found, expected, epsilon = 1e-12);
    }
}

#[test]
fn people_get_accuracy_time_confusion_and_figure() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&cora(
        &folder,
        &["--dataset", "karate", "--epochs", "5", "--figures", "plots"],
    ));
    for part in [
        "test accuracy",
        "best validation epoch",
        "ms an epoch",
        "taken for",
        "recall",
        "figure: plots/",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(folder.path().join("plots/karate-gat-L2-seed0.svg").exists());
}

#[test]
fn without_cora_it_says_so_in_one_line_and_takes_cora_like() {
    let folder = TempDir::new().unwrap();
    let args = ["--model", "gcn", "--epochs", "2", "--json"];
    let (out, err) = succeeded(&cora(&folder, &args));
    assert_eq!(json(&out)[0]["dataset"], "cora-like");
    let said: Vec<_> = err
        .lines()
        .filter(|line| line.contains("not found"))
        .collect();
    assert_eq!(said.len(), 1, "{err}");
    assert!(
        said[0].contains("Cora") && said[0].contains("--data"),
        "{err}"
    );
}

#[test]
fn asked_for_by_name_a_missing_set_is_an_error_with_its_address() {
    let folder = TempDir::new().unwrap();
    let output = cora(&folder, &["--dataset", "cora"]);
    refused(&output, "Looked in:");
    refused(&output, "https://");
    let output = cora(&folder, &["--data", "nowhere"]);
    refused(&output, "nowhere");
}

#[test]
fn wrong_input_gets_a_clear_error() {
    let folder = TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("noise.ckpt"),
        b"not a checkpoint at all, but long enough",
    )
    .unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    for (args, reason) in [
        (&["--dataset", "kora"][..], "cora, citeseer"),
        (&["--model", "mlp"], "gcn, gat, gatv2"),
        (
            &["--split", "3", "--dataset", "karate"],
            "split: expected a number below 1, found 3",
        ),
        (
            &["--layers", "0", "--dataset", "karate"],
            "layers: expected at least 1",
        ),
        (&["--dropout", "1.5", "--dataset", "karate"], "dropout"),
        (
            &["--lr", "nan", "--dataset", "karate"],
            "learning rate: expected a number",
        ),
        (
            &[
                "--lr",
                "1e30",
                "--optimizer",
                "sgd",
                "--dataset",
                "karate",
                "--float",
                "f32",
            ],
            "training loss of epoch",
        ),
        (
            &["--weight-decay=-1", "--dataset", "karate"],
            "weight decay",
        ),
        (
            &["--epochs", "0", "--dataset", "karate"],
            "--epochs: expected at least 1",
        ),
        (&["--seeds", "0"], "--seeds"),
        (
            &["--heads", "2", "--model", "gcn", "--dataset", "karate"],
            "--heads: expected a model with attention",
        ),
        (
            &["--share-weights", "--dataset", "karate"],
            "--share-weights: expected --model gatv2",
        ),
        (
            &["--save", "x", "--seeds", "2", "--dataset", "karate"],
            "a single run",
        ),
        (
            &["--resume", "none.ckpt", "--dataset", "karate"],
            "none.ckpt",
        ),
        (&["--resume", "noise.ckpt", "--dataset", "karate"], "byte 0"),
        (
            &[
                "--figures",
                "file/x",
                "--epochs",
                "1",
                "--dataset",
                "karate",
            ],
            "file/x",
        ),
        (
            &[
                "--save",
                "no/such/folder/x.ckpt",
                "--epochs",
                "1",
                "--dataset",
                "karate",
            ],
            "x.ckpt",
        ),
    ] {
        refused(&cora(&folder, args), reason);
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let folder = TempDir::new().unwrap();
    for model in ["gcn", "gat", "gatv2"] {
        let run = |threads: &str, save: &str| {
            let args = [
                "--dataset",
                "cora-like",
                "--model",
                model,
                "--epochs",
                "3",
                "--json",
                "--threads",
                threads,
                "--save",
                save,
            ];
            untimed(&succeeded(&cora(&folder, &args)).0)
        };
        let one = run("1", "1.ckpt");
        for threads in ["2", "4"] {
            let save = format!("{threads}.ckpt");
            assert_eq!(run(threads, &save), one, "{model} on {threads} threads");
        }
    }
}

#[test]
fn a_run_saved_and_resumed_ends_where_an_unbroken_one_does() {
    let folder = TempDir::new().unwrap();
    for optimizer in ["adam", "sgd", "adamw"] {
        let run = |more: &[&str]| {
            let args = [
                "--dataset",
                "karate",
                "--optimizer",
                optimizer,
                "--json",
                "--seed",
                "3",
            ];
            let output = cora(&folder, &[&args, more].concat());
            untimed(&succeeded(&output).0)
        };
        let whole = run(&["--epochs", "12"]);
        run(&["--epochs", "5", "--save", "half.ckpt"]);
        let resumed = run(&[
            "--epochs",
            "12",
            "--resume",
            "half.ckpt",
            "--save",
            "half.ckpt",
        ]);
        assert_eq!(resumed, whole, "{optimizer}");
        let again = run(&["--epochs", "12", "--resume", "half.ckpt"]);
        assert_eq!(again, whole, "{optimizer}");
        let args = [
            "--dataset",
            "karate",
            "--optimizer",
            optimizer,
            "--seed",
            "3",
            "--resume",
            "half.ckpt",
            "--hidden",
            "5",
        ];
        refused(&cora(&folder, &args), "another run: description");
        let args = [
            "--dataset",
            "karate",
            "--optimizer",
            optimizer,
            "--seed",
            "3",
            "--resume",
            "half.ckpt",
            "--lr",
            "0.5",
        ];
        refused(&cora(&folder, &args), "learning rate 0.5");
    }
}

#[test]
fn quickstart_finds_most_of_the_club() {
    let output = Command::new(program("quickstart")).output().unwrap();
    let (out, _) = succeeded(&output);
    let last = out.lines().last().unwrap();
    let found: f64 = last
        .split_whitespace()
        .rev()
        .nth(5)
        .unwrap()
        .parse()
        .unwrap();
    assert!(found >= 90.0, "{last}");
}
