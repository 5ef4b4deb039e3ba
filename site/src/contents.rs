//! The order of the book: chapters from `docs/README.md`, files of the reading path from `docs/reading.md`.

use crate::paths::Root;
use crate::problem::{Problem, Problems};
use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::collections::BTreeSet;

pub const LANDING: &str = "README.md";
pub const CONTENTS: &str = "docs/README.md";
pub const READING: &str = "docs/reading.md";

/// A chapter: a link of the contents, as in `3. [Title](file.md): sentence`.
pub struct Entry {
    pub path: String,
    /// The number of the item that begins with the link.
    pub number: Option<u64>,
    pub title: String,
}

/// The entries under a heading of the contents.
pub struct Part {
    pub title: String,
    pub entries: Vec<Entry>,
}

/// A file of the reading path: a row `| [src/..](../src/..) | lines | what you read there |`.
pub struct Step {
    pub path: String,
    /// What the last cell says of it.
    pub about: String,
}

/// The rows under a heading of the reading path.
pub struct Evening {
    pub title: String,
    pub steps: Vec<Step>,
}

pub struct Contents {
    pub parts: Vec<Part>,
    pub evenings: Vec<Evening>,
}

impl Contents {
    pub fn read(root: &Root) -> Result<Self, Problems> {
        let parts = parts(root, &root.read(CONTENTS)?)?;
        if parts.is_empty() {
            return Err(Problems::one(
                CONTENTS,
                0,
                "has no entry `1. [Title](file.md): sentence`",
            ));
        }
        let evenings = evenings(root, &root.read(READING)?)?;
        if evenings.is_empty() {
            return Err(Problems::one(
                READING,
                0,
                "has no row `| [src/..](../src/..) | .. |`",
            ));
        }
        Ok(Self { parts, evenings })
    }

    /// The files from which all others are found.
    pub fn pages(&self) -> Vec<String> {
        let first = [LANDING, CONTENTS, READING].map(String::from);
        let entries = self.parts.iter().flat_map(|part| &part.entries);
        let steps = self.reading().map(|step| &step.path);
        let rest = entries.map(|entry| &entry.path).chain(steps).cloned();
        first.into_iter().chain(rest).collect()
    }

    /// The files of the reading path in its order.
    pub fn reading(&self) -> impl Iterator<Item = &Step> {
        self.evenings.iter().flat_map(|evening| &evening.steps)
    }

    /// The place of a file in the reading path.
    pub fn step(&self, path: &str) -> Option<(&Evening, usize)> {
        self.evenings.iter().find_map(|evening| {
            let i = evening.steps.iter().position(|step| step.path == path)?;
            Some((evening, i))
        })
    }

    /// The entry of a chapter and its part.
    pub fn entry(&self, path: &str) -> Option<(&Part, &Entry)> {
        self.parts.iter().find_map(|part| {
            let entry = part.entries.iter().find(|entry| entry.path == path)?;
            Some((part, entry))
        })
    }

    /// The pages before and after, with their titles: in the reading path, or among the chapters.
    pub fn neighbours(&self, path: &str) -> [Option<(&str, &str)>; 2] {
        let steps = self.reading().map(|step| (&*step.path, &*step.path));
        let entries = self.parts.iter().flat_map(|part| &part.entries);
        let chapters = [(LANDING, "emmy"), (CONTENTS, "Contents")].into_iter();
        let chapters = chapters.chain(entries.map(|entry| (&*entry.path, &*entry.title)));
        let order: Vec<_> = match self.step(path) {
            Some(_) => steps.collect(),
            None => chapters.collect(),
        };
        let Some(i) = order.iter().position(|&(page, _)| page == path) else {
            return [None, None];
        };
        [i.checked_sub(1), Some(i + 1)].map(|i| order.get(i?).copied())
    }
}

/// Walks through a file, with the heading above each event and its line.
fn walk(text: &str, mut visit: impl FnMut(&str, usize, Event)) {
    let (mut heading, mut in_heading) = (String::new(), false);
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match &event {
            Event::Start(Tag::Heading { level, .. }) => {
                in_heading = *level <= HeadingLevel::H2;
                if in_heading {
                    heading.clear();
                }
            }
            Event::End(TagEnd::Heading(_)) => in_heading = false,
            Event::Text(text) | Event::Code(text) if in_heading => heading += text,
            _ => {}
        }
        let line = 1 + text[..range.start].matches('\n').count();
        visit(&heading, line, event);
    }
}

/// The chapters by the headings of the contents. Every link to one is an entry, the first if there are
/// several.
fn parts(root: &Root, text: &str) -> Result<Vec<Part>, Problems> {
    let mut parts: Vec<Part> = Vec::new();
    let mut problems = Vec::new();
    let mut known = BTreeSet::from([LANDING, CONTENTS].map(String::from));
    // The number of the item that begins here, and the entry whose title is being read.
    let mut lists: Vec<Option<u64>> = Vec::new();
    let mut number = None;
    let mut open: Option<Entry> = None;
    walk(text, |heading, line, event| match event {
        Event::Start(Tag::List(first)) => lists.push(first),
        Event::End(TagEnd::List(_)) => drop(lists.pop()),
        Event::Start(Tag::Item) => {
            let next = lists.last_mut().and_then(Option::as_mut);
            number = next.map(|next| std::mem::replace(next, *next + 1));
        }
        Event::Start(Tag::Link { dest_url, .. }) => {
            let file = dest_url.split('#').next().unwrap_or_default();
            if file.ends_with(".md") && !file.contains("://") {
                match root.resolve(CONTENTS, file) {
                    Ok(path) if known.insert(path.clone()) => {
                        open = Some(Entry {
                            path,
                            number: number.take(),
                            title: String::new(),
                        });
                    }
                    Ok(_) => {}
                    Err(text) => problems.push(Problem::new(CONTENTS, line, text)),
                }
            }
        }
        Event::Text(text) | Event::Code(text) => match &mut open {
            Some(entry) => entry.title += &text,
            None => number = None,
        },
        Event::SoftBreak => open.iter_mut().for_each(|entry| entry.title.push(' ')),
        Event::End(TagEnd::Link) => {
            if let Some(entry) = open.take() {
                if parts.last().is_none_or(|part| part.title != heading) {
                    parts.push(Part {
                        title: heading.into(),
                        entries: Vec::new(),
                    });
                }
                parts.last_mut().expect("a part").entries.push(entry);
            }
        }
        _ => {}
    });
    if problems.is_empty() {
        Ok(parts)
    } else {
        Err(Problems::new(problems))
    }
}

fn evenings(root: &Root, text: &str) -> Result<Vec<Evening>, Problems> {
    let mut evenings: Vec<Evening> = Vec::new();
    let mut problems = Vec::new();
    let mut known = BTreeSet::new();
    // The cell of the row that is being read, and the row's step.
    let mut cell = 0;
    let mut open: Option<Step> = None;
    walk(text, |heading, line, event| match event {
        Event::Start(Tag::TableRow) => (cell, open) = (0, None),
        Event::Start(Tag::Link { dest_url, .. }) if cell == 0 && dest_url.ends_with(".rs") => {
            match root.resolve(READING, &dest_url) {
                Ok(path) if known.insert(path.clone()) => {
                    open = Some(Step {
                        path,
                        about: String::new(),
                    });
                }
                Ok(_) => {}
                Err(text) => problems.push(Problem::new(READING, line, text)),
            }
        }
        Event::Text(text) | Event::Code(text) if cell >= 2 => {
            open.iter_mut().for_each(|step| step.about += &text);
        }
        Event::End(TagEnd::TableCell) => cell += 1,
        Event::End(TagEnd::TableRow) => {
            if let Some(step) = open.take() {
                if evenings
                    .last()
                    .is_none_or(|evening| evening.title != heading)
                {
                    evenings.push(Evening {
                        title: heading.into(),
                        steps: Vec::new(),
                    });
                }
                evenings.last_mut().expect("an evening").steps.push(step);
            }
        }
        _ => {}
    });
    if problems.is_empty() {
        Ok(evenings)
    } else {
        Err(Problems::new(problems))
    }
}
