//! Parts of a text of one length.

use crate::error::{Error, Result};
use crate::init::Rng;
use rand::RngExt;

/// The windows of a text: `context` symbols from a start on, and the symbol that follows each.
///
/// ```
/// use emmy::data::text::Windows;
/// let windows = Windows::new("text", 11, 4)?;
/// assert_eq!(windows.starts(), 7);
/// // Side by side, the two whole windows predict the symbols 1 to 8.
/// assert_eq!(windows.spread(10), [0, 4]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    length: usize,
    context: usize,
}

impl Windows {
    /// The windows of `context` symbols in a text of `length` symbols; an error names the text by `what`.
    ///
    /// # Errors
    /// If `context` is 0, or the text has no window and symbol behind it.
    pub fn new(what: &str, length: usize, context: usize) -> Result<Self> {
        if context == 0 {
            return Err(Error::invalid("context", "at least 1", "0"));
        }
        if length <= context {
            let rule = format!("more characters than the context, {context}");
            return Err(Error::invalid(what, rule, length.to_string()));
        }
        Ok(Self { length, context })
    }

    /// The number of symbols in a window.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The number of places where a window can start.
    pub fn starts(&self) -> usize {
        self.length - self.context
    }

    /// `count` starts; all places are equally likely, and one may come twice.
    pub fn random(&self, count: usize, rng: &mut Rng) -> Vec<usize> {
        let starts = self.starts() as u64;
        let draw = |_| rng.random_range(0..starts) as usize;
        (0..count).map(draw).collect()
    }

    /// The number of whole windows that lie side by side from the beginning.
    pub fn side_by_side(&self) -> usize {
        (self.length - 1) / self.context
    }

    /// The starts of at most `count` of the windows that lie side by side: all of them, or `count` that are
    /// spread evenly over the text.
    pub fn spread(&self, count: usize) -> Vec<usize> {
        let all = self.side_by_side();
        let count = count.min(all);
        let place = |k: usize| (k as u128 * all as u128 / count as u128) as usize;
        (0..count).map(|k| place(k) * self.context).collect()
    }
}

/// A window, and which of its symbols have a successor that is predicted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The place of its first symbol.
    pub start: usize,
    /// The number of its symbols.
    pub length: usize,
    /// The successors of this many first symbols are predicted in the window before.
    pub seen: usize,
}

impl Window {
    /// Windows that together predict each symbol of a text of `length` symbols once, except the first. They
    /// have `context` symbols and begin `stride` symbols after one another; the last one may be shorter. In
    /// each window but the first, a prediction sees the symbol itself and at least `context` − `stride`
    /// symbols before it.
    ///
    /// ```
    /// use emmy::data::text::Window;
    /// let places = |stride| -> Vec<_> {
    ///     let windows = Window::covering(11, 4, stride).into_iter();
    ///     windows.map(|w| (w.start, w.length, w.seen)).collect()
    /// };
    /// assert_eq!(places(4), [(0, 4, 0), (4, 4, 0), (8, 2, 0)]);
    /// assert_eq!(places(3), [(0, 4, 0), (3, 4, 1), (6, 4, 1)]);
    /// ```
    ///
    /// # Panics
    /// If the stride is not from 1 to the context, or the text has no symbol.
    #[track_caller]
    pub fn covering(length: usize, context: usize, stride: usize) -> Vec<Self> {
        assert!(
            (1..=context).contains(&stride) && length > 0,
            "Window: {length} symbols, a context of {context}, a stride of {stride}"
        );
        let mut windows = Vec::new();
        let (mut start, mut predicted) = (0, 0);
        while predicted < length - 1 {
            let window = Self {
                start,
                length: context.min(length - 1 - start),
                seen: predicted - start,
            };
            windows.push(window);
            (start, predicted) = (start + stride, start + window.length);
        }
        windows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init;

    #[test]
    fn windows_cover_each_symbol_but_the_first_once() {
        for length in 1..30 {
            for context in 1..length + 2 {
                for stride in 1..=context {
                    let windows = Window::covering(length, context, stride);
                    let predicted = windows
                        .iter()
                        .flat_map(|w| w.start + w.seen..w.start + w.length);
                    assert!(predicted.eq(0..length - 1), "{length}, {context}, {stride}");
                    for (k, w) in windows.iter().enumerate() {
                        assert_eq!(w.start, k * stride);
                        assert_eq!(w.seen, if k == 0 { 0 } else { context - stride });
                        assert!(w.length == context || k + 1 == windows.len());
                    }
                }
            }
        }
    }

    #[test]
    fn windows_side_by_side_are_spread_evenly() {
        for length in 2..40 {
            for context in 1..length {
                let windows = Windows::new("text", length, context).unwrap();
                let whole = windows.spread(usize::MAX);
                let covering = Window::covering(length, context, context);
                let covering = covering.iter().filter(|w| w.length == context);
                assert!(covering.map(|w| w.start).eq(whole.iter().copied()));
                assert_eq!(whole.len(), windows.side_by_side());
                for count in 1..=whole.len() {
                    let some = windows.spread(count);
                    assert_eq!(some.len(), count);
                    assert!(some.windows(2).all(|pair| pair[0] < pair[1]));
                    assert!(some.iter().all(|start| whole.contains(start)));
                }
            }
        }
        // An even spread of 3 among 9.
        let windows = Windows::new("text", 91, 10).unwrap();
        assert_eq!(windows.spread(3), [0, 30, 60]);
    }

    #[test]
    fn random_starts_reach_both_ends_and_follow_from_the_seed() {
        let windows = Windows::new("text", 15, 5).unwrap();
        let draw = |seed| windows.random(1000, &mut init::rng(seed));
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        // 1000 draws of 10 places have a standard deviation of 9.5 around 100.
        let mut counts = [0; 10];
        draw(3).into_iter().for_each(|start| counts[start] += 1);
        assert!(counts.iter().all(|n| (50..150).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_window_has_a_successor() {
        assert!(Windows::new("text", 5, 4).is_ok());
        let error = Windows::new("test text", 5, 5).unwrap_err().to_string();
        let expected = "test text: expected more characters than the context, 5, found 5";
        assert_eq!(error, expected);
        assert!(Windows::new("text", 5, 0).is_err());
    }
}
