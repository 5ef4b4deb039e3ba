//! Tables for readers: our mean over seeds, with the paper's number beside it.

use super::cell::{Cell, Finished, Runs};
use super::number::Number;
use super::plan::Plan;
use crate::support::report::mean_std;

/// Student's t at 0.975 for 1, 2, … degrees of freedom.
const T: [f64; 29] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045,
];

/// Student's t at 0.975 for the interval of a mean of n values.
pub fn student(n: usize) -> f64 {
    T.get(n.wrapping_sub(2)).copied().unwrap_or(1.96)
}

/// Mean and half the width of the 95 % confidence interval; `None` for a single value.
pub fn mean_interval(values: &[f64]) -> (f64, Option<f64>) {
    let (mean, std) = mean_std(values);
    let n = values.len();
    (mean, (n > 1).then(|| student(n) * std / (n as f64).sqrt()))
}

/// The number after ±.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Half the width of the 95 % confidence interval of the mean.
    Interval,
    /// The sample standard deviation.
    Deviation,
}

/// How the numbers of a table are written.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    pub spread: Spread,
    pub decimals: usize,
    /// Whether our mean minus the paper's number is written too.
    pub difference: bool,
    /// The text for finished runs that have no value.
    pub absent: &'a str,
}

impl Style<'_> {
    /// Mean and spread of values, if `asked` is the number of runs in the plan; `None` if no run is finished.
    fn ours(self, values: &[Option<f64>], asked: usize) -> Option<String> {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        if values.is_empty() {
            return None;
        }
        if known.is_empty() {
            return Some(self.absent.to_owned());
        }
        let spread = match (self.spread, known.len()) {
            (_, 1) => None,
            (Spread::Interval, _) => mean_interval(&known).1,
            (Spread::Deviation, _) => Some(mean_std(&known).1),
        };
        let mut out = format!("{:.*}", self.decimals, mean_std(&known).0);
        if let Some(spread) = spread {
            out += &format!(" ± {spread:.*}", self.decimals);
        }
        // An entry with fewer runs than the others states their number. A run without a value is not counted.
        if known.len() < asked {
            out += &format!(", n={}", known.len());
        }
        Some(out)
    }

    /// The text of an entry: our values, the paper's number, the difference.
    pub fn entry(self, values: &[Option<f64>], asked: usize, paper: Option<&str>) -> String {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        let difference = match (paper.and_then(Number::parse), self.difference) {
            (Some(paper), true) if !known.is_empty() => {
                format!(", {:+.*}", self.decimals, mean_std(&known).0 - paper.mean)
            }
            _ => String::new(),
        };
        match (self.ours(values, asked), paper) {
            (None, None) => String::new(),
            (None, Some(paper)) => format!("– ({paper})"),
            (Some(ours), None) => ours,
            (Some(ours), Some(paper)) => format!("{ours} ({paper}{difference})"),
        }
    }
}

/// A table of one value per run: our numbers beside the paper's.
pub fn values<C: Cell>(
    plan: &Plan<C>,
    runs: &Runs<C>,
    style: Style,
    value: impl Fn(&Finished<C>) -> Option<f64>,
) -> String {
    let asked = plan.runs_asked();
    grid(plan, runs, |runs, paper| {
        let values: Vec<_> = runs.iter().map(|run| value(run)).collect();
        style.entry(&values, asked, paper)
    })
}

/// The last line of a table: how many runs there are, their time, and how many of them broke down.
pub fn effort(runs: usize, seconds: f64, stopped: usize) -> String {
    let hours = seconds / 3600.0;
    let ended = match stopped {
        0 => String::new(),
        n => format!("; {n} of them ended with a loss that is not a finite number"),
    };
    format!("{runs} runs, {hours:.2} h in all{ended}")
}

/// A table in Markdown; `cell` makes the text of an entry from its finished runs and the paper's
/// number.
pub fn grid<C: Cell>(
    plan: &Plan<C>,
    runs: &Runs<C>,
    cell: impl Fn(&[&Finished<C>], Option<&str>) -> String,
) -> String {
    let (rows, columns) = (plan.rows(), plan.columns());
    let head = std::iter::once("").chain(columns.iter().copied());
    let mut lines: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
    for row in rows {
        let mut line = vec![row.to_owned()];
        for column in &columns {
            let entry = plan.entry_at(row, column);
            let found = entry.map_or_else(Vec::new, |e| runs.among(&e.cells));
            line.push(cell(&found, entry.and_then(|e| e.paper.as_deref())));
        }
        lines.push(line);
    }
    markdown(&lines)
}

/// A table in Markdown with columns of even width.
pub fn markdown(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        let cells = lines.iter().filter_map(|line| line.get(c));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut out = String::new();
    for (k, line) in lines.iter().enumerate() {
        for (c, cell) in line.iter().enumerate() {
            let fill = " ".repeat(width(c) - cell.chars().count());
            out += &format!("| {cell}{fill} ");
        }
        out += "|\n";
        if k == 0 {
            for c in 0..columns {
                out += &format!("|{}", "-".repeat(width(c) + 2));
            }
            out += "|\n";
        }
    }
    out
}

/// The runs with the setting (a depth, a scale) of the largest mean score, the smallest of equals. A setting
/// with fewer finished runs than another is not chosen: one lucky run would beat five.
pub fn best<'a, R, K: PartialOrd>(
    runs: &[&'a R],
    setting: impl Fn(&R) -> K,
    score: impl Fn(&R) -> f64,
) -> Vec<&'a R> {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| {
        let order = setting(a).partial_cmp(&setting(b));
        order.expect("settings are ordered")
    });
    let groups = sorted.chunk_by(|a, b| setting(a) == setting(b));
    let most = groups.clone().map(<[_]>::len).max();
    let mean = |group: &[&R]| group.iter().map(|run| score(run)).sum::<f64>() / group.len() as f64;
    let chosen = groups
        .filter(|group| Some(group.len()) == most)
        .reduce(|best, next| if mean(next) > mean(best) { next } else { best });
    chosen.unwrap_or_default().to_vec()
}
