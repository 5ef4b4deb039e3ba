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
//! Classes are numbered in the order of the labels: as numbers if all are whole numbers, else as texts. A split that
//! is drawn has the shares [`Options::shares`] of each class, and follows from [`Options::seed`].
//!
//! # The edge list
//! A line per edge with two fields, the ids of source and target. Edges that are listed twice count once; an edge
//! from a node to itself is left out (layers that need self-loops add them).
//!
//! Fields may be in quotes, blanks around a field do not count, and both files may be compressed by gzip.

use super::files::{at_line, open_unpacked};
use super::{Dataset, Direction, Split};
use crate::error::{Error, Result, Rules, printable};
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::init;
use crate::sparse::{Csr, Pattern};
use crate::tensor::tensor;
use ::csv::{ErrorKind, Reader, ReaderBuilder, StringRecord, Trim};
use rand::seq::SliceRandom;
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// The most classes: with more, the column of labels is one of numbers that nobody classifies.
const MOST_CLASSES: usize = 1 << 10;

/// The most numbers of features of all nodes together.
const MOST_FEATURES: usize = 1 << 29;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// The one with this name in the first line.
    Named(String),
    /// The one with this number, from 1.
    Number(usize),
    /// The last one.
    Last,
}

/// How the two files are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The name of the set; default: that of the file of nodes.
    pub name: Option<String>,
    /// Whether the first line of the table of nodes has the names of its columns; default yes
    pub header: bool,
    /// Whether the first line of the edge list has names; default yes
    pub edge_header: bool,
    /// The ids of the nodes; default the first column
    pub id: Column,
    /// The classes; default the column `label`, without a header the last
    pub label: Column,
    /// The parts of the split; default the column `split` if there is one
    pub split: Option<Column>,
    /// What separates fields; default a comma
    pub delimiter: u8,
    /// Whether an edge leads both ways; default: it does.
    pub direction: Direction,
    /// The shares of a class that train and validate where the split is drawn, the rest tests; default 0.6 and 0.2
    pub shares: [f64; 2],
    /// The seed of a split that is drawn; default 0
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            header: true,
            edge_header: true,
            id: Column::Number(1),
            label: Column::Named("label".to_owned()),
            split: None,
            delimiter: b',',
            direction: Direction::default(),
            shares: [0.6, 0.2],
            seed: 0,
        }
    }
}

impl Options {
    /// For two files without names of columns: ids are in the first column, labels in the last, and the split is
    /// drawn.
    pub fn without_headers() -> Self {
        Self {
            header: false,
            edge_header: false,
            label: Column::Last,
            ..Self::default()
        }
    }

    /// Checks the shares: above 0, and below 1 together.
    ///
    /// # Errors
    /// If they are not.
    pub fn validate(&self) -> Result<()> {
        let [train, val] = self.shares;
        let holds = train > 0.0 && val > 0.0 && train + val < 1.0;
        let rule = "two numbers above 0 whose sum is below 1";
        Rules("split").hold(holds, "shares", rule, format!("{train} and {val}"))
    }
}

/// Reads a set from an edge list and a table of nodes.
///
/// # Errors
/// If a file cannot be read, or is not text in UTF-8; if a line is not what the [module](self) says; if a column is
/// missing, an id occurs twice, or an edge names an id that no node has. The message names file and line, and what
/// was expected there.
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

/// A file of lines with fields.
struct Lines {
    path: PathBuf,
    reader: Reader<Box<dyn BufRead>>,
    record: StringRecord,
}

impl Lines {
    fn open(path: &Path, delimiter: u8) -> Result<Self> {
        let (text, _) = open_unpacked(path)?;
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true);
        builder.trim(Trim::All).delimiter(delimiter);
        Ok(Self {
            path: path.to_owned(),
            reader: builder.from_reader(text),
            record: StringRecord::new(),
        })
    }

    /// Reads the next line that is not empty; `false` at the end of the file.
    fn next(&mut self) -> Result<bool> {
        loop {
            match self.reader.read_record(&mut self.record) {
                // A line of blanks is one empty field.
                Ok(true) if self.record.len() == 1 && self.record[0].is_empty() => {}
                Ok(is_there) => return Ok(is_there),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, error: ::csv::Error) -> Error {
        let line = error.position().map_or(1, ::csv::Position::line);
        match error.into_kind() {
            ErrorKind::Io(error) => Error::io(&self.path, error),
            ErrorKind::Utf8 { err, .. } => {
                let found = format!("bytes that are not UTF-8 in field {}", err.field() + 1);
                at_line(&self.path, line, "text in UTF-8", found)
            }
            other => at_line(&self.path, line, "fields", format!("{other:?}")),
        }
    }

    /// The number of the last line that was read, from 1.
    fn number(&self) -> u64 {
        self.record.position().map_or(1, ::csv::Position::line)
    }

    /// What is wrong with the last line.
    fn wrong(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        at_line(&self.path, self.number(), expected, found)
    }
}

/// A part of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Train,
    Val,
    Test,
}

/// The table of nodes.
struct Table {
    /// The number of each node by its id.
    ids: HashMap<String, u32>,
    /// The label of each node; empty for none.
    labels: Vec<String>,
    /// The part of each node, if there is such a column.
    parts: Option<Vec<Option<Part>>>,
    width: usize,
    /// Features that are not 0, as rows of a sparse matrix.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

/// The columns of a table by what they hold.
struct Columns {
    /// The names in messages.
    names: Vec<String>,
    id: usize,
    label: usize,
    split: Option<usize>,
}

impl Columns {
    /// From the first line.
    fn find(lines: &Lines, options: &Options) -> Result<Self> {
        let first = &lines.record;
        let place = |column: &Column, what: &str| -> Result<usize> {
            let found = match column {
                Column::Named(name) if options.header => first.iter().position(|f| f == name),
                Column::Named(_) => None,
                Column::Number(number) => number.checked_sub(1).filter(|k| *k < first.len()),
                Column::Last => first.len().checked_sub(1),
            };
            let listed = || first.iter().collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| match column {
                Column::Named(name) if options.header => {
                    lines.wrong(format!("a column {name:?} with the {what}"), listed())
                }
                Column::Named(name) => lines.wrong(
                    format!("a first line with names, among them {name:?}"),
                    "no header, as the options say",
                ),
                column => {
                    let rule = format!("a column with the {what}, {column:?}");
                    lines.wrong(rule, format!("{} columns", first.len()))
                }
            })
        };
        let (id, label) = (place(&options.id, "ids")?, place(&options.label, "labels")?);
        let split = match &options.split {
            Some(column) => Some(place(column, "split")?),
            None if options.header => first.iter().position(|name| name == "split"),
            None => None,
        };
        let names = first
            .iter()
            .enumerate()
            .map(|(k, name)| match options.header {
                true => format!("{name:?}"),
                false => format!("{}", k + 1),
            });
        let special = [Some(id), Some(label), split];
        let count = special.iter().flatten().count();
        let twice = (0..3).any(|k| special[k].is_some() && special[..k].contains(&special[k]));
        if twice || first.len() <= count {
            let rule = "columns with the ids, the labels, and at least one feature";
            let found = first.iter().collect::<Vec<_>>().join(", ");
            return Err(lines.wrong(rule, found));
        }
        Ok(Self {
            names: names.collect(),
            id,
            label,
            split,
        })
    }

    /// Whether the column holds a feature.
    fn is_feature(&self, column: usize) -> bool {
        column != self.id && column != self.label && Some(column) != self.split
    }
}

impl Table {
    fn read(path: &Path, options: &Options) -> Result<Self> {
        let mut lines = Lines::open(path, options.delimiter)?;
        let none = |path: &Path| {
            let rule = "a table with a line for each node";
            Error::invalid(printable(path), rule, "a file without nodes")
        };
        if !lines.next()? {
            return Err(none(path));
        }
        let columns = Columns::find(&lines, options)?;
        let mut table = Self {
            ids: HashMap::new(),
            labels: Vec::new(),
            parts: columns.split.map(|_| Vec::new()),
            width: (0..columns.names.len())
                .filter(|&k| columns.is_feature(k))
                .count(),
            starts: vec![0],
            columns: Vec::new(),
            values: Vec::new(),
        };
        if options.header && !lines.next()? {
            return Err(none(path));
        }
        let (mut classes, mut first_lines) = (HashMap::new(), Vec::new());
        loop {
            table.add(&lines, &columns, &first_lines)?;
            first_lines.push(lines.number());
            let label = table.labels.last().expect("just added");
            *classes.entry(label.clone()).or_insert(0) += 1;
            if classes.len() > MOST_CLASSES {
                let rule = format!("labels of at most {MOST_CLASSES} classes");
                return Err(lines.wrong(rule, format!("another one, {label:?}")));
            }
            if !lines.next()? {
                break;
            }
        }
        classes.remove("");
        match classes.is_empty() {
            false => Ok(table),
            true => Err(Error::invalid(
                printable(path),
                "a node with a label",
                "none",
            )),
        }
    }

    /// Adds the node of the last line that was read.
    fn add(&mut self, lines: &Lines, columns: &Columns, first_lines: &[u64]) -> Result<()> {
        let (record, count) = (&lines.record, columns.names.len());
        if record.len() != count {
            let rule = format!("{count} fields, as in the first line");
            return Err(lines.wrong(rule, record.len().to_string()));
        }
        let id = &record[columns.id];
        if id.is_empty() {
            return Err(lines.wrong("an id of the node", "an empty field"));
        }
        let node = self.labels.len();
        if node > u32::MAX as usize || (node + 1).saturating_mul(self.width) > MOST_FEATURES {
            let rule = format!("at most {MOST_FEATURES} features of all nodes together");
            return Err(lines.wrong(rule, "more"));
        }
        if let Some(before) = self.ids.insert(id.to_owned(), node as u32) {
            let found = format!("{id:?} of line {}", first_lines[before as usize]);
            return Err(lines.wrong("an id that no node before has", found));
        }
        let label = &record[columns.label];
        self.labels.push(label.to_owned());
        if let (Some(parts), Some(column)) = (&mut self.parts, columns.split) {
            let part = match record[column].to_lowercase().as_str() {
                "train" => Some(Part::Train),
                "val" | "valid" | "validation" => Some(Part::Val),
                "test" => Some(Part::Test),
                "" | "none" => None,
                _ => {
                    let rule = "train, val, test, or nothing";
                    return Err(lines.wrong(rule, format!("{:?}", &record[column])));
                }
            };
            if part.is_some() && label.is_empty() {
                let rule = "a label, since the node is in the split";
                return Err(lines.wrong(rule, "an empty field"));
            }
            parts.push(part);
        }
        let features = (0..count).filter(|&k| columns.is_feature(k));
        for (feature, column) in features.enumerate() {
            let text = &record[column];
            let value = text.parse::<f32>().ok().filter(|x| x.is_finite());
            let Some(value) = value else {
                let rule = format!("a finite number in column {}", columns.names[column]);
                return Err(lines.wrong(rule, format!("{text:?}")));
            };
            if value != 0.0 {
                self.columns.push(feature as u32);
                self.values.push(value);
            }
        }
        self.starts.push(self.columns.len());
        Ok(())
    }
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
                let rule = "two fields, the ids of source and target";
                return Err(lines.wrong(rule, count.to_string()));
            }
        };
        if std::mem::take(&mut is_header) {
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
    for (node, name) in names
        .iter()
        .enumerate()
        .filter(|(_, name)| !name.is_empty())
    {
        debug_assert!(!name.is_empty());
        members[labels[node]].push(node);
    }
    let mut rng = init::rng(options.seed);
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
