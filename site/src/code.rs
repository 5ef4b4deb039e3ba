//! Source as pages: prose beside code, a listing, a folder.

use crate::body::{Body, Link, Section};
use crate::items::Items;
use crate::markdown;
use crate::page::escape;
use crate::paths::{Kind, Root, below};
use crate::problem::Problems;
use crate::rust::{self, Line};
use std::ops::Range;

/// A documentation comment and the code below it, as ranges of lines.
struct Row {
    prose: Range<usize>,
    code: Range<usize>,
}

/// Cuts a file before every documentation comment.
fn rows(lines: &[Line]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let count = |from: usize, doc: bool| {
            lines[from..]
                .iter()
                .take_while(|l| l.doc.is_some() == doc)
                .count()
        };
        let middle = at + count(at, true);
        let end = middle + count(middle, false);
        rows.push(Row {
            prose: at..middle,
            code: middle..end,
        });
        at = end;
    }
    rows
}

/// A file of the reading path: documentation comments left, the code that they document right.
pub fn beside(root: &Root, items: &Items, path: &str, text: &str) -> Body {
    let mut body = Body {
        title: path.into(),
        ..Body::default()
    };
    let lines = rust::lines(text);
    for row in rows(&lines) {
        let docs: Vec<&str> = lines[row.prose.clone()]
            .iter()
            .filter_map(|line| line.doc)
            .collect();
        let mut prose = markdown::comment(root, items, path, row.prose.start + 1, &docs.join("\n"));
        if body.description.is_empty() {
            body.description = std::mem::take(&mut prose.description);
        }
        // Each line of the comment is an anchor too.
        let marks = row
            .prose
            .clone()
            .map(|n| mark(&mut body, n))
            .collect::<String>();
        let code = numbered(&mut body, &lines, row.code.clone());
        // A field or a variant stands close to those around it.
        let class = if defines(&lines[row.code.clone()]) {
            "row"
        } else {
            "row close"
        };
        body.html += &format!(
            "<div class=\"{class}\">\n<div class=\"prose\">{marks}{}</div>\n<div class=\"side\">{code}</div>\n</div>\n",
            prose.html
        );
        let words: String = prose
            .sections
            .into_iter()
            .map(|section| section.text)
            .collect();
        if !docs.is_empty() {
            let id = format!("L{}", row.prose.start + 1);
            let heading = item(&lines[row.code]).unwrap_or_default();
            body.sections.push(Section {
                id,
                heading,
                text: words,
            });
        }
        body.links.append(&mut prose.links);
        body.problems.append(&mut prose.problems);
    }
    body
}

/// The first line that is neither blank, nor an attribute, nor a comment.
fn first<'a>(lines: &[Line<'a>]) -> Option<&'a str> {
    lines
        .iter()
        .map(|line| line.text.trim())
        .find(|text| !text.is_empty() && !text.starts_with(['#', '/']))
}

/// Whether a function, type or block begins here.
fn defines(lines: &[Line]) -> bool {
    let words = [
        "use",
        "mod",
        "fn",
        "struct",
        "enum",
        "trait",
        "impl",
        "type",
        "const",
        "static",
        "macro_rules!",
    ];
    first(lines).is_some_and(|text| {
        text.split([' ', '<'])
            .take(4)
            .any(|word| words.contains(&word))
    })
}

/// The name of the item that these lines begin with, as `fn attend`.
fn item(lines: &[Line]) -> Option<String> {
    let first = first(lines)?;
    let end = first
        .find(['{', '(', '<', '=', ';', ':'])
        .unwrap_or(first.len());
    let name = first[..end].trim();
    let name = name.strip_prefix("pub").map_or(name, str::trim_start);
    (!name.starts_with("use ") && !name.is_empty()).then(|| name.into())
}

fn mark(body: &mut Body, n: usize) -> String {
    let id = format!("L{}", n + 1);
    let html = format!("<span id=\"{id}\"></span>");
    body.anchors.insert(id);
    html
}

/// Code with numbered lines; of blank lines at either end, the anchors are left.
fn numbered(body: &mut Body, lines: &[Line], range: Range<usize>) -> String {
    let blank = |n: &usize| lines[*n].text.trim().is_empty();
    let first = range.start + range.clone().take_while(blank).count();
    let last = first.max(range.end - range.clone().rev().take_while(blank).count());
    let mut html: String = (range.start..first).map(|n| mark(body, n)).collect();
    if first < last {
        html += &format!("<pre class=\"numbered\" style=\"--first:{first}\"><code>");
        for (n, line) in lines.iter().enumerate().take(last).skip(first) {
            let id = format!("L{}", n + 1);
            html += &format!("<span class=\"l\" id=\"{id}\">{}\n</span>", line.html);
            body.anchors.insert(id);
        }
        html += "</code></pre>";
    }
    html.extend((last..range.end).map(|n| mark(body, n)));
    html
}

/// Any other file of text.
pub fn listing(path: &str, text: &str) -> Body {
    let mut body = Body {
        title: path.into(),
        ..Body::default()
    };
    let lines: Vec<Line> = match path.ends_with(".rs") {
        true => rust::lines(text),
        false => text.lines().map(rust::plain).collect(),
    };
    let docs = lines
        .iter()
        .filter_map(|line| line.doc)
        .take_while(|text| !text.is_empty());
    body.description = docs.collect::<Vec<_>>().join(" ");
    body.html = numbered(&mut body, &lines, 0..lines.len());
    body.sections.push(Section {
        heading: path.into(),
        text: body.description.clone(),
        ..Section::default()
    });
    body
}

/// A folder: what is in it.
pub fn folder(root: &Root, path: &str) -> Result<Body, Problems> {
    let mut body = Body {
        title: format!("{path}/"),
        ..Body::default()
    };
    body.html = "<ul class=\"files\">\n".into();
    let [folders, files] = root.entries(path)?;
    for (names, end) in [(folders, "/"), (files, "")] {
        for name in names {
            let entry = below(path, &name);
            let name = escape(&name) + end;
            body.html += &match root.kind(&entry) {
                // Data; what a chapter links to is copied.
                Kind::Copy => format!("<li>{name}</li>\n"),
                _ => {
                    let entry = root.opened(entry);
                    let href = root.href(path, &entry);
                    body.links.push(Link {
                        line: 0,
                        path: entry,
                        anchor: None,
                    });
                    format!("<li><a href=\"{href}\">{name}</a></li>\n")
                }
            };
        }
    }
    body.html += "</ul>\n";
    Ok(body)
}
