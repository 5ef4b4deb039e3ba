//! Shards: parts of a plan for several processes, and the names of their files.

use super::cell::Cell;
use std::cmp::Reverse;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The most shards.
pub const MOST_SHARDS: u64 = 1_000_000;

/// Shard `index` of `count`, counted from 1: `1/1` is everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// The whole plan.
    pub const WHOLE: Self = Self { index: 1, count: 1 };

    /// Shard `index` of `count`.
    ///
    /// # Errors
    /// A sentence, if there is no such shard.
    pub fn new(index: u64, count: u64) -> Result<Self, String> {
        let shard = Self { index, count };
        match (index, count) {
            (_, 0) => Err("a plan has at least one shard".to_owned()),
            (0, _) => Err("shards are counted from 1".to_owned()),
            (i, n) if i > n => Err(format!("there is no shard {i} of {n}")),
            (_, n) if n > MOST_SHARDS => Err(format!("at most {MOST_SHARDS} shards")),
            _ => Ok(shard),
        }
    }

    /// Whether this is the whole plan.
    pub fn is_whole(self) -> bool {
        self.count == 1
    }

    /// The cells of this shard. Every cell is in one shard: the cells are assigned in the order of their
    /// cost, the most expensive first, each to the shard with the least work so far. The result depends only
    /// on the set of cells, not on their order and not on which are finished.
    pub fn part<'a, C: Cell>(self, cells: &[&'a C]) -> Vec<&'a C> {
        let mut sorted: Vec<(Reverse<u64>, String, &C)> = (cells.iter())
            .map(|&cell| (Reverse(cell.cost().max(1)), cell.name(), cell))
            .collect();
        sorted.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        // Shards beyond the number of cells get none.
        let mut loads = vec![0_u128; self.count.min(cells.len() as u64) as usize];
        let mut part = Vec::new();
        for (Reverse(cost), _, cell) in sorted {
            let least = (0..loads.len()).min_by_key(|&k| loads[k]);
            let least = least.expect("where there is a cell there is a shard");
            loads[least] += u128::from(cost);
            if least as u64 + 1 == self.index {
                part.push(cell);
            }
        }
        part
    }

    /// The results file of this shard: `file` itself for the whole plan, `file-1-of-4.jsonl` beside it
    /// otherwise.
    pub fn path(self, file: &Path) -> PathBuf {
        if self.is_whole() {
            return file.to_owned();
        }
        let mut name = file.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{}-of-{}", self.index, self.count));
        if let Some(ending) = file.extension() {
            name.push(".");
            name.push(ending);
        }
        file.with_file_name(name)
    }

    /// The shard whose results file beside `file` has this name.
    fn of_name(file: &Path, name: &Path) -> Option<Self> {
        let stem = file.file_stem()?.to_str()?;
        let rest = name.file_stem()?.to_str()?.strip_prefix(stem)?;
        let (index, count) = rest.strip_prefix('-')?.split_once("-of-")?;
        let shard = Self::new(index.parse().ok()?, count.parse().ok()?).ok()?;
        let is_its = !shard.is_whole() && shard.path(file).file_name() == name.file_name();
        is_its.then_some(shard)
    }

    /// The shards whose results files are beside `file`, in order.
    pub fn beside(file: &Path) -> Vec<Self> {
        let folder = match file.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| PathBuf::from(entry.file_name()));
        let mut found: Vec<Self> = names
            .filter_map(|name| Self::of_name(file, &name))
            .collect();
        found.sort_by_key(|shard| (shard.count, shard.index));
        found
    }

    /// The missing shards of every division of which at least one shard is there.
    pub fn missing(found: &[Self]) -> Vec<Self> {
        let mut counts: Vec<u64> = found.iter().map(|shard| shard.count).collect();
        counts.dedup();
        let all = counts.into_iter();
        all.flat_map(|count| (1..=count).map(move |index| Self { index, count }))
            .filter(|shard| !found.contains(shard))
            .collect()
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "expected I/N, as in 2/8".to_owned();
        let (index, count) = text.split_once('/').ok_or_else(form)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| form());
        Self::new(number(index)?, number(count)?)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.index, self.count)
    }
}
