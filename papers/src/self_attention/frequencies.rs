//! What the frequencies of characters alone predict: the yardstick of every loss in the table.

use emmy::data::text::{Symbol, Text};
use std::collections::HashMap;

/// The cross-entropies, in nats per character, of three tables of frequencies that are counted in the
/// training text: of single characters, of pairs, and of triples.
///
/// A table of n-tuples predicts a character c behind n − 1 known ones, h, with the probability
/// (count of h c + 1) / (count of h + number of symbols). The loss is the mean over all characters of `part`
/// that have n − 1 others before them; 0 if there is none.
///
/// ```
/// use emmy::data::text::Text;
/// use papers::self_attention::frequency_losses;
///
/// // After an a there was always a b: (3 + 1) / (3 + 2).
/// let text = Text::new("ab", "abababa", "ab", "")?;
/// let [characters, pairs, _] = frequency_losses(&text, &text.validation);
/// assert!((pairs - (5.0_f64 / 4.0).ln()).abs() < 1e-12);
/// assert!((characters - 0.5 * ((9.0_f64 / 5.0).ln() + (9.0_f64 / 4.0).ln())).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
pub fn frequency_losses(text: &Text, part: &[Symbol]) -> [f64; 3] {
    [1, 2, 3].map(|n| {
        let (tuples, known) = (counts(&text.train, n), counts(&text.train, n - 1));
        // The last n − 1 characters of the text are no beginning of a tuple.
        let end = (n > 1).then(|| &text.train[text.train.len().saturating_sub(n - 1)..]);
        let symbols = text.symbol_count() as f64;
        let losses = part.windows(n).map(|tuple| {
            let before = &tuple[..n - 1];
            let ends = end.is_some_and(|end| end == before);
            let seen = known.get(before).copied().unwrap_or(0) - u32::from(ends);
            let found = tuples.get(tuple).copied().unwrap_or(0);
            -((f64::from(found) + 1.0) / (f64::from(seen) + symbols)).ln()
        });
        losses.sum::<f64>() / part.len().saturating_sub(n - 1).max(1) as f64
    })
}

/// How often each n-tuple of characters occurs; for n = 0, the number of characters.
fn counts(text: &[Symbol], n: usize) -> HashMap<&[Symbol], u32> {
    if n == 0 {
        return HashMap::from([(&text[..0], text.len() as u32)]);
    }
    let mut counts = HashMap::new();
    for tuple in text.windows(n) {
        *counts.entry(tuple).or_insert(0) += 1;
    }
    counts
}
