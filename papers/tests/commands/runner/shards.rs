//! `balance` in shards: together they are the whole.

use super::*;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn two_shards_are_the_whole_bit_for_bit() {
    let folder = TempDir::new().unwrap();
    for index in ["1/2", "2/2"] {
        let (out, err) = succeeded(&balance(&folder, &["--shard", index]));
        let said = format!(
            "shard {} (--shard): 3 of 6 cells",
            index.replace('/', " of ")
        );
        assert!(err.contains(&said), "{err}");
        assert_eq!(json(&out)[0]["finished"], 3, "{out}");
        // A part of the numbers is not shown as if it were complete.
        assert_eq!(out.lines().count(), 1, "{out}");
    }
    assert_shards_are_whole(&folder, 2);

    // Nothing is run again: not in the same shards, not in other shards, and not without shards.
    for more in [&["--shard", "1/2"][..], &["--shard", "3/4"], &[]] {
        let (_, err) = succeeded(&balance(&folder, more));
        assert!(!err.contains(" of 6: ") && !err.contains("1 of 1"), "{err}");
    }
    // A file that was merged by hand and is beside the shards is read with them.
    let texts = ["balance-1-of-2.jsonl", "balance-2-of-2.jsonl"];
    let texts = texts.map(|name| std::fs::read_to_string(results(&folder, name)).unwrap());
    std::fs::write(results(&folder, "balance.jsonl"), texts.concat()).unwrap();
    let (out, _) = succeeded(&balance(&folder, &["--show"]));
    assert_eq!(out, unsharded().1);
}

#[test]
fn json_has_an_object_per_number() {
    let (all, out) = unsharded();
    let objects = json(&out);
    assert_eq!(objects.len(), 2);
    for (object, layers) in objects.iter().zip([2, 3]) {
        assert_eq!(object["dataset"], "karate");
        assert_eq!(
            (&object["layers"], &object["init"]),
            (&layers.into(), &"bal-o".into())
        );
        assert_eq!(object["column"], format!("L={layers}"));
        assert_eq!(
            (&object["seeds"], &object["stopped"]),
            (&3.into(), &0.into())
        );
        assert!(object["paper"].is_null() && object["test_acc_std"].is_f64());
        let runs = all.iter().map(|line| json(line).remove(0));
        let runs = runs.filter(|run| run["cell"]["layers"] == layers);
        let sum: f64 = runs.map(|run| run["test_acc"].as_f64().unwrap()).sum();
        let mean = object["test_acc_mean"].as_f64().unwrap();
        assert!((3.0 * mean - sum).abs() < 1e-12, "{object}");
    }
    // Nothing is finished: no mean, and no error.
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::write(results(&folder, "balance.jsonl"), "").unwrap();
    let (out, err) = succeeded(&balance(&folder, &["--show"]));
    assert!(json(&out)[0]["test_acc_mean"].is_null(), "{out}");
    assert!(err.contains("no cell is finished"), "{err}");
}

#[test]
fn an_array_of_jobs_runs_the_plan() {
    let folder = TempDir::new().unwrap();
    for (k, id) in ["10", "20", "30"].iter().enumerate() {
        let mut task = command("balance", &folder, &PLAN);
        for (name, value) in [
            ("ID", *id),
            ("MIN", "10"),
            ("MAX", "30"),
            ("STEP", "10"),
            ("COUNT", "3"),
        ] {
            task.env(format!("SLURM_ARRAY_TASK_{name}"), value);
        }
        let (_, err) = succeeded(&task.output().unwrap());
        let said = format!("shard {0} of 3 (SLURM_ARRAY_TASK_ID, {0} of 3)", k + 1);
        assert!(err.contains(&said), "{err}");
    }
    assert_shards_are_whole(&folder, 3);
    // The variables of an engine have an effect only on a run.
    let mut show = command("balance", &folder, &[&PLAN[..], &["--show"]].concat());
    show.env("SLURM_ARRAY_TASK_ID", "10");
    assert_eq!(succeeded(&show.output().unwrap()).0, unsharded().1);
    let mut run = command("balance", &folder, &PLAN);
    run.env("SLURM_ARRAY_TASK_ID", "10");
    refused(
        &run.output().unwrap(),
        "SLURM_ARRAY_TASK_MIN (wanted because",
    );
}

#[test]
fn files_of_other_machines_are_named_and_merged() {
    let folder = TempDir::new().unwrap();
    for (index, name) in [("1/2", "here.jsonl"), ("2/2", "there.jsonl")] {
        succeeded(&balance(&folder, &["--shard", index, "--results", name]));
    }
    let (all, printed) = unsharded();
    let named = ["here-1-of-2.jsonl", "there-2-of-2.jsonl"];
    let show = |more: &[&str]| {
        let args = [&["--show", "--results"], &named[..], more].concat();
        balance(&folder, &args)
    };
    assert_eq!(succeeded(&show(&[])).0, printed);
    // If a part of a shard is missing, a line says so.
    let (_, err) = succeeded(&balance(&folder, &["--show", "--results", "here.jsonl"]));
    assert!(err.contains("here-2-of-2.jsonl is not there"), "{err}");

    // A cell with two outcomes.
    let here = folder.path().join(named[0]);
    let text = std::fs::read_to_string(&here).unwrap();
    let line = text.lines().next().unwrap();
    let mut other: serde_json::Value = serde_json::from_str(line).unwrap();
    other["test_acc"] = 0.125.into();
    let there = folder.path().join(named[1]);
    let mut both = std::fs::read_to_string(&there).unwrap();
    both += &format!("{line}\n");
    std::fs::write(&there, &both).unwrap();
    assert_eq!(succeeded(&show(&[])).0, printed, "the same outcome twice");
    std::fs::write(&there, both + &format!("{other}\n")).unwrap();
    let output = show(&[]);
    for name in named {
        refused(&output, name);
    }
    assert_eq!(succeeded(&show(&["--conflict", "first"])).0, printed);
    assert_ne!(succeeded(&show(&["--conflict", "last"])).0, printed);

    // A run adds to the first file and reads the others.
    let args = ["--results", "new.jsonl", named[0]];
    succeeded(&balance(&folder, &args));
    let new = outcomes(&folder.path().join("new.jsonl"));
    assert_eq!(new.len(), 3);
    assert!(new.iter().all(|line| all.contains(line)));
}

#[test]
fn a_killed_shard_goes_on() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--dataset",
        "karate",
        "--layers",
        "3",
        "--init",
        "bal-o",
        "--epochs",
        "60",
        "--seeds",
        "24",
        "--jobs",
        "1",
        "--shard",
        "1/2",
    ];
    let path = results(&folder, "balance-1-of-2.jsonl");
    let lines = || std::fs::read_to_string(&path).map_or(0, |text| text.lines().count());
    let mut run = command("balance", &folder, &args);
    let mut run = run
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while lines() < 2 {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "no cell is finished"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    // A line that the kill cut.
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.truncate(text.rfind('\n').unwrap() - 20);
    std::fs::write(&path, text).unwrap();
    let output = command("balance", &folder, &args).output().unwrap();
    let (out, err) = succeeded(&output);
    assert!(
        err.contains("the last line is incomplete, its cell will run again"),
        "{err}"
    );
    assert!(
        out.contains("shard 1 of 2: 12 of 12 cells are finished"),
        "{out}"
    );
    let unbroken = TempDir::new().unwrap();
    succeeded(&command("balance", &unbroken, &args).output().unwrap());
    let whole = outcomes(&results(&unbroken, "balance-1-of-2.jsonl"));
    assert_eq!(outcomes(&path), whole);
}

#[test]
fn shards_that_cannot_be_are_refused() {
    let folder = TempDir::new().unwrap();
    for (shard, reason) in [
        ("0/0", "a plan has at least one shard"),
        ("0/2", "shards are counted from 1"),
        ("3/2", "there is no shard 3 of 2"),
        ("half", "expected I/N"),
    ] {
        let output = balance(&folder, &["--shard", shard]);
        assert_eq!(output.status.code(), Some(2));
        refused(&output, reason);
    }
    refused(&balance(&folder, &["--shard", "1/2", "--show"]), "--show");
    // More shards than cells: the last ones have nothing to do.
    let (_, err) = succeeded(&balance(&folder, &["--shard", "7/7"]));
    assert!(err.contains("0 of 6 cells"), "{err}");
    assert!(results(&folder, "balance-7-of-7.jsonl").exists());
}
