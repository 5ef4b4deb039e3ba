//! Averages of rows, and numbers that stand in several tables.

use super::printed::{Printed, Spread, Table};
use crate::support::paper::Number;
use crate::support::paper::table::student;

/// The column with the mean of the others of its row.
pub const AVERAGE: &str = "Avg";

/// A printed average and that of its row.
#[derive(Debug, Clone)]
pub struct Average {
    pub table: String,
    pub row: String,
    pub printed: Number,
    pub computed: f64,
    /// Whether one of them is a print of the other, for some numbers that the row is a print of.
    pub holds: bool,
}

/// The averages of a table's rows.
pub fn averages(table: &Table) -> Vec<Average> {
    let of_row = |row: &str| {
        let cells = table.of_row(row);
        let printed = cells.iter().find(|cell| cell.column == AVERAGE)?;
        let others: Vec<&Number> = cells
            .iter()
            .filter(|cell| cell.column != AVERAGE)
            .map(|cell| &cell.number)
            .collect();
        let count = others.len() as f64;
        let computed = others.iter().map(|n| n.mean).sum::<f64>() / count;
        // Each number of the row may be off by half a unit, and so may their mean.
        let rounding = others.iter().map(|n| n.half()).sum::<f64>() / count;
        let off = (printed.number.mean - computed).abs();
        Some(Average {
            table: table.name(),
            row: row.to_owned(),
            printed: printed.number.clone(),
            computed,
            holds: off <= printed.number.half() + rounding,
        })
    };
    table.rows().into_iter().filter_map(of_row).collect()
}

/// Two tables with numbers of the same name.
#[derive(Debug, Clone)]
pub struct Shared {
    pub tables: [String; 2],
    pub set: String,
    /// The numbers that both have, and how many of them can be prints of one number.
    pub common: usize,
    pub equal: usize,
    /// The largest difference of two such numbers, in standard errors of a difference of two means with the
    /// printed spread; `None` if no spread is printed.
    pub largest: Option<f64>,
    pub places: Vec<String>,
}

/// The numbers of one set, row and column that two tables of a paper have, per pair of tables
/// and set.
pub fn shared(tables: &[Table]) -> Vec<Shared> {
    let mut out = Vec::new();
    for (k, a) in tables.iter().enumerate() {
        for b in tables[k + 1..].iter().filter(|b| b.paper == a.paper) {
            // The columns of a table of tasks are its sets.
            let of_tasks = |table: &Table| table.cells.iter().all(|c| c.set == c.column);
            match of_tasks(a) && of_tasks(b) {
                true => out.extend(of_pair(a, b, None)),
                false => {
                    let sets = a.sets().into_iter();
                    out.extend(sets.filter_map(|set| of_pair(a, b, Some(set))));
                }
            }
        }
    }
    out
}

/// The numbers of a set, or of all sets, that two tables have.
fn of_pair(a: &Table, b: &Table, set: Option<&str>) -> Option<Shared> {
    let twin = |cell: &Printed| {
        let mut others = b.cells.iter();
        others.find(|x| (&x.set, &x.row, &x.column) == (&cell.set, &cell.row, &cell.column))
    };
    let pairs: Vec<(&Printed, &Printed)> = (a.cells.iter())
        .filter(|cell| set.is_none_or(|set| cell.set == set))
        .filter_map(|cell| Some((cell, twin(cell)?)))
        .collect();
    let errors = |(x, y): &(&Printed, &Printed)| {
        let of = |table: &Table, cell: &Printed| Some(table.error(cell.number.spread?));
        let error = of(a, x).or(of(b, y))?;
        Some((x.number.mean - y.number.mean).abs() / (error * 2_f64.sqrt()))
    };
    let equal = pairs.iter().filter(|(x, y)| x.number.agrees(&y.number));
    let place = |(x, _): &(&Printed, &Printed)| format!("{} {}", x.row, x.column);
    (!pairs.is_empty()).then(|| Shared {
        tables: [a.name(), b.name()],
        set: set.unwrap_or("all").to_owned(),
        common: pairs.len(),
        equal: equal.count(),
        largest: pairs.iter().filter_map(errors).reduce(f64::max),
        places: pairs.iter().map(place).collect(),
    })
}

impl Table {
    /// The standard error of a mean with the printed spread.
    fn error(&self, spread: f64) -> f64 {
        let runs = self.runs.unwrap_or(5).max(2);
        match self.spread {
            Spread::Interval => spread / student(runs as usize),
            Spread::Deviation => spread / f64::from(runs).sqrt(),
        }
    }
}

/// Rows of two tables with other names and the same numbers.
#[derive(Debug, Clone)]
pub struct Twins {
    pub tables: [String; 2],
    pub rows: [String; 2],
    pub numbers: usize,
}

/// The fewest numbers of a row for which equality is no accident.
const ENOUGH: usize = 4;

/// Pairs of rows in different tables of a paper whose numbers agree in all their common columns.
pub fn twins(tables: &[Table]) -> Vec<Twins> {
    let mut out = Vec::new();
    for (k, a) in tables.iter().enumerate() {
        for b in tables[k + 1..].iter().filter(|b| b.paper == a.paper) {
            for row in a.rows() {
                for other in b.rows() {
                    let (mine, theirs) = (a.of_row(row), b.of_row(other));
                    let common = mine.iter().filter_map(|x| {
                        let same = |y: &&&Printed| (&y.set, &y.column) == (&x.set, &x.column);
                        Some((x, theirs.iter().find(same)?))
                    });
                    let agree: Vec<bool> =
                        common.map(|(x, y)| x.number.agrees(&y.number)).collect();
                    if row != other && agree.len() >= ENOUGH && agree.iter().all(|&same| same) {
                        out.push(Twins {
                            tables: [a.name(), b.name()],
                            rows: [row.to_owned(), other.to_owned()],
                            numbers: agree.len(),
                        });
                    }
                }
            }
        }
    }
    out
}
