//! The settings that printed tables leave open, and our runs under each: the optimiser of "Are GATs Out of
//! Balance?" and the direction of its edges, and the epoch of the two papers on deep graph networks.

use super::likelihood::{Comparison, Setting, compare};
use super::printed::Table;
use crate::balance::cell::Rule;
use crate::balance::plan::is_heterophilic;
use crate::oversmoothing::cell::Method;
use crate::oversmoothing::tables::Way;
use crate::support::args::Float;
use crate::support::paper::results::Lines;
use crate::support::paper::{Cell, Number, Runs};
use crate::{balance, deep_attention, oversmoothing};
use emmy::Result;
use std::path::Path;

/// The seeds whose runs are used.
const SEEDS: u64 = 5;

/// The runs that a paper's means have, where it does not say: five, as the others.
const RUNS: u32 = 5;

/// The finished cells of a program in a folder; none if the folder has no such file.
fn runs<C: Cell>(folder: &Path, name: &str) -> Result<Runs<C>> {
    let path = folder.join(format!("{name}.jsonl"));
    match path.exists() {
        true => Ok(Runs(Lines::read(&path)?.runs)),
        false => Ok(Runs(Vec::new())),
    }
}

/// All comparisons that the results in a folder allow.
///
/// # Errors
/// If a file of results cannot be read.
pub fn all(tables: &[Table], folder: &Path) -> Result<Vec<Comparison>> {
    let mut out = networks(tables, &runs(folder, "balance")?);
    out.extend(epochs(&runs(folder, "deep_attention")?));
    out.extend(methods(&runs(folder, "oversmoothing")?));
    Ok(out)
}

/// What is open of each table of the network of Table 2, per data set: the optimiser, and for heterophilic
/// graphs, which have one table, whether edges are read in both directions.
fn networks(tables: &[Table], runs: &balance::run::Runs) -> Vec<Comparison> {
    let choice = |both_directions| balance::plan::Choice {
        seeds: (0..SEEDS).collect(),
        epochs: 5000,
        datasets: Vec::new(),
        layers: Vec::new(),
        inits: Vec::new(),
        float: Float::F32,
        both_directions,
        raw_features: false,
        lr: None,
        loss_threshold: balance::plan::LOSS_THRESHOLD,
    };
    let schemes = balance::plan::SCHEMES;
    let mut out = Vec::new();
    for table in tables.iter().filter(|table| table.paper == "balance") {
        for set in table.sets() {
            // Cells without a variation, whose columns are a depth and nothing else.
            let cells: Vec<(Number, &str, usize)> = (table.of_set(set).iter())
                .filter_map(|cell| {
                    let (init, _) = schemes.iter().find(|(_, name)| *name == cell.row)?;
                    let layers = cell.column.strip_prefix("L=")?.parse().ok()?;
                    Some((cell.number.clone(), *init, layers))
                })
                .collect();
            let of_way = |(name, rule, both): (&str, Rule, bool)| Setting {
                name: name.to_owned(),
                ours: (cells.iter())
                    .map(|(_, init, layers)| {
                        let cell = choice(both).cell(set, *layers, init, rule);
                        let seeded = (0..SEEDS).map(|seed| balance::cell::Cell {
                            seed,
                            ..cell.clone()
                        });
                        let known = seeded.filter_map(|cell| runs.of(&cell)?.outcome.test_acc);
                        known.map(|accuracy| 100.0 * accuracy).collect()
                    })
                    .collect(),
            };
            let ways = match is_heterophilic(set) {
                true => [
                    ("both directions", Rule::Sgd, true),
                    ("one direction", Rule::Sgd, false),
                ],
                false => [
                    ("gradient descent", Rule::Sgd, false),
                    ("Adam", Rule::Adam, false),
                ],
            };
            let printed: Vec<Number> = cells.iter().map(|(number, ..)| number.clone()).collect();
            out.extend(compare(
                &table.name(),
                set,
                &printed,
                table.runs.unwrap_or(RUNS),
                &ways.map(of_way),
            ));
        }
    }
    out
}

/// The epoch of Tables 1 and 3 of "Lipschitz Normalization".
fn epochs(runs: &deep_attention::run::Runs) -> Vec<Comparison> {
    let choice = deep_attention::plan::Choice {
        seeds: (0..SEEDS).collect(),
        datasets: Vec::new(),
        models: Vec::new(),
        norms: Vec::new(),
        layers: Vec::new(),
        missing: Vec::new(),
        residual: None,
        settings: deep_attention::plan::Settings::default(),
    };
    let of_table = |number: u32| {
        let plan = choice.table(number);
        let entries: Vec<_> = (plan.entries.iter())
            .filter_map(|entry| Some((Number::parse(entry.paper.as_deref()?)?, entry)))
            .collect();
        let setting = |name: &str, is_last: bool| Setting {
            name: name.to_owned(),
            ours: (entries.iter())
                .map(|(_, entry)| {
                    let chosen = deep_attention::tables::of_chosen_depth(&runs.among(&entry.cells));
                    let value = |run: &&deep_attention::run::Run| match is_last {
                        true => run.outcome.last_test_acc,
                        false => run.outcome.test_acc,
                    };
                    let known = chosen.iter().filter_map(value);
                    known.map(|accuracy| 100.0 * accuracy).collect()
                })
                .collect(),
        };
        let settings = [
            setting("best validation epoch", false),
            setting("last epoch", true),
        ];
        let printed: Vec<Number> = entries.iter().map(|(number, _)| number.clone()).collect();
        let name = format!("deep_attention {number}");
        compare(&name, "all", &printed, RUNS, &settings)
    };
    [1, 3].into_iter().filter_map(of_table).collect()
}

/// The epoch behind each row of Table 3 of "ContraNorm", and the form of its PairNorm.
fn methods(runs: &oversmoothing::run::Runs) -> Vec<Comparison> {
    let choice = oversmoothing::plan::Choice {
        seeds: (0..SEEDS).collect(),
        datasets: Vec::new(),
        methods: Vec::new(),
        layers: Vec::new(),
        split: oversmoothing::cell::Split::Published,
        raw_features: false,
        scales: Vec::new(),
        epochs: None,
        hidden: None,
        dropout: None,
        lr: None,
        weight_decay: None,
        float: None,
    };
    let ways = [
        (Way::Validation, "best validation epoch"),
        (Way::Published, "last epoch"),
    ];
    let forms = |method: Method| match method {
        Method::Pair => vec![Method::Pair, Method::PairLayer, Method::PairSi],
        other => vec![other],
    };
    let mut out = Vec::new();
    for (set, rows) in oversmoothing::numbers::TABLE_3 {
        for (method, texts) in rows {
            let printed: Vec<Number> = texts
                .iter()
                .filter_map(|text| Number::parse(text))
                .collect();
            let mut settings = Vec::new();
            for form in forms(method) {
                for (way, epoch) in ways {
                    let of_depth = |layers: usize| {
                        let cells = choice.cells(set, form, layers, 200);
                        let chosen = way.chosen(&runs.among(&cells));
                        let known = chosen.iter().filter_map(|run| way.accuracy(run));
                        known.map(|accuracy| 100.0 * accuracy).collect()
                    };
                    settings.push(Setting {
                        name: format!("{}, {epoch}", form.printed()),
                        ours: oversmoothing::numbers::LAYERS
                            .into_iter()
                            .map(of_depth)
                            .collect(),
                    });
                }
            }
            // A form that was not run says nothing about the others.
            settings.retain(|setting| setting.ours.iter().any(|values| values.len() > 1));
            let what = format!("{set} {}", method.printed());
            out.extend(compare("oversmoothing 3", &what, &printed, RUNS, &settings));
        }
    }
    out
}
