//! The table beside the paper's numbers, and the figure.

use crate::self_attention::cell::{Cell, INTERVAL};
use crate::self_attention::run::Run;
use crate::support::figures::Figure;
use crate::support::paper::table::{Spread, Style, grid, values};
use crate::support::paper::{Entry, Plan, Runs, Shown};
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series, shade};

const STYLE: Style = Style {
    spread: Spread::Deviation,
    decimals: 3,
    difference: false,
    absent: "diverged",
};

/// The test losses, then the gradients of the first and the last block.
pub fn tables(plan: &Plan<Cell>, runs: &Runs<Cell>) -> String {
    let losses = values(plan, runs, STYLE, |run| run.outcome.test_loss);
    let gradients = grid(plan, runs, |found, _| {
        let Some(run) = found.first() else {
            return String::new();
        };
        let at = |epoch: Option<&Vec<Option<f32>>>| {
            let number = |x: Option<&Option<f32>>| match x {
                Some(Some(x)) => format!("{x:.1e}"),
                _ => "–".to_owned(),
            };
            epoch.map_or("–".to_owned(), |norms| {
                format!("{} {}", number(norms.first()), number(norms.last()))
            })
        };
        let norms = &run.outcome.gradients;
        format!("{}; {}", at(norms.first()), at(norms.last()))
    });
    let sizes = grid(plan, runs, |found, _| {
        let known = found.iter().find_map(|run| run.outcome.branch_size);
        known.map_or(String::new(), |size| format!("{size:.1e}"))
    });
    let branches = match plan.entries.iter().any(|e| is_measured(runs, e)) {
        true => format!(
            "Size of the first block's attention at the start, relative to its input\n\n{sizes}\n"
        ),
        false => String::new(),
    };
    let entries = plan.entries.iter();
    let all: Vec<&Run> = entries.flat_map(|e| runs.among(&e.cells)).collect();
    let minutes = all.iter().map(|run| run.seconds).sum::<f64>() / 60.0;
    let settings = plan.entries.first().and_then(|e| e.cells.first());
    let settings = settings.map_or(String::new(), Cell::settings);
    let known = frequencies(&all).into_iter();
    let known = known.map(|(name, loss)| format!("{name} {loss:.3}"));
    let known: Vec<String> = known.collect();
    let known = match known.is_empty() {
        true => String::new(),
        false => format!("; the frequencies alone give, of {}", known.join(", of ")),
    };
    let beside = match plan.entries.iter().any(|entry| entry.paper.is_some()) {
        true => ": ours (the paper's)",
        false => "",
    };
    format!(
        "{}{settings}{beside}\n\n{losses}\n\
         Norm of the gradient of the first and the last block: over the first {INTERVAL} steps; over the last\n\n\
         {gradients}\n{branches}{} runs, {minutes:.1} min in all{known}\n",
        plan.title,
        all.len(),
    )
}

/// Whether a run of an entry has measured its branch.
fn is_measured(runs: &Runs<Cell>, entry: &Entry<Cell>) -> bool {
    let mut found = runs.among(&entry.cells).into_iter();
    found.any(|run| run.outcome.branch_size.is_some())
}

/// The test losses of the tables of frequencies that the runs know.
fn frequencies(runs: &[&Run]) -> Vec<(&'static str, f64)> {
    type Loss = fn(&Run) -> Option<f64>;
    let losses: [(&str, Loss); 3] = [
        ("characters", |run| run.outcome.unigram_loss),
        ("pairs", |run| run.outcome.bigram_loss),
        ("triples", |run| run.outcome.trigram_loss),
    ];
    let of = |(name, loss): (&'static str, Loss)| {
        let known = runs.iter().find_map(|run| loss(run))?;
        Some((name, known))
    };
    losses.into_iter().filter_map(of).collect()
}

/// Figure 4: validation loss over the steps, one panel per kind of attention, one curve per depth.
pub fn figure(shown: Shown, plan: &Plan<Cell>, runs: &Runs<Cell>) -> Option<Figure> {
    let rows = plan.rows();
    let found = plan.first_runs(runs);
    let all: Vec<&Run> = plan
        .entries
        .iter()
        .flat_map(|e| runs.among(&e.cells))
        .collect();
    let known = frequencies(&all);
    let losses = found.iter().flat_map(|(_, run)| run.outcome.curve.iter());
    let losses = losses.flatten().map(|&y| f64::from(y));
    let losses = losses.chain(known.iter().map(|(_, loss)| *loss));
    let (least, top) = losses.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), y| {
        (a.min(y), b.max(y))
    });
    let last = found
        .iter()
        .map(|(_, run)| run.cell.steps)
        .max()
        .unwrap_or(1);
    let panels = plan.columns().into_iter().map(|column| {
        let y = Axis::new("validation loss (nats per character)");
        let y = y.within(least.min(top) - 0.05..top + 0.05);
        let x = Axis::new("step").within(0.0..f64::from(last));
        let mut panel = Panel::new(column, x, y);
        for (k, &(what, loss)) in known.iter().enumerate() {
            let line = Mark::Dashes(vec![(0.0, loss), (f64::from(last), loss)]);
            let name = format!("frequencies of {what}");
            let colour = COLOURS[COLOURS.len() - 1 - k];
            panel.series.push(Series::new(name, colour, line));
        }
        for (entry, run) in found.iter().filter(|(entry, _)| entry.column == column) {
            let points = run.outcome.curve.iter().enumerate().filter_map(|(k, y)| {
                let step = (k + 1) * INTERVAL.min(run.cell.steps) as usize;
                Some((step as f64, f64::from((*y)?)))
            });
            let place = rows.iter().position(|row| *row == entry.row).unwrap_or(0);
            let colour = shade(place, rows.len());
            let mark = Mark::Line(points.collect());
            panel.series.push(Series::new(&entry.row, colour, mark));
        }
        panel
    });
    let (name, title) = match shown {
        Shown::Figure(number) => (
            format!("self-attention-figure-{number}"),
            format!("Figure {number}: training"),
        ),
        _ => ("self-attention".to_owned(), "Training".to_owned()),
    };
    let title = title + " by depth, post-norm, fixed learning rate";
    Figure::new(&name, &title, 3, panels.collect())
}
