//! `balance`: cells, its file of results, its arguments; its output is tested in the module below.

mod entries;
mod shown;

use crate::files::{self, npz};
use crate::{command, refused, succeeded, text};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use tempfile::TempDir;

fn balance(folder: &TempDir, args: &[&str]) -> Output {
    command("balance", folder, args).output().unwrap()
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

/// The lines of the results, in order of their seeds, without the fields that differ from run to
/// run.
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
    // If one cell is added, only this cell runs.
    let (_, err) = succeeded(&balance(&folder, &karate("xavier", &[])));
    assert!(err.contains("2 of 2: karate sgd L=3 xavier"), "{err}");
    assert_eq!(outcomes(&folder).len(), 4);
    for outcome in outcomes(&folder) {
        assert!(outcome["max_delta"].as_f64().unwrap() < 1e-3, "{outcome}");
        assert_eq!(outcome["epochs"], 30);
    }
}

#[test]
fn a_run_has_the_seed_it_is_given() {
    let all = TempDir::new().unwrap();
    succeeded(&balance(&all, &karate("bal-o", &[])));
    let second = TempDir::new().unwrap();
    let args = [
        "--dataset",
        "karate",
        "--layers",
        "3",
        "--epochs",
        "30",
        "--init",
        "bal-o",
    ];
    let run = ["--seed", "1", "--seeds", "1"];
    succeeded(&balance(&second, &[&args[..], &run].concat()));
    assert_eq!(outcomes(&all)[1..], outcomes(&second)[..]);
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
fn data_that_are_not_there_are_named_and_left_out() {
    let folder = TempDir::new().unwrap();
    let args = ["--table", "6", "--layers", "2", "--epochs", "1"];
    let output = balance(&folder, &args);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(err.matches("left out").count(), 3, "{err}");
    assert!(out.contains("no cell is finished"), "{out}");
    // Nothing ran, so a script must see that the command failed.
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("data: expected the data set of at least one run"),
        "{err}"
    );
}

#[test]
fn a_data_set_asked_for_by_name_must_be_there() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--table",
        "6",
        "--dataset",
        "cora",
        "--layers",
        "2",
        "--epochs",
        "1",
    ];
    let output = balance(&folder, &args);
    refused(
        &output,
        "the data set Cora (the files ind.cora.x, ind.cora.tx,",
    );
    assert!(!text(&output.stderr).contains("left out"));
    // Nothing is run, not even on the data sets that are found.
    let output = balance(&folder, &karate("bal-o", &["--dataset", "cora"]));
    refused(&output, "the data set Cora");
    assert_eq!(std::fs::read_to_string(results(&folder)).unwrap(), "");
    // A missing folder is an error too, even for a set that needs no folder.
    let output = balance(&folder, &karate("bal-o", &["--data", "nowhere"]));
    refused(&output, "'nowhere' for '--data <DIR>'");
}

#[test]
fn a_choice_without_a_cell_is_refused() {
    let folder = TempDir::new().unwrap();
    for (args, reason) in [
        (&["--table", "2", "--layers", "3"][..], "Table 2"),
        (&["--table", "7", "--dataset", "texas"], "Table 7"),
        (&["--figure", "6", "--init", "identity"], "Figure 6"),
        (&["--only", "no such row"], "expected a cell with"),
        // One of two plans is empty.
        (
            &["--table", "2", "--table", "7", "--dataset", "texas"],
            "Table 7",
        ),
        (
            &["--table", "2", "--layers", "2", "--layers", "3"],
            "--layers: expected a value of some cell in the chosen tables and figures, found \"3\"",
        ),
        (
            &["--table", "3", "--dataset", "cora", "--dataset", "texas"],
            "--dataset: expected a value of some cell",
        ),
        (
            &["--table", "2", "--init", "bal-o", "--init", "identity"],
            "--init: expected a value of some cell",
        ),
        (
            &["--table", "3", "--only", "ELU", "--only", "GELU"],
            "--only: expected a value of some cell",
        ),
    ] {
        refused(&balance(&folder, args), reason);
        refused(&balance(&folder, &[args, &["--show"]].concat()), reason);
    }
    // A data set that only one of two plans has is accepted.
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::write(results(&folder), "").unwrap();
    let both = ["--figure", "6", "--figure", "7", "--dataset", "cora"];
    let args = [&both[..], &["--dataset", "citeseer", "--show"]].concat();
    let (out, _) = succeeded(&balance(&folder, &args));
    assert_eq!(out.matches("no cell is finished").count(), 2, "{out}");
}

#[test]
fn results_that_are_not_there_cannot_be_shown() {
    let folder = TempDir::new().unwrap();
    for more in [&["--results", "none.jsonl"][..], &[]] {
        let output = balance(&folder, &karate("bal-o", &[&["--show"], more].concat()));
        refused(&output, more.last().unwrap_or(&"results/balance.jsonl"));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_stays_as_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("notes.txt");
    let ours = {
        succeeded(&balance(&folder, &karate("bal-o", &[])));
        std::fs::read_to_string(results(&folder)).unwrap()
    };
    let first = ours.lines().next().unwrap();
    for foreign in [
        "milk, eggs",
        "{",
        "{\"cell\": {\"dataset\": \"of another program",
        "{\"cell\"",
        "milk\neggs\n",
        "\u{0}\u{1}",
        &format!("{ours}milk"),
        &format!("{ours} {first}"),
    ] {
        std::fs::write(&path, foreign).unwrap();
        for more in [&[][..], &["--show"]] {
            let args = [&["--results", "notes.txt"], more].concat();
            let output = balance(&folder, &karate("bal-o", &args));
            refused(&output, "notes.txt, line ");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
    }
    // The beginning of a line of ours is cut, however short it is where lines of ours come before.
    for (kept, cut) in [
        (&*ours, "{"),
        (&*ours, "{\"cell"),
        (&*ours, &first[..30]),
        ("", &first[..30]),
    ] {
        std::fs::write(&path, format!("{kept}{cut}")).unwrap();
        let args = ["--results", "notes.txt"];
        let (_, err) = succeeded(&balance(&folder, &karate("bal-o", &args)));
        assert!(err.contains("the last line is incomplete"), "{err}");
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }
}

#[test]
fn a_run_that_grows_without_bound_is_an_outcome() {
    let folder = TempDir::new().unwrap();
    // The table is printed, and the exit code says that no run has a result.
    let diverged = |args: &[&str]| {
        let output = balance(&folder, args);
        assert_eq!(output.status.code(), Some(1));
        let err = text(&output.stderr);
        assert!(
            err.contains("runs: expected one that does not diverge, found none"),
            "{err}"
        );
        text(&output.stdout)
    };
    let out = diverged(&karate("bal-o", &["--lr", "1e30"]));
    assert!(
        out.contains("2 ended with a loss that is not a finite number"),
        "{out}"
    );
    for outcome in outcomes(&folder) {
        assert!(outcome["stopped"].as_str().is_some(), "{outcome}");
    }
    // A run without a finite epoch has no accuracy.
    let mut one = karate("bal-o", &["--lr", "1e39", "--results", "last.jsonl"]);
    one[5] = "1";
    let last = diverged(&one);
    assert!(last.contains("| diverged"), "{last}");
    let lines = std::fs::read_to_string(folder.path().join("last.jsonl")).unwrap();
    for line in lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
    {
        assert!(
            line["test_acc"].is_null() && line["val_acc"].is_null(),
            "{line}"
        );
        let stopped = line["stopped"].as_str().unwrap();
        assert!(
            stopped.starts_with("validation loss of epoch 1"),
            "{stopped}"
        );
    }
    // The written file can be read.
    let again = diverged(&karate("bal-o", &["--lr", "1e30", "--show"]));
    assert_eq!(out, again);
}

#[test]
fn graphs_and_features_are_read_as_asked() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("texas.npz"), npz::archive(&npz::small_set())).unwrap();
    files::write_parts(&data, "cora", &files::small_set());
    let one = |dataset, more: &[&str]| {
        let _ = std::fs::remove_file(results(&folder));
        let args = ["--dataset", dataset, "--layers", "3", "--init", "xavier"];
        let run = ["--epochs", "4", "--seeds", "1", "--data", "data"];
        let (out, _) = succeeded(&balance(&folder, &[&args, &run, more].concat()));
        (out, outcomes(&folder).remove(0))
    };
    let option = |dataset, option: &str, key, with_option: bool, title: &str| {
        let (plain_title, plain) = one(dataset, &[]);
        let (with_title, with) = one(dataset, &[option]);
        assert_eq!(
            (&plain["cell"][key], &with["cell"][key]),
            (&(!with_option).into(), &with_option.into())
        );
        assert_ne!(plain["final_loss"], with["final_loss"], "{option}");
        assert!(with_title.contains(title), "{with_title}");
        assert!(!plain_title.contains(title), "{plain_title}");
    };
    let both = ", edges in both directions";
    option("texas", "--both-directions", "directed", false, both);
    option(
        "cora",
        "--raw-features",
        "raw_features",
        true,
        ", features as published",
    );
    // A citation graph has no direction, and the other data sets have features as published anyway.
    for (dataset, option) in [("cora", "--both-directions"), ("texas", "--raw-features")] {
        let args = [
            "--dataset",
            dataset,
            "--layers",
            "3",
            "--data",
            "data",
            option,
        ];
        refused(&balance(&folder, &args), option);
    }
}

#[test]
fn an_end_of_the_pipe_is_an_error_and_keeps_the_results() {
    let folder = TempDir::new().unwrap();
    let mut run = command("balance", &folder, &karate("bal-o", &[]));
    run.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    drop(run.stdout.take());
    refused(&run.wait_with_output().unwrap(), "standard output");
    assert_eq!(outcomes(&folder).len(), 2);
}

#[test]
fn two_programs_do_not_add_to_one_file() {
    let folder = TempDir::new().unwrap();
    succeeded(&balance(&folder, &karate("bal-o", &[])));
    let file = std::fs::File::open(results(&folder)).unwrap();
    file.try_lock().unwrap();
    let output = balance(&folder, &karate("bal-x", &[]));
    refused(&output, "a file that nobody else is adding to");
    succeeded(&balance(&folder, &karate("bal-o", &["--show"])));
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
        (karate("bal-o", &["--results", "."]), "directory"),
        (vec!["--loss-threshold", "low"], "low"),
        (
            karate("bal-o", &["--loss-threshold", "1e300"]),
            "--loss-threshold: expected less than 0.693",
        ),
        (
            karate("bal-o", &["--lr", "1e-50"]),
            "a number that is not 0 in f32, found 1e-50",
        ),
        (vec!["--threads", "8000"], "8000 is not in 0..=256"),
        (vec!["--jobs", "18446744073709551615"], "is not in 0..=256"),
        (
            karate("bal-o", &["--jobs", "200", "--threads", "200"]),
            "--jobs times --threads: expected at most",
        ),
        (
            vec!["--layers", "18446744073709551615"],
            "network: layers: expected at most 4096",
        ),
        (
            vec!["--layers", "1000000000"],
            "network: layers: expected at most 4096",
        ),
        (
            vec!["--loss-threshold", "nan"],
            "not a finite number from 0 up",
        ),
        (vec!["--loss-threshold=-1"], "not a finite number from 0 up"),
        (vec!["--seeds", "18446744073709551615"], "--seeds"),
        (vec!["--seed", "18446744073709551615"], "--seed"),
    ] {
        refused(&balance(&folder, &args), reason);
    }
}
