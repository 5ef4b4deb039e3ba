//! Markdown to HTML: chapters, and documentation comments.
//!
//! pulldown-cmark reads and writes; between the two, headings get anchors, listings colours, tables a box
//! that scrolls, and links their places in the site.

mod links;

use crate::body::{Body, Heading, Section};
use crate::formula;
use crate::items::Items;
use crate::page::escape;
use crate::paths::Root;
use crate::problem::Problem;
use crate::rust;
use pulldown_cmark::{
    BrokenLink, CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, TextMergeWithOffset,
    html,
};
use std::collections::BTreeSet;

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

/// A documentation comment that begins in this line. Its links lead to types of the reading path; those to
/// other items of Rust are only their text.
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

    fn finish(mut self) -> Body {
        html::push_html(&mut self.body.html, self.events.into_iter());
        if self.items.is_none() && self.body.title.is_empty() {
            let problem = Problem::new(self.path, 1, "has no heading `# Title`");
            self.body.problems.push(problem);
        }
        self.body
    }
}
