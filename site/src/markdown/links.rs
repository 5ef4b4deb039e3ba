//! Links and images: what they mean in the repository, and where that is in the site.

use super::Writer;
use crate::body::Link;
use crate::page::escape;
use crate::paths::Kind;
use crate::problem::Problem;

/// Folders whose files are linked where they are named: what is built, or written by a run, is not among
/// them.
const FOLDERS: [&str; 12] = [
    "base",
    "benches",
    "certificates",
    "data",
    "docs",
    "engine",
    "examples",
    "papers",
    "site",
    "src",
    "strategies",
    "tests",
];

impl Writer<'_, '_> {
    fn problem(&mut self, text: impl Into<String>) {
        self.body
            .problems
            .push(Problem::new(self.path, self.line, text));
    }

    /// The place of a link in the site, if it has one.
    pub(super) fn address(&mut self, link: &str) -> Option<String> {
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

    /// The name of a file or folder of the repository, as `src/nn/`, as a link to it.
    pub(super) fn file(&mut self, name: &str) -> Option<String> {
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
    pub(super) fn image(&mut self, source: &str, alt: &str) -> String {
        if source.contains(':') {
            self.problem(format!("{source}: images come from the repository"));
            return String::new();
        }
        let Some(address) = self.address(source) else {
            return String::new();
        };
        let path = &self.body.links.last().expect("the image").path;
        if self.root.kind(path) != Kind::Copy {
            self.problem(format!("{source}: is no image"));
            return String::new();
        }
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
        format!(
            "<img src=\"{}\" alt=\"{}\"{size}>",
            escape(&address),
            escape(alt)
        )
    }

    /// HTML in Markdown, with its links replaced.
    pub(super) fn raw(&mut self, html: &str) -> String {
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
}
