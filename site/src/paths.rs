//! Paths in the repository, and the places of their pages in the site.
//!
//! A path is relative to the root, with `/`. The page of `docs/engine.md` is `docs/engine.html`, that of
//! `src/lib.rs` is `src/lib.rs.html`; README.md is the `index.html` of its folder.

use crate::problem::Problems;
use std::path::{Path, PathBuf};

/// Longer texts (results of hundreds of runs) are copied, not printed as a page.
const LONGEST: u64 = 150_000;

/// Folders whose Markdown files are chapters, and so must be in the contents.
const CHAPTERS: [&str; 3] = ["docs", "docs/evidence", "papers/docs"];

/// What becomes of a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Markdown.
    Chapter,
    /// Any other text: a page with numbered lines.
    Source,
    /// A folder without a README: a page with its files.
    Folder,
    /// Copied as it is.
    Copy,
}

/// The repository.
pub struct Root(PathBuf);

/// A file or folder in a folder, which is "" for the repository itself.
pub fn below(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}

impl Root {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub fn read(&self, path: &str) -> Result<String, Problems> {
        std::fs::read_to_string(self.at(path)).map_err(|e| Problems::one(path, 0, e.to_string()))
    }

    pub fn bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.at(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    pub fn kind(&self, path: &str) -> Kind {
        let file = self.at(path);
        if file.is_dir() {
            return Kind::Folder;
        }
        match path.rsplit_once('.') {
            Some((_, "md")) => Kind::Chapter,
            Some((_, "svg" | "png" | "jpg")) => Kind::Copy,
            _ => {
                let short = file.metadata().is_ok_and(|data| data.len() <= LONGEST);
                let text = || path.ends_with(".rs") || std::fs::read_to_string(&file).is_ok();
                if short && text() {
                    Kind::Source
                } else {
                    Kind::Copy
                }
            }
        }
    }

    /// Where the page of a file is in the site.
    pub fn place(&self, path: &str) -> String {
        match self.kind(path) {
            Kind::Folder if path.is_empty() => "files.html".into(),
            Kind::Folder => format!("{path}/files.html"),
            Kind::Source => format!("{path}.html"),
            Kind::Copy => path.into(),
            Kind::Chapter => match path.strip_suffix("README.md") {
                Some(folder) => format!("{folder}index.html"),
                None => format!("{}.html", path.trim_end_matches(".md")),
            },
        }
    }

    /// The address of a page or copy, as a link on the page of the file `from`.
    pub fn href(&self, from: &str, to: &str) -> String {
        relative(&self.place(from), &self.place(to))
    }

    /// The file or folder that a relative link in the file `from` means.
    pub fn resolve(&self, from: &str, link: &str) -> Result<String, String> {
        let mut parts: Vec<&str> = from.split('/').collect();
        parts.pop();
        for part in link.trim_end_matches('/').split('/') {
            match part {
                "." | "" => {}
                ".." => drop(parts.pop().ok_or(format!("{link} leaves the repository"))?),
                part => parts.push(part),
            }
        }
        let path = parts.join("/");
        if !self.at(&path).exists() {
            return Err(format!("there is no {path}"));
        }
        Ok(self.opened(path))
    }

    /// What a link to this path opens: of a folder, as on GitHub, its README.
    pub fn opened(&self, path: String) -> String {
        let readme = below(&path, "README.md");
        if self.at(&readme).is_file() {
            readme
        } else {
            path
        }
    }

    /// The folders above a file, with their names, the highest first.
    pub fn folders(&self, path: &str) -> Vec<(String, String)> {
        let ends = path.match_indices('/').map(|(end, _)| &path[..end]);
        let named = ends.map(|folder| {
            let name = folder.rsplit('/').next().unwrap_or(folder);
            (name.to_owned(), self.opened(folder.to_owned()))
        });
        named.collect()
    }

    /// Folders, then files, without hidden ones and what is built.
    pub fn entries(&self, folder: &str) -> Result<[Vec<String>; 2], Problems> {
        let fault = |e: std::io::Error| Problems::one(folder, 0, e.to_string());
        let [mut folders, mut files] = [Vec::new(), Vec::new()];
        for entry in self.at(folder).read_dir().map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || ["target", "__pycache__"].contains(&&*name) {
                continue;
            }
            match entry.path().is_dir() {
                true => folders.push(name),
                false => files.push(name),
            }
        }
        folders.sort();
        files.sort();
        Ok([folders, files])
    }

    /// The Markdown files that must be in the contents.
    pub fn chapters(&self) -> Result<Vec<String>, Problems> {
        let mut chapters = Vec::new();
        for folder in CHAPTERS.iter().filter(|folder| self.at(folder).is_dir()) {
            let [_, files] = self.entries(folder)?;
            let files = files
                .iter()
                .filter(|name| name.ends_with(".md") && *name != "README.md");
            chapters.extend(files.map(|name| format!("{folder}/{name}")));
        }
        Ok(chapters)
    }
}

/// The way from one place in the site to another.
pub fn relative(from: &str, to: &str) -> String {
    let [from, to]: [Vec<&str>; 2] = [from, to].map(|path| path.split('/').collect());
    let folders = from.len().min(to.len()) - 1;
    let same = (0..folders).take_while(|&i| from[i] == to[i]).count();
    let mut parts = vec![".."; from.len() - 1 - same];
    parts.extend(&to[same..]);
    parts.join("/")
}
