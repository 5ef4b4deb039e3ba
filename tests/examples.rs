//! The example `cora` as a program: what it prints where, what it refuses, that threads do not matter, that a run can be resumed.

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
