//! The folders in which data is looked for.
//!
//! 1. In the folder given (`--data DIR`), and only there;
//! 2. without one, in the folder the environment variable `EMMY_DATA` names;
//! 3. then in `emmy` in the user's cache directory: `$XDG_CACHE_HOME` or `~/.cache` on Linux,
//!    `~/Library/Caches` on macOS, the local application data on Windows.
//!
//! In each of these, Planetoid files may lie in `planetoid/`, in the folder itself, or where PyTorch
//! Geometric keeps them (`Cora/raw/` in a root, `raw/` in a data set's folder); heterophilic files in
//! `heterophilic/` or in the folder itself.

use super::{heterophilic, planetoid};
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

/// The first folder that holds all eight parts of the Planetoid set `name`, known to PyTorch Geometric as
/// `title`.
///
/// # Errors
/// [`Error::NotFound`]: for the missing parts if one folder holds some of the parts, otherwise for the set.
pub fn planetoid(roots: &[PathBuf], name: &str, title: &str) -> Result<PathBuf> {
    let inside = |root: &PathBuf| {
        [
            root.join("planetoid"),
            root.clone(),
            root.join(title).join("raw"),
            root.join(name).join("raw"),
            root.join("raw"),
        ]
    };
    let folders: Vec<PathBuf> = roots.iter().flat_map(inside).collect();
    let missing = |folder: &PathBuf| -> Vec<&str> {
        let absent = |part: &&str| !folder.join(planetoid::file_name(name, part)).is_file();
        planetoid::PARTS.into_iter().filter(absent).collect()
    };
    let mut incomplete = None;
    for folder in &folders {
        let missing = missing(folder);
        if missing.is_empty() {
            return Ok(folder.clone());
        }
        if missing.len() < planetoid::PARTS.len() && incomplete.is_none() {
            incomplete = Some((folder, missing));
        }
    }
    let addresses = |parts: &[&str]| {
        let address =
            |part: &&str| planetoid::ADDRESS.to_owned() + &planetoid::file_name(name, part);
        parts.iter().map(address).collect::<Vec<_>>().join("\n  ")
    };
    Err(match incomplete {
        Some((folder, missing)) => {
            let files: Vec<_> = missing
                .iter()
                .map(|p| planetoid::file_name(name, p))
                .collect();
            Error::NotFound {
                what: format!(
                    "{} (the other files of {title} are in {})",
                    files.join(", "),
                    folder.display()
                ),
                looked: folders,
                address: addresses(&missing),
            }
        }
        None => Error::NotFound {
            what: format!("the data set {title} (the files ind.{name}.*)"),
            looked: folders,
            address: addresses(&planetoid::PARTS),
        },
    })
}

/// The first folder that holds the file of the heterophilic set `name`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn heterophilic(roots: &[PathBuf], name: &str) -> Result<PathBuf> {
    let file = heterophilic::file_name(name);
    let inside = |root: &PathBuf| [root.join("heterophilic"), root.clone()];
    let folders: Vec<PathBuf> = roots.iter().flat_map(inside).collect();
    if let Some(folder) = folders.iter().find(|folder| folder.join(&file).is_file()) {
        return Ok(folder.clone());
    }
    Err(Error::NotFound {
        what: format!("the data set {name} (the file {file})"),
        looked: folders,
        address: heterophilic::ADDRESS.to_owned() + &file,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_any_place_the_error_says_so() {
        for error in [
            planetoid(&[], "cora", "Cora").unwrap_err(),
            heterophilic(&[], "texas").unwrap_err(),
        ] {
            let message = error.to_string();
            assert!(message.contains("Looked in no place: no folder was given"));
            assert!(message.contains("published at https://raw.githubusercontent.com/"));
        }
    }

    #[test]
    fn a_folder_given_is_the_only_one() {
        let roots = roots_from(Some(Path::new("d")), Some("v".into()), Some("c".into()));
        assert_eq!(roots, [PathBuf::from("d")]);
    }

    #[test]
    fn without_one_the_variable_comes_before_the_cache() {
        let roots = roots_from(None, Some("v".into()), Some("c".into()));
        assert_eq!(roots, [PathBuf::from("v"), Path::new("c").join("emmy")]);
        let roots = roots_from(None, Some("".into()), Some("c".into()));
        assert_eq!(roots, [Path::new("c").join("emmy")]);
        assert!(roots_from(None, None, None).is_empty());
    }
}
