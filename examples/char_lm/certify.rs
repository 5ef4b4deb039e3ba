//! Measurements of a model at the end besides its losses: how many characters it predicts correctly, and how
//! far the logits of the certified model can move.

use crate::model::CharModel;
use emmy::data::text::{Symbol, Text};
use emmy::lipschitz::{Lower, Objective, Search, local};
use emmy::nn::{CertifiedLanguageModel, Pass};
use emmy::{Real, Result, Tape, Tensor};
use serde::Serialize;
use std::ops::Range;

/// The number of windows of the validation text at which the Jacobian is computed, and the characters per
/// window.
const WINDOWS: usize = 8;
const LENGTH: usize = 32;

/// Steps of power iteration at each window, and of the ascent from there.
const POWER: usize = 100;
const STEPS: usize = 20;

/// Predictions of a part of the text: each character except the first is predicted once.
#[derive(Debug, Clone, Default)]
pub struct Predictions {
    /// Nats per character.
    pub loss: f64,
    /// The share of the characters that have the largest probability.
    pub accuracy: f64,
    /// The largest logit minus the second largest, one number per character, in ascending order.
    pub margins: Vec<f64>,
}

/// The windows in which characters are predicted.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The characters per window.
    pub context: usize,
    /// The distance between the first characters of two windows. Each window but the first predicts its last
    /// `stride` characters, from the others and each other.
    pub stride: usize,
    /// The windows per pass.
    pub batch: usize,
}

impl Predictions {
    /// # Panics
    /// If the part has less than two characters, or the stride is not from 1 to the context.
    pub fn of<F: Real>(model: &CharModel<F>, part: &[Symbol], reading: Reading) -> Self {
        let Reading {
            context,
            stride,
            batch,
        } = reading;
        assert!(
            (1..=context).contains(&stride) && part.len() > 1,
            "{reading:?} of a part with {} characters",
            part.len()
        );
        let count = part.len() - 1;
        let mut found = Self {
            margins: Vec::with_capacity(count),
            ..Self::default()
        };
        let whole = match count.checked_sub(context) {
            Some(rest) => rest / stride + 1,
            None => 0,
        };
        for first in (0..whole).step_by(batch) {
            let windows = first..whole.min(first + batch);
            found.add(model, part, windows, reading);
        }
        let covered = match whole {
            0 => 0,
            _ => (whole - 1) * stride + context,
        };
        if covered < count {
            found.add(model, part, whole..whole + 1, reading);
        }
        found.loss /= count as f64;
        found.accuracy /= count as f64;
        found.margins.sort_by(f64::total_cmp);
        found
    }

    /// Adds the sums of windows of equal length.
    fn add<F: Real>(
        &mut self,
        model: &CharModel<F>,
        part: &[Symbol],
        windows: Range<usize>,
        reading: Reading,
    ) {
        let Reading {
            context, stride, ..
        } = reading;
        let starts: Vec<usize> = windows.map(|window| window * stride).collect();
        let length = context.min(part.len() - 1 - starts[0]);
        let read: Vec<usize> = (starts.iter())
            .flat_map(|&start| &part[start..start + length])
            .map(|&symbol| usize::from(symbol))
            .collect();
        let tape = Tape::new();
        let logits = model.forward(&Pass::eval(&tape, model), &read, starts.len());
        let logits = logits.value();
        for (window, &start) in logits.outer_iter().zip(&starts) {
            let seen = match start {
                0 => 0,
                _ => context - stride,
            };
            let rows = window.outer_iter().zip(&part[start + 1..]);
            for (row, &next) in rows.skip(seen) {
                let mut best = [(usize::MAX, f64::NEG_INFINITY); 2];
                for (k, z) in row.iter().enumerate() {
                    let z = z.as_f64();
                    if z > best[0].1 {
                        best = [(k, z), best[0]];
                    } else if z > best[1].1 {
                        best[1] = (k, z);
                    }
                }
                let [(predicted, most), (_, second)] = best;
                let sum: f64 = row.iter().map(|z| (z.as_f64() - most).exp()).sum();
                let next = usize::from(next);
                self.loss += sum.ln() - (row[next].as_f64() - most);
                self.accuracy += f64::from(u8::from(predicted == next));
                self.margins.push(most - second);
            }
        }
    }
}

/// The constant of the logits with respect to the embedded characters in the 2-norm, and the size of these
/// characters; the constant has a meaning only together with this size.
#[derive(Serialize, Debug, Clone)]
pub struct Certificate {
    /// The upper bound, proven for all inputs.
    pub lipschitz_upper: f64,
    /// The lower bound, found by gradient ascent from windows of the validation text.
    pub lipschitz_lower: f64,
    /// The largest norm of the Jacobian at these windows.
    pub lipschitz_at_text: f64,
    /// K, the factor of the table.
    pub embedded_scale: f64,
    /// The mean distance between the vectors of two characters.
    pub embedded_distance: f64,
    /// The perturbation of a sequence that provably changes no prediction of a character, margin / (√2 L):
    /// the median over the validation text, as a share of that distance.
    pub certified_radius: f64,
}

impl Certificate {
    /// # Errors
    /// If a weight is not a finite number.
    pub fn of<F: Real>(
        net: &CertifiedLanguageModel<F>,
        text: &Text,
        margins: &[f64],
    ) -> Result<Self> {
        let upper = net.certificate(net.config.context)?.get();
        let part = &text.validation;
        let length = LENGTH.min(net.config.context).min(part.len());
        let scale = net.scale[[0]].as_f64();
        let last = part.len() - length;
        let starts: Vec<Tensor<F>> = (0..WINDOWS)
            .map(|k| {
                let start = last * k / WINDOWS;
                let read: Vec<usize> = (part[start..start + length].iter())
                    .map(|&symbol| usize::from(symbol))
                    .collect();
                let tape = Tape::new();
                net.embedded(&Pass::eval(&tape, net), &read, 1).value()
            })
            .collect();
        let at = |x: &Tensor<F>| {
            let tape = Tape::new();
            let x = tape.var(x.clone());
            local(net.of_embedded(&Pass::eval(&tape, net), x), x, POWER, 0)
        };
        let at_text = starts
            .iter()
            .map(at)
            .fold(Lower::ZERO, |a, b| if b > a { b } else { a });
        let search = Search {
            steps: STEPS,
            rate: 0.03 * scale,
            ..Search::new(Objective::Two, 0)
        };
        let found = search.from(starts, |x| net.of_embedded(&Pass::eval(x.tape(), net), x));
        let distance = scale * mean_distance(&net.tokens.weight);
        let margin = margins.get(margins.len() / 2).copied().unwrap_or(f64::NAN);
        Ok(Self {
            lipschitz_upper: upper,
            lipschitz_lower: found.lower.get().max(at_text.get()),
            lipschitz_at_text: at_text.get(),
            embedded_scale: scale,
            embedded_distance: distance,
            certified_radius: margin / (2f64.sqrt() * upper) / distance,
        })
    }
}

/// The mean distance between two rows.
fn mean_distance<F: Real>(table: &Tensor<F>) -> f64 {
    let rows: Vec<Vec<f64>> = (table.outer_iter())
        .map(|row| row.iter().map(|x| x.as_f64()).collect())
        .collect();
    let mut sum = 0.0;
    let mut count = 0;
    for (k, a) in rows.iter().enumerate() {
        for b in &rows[..k] {
            let squares = a.iter().zip(b).map(|(x, y)| (x - y).powi(2));
            sum += squares.sum::<f64>().sqrt();
            count += 1;
        }
    }
    sum / f64::from(count.max(1))
}
