//! Prints and draws finished cells.

use super::cell::Runs;
use super::options::Options;
use super::plan::Plan;
use super::{Paper, Part, Shown};
use crate::support::{note, say};
use emmy::Result;
use serde_json::json;

/// Shows the parts: tables, JSON, figures.
///
/// # Errors
/// If a figure or standard output cannot be written; all other figures are still written.
pub fn show<P: Paper>(
    paper: &P,
    parts: &[Part<P::Cell>],
    runs: &Runs<P::Cell>,
    options: &Options,
) -> Result<()> {
    let tell = |text: String| match options.json {
        true => {
            note(text);
            Ok(())
        }
        false => say(text),
    };
    let is_begun = |plan: &Plan<P::Cell>| {
        let mut cells = plan.entries.iter().flat_map(|entry| &entry.cells);
        cells.any(|cell| runs.of(cell).is_some())
    };
    for Part { plan, shown } in parts {
        if options.json {
            entries(paper, plan, runs)?;
        }
        match shown {
            Shown::Figure(_) => {}
            _ if is_begun(plan) => tell(paper.table(plan, runs))?,
            _ => tell(format!("{}: no cell is finished\n", plan.title))?,
        }
    }
    // If one figure cannot be written, the others are still drawn.
    let mut undrawn = None;
    for Part { plan, shown } in parts {
        let label = shown.label();
        let Some(figure) = paper.figure(*shown, plan, runs) else {
            if let Shown::Figure(_) = shown {
                tell(format!("{}: no cell is finished", plan.title))?;
            }
            continue;
        };
        match figure.write(&options.out) {
            Ok(paths) => {
                for path in paths {
                    tell(format!("{label}: {}", path.display()))?;
                }
            }
            Err(error) => {
                undrawn.get_or_insert(error);
            }
        }
    }
    undrawn.map_or(Ok(()), Err)
}

/// One JSON object per entry of a plan.
fn entries<P: Paper>(paper: &P, plan: &Plan<P::Cell>, runs: &Runs<P::Cell>) -> Result<()> {
    for entry in &plan.entries {
        let found = runs.among(&entry.cells);
        let cell = entry.cells.first().expect("an entry has a cell");
        let mut object = paper.json(cell, &found);
        for (key, value) in [
            ("part", json!(plan.title)),
            ("row", json!(entry.row)),
            ("column", json!(entry.column)),
            ("paper", json!(entry.paper)),
            ("seeds", json!(found.len())),
        ] {
            // Keys that the paper has set stay as they are.
            let object = object.as_object_mut().expect("an object");
            object.entry(key).or_insert(value);
        }
        say(object)?;
    }
    Ok(())
}

impl Shown {
    /// The text before the paths of the figure.
    fn label(self) -> String {
        match self {
            Self::Figure(number) => format!("Figure {number}"),
            _ => "figure".to_owned(),
        }
    }
}
