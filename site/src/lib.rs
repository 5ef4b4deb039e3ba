//! The book as a web site: Markdown and source in, HTML out.
//!
//! It starts with the README and the contents (`contents`), turns what they link to into pages, and so on:
//! a chapter (`markdown`), a file of the reading path with its prose beside it, another file, a folder
//! (`code`). The place of a page is the place of its file, so relative links stay relative (`paths`). A
//! link to a file or heading that is not there is an error. At last the pages get their frame (`page`) and
//! the search its index (`search`).

mod body;
mod code;
mod contents;
mod formula;
mod items;
mod markdown;
mod page;
mod paths;
mod problem;
mod rust;
mod search;

pub use problem::{Problem, Problems};

use body::Body;
use contents::Contents;
use items::Items;
use paths::{Kind, Root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// What was written.
pub struct Summary {
    pub chapters: usize,
    /// Files of the reading path, with prose beside.
    pub beside: usize,
    pub listings: usize,
    pub links: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            chapters,
            beside,
            listings,
            links,
        } = self;
        write!(
            f,
            "{chapters} chapters, {beside} files beside their prose, {listings} listings and folders; \
             {links} links checked"
        )
    }
}

/// The book of the repository at `root`, into the folder `out`.
///
/// # Errors
/// All broken links and missing files, or the first file that cannot be read or written.
pub fn build(root: &Path, out: &Path) -> Result<Summary, Problems> {
    let root = Root::new(root);
    let contents = Contents::read(&root)?;
    let book = Book::collect(&root, &contents)?;
    let files = book.files(&root, &contents);
    write(out, &files)?;
    let count = |kind| {
        book.pages
            .keys()
            .filter(|path| root.kind(path) == kind)
            .count()
    };
    let chapters = count(Kind::Chapter);
    let beside = contents.reading().count();
    Ok(Summary {
        chapters,
        beside,
        listings: book.pages.len() - chapters - beside,
        links: book.links,
    })
}

/// All pages, by the paths of their files in the repository.
struct Book {
    pages: BTreeMap<String, Body>,
    /// Files that are copied as they are: figures, results.
    copies: BTreeSet<String>,
    links: usize,
}

impl Book {
    /// The pages that can be reached, with every link checked.
    fn collect(root: &Root, contents: &Contents) -> Result<Self, Problems> {
        let mut book = Self {
            pages: BTreeMap::new(),
            copies: BTreeSet::new(),
            links: 0,
        };
        let items = Items::read(root, contents)?;
        let mut problems = Vec::new();
        let mut queue = contents.pages();
        while let Some(path) = queue.pop() {
            if book.pages.contains_key(&path) || book.copies.contains(&path) {
                continue;
            }
            let mut body = match root.kind(&path) {
                Kind::Copy => {
                    book.copies.insert(path);
                    continue;
                }
                Kind::Folder => code::folder(root, &path)?,
                Kind::Chapter => markdown::chapter(root, &path, &root.read(&path)?),
                Kind::Source => match contents.step(&path) {
                    Some(_) => code::beside(root, &items, &path, &root.read(&path)?),
                    None => code::listing(&path, &root.read(&path)?),
                },
            };
            problems.append(&mut body.problems);
            queue.extend(body.links.iter().map(|link| link.path.clone()));
            if root.kind(&path) != Kind::Chapter {
                // Its heading links to them.
                queue.extend(root.folders(&path).into_iter().map(|(_, folder)| folder));
            }
            book.pages.insert(path, body);
        }
        for (path, body) in &book.pages {
            book.links += body.links.len();
            for link in &body.links {
                if let (Some(anchor), Some(page)) = (&link.anchor, book.pages.get(&link.path))
                    && !page.anchors.contains(anchor)
                {
                    let text = format!("{} has no heading #{anchor}", link.path);
                    problems.push(Problem::new(path, link.line, text));
                }
            }
        }
        for path in root.chapters()? {
            if contents.entry(&path).is_none() {
                let text = format!("is not in the contents, {}", contents::CONTENTS);
                problems.push(Problem::new(&path, 1, text));
            }
        }
        if problems.is_empty() {
            Ok(book)
        } else {
            Err(Problems::new(problems))
        }
    }

    /// The files of the site, by their paths in it.
    fn files(&self, root: &Root, contents: &Contents) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for (path, body) in &self.pages {
            let html = page::frame(root, contents, path, body);
            files.insert(root.place(path), html.into_bytes());
        }
        for path in &self.copies {
            files.insert(path.clone(), root.bytes(path));
        }
        let index = search::index(root, contents, &self.pages);
        files.insert("index.js".into(), index.into_bytes());
        files.insert(
            "book.css".into(),
            include_bytes!("../assets/book.css").into(),
        );
        files.insert("book.js".into(), include_bytes!("../assets/book.js").into());
        files
    }
}

/// Writes the site; what an earlier run wrote goes. A folder with something else in it is left alone.
fn write(out: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<(), Problems> {
    let place = out.display().to_string();
    let fault = |e: std::io::Error| Problems::one(&place, 0, e.to_string());
    // What a site has, and the folder of this program's own assets has not.
    let is_site = ["index.html", "index.js", "book.css"]
        .iter()
        .all(|file| out.join(file).is_file());
    if is_site {
        std::fs::remove_dir_all(out).map_err(fault)?;
    } else if out
        .read_dir()
        .is_ok_and(|mut entries| entries.next().is_some())
    {
        return Err(Problems::one(
            &place,
            0,
            "is not empty, and holds no site that could be replaced",
        ));
    }
    for (path, bytes) in files {
        let path = out.join(path);
        std::fs::create_dir_all(path.parent().expect("a file in the site")).map_err(fault)?;
        std::fs::write(path, bytes).map_err(fault)?;
    }
    Ok(())
}
