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

use super::files::read_unpacked;
use super::{Dataset, Direction, Split};
use crate::error::{Error, Result};
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::sparse::{Csr, Pattern};
use crate::tensor::tensor;
use std::path::{Path, PathBuf};

/// The most bytes of a file, decompressed: those of ogbn-products' features, about 2.5 GB, are too many.
const MOST_BYTES: usize = 1 << 31;

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

/// The lines of `folder/name.csv` or `folder/name.csv.gz`.
struct Lines {
    path: PathBuf,
    text: String,
}

impl Lines {
    fn read(folder: &Path, name: &str) -> Result<Self> {
        let candidates = ["csv.gz", "csv"].map(|ending| folder.join(format!("{name}.{ending}")));
        let Some(path) = candidates.iter().find(|path| path.is_file()).cloned() else {
            return Err(Error::NotFound {
                what: format!("{name}.csv.gz or {name}.csv"),
                looked: vec![folder.to_path_buf()],
                address: "https://ogb.stanford.edu/docs/nodeprop/".to_owned(),
            });
        };
        let bytes = read_unpacked(&path, MOST_BYTES)?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let byte = e.utf8_error().valid_up_to() as u64;
            Error::format(&path, byte, "text", "bytes that are not UTF-8")
        })?;
        Ok(Self { path, text })
    }

    /// What is wrong with a line, counted from 1.
    fn wrong(&self, line: usize, expected: impl Into<String>, found: impl Into<String>) -> Error {
        let what = format!("{}: line {line}", crate::error::printable(&self.path));
        Error::invalid(what, expected.into(), found.into())
    }

    /// All lines that are not empty, with their numbers.
    fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self.text.lines().enumerate();
        let full = numbered.filter(|(_, line)| !line.trim().is_empty());
        full.map(|(k, line)| (k + 1, line.trim()))
    }

    /// A whole number below `limit`; whole numbers may be written as `3.0`.
    fn whole(&self, line: usize, text: &str, limit: usize) -> Result<usize> {
        let text = text.trim();
        let digits = text.strip_suffix(".0").unwrap_or(text);
        match digits.parse::<usize>() {
            Ok(number) if number < limit => Ok(number),
            _ => Err(self.wrong(line, format!("a whole number below {limit}"), text)),
        }
    }
}

/// The only number of a file, at most `most`.
fn single(folder: &Path, name: &str, most: usize) -> Result<usize> {
    let lines = Lines::read(folder, name)?;
    let mut all = lines.iter();
    let Some((line, text)) = all.next() else {
        return Err(lines.wrong(1, "a number", "the end of the file"));
    };
    if let Some((line, text)) = all.next() {
        return Err(lines.wrong(line, "the end of the file: a set of one graph", text));
    }
    lines.whole(line, text, most + 1)
}

fn edges(folder: &Path, nodes: usize, declared: usize) -> Result<Vec<(u32, u32)>> {
    let lines = Lines::read(folder, "edge")?;
    let mut edges = Vec::new();
    for (line, text) in lines.iter() {
        let Some((source, target)) = text.split_once(',') else {
            return Err(lines.wrong(line, "source,target", text));
        };
        let node = |text| lines.whole(line, text, nodes).map(|node| node as u32);
        edges.push((node(source)?, node(target)?));
        if edges.len() > declared {
            break;
        }
    }
    if edges.len() != declared {
        let found = if edges.len() > declared {
            "more"
        } else {
            "fewer"
        };
        let rule = format!("{declared} edges, as num-edge-list says");
        return Err(lines.wrong(edges.len(), rule, found));
    }
    Ok(edges)
}

/// The features, those that are not 0 as entries of a sparse matrix.
fn features(folder: &Path, nodes: usize) -> Result<Csr<f32>> {
    let lines = Lines::read(folder, "node-feat")?;
    let (mut starts, mut columns, mut values) = (vec![0usize], Vec::new(), Vec::new());
    let mut width = None;
    for (line, text) in lines.iter() {
        let mut count = 0usize;
        for number in text.split(',') {
            let value: f32 = number.trim().parse().unwrap_or(f32::NAN);
            if !value.is_finite() {
                return Err(lines.wrong(line, "finite numbers", number.trim()));
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
            return Err(lines.wrong(line, rule, count.to_string()));
        }
        starts.push(columns.len());
        if starts.len() > nodes + 1 {
            break;
        }
    }
    if starts.len() != nodes + 1 {
        let rule = format!("{nodes} lines, one per node");
        return Err(lines.wrong(starts.len() - 1, rule, (starts.len() - 1).to_string()));
    }
    let pattern = Pattern::new(nodes, width.unwrap_or(0), starts, columns)?;
    let values = tensor(&[values.len()], values);
    Ok(Csr { pattern, values })
}

fn labels(folder: &Path, nodes: usize) -> Result<(Vec<usize>, usize)> {
    let lines = Lines::read(folder, "node-label")?;
    let mut labels = Vec::new();
    for (line, text) in lines.iter() {
        labels.push(lines.whole(line, text, MOST_CLASSES)?);
    }
    if labels.len() != nodes {
        let rule = format!("{nodes} lines, one per node");
        return Err(lines.wrong(labels.len(), rule, labels.len().to_string()));
    }
    let classes = labels.iter().max().map_or(0, |&c| c + 1);
    Ok((labels, classes))
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
    let part = |name: &str| -> Result<Vec<usize>> {
        let lines = Lines::read(&folder, name)?;
        lines
            .iter()
            .map(|(line, text)| lines.whole(line, text, nodes))
            .collect()
    };
    let (train, valid, test) = (part("train")?, part("valid")?, part("test")?);
    Ok(Split::from_indices(nodes, &train, &valid, &test))
}
