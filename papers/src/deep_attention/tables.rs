//! Tables for readers: our mean ± standard deviation, with the paper's number beside it.

use crate::deep_attention::plan::Plan;
use crate::deep_attention::run::{Run, Runs};
use crate::support::paper::table::{Spread, Style, best, effort, grid};

const STYLE: Style = Style {
    spread: Spread::Deviation,
    decimals: 1,
    difference: false,
    absent: "diverged",
};

/// The value that a table shows in percent: the training accuracy for trees, else the test accuracy.
pub fn accuracy(run: &Run) -> Option<f64> {
    let of_trees = run.cell.trees.is_some();
    let value = match of_trees {
        true => run.outcome.train_acc,
        false => run.outcome.test_acc,
    };
    value.map(|accuracy| 100.0 * accuracy)
}

/// The runs of the depth with the largest mean validation accuracy ([`best`]); runs without an accuracy count
/// as 0.
pub fn of_chosen_depth<'a>(runs: &[&'a Run]) -> Vec<&'a Run> {
    let score = |run: &Run| run.outcome.val_acc.unwrap_or(0.0);
    best(runs, |run| run.cell.layers, score)
}

/// The tables of a plan: accuracies beside the paper's, then epochs, time and gradients.
pub fn render(plan: &Plan, settings: &str, runs: &Runs) -> String {
    let entries = plan.entries.iter();
    let all: Vec<&Run> = entries.flat_map(|entry| runs.among(&entry.cells)).collect();
    let depths = |cells: &[crate::deep_attention::cell::Cell]| {
        let mut depths: Vec<usize> = cells.iter().map(|cell| cell.layers).collect();
        depths.sort_unstable();
        depths.dedup();
        depths.len()
    };
    let most = plan.entries.iter().map(|entry| depths(&entry.cells)).max();
    let asked = plan
        .entries
        .iter()
        .map(|entry| entry.cells.len() / depths(&entry.cells).max(1));
    let (chooses, asked) = (most > Some(1), asked.max().unwrap_or(0));
    let accuracies = grid(plan, runs, |found, paper| {
        let chosen = of_chosen_depth(found);
        let values: Vec<_> = chosen.iter().map(|run| accuracy(run)).collect();
        let ours = STYLE.entry(&values, asked, None);
        let depth = match chosen.first().filter(|_| chooses) {
            Some(run) => format!(", L={}", run.cell.layers),
            None => String::new(),
        };
        match (chosen.is_empty(), paper) {
            (true, None) => String::new(),
            (true, Some(paper)) => format!("– ({paper})"),
            (false, None) => format!("{ours}{depth}"),
            (false, Some(paper)) => format!("{ours}{depth} ({paper})"),
        }
    });
    let efforts = grid(plan, runs, |found, _| {
        let chosen = of_chosen_depth(found);
        let mean = |value: &dyn Fn(&Run) -> f64| {
            chosen.iter().map(|run| value(run)).sum::<f64>() / chosen.len() as f64
        };
        match chosen.is_empty() {
            true => String::new(),
            false => format!(
                "{}; {:.0} of {:.0}, {:.0} s",
                largest_gradient(&chosen),
                mean(&|run| run.outcome.best_epoch as f64),
                mean(&|run| run.outcome.epochs as f64),
                mean(&|run| run.seconds)
            ),
        }
    });
    let last = match all.iter().any(|run| is_of_last_epoch(run)) {
        false => String::new(),
        true => {
            let accuracies = grid(plan, runs, |found, _| {
                let chosen = of_chosen_depth(found);
                let last = |run: &&Run| run.outcome.last_test_acc.map(|a| 100.0 * a);
                let values: Vec<_> = chosen.iter().map(last).collect();
                STYLE.entry(&values, asked, None)
            });
            format!("After the last epoch, which the published code reports\n\n{accuracies}\n")
        }
    };
    let seconds = all.iter().map(|run| run.seconds).sum();
    let stopped = all
        .iter()
        .filter(|run| run.outcome.stopped.is_some())
        .count();
    let beside = match plan.entries.iter().any(|entry| entry.paper.is_some()) {
        true => ": ours (the paper's)",
        false => "",
    };
    format!(
        "{}{settings}{beside}\n\n{accuracies}\n{last}Largest gradient of a layer's attention; epoch of the best model, epochs, time of a run\n\n{efforts}\n\
         {}\n",
        plan.title,
        effort(all.len(), seconds, stopped),
    )
}

/// Whether a run has an accuracy after its last epoch that differs from the one in the table.
fn is_of_last_epoch(run: &Run) -> bool {
    run.cell.trees.is_none() && run.outcome.last_test_acc.is_some()
}

/// The largest gradient of the parameters of attention of one layer, over runs.
fn largest_gradient(runs: &[&Run]) -> String {
    let known = runs.iter().filter_map(|run| run.outcome.max_gradient_norm);
    let largest = known.reduce(f64::max);
    largest.map_or("–".to_owned(), |norm| format!("{norm:.1e}"))
}
