//! Node-property sets of the Open Graph Benchmark in their raw form: a folder of CSV files, each of which may
//! be compressed by gzip.
//!
//! | file | a line is |
//! |---|---|
//! | `raw/num-node-list.csv` | n, the number of nodes (one line) |
//! | `raw/num-edge-list.csv` | the number of edges (one line) |
//! | `raw/edge.csv` | source, target |
//! | `raw/node-feat.csv` | d numbers, the features of a node |
//! | `raw/node-label.csv` | the class of a node, 0 to C − 1 |
//! | `split/SCHEME/{train,valid,test}.csv` | the number of a node |
//!
//! Hu et al., "Open Graph Benchmark: Datasets for Machine Learning on Graphs", NeurIPS 2020. Sets with
//! several labels per node or features of edges are not read.

use super::files::{at_line, open_unpacked};
use super::{Dataset, Direction, Files, Split};
use crate::error::{Error, Result};
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::sparse::{Csr, Pattern};
use crate::tensor::tensor;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

/// The files of ogbn-arxiv, as `ogb` unpacks them.
pub const ARXIV: Files = Files {
    names: &[
        "raw/num-node-list.csv.gz|raw/num-node-list.csv",
        "raw/num-edge-list.csv.gz|raw/num-edge-list.csv",
        "raw/edge.csv.gz|raw/edge.csv",
        "raw/node-feat.csv.gz|raw/node-feat.csv",
        "raw/node-label.csv.gz|raw/node-label.csv",
        "split/time/train.csv.gz|split/time/train.csv",
        "split/time/valid.csv.gz|split/time/valid.csv",
        "split/time/test.csv.gz|split/time/test.csv",
    ],
    folders: &["ogbn_arxiv", "ogb/ogbn_arxiv", "dataset/ogbn_arxiv", ""],
    address: "https://ogb.stanford.edu/docs/nodeprop/#ogbn-arxiv",
};

/// The most bytes of a file, decompressed: those of ogbn-products' features, about 2.5 GB, are too many.
const MOST_BYTES: usize = 1 << 31;

/// The most bytes of a line.
const MOST_LINE: usize = 1 << 22;

/// The largest number of nodes: ogbn-arxiv has 169 343, ogbn-products 2 449 029.
const MOST_NODES: usize = 1 << 22;

/// The largest number of edges.
const MOST_EDGES: usize = 1 << 26;

/// The largest number of features of all nodes together.
const MOST_FEATURES: usize = 1 << 29;

/// The largest number of classes.
const MOST_CLASSES: usize = 1 << 10;

/// Reads the set in `folder`, such as `dataset/ogbn_arxiv`, whose name becomes that of the set. The split is
/// the only one below `split/`, or the one that `scheme` names (`time` for ogbn-arxiv).
///
/// # Errors
/// If a file is missing, or a line is not what the format has there; the message names file and line. If
/// there is no split, or there are several and none is named.
pub fn load(folder: &Path, scheme: Option<&str>, direction: Direction) -> Result<Dataset> {
    let raw = folder.join("raw");
    let nodes = single(&raw, "num-node-list", MOST_NODES)?;
    let declared = single(&raw, "num-edge-list", MOST_EDGES)?;
    let edges = edges(&raw, nodes, declared)?;
    let (labels, classes) = labels(&raw, nodes)?;
    let split = split(folder, scheme, nodes)?;
    let graph = Graph::new(nodes, &edges, Duplicates::Merge, SelfLoops::Remove)?;
    let graph = match direction {
        Direction::Directed => graph,
        Direction::Symmetrised => {
            let both = edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
            let both: Vec<_> = both.collect();
            Graph::new(nodes, &both, Duplicates::Merge, SelfLoops::Remove)?
        }
    };
    let name = folder.file_name();
    let name = name.map_or("ogb".to_owned(), |name| name.to_string_lossy().into_owned());
    let features = features(&raw, nodes)?;
    Dataset::new(name, graph, features, labels, classes, vec![split])
}

/// The lines of `folder/name.csv` or `folder/name.csv.gz`, read one after the other: who knows how many there are
/// reads no more, however long the file is.
struct Lines {
    path: PathBuf,
    text: Box<dyn BufRead>,
    is_packed: bool,
    /// The number of bytes read, decompressed.
    bytes: usize,
    /// The number of the last line, from 1.
    number: usize,
    line: String,
}

impl Lines {
    fn open(folder: &Path, name: &str) -> Result<Self> {
        let candidates = ["csv.gz", "csv"].map(|ending| folder.join(format!("{name}.{ending}")));
        let Some(path) = candidates.iter().find(|path| path.is_file()).cloned() else {
            return Err(Error::NotFound {
                what: format!("{name}.csv.gz or {name}.csv"),
                looked: vec![folder.to_path_buf()],
                address: "https://ogb.stanford.edu/docs/nodeprop/".to_owned(),
            });
        };
        let (text, is_packed) = open_unpacked(&path)?;
        Ok(Self {
            path,
            text,
            is_packed,
            bytes: 0,
            number: 0,
            line: String::new(),
        })
    }

    /// Reads the next line that is not empty; `false` at the end of the file.
    fn next(&mut self) -> Result<bool> {
        loop {
            let mut line = std::mem::take(&mut self.line).into_bytes();
            line.clear();
            let mut limited = (&mut self.text).take(MOST_LINE as u64 + 1);
            let read = limited
                .read_until(b'\n', &mut line)
                .map_err(|e| match self.is_packed {
                    true => Error::format(&self.path, 0, "a whole gzip file", e.to_string()),
                    false => Error::io(&self.path, e),
                })?;
            if read == 0 {
                return Ok(false);
            }
            self.number += 1;
            if line.len() > MOST_LINE {
                let rule = format!("a line of at most {MOST_LINE} bytes");
                return Err(self.wrong(rule, "a longer one"));
            }
            let from = self.bytes;
            self.bytes += read;
            if self.bytes > MOST_BYTES {
                let rule = format!("the end of the file: at most {MOST_BYTES} bytes are read");
                return Err(Error::format(&self.path, MOST_BYTES as u64, rule, "more"));
            }
            self.line = String::from_utf8(line).map_err(|e| {
                let byte = from + e.utf8_error().valid_up_to();
                Error::format(&self.path, byte as u64, "text", "bytes that are not UTF-8")
            })?;
            if !self.line.trim().is_empty() {
                return Ok(true);
            }
        }
    }

    /// The last line.
    fn text(&self) -> &str {
        self.line.trim()
    }

    /// What is wrong with the last line.
    fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        at_line(&self.path, self.number.max(1) as u64, expected, found)
    }

    /// The whole number in the next line, which is below `limit`; `None` at the end of the file.
    fn whole(&mut self, limit: usize) -> Result<Option<usize>> {
        if !self.next()? {
            return Ok(None);
        }
        let number = whole(self.text(), limit);
        let number = number.map_err(|found| self.wrong(below(limit), found))?;
        Ok(Some(number))
    }

    /// Refuses another number of lines than `count`, `read` of which were read.
    fn check_count(&mut self, read: usize, count: usize, rule: &str) -> Result<()> {
        let rule = format!("{count} {rule}");
        if read < count {
            return Err(self.wrong(rule, format!("the end of the file after {read}")));
        }
        match self.next()? {
            false => Ok(()),
            true => Err(self.wrong(rule, "more")),
        }
    }
}

/// The rule of [`whole`].
fn below(limit: usize) -> String {
    format!("a whole number below {limit}")
}

/// A whole number below `limit`, which may be written as `3.0`; else the text.
fn whole(text: &str, limit: usize) -> Result<usize, &str> {
    let text = text.trim();
    let digits = text.strip_suffix(".0").unwrap_or(text);
    let number = digits.parse::<usize>().ok();
    number.filter(|number| *number < limit).ok_or(text)
}

/// The only number of a file, at most `most`.
fn single(folder: &Path, name: &str, most: usize) -> Result<usize> {
    let mut lines = Lines::open(folder, name)?;
    let Some(number) = lines.whole(most + 1)? else {
        return Err(lines.wrong("a number", "the end of the file"));
    };
    match lines.next()? {
        false => Ok(number),
        true => Err(lines.wrong("the end of the file: a set of one graph", lines.text())),
    }
}

fn edges(folder: &Path, nodes: usize, declared: usize) -> Result<Vec<(u32, u32)>> {
    let mut lines = Lines::open(folder, "edge")?;
    let mut edges = Vec::new();
    while edges.len() < declared && lines.next()? {
        let Some((source, target)) = lines.text().split_once(',') else {
            return Err(lines.wrong("source,target", lines.text()));
        };
        let node = |text| whole(text, nodes).map_err(|found| lines.wrong(below(nodes), found));
        edges.push((node(source)? as u32, node(target)? as u32));
    }
    lines.check_count(edges.len(), declared, "edges, as num-edge-list says")?;
    Ok(edges)
}

/// The features, those that are not 0 as entries of a sparse matrix.
fn features(folder: &Path, nodes: usize) -> Result<Csr<f32>> {
    let mut lines = Lines::open(folder, "node-feat")?;
    let (mut starts, mut columns, mut values) = (vec![0usize], Vec::new(), Vec::new());
    let mut width = None;
    while starts.len() <= nodes && lines.next()? {
        let mut count = 0usize;
        for number in lines.text().split(',') {
            let value: f32 = number.trim().parse().unwrap_or(f32::NAN);
            if !value.is_finite() {
                return Err(lines.wrong("finite numbers", number.trim()));
            }
            if value != 0.0 {
                columns.push(count as u32);
                values.push(value);
            }
            count += 1;
        }
        let expected = *width.get_or_insert(count);
        if count != expected || count.saturating_mul(nodes) > MOST_FEATURES {
            let rule = match count == expected {
                false => format!("{expected} numbers, as in the first line"),
                true => format!("at most {} numbers", MOST_FEATURES / nodes.max(1)),
            };
            return Err(lines.wrong(rule, count.to_string()));
        }
        starts.push(columns.len());
    }
    lines.check_count(starts.len() - 1, nodes, "lines, one per node")?;
    let pattern = Pattern::new(nodes, width.unwrap_or(0), starts, columns)?;
    let values = tensor(&[values.len()], values);
    Ok(Csr { pattern, values })
}

fn labels(folder: &Path, nodes: usize) -> Result<(Vec<usize>, usize)> {
    let mut lines = Lines::open(folder, "node-label")?;
    let mut labels = Vec::new();
    while labels.len() < nodes
        && let Some(label) = lines.whole(MOST_CLASSES)?
    {
        labels.push(label);
    }
    lines.check_count(labels.len(), nodes, "lines, one per node")?;
    let classes = labels.iter().max().map_or(0, |&c| c + 1);
    Ok((labels, classes))
}

/// The nodes of a part of a split.
fn part(folder: &Path, name: &str, nodes: usize) -> Result<Vec<usize>> {
    let mut lines = Lines::open(folder, name)?;
    let (mut part, mut is_listed) = (Vec::new(), vec![false; nodes]);
    while let Some(node) = lines.whole(nodes)? {
        if std::mem::replace(&mut is_listed[node], true) {
            return Err(lines.wrong("a node that no line before has", node.to_string()));
        }
        part.push(node);
    }
    Ok(part)
}

fn split(folder: &Path, scheme: Option<&str>, nodes: usize) -> Result<Split> {
    let all = folder.join("split");
    let scheme = match scheme {
        Some(scheme) => scheme.to_owned(),
        None => {
            let entries = std::fs::read_dir(&all).map_err(|e| Error::io(&all, e))?;
            let mut names: Vec<String> = entries
                .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
                .collect();
            names.sort();
            match &names[..] {
                [only] => only.clone(),
                several => {
                    let found = match several {
                        [] => "none".to_owned(),
                        several => several.join(", "),
                    };
                    let what = crate::error::printable(&all);
                    return Err(Error::invalid(what, "one split, or the name of one", found));
                }
            }
        }
    };
    let folder = all.join(scheme);
    let (train, valid, test) = (
        part(&folder, "train", nodes)?,
        part(&folder, "valid", nodes)?,
        part(&folder, "test", nodes)?,
    );
    Ok(Split::from_indices(nodes, &train, &valid, &test))
}
