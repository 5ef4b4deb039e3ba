//! A checksum of what a run reads: by it a checkpoint knows other data of the same name and size.

use emmy::data::text::Text;
use emmy::data::{Dataset, Split};
use emmy::sparse::Pattern;

/// Rows and columns of the entries.
fn places(pattern: &Pattern) -> impl Iterator<Item = u64> {
    let (rows, columns) = (pattern.rows_of().iter(), pattern.indices().iter());
    rows.chain(columns).map(|&end| end.into())
}

fn of(words: impl Iterator<Item = u64>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    words.for_each(|word| hasher.update(&word.to_le_bytes()));
    hasher.finalize()
}

/// CRC-32 of the three parts of a text.
pub fn of_text(text: &Text) -> u32 {
    let parts = [&text.train, &text.validation, &text.test];
    of(parts
        .into_iter()
        .flat_map(|part| part.iter().map(|&symbol| symbol.into())))
}

/// CRC-32 of edges, features, labels and a split of a graph.
pub fn of_graph(set: &Dataset, split: &Split) -> u32 {
    let values = set.features.values.iter().map(|x| x.to_bits().into());
    let labels = set.labels.iter().map(|&label| label as u64);
    let masks = [&split.train, &split.val, &split.test];
    let masks = masks
        .into_iter()
        .flat_map(|mask| mask.iter().map(|&chosen| chosen.into()));
    of(places(set.graph.pattern())
        .chain(places(&set.features.pattern))
        .chain(values)
        .chain(labels)
        .chain(masks))
}
