//! Tables for readers: our mean ± standard deviation, with the paper's number beside it.

use crate::oversmoothing::numbers::is_constant;
use crate::oversmoothing::plan::Plan;
use crate::oversmoothing::run::{Run, Runs};
use crate::support::paper::table::{Spread, Style, best, effort, grid};
use crate::support::report::mean_std;

const STYLE: Style = Style {
    spread: Spread::Deviation,
    decimals: 1,
    difference: false,
    absent: "diverged",
};

/// How s is chosen, and which accuracy is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The s of the best mean validation accuracy; the test accuracy at each run's best validation epoch.
    Validation,
    /// As published: the s of the best mean test accuracy after the last epoch, and that accuracy.
    Published,
}

impl Way {
    /// The accuracy that is reported.
    pub fn accuracy(self, run: &Run) -> Option<f64> {
        match self {
            Self::Validation => run.outcome.test_acc,
            Self::Published => run.outcome.last_test_acc,
        }
    }

    fn score(self, run: &Run) -> f64 {
        let score = match self {
            Self::Validation => run.outcome.val_acc,
            Self::Published => run.outcome.last_test_acc,
        };
        score.unwrap_or(0.0)
    }

    /// The runs of the chosen s ([`best`]).
    pub fn chosen<'a>(self, runs: &[&'a Run]) -> Vec<&'a Run> {
        best(runs, |run| run.cell.scale, |run| self.score(run))
    }
}

/// Whether there are runs with other scales, all of which have fewer runs than the chosen one: then no accuracy
/// decided.
fn has_most_runs(chosen: &[&Run], found: &[&Run]) -> bool {
    let scale = chosen.first().map(|run| run.cell.scale);
    let mut others = found
        .iter()
        .filter(|run| Some(run.cell.scale) != scale)
        .peekable();
    let runs_of = |of: f64| found.iter().filter(|run| run.cell.scale == of).count();
    others.peek().is_some() && others.all(|run| runs_of(run.cell.scale) < chosen.len())
}

/// Whether every run predicts one class for all nodes.
pub fn all_constant(runs: &[&Run]) -> bool {
    !runs.is_empty() && runs.iter().all(|run| run.outcome.constant.is_some())
}

/// The tables of a plan: accuracies in both ways beside the paper's, then effective ranks.
pub fn render(plan: &Plan, settings: &str, runs: &Runs) -> String {
    let entries = plan.entries.iter();
    let all: Vec<&Run> = entries.flat_map(|entry| runs.among(&entry.cells)).collect();
    let asked = |cells: &[crate::oversmoothing::cell::Cell]| {
        let first = cells.first().map(|cell| cell.scale);
        cells
            .iter()
            .filter(|cell| Some(cell.scale) == first)
            .count()
    };
    let asked = plan
        .entries
        .iter()
        .map(|e| asked(&e.cells))
        .max()
        .unwrap_or(0);
    let accuracies = |way: Way| {
        grid(plan, runs, |found, paper| {
            let chosen = way.chosen(found);
            let values: Vec<_> = chosen
                .iter()
                .map(|run| way.accuracy(run).map(|a| 100.0 * a))
                .collect();
            let mark = |is: bool| if is { "†" } else { "" };
            let ours = STYLE.entry(&values, asked, None) + mark(all_constant(&chosen));
            let scale = match chosen.first() {
                Some(run) if run.cell.scale != 0.0 => {
                    let mark = if has_most_runs(&chosen, found) {
                        "‡"
                    } else {
                        ""
                    };
                    format!(", s={}{mark}", run.cell.scale)
                }
                _ => String::new(),
            };
            let paper = paper.map(|paper| format!("({paper}{})", mark(is_constant(paper))));
            match (chosen.is_empty(), paper) {
                (true, None) => String::new(),
                (true, Some(paper)) => format!("– {paper}"),
                (false, None) => format!("{ours}{scale}"),
                (false, Some(paper)) => format!("{ours}{scale} {paper}"),
            }
        })
    };
    let ranks = grid(plan, runs, |found, _| {
        let chosen = Way::Validation.chosen(found);
        let last = |values: &[Option<f32>]| values.last().copied().flatten().map(f64::from);
        let mean = |of: &dyn Fn(&Run) -> Option<f64>| {
            let known: Vec<f64> = chosen.iter().filter_map(|run| of(run)).collect();
            match known.is_empty() {
                true => "–".to_owned(),
                false => format!("{:.2}", mean_std(&known).0),
            }
        };
        match chosen.is_empty() {
            true => String::new(),
            false => format!(
                "{}; {}",
                mean(&|run| last(&run.outcome.erank)),
                mean(&|run| last(&run.outcome.similarity))
            ),
        }
    });
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
        "{}{settings}{beside}\n\n\
         s chosen on the validation nodes, accuracy at the best validation epoch\n\n{}\n\
         As published: s chosen on the test nodes, accuracy after the last epoch\n\n{}\n\
         † the network predicts one class for all nodes in every run; in the paper, numbers without any deviation\n\
         ‡ each other s has fewer runs and was not compared\n\n\
         Effective rank and mean cosine similarity after the last hidden layer, s chosen on the validation nodes\n\n{ranks}\n\
         {}\n",
        plan.title,
        accuracies(Way::Validation),
        accuracies(Way::Published),
        effort(all.len(), seconds, stopped),
    )
}
