//! The index of the search: a script with one list, `[address, page, heading, text]` per section. A script
//! can be loaded where the book is opened as a file, and data cannot.

use crate::body::Body;
use crate::contents::Contents;
use crate::paths::{Kind, Root};
use std::collections::BTreeMap;

/// Chapters in their order, then the reading path, then all other files.
pub fn index(root: &Root, contents: &Contents, pages: &BTreeMap<String, Body>) -> String {
    let entries = contents.parts.iter().flat_map(|part| &part.entries);
    let order: Vec<&str> = entries
        .map(|entry| &*entry.path)
        .chain(contents.reading().map(|s| &*s.path))
        .collect();
    let rank = |path: &str| order.iter().position(|&p| p == path).unwrap_or(order.len());
    let mut sorted: Vec<_> = pages
        .iter()
        .filter(|(path, _)| root.kind(path) != Kind::Folder)
        .collect();
    sorted.sort_by_key(|(path, _)| (rank(path), root.kind(path) != Kind::Chapter, *path));
    let mut rows = Vec::new();
    for (path, body) in sorted {
        let place = root.place(path);
        for section in body
            .sections
            .iter()
            .filter(|s| !s.heading.is_empty() || !s.text.trim().is_empty())
        {
            let address = match &*section.id {
                "" => place.clone(),
                id => format!("{place}#{id}"),
            };
            let words: Vec<&str> = section.text.split_whitespace().collect();
            let row = [&address, &body.title, &section.heading, &words.join(" ")].map(|s| quote(s));
            rows.push(format!("[{}]", row.join(",")));
        }
    }
    format!("window.book = [\n{}\n];\n", rows.join(",\n"))
}

/// A string of JavaScript.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out + "\""
}
