//! Markdown to HTML: chapters, and documentation comments.
//!
//! pulldown-cmark reads and writes; between the two, headings get anchors, listings colours, tables a box that
//! scrolls, and links their places in the site.

use crate::formula;
use crate::items::Items;
use crate::page::escape;
use crate::paths::{Kind, Root};
use crate::problem::Problem;
use crate::rust;
use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, TextMergeWithOffset,
    html,
};
use std::collections::BTreeSet;

/// Folders whose files are linked where they are named: what is built, or written by a run, is not among them.
const FOLDERS: [&str; 7] = [
    "benches", "docs", "examples", "papers", "site", "src", "tests",
];

/// What stands in the frame of a page, and what others must know of it.
#[derive(Default)]
pub struct Body {
    pub title: String,
    /// The first sentences, without markup.
    pub description: String,
    pub html: String,
    pub anchors: BTreeSet<String>,
    pub headings: Vec<Heading>,
    /// What the search finds.
    pub sections: Vec<Section>,
    pub links: Vec<Link>,
    pub problems: Vec<Problem>,
}

pub struct Heading {
    pub level: usize,
    pub id: String,
    pub text: String,
}

/// A heading and the text below it.
#[derive(Default)]
pub struct Section {
    pub id: String,
    pub heading: String,
    pub text: String,
}

/// A link to a file of the repository.
pub struct Link {
    pub line: usize,
    pub path: String,
    pub anchor: Option<String>,
}

/// A chapter.
pub fn chapter(root: &Root, path: &str, text: &str) -> Body {
    let mut writer = Writer::new(root, path, None);
    let parser = Parser::new_ext(text, options()).into_offset_iter();
    for (event, range) in TextMergeWithOffset::new(parser) {
        writer.line = 1 + text[..range.start].matches('\n').count();
        writer.take(event);
    }
    writer.finish()
}

/// A documentation comment that begins in this line. Its links lead to types of the reading path; those to other
/// items of Rust are only their text.
pub fn comment(root: &Root, items: &Items, path: &str, line: usize, text: &str) -> Body {
    let mut writer = Writer::new(root, path, Some(items));
    let mut item = |link: BrokenLink| {
        let name = link.reference;
        // `[n, d]` is a shape.
        (name.starts_with('`') || name.contains("::"))
            .then(|| (CowStr::from(name.to_string()), "".into()))
    };
    let parser = Parser::new_with_broken_link_callback(text, options(), Some(&mut item));
    for (event, range) in TextMergeWithOffset::new(parser.into_offset_iter()) {
        writer.line = line + text[..range.start].matches('\n').count();
        writer.take(event);
    }
    writer.finish()
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES | Options::ENABLE_SMART_PUNCTUATION
}

/// The anchor that GitHub gives a heading: small letters, hyphens for blanks, no signs.
fn anchor(text: &str, taken: &BTreeSet<String>) -> String {
    let keep = |c: char| {
        c.is_alphabetic()
            || c.is_ascii_digit()
            || "_-".contains(c)
            || ('\u{300}'..'\u{370}').contains(&c)
    };
    let text = text.to_lowercase().replace(' ', "-");
    let text: String = text.chars().filter(|&c| keep(c)).collect();
    let mut names = (1..).map(|i| format!("{text}-{i}"));
    if taken.contains(&text) {
        names.find(|name| !taken.contains(name)).expect("a number")
    } else {
        text
    }
}

/// A listing: Rust in colours and without the lines that rustdoc hides, anything else as it is.
pub fn listing(language: &str, text: &str) -> String {
    let rust = language.split(',').next() == Some("rust");
    let lines: Vec<String> = if rust {
        let shown = text.lines().filter(|line| {
            let line = line.trim_start();
            line != "#" && !line.starts_with("# ")
        });
        let text: Vec<&str> = shown.collect();
        rust::lines(&text.join("\n"))
            .into_iter()
            .map(|line| line.html)
            .collect()
    } else {
        text.lines().map(escape).collect()
    };
    let class = if rust { "rust" } else { "plain" };
    format!(
        "<pre class=\"{class}\"><code>{}</code></pre>\n",
        lines.join("\n")
    )
}

/// Takes the events of the parser and keeps those of the HTML.
struct Writer<'r, 'a> {
    root: &'r Root,
    path: &'r str,
    /// Of a comment, which types its links may mean.
    items: Option<&'r Items>,
    line: usize,
    events: Vec<Event<'a>>,
    body: Body,
    /// The plain text since the heading, listing, image or paragraph that is open began.
    text: String,
    heading: bool,
    language: Option<String>,
    /// The source of the image that is open, and the text before it.
    image: Option<(String, String)>,
    /// The event with which the open paragraph began.
    paragraph: usize,
    /// Whether each open link is written.
    links: Vec<bool>,
}

impl<'r, 'a> Writer<'r, 'a> {
    fn new(root: &'r Root, path: &'r str, items: Option<&'r Items>) -> Self {
        Self {
            root,
            path,
            items,
            line: 1,
            events: Vec::new(),
            body: Body {
                sections: vec![Section::default()],
                ..Body::default()
            },
            text: String::new(),
            heading: false,
            language: None,
            image: None,
            paragraph: 0,
            links: Vec::new(),
        }
    }

    fn html(&mut self, html: impl Into<String>) {
        self.events.push(Event::Html(html.into().into()));
    }

    fn say(&mut self, text: &str) {
        self.text += text;
        if !self.heading {
            let section = self.body.sections.last_mut().expect("the first");
            section.text += text;
        }
    }

    fn take(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                self.heading = true;
                self.text.clear();
                self.paragraph = self.events.len();
                self.events.push(event);
            }
            Event::End(TagEnd::Heading(level)) => self.end_heading(level as usize),
            Event::Start(Tag::CodeBlock(kind)) => {
                self.text.clear();
                self.language = Some(match kind {
                    CodeBlockKind::Fenced(language) => language.to_string(),
                    CodeBlockKind::Indented => String::new(),
                });
            }
            Event::End(TagEnd::CodeBlock) => {
                let mut language = self.language.take().unwrap_or_default();
                // What rustdoc takes for Rust.
                let rust =
                    ["", "no_run", "should_panic", "compile_fail", "ignore"].contains(&&*language);
                if self.items.is_some() && rust {
                    language = "rust".into();
                }
                let html = listing(&language, &self.text);
                self.html(html);
                self.say("\n");
            }
            Event::Start(Tag::Paragraph) => {
                self.text.clear();
                self.paragraph = self.events.len();
                self.events.push(event);
            }
            Event::End(TagEnd::Paragraph) => self.end_paragraph(event),
            Event::Start(Tag::Table(_)) => {
                self.html("<div class=\"scroll\">");
                self.events.push(event);
            }
            Event::End(TagEnd::Table) => {
                self.events.push(event);
                self.html("</div>\n");
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let address = self.address(&dest_url);
                self.links.push(address.is_some());
                if let Some(dest_url) = address {
                    let dest_url = dest_url.into();
                    self.events.push(Event::Start(Tag::Link {
                        link_type,
                        dest_url,
                        title,
                        id,
                    }));
                }
            }
            Event::End(TagEnd::Link) => {
                if self.links.pop() == Some(true) {
                    self.events.push(event);
                }
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                self.image = Some((dest_url.to_string(), std::mem::take(&mut self.text)));
            }
            Event::End(TagEnd::Image) => {
                let (source, before) = self.image.take().expect("an image");
                let alt = std::mem::replace(&mut self.text, before);
                let html = self.image(&source, &alt);
                self.html(html);
            }
            Event::Text(ref text) | Event::Code(ref text) => {
                self.say(text);
                if self.language.is_some() || self.image.is_some() {
                    return;
                }
                let html = match &event {
                    Event::Code(text) => self.file(text),
                    _ => formula::html(text),
                };
                self.events
                    .push(html.map_or(event, |html| Event::InlineHtml(html.into())));
            }
            Event::SoftBreak | Event::HardBreak => {
                self.say(" ");
                if self.image.is_none() {
                    self.events.push(event);
                }
            }
            Event::End(TagEnd::TableCell | TagEnd::Item) => {
                self.say(" ");
                self.events.push(event);
            }
            Event::Html(ref text) | Event::InlineHtml(ref text) => {
                let html = self.raw(text);
                self.html(html);
            }
            _ => self.events.push(event),
        }
    }

    fn end_heading(&mut self, level: usize) {
        self.heading = false;
        let text = std::mem::take(&mut self.text);
        if self.items.is_some() {
            // Below the heading of the page, in small type.
            self.events[self.paragraph] = Event::Html("<p class=\"subhead\">".into());
            self.html("</p>\n");
            return;
        }
        let id = anchor(&text, &self.body.anchors);
        self.body.anchors.insert(id.clone());
        if level == 1 && self.body.title.is_empty() {
            self.body.title.clone_from(&text);
        }
        self.events[self.paragraph] = Event::Html(format!("<h{level} id=\"{id}\">").into());
        self.html(format!("<a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to this section\">§</a></h{level}>\n"));
        self.body.sections.push(Section {
            id: id.clone(),
            heading: text.clone(),
            text: String::new(),
        });
        self.body.headings.push(Heading { level, id, text });
    }

    /// An image alone in a paragraph is a figure; what one needs to know has a class of its own.
    fn end_paragraph(&mut self, event: Event<'a>) {
        let text = self.text.trim().to_owned();
        self.say(" ");
        let alone = matches!(&self.events[self.paragraph + 1..], [Event::Html(html)] if html.starts_with("<img"));
        if alone {
            self.events[self.paragraph] = Event::Html("<figure>".into());
            let caption = match self.events.last() {
                Some(Event::Html(html)) => html
                    .split("alt=\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next()),
                _ => None,
            };
            let caption = caption.unwrap_or_default().to_owned();
            self.html(format!("<figcaption>{caption}</figcaption></figure>\n"));
            return;
        }
        if self.body.description.is_empty() {
            self.body.description.clone_from(&text);
        }
        let class = match self.items {
            None if text.starts_with("You need") => Some("need"),
            None if formula::is_display(&text) => Some("formula"),
            _ => None,
        };
        if let Some(class) = class {
            self.events[self.paragraph] = Event::Html(format!("<p class=\"{class}\">").into());
        }
        self.events.push(event);
    }

    fn problem(&mut self, text: impl Into<String>) {
        self.body
            .problems
            .push(Problem::new(self.path, self.line, text));
    }

    /// The place of a link in the site, if it has one.
    fn address(&mut self, link: &str) -> Option<String> {
        if ["https://", "http://", "mailto:"]
            .iter()
            .any(|start| link.starts_with(start))
        {
            return Some(link.into());
        }
        let (file, anchor) = match link.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (link, None),
        };
        if let Some(items) = self.items
            && (file.contains("::") || !file.contains('.'))
        {
            // An item of Rust.
            let (path, line) = items.find(file)?;
            let anchor = format!("L{line}");
            let address = format!("{}#{anchor}", self.root.href(self.path, path));
            self.body.links.push(Link {
                line: self.line,
                path: path.clone(),
                anchor: Some(anchor),
            });
            return Some(address);
        }
        let path = match file {
            "" => Ok(self.path.to_owned()),
            _ if file.starts_with('/') => Err(format!("{link} is not relative")),
            _ => self.root.resolve(self.path, file),
        };
        let path = match path {
            Ok(path) => path,
            Err(text) => {
                self.problem(text);
                return None;
            }
        };
        let mut address = match file {
            "" => String::new(),
            _ => self.root.href(self.path, &path),
        };
        // `#L10-L20` of a listing begins at its line 10.
        let lines = self.root.kind(&path) == Kind::Source;
        let anchor = anchor.map(|anchor| match anchor.split_once('-') {
            Some((first, _)) if lines => first.to_owned(),
            _ => anchor.to_owned(),
        });
        if let Some(anchor) = &anchor {
            address = format!("{address}#{anchor}");
        }
        self.body.links.push(Link {
            line: self.line,
            path,
            anchor,
        });
        Some(address)
    }

    /// The name of a file or folder of the repository, as `src/ops/`, as a link to it.
    fn file(&mut self, name: &str) -> Option<String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        let (first, _) = name.split_once('/')?;
        let is_path = FOLDERS.contains(&first) && name.chars().all(is_name);
        if !is_path || !self.links.is_empty() || self.heading {
            return None;
        }
        let path = self.root.resolve("", name).ok()?;
        let href = self.root.href(self.path, &path);
        self.body.links.push(Link {
            line: self.line,
            path,
            anchor: None,
        });
        Some(format!(
            "<a class=\"file\" href=\"{href}\"><code>{name}</code></a>"
        ))
    }

    /// An image of the repository, with the size that it states, so that the text below it does not jump.
    fn image(&mut self, source: &str, alt: &str) -> String {
        if source.contains("://") {
            self.problem(format!("{source}: images come from the repository"));
            return String::new();
        }
        let Some(address) = self.address(source) else {
            return String::new();
        };
        let path = &self.body.links.last().expect("the image").path;
        let bytes = self.root.bytes(path);
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(600)]);
        let head = head
            .split_once("<svg")
            .map(|(_, rest)| rest.split('>').next().unwrap_or_default());
        let number = |name: &str| {
            let value = head?
                .split_once(&format!(" {name}=\""))?
                .1
                .split('"')
                .next()?;
            value.trim_end_matches("px").parse::<f64>().ok()
        };
        let size = match (number("width"), number("height")) {
            (Some(width), Some(height)) => format!(" width=\"{width}\" height=\"{height}\""),
            _ => String::new(),
        };
        format!("<img src=\"{address}\" alt=\"{}\"{size}>", escape(alt))
    }

    /// HTML in Markdown, with its links replaced.
    fn raw(&mut self, html: &str) -> String {
        let mut out = String::new();
        let mut rest = html;
        while let Some((at, name)) = ["href=\"", "src=\""]
            .iter()
            .filter_map(|n| Some((rest.find(n)?, n)))
            .min()
        {
            let (before, after) = rest.split_at(at + name.len());
            let (link, after) = after.split_once('"').unwrap_or((after, ""));
            let address = self.address(link).unwrap_or_default();
            out += &format!("{before}{address}\"");
            rest = after;
        }
        out + rest
    }

    fn finish(mut self) -> Body {
        html::push_html(&mut self.body.html, self.events.into_iter());
        if self.items.is_none() && self.body.title.is_empty() {
            let problem = Problem::new(self.path, 1, "has no heading `# Title`");
            self.body.problems.push(problem);
        }
        self.body
    }
}
