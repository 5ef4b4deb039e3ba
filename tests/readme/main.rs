//! The documents agree with the contents of the repository.

mod chapters;
mod examples;
mod imports;
mod links;
mod path;

use std::path::{Path, PathBuf};

/// The folders of the library, each the source of a crate.
const SOURCES: [&str; 5] = [
    "base/src",
    "certificates/src",
    "data/src",
    "engine/src",
    "src",
];

/// The folder of the repository.
fn root() -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = above.find(|folder| folder.join("docs/README.md").exists());
    found.expect("the folder of the repository").to_owned()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn the_first_listing_is_the_quickstart() {
    let readme = read("README.md");
    let (_, after) = readme.split_once("```rust\n").expect("a listing");
    let (listing, _) = after.split_once("```").expect("its end");
    let program = read("examples/quickstart.rs");
    assert_eq!(listing, program);
    assert!(program.lines().count() < 60);
}

/// The second listing and the output below it; `tests/examples.rs` runs the program.
#[test]
fn the_second_listing_is_the_example_ask() {
    let readme = read("README.md");
    let (_, after) = readme.split_once("## Ask your model").expect("the section");
    let (_, after) = after.split_once("```rust\n").expect("a listing");
    let (listing, _) = after.split_once("```").expect("its end");
    let program = read("examples/ask.rs");
    let (_, code) = program.split_once("\n\n").expect("its documentation");
    assert_eq!(listing, code);
}

/// The lines of all Rust files under a folder.
fn lines_of(folder: &str) -> usize {
    examples::files(folder)
        .iter()
        .map(|file| read(file).lines().count())
        .sum()
}

/// Limits of CONTRIBUTING.md, so that growth is noticed.
#[test]
fn the_code_is_within_its_limits() {
    let crates = SOURCES.into_iter().chain(["strategies/src"]);
    let library: usize = crates.map(lines_of).sum();
    for (what, lines, limit) in [
        ("src", lines_of("src"), 40_000),
        ("the library and its strategies", library, 60_000),
        ("examples", lines_of("examples"), 2_500),
    ] {
        assert!(lines > limit / 4 && lines <= limit, "{what}: {lines} lines");
    }
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 170, "{lines}");
}

#[test]
fn every_room_of_the_house_is_on_its_map() {
    let map = read("CONTRIBUTING.md");
    for folder in SOURCES {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                name == "lib.rs" || map.contains(&format!("({folder}/{name}")),
                "{folder}/{name} is not on the map"
            );
        }
    }
}

/// The table of errata in the evidence on conservation names tests of `tests/conservation` as `file::test`.
#[test]
fn every_test_that_the_errata_name_is_there() {
    let chapter = read("docs/evidence/conservation.md");
    let (_, errata) = chapter
        .split_once("## Errata of the paper")
        .expect("the table");
    let (errata, _) = errata.split_once("\n## ").expect("its end");
    let mut tests = 0;
    for name in errata.split('`').skip(1).step_by(2) {
        let Some((file, test)) = name.split_once("::") else {
            continue;
        };
        let text = read(&format!("tests/conservation/{file}.rs"));
        assert!(text.contains(&format!("#[test]\nfn {test}()")), "{name}");
        tests += 1;
    }
    assert!(tests > 8, "{tests}");
}
