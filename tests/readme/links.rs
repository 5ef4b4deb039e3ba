//! Links between documents: the file is there, and so is the heading.

use super::read;
use std::path::{Path, PathBuf};

/// The documents of the repository.
fn documents() -> Vec<PathBuf> {
    let root = super::root();
    let mut all: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
        .map(PathBuf::from)
        .into();
    for folder in [
        "docs",
        "docs/evidence",
        "papers",
        "papers/docs",
        "benches",
        "benches/peers",
    ] {
        let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
            continue;
        };
        let names = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()));
        all.extend(names.filter(|name| name.extension().is_some_and(|end| end == "md")));
    }
    all.sort();
    all
}

/// The text outside of listings.
fn prose(text: &str) -> String {
    let mut listing = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        listing ^= fence;
        !listing && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The targets of `[..](target)` and of `[..]: target`.
fn targets(prose: &str) -> Vec<String> {
    let inline = inline_targets(prose);
    let defined = prose.lines().filter(|line| line.starts_with('['));
    let defined = defined
        .filter_map(|line| line.split_once("]: "))
        .map(|(_, target)| target);
    let all = inline
        .chain(defined)
        .map(|target| target.split(' ').next().unwrap().to_owned());
    all.collect()
}

/// The targets of `[..](target)`.
fn inline_targets(prose: &str) -> impl Iterator<Item = &str> {
    let inline = prose.split("](").skip(1);
    inline.map(|rest| rest.split(')').next().unwrap())
}

/// The anchor of a heading, as web pages make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

#[test]
fn every_link_leads_somewhere() {
    let root = super::root();
    let (mut links, mut broken) = (0, Vec::new());
    for document in documents() {
        let text = read(document.to_str().unwrap());
        for target in targets(&prose(&text)) {
            if target.contains("://") || target.starts_with('<') {
                continue;
            }
            links += 1;
            let (file, place) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => root.join(&document),
                _ => root.join(document.parent().unwrap()).join(file),
            };
            let mut there = path.exists();
            if there && !place.is_empty() && file.ends_with(".md") | file.is_empty() {
                let text = prose(&std::fs::read_to_string(&path).unwrap());
                let headings = text.lines().filter(|line| line.starts_with('#'));
                there = headings
                    .map(|line| anchor(line.trim_start_matches('#')))
                    .any(|a| a == place);
            }
            if !there {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "links that lead nowhere:\n{}",
        broken.join("\n")
    );
    assert!(links > 100, "{links}");
}

/// A registry knows no address of the repository: a relative link would lead nowhere there.
#[test]
fn links_of_the_package_are_whole_addresses() {
    let page = read("src/package.md");
    let links = targets(&prose(&page));
    assert!(links.len() > 5, "{links:?}");
    for link in links {
        let chapter = link.strip_prefix("https://docs.rs/emmy/latest/emmy/book/");
        let name = chapter
            .unwrap_or_else(|| panic!("{link}"))
            .trim_end_matches('/');
        read(&format!("docs/{name}.md"));
    }
}

/// Links of a chapter are labels that `src/book.rs` defines anew, so that they lead to pages of rustdoc.
#[test]
fn links_of_chapters_have_labels_for_rustdoc() {
    let book = read("src/book.rs");
    let (_, list) = book.split_once("\nchapters! {").expect("the chapters");
    let (list, _) = list.split_once("\n}").expect("their end");
    let chapters = list
        .lines()
        .filter_map(|line| line.rsplit_once("\" "))
        .map(|(_, name)| name);
    let mut labels = 0;
    for chapter in chapters {
        let text = prose(&read(&format!("docs/{chapter}.md")));
        for target in inline_targets(&text) {
            let inside =
                target.starts_with('#') || target.contains("://") || target.ends_with(".svg");
            assert!(
                inside,
                "docs/{chapter}.md: a link to {target} without a label"
            );
        }
        let defined = text.lines().filter(|line| line.starts_with('['));
        for (label, _) in defined.filter_map(|line| line.split_once("]: ")) {
            assert!(
                book.contains(&format!("\n{label}]: crate::book")),
                "src/book.rs: {label}]"
            );
            labels += 1;
        }
    }
    assert!(labels > 10, "{labels}");
}
