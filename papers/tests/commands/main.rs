//! The subcommands of `papers` as programs, and the layers and data that only they have.

mod audit;
mod balance;
#[path = "../../../tests/cases/mod.rs"]
mod cases;
mod certified;
mod char_lm;
mod committed;
mod deep_attention;
mod diverging;
mod encoder;
#[path = "../../../tests/data/files/mod.rs"]
mod files;
#[cfg(unix)]
mod interrupts;
mod invertible;
mod laws;
mod lipschitz;
mod memory;
mod options;
mod output;
mod oversmoothing;
mod places;
mod plots;
mod refusals;
mod resuming;
mod runner;
mod self_attention;
mod strokes;
mod transformers;

use emmy::data::text::{self, Text};
use emmy::data::{Dataset, Options};
use emmy::nn::{GraphNet, GraphNetConfig, Pass};
use emmy::sparse::Csr;
use emmy::train::TrainState;
use emmy::{Tape, Tensor, init, store};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The text that programs learn if none is named.
fn alice() -> Text {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/texts/alice.txt");
    text::from_file(&path).unwrap()
}

/// Losses that documents print depend on each of its characters.
#[test]
fn the_text_of_the_examples_is_what_it_was() {
    let text = alice();
    let whole = text.decode(&[&text.train[..], &text.validation].concat());
    assert_eq!((whole.len(), text.symbol_count()), (148_331, 70));
    assert_eq!(crc32fast::hash(whole.as_bytes()), 0x9c18_5309);
}

/// The program as cargo has built it for this test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_papers");

/// A run of a subcommand in its own folder, without data files.
fn command(name: &str, folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    isolate(&mut command, folder);
    command.arg(name).args(args);
    command
}

/// n tokens of d features, standard normal.
fn tokens(n: usize, d: usize, seed: u64) -> Tensor<f64> {
    init::normal(&[n, d], 1.0, &mut init::rng(seed))
}

/// Lets a command run in an isolated folder: without data files of the user, and without the environment
/// variables of an engine that may have started these tests.
fn isolate(command: &mut Command, folder: &TempDir) {
    command
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.path())
        .env("HOME", folder.path());
    let of_engines = ["EMMY_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "PARALLEL_"];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if of_engines.iter().any(|start| name.starts_with(start)) {
            command.env_remove(&*name);
        }
    }
}

fn cora(folder: &TempDir, args: &[&str]) -> Output {
    command("cora", folder, args).output().unwrap()
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

/// The lines without the parts that differ from run to run.
fn untimed(out: &str) -> Vec<serde_json::Value> {
    let mut lines = json(out);
    for line in &mut lines {
        line.as_object_mut().unwrap().remove("ms_per_epoch");
    }
    lines
}
