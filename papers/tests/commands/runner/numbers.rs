//! Numbers beside the paper's.

use super::{Measured, Toy, toy};
use papers::support::paper::Number;
use papers::support::paper::cell::{Finished, Runs};
use papers::support::paper::plan::{Entry, Plan};
use papers::support::paper::table::{Spread, Style, values};

const STYLE: Style = Style {
    spread: Spread::Deviation,
    decimals: 2,
    difference: true,
    absent: "diverged",
};

#[test]
fn a_number_has_its_spread_the_papers_and_the_difference() {
    let two = [Some(1.0), Some(2.0)];
    assert_eq!(
        STYLE.entry(&two, 2, Some("1.25 ± 0.3")),
        "1.50 ± 0.71 (1.25 ± 0.3, +0.25)"
    );
    assert_eq!(STYLE.entry(&two, 2, None), "1.50 ± 0.71");
    assert_eq!(STYLE.entry(&two, 3, None), "1.50 ± 0.71, n=2");
    assert_eq!(
        STYLE.entry(&[Some(1.0), None], 2, Some("2")),
        "1.00, n=1 (2, -1.00)"
    );
    assert_eq!(STYLE.entry(&[None, None], 2, Some("2")), "diverged (2)");
    assert_eq!(STYLE.entry(&[], 2, Some("2")), "– (2)");
    assert_eq!(STYLE.entry(&[], 2, None), "");
    // 12.706 · 0.7071 / √2
    let interval = Style {
        spread: Spread::Interval,
        difference: false,
        ..STYLE
    };
    assert_eq!(interval.entry(&two, 2, Some("1.25")), "1.50 ± 6.35 (1.25)");
    assert_eq!(Number::parse("OOM"), None);
    assert_eq!(STYLE.entry(&two, 2, Some("OOM")), "1.50 ± 0.71 (OOM)");
}

#[test]
fn a_table_has_rows_columns_and_gaps() {
    let entry = |row: &str, column: &str, paper: Option<&str>, size| Entry {
        row: row.to_owned(),
        column: column.to_owned(),
        paper: paper.map(str::to_owned),
        cells: vec![toy(size, 0), toy(size, 1)],
    };
    let plan = Plan {
        title: "toys".to_owned(),
        entries: vec![
            entry("small", "plain", Some("2"), 1),
            entry("small", "other", None, 2),
            entry("large", "plain", None, 3),
        ],
    };
    let run = |size, seed, value| Finished {
        cell: toy(size, seed),
        outcome: Measured { value },
        seconds: 0.0,
        threads: 1,
        date: String::new(),
        machine: String::new(),
    };
    let runs = Runs::<Toy>(vec![run(1, 0, 1.0), run(1, 1, 3.0), run(2, 1, 5.0)]);
    let text = values(&plan, &runs, STYLE, |run| Some(run.outcome.value));
    let expected = "\
|       | plain                | other     |
|-------|----------------------|-----------|
| small | 2.00 ± 1.41 (2, +0.00) | 5.00, n=1 |
| large |                      |           |
";
    let cells = |text: &str| -> Vec<Vec<String>> {
        let trimmed = |line: &str| line.split('|').map(|c| c.trim().to_owned()).collect();
        text.lines()
            .filter(|line| !line.starts_with("|--"))
            .map(trimmed)
            .collect()
    };
    assert_eq!(cells(&text), cells(expected));
    assert_eq!(plan.first_runs(&runs).len(), 2);
}
