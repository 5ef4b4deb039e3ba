//! The site of this repository, built once into a temporary folder, and looked at in a browser.

mod browser;
mod pages;
mod small;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::TempDir;

static SITE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    if let Err(problems) = site::build(&root(), folder.path()) {
        panic!("{problems}");
    }
    folder
});

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text files of a site by their paths in it.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in at.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
                files.insert(
                    name.to_owned(),
                    String::from_utf8_lossy(&bytes).into_owned(),
                );
            }
        }
    }
    files
}

/// The addresses of the pages.
fn pages(folder: &Path) -> Vec<String> {
    files(folder)
        .into_keys()
        .filter(|name| name.ends_with(".html"))
        .collect()
}

/// HTML without tags and entities.
fn plain(html: &str) -> String {
    let mut text = String::new();
    for (i, part) in html.split('<').enumerate() {
        text += if i == 0 {
            part
        } else {
            part.split_once('>').map_or("", |(_, text)| text)
        };
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"");
    text.replace("&amp;", "&")
}
