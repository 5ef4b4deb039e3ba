//! How the edge list and the table of nodes are read.

use crate::data::Direction;
use crate::error::{Result, Rules};

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
    /// The shares of a class that train and validate where the split is drawn, the rest tests; default 0.6
    /// and 0.2
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
    /// For two files without names of columns: ids are in the first column, labels in the last, and the
    /// split is drawn.
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
