//! The files that the programs read and write: only regular files, and only one run per place.
#![cfg(unix)]

use super::*;
use std::process::Stdio;

#[test]
fn pipes_and_devices_are_refused_at_once() {
    let folder = TempDir::new().unwrap();
    let made = Command::new("mkfifo")
        .arg(folder.path().join("pipe"))
        .status();
    assert!(made.unwrap().success());
    for file in ["pipe", "/dev/zero", "/dev/full"] {
        let karate = ["--dataset", "karate", "--epochs", "1"];
        for option in ["--resume", "--save"] {
            let args = [&karate[..], &[option, file]].concat();
            refused(
                &cora(&folder, &args),
                &format!("{file}: not a regular file"),
            );
        }
        for show in [&["--results", file][..], &["--show", "--results", file]] {
            let args = [&karate[..], &["--layers", "2", "--init", "xavier"], show].concat();
            let output = command("balance", &folder, &args).output().unwrap();
            refused(&output, &format!("{file}: not a regular file"));
        }
    }
}

#[test]
fn names_are_shown_without_control_characters() {
    let folder = TempDir::new().unwrap();
    let name = "a\u{1b}[2J\nb.ckpt";
    let output = cora(&folder, &["--dataset", "karate", "--resume", name]);
    refused(&output, r"a\u{1b}[2J\nb.ckpt: ");
    std::fs::create_dir(folder.path().join(name)).unwrap();
    let output = cora(&folder, &["--dataset", "cora", "--data", name]);
    refused(&output, r"a\u{1b}[2J\nb.ckpt/planetoid");
}

#[test]
fn two_runs_do_not_save_to_one_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("run.ckpt");
    let karate = [
        "--dataset",
        "karate",
        "--patience",
        "0",
        "--save",
        "run.ckpt",
    ];
    let endless = [&karate[..], &["--epochs", "100000000"]].concat();
    let mut first = command("cora", &folder, &endless);
    let mut first = first
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !path.exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let short = [&karate[..], &["--epochs", "2", "--json"]].concat();
    refused(&cora(&folder, &short), "one that another run saves to");
    first.kill().unwrap();
    first.wait().unwrap();
    succeeded(&cora(&folder, &short));
    assert_eq!(
        store::load::<f32, TrainState<f32>>(&path).unwrap().epochs(),
        2
    );
}
