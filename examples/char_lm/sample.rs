//! Generates a text, character by character.

use crate::model::CharModel;
use emmy::Real;
use emmy::data::text::Symbol;
use emmy::init::{self, Rng};
use emmy::rand::RngExt;

/// How a sample is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    /// The temperature: logits are divided by it; at 0 the most likely character is taken, the first of
    /// equals.
    pub temperature: f64,
    /// The number of the most likely characters to draw from.
    pub top_k: usize,
    pub seed: u64,
}

impl Sampler {
    /// `count` characters after a prompt.
    ///
    /// The model keeps its results for the characters so far. If a transformer has filled its context, the
    /// positions of all characters change, so it reads the last half of them again.
    pub fn write<F: Real>(
        &self,
        model: &CharModel<F>,
        prompt: &[Symbol],
        count: usize,
    ) -> Vec<Symbol> {
        let rng = &mut init::rng(self.seed);
        let mut memory = model.memory();
        let mut all: Vec<usize> = prompt.iter().map(|&symbol| symbol.into()).collect();
        let most = model.most().unwrap_or(usize::MAX);
        // The characters not yet read are those from here on.
        let mut unread = all.len().saturating_sub(most);
        let mut held = 0;
        for _ in 0..count {
            if held + all.len() - unread > most {
                memory = model.memory();
                held = 0;
                unread = all.len() - (most / 2).max(1);
            }
            let logits = model.next(&all[unread..], &mut memory);
            held += all.len() - unread;
            unread = all.len();
            all.push(self.choose(&logits, rng));
        }
        let written = &all[prompt.len()..];
        // The symbols of a text are below 2¹⁶.
        written.iter().map(|&symbol| symbol as Symbol).collect()
    }

    fn choose(&self, logits: &[f64], rng: &mut Rng) -> usize {
        let mut likely: Vec<usize> = (0..logits.len()).collect();
        likely.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        likely.truncate(self.top_k);
        if self.temperature == 0.0 {
            return likely[0];
        }
        let largest = logits[likely[0]];
        let weights = likely
            .iter()
            .map(|&k| ((logits[k] - largest) / self.temperature).exp());
        let weights: Vec<f64> = weights.collect();
        let mut left = rng.random::<f64>() * weights.iter().sum::<f64>();
        for (&k, weight) in likely.iter().zip(weights) {
            left -= weight;
            if left < 0.0 {
                return k;
            }
        }
        // Rounding errors can leave a small remainder.
        likely[0]
    }
}
