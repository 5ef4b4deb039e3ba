//! Generic code that is marked `#[inline(never)]` is compiled in the library, for `f32` and for `f64`. The
//! reason is that `engine/src/instances.rs` or `src/instances.rs` uses it. A program then links to these
//! copies. What is not there works in the same way, but each program compiles it again, and nobody would
//! notice.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// All files of Rust below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// The names of a path in a symbol, each with its length before it: `4emmy7kernels4spmm`.
fn mangled<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let name = |name: &str| format!("{}{name}", name.len());
    names.into_iter().map(name).collect()
}

/// The folders of the library, with the crates that they are.
const CRATES: [(&str, &str); 5] = [
    ("../base/src", "emmy_base"),
    ("../certificates/src", "emmy_certificates"),
    ("../data/src", "emmy_data"),
    ("../engine/src", "emmy_engine"),
    ("../src", "emmy"),
];

/// All files of the library, each with its folder and crate.
fn files() -> Vec<(PathBuf, PathBuf, &'static str)> {
    let of = |(folder, name): (&str, &'static str)| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut found = Vec::new();
        sources(&root, &mut found);
        found
            .into_iter()
            .map(move |file| (root.clone(), file, name))
    };
    CRATES.into_iter().flat_map(of).collect()
}

/// The marked functions: their module, as in a symbol, and their name.
fn marked() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (root, file, library) in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let module = file.strip_prefix(&root).unwrap().with_extension("");
        let names = module.iter().map(|part| part.to_str().unwrap());
        let names = names.filter(|part| !["mod", "instances"].contains(part));
        let module = mangled([library].into_iter().chain(names));
        for part in text.split("#[inline(never)]\n").skip(1) {
            let (_, after) = part.split_once("fn ").unwrap();
            let end = after.find(['<', '(']).unwrap();
            found.push((module.clone(), after[..end].to_owned()));
        }
    }
    found
}

/// The symbols that the crates of the library define: for each, the newest archive beside this program.
fn symbols() -> BTreeSet<String> {
    CRATES
        .iter()
        .flat_map(|(_, name)| symbols_of(name))
        .collect()
}

/// The symbols that one crate defines.
fn symbols_of(library: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap();
    let beside = program.parent().unwrap().read_dir().unwrap();
    let libraries = beside.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(&format!("lib{library}-")) && name.ends_with(".rlib")
    });
    let newest = libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let archive = std::fs::read(newest.expect("the library")).unwrap();
    // The first member of an archive is the list of its symbols. Its head has 60 bytes and states its length.
    // Then come their number n, n addresses of 4 bytes each, and n names, each with a zero behind it.
    let (head, rest) = archive[8..].split_at(60);
    let length = std::str::from_utf8(&head[48..58]).unwrap().trim();
    let list = &rest[..length.parse::<usize>().unwrap()];
    let count = u32::from_be_bytes(*list.first_chunk().unwrap()) as usize;
    let names = list[4 + 4 * count..].split(|&byte| byte == 0).take(count);
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .filter(|name| name.starts_with("_ZN"))
        .collect()
}

#[test]
fn what_is_marked_is_compiled_in_the_library_for_both_types() {
    let (marked, symbols) = (marked(), symbols());
    assert!(marked.len() > 50, "{} functions are marked", marked.len());
    let missing = marked.into_iter().filter(|(module, name)| {
        // The hash after the name differs from type to type.
        let name = mangled([name.as_str()]) + "17h";
        let copies = symbols.iter().filter(|symbol| {
            let path = symbol.split_once(module.as_str());
            path.is_some_and(|(_, rest)| rest.contains(&name) && !rest.contains("closure"))
        });
        let instances = mangled(["instances"]) + "17h";
        copies.count() < if name == instances { 1 } else { 2 }
    });
    let missing: Vec<_> = missing
        .map(|(module, name)| format!("{module}: {name}"))
        .collect();
    assert!(
        missing.is_empty(),
        "engine/src/instances.rs and src/instances.rs do not use all of them: {missing:#?}"
    );
}

/// The library is compiled without its tests (`[lib] test = false`): one inside it would never run.
#[test]
fn no_test_stands_in_the_library() {
    let files = files();
    assert!(files.len() > 100, "{} files", files.len());
    for (_, file, _) in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // The documentation of `testing` shows tests of its readers.
        let code = || {
            text.lines()
                .filter(|line| !line.trim_start().starts_with("//"))
        };
        let found = ["cfg(test)", "#[test]"]
            .into_iter()
            .find(|mark| code().any(|line| line.contains(mark)));
        assert_eq!(found, None, "{}", file.display());
    }
}
