//! The task of predicting the next symbol of a text.

use super::{Loss, Metrics, Task};
use crate::autodiff::{Tape, Var};
use crate::data::text::{Symbol, Text, Window, Windows};
use crate::error::{Error, Result};
use crate::init;
use crate::nn::{Module, Pass};
use crate::real::Real;
use ndarray::ArrayView1;

/// The symbol that follows each symbol of a text, given those before it in a window.
///
/// A step uses `batch` windows of the training part, at random places that are drawn from the seed of the
/// epoch. The number of steps per epoch can be chosen. The loss is the mean cross-entropy over all symbols of
/// the windows, in nats per symbol.
///
/// The metrics are `train_loss` and `val_loss`. Every evaluation uses the same windows: up to a fixed number
/// per part, which do not overlap and are spread evenly over the part ([`Windows::spread`]). nanoGPT
/// estimates both losses from windows that are drawn anew each time.
///
/// ```
/// use emmy::data::text::Text;
/// use emmy::nn::{LanguageConfig, LanguageModel};
/// use emmy::train::{BestBy, NextSymbol, TrainConfig, Trainer};
///
/// let verse = "Twinkle, twinkle, little bat! How I wonder what you're at! ".repeat(10);
/// let text = Text::split("verse", &verse)?;
/// let config = LanguageConfig::gpt(text.symbol_count(), 8, 1, 2, 8);
/// let task = NextSymbol::new(&text, config.context, 4, |net: &LanguageModel<f32>, pass, symbols, sequences|
/// {
///     net.forward(pass, symbols, sequences)
/// })?
/// .steps_per_epoch(5)
/// .evaluated_on(10);
///
/// let how = TrainConfig { epochs: 2, best_by: BestBy::LOSS, ..TrainConfig::default() };
/// let mut trainer = Trainer::new(LanguageModel::new(config, 0)?, how)?;
/// trainer.fit(&task, |_, _| Ok(()))?;
/// let [first, last] = [0, 1].map(|epoch| trainer.history().records[epoch].metrics["val_loss"]);
/// assert!(last < first);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct NextSymbol<'a, L> {
    text: &'a Text,
    train: Windows,
    batch: usize,
    steps: usize,
    evaluated: usize,
    forward: L,
}

impl<'a, L> NextSymbol<'a, L> {
    /// The task of predicting `text` from `context` symbols, in batches of `batch` windows; 250 steps per
    /// epoch, and an evaluation on 240 windows of each part.
    ///
    /// `forward` gives the logits `[sequences, length, symbols]` of a model for a number of sequences of
    /// equal length, one after the other.
    ///
    /// # Errors
    /// If `context` or `batch` is 0, or a part other than the test has no window with a symbol after it.
    pub fn new<F: Real, M>(text: &'a Text, context: usize, batch: usize, forward: L) -> Result<Self>
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
    {
        if batch == 0 {
            return Err(Error::invalid("batch", "at least 1 window", "0"));
        }
        let windows = |name: &str, part: &[Symbol]| {
            let what = format!("{}: characters of the {name} text", text.source);
            Windows::new(&what, part.len(), context)
        };
        windows("validation", &text.validation)?;
        Ok(Self {
            train: windows("training", &text.train)?,
            text,
            batch,
            steps: 250,
            evaluated: 240,
            forward,
        })
    }

    /// The same with another number of steps per epoch.
    pub fn steps_per_epoch(self, steps: usize) -> Self {
        Self { steps, ..self }
    }

    /// The same with another number of windows per part in an evaluation.
    ///
    /// # Panics
    /// If the number is 0.
    #[track_caller]
    pub fn evaluated_on(self, windows: usize) -> Self {
        assert!(windows > 0, "NextSymbol: an evaluation on no window");
        Self {
            evaluated: windows,
            ..self
        }
    }

    /// The number of symbols in a window.
    pub fn context(&self) -> usize {
        self.train.context()
    }

    /// The mean loss of a part of the text over up to `most` windows, which do not overlap and are spread
    /// evenly over the part. If these are all, then also over what remains after them: each symbol except the
    /// first is predicted once, from the symbols before it in its window.
    ///
    /// # Panics
    /// If the part has less than two symbols, or `most` is 0.
    #[track_caller]
    pub fn mean_loss<F: Real, M: Module<F>>(&self, model: &M, part: &[Symbol], most: usize) -> f64
    where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
    {
        let context = self.train.context();
        assert!(
            part.len() >= 2 && most > 0,
            "NextSymbol: a loss over {} symbols, {most} windows: nothing is predicted",
            part.len()
        );
        let all = Window::covering(part.len(), context, context);
        let starts = match Windows::new("part", part.len(), context) {
            Ok(windows) => windows.spread(most),
            // A shorter part is one window, shorter than the others.
            Err(_) => Vec::new(),
        };
        let mut sum = 0.0;
        let mut count = 0;
        let mut add = |starts: &[usize], length: usize| {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, model);
            let loss = self.predict(model, &pass, part, starts, length);
            let symbols = starts.len() * length;
            sum += loss.item().as_f64() * symbols as f64;
            count += symbols;
        };
        for starts in starts.chunks(self.batch) {
            add(starts, context);
        }
        if let Some(last) = all.get(starts.len())
            && last.length < context
        {
            add(&[last.start], last.length);
        }
        sum / count as f64
    }

    /// Calls `see` for each symbol of a part except the first, in order, with the logits of its prediction.
    /// Its window is among those of [`Window::covering`] with this `stride`.
    ///
    /// # Panics
    /// If the part has no symbol, or the stride is not from 1 to the context.
    #[track_caller]
    pub fn predictions<F: Real, M: Module<F>>(
        &self,
        model: &M,
        part: &[Symbol],
        stride: usize,
        mut see: impl FnMut(ArrayView1<'_, F>, Symbol),
    ) where
        L: for<'t> Fn(&M, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
    {
        let windows = Window::covering(part.len(), self.train.context(), stride);
        let equal = windows.chunk_by(|a, b| a.length == b.length);
        for windows in equal.flat_map(|run| run.chunks(self.batch)) {
            let tape = Tape::new();
            let pass = Pass::eval(&tape, model);
            let starts: Vec<usize> = windows.iter().map(|window| window.start).collect();
            let logits = self.logits(model, &pass, part, &starts, windows[0].length);
            let logits = logits.value();
            for (window, logits) in windows.iter().zip(logits.outer_iter()) {
                let next = &part[window.start + 1..];
                for (logits, &next) in logits.outer_iter().zip(next).skip(window.seen) {
                    let logits = logits.into_dimensionality();
                    see(logits.expect("sequences, length, symbols"), next);
                }
            }
        }
    }

    /// The mean cross-entropy of the next symbol, over all symbols of windows of a part.
    fn predict<'t, F: Real, M>(
        &self,
        model: &M,
        pass: &Pass<'t, '_, F>,
        part: &[Symbol],
        starts: &[usize],
        length: usize,
    ) -> Var<'t, F>
    where
        L: for<'u> Fn(&M, &Pass<'u, '_, F>, &[usize], usize) -> Var<'u, F>,
    {
        let logits = self.logits(model, pass, part, starts, length);
        let next = read(part, starts, 1, length);
        let rows = next.len();
        let logits = logits.reshape(&[rows, logits.len() / rows]);
        logits.cross_entropy(&next, None)
    }

    /// The logits of windows of a part, `[starts, length, symbols]`.
    fn logits<'t, F: Real, M>(
        &self,
        model: &M,
        pass: &Pass<'t, '_, F>,
        part: &[Symbol],
        starts: &[usize],
        length: usize,
    ) -> Var<'t, F>
    where
        L: for<'u> Fn(&M, &Pass<'u, '_, F>, &[usize], usize) -> Var<'u, F>,
    {
        (self.forward)(model, pass, &read(part, starts, 0, length), starts.len())
    }
}

/// The symbols of windows, one window after the other, each `shift` symbols further on.
fn read(part: &[Symbol], starts: &[usize], shift: usize, length: usize) -> Vec<usize> {
    let windows = starts
        .iter()
        .flat_map(|start| &part[start + shift..][..length]);
    windows.map(|&symbol| usize::from(symbol)).collect()
}

impl<F: Real, M: Module<F>, L> Task<F, M> for NextSymbol<'_, L>
where
    L: for<'t> Fn(&M, &Pass<'t, '_, F>, &[usize], usize) -> Var<'t, F>,
{
    type Batch = Vec<usize>;

    /// The starts of the windows of each step.
    fn batches(&self, seed: u64) -> impl Iterator<Item = Vec<usize>> {
        let mut rng = init::rng(seed);
        (0..self.steps).map(move |_| self.train.random(self.batch, &mut rng))
    }

    fn loss<'t>(&self, model: &M, pass: &Pass<'t, '_, F>, starts: &Vec<usize>) -> Loss<'t, F> {
        let context = self.train.context();
        self.predict(model, pass, &self.text.train, starts, context)
            .into()
    }

    fn evaluate(&self, model: &M) -> Metrics {
        let loss = |part: &[Symbol]| self.mean_loss(model, part, self.evaluated);
        Metrics::from([
            ("train_loss", loss(&self.text.train)),
            ("val_loss", loss(&self.text.validation)),
        ])
    }
}
