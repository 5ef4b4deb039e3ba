//! Runs whose loss grows without bound have no result, in whichever epoch this happens.

use super::*;

const KARATE: [&str; 4] = ["--dataset", "karate", "--json", "--epochs"];

fn run(folder: &TempDir, more: &[&str]) -> (Option<i32>, Vec<serde_json::Value>, String) {
    let output = cora(folder, &[&KARATE[..], more].concat());
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(!err.contains("panicked"), "{err}");
    (output.status.code(), json(&out), err)
}

#[test]
fn a_network_that_is_not_finite_after_the_last_epoch_has_no_result() {
    let folder = TempDir::new().unwrap();
    for lr in ["1e39", "1e30"] {
        let (code, lines, err) = run(&folder, &["1", "--lr", lr]);
        assert_eq!(code, Some(1), "{err}");
        assert_eq!(lines.len(), 2);
        for key in ["test_acc", "val_acc", "best_epoch"] {
            assert!(lines[0][key].is_null(), "{}", lines[0]);
        }
        let stopped = lines[0]["stopped"].as_str().unwrap();
        assert!(stopped.starts_with("validation loss of epoch 1: expected a finite number"));
        assert_eq!(lines[0]["epochs"], 1);
        for key in ["test_acc_mean", "test_acc_std", "ms_per_epoch"] {
            assert!(lines[1][key].is_null(), "{}", lines[1]);
        }
        assert_eq!(
            (&lines[1]["seeds"], &lines[1]["diverged"]),
            (&1.into(), &1.into())
        );
        assert!(
            err.contains("runs: expected one that does not diverge, found none"),
            "{err}"
        );

        let args = ["--dataset", "karate", "--epochs", "1", "--lr", lr];
        refused(
            &cora(&folder, &args),
            "seed 0: diverged: validation loss of epoch 1",
        );
    }
}

#[test]
fn a_seed_that_diverges_is_an_outcome_and_the_others_run() {
    let folder = TempDir::new().unwrap();
    // With η λ = 3 weights double in each step; around the 36th they overflow, for some seeds earlier.
    let args = ["--model", "gcn", "--optimizer", "sgd", "--seeds", "6"];
    let rate = ["--lr", "3", "--weight-decay", "1"];
    let all = [&["36"], &args[..], &rate].concat();
    let (code, lines, err) = run(&folder, &all);
    assert_eq!(code, Some(0), "{err}");
    let (summary, runs) = lines.split_last().unwrap();
    assert_eq!(runs.len(), 6);
    let (diverged, reached): (Vec<_>, Vec<_>) =
        (runs.iter()).partition(|r| r["stopped"].is_string());
    assert!(!diverged.is_empty() && !reached.is_empty(), "{lines:?}");
    assert!(
        diverged.iter().all(|r| r["test_acc"].is_null()),
        "{lines:?}"
    );
    let accuracies = reached.iter().map(|r| r["test_acc"].as_f64().unwrap());
    let mean = accuracies.sum::<f64>() / reached.len() as f64;
    approx::assert_relative_eq!(summary["test_acc_mean"].as_f64().unwrap(), mean);
    assert_eq!(summary["seeds"], 6);
    assert_eq!(summary["diverged"], diverged.len());
    for run in &diverged {
        let said = format!("seed {}: diverged: ", run["seed"]);
        assert!(err.contains(&said), "{err}");
    }

    let all: Vec<&str> = all.iter().skip(1).copied().collect();
    let people = [&["--dataset", "karate", "--epochs", "36"], &all[..]].concat();
    let (out, err) = succeeded(&cora(&folder, &people));
    let end = format!("mean of {} seeds", reached.len());
    let others = format!("; {} of 6 diverged", diverged.len());
    assert!(out.contains(&end) && out.contains(&others), "{out}");
    assert_eq!(err.matches(": diverged: ").count(), diverged.len(), "{err}");
}

#[test]
fn a_run_that_diverged_is_saved_and_diverges_again_when_resumed() {
    let folder = TempDir::new().unwrap();
    let args = ["1", "--lr", "1e39", "--save", "run.ckpt"];
    assert_eq!(run(&folder, &args).0, Some(1));
    let state = store::load::<f32, TrainState<f32>>(&folder.path().join("run.ckpt")).unwrap();
    assert!(state.history.best().is_none() && state.best.is_empty());
    for (epochs, why) in [
        ("1", "validation loss of epoch 1"),
        ("2", "training loss of epoch 2"),
    ] {
        let (code, lines, err) = run(&folder, &[epochs, "--lr", "1e39", "--resume", "run.ckpt"]);
        assert_eq!(code, Some(1), "{err}");
        let stopped = lines[0]["stopped"].as_str().unwrap();
        assert!(stopped.starts_with(why), "{stopped}");
    }
}

/// One rule for all programs: without a run that has a result, the exit code is 1. Where a layer is not finite it has
/// no measure, and no cell is lost.
#[test]
fn a_program_whose_runs_all_diverge_fails() {
    let folder = TempDir::new().unwrap();
    let wild = [
        "--norm", "none", "--layers", "32", "--epochs", "20", "--lr", "10",
    ];
    let dataset = [
        "--dataset",
        "cora-like",
        "--seeds",
        "1",
        "--json",
        "--out",
        "none",
    ];
    let output = command("oversmoothing", &folder, &[&wild[..], &dataset].concat());
    let output = { output }.output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    assert!(
        err.contains("runs: expected one that does not diverge, found none"),
        "{err}"
    );
    assert!(!json(&out).is_empty());
    // The cell is stored, and beside one that has a result it is an outcome.
    let stored =
        std::fs::read_to_string(folder.path().join("results/oversmoothing.jsonl")).unwrap();
    assert_eq!(stored.lines().count(), 1);
    assert!(
        stored.contains("\"erank\":[") && stored.contains("null"),
        "{stored}"
    );
}

#[test]
fn schemes_made_for_relu_choose_it_and_say_so() {
    let folder = TempDir::new().unwrap();
    let with = |model: &str, init: &str, more: &[&str]| {
        let args = ["2", "--model", model, "--layers", "4", "--init", init];
        let (code, lines, err) = run(&folder, &[&args[..], more].concat());
        assert_eq!(code, Some(0), "{err}");
        let activation = lines[0]["activation"].as_str().unwrap().to_owned();
        (activation, lines[0]["final_loss"].as_f64().unwrap(), err)
    };
    for init in ["bal-x", "bal-o", "ll-ortho", "ll-identity", "identity-bal"] {
        for model in ["gat", "gatv2"] {
            let (activation, loss, err) = with(model, init, &[]);
            assert_eq!(activation, "relu");
            let said = format!(
                "--init {init} is made for ReLU: {model} is trained with --activation relu"
            );
            assert!(err.contains(&said), "{err}");
            // The run is equal to that with `--activation relu`; another activation is used if it is given.
            let (_, typed, err) = with(model, init, &["--activation", "relu"]);
            assert!(typed == loss && !err.contains("made for ReLU"), "{err}");
            let (activation, other, err) = with(model, init, &["--activation", "elu"]);
            assert!(activation == "elu" && other != loss, "{err}");
            assert!(!err.contains("made for ReLU"), "{err}");
        }
        // If ReLU is the default of the model, no line is printed.
        let (activation, _, err) = with("gcn", init, &[]);
        assert!(
            activation == "relu" && !err.contains("made for ReLU"),
            "{err}"
        );
    }
    assert_eq!(with("gat", "xavier", &[]).0, "elu");
    let (out, _) = succeeded(&cora(&folder, &["--help"]));
    assert!(out.contains("ReLU and choose --activation relu"), "{out}");
}
