//! Runs as tables, figures and JSON.

use super::layers::Layers;
use super::recipe::Recipe;
use super::train::Outcome;
use crate::support::figures::Figure;
use crate::support::paper::curves::curves;
use crate::support::paper::table::{Spread, Style, grid, values};
use crate::support::paper::{Cell, Entry, Finished, Plan, Runs};
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::report::mean_std;
use plotters::style::RGBColor;
use serde_json::{Value, json};

const STYLE: Style = Style {
    spread: Spread::Deviation,
    decimals: 1,
    difference: false,
    absent: "diverged",
};

/// A cell with an [`Outcome`].
pub trait Deep: Cell<Outcome = Outcome> {
    fn recipe(&self) -> &Recipe;
}

/// Test accuracy in percent.
pub fn accuracy<C: Deep>(run: &Finished<C>) -> Option<f64> {
    run.outcome.test_acc.map(|x| 100.0 * x)
}

/// The tables of a plan: `score` beside the paper's numbers; the effective rank of the tokens before the first
/// block and after the last; attention similarity of the last block, and time.
pub fn tables<C: Deep>(
    plan: &Plan<C>,
    settings: &str,
    runs: &Runs<C>,
    score: impl Fn(&Finished<C>) -> Option<f64>,
) -> String {
    let beside = match plan.entries.iter().any(|entry| entry.paper.is_some()) {
        true => ": ours (the paper's)",
        false => "",
    };
    let scores = values(plan, runs, STYLE, score);
    let of = |found: &[&Finished<C>], value: &dyn Fn(&Outcome) -> Option<f32>| {
        let known: Vec<f64> = (found.iter())
            .filter_map(|run| value(&run.outcome).map(f64::from))
            .collect();
        match known.is_empty() {
            true => "–".to_owned(),
            false => format!("{:.2}", mean_std(&known).0),
        }
    };
    let finished = |found: &[&Finished<C>], text: String| match found.is_empty() {
        true => String::new(),
        false => text,
    };
    let ranks = grid(plan, runs, |found, _| {
        let text = format!(
            "{} → {} ({})",
            of(found, &|o| *o.end.effective_rank.first()?),
            of(found, &|o| *o.end.effective_rank.last()?),
            of(found, &|o| *o.start.effective_rank.last()?),
        );
        finished(found, text)
    });
    let others = grid(plan, runs, |found, _| {
        let seconds: f64 = found.iter().map(|run| run.seconds).sum();
        let similarity = of(found, &|o| *o.end.attention_similarity.last()?);
        let text = format!("{similarity}; {:.0} s", seconds / found.len() as f64);
        finished(found, text)
    });
    format!(
        "{}{settings}{beside}\n\n{scores}\n\
         Effective rank of the tokens, embedded → after the last block (the latter before training)\n\n{ranks}\n\
         Attention similarity of the last block; time of a run\n\n{others}",
        plan.title
    )
}

/// The object of `--json`; the program adds its data.
pub fn object<C: Deep>(cell: &C, runs: &[&Finished<C>]) -> Value {
    let of = |value: &dyn Fn(&Outcome) -> Option<f64>| {
        let known: Vec<f64> = runs.iter().filter_map(|run| value(&run.outcome)).collect();
        mean_std(&known)
    };
    let layers = |value: &dyn Fn(&Outcome) -> &Vec<Option<f32>>| {
        let lists: Vec<_> = runs.iter().map(|run| value(&run.outcome)).collect();
        let count = lists.first().map_or(0, |list| list.len());
        let mean = |l: usize| {
            let of = |list: &&Vec<Option<f32>>| list[l].map(f64::from);
            let known: Option<Vec<f64>> = lists.iter().map(of).collect();
            known.map(|known| mean_std(&known).0)
        };
        (0..count).map(mean).collect::<Vec<_>>()
    };
    let recipe = cell.recipe();
    let (test_acc_mean, test_acc_std) = of(&|o| o.test_acc);
    json!({
        "depth": recipe.depth,
        "norm": recipe.variant.norm,
        "place": recipe.variant.place,
        "s": recipe.variant.s,
        "seeds": runs.len(),
        "steps": recipe.steps,
        "parameters": runs.first().map(|run| run.outcome.parameters),
        "test_acc_mean": test_acc_mean,
        "test_acc_std": test_acc_std,
        "test_mcc_mean": of(&|o| o.test_mcc).0,
        "final_loss_mean": of(&|o| o.final_loss).0,
        "erank_last": of(&|o| o.end.last_rank()).0,
        "erank": layers(&|o| &o.end.effective_rank),
        "erank_start": layers(&|o| &o.start.effective_rank),
        "feature_similarity": layers(&|o| &o.end.feature_similarity),
        "feature_similarity_start": layers(&|o| &o.start.feature_similarity),
        "attention_similarity": layers(&|o| &o.end.attention_similarity),
        "attention_similarity_start": layers(&|o| &o.start.attention_similarity),
        "variance_share": layers(&|o| &o.end.variance_share),
        "variance_share_start": layers(&|o| &o.start.variance_share),
        "stopped": runs.iter().filter(|run| run.outcome.stopped.is_some()).count(),
    })
}

/// Points over the layers that have numbers.
fn points(values: &[Option<f32>], first: usize) -> Vec<(f64, f64)> {
    let known = values.iter().enumerate();
    known
        .filter_map(|(l, x)| Some(((l + first) as f64, f64::from((*x)?))))
        .collect()
}

/// The measure that a panel shows per layer.
struct ByLayer {
    title: &'static str,
    /// What the numbers are.
    label: &'static str,
    of: fn(&Layers) -> &Vec<Option<f32>>,
    /// The number of the first layer.
    first: usize,
    /// The lower limit. A panel with a lower limit goes up to 1, any other goes from 0 to its largest value.
    least: Option<f64>,
}

const RANK: ByLayer = ByLayer {
    title: "effective rank",
    label: "directions",
    of: |layers| &layers.effective_rank,
    first: 0,
    least: None,
};
const FEATURES: ByLayer = ByLayer {
    title: "feature similarity",
    label: "mean cosine of two tokens",
    of: |layers| &layers.feature_similarity,
    first: 0,
    least: Some(-0.2),
};
const ATTENTION: ByLayer = ByLayer {
    title: "attention similarity",
    label: "mean cosine of two columns",
    of: |layers| &layers.attention_similarity,
    first: 1,
    least: Some(0.0),
};
const VARIANCE: ByLayer = ByLayer {
    title: "variance / squared norm",
    label: "share",
    of: |layers| &layers.variance_share,
    first: 0,
    least: Some(0.0),
};

impl ByLayer {
    /// A line per entry: trained, and dashed before training.
    fn panel<C: Deep>(&self, plan: &Plan<C>, runs: &Runs<C>) -> Panel {
        let found = plan.first_runs(runs);
        let deepest = found.iter().map(|(entry, _)| entry.cells[0].recipe().depth);
        let deepest = deepest.max().unwrap_or(1) as f64;
        let y = Axis::new(self.label);
        let both = found
            .iter()
            .flat_map(|(_, run)| [&run.outcome.start, &run.outcome.end]);
        let largest = both
            .flat_map(|layers| points((self.of)(layers), 0))
            .fold(1.0, |most: f64, (_, y)| most.max(y));
        let y = match self.least {
            Some(least) => y.within(least..1.0),
            None => y.within(0.0..1.05 * largest),
        };
        let mut panel = Panel::new(self.title, Axis::new("layer").within(0.0..deepest), y);
        for (k, (entry, run)) in found.into_iter().enumerate() {
            let colour = colour(k);
            let name = name(plan, entry);
            let line = |layers| points((self.of)(layers), self.first);
            let trained = Mark::Line(line(&run.outcome.end));
            panel.series.push(Series::new(name, colour, trained));
            let before = Mark::Dashes(line(&run.outcome.start));
            panel.series.push(Series::new("", colour, before));
        }
        panel
    }
}

/// The name of an entry in a legend.
fn name<C: Deep>(plan: &Plan<C>, entry: &Entry<C>) -> String {
    match plan.rows().len() {
        1 => entry.column.clone(),
        _ => format!("{}, {}", entry.row, entry.column),
    }
}

fn colour(k: usize) -> RGBColor {
    COLOURS[k % COLOURS.len()]
}

/// The singular values after the last block, over their sum, on a logarithmic scale.
fn spectra<C: Deep>(plan: &Plan<C>, runs: &Runs<C>) -> Panel {
    let y = Axis::new("share of their sum").log();
    let mut panel = Panel::new(
        "singular values after the last block",
        Axis::new("number"),
        y,
    );
    for (k, (entry, run)) in plan.first_runs(runs).into_iter().enumerate() {
        let spectrum = run.outcome.end.spectrum.iter().enumerate();
        let line = spectrum.map(|(k, &s)| (k as f64 + 1.0, f64::from(s).max(1e-8)));
        let line = Mark::Line(line.collect());
        panel
            .series
            .push(Series::new(name(plan, entry), colour(k), line));
    }
    panel
}

/// Figure 2: similarities, spectrum and effective rank by layer. Full lines are trained models, dashed lines
/// the same models before training.
pub fn metrics<C: Deep>(name: &str, title: &str, plan: &Plan<C>, runs: &Runs<C>) -> Option<Figure> {
    let panels = vec![
        FEATURES.panel(plan, runs),
        ATTENTION.panel(plan, runs),
        spectra(plan, runs),
        RANK.panel(plan, runs),
    ];
    Figure::new(name, title, 2, panels)
}

/// Figure 3: `score` by depth; variance and effective rank by layer of the deepest models.
pub fn by_depth<C: Deep>(
    name: &str,
    title: &str,
    plan: &Plan<C>,
    runs: &Runs<C>,
    score: impl Fn(&Finished<C>) -> Option<f64>,
) -> Option<Figure> {
    let rows: Vec<(&str, String)> = plan
        .rows()
        .into_iter()
        .map(|row| (row, row.to_owned()))
        .collect();
    let y = Axis::new("test (%)").within(0.0..100.0);
    let columns = plan.columns();
    let at = |column: &str| columns.iter().position(|c| *c == column).unwrap_or(0);
    let depth = curves("score by depth", y, (plan, runs), &rows, score, |c| {
        colour(at(c))
    });
    let of_depth = |entry: &&Entry<C>| entry.cells[0].recipe().depth;
    let finished = plan.entries.iter();
    let deepest = finished
        .filter(|entry| !runs.among(&entry.cells).is_empty())
        .map(|entry| of_depth(&entry))
        .max()?;
    let mut last = plan.clone();
    last.entries.retain(|entry| of_depth(&entry) == deepest);
    let panels = vec![depth, VARIANCE.panel(&last, runs), RANK.panel(&last, runs)];
    Figure::new(name, title, 3, panels)
}
