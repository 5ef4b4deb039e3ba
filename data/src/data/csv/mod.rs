//! A graph of your own: an edge list and a table of nodes, in CSV.
//!
//! ```text
//! edges.csv        nodes.csv
//! from,to          name,age,income,label,split
//! ada,bob          ada,36,2.5,yes,train
//! bob,eve          bob,41,3.0,no,val
//! ..               eve,29,1.5,yes,test
//! ```
//!
//! [`load`] reads both:
//!
//! ```
//! use emmy::data::csv::{self, Options};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let (edges, nodes) = (folder.path().join("edges.csv"), folder.path().join("nodes.csv"));
//! std::fs::write(&edges, "from,to\nada,bob\nbob,eve\n").unwrap();
//! let table = "name,age,income,label,split\nada,36,2.5,yes,train\nbob,41,3.0,no,val\neve,29,1.5,yes,test\n";
//! std::fs::write(&nodes, table).unwrap();
//!
//! let set = csv::load(&edges, &nodes, &Options::default())?;
//! assert_eq!((set.nodes(), set.graph.edges()), (3, 4)); // each edge in both directions
//! assert_eq!((set.feature_count(), set.classes), (2, 2));
//! assert_eq!(set.labels, [1, 0, 1]); // "no" is before "yes"
//! assert_eq!(set.splits[0].counts(), [1, 1, 1]);
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! # The table of nodes
//! A line per node; its number in the graph is that of its line, from 0.
//!
//! | column | what it holds |
//! |---|---|
//! | [`id`](Options::id) | a text or number that no other node has; the first column unless you say otherwise |
//! | [`label`](Options::label) | the class, a text or number; empty for a node without one, which is then in no part of the split |
//! | [`split`](Options::split) | `train`, `val` (or `valid`, `validation`), `test`, or nothing; without this column the split is drawn |
//! | every other | a feature, a finite number |
//!
//! Classes are numbered in the order of the labels: as numbers if all are whole numbers, else as texts. A
//! split that is drawn has the shares [`Options::shares`] of each class, and follows from
//! [`Options::seed`].
//!
//! # The edge list
//! A line per edge with two fields, the ids of source and target. Edges that are listed twice count once;
//! an edge from a node to itself is left out (layers that need self-loops add them).
//!
//! Fields may be in quotes, blanks around a field do not count, and both files may be compressed by gzip.

mod lines;
mod options;
mod table;

pub use options::{Column, Options};

use super::{Dataset, Direction, Split};
use crate::error::{Error, Result, printable};
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::kernels::draw;
use crate::sparse::{Csr, Pattern};
use crate::tensor::tensor;
use lines::Lines;
use rand::seq::SliceRandom;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use table::{Part, Table};

/// Reads a set from an edge list and a table of nodes.
///
/// # Errors
/// If a file cannot be read, or is not text in UTF-8; if a line is not what the [module](self) says; if a
/// column is missing, an id occurs twice, or an edge names an id that no node has. The message names file
/// and line, and what was expected there.
pub fn load(edges: &Path, nodes: &Path, options: &Options) -> Result<Dataset> {
    options.validate()?;
    let table = Table::read(nodes, options)?;
    let n = table.labels.len();
    let pairs = read_edges(edges, &table.ids, options)?;
    let graph = Graph::new(n, &pairs, Duplicates::Merge, SelfLoops::Remove)?;
    let graph = match options.direction {
        Direction::Directed => graph,
        Direction::Symmetrised => {
            let both = pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
            let both: Vec<_> = both.collect();
            Graph::new(n, &both, Duplicates::Merge, SelfLoops::Remove)?
        }
    };
    let (labels, classes) = numbered(&table.labels);
    let split = match table.parts {
        Some(parts) => {
            let mask = |part| parts.iter().map(|p| *p == Some(part)).collect();
            Split {
                train: mask(Part::Train),
                val: mask(Part::Val),
                test: mask(Part::Test),
            }
        }
        None => drawn(&table.labels, &labels, classes, options),
    };
    let file = || {
        nodes
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let name = (options.name.clone().or_else(file)).unwrap_or_else(|| "csv".to_owned());
    let values = tensor(&[table.values.len()], table.values);
    let features = Csr {
        pattern: Pattern::new(n, table.width, table.starts, table.columns)?,
        values,
    };
    Dataset::new(name, graph, features, labels, classes, vec![split])
}

fn read_edges(
    path: &Path,
    ids: &HashMap<String, u32>,
    options: &Options,
) -> Result<Vec<(u32, u32)>> {
    let mut lines = Lines::open(path, options.delimiter)?;
    let mut edges = Vec::new();
    let mut is_header = options.edge_header;
    while lines.next()? {
        let [source, target] = match lines.record.len() {
            2 => [&lines.record[0], &lines.record[1]],
            count => {
                let between = char::from(options.delimiter);
                let rule = format!(
                    "two fields, the ids of source and target, with {between:?} between them"
                );
                return Err(lines.wrong(rule, count.to_string()));
            }
        };
        if std::mem::take(&mut is_header) {
            if ids.contains_key(source) && ids.contains_key(target) {
                let rule = "a first line with names of the two columns; a list without one has edge_header: false";
                return Err(lines.wrong(rule, format!("an edge, {source:?} to {target:?}")));
            }
            continue;
        }
        let node = |id: &str| {
            let rule = "the id of a node of the table";
            ids.get(id)
                .copied()
                .ok_or_else(|| lines.wrong(rule, format!("{id:?}")))
        };
        edges.push((node(source)?, node(target)?));
    }
    match edges.is_empty() {
        false => Ok(edges),
        true => Err(Error::invalid(
            printable(path),
            "a list with a line for each edge",
            "a file without edges",
        )),
    }
}

/// The class of each node, 0 for a node without label, and the number of classes.
fn numbered(labels: &[String]) -> (Vec<usize>, usize) {
    let given = || {
        labels
            .iter()
            .map(String::as_str)
            .filter(|label| !label.is_empty())
    };
    let whole = |label: &str| label.parse::<i64>().ok();
    let are_numbers = given().all(|label| whole(label).is_some());
    let key = |label: &str| match are_numbers {
        true => (whole(label).unwrap_or_default(), String::new()),
        false => (0, label.to_owned()),
    };
    let classes: BTreeMap<_, _> = given().map(|label| (key(label), ())).collect();
    let number: HashMap<_, usize> = classes.into_keys().zip(0..).collect();
    let of = |label: &String| {
        number
            .get(&key(label))
            .copied()
            .filter(|_| !label.is_empty())
    };
    let labels = labels.iter().map(|label| of(label).unwrap_or(0)).collect();
    (labels, number.len())
}

/// The shares of each class, drawn; at least one node of a class trains.
fn drawn(names: &[String], labels: &[usize], classes: usize, options: &Options) -> Split {
    let mut members = vec![Vec::new(); classes];
    for (node, _) in names
        .iter()
        .enumerate()
        .filter(|(_, name)| !name.is_empty())
    {
        members[labels[node]].push(node);
    }
    let mut rng = draw::rng(options.seed);
    let [mut train, mut val, mut test] = [const { Vec::new() }; 3];
    for mut class in members {
        class.shuffle(&mut rng);
        let share = |share: f64| (share * class.len() as f64).round() as usize;
        let first = share(options.shares[0]).max(1);
        let second = (first + share(options.shares[1])).min(class.len());
        train.extend(&class[..first]);
        val.extend(&class[first..second]);
        test.extend(&class[second..]);
    }
    Split::from_indices(names.len(), &train, &val, &test)
}
