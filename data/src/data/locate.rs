//! The folders in which data is looked for.
//!
//! 1. In the folder given (`--data DIR`), and only there;
//! 2. without one, in the folder the environment variable `EMMY_DATA` names;
//! 3. then in `emmy` in the user's cache directory: `$XDG_CACHE_HOME` or `~/.cache` on Linux,
//!    `~/Library/Caches` on macOS, the local application data on Windows.
//!
//! In each of these, the files of a set may lie in some folders: [`Files::folders`](super::Files::folders).
//! Those of Planetoid sets are `planetoid/`, the place itself, and where PyTorch Geometric keeps them
//! (`Cora/raw/` in a root, `raw/` in a data set's folder).

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable that names a folder with data.
pub const VARIABLE: &str = "EMMY_DATA";

/// The folders to look in, best first.
pub fn roots(explicit: Option<&Path>) -> Vec<PathBuf> {
    roots_from(explicit, std::env::var_os(VARIABLE), dirs::cache_dir())
}

/// As [`roots`], with the environment given.
fn roots_from(
    explicit: Option<&Path>,
    variable: Option<OsString>,
    cache: Option<PathBuf>,
) -> Vec<PathBuf> {
    if let Some(folder) = explicit {
        return vec![folder.to_path_buf()];
    }
    // An empty variable counts as none: an empty path would mean the current folder.
    let variable = variable.filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = cache.map(|folder| folder.join("emmy"));
    variable.into_iter().chain(cache).collect()
}

/// The files of a set. In all texts, `NAME` stands for the name of the set, and `TITLE` for its title.
#[derive(Debug, Clone, Copy)]
pub struct Files {
    /// The files, by their paths in one folder. Where a file may have one of two names, these stand with
    /// `|` between them: `edge.csv.gz|edge.csv`.
    pub names: &'static [&'static str],
    /// The folders in which they may lie together, best first, by their paths in one of the [places](self).
    pub folders: &'static [&'static str],
    /// The public address, which messages name: a folder of these files if it ends with `/`, else a page.
    pub address: &'static str,
}

impl Files {
    /// Those of a set that needs none.
    pub const NONE: Self = Self {
        names: &[],
        folders: &[],
        address: "",
    };

    /// The first folder in these places that has all the files. `what` is what a message calls the set.
    ///
    /// # Errors
    /// [`Error::NotFound`]: for the missing files if a folder holds some of them, otherwise for the set.
    pub fn find(&self, roots: &[PathBuf], what: &str, name: &str, title: &str) -> Result<PathBuf> {
        let named = |text: &str| text.replace("NAME", name).replace("TITLE", title);
        let inside = |root: &PathBuf| {
            let folders = self.folders.iter().map(|folder| named(folder));
            let join = |folder: String| match folder.is_empty() {
                true => root.clone(),
                false => root.join(folder),
            };
            folders.map(join).collect::<Vec<_>>()
        };
        let folders: Vec<PathBuf> = roots.iter().flat_map(inside).collect();
        let files: Vec<String> = self.names.iter().map(|names| named(names)).collect();
        let missing = |folder: &PathBuf| -> Vec<&String> {
            let is_there = |names: &str| names.split('|').any(|name| folder.join(name).is_file());
            files.iter().filter(|names| !is_there(names)).collect()
        };
        let mut incomplete = None;
        for folder in &folders {
            let missing = missing(folder);
            if missing.is_empty() {
                return Ok(folder.clone());
            }
            if missing.len() < files.len() && incomplete.is_none() {
                incomplete = Some((folder, missing));
            }
        }
        let listed = |files: &[&String]| {
            let names = files.iter().map(|names| names.replace('|', " or "));
            names.collect::<Vec<_>>().join(", ")
        };
        let (what, missing) = match incomplete {
            Some((folder, missing)) => {
                let place = folder.display();
                let rest = format!("(the other files of {title} are in {place})");
                (format!("{} {rest}", listed(&missing)), missing)
            }
            None => {
                let all: Vec<_> = files.iter().collect();
                let noun = if all.len() == 1 {
                    "the file"
                } else {
                    "the files"
                };
                (format!("{what} ({noun} {})", listed(&all)), all)
            }
        };
        let address = named(self.address);
        let of = |names: &&String| address.clone() + names.split('|').next().unwrap_or_default();
        let addresses = match address.ends_with('/') {
            true => missing.iter().map(of).collect(),
            false => vec![address.clone()],
        };
        Err(Error::NotFound {
            what,
            looked: folders,
            address: addresses.join("\n  "),
        })
    }
}
