//! What η does to a law: c after a fixed time T = n η of gradient descent, for learning rates η below and
//! beyond the edge of stability.
//!
//! A step of descent moves c of each law by exactly η² γ, γ the same signed sum of squares of the gradient
//! ([`Drift`](emmy::symmetry::Drift)). So c(T) − c(0) = η² S(η) with S = Σ_t γ_t, law by law. D. N. Medeiros
//! ("Conservation Law Breaking at the Edge of Stability", arXiv 2604.07405) has this decomposition for the sums
//! over layers of ReLU networks without biases, and measures exponents of η from 1.1 to 1.6. With T fixed, S is
//! proportional to 1/η as long as the steps follow the flow, so the exponent is 1 for small η.

use super::models::{Model, Options};
use super::nets::Net;
use super::training::{How, Rule, apart, gradient_at, train};
use crate::support::args::Figures;
use crate::support::figures;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use emmy::nn::discover;
use emmy::symmetry::{Generator, Search};
use emmy::{Result, Tensor, init};
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
    /// η λ/2.
    pub share: f64,
    /// η.
    pub lr: f64,
    /// max_j |c_j(T) − c_j(0)|.
    pub moved: f64,
    /// How far c is from c(0) + η² S, relative.
    pub off: f64,
    /// Σ_j |c_j(T)| / Σ_j |c_j(0)|.
    pub imbalance: f64,
    /// λ at the end, times η/2; `None` if the training diverged.
    pub sharpness: Option<f64>,
    /// The loss at the end.
    pub loss: Option<f64>,
}

/// A model with all learning rates.
pub struct Study {
    name: &'static str,
    laws: usize,
    points: Vec<Point>,
}

/// λ, the eigenvalue of the Hessian of largest size at the parameters of a model, by power iteration on
/// differences of gradients. It moves the parameters.
fn sharpness(net: &mut dyn Net, seed: u64) -> f64 {
    const STEP: f64 = 1e-5;
    let theta: Vec<Tensor<f64>> = net.tensors().into_iter().cloned().collect();
    let size = |x: &[Tensor<f64>]| {
        let squares = x.iter().map(|x| x.mapv(|x| x * x).sum());
        squares.sum::<f64>().sqrt()
    };
    let rng = &mut init::rng(seed);
    let draw = |p: &Tensor<f64>| init::normal(p.shape(), 1.0, rng);
    let mut v: Vec<Tensor<f64>> = theta.iter().map(draw).collect();
    let mut found = 0.0;
    for _ in 0..60 {
        let norm = size(&v).max(f64::MIN_POSITIVE);
        let mut at = |sign: f64| {
            for ((p, start), v) in net.tensors_mut().into_iter().zip(&theta).zip(&v) {
                *p = start.clone();
                p.scaled_add(sign * STEP / norm, v);
            }
            gradient_at(net, seed).1
        };
        let (up, down) = (at(1.0), at(-1.0));
        let difference = |(a, b): (&Tensor<f64>, &Tensor<f64>)| (a - b) / (2.0 * STEP);
        v = up
            .iter()
            .zip(&down)
            .map(|pair| difference(pair).into_shared())
            .collect();
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
    pub fn of(model: &Model, options: Options) -> Self {
        let fresh = || (model.make)(options);
        let how = Search {
            brackets: 0,
            ..Search::default()
        };
        let net = fresh();
        let found = discover(&*net, &how, |pass, seed| net.forward(pass, seed));
        let laws: Vec<Generator> = found.laws.into_iter().map(|law| law.generator).collect();
        let edge = 2.0 / sharpness(&mut *fresh(), options.seed);
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
            let loss = (!run.diverged).then(|| gradient_at(&*net, options.seed).0);
            Point {
                share,
                lr: how.lr,
                moved: apart(start, end),
                off: run.off().unwrap_or(f64::NAN),
                imbalance: imbalance(end) / imbalance(start),
                sharpness: loss.map(|_| sharpness(&mut *net, options.seed) * how.lr / 2.0),
                loss: loss.filter(|loss| loss.is_finite()),
            }
        });
        Self {
            name: model.name,
            laws: laws.len(),
            points: points.into(),
        }
    }

    /// The exponent of max |c(T) − c(0)| over η at small learning rates.
    pub fn exponent(&self) -> f64 {
        let small = self
            .points
            .iter()
            .filter(|p| p.share <= SMALL && p.moved > 0.0);
        exponent(&small.map(|p| (p.lr, p.moved)).collect::<Vec<_>>())
    }

    /// The table.
    pub fn lines(&self) -> String {
        let mut out = format!(
            "{}: {} laws, c(T) − c(0) ~ η^{:.2} for η ≤ {SMALL} · 2/λ\n    η λ/2       η    max |c(T) − c(0)|  \
             off the sum  Σ|c(T)|/Σ|c(0)|  η λ(T)/2      loss\n",
            self.name,
            self.laws,
            self.exponent()
        );
        for p in &self.points {
            let or = |x: Option<f64>, of: fn(f64) -> String| x.map_or("diverged".to_owned(), of);
            out += &format!(
                "    {:<7.4} {:>8.4}  {:>17.3e}  {:>11.0e}  {:>15.3}  {:>8}  {:>8}\n",
                p.share,
                p.lr,
                p.moved,
                p.off,
                p.imbalance,
                or(p.sharpness, |x| format!("{x:.3}")),
                or(p.loss, |x| format!("{x:.1e}")),
            );
        }
        out.trim_end().to_owned()
    }

    /// The same as an object.
    pub fn json(&self) -> Value {
        let point = |p: &Point| {
            json!({
                "share": p.share, "lr": p.lr, "moved": p.moved, "off": p.off,
                "imbalance": p.imbalance, "sharpness": p.sharpness, "loss": p.loss,
            })
        };
        let points: Vec<Value> = self.points.iter().map(point).collect();
        json!({"model": self.name, "laws": self.laws, "exponent": self.exponent(), "points": points})
    }
}

/// Draws the moves of c and the imbalances of all models over η; the path of the figure.
pub fn draw(studies: &[Study], figures: &Figures) -> Result<Option<PathBuf>> {
    let panel = |title: &str, label: &str, of: fn(&Point) -> f64| Panel {
        title: title.to_owned(),
        x: Axis::new("log₁₀ of η λ/2"),
        y: Axis::new(label),
        series: (studies.iter().zip(COLOURS.iter().cycle()))
            .map(|(study, colour)| {
                let kept = study.points.iter().filter(|p| p.loss.is_some());
                let points = kept.map(|p| (p.share.log10(), of(p).max(1e-18).log10()));
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
