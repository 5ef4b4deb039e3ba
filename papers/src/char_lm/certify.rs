//! How far the logits of the certified model can move.

use crate::certified::CertifiedEnsemble;
use emmy::data::text::Text;
use emmy::lipschitz::{Ascent, Lower, Objective, local};
use emmy::nn::Pass;
use emmy::{Real, Result, Tape, Tensor};
use serde::Serialize;

/// The number of windows of the validation text at which the Jacobian is computed, and the characters per
/// window.
const WINDOWS: usize = 8;
const LENGTH: usize = 32;

/// Steps of power iteration at each window, and of the ascent from there.
const POWER: usize = 100;
const STEPS: usize = 20;

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
    /// K, the factor of the table; the mean over the members.
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
    pub fn of<F: Real>(net: &CertifiedEnsemble<F>, text: &Text, margins: &[f64]) -> Result<Self> {
        let upper = net.certificate(net.config().context)?.get();
        let part = &text.validation;
        let length = LENGTH.min(net.config().context).min(part.len());
        let factors = net
            .members()
            .iter()
            .map(|member| member.scale[[0]].as_f64());
        let scale = factors.sum::<f64>() / net.members().len() as f64;
        let embedded = |symbols: &[usize], sequences| {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, net);
            net.embedded(&pass, symbols, sequences).value()
        };
        let last = part.len() - length;
        let starts: Vec<Tensor<F>> = (0..WINDOWS)
            .map(|k| {
                let start = last * k / WINDOWS;
                let read: Vec<usize> = (part[start..start + length].iter())
                    .map(|&symbol| usize::from(symbol))
                    .collect();
                embedded(&read, 1)
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
        let search = Ascent {
            steps: STEPS,
            rate: 0.03 * scale,
            ..Ascent::new(Objective::Two, 0)
        };
        let found = search.from(starts, |x| net.of_embedded(&Pass::eval(x.tape(), net), x));
        let symbols: Vec<usize> = (0..net.config().symbols).collect();
        let distance = mean_distance(&embedded(&symbols, symbols.len()));
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

/// The mean distance between two sequences.
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
