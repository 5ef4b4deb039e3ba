//! Merges several results files.

use super::cell::{Cell, Finished, Runs};
use super::results::Lines;
use super::shard::Shard;
use clap::ValueEnum;
use emmy::{Error, Result};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

/// What happens if a cell has two outcomes.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// It is an error.
    Refuse,
    /// The first one counts.
    First,
    /// The last one counts.
    Last,
}

/// The runs of all files, each cell once. A cell with the same outcome in several places is one run, the
/// first.
///
/// # Errors
/// If a cell has two outcomes, unless `conflict` says which one counts.
pub fn merge<C: Cell>(files: Vec<Lines<C>>, conflict: Conflict) -> Result<Runs<C>> {
    let mut places: HashMap<String, (usize, PathBuf, usize)> = HashMap::new();
    let mut runs: Vec<Finished<C>> = Vec::new();
    for Lines { path, runs: lines } in files {
        for (k, finished) in lines.into_iter().enumerate() {
            let (at, first, line) = match places.entry(finished.cell.name()) {
                Entry::Vacant(place) => {
                    place.insert((runs.len(), path.clone(), k + 1));
                    runs.push(finished);
                    continue;
                }
                Entry::Occupied(place) => place.into_mut(),
            };
            if outcome(&runs[*at]) == outcome(&finished) {
                continue;
            }
            match conflict {
                Conflict::First => {}
                Conflict::Last => {
                    (*first, *line) = (path.clone(), k + 1);
                    runs[*at] = finished;
                }
                Conflict::Refuse => {
                    return Err(Error::invalid(
                        format!("{}, line {}", path.display(), k + 1),
                        format!(
                            "the outcome of {}, line {line} (or --conflict first, or last)",
                            first.display()
                        ),
                        format!("another one of {}", finished.cell.title()),
                    ));
                }
            }
        }
    }
    Ok(Runs(runs))
}

/// The outcome as it is written: equal texts are equal bits.
fn outcome<C: Cell>(finished: &Finished<C>) -> String {
    serde_json::to_string(&finished.outcome).expect("numbers and strings")
}

/// The results files of a paper: those named, and the shards beside each.
pub struct Family {
    pub files: Vec<PathBuf>,
    /// Shards whose files are missing, although files of other shards of the same division exist.
    pub missing: Vec<PathBuf>,
}

impl Family {
    /// The files of the family that exist. A named file without a shard is part of it even if it does not
    /// exist, so that reading it is an error.
    pub fn of(named: &[PathBuf]) -> Self {
        let (mut files, mut missing) = (Vec::new(), Vec::new());
        for file in named {
            let shards = Shard::beside(file);
            if shards.is_empty() || file.exists() {
                files.push(file.clone());
            }
            let path = |shard: &Shard| shard.path(file);
            files.extend(shards.iter().map(path));
            missing.extend(Shard::missing(&shards).iter().map(path));
        }
        let mut seen: Vec<PathBuf> = Vec::new();
        files.retain(|file| {
            let is_new = !seen.contains(file);
            seen.push(file.clone());
            is_new
        });
        Self { files, missing }
    }

    /// The files that exist, without one of them.
    pub fn others(named: &[PathBuf], own: &Path) -> Vec<PathBuf> {
        let files = Self::of(named).files.into_iter();
        files.filter(|file| file.exists() && file != own).collect()
    }
}
