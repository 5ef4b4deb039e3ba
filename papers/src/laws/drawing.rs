//! A training as a line, as keys of an object, and as a figure.

use crate::laws::training::{How, Run, apart};
use crate::support::args::Figures;
use crate::support::figures;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use emmy::Result;
use serde_json::{Value, json};
use std::path::PathBuf;

impl Run {
    /// The training in one line.
    pub fn line(&self) -> String {
        let drift = match self.off() {
            Some(off) => format!("{off:.0e} from the exact drift"),
            None => "no formula for its drift".to_owned(),
        };
        let (first, last) = (self.losses.first(), self.losses.last());
        let of = |loss: Option<&f64>| loss.map_or("none".to_owned(), |l| format!("{l:.4}"));
        let end = if self.diverged { ", then diverged" } else { "" };
        format!(
            "    {} steps{end}, loss {} to {}: max |δ| {:.0e}, c moved by up to {:.2e}, {drift}",
            self.losses.len(),
            of(first),
            of(last),
            self.delta(),
            self.moved(),
        )
    }

    /// The same as keys of an object.
    pub fn add_to(&self, object: &mut Value) {
        object["train"] = json!({
            "steps": self.losses.len(),
            "diverged": self.diverged,
            "loss": self.losses.last(),
            "max_delta": self.delta(),
            "moved": self.moved(),
            "off_the_drift": self.off(),
        });
    }

    /// Draws δ, c and the distance from the exact drift beside each other; the path of the figure.
    pub fn draw(&self, figures: &Figures, name: &str, how: &How) -> Result<Option<PathBuf>> {
        let line = |name: &str, colour: usize, points: Vec<(f64, f64)>| Series {
            name: name.to_owned(),
            colour: COLOURS[colour % COLOURS.len()],
            mark: Mark::Line(points),
        };
        let over = |values: Vec<f64>| -> Vec<(f64, f64)> {
            let steps = values.into_iter().enumerate();
            steps.map(|(k, y)| (k as f64, y)).collect()
        };
        let decades = |x: f64| x.max(1e-18).log10();
        let deltas = over(self.deltas.iter().map(|&d| decades(d)).collect());
        let count = self.conserved[0].len();
        let change = |k: usize| {
            let start = self.conserved[0][k];
            over(self.conserved.iter().map(|now| now[k] - start).collect())
        };
        let changes = (0..count).map(|k| line("", k, change(k))).collect();
        let mut panels = vec![
            Panel {
                title: "δ, relative, the largest of all laws".to_owned(),
                x: Axis::new("step"),
                y: Axis::new("log₁₀").within(-18.0..0.0),
                series: vec![line("", 0, deltas)],
            },
            Panel {
                title: format!("c − c at the start, {count} laws"),
                x: Axis::new("step"),
                y: Axis::new("change"),
                series: changes,
            },
        ];
        if let Some(predicted) = &self.predicted {
            let pairs = self.conserved.iter().zip(predicted);
            let off = pairs.map(|(now, p)| decades(apart(now, p) / self.size()));
            panels.push(Panel {
                title: "c − its exact drift, relative".to_owned(),
                x: Axis::new("step"),
                y: Axis::new("log₁₀").within(-18.0..0.0),
                series: vec![line("", 2, over(off.collect()))],
            });
        }
        let title = format!("{name}, {}, η = {}", how.rule.name(), how.lr);
        let columns = panels.len();
        let size = (420 * columns as u32, 360);
        let file = format!("laws-{name}");
        let paths = figures::write(figures, &file, size, &title, columns, &panels)?;
        Ok(paths.into_iter().next())
    }
}
