//! The examples as programs.

mod balance;
mod char_lm;
mod deep_attention;
mod diverging;
#[path = "../data/files/mod.rs"]
mod files;
#[cfg(unix)]
mod interrupts;
mod laws;
mod lipschitz;
mod memory;
mod options;
mod output;
mod oversmoothing;
mod papers;
mod places;
mod plots;
mod refusals;
mod resuming;
mod self_attention;
#[path = "../../examples/support/mod.rs"]
mod support;
mod transformers;

use emmy::data::text::{self, Text};
use emmy::data::{Dataset, Options};
use emmy::nn::{GraphNet, GraphNetConfig, Pass};
use emmy::sparse::Csr;
use emmy::train::TrainState;
use emmy::{Tape, store};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The text that programs learn if none is named.
fn alice() -> Text {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/texts/alice.txt");
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

/// A run of an example in its own folder, without data files.
fn command(name: &str, folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(program(name));
    isolate(&mut command, folder);
    command.args(args);
    command
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

/// README shows what quickstart prints.
#[test]
fn quickstart_finds_most_of_the_club() {
    let output = Command::new(program("quickstart")).output().unwrap();
    let (out, _) = succeeded(&output);
    assert!(out.ends_with("96 % of the others found\n"), "{out}");
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    assert!(readme.contains(&format!("```text\n{out}```")), "{out}");
}

#[cfg(unix)]
#[test]
fn quickstart_ends_quietly_if_nobody_reads_on() {
    let mut child = Command::new(program("quickstart"));
    let mut child = child.stdout(std::process::Stdio::piped());
    child = child.stderr(std::process::Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        text(&output.stderr)
    );
}
