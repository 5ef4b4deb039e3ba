//! Writers of small data files for the tests of the readers, and the folder of the published files.
#![allow(dead_code, reason = "each test uses the writers it needs")]

pub mod npz;
pub mod pickle;

use emmy::Error;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable that makes missing data an error: `EMMY_REQUIRE_DATA=1`.
pub const REQUIRED: &str = "EMMY_REQUIRE_DATA";

/// The folder with the published files, if it is there.
///
/// # Panics
/// If it is not there, and [`REQUIRED`] is 1.
#[track_caller]
pub fn published() -> Option<PathBuf> {
    // Beside the repository, of which the package of this test may be a member.
    let places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(1);
    let mut places = places.take(2).map(|place| place.join("shared/data"));
    let beside = places.find(|place| place.is_dir());
    let given = std::env::var_os("EMMY_DATA").map(PathBuf::from);
    let folder = given.or(beside).unwrap_or_else(|| "../shared/data".into());
    if folder.join("planetoid").is_dir() && folder.join("heterophilic").is_dir() {
        return Some(folder);
    }
    let missing = format!("no data in {} (set EMMY_DATA)", folder.display());
    let required = std::env::var_os(REQUIRED).is_some_and(|value| value == "1");
    assert!(!required, "{missing}, and {REQUIRED} is 1");
    // Not through `print!`, whose output a passing test does not show.
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    None
}

/// Asserts that a file was refused at `byte` of `file`, for a reason that contains `expected`.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(
    result: emmy::Result<T>,
    file: &str,
    byte: impl Into<Option<u64>>,
    expected: &str,
) {
    let error = result.expect_err(expected);
    let Error::Format {
        file: found_file,
        byte: found_byte,
        ..
    } = &error
    else {
        panic!("not an error about a format: {error}");
    };
    assert!(found_file.ends_with(file), "{error}");
    if let Some(byte) = byte.into() {
        assert_eq!(*found_byte, byte, "{error}");
    }
    assert!(error.to_string().contains(expected), "{error}");
}

/// A Planetoid set in memory: part → bytes.
pub type Parts = BTreeMap<&'static str, Vec<u8>>;

/// Writes the parts of a set into a folder.
pub fn write_parts(folder: &Path, name: &str, parts: &Parts) {
    std::fs::create_dir_all(folder).unwrap();
    for (part, bytes) in parts {
        std::fs::write(folder.join(format!("ind.{name}.{part}")), bytes).unwrap();
    }
}

/// Nodes that are not tested on, all nodes, and features of the small set.
pub const M: usize = 506;
pub const N: usize = 517;
pub const D: usize = 9;
/// The numbers of the test nodes; 510 and 513 are missing.
pub const TEST: [usize; 9] = [512, 506, 516, 509, 507, 515, 508, 514, 511];

/// The features of node i: weights as PubMed has them, no word at all for every tenth node.
pub fn row(i: usize) -> Vec<(usize, f32)> {
    let words = (0..D).filter(|j| i % 10 != 3 && (i + j * j) % 4 == 1);
    words
        .map(|j| (j, 0.25 + (i * D + j) as f32 / 1000.0))
        .collect()
}

/// The class of node i.
pub fn class(i: usize) -> usize {
    i * 7 % 3
}

/// The lists of neighbours: a ring with chords, symmetric, with some neighbours listed twice and some self-loops.
pub fn neighbours() -> Vec<Vec<usize>> {
    (0..N)
        .map(|i| {
            let mut list = vec![(i + N - 1) % N, (i + 1) % N];
            if i % 2 == 0 && i + 1 < N {
                list.push(N - 1 - i);
            }
            if i % 50 == 7 {
                list.extend([i, i, (i + 1) % N]);
            }
            list
        })
        .collect()
}

/// A small complete set: 6 training nodes, 500 validation nodes, 9 test nodes, 2 nodes without
/// data.
pub fn small_set() -> Parts {
    let rows = |nodes: &[usize]| -> Vec<_> { nodes.iter().map(|&i| row(i)).collect() };
    let classes = |nodes: &[usize]| -> Vec<_> { nodes.iter().map(|&i| class(i)).collect() };
    let all: Vec<usize> = (0..M).collect();
    let index: String = TEST.iter().map(|i| format!("{i}\n")).collect();
    Parts::from([
        ("x", pickle::csr(D, &rows(&all[..6]))),
        ("allx", pickle::csr(D, &rows(&all))),
        ("tx", pickle::csr(D, &rows(&TEST))),
        ("y", pickle::one_hot(3, &classes(&all[..6]))),
        ("ally", pickle::one_hot(3, &classes(&all))),
        ("ty", pickle::one_hot(3, &classes(&TEST))),
        ("graph", pickle::graph(&neighbours())),
        ("test.index", index.into_bytes()),
    ])
}
