//! Ctrl-C during a run.

use super::*;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Starts a program, waits until `begun` is true of its folder, and presses Ctrl-C.
fn interrupted(
    name: &str,
    folder: &TempDir,
    args: &[&str],
    begun: impl Fn(&Path) -> bool,
) -> Output {
    let mut command = command(name, folder, args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child: Child = child.spawn().unwrap();
    let start = Instant::now();
    while !begun(folder.path()) {
        assert!(child.try_wait().unwrap().is_none(), "{name} ended too soon");
        assert!(
            start.elapsed() < Duration::from_secs(120),
            "{name} does nothing"
        );
        sleep(Duration::from_millis(20));
    }
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
    child.wait_with_output().unwrap()
}

/// The number between two texts.
#[track_caller]
fn between(text: &str, before: &str, after: &str) -> usize {
    let found = text
        .split_once(before)
        .and_then(|(_, rest)| rest.split_once(after));
    let (number, _) = found.unwrap_or_else(|| panic!("no {before}..{after} in {text}"));
    number.parse().unwrap()
}

#[test]
fn cora_shows_its_best_epoch_and_goes_on() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--dataset",
        "karate",
        "--patience",
        "0",
        "--figures",
        "none",
    ];
    let begin = [&args[..], &["--epochs", "10000000", "--save", "c 1.ckpt"]].concat();
    let saved = |folder: &Path| folder.join("c 1.ckpt").exists();
    let output = interrupted("cora", &folder, &begin, saved);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{out}\n{err}");
    assert!(out.contains("% at the best validation epoch"), "{out}");
    assert!(
        err.contains("it goes on with: ") && err.contains("--resume 'c 1.ckpt'"),
        "{err}"
    );
    assert!(!err.contains("diverged"), "{err}");
    let done = between(&err, "Ctrl-C, seed 0, after epoch ", " of 10000000");

    let all = (done + 3).to_string();
    let end = [
        "--epochs", &all, "--save", "c 1.ckpt", "--resume", "c 1.ckpt",
    ];
    let (out, err) = succeeded(&cora(&folder, &[&args[..], &end].concat()));
    let from = between(
        &err,
        "c 1.ckpt: goes on after epoch ",
        &format!(" of {all}"),
    );
    assert_eq!(from, done);
    assert!(err.contains("best validation accuracy so far"), "{err}");
    assert!(out.contains(&format!(" of {all} (")), "{out}");
}

/// A training that is cut within an interval goes on in it, and its end is that of an unbroken one.
#[test]
fn char_lm_goes_on_within_an_interval() {
    let folder = TempDir::new().unwrap();
    let more = [
        "--width",
        "8",
        "--layers",
        "1",
        "--context",
        "8",
        "--eval-batches",
        "1",
    ];
    let rest = [
        "--eval-interval",
        "700",
        "--steps",
        "3500",
        "--figures",
        "none",
        "--sample",
        "5",
    ];
    let args = [&more[..], &rest].concat();
    let begin = [&args[..], &["--save", "m.ckpt"]].concat();
    let saved = |folder: &Path| folder.join("m.ckpt").exists();
    let output = interrupted("char_lm", &folder, &begin, saved);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{out}\n{err}");
    assert!(out.contains("best validation loss so far"), "{out}");
    let done = between(&out, "Ctrl-C after step ", " of 3500");
    assert!((700..3500).contains(&done), "{done}");

    let end = ["--save", "m.ckpt", "--resume", "m.ckpt"];
    let (resumed, err) = succeeded(
        &command("char_lm", &folder, &[&args[..], &end].concat())
            .output()
            .unwrap(),
    );
    assert!(
        err.contains(&format!("m.ckpt: goes on after step {done} of 3500")),
        "{err}"
    );
    let (whole, _) = succeeded(&command("char_lm", &folder, &args).output().unwrap());
    let losses = |out: &str| {
        let lines = out.lines().map(str::trim_start);
        let ends = lines.filter(|line| line.starts_with("validation "));
        ends.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(losses(&resumed), losses(&whole));
    assert!(!losses(&whole).is_empty(), "{whole}");
}

#[test]
fn a_table_keeps_its_finished_cells() {
    let folder = TempDir::new().unwrap();
    let args = [
        "--dataset",
        "karate",
        "--layers",
        "2",
        "--epochs",
        "400",
        "--loss-threshold",
        "0",
        "--seeds",
        "40",
        "--jobs",
        "1",
        "--init",
        "xavier",
        "--out",
        "none",
        "--results",
        "r 1.jsonl",
    ];
    let lines = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("r 1.jsonl")).unwrap_or_default();
        text.lines().count()
    };
    let output = interrupted("balance", &folder, &args, |folder| lines(folder) > 0);
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{err}");
    let kept = lines(folder.path());
    assert_eq!(between(&err, "Ctrl-C: ", " of 40 cells"), kept, "{err}");
    assert!(kept < 40);
    let before = std::fs::read_to_string(folder.path().join("r 1.jsonl")).unwrap();

    // A shell takes the printed command, which runs the other cells and none again.
    let (_, printed) = err.split_once("it goes on with: ").unwrap();
    let mut shell = Command::new("sh");
    isolate(&mut shell, &folder);
    let output = shell.args(["-c", printed.lines().next().unwrap()]).output();
    let (out, err) = succeeded(&output.unwrap());
    assert!(
        out.contains("karate") && !err.contains("Ctrl-C"),
        "{out}\n{err}"
    );
    assert_eq!(lines(folder.path()), 40);
    let after = std::fs::read_to_string(folder.path().join("r 1.jsonl")).unwrap();
    assert!(after.starts_with(&before));
}
