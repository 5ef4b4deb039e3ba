//! Plans: the cells of a table or a figure in order, with the paper's numbers.

use super::cell::{Cell, Finished, Runs};
use emmy::{Error, Result};

/// One number of a table: the paper's number, and the cells whose mean is printed beside it, one per seed.
#[derive(Debug, Clone)]
pub struct Entry<C> {
    pub row: String,
    pub column: String,
    /// The number as the paper prints it.
    pub paper: Option<String>,
    pub cells: Vec<C>,
}

/// A table or the numbers behind a figure.
#[derive(Debug, Clone)]
pub struct Plan<C> {
    pub title: String,
    pub entries: Vec<Entry<C>>,
}

impl<C: Clone> Plan<C> {
    /// The names of the rows, in order.
    pub fn rows(&self) -> Vec<&str> {
        distinct(self.entries.iter().map(|e| e.row.as_str()))
    }

    /// The names of the columns, in order.
    pub fn columns(&self) -> Vec<&str> {
        distinct(self.entries.iter().map(|e| e.column.as_str()))
    }

    /// The entry in a row and a column.
    pub fn entry_at(&self, row: &str, column: &str) -> Option<&Entry<C>> {
        (self.entries.iter()).find(|e| e.row == row && e.column == column)
    }

    /// The entries whose row or column has one of these texts in its name; all entries if there is
    /// no text.
    pub fn only(mut self, texts: &[String]) -> Self {
        let chosen = |e: &Entry<C>| texts.iter().any(|text| e.is_named(text));
        self.entries.retain(|e| texts.is_empty() || chosen(e));
        self
    }

    /// The entries of one row.
    pub fn of_row(&self, row: &str) -> Self {
        let entries = self.entries.iter().filter(|e| e.row == row);
        Self {
            title: self.title.clone(),
            entries: entries.cloned().collect(),
        }
    }

    /// The largest number of runs of an entry.
    pub fn runs_asked(&self) -> usize {
        let counts = self.entries.iter().map(|e| e.cells.len());
        counts.max().unwrap_or(0)
    }
}

impl<C: Cell> Plan<C> {
    /// The first finished run of each entry that has one.
    pub fn first_runs<'a>(&'a self, runs: &'a Runs<C>) -> Vec<(&'a Entry<C>, &'a Finished<C>)> {
        let entries = self.entries.iter();
        entries
            .filter_map(|e| Some((e, e.cells.iter().find_map(|cell| runs.of(cell))?)))
            .collect()
    }
}

impl<C> Entry<C> {
    /// Whether its row or its column has this text in its name.
    fn is_named(&self, text: &str) -> bool {
        self.row.contains(text) || self.column.contains(text)
    }
}

/// Each name once, in the order of first occurrence.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut out: Vec<&str> = Vec::new();
    for name in names {
        if !out.contains(&name) {
            out.push(name);
        }
    }
    out
}

/// Whether an entry is chosen.
type Test<'a, C> = Box<dyn Fn(&Entry<C>) -> bool + 'a>;

/// What a cell must have for an option that chooses cells.
const SOME_CELL: &str = "a value of some cell in the chosen tables and figures";

/// A value of an option that belongs to some cells: `--layers 3`.
pub struct Filter<'a, C> {
    option: &'a str,
    value: String,
    /// What a cell must have.
    rule: &'static str,
    chooses: Test<'a, C>,
}

impl<'a, C: 'a> Filter<'a, C> {
    /// The filters of an option: one per value, which chooses the cells that `fits` accepts for it.
    pub fn each<T: ToString>(
        option: &'a str,
        values: &'a [T],
        fits: impl Fn(&C, &T) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = Self> {
        let filter = move |value| Self::new(option, T::to_string(value), move |c| fits(c, value));
        values.iter().map(filter)
    }

    /// The filter of an option that chooses the cells for which `chooses` is true.
    pub fn new(option: &'a str, value: impl ToString, chooses: impl Fn(&C) -> bool + 'a) -> Self {
        Self {
            option,
            value: value.to_string(),
            rule: SOME_CELL,
            chooses: Box::new(move |e| e.cells.iter().any(&chooses)),
        }
    }

    /// The filter of an option that changes only the cells for which `uses` is true, if it is given: it must
    /// change one. `rule` says which cells they are.
    pub fn used<T: ToString>(
        option: &'a str,
        given: Option<T>,
        rule: &'static str,
        uses: impl Fn(&C) -> bool + 'a,
    ) -> Option<Self> {
        let filter = Self::new(option, given?, uses);
        Some(Self { rule, ..filter })
    }

    /// The filter of `--only`.
    pub fn only(text: &'a str) -> Self {
        Self {
            option: "--only",
            value: text.to_owned(),
            rule: SOME_CELL,
            chooses: Box::new(move |e| e.is_named(text)),
        }
    }
}

/// Refuses a plan without cells, and an option whose value belongs to no cell of any plan.
///
/// # Errors
/// See above.
pub fn check<'a, C: 'a>(
    plans: impl Iterator<Item = &'a Plan<C>> + Clone,
    filters: &[Filter<'_, C>],
) -> Result<()> {
    if let Some(plan) = plans.clone().find(|plan| plan.entries.is_empty()) {
        let rule = "a cell with the given settings and names";
        return Err(Error::invalid(&plan.title, rule, "none"));
    }
    let is_unused = |filter: &&Filter<'_, C>| {
        let mut entries = plans.clone().flat_map(|plan| &plan.entries);
        !entries.any(|entry| (filter.chooses)(entry))
    };
    match filters.iter().find(is_unused) {
        None => Ok(()),
        Some(filter) => {
            let value = format!("{:?}", filter.value);
            Err(Error::invalid(filter.option, filter.rule, value))
        }
    }
}
