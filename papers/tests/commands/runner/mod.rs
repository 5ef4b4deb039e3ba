//! The code that runs the tables of papers: shards, engines that start them, merging of files.

#[cfg(unix)]
mod engines;
mod environment;
mod merging;
mod numbers;
mod shards;
mod sharing;

use crate::{command, json, refused, succeeded};
use emmy::Result;
use papers::support::paper::{Cell, Progress};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::LazyLock;
use tempfile::TempDir;

/// A cell without data: its outcome is a function of its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Toy {
    size: u64,
    seed: u64,
    /// The outcome of a recorded toy can serve for one that is not recorded.
    recorded: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Measured {
    value: f64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)
    }
}

impl Cell for Toy {
    type Data = ();
    type Outcome = Measured;

    fn title(&self) -> String {
        format!("toy {} seed {}", self.size, self.seed)
    }

    fn cost(&self) -> u64 {
        self.size
    }

    fn is_answered_by(&self, other: &Self) -> bool {
        (self.size, self.seed) == (other.size, other.seed) && (other.recorded || !self.recorded)
    }

    fn load(&self, _: Option<&Path>) -> Result<()> {
        Ok(())
    }

    fn stopped(_: &Self::Outcome) -> Option<&str> {
        None
    }

    fn run(&self, (): &(), progress: &Progress) -> Result<Measured> {
        progress.step()?;
        Ok(Measured {
            value: (self.size as f64 + 0.1 * self.seed as f64).sqrt(),
        })
    }
}

fn toy(size: u64, seed: u64) -> Toy {
    Toy {
        size,
        seed,
        recorded: false,
    }
}

/// Six cells of `balance` that train very quickly: two widths of a plan, three seeds.
const PLAN: [&str; 15] = [
    "--dataset",
    "karate",
    "--layers",
    "2",
    "--layers",
    "3",
    "--init",
    "bal-o",
    "--epochs",
    "20",
    "--seeds",
    "3",
    "--jobs",
    "1",
    "--json",
];

fn balance(folder: &TempDir, more: &[&str]) -> Output {
    command("balance", folder, &[&PLAN[..], more].concat())
        .output()
        .unwrap()
}

fn results(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join("results").join(name)
}

/// The results in a file, sorted, without the fields that differ from run to run.
fn outcomes(path: &Path) -> Vec<String> {
    let mut lines = json(&std::fs::read_to_string(path).unwrap());
    for line in &mut lines {
        for key in ["seconds", "threads", "date", "machine"] {
            assert!(line.as_object_mut().unwrap().remove(key).is_some(), "{key}");
        }
    }
    let mut lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

/// The results of an unsharded run of the plan, and what it prints.
fn unsharded() -> (Vec<String>, String) {
    static RUN: LazyLock<(Vec<String>, String)> = LazyLock::new(|| {
        let folder = TempDir::new().unwrap();
        let (out, _) = succeeded(&balance(&folder, &[]));
        let all = outcomes(&results(&folder, "balance.jsonl"));
        assert_eq!(all.len(), 6);
        (all, out)
    });
    RUN.clone()
}

/// Checks that the shards of a folder are parts of the plan, and together the same as an unsharded run, bit
/// for bit.
#[track_caller]
fn assert_shards_are_whole(folder: &TempDir, count: usize) {
    let (all, printed) = unsharded();
    let mut found = Vec::new();
    for index in 1..=count {
        let shard = outcomes(&results(
            folder,
            &format!("balance-{index}-of-{count}.jsonl"),
        ));
        assert!(!shard.is_empty(), "shard {index} of {count}");
        found.extend(shard);
    }
    found.sort();
    assert_eq!(found, all);
    assert!(!results(folder, "balance.jsonl").exists());
    let (out, err) = succeeded(&balance(folder, &["--show"]));
    assert_eq!(out, printed);
    assert!(!err.contains("not there"), "{err}");
}
