//! Parts of a text of one length.

use crate::error::{Error, Result};
use crate::kernels::draw::Rng;
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
