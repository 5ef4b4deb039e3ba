//! What the pages hold, read from their HTML.

use super::*;
use std::collections::BTreeSet;

/// The values of an attribute.
fn values<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    let parts = html.split(&*start).skip(1);
    parts.map(|rest| rest.split('"').next().unwrap()).collect()
}

/// A relative address, as a browser understands it.
fn resolve(page: &str, address: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in address.split('/') {
        match part {
            ".." => assert!(parts.pop().is_some(), "{page}: {address}"),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Every link of the site leads to a file of the site, and its anchor is there, once.
fn check_links(files: &BTreeMap<String, String>) -> usize {
    let pages = files.iter().filter(|(name, _)| name.ends_with(".html"));
    let anchors: BTreeMap<&str, Vec<&str>> = pages
        .clone()
        .map(|(name, html)| (&**name, values(html, "id")))
        .collect();
    for (name, ids) in &anchors {
        let different: BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{name}: an anchor twice");
    }
    let anchors: BTreeMap<_, BTreeSet<_>> = anchors
        .into_iter()
        .map(|(name, ids)| (name, ids.into_iter().collect()))
        .collect();
    let mut count = 0;
    for (name, html) in pages {
        let links = values(html, "href").into_iter().chain(values(html, "src"));
        for link in links.filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
            let (file, anchor) = link
                .split_once('#')
                .map_or((link, None), |(f, a)| (f, Some(a)));
            let file = if file.is_empty() {
                name.clone()
            } else {
                resolve(name, file)
            };
            assert!(files.contains_key(&file), "{name}: {link}");
            if let Some(anchor) = anchor {
                assert!(anchors[&*file].contains(anchor), "{name}: {link}");
            }
            count += 1;
        }
    }
    count
}

#[test]
fn every_link_and_anchor_resolves() {
    assert!(check_links(&files(SITE.path())) > 1000);
}

#[test]
fn every_page_says_what_it_is() {
    for (name, html) in files(SITE.path())
        .iter()
        .filter(|(name, _)| name.ends_with(".html"))
    {
        assert!(html.contains("<html lang=\"en\">"), "{name}");
        assert!(html.contains("<meta name=\"viewport\""), "{name}");
        let [title] = html.split("<title>").skip(1).collect::<Vec<_>>()[..] else {
            panic!("{name}")
        };
        assert!(!title.starts_with("</title>"), "{name}");
        assert!(
            !html.contains("<meta name=\"description\" content=\"\">"),
            "{name}"
        );
        assert_eq!(
            html.matches("<h1").count(),
            1,
            "{name}: headings of the page"
        );
    }
}

/// The files of the reading path, from its tables.
fn reading() -> Vec<String> {
    let chapter = std::fs::read_to_string(root().join("docs/reading.md")).unwrap();
    let rows = chapter.lines().filter_map(|line| line.strip_prefix("| ["));
    let links = rows.filter_map(|row| row.split("](../").nth(1)?.split(')').next());
    links
        .filter(|path| path.ends_with(".rs"))
        .map(String::from)
        .collect()
}

/// A comment without the addresses of its links.
fn without_addresses(comment: &str) -> String {
    let mut parts = comment.split("](");
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text += part.split_once(')').map_or("", |(_, rest)| rest);
    }
    text
}

#[test]
fn the_reading_path_is_there_line_by_line() {
    let reading = reading();
    assert!(reading.len() > 4);
    for path in reading {
        let source = std::fs::read_to_string(root().join(&path)).unwrap();
        let page = std::fs::read_to_string(SITE.path().join(format!("{path}.html"))).unwrap();
        assert!(page.contains("<body class=\"beside\">"), "{path}");
        // The words of two cells are two.
        let text = plain(&page.replace('<', " <"));
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
        for (n, line) in source
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let comment = line
                .trim()
                .strip_prefix("///")
                .or(line.trim().strip_prefix("//!"));
            let start = format!(" id=\"L{}\">", n + 1);
            let (_, rest) = page
                .split_once(&start)
                .unwrap_or_else(|| panic!("{path}: no line {}", n + 1));
            match comment {
                // Lines of examples that rustdoc hides, what stands beside a fence, and addresses are not
                // printed.
                Some(comment)
                    if ["# ", "```"]
                        .iter()
                        .any(|mark| comment.trim_start().starts_with(mark))
                        || comment.contains("]: ") => {}
                Some(comment) => {
                    for word in without_addresses(comment).split(|c: char| !c.is_alphanumeric()) {
                        assert!(
                            word.len() < 4 || words.contains(word),
                            "{path}:{}: {word}",
                            n + 1
                        );
                    }
                }
                None => {
                    let (shown, _) = rest.split_once("\n</span>").unwrap();
                    assert_eq!(plain(shown), line, "{path}:{}", n + 1);
                }
            }
        }
    }
}

#[test]
fn chapters_lead_to_the_prose_of_the_reading_path() {
    let first = reading().remove(0);
    let chapter = std::fs::read_to_string(SITE.path().join("docs/reading.html")).unwrap();
    assert!(chapter.contains(&format!("href=\"../{first}.html\"")));
}

#[test]
fn the_index_finds_softmax() {
    let files = files(SITE.path());
    let rows: Vec<&str> = files["index.js"]
        .lines()
        .filter(|line| line.starts_with('['))
        .collect();
    assert!(rows.len() > 100);
    let found: Vec<_> = rows
        .iter()
        .filter(|row| row.to_lowercase().contains("softmax"))
        .collect();
    assert!(found.len() > 5, "{}", found.len());
    for row in rows {
        let address = row.split('"').nth(1).unwrap();
        let (file, anchor) = address
            .split_once('#')
            .map_or((address, None), |(f, a)| (f, Some(a)));
        let page = files.get(file).unwrap_or_else(|| panic!("{address}"));
        let id = anchor.map(|anchor| format!(" id=\"{anchor}\""));
        assert!(id.is_none_or(|id| page.contains(&id)), "{address}");
    }
}

#[test]
fn the_same_book_twice_is_the_same() {
    let second = TempDir::new().unwrap();
    site::build(&root(), second.path()).unwrap();
    // Again over itself.
    site::build(&root(), second.path()).unwrap();
    assert!(files(SITE.path()) == files(second.path()));
}

/// The contrast of two colours `#rrggbb`, from 1 to 21 (WCAG 2, "contrast ratio").
fn contrast(a: &str, b: &str) -> f64 {
    let light = |colour: &str| {
        let part = |i: usize| {
            let c = f64::from(u8::from_str_radix(&colour[i..i + 2], 16).unwrap()) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.05 + 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let (a, b) = (light(a), light(b));
    a.max(b) / a.min(b)
}

#[test]
fn text_can_be_read_in_both_schemes() {
    let style = std::fs::read_to_string(SITE.path().join("book.css")).unwrap();
    let schemes: Vec<BTreeMap<&str, &str>> = style
        .split(" color-scheme: ")
        .skip(1)
        .map(|scheme| {
            let (scheme, _) = scheme.split_once('}').unwrap();
            let pairs = scheme
                .split(';')
                .filter_map(|line| line.trim().strip_prefix("--")?.split_once(": "));
            pairs.filter(|(_, value)| value.starts_with('#')).collect()
        })
        .collect();
    let [light, by_system, by_switch] = &schemes[..] else {
        panic!("{} schemes", schemes.len())
    };
    assert_eq!(by_system, by_switch);
    for colours in [light, by_system] {
        for ground in ["ground", "raised"] {
            for ink in [
                "ink", "soft", "link", "comment", "keyword", "string", "number", "type", "call",
            ] {
                let contrast = contrast(colours[ink], colours[ground]);
                assert!(contrast > 4.5, "{ink} on {ground}: {contrast}");
            }
        }
        assert!(contrast(colours["ink"], colours["mark"]) > 4.5);
    }
}
