//! Every layer and every family of operations has a listing in its documentation.

use super::{read, root};
use std::path::Path;

/// The Rust files under a folder, as paths from the root of the repository.
pub fn files(folder: &str) -> Vec<String> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            out.extend(files(&path));
        } else if Path::new(&path).extension().is_some_and(|end| end == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}

fn has_listing(file: &str) -> bool {
    let text = read(file);
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| line.starts_with("/// ```") || line.starts_with("//! ```"))
}

/// The documentation of the struct `name` in a file, if it declares it.
fn doc_of(name: &str, file: &str) -> Option<String> {
    let text = read(file);
    let starts = [format!("pub struct {name}<"), format!("pub struct {name} ")];
    let declares = |line: &&str| starts.iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = text.lines().take_while(|line| !declares(line)).collect();
    if lines.len() == text.lines().count() {
        return None;
    }
    let own = |line: &&&str| line.starts_with("///") || line.starts_with("#[");
    let doc: Vec<&str> = lines.iter().rev().take_while(own).copied().collect();
    Some(doc.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

/// The struct has the listing, and the listing a number that is expected; its `impl Layer` may be in
/// another file.
#[test]
fn every_layer_has_an_example() {
    let files = files("src/nn");
    let (mut layers, mut without) = (0, Vec::new());
    for file in &files {
        for line in read(file).lines() {
            let Some(name) = line.strip_prefix("impl<F: Real> Layer<F> for ") else {
                continue;
            };
            let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
            let doc = files.iter().find_map(|file| doc_of(&name, file));
            let doc = doc.unwrap_or_else(|| panic!("{name} is not declared in src/nn"));
            // Between the first fence and the second, between the third and the fourth.
            let mut blocks = doc.split("/// ```").skip(1).step_by(2);
            let holds = blocks.any(|code| code.starts_with('\n') && code.contains("assert"));
            without.extend((!holds).then_some(name));
            layers += 1;
        }
    }
    assert!(
        without.is_empty(),
        "without a listing that asserts: {without:?}"
    );
    assert!(layers > 25, "{layers}");
}

#[test]
fn every_family_of_operations_has_an_example() {
    let mut families = 0;
    for file in files("engine/src/ops") {
        let public = |line: &str| line.trim_start().starts_with("pub fn ");
        if !read(&file).lines().any(public) {
            continue;
        }
        assert!(
            has_listing(&file),
            "{file} has a public function and no example"
        );
        families += 1;
    }
    assert!(families > 20, "{families}");
}
