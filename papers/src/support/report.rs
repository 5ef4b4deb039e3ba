//! Tables and summaries for readers.

use emmy::train::metrics::precision_recall;
use ndarray::Array2;
use std::fmt::Write;

/// Mean and sample standard deviation. The deviation of a single value is NaN, and both are NaN without a
/// value; JSON writes NaN as null.
pub fn mean_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    let variance = match values.len() {
        0 | 1 => f64::NAN,
        _ => squares / (n - 1.0),
    };
    (mean, variance.sqrt())
}

/// A confusion matrix with the recall and the precision of each class.
pub fn confusion(counts: &Array2<usize>) -> String {
    let mut out = String::from("  class  taken for\n        ");
    let scores = precision_recall(counts);
    let write = |out: &mut String, text: std::fmt::Arguments<'_>| {
        out.write_fmt(text)
            .expect("a string takes what it is given");
    };
    for c in 0..counts.ncols() {
        write(&mut out, format_args!("{c:>5}"));
    }
    out.push_str("   recall\n");
    for (c, row) in counts.rows().into_iter().enumerate() {
        write(&mut out, format_args!("{c:>8}"));
        for &count in row {
            write(&mut out, format_args!("{count:>5}"));
        }
        match scores[c].1.is_finite() {
            true => write(&mut out, format_args!("  {:>5.1} %\n", 100.0 * scores[c].1)),
            false => write(&mut out, format_args!("      –\n")),
        }
    }
    out.push_str("precis. ");
    for (precision, _) in scores {
        // A class that was never predicted has no precision.
        match precision.is_finite() {
            true => write(&mut out, format_args!("{:>5.0}", 100.0 * precision)),
            false => write(&mut out, format_args!("    –")),
        }
    }
    out.push_str("  %");
    out
}
