//! Tables as a paper prints them.

use crate::support::paper::Number;

/// What stands behind ± in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Half the width of the 95 % confidence interval of the mean.
    Interval,
    /// The standard deviation.
    Deviation,
}

/// A number of a table and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Printed {
    /// The data set, or the task; it decides how many examples are tested.
    pub set: String,
    pub row: String,
    pub column: String,
    pub number: Number,
}

/// A table of a paper.
#[derive(Debug, Clone)]
pub struct Table {
    pub paper: &'static str,
    pub number: u32,
    /// What the paper says of the numbers: runs, and the meaning of ±.
    pub runs: Option<u32>,
    pub spread: Spread,
    /// Whether the numbers are percentages of correct answers.
    pub percent: bool,
    pub cells: Vec<Printed>,
}

impl Table {
    /// `003 Table 2`, with the name of the program in place of the number of the paper.
    pub fn name(&self) -> String {
        format!("{} {}", self.paper, self.number)
    }

    /// The sets of the table, in order.
    pub fn sets(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| &*cell.set))
    }

    /// The rows of the table, in order.
    pub fn rows(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| &*cell.row))
    }

    /// The numbers of a set.
    pub fn of_set(&self, set: &str) -> Vec<&Printed> {
        self.cells.iter().filter(|cell| cell.set == set).collect()
    }

    /// The numbers of a row.
    pub fn of_row(&self, row: &str) -> Vec<&Printed> {
        self.cells.iter().filter(|cell| cell.row == row).collect()
    }
}

/// Each text once, in the order of its first occurrence.
fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut out = Vec::new();
    for text in texts {
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out
}
