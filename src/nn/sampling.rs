//! Drawing symbols from logits.

use crate::init::{self, Rng};
use crate::real::Real;
use rand::RngExt;

/// How the next symbol is drawn from logits z: symbol i with probability proportional to exp(z_i / T) if it
/// is among the k likeliest, else never.
///
/// ```
/// use emmy::{init, nn::Sampling};
///
/// let logits = [1.0_f32, 3.0, 2.0];
/// let rng = &mut init::rng(0);
/// assert_eq!(Sampling::GREEDY.draw(logits, rng), 1);
/// let how = Sampling { temperature: 0.8, top_k: Some(2), seed: 0 };
/// assert_ne!(how.draw(logits, rng), 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// T ≥ 0. Below 1 likely symbols become likelier, above 1 all become more alike; at 0 the likeliest symbol
    /// is taken, the first of equals.
    pub temperature: f64,
    /// k ≥ 1; `None` to draw from all symbols. Of equal logits at the border the first ones count.
    pub top_k: Option<usize>,
    /// The seed of [`continuation`](Self::continuation).
    pub seed: u64,
}

impl Sampling {
    /// The likeliest symbol each time.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: None,
        seed: 0,
    };

    /// The number of a drawn symbol.
    ///
    /// # Panics
    /// If the temperature is not a finite number ≥ 0 or k is 0. If the largest logit is not a finite number
    /// (−∞ is allowed for symbols that must not come) or a logit is NaN.
    #[track_caller]
    pub fn draw<F: Real>(&self, logits: impl IntoIterator<Item = F>, rng: &mut Rng) -> usize {
        let Self {
            temperature, top_k, ..
        } = *self;
        assert!(
            temperature >= 0.0 && temperature.is_finite(),
            "Sampling: the temperature is {temperature}, it must be a finite number from 0 up"
        );
        assert!(
            top_k != Some(0),
            "Sampling: top_k is 0, it must be at least 1"
        );
        let logits: Vec<f64> = logits.into_iter().map(|z| z.as_f64()).collect();
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(
            largest.is_finite() && !logits.iter().any(|z| z.is_nan()),
            "Sampling: the largest of {} logits is {largest}: logits must be numbers, the largest finite",
            logits.len()
        );
        let mut likely: Vec<usize> = (0..logits.len()).collect();
        likely.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        likely.truncate(top_k.unwrap_or(usize::MAX));
        if temperature == 0.0 {
            return likely[0];
        }
        let weight = |&k: &usize| ((logits[k] - largest) / temperature).exp();
        let weights: Vec<f64> = likely.iter().map(weight).collect();
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

    /// `count` symbols that continue a prompt, drawn one after the other by [`draw`](Self::draw); the same
    /// seed gives the same symbols. [`LanguageModel::generate`](super::LanguageModel::generate) is this
    /// function for that model.
    ///
    /// `read(symbols, anew)` is the model: it returns the logits after the last of `symbols`, which follow
    /// those of the calls before; `anew` says to forget these first. `context` is the most symbols that the
    /// model can hold. If it is full, the places of all symbols change, so the model reads the last half of
    /// them anew.
    ///
    /// # Panics
    /// If the prompt is empty or `context` is 0, and as [`draw`](Self::draw).
    #[track_caller]
    pub fn continuation<F: Real, Z: IntoIterator<Item = F>>(
        &self,
        prompt: &[usize],
        count: usize,
        context: Option<usize>,
        mut read: impl FnMut(&[usize], bool) -> Z,
    ) -> Vec<usize> {
        assert!(
            !prompt.is_empty(),
            "Sampling: the prompt is empty, it must have at least one symbol"
        );
        assert!(
            context != Some(0),
            "Sampling: the context is 0, it must be at least 1"
        );
        let most = context.unwrap_or(usize::MAX);
        let rng = &mut init::rng(self.seed);
        let mut all = prompt.to_vec();
        // The model holds the symbols first..read_to.
        let mut first = all.len().saturating_sub(most);
        let mut read_to = first;
        for _ in 0..count {
            if all.len() - first > most {
                first = all.len() - (most / 2).max(1);
                read_to = first;
            }
            let logits = read(&all[read_to..], read_to == first);
            read_to = all.len();
            all.push(self.draw(logits, rng));
        }
        all.split_off(prompt.len())
    }
}
