//! What η does to a law: c after a fixed time T = n η of gradient descent, for learning rates η below and
//! beyond the edge of stability.
//!
//! A step of descent moves c of each law by exactly η² γ, γ the same signed sum of squares of the gradient
//! ([`Drift`](emmy::symmetry::Drift)). So c(T) − c(0) = η² S(η) with S = Σ_t γ_t, law by law. D. N.
//! Medeiros ("Conservation Law Breaking at the Edge of Stability", arXiv 2604.07405) has this decomposition
//! for the sums over layers of ReLU networks without biases, and measures exponents of η from 1.1 to 1.6.
//! With T fixed, S is proportional to 1/η as long as the steps follow the flow, so the exponent is 1 for
//! small η.

use super::models::{Model, Options};
use super::nets::Net;
use super::training::{How, Rule, apart, gradient_at, loss, train};
use crate::support::args::Figures;
use crate::support::figures;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use emmy::autodiff::hvp;
use emmy::nn::{Pass, discover};
use emmy::symmetry::{Generator, Search};
use emmy::{Error, Result, Tape, Tensor, init};
use serde_json::{Value, json};
use std::path::PathBuf;

/// T, the time of the flow that all learning rates take.
const TIME: f64 = 40.0;

/// Learning rates in units of 2/λ, λ the largest eigenvalue of the Hessian at the start.
const RATES: [f64; 9] = [
    0.015_625, 0.031_25, 0.062_5, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0,
];

/// Exponents are fitted to learning rates of at most this many times 2/λ.
const SMALL: f64 = 0.25;

/// The training with one learning rate.
pub struct Point {
    /// η λ/2, λ at the start.
    pub share: f64,
    /// η.
    pub lr: f64,
    /// What there is after the time T; `None` if the training diverged.
    pub end: Option<End>,
}

/// The end of a training.
pub struct End {
    /// max_j |c_j(T) − c_j(0)|.
    pub moved: f64,
    /// How far c is from c(0) + η² S, relative.
    pub off: f64,
    /// Σ_j |c_j(T)| / Σ_j |c_j(0)|.
    pub imbalance: f64,
    /// η λ/2, λ at the end.
    pub sharpness: f64,
    /// The loss.
    pub loss: f64,
}

/// A model with all learning rates.
pub struct Study {
    name: &'static str,
    laws: usize,
    points: Vec<Point>,
}

/// λ, the eigenvalue of the Hessian of largest size at the parameters of a model, by power iteration.
fn sharpness(net: &dyn Net, seed: u64) -> f64 {
    let size = |x: &[Tensor<f64>]| {
        let squares = x.iter().map(|x| x.mapv(|x| x * x).sum());
        squares.sum::<f64>().sqrt()
    };
    let rng = &mut init::rng(seed);
    let shapes = net.tensors().into_iter();
    let mut v: Vec<Tensor<f64>> = shapes.map(|p| init::normal(p.shape(), 1.0, rng)).collect();
    let mut found = 0.0;
    for _ in 0..100 {
        let norm = size(&v).max(f64::MIN_POSITIVE);
        let tape = Tape::new();
        let pass = Pass::train(&tape, net, 0);
        let unit: Vec<Tensor<f64>> = v
            .iter()
            .map(|v| v.mapv(|x| x / norm).into_shared())
            .collect();
        v = hvp(loss(net, &pass, seed), pass.vars(), &unit);
        found = size(&v);
    }
    found
}

fn imbalance(c: &[f64]) -> f64 {
    c.iter().map(|c| c.abs()).sum()
}

/// The slope of ln y over ln x, by least squares.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let along: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    along / logs.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>()
}

impl Study {
    /// Trains the model once per learning rate.
    ///
    /// # Errors
    /// If the search finds no law: then nothing drifts.
    pub fn of(model: &Model, options: Options) -> Result<Self> {
        let fresh = || (model.make)(options);
        let how = Search {
            brackets: 0,
            ..Search::default()
        };
        let net = fresh();
        let found = discover(&*net, &how, |pass, seed| net.forward(pass, seed));
        let laws: Vec<Generator> = found.laws.into_iter().map(|law| law.generator).collect();
        if laws.is_empty() {
            let found = format!("{}, which has none", model.name);
            return Err(Error::invalid("--drift", "a model with a law", found));
        }
        let edge = 2.0 / sharpness(&*fresh(), options.seed);
        let points = RATES.map(|share| {
            let how = How {
                steps: (TIME / (share * edge)).round().max(1.0) as u64,
                rule: Rule::Descent,
                lr: share * edge,
                decay: 0.0,
                seed: options.seed,
            };
            let mut net = fresh();
            let run = train(&mut *net, &how, &laws);
            let (start, end) = (&run.conserved[0], run.conserved.last().expect("the start"));
            let end = End {
                moved: apart(start, end),
                off: run.off().unwrap_or(f64::NAN),
                imbalance: imbalance(end) / imbalance(start),
                sharpness: sharpness(&*net, options.seed) * how.lr / 2.0,
                loss: gradient_at(&*net, options.seed).0,
            };
            Point {
                share,
                lr: how.lr,
                end: (!run.diverged && end.loss.is_finite()).then_some(end),
            }
        });
        Ok(Self {
            name: model.name,
            laws: laws.len(),
            points: points.into(),
        })
    }

    /// The exponent of max |c(T) − c(0)| over η at small learning rates.
    pub fn exponent(&self) -> f64 {
        let small = self.points.iter().filter(|p| p.share <= SMALL);
        let moved = small.filter_map(|p| Some((p.lr, p.end.as_ref()?.moved)));
        exponent(&moved.collect::<Vec<_>>())
    }

    /// The table.
    pub fn lines(&self) -> String {
        let mut out = format!(
            "{}: {} laws, c(T) − c(0) ~ η^{:.2} for η ≤ {SMALL} · 2/λ\n    η λ/2       η  max |c(T) − c(0)|  off \
             the sum  Σ|c(T)|/Σ|c(0)|  η λ(T)/2     loss",
            self.name,
            self.laws,
            self.exponent()
        );
        for p in &self.points {
            out += &format!("\n    {:<7.4} {:>7.4}  ", p.share, p.lr);
            out += &match &p.end {
                None => "diverged".to_owned(),
                Some(end) => format!(
                    "{:>17.3e}  {:>11.0e}  {:>15.3}  {:>8.3}  {:>7.1e}",
                    end.moved, end.off, end.imbalance, end.sharpness, end.loss,
                ),
            };
        }
        out
    }

    /// The same as an object.
    pub fn json(&self) -> Value {
        let end = |end: &End| {
            json!({
                "moved": end.moved, "off": end.off, "imbalance": end.imbalance,
                "sharpness": end.sharpness, "loss": end.loss,
            })
        };
        let point =
            |p: &Point| json!({"share": p.share, "lr": p.lr, "end": p.end.as_ref().map(end)});
        let points: Vec<Value> = self.points.iter().map(point).collect();
        json!({"model": self.name, "laws": self.laws, "exponent": self.exponent(), "points": points})
    }
}

/// Draws the moves of c and the imbalances of all models over η; the path of the figure.
pub fn draw(studies: &[Study], figures: &Figures) -> Result<Option<PathBuf>> {
    let panel = |title: &str, label: &str, of: fn(&End) -> f64| Panel {
        title: title.to_owned(),
        x: Axis::new("log₁₀ of η λ/2"),
        y: Axis::new(label),
        series: (studies.iter().zip(COLOURS.iter().cycle()))
            .map(|(study, colour)| {
                let ends = study.points.iter();
                let ends = ends.filter_map(|p| Some((p.share.log10(), p.end.as_ref()?)));
                let points = ends.map(|(x, end)| (x, of(end).max(1e-18).log10()));
                let name = format!("{}, exponent {:.2}", study.name, study.exponent());
                Series::new(name, *colour, Mark::Line(points.collect()))
            })
            .collect(),
    };
    let panels = [
        panel("max |c(T) − c(0)|", "log₁₀", |p| p.moved),
        panel("Σ|c(T)| / Σ|c(0)|", "log₁₀", |p| p.imbalance),
    ];
    let title = format!("What η does to a law: gradient descent for the time T = n η = {TIME}");
    let paths = figures::write(figures, "laws-drift", (900, 380), &title, 2, &panels)?;
    Ok(paths.into_iter().next())
}
