//! The folders in which data is looked for.
//!
//! 1. In the folder given (`--data DIR`), and only there;
//! 2. without one, in the folder the environment variable `EMMY_DATA` names;
//! 3. then in `emmy` in the user's cache directory: `$XDG_CACHE_HOME` or `~/.cache` on Linux,
//!    `~/Library/Caches` on macOS, the local application data on Windows.
//!
//! In each of these, the files of a set may lie in some folders: [`Files::folders`](super::Files::folders). Those of
//! Planetoid sets are `planetoid/`, the place itself, and where PyTorch Geometric keeps them (`Cora/raw/` in a root,
//! `raw/` in a data set's folder).

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

#[cfg(test)]
mod tests {
    use super::*;

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
