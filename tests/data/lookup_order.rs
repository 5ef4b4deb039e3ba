//! The places where data are looked for if no folder is given. Environment variables belong to a
//! process, so each case runs in its own process.
#![cfg(unix)]

use crate::files::npz;
use emmy::data::{self, Options};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Set in the processes that load.
const CHILD: &str = "EMMY_TEST_LOADS";

/// The work of a process that the test below starts: it loads a data set and prints what it found.
#[test]
fn load_and_tell() {
    let Some(folder) = std::env::var_os(CHILD) else {
        return;
    };
    let options = Options {
        folder: (!folder.is_empty()).then(|| folder.into()),
        ..Options::default()
    };
    match data::load("texas", &options) {
        Ok(set) => println!("found labels {:?}", set.labels),
        Err(e) => println!("{e}"),
    }
}

/// A home whose cache may hold data, and a folder for the variable.
struct Places {
    home: TempDir,
    named: TempDir,
}

impl Places {
    fn cache(&self) -> PathBuf {
        let inside = if cfg!(target_os = "macos") {
            "Library/Caches"
        } else {
            ".cache"
        };
        self.home.path().join(inside).join("emmy")
    }

    /// The output of a process with this variable and this folder.
    fn load(&self, variable: Option<&Path>, folder: Option<&Path>) -> String {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "lookup_order::load_and_tell", "--nocapture"]);
        child.env(CHILD, folder.unwrap_or(Path::new("")));
        child.env("HOME", self.home.path());
        child.env_remove("XDG_CACHE_HOME").env_remove("EMMY_DATA");
        if let Some(variable) = variable {
            child.env("EMMY_DATA", variable);
        }
        let output = child.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A set that the labels of its six nodes distinguish from others.
fn write(folder: &Path, labels: [i64; 6]) {
    std::fs::create_dir_all(folder).unwrap();
    let labels = npz::npy("<i8", false, "(6,)", &npz::i8(&labels));
    std::fs::write(
        folder.join("texas.npz"),
        npz::with("node_labels.npy", labels),
    )
    .unwrap();
}

#[test]
fn the_variable_comes_before_the_cache_and_a_folder_given_is_the_only_place() {
    let places = Places {
        home: TempDir::new().unwrap(),
        named: TempDir::new().unwrap(),
    };
    let named = places.named.path();

    // The data are in no place: the error names every place and the address.
    let message = places.load(Some(named), None);
    for part in [
        "the data set Texas (the file texas.npz) was not found",
        named.join("heterophilic").to_str().unwrap(),
        places.cache().join("heterophilic").to_str().unwrap(),
        data::heterophilic::ADDRESS,
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }

    write(&places.cache(), [0, 0, 0, 0, 0, 1]);
    assert!(places.load(None, None).contains("[0, 0, 0, 0, 0, 1]"));
    // The variable may be empty, or name a folder without the set.
    let empty = places.load(Some(Path::new("")), None);
    assert!(empty.contains("[0, 0, 0, 0, 0, 1]"), "{empty}");
    assert!(
        places
            .load(Some(named), None)
            .contains("[0, 0, 0, 0, 0, 1]")
    );

    write(&named.join("heterophilic"), [1, 0, 0, 0, 0, 0]);
    assert!(
        places
            .load(Some(named), None)
            .contains("[1, 0, 0, 0, 0, 0]")
    );

    let given = TempDir::new().unwrap();
    let message = places.load(Some(named), Some(given.path()));
    assert!(message.contains("was not found"), "{message}");
    assert!(!message.contains(named.to_str().unwrap()), "{message}");
    write(given.path(), [0, 1, 0, 0, 0, 0]);
    let found = places.load(Some(named), Some(given.path()));
    assert!(found.contains("[0, 1, 0, 0, 0, 0]"), "{found}");
}
