//! The frame around what a page says: head, bar, contents, the ways on.

use crate::body::Body;
use crate::contents::{CONTENTS, Contents, Evening, LANDING, READING};
use crate::paths::{Kind, Root, relative};

const FRAME: &str = include_str!("../assets/frame.html");

/// Longest description of a page.
const DESCRIPTION: usize = 180;

/// Text in HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The page of a file.
pub fn frame(root: &Root, contents: &Contents, path: &str, body: &Body) -> String {
    let nav = Nav {
        root,
        contents,
        path,
        body,
    };
    let step = contents.step(path);
    let title = match path {
        LANDING => "emmy: deep learning in pure Rust, to read".to_owned(),
        _ => format!("{} · emmy", body.title),
    };
    let description = match body.description.is_empty() {
        true => format!("{} in the book of emmy", body.title),
        false => shortened(&body.description),
    };
    let (class, fold) = match (root.kind(path), step) {
        (_, Some(_)) => ("beside", nav.evenings()),
        (Kind::Chapter, _) => ("chapter", nav.chapters()),
        _ => ("listing", nav.chapters()),
    };
    // The contents stand beside a chapter where there is room; code needs it.
    let column = if class == "chapter" {
        fold.clone()
    } else {
        String::new()
    };
    let top = relative(&root.place(path), "index.html");
    let top = top.strip_suffix("index.html").expect("the landing page");
    let fields = [
        ("title", escape(&title)),
        ("description", escape(&description)),
        ("class", class.to_owned()),
        ("top", top.to_owned()),
        ("start", nav.href(LANDING)),
        ("contents", nav.href(CONTENTS)),
        ("reading", nav.href(READING)),
        ("column", column),
        (
            "folded",
            if class == "beside" {
                "The reading path"
            } else {
                "All chapters"
            }
            .to_owned(),
        ),
        ("fold", fold),
        ("head", nav.head(step)),
        ("body", body.html.clone()),
        ("foot", nav.foot()),
    ];
    fill(FRAME, &fields)
}

/// The first sentences of a text.
fn shortened(text: &str) -> String {
    if text.chars().count() <= DESCRIPTION {
        return text.into();
    }
    let start: String = text.chars().take(DESCRIPTION).collect();
    let end = start.rfind(' ').unwrap_or(start.len());
    format!("{} …", &start[..end])
}

/// Replaces every `{{name}}` of a template once; what is put in is not read again.
fn fill(template: &str, fields: &[(&str, String)]) -> String {
    let mut parts = template.split("{{");
    let mut html = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").expect("the end of a field");
        let (_, value) = fields
            .iter()
            .find(|(field, _)| *field == name)
            .expect("a known field");
        html += value;
        html += rest;
    }
    html
}

/// The links of a page.
struct Nav<'a> {
    root: &'a Root,
    contents: &'a Contents,
    path: &'a str,
    body: &'a Body,
}

impl Nav<'_> {
    fn href(&self, to: &str) -> String {
        self.root.href(self.path, to)
    }

    fn link(&self, to: &str, title: &str) -> String {
        format!("<a href=\"{}\">{}</a>", self.href(to), escape(title))
    }

    /// An entry of the contents. The page itself is marked, and its headings are below.
    fn entry(&self, to: &str, number: Option<u64>, title: &str) -> String {
        let here = to == self.path;
        let mark = if here { " aria-current=\"page\"" } else { "" };
        let number = number.map_or(String::new(), |n| format!("<span class=\"no\">{n}</span>"));
        let (href, title) = (self.href(to), escape(title));
        let mut html = format!("<li><a href=\"{href}\"{mark}>{number}{title}</a>");
        let headings: Vec<_> = self.body.headings.iter().filter(|h| h.level == 2).collect();
        if here && !headings.is_empty() {
            html += "<ul>";
            for heading in headings {
                html += &format!(
                    "<li><a href=\"#{}\">{}</a></li>",
                    heading.id,
                    escape(&heading.text)
                );
            }
            html += "</ul>";
        }
        html + "</li>\n"
    }

    fn list(&self, title: &str, entries: impl Iterator<Item = String>) -> String {
        let entries: String = entries.collect();
        // Those without a number stand in line with the others.
        let class = if entries.contains("class=\"no\"") {
            " class=\"counted\""
        } else {
            ""
        };
        format!(
            "<p class=\"part\">{}</p>\n<ul{class}>\n{entries}</ul>\n",
            escape(title)
        )
    }

    /// The chapters.
    fn chapters(&self) -> String {
        let ends = [(LANDING, "emmy"), (CONTENTS, "Contents")];
        let mut html = self.list(
            "The book",
            ends.into_iter()
                .map(|(to, title)| self.entry(to, None, title)),
        );
        for part in &self.contents.parts {
            let entries = part
                .entries
                .iter()
                .map(|e| self.entry(&e.path, e.number, &e.title));
            html += &self.list(&part.title, entries);
        }
        html
    }

    /// The files of the reading path.
    fn evenings(&self) -> String {
        let evenings = self.contents.evenings.iter();
        let lists = evenings.map(|evening| {
            let steps = evening.steps.iter().map(|step| {
                let name = step.path.strip_prefix("src/").unwrap_or(&step.path);
                self.entry(&step.path, None, name)
            });
            self.list(&evening.title, steps)
        });
        lists.collect()
    }

    /// What stands above the text: where in the book it is; for source, its path and what to read there.
    fn head(&self, step: Option<(&Evening, usize)>) -> String {
        if self.root.kind(self.path) == Kind::Chapter {
            return match self.contents.entry(self.path) {
                Some((part, entry)) => {
                    let number = entry.number.map_or(String::new(), |n| format!(" · {n}"));
                    format!("<p class=\"eyebrow\">{}{number}</p>\n", escape(&part.title))
                }
                None => String::new(),
            };
        }
        let folders = self.root.folders(self.path).into_iter();
        let folders = folders
            .map(|(name, path)| self.link(&path, &name) + "/<wbr>")
            .collect::<String>();
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let (eyebrow, about) = match step {
            Some((evening, i)) => {
                let (reading, n) = (self.link(READING, &evening.title), evening.steps.len());
                (
                    format!("{reading} · {} of {n}", i + 1),
                    escape(&evening.steps[i].about),
                )
            }
            None => ("The repository".into(), String::new()),
        };
        let lines = match self.body.anchors.len() {
            0 => String::new(),
            n => format!(" · {n} lines"),
        };
        let name = escape(name);
        let about = if about.is_empty() {
            about
        } else {
            format!("<p class=\"about\">{about}</p>\n")
        };
        format!(
            "<p class=\"eyebrow\">{eyebrow}{lines}</p>\n<h1 class=\"path\">{folders}{name}</h1>\n{about}"
        )
    }

    /// The ways to the pages before and after.
    fn foot(&self) -> String {
        let [before, after] = self.contents.neighbours(self.path);
        let way = |class: &str, word: &str, to: Option<(&str, &str)>| {
            to.map_or(String::new(), |(path, title)| {
                let (href, title) = (self.href(path), escape(title));
                format!("<a class=\"{class}\" rel=\"{class}\" href=\"{href}\"><span>{word}</span> {title}</a>\n")
            })
        };
        way("prev", "Before", before) + &way("next", "Next", after)
    }
}
