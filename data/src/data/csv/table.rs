//! The table of nodes.

use super::lines::Lines;
use super::options::{Column, Options};
use crate::error::{Error, Result, printable};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The most classes: with more, the column of labels is one of numbers that nobody classifies.
const MOST_CLASSES: usize = 1 << 10;

/// The most numbers of features of all nodes together.
const MOST_FEATURES: usize = 1 << 29;

/// A part of the split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Train,
    Val,
    Test,
}

/// The table of nodes.
pub(super) struct Table {
    /// The number of each node by its id.
    pub ids: HashMap<String, u32>,
    /// The label of each node; empty for none.
    pub labels: Vec<String>,
    /// The part of each node, if there is such a column.
    pub parts: Option<Vec<Option<Part>>>,
    pub width: usize,
    /// Features that are not 0, as rows of a sparse matrix.
    pub starts: Vec<usize>,
    pub columns: Vec<u32>,
    pub values: Vec<f32>,
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
        let named = |name: &str| -> Result<Option<usize>> {
            let mut places = (0..first.len()).filter(|&k| &first[k] == name);
            match (places.next(), places.next()) {
                (Some(a), Some(b)) => Err(lines.wrong(
                    format!("one column {name:?}"),
                    format!("two, columns {} and {}", a + 1, b + 1),
                )),
                (found, _) => Ok(found),
            }
        };
        let place = |column: &Column, what: &str| -> Result<usize> {
            let found = match column {
                Column::Named(name) if options.header => named(name)?,
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
            None if options.header => named("split")?,
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

/// A label, numbers in one spelling.
fn class(label: &str) -> String {
    let number = label.parse::<i64>().ok();
    number.map_or_else(|| label.to_owned(), |number| number.to_string())
}

impl Table {
    pub fn read(path: &Path, options: &Options) -> Result<Self> {
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
        let (mut classes, mut places) = (HashSet::new(), Vec::new());
        loop {
            table.add(&lines, &columns, &places)?;
            places.push(lines.byte());
            let label = table.labels.last().expect("just added");
            if !label.is_empty() {
                classes.insert(class(label));
            }
            if classes.len() > MOST_CLASSES {
                let rule = format!("labels of at most {MOST_CLASSES} classes");
                return Err(lines.wrong(rule, format!("another one, {label:?}")));
            }
            if !lines.next()? {
                break;
            }
        }
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
    fn add(&mut self, lines: &Lines, columns: &Columns, places: &[usize]) -> Result<()> {
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
            let line = lines.number(places[before as usize]);
            let found = format!("{id:?} of line {line}");
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
