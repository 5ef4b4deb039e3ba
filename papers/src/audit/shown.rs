//! The findings as tables for readers and as JSON for programs.

use super::Audit;
use super::likelihood::Comparison;
use super::means::{Constant, Fit, Grain};
use super::repeats::{Average, Shared, Twins};
use super::spreads::Excess;
use super::tables;
use crate::support::paper::table::markdown;
use serde_json::{Value, json};

/// A table in Markdown under a title; nothing without lines.
fn section(title: &str, head: &[&str], lines: impl Iterator<Item = Vec<String>>) -> String {
    let mut all = vec![head.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()];
    all.extend(lines);
    match all.len() {
        1 => format!("{title}: none\n\n"),
        _ => format!("{title}\n\n{}\n", markdown(&all)),
    }
}

/// All findings.
pub fn text(audit: &Audit, settings: Vec<Comparison>) -> String {
    let count: usize = audit.tables.iter().map(|table| table.cells.len()).sum();
    let mut out = format!("{} tables, {count} printed numbers\n\n", audit.tables.len());
    out += &section(
        "Means: the smallest test sets that all printed means of the named runs fit (so many by chance); known test sets, how many means fit each (probability of so many by chance). Sets whose digits say nothing are left out",
        &[
            "table",
            "set",
            "numbers",
            "runs",
            "test sets that fit",
            "known test sets",
        ],
        audit.grains.iter().map(grain),
    );
    out += &section(
        "Constant predictions: cells with ± 0.00, and the known test sets of which they are a share",
        &["table", "set", "printed", "cells", "test sets"],
        audit.constants.iter().flat_map(constant),
    );
    out += &section(
        "Spreads that the runs the paper names cannot have",
        &[
            "table",
            "cell",
            "printed",
            "runs named",
            "possible for at most",
        ],
        audit.excesses.iter().map(excess),
    );
    let wrong = audit.averages.iter().filter(|average| !average.holds);
    out += &section(
        &format!(
            "Averages of rows, {}; those that are not their row's",
            audit.averages.len()
        ),
        &["table", "row", "printed", "computed"],
        wrong.map(average),
    );
    out += &section(
        "Numbers that two tables have under one name",
        &[
            "tables",
            "set",
            "numbers",
            "equal",
            "largest difference, standard errors",
            "which",
        ],
        audit.shared.iter().map(shared),
    );
    out += &section(
        "Rows of two tables with other names and equal numbers",
        &["tables", "rows", "numbers"],
        audit.twins.iter().map(twins),
    );
    if !settings.is_empty() {
        out += &section(
            "Settings: log likelihood of the printed numbers given our runs (root mean square difference in standard errors), the most likely first",
            &["table", "numbers of", "count", "settings"],
            settings.iter().map(comparison),
        );
    }
    out.trim_end().to_owned()
}

/// So many misfits are named.
const NAMED: usize = 2;

fn fit_text(fit: &Fit, prints: usize) -> String {
    let named = match fit.others.len() {
        1..=NAMED => format!("; not {}", fit.others.join(", ")),
        _ => String::new(),
    };
    let Fit {
        examples,
        fitting,
        by_chance,
        ..
    } = fit;
    format!("{examples}: {fitting} of {prints} ({by_chance:.0e}{named})")
}

fn grain(grain: &Grain) -> Vec<String> {
    let examples: Vec<String> = grain.examples.iter().map(u32::to_string).collect();
    let fits: Vec<String> = grain
        .fits
        .iter()
        .map(|f| fit_text(f, grain.prints))
        .collect();
    vec![
        grain.table.clone(),
        grain.set.clone(),
        grain.prints.to_string(),
        grain.runs.to_string(),
        match (&examples[..], grain.expected) {
            ([], _) | (_, None) => "none".to_owned(),
            (_, Some(expected)) => format!("{} ({expected:.0e})", examples.join(", ")),
        },
        fits.join("; "),
    ]
}

fn constant(found: &Constant) -> Vec<Vec<String>> {
    let lines = found.prints.iter().zip(&found.examples);
    lines
        .map(|((number, places), examples)| {
            let named = tables::sizes(&found.set);
            let name = |m: &u32| {
                let name = named.iter().find(|(size, _)| size == m);
                let name = name.map_or("", |(_, name)| name);
                let share = (number.mean * f64::from(*m) / 100.0).round();
                format!("{share}/{m}, {name}")
            };
            let examples: Vec<String> = examples.iter().map(name).collect();
            vec![
                found.table.clone(),
                found.set.clone(),
                number.to_string(),
                places.len().to_string(),
                match examples.is_empty() {
                    true => format!("none: {}", places.join(", ")),
                    false => examples.join("; "),
                },
            ]
        })
        .collect()
}

fn excess(found: &Excess) -> Vec<String> {
    vec![
        found.table.clone(),
        format!(
            "{} {} {}",
            found.cell.set, found.cell.row, found.cell.column
        ),
        found.cell.number.to_string(),
        found.runs.to_string(),
        found.at_most.to_string(),
    ]
}

fn average(found: &Average) -> Vec<String> {
    vec![
        found.table.clone(),
        found.row.clone(),
        found.printed.to_string(),
        format!("{:.3}", found.computed),
    ]
}

fn shared(found: &Shared) -> Vec<String> {
    let named = match found.places.len() {
        0..=4 => found.places.join(", "),
        more => format!("{}, and {} more", found.places[..3].join(", "), more - 3),
    };
    vec![
        found.tables.join(", "),
        found.set.clone(),
        found.common.to_string(),
        found.equal.to_string(),
        found.largest.map_or("–".to_owned(), |z| format!("{z:.1}")),
        named,
    ]
}

fn twins(found: &Twins) -> Vec<String> {
    vec![
        found.tables.join(", "),
        found.rows.join(" = "),
        found.numbers.to_string(),
    ]
}

fn comparison(found: &Comparison) -> Vec<String> {
    let settings = found.settings.iter();
    let settings: Vec<String> = settings
        .map(|s| format!("{} {:.1} ({:.1})", s.setting, s.log, s.errors))
        .collect();
    vec![
        found.table.clone(),
        found.what.clone(),
        found.numbers.to_string(),
        settings.join("; "),
    ]
}

/// One object per finding; its key `check` says which it is.
pub fn objects(audit: &Audit, settings: Vec<Comparison>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for found in &audit.grains {
        let fits: Vec<Value> = (found.fits.iter())
            .map(|fit| {
                json!({
                    "runs": fit.runs, "examples": fit.examples, "fitting": fit.fitting,
                    "by_chance": fit.by_chance, "others": fit.others,
                })
            })
            .collect();
        out.push(json!({
            "check": "means", "table": found.table, "set": found.set, "numbers": found.prints,
            "runs": found.runs, "examples": found.examples, "expected": found.expected, "fits": fits,
        }));
    }
    for found in &audit.constants {
        for ((number, places), examples) in found.prints.iter().zip(&found.examples) {
            out.push(json!({
                "check": "constants", "table": found.table, "set": found.set,
                "printed": number.to_string(), "cells": places, "examples": examples,
            }));
        }
    }
    for found in &audit.excesses {
        let cell = &found.cell;
        out.push(json!({
            "check": "spreads", "table": found.table, "set": cell.set, "row": cell.row,
            "column": cell.column, "printed": cell.number.to_string(), "runs": found.runs,
            "at_most": found.at_most,
        }));
    }
    for found in &audit.averages {
        out.push(json!({
            "check": "averages", "table": found.table, "row": found.row,
            "printed": found.printed.to_string(), "computed": found.computed, "holds": found.holds,
        }));
    }
    for found in &audit.shared {
        out.push(json!({
            "check": "shared", "tables": found.tables, "set": found.set, "numbers": found.common,
            "equal": found.equal, "largest": found.largest, "cells": found.places,
        }));
    }
    for found in &audit.twins {
        out.push(json!({
            "check": "twins", "tables": found.tables, "rows": found.rows, "numbers": found.numbers,
        }));
    }
    for found in settings {
        for (k, setting) in found.settings.iter().enumerate() {
            out.push(json!({
                "check": "settings", "table": found.table, "set": found.what,
                "numbers": found.numbers, "setting": setting.setting, "log_likelihood": setting.log,
                "errors": setting.errors, "rank": k + 1,
            }));
        }
    }
    out
}
