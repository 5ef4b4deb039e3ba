//! `balance`: cells, its file of results, its tables and figures.

use crate::{program, refused, succeeded};
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// Runs `balance` in a folder of its own, where no data are.
fn balance(folder: &TempDir, args: &[&str]) -> Output {
    Command::new(program("balance"))
        .args(args)
        .current_dir(folder.path())
        .env_remove("EMMY_DATA")
        .env("XDG_CACHE_HOME", folder.path())
        .env("HOME", folder.path())
        .output()
        .unwrap()
}

const KARATE: [&str; 9] = [
    "--dataset",
    "karate",
    "--layers",
    "3",
    "--epochs",
    "30",
    "--seeds",
    "2",
    "--init",
];

fn karate<'a>(init: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    KARATE
        .into_iter()
        .chain([init])
        .chain(more.iter().copied())
        .collect()
}

fn results(folder: &TempDir) -> PathBuf {
    folder.path().join("results/balance.jsonl")
}

/// The lines of the results, in order of their seeds, without what differs from run to run.
fn outcomes(folder: &TempDir) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(results(folder)).unwrap();
    let mut lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for line in &mut lines {
        for key in ["seconds", "threads", "date", "machine"] {
            assert!(line.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
    }
    lines.sort_by_key(|line| line["cell"]["seed"].as_u64());
    lines
}

#[test]
fn finished_cells_are_kept_and_not_run_again() {
    let folder = TempDir::new().unwrap();
    let (first, _) = succeeded(&balance(&folder, &karate("bal-o", &[])));
    let kept = std::fs::read_to_string(results(&folder)).unwrap();
    assert_eq!(kept.lines().count(), 2);
    let (second, err) = succeeded(&balance(&folder, &karate("bal-o", &[])));
    assert_eq!((&first, ""), (&second, err.as_str()));
    assert_eq!(kept, std::fs::read_to_string(results(&folder)).unwrap());
    // A cell more runs alone.
    let (_, err) = succeeded(&balance(&folder, &karate("xavier", &[])));
    assert!(err.contains("2 of 2: karate sgd L=3 xavier"), "{err}");
    assert_eq!(outcomes(&folder).len(), 4);
    for outcome in outcomes(&folder) {
        assert!(outcome["max_delta"].as_f64().unwrap() < 1e-3, "{outcome}");
        assert_eq!(outcome["epochs"], 30);
    }
}

#[test]
fn outcomes_do_not_depend_on_jobs_and_threads() {
    let run = |jobs, threads| {
        let folder = TempDir::new().unwrap();
        let args = karate("bal-x", &["--jobs", jobs, "--threads", threads]);
        succeeded(&balance(&folder, &args));
        outcomes(&folder)
    };
    let one = run("1", "1");
    assert_eq!(one, run("2", "1"));
    assert_eq!(one, run("1", "3"));
    assert_ne!(one[0]["test_acc"], serde_json::Value::Null);
}

#[test]
fn a_line_cut_by_a_kill_is_run_again_and_a_foreign_one_refused() {
    let folder = TempDir::new().unwrap();
    succeeded(&balance(&folder, &karate("bal-o", &[])));
    let whole = std::fs::read_to_string(results(&folder)).unwrap();
    // Within the sign of multiplication, which is two bytes.
    let cut = whole.rfind('×').unwrap() + 1;
    std::fs::write(results(&folder), &whole.as_bytes()[..cut]).unwrap();
    let before = outcomes_of(&whole);
    let (_, err) = succeeded(&balance(&folder, &karate("bal-o", &[])));
    assert!(err.contains("the last line is incomplete"), "{err}");
    assert!(err.contains("1 of 1"), "{err}");
    assert_eq!(outcomes(&folder), before);

    std::fs::write(results(&folder), whole + "{\"cell\": 3}\n").unwrap();
    let output = balance(&folder, &karate("bal-o", &[]));
    refused(&output, "balance.jsonl, line 3");
}

fn outcomes_of(text: &str) -> Vec<serde_json::Value> {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::write(results(&folder), text).unwrap();
    outcomes(&folder)
}

#[test]
fn tables_hold_the_papers_numbers_beside_ours() {
    let folder = TempDir::new().unwrap();
    let show = |args: &[&str]| {
        let (out, _) = succeeded(&balance(&folder, &[args, &["--show"]].concat()));
        out
    };
    assert!(show(&["--table", "2"]).contains("no cell is finished"));
    // Data that are not there are named, the rest is run.
    let args = [
        "--table",
        "2",
        "--dataset",
        "cora",
        "--layers",
        "2",
        "--epochs",
        "1",
    ];
    let (out, err) = succeeded(&balance(&folder, &args));
    assert!(err.contains("left out"), "{err}");
    assert!(out.contains("no cell is finished"), "{out}");
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = TempDir::new().unwrap();
    for (args, reason) in [
        (vec!["--table", "1"], "1 is not in 2..=7"),
        (vec!["--figure", "13"], "13 is not in 2..=12"),
        (vec!["--init", "balanced"], "balanced"),
        (vec!["--dataset", "coral"], "coral"),
        (vec!["--epochs", "0"], "--epochs"),
        (vec!["--seeds", "0"], "0 is not in 1.."),
        (karate("bal-o", &["--results", "."]), "."),
    ] {
        refused(&balance(&folder, &args), reason);
    }
}

#[test]
fn the_demonstration_draws_its_figure() {
    let folder = TempDir::new().unwrap();
    let args = ["--epochs", "6", "--seeds", "1", "--jobs", "2"];
    let (out, _) = succeeded(&balance(&folder, &args));
    assert!(out.contains("figures/balance.svg"), "{out}");
    let svg = std::fs::read_to_string(folder.path().join("figures/balance.svg")).unwrap();
    for name in ["Xav", "Bal_X", "Bal_O", "relative |δ|"] {
        assert!(svg.contains(name), "{name}");
    }
}
