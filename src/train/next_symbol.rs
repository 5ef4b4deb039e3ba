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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{Embedding, LanguageConfig, LanguageModel};

    type Bigrams = Embedding<f64>;

    /// Logits that depend on the last symbol only.
    fn bigrams<'t>(
        net: &Bigrams,
        pass: &Pass<'t, '_, f64>,
        symbols: &[usize],
        sequences: usize,
    ) -> Var<'t, f64> {
        let logits = net.forward(pass, symbols);
        let classes = logits.shape()[1];
        logits.reshape(&[sequences, symbols.len() / sequences, classes])
    }

    fn text() -> Text {
        Text::new("abc", &"abcabbcab".repeat(5), "abcbacbabca", "cab").unwrap()
    }

    /// −log softmax at the next symbol, one pair after the other.
    fn by_hand(net: &Bigrams, pairs: &[(Symbol, Symbol)]) -> f64 {
        let losses = pairs.iter().map(|&(a, b)| {
            let row = net.weight.slice(ndarray::s![usize::from(a), ..]);
            let total: f64 = row.iter().map(|x| x.exp()).sum();
            total.ln() - row[usize::from(b)]
        });
        losses.sum::<f64>() / pairs.len() as f64
    }

    fn pairs(part: &[Symbol]) -> Vec<(Symbol, Symbol)> {
        part.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }

    #[test]
    fn all_windows_predict_each_symbol_but_the_first_once() {
        let text = text();
        let net: Bigrams = Embedding::new(3, 3, &mut init::rng(0));
        for context in 1..8 {
            let task = NextSymbol::new(&text, context, 2, bigrams).unwrap();
            for part in [&text.train, &text.validation, &text.test] {
                let found = task.mean_loss(&net, part, usize::MAX);
                let expected = by_hand(&net, &pairs(part));
                assert!((found - expected).abs() < 1e-12, "{context}");
            }
        }
        // The first and the third of five windows of two symbols.
        let task = NextSymbol::new(&text, 2, 2, bigrams).unwrap();
        let all = pairs(&text.validation);
        let some = [&all[0..2], &all[4..6]].concat();
        let found = task.mean_loss(&net, &text.validation, 2);
        assert!((found - by_hand(&net, &some)).abs() < 1e-12);
    }

    #[test]
    fn a_batch_is_windows_of_the_training_text_with_their_successors() {
        let text = text();
        let net: Bigrams = Embedding::new(3, 3, &mut init::rng(0));
        let task = NextSymbol::new(&text, 4, 3, bigrams).unwrap();
        let task = task.steps_per_epoch(6);
        let of = |seed| Task::<f64, Bigrams>::batches(&task, seed).collect::<Vec<_>>();
        let batches = of(5);
        assert!(batches.len() == 6 && batches.iter().all(|starts| starts.len() == 3));
        assert_eq!(batches, of(5));
        assert_ne!(batches, of(6));
        // They are made as they are needed, so their number is free.
        let endless = task.steps_per_epoch(usize::MAX);
        let mut first = Task::<f64, Bigrams>::batches(&endless, 5);
        assert_eq!(first.next().as_ref(), batches.first());
        let task = endless.steps_per_epoch(6);
        for starts in &batches {
            let tape = Tape::new();
            let pass = Pass::train(&tape, &net, 0);
            let found = task.loss(&net, &pass, starts).value.item();
            let windows = starts.iter().flat_map(|&s| pairs(&text.train[s..s + 5]));
            let expected = by_hand(&net, &windows.collect::<Vec<_>>());
            assert!((found - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn a_model_with_memory_reads_each_window_from_its_beginning() {
        let text = text();
        let config = LanguageConfig::gpt(3, 4, 1, 1, 4);
        let net = LanguageModel::<f64>::new(config, 0).unwrap();
        // Batches of one and of all windows give the same sum.
        let loss = |batch| {
            let task = NextSymbol::new(
                &text,
                4,
                batch,
                |net: &LanguageModel<f64>, pass, symbols, n| net.forward(pass, symbols, n),
            );
            let task = task.unwrap();
            task.mean_loss(&net, &text.validation, usize::MAX)
        };
        assert!((loss(1) - loss(7)).abs() < 1e-12);
    }

    #[test]
    fn a_prediction_sees_its_window_up_to_itself() {
        let text = text();
        let config = LanguageConfig::gpt(3, 4, 1, 1, 4);
        let net = LanguageModel::<f64>::new(config, 0).unwrap();
        let forward = |net: &LanguageModel<f64>, pass: &Pass<'_, '_, f64>, symbols: &[usize]| {
            net.forward(pass, symbols, 1).value()
        };
        for (part, stride, batch) in [
            (&text.validation, 4, 2),
            (&text.validation, 3, 2),
            (&text.validation, 1, 3),
            (&text.test, 2, 1),
        ] {
            let task = NextSymbol::new(
                &text,
                4,
                batch,
                |net: &LanguageModel<f64>, pass, symbols, n| net.forward(pass, symbols, n),
            );
            let task = task.unwrap();
            let mut found = Vec::new();
            task.predictions(&net, part, stride, |logits, next| {
                found.push((logits.to_vec(), next));
            });
            assert_eq!(found.len(), part.len() - 1);
            for (at, (logits, next)) in found.into_iter().enumerate() {
                // The first window that has the symbol.
                let first = at.saturating_sub(3).div_ceil(stride) * stride;
                let seen = part[first..=at].iter().map(|&s| usize::from(s));
                let seen: Vec<usize> = seen.collect();
                let tape = Tape::new();
                let expected = forward(&net, &Pass::eval(&tape, &net), &seen);
                for (k, z) in logits.into_iter().enumerate() {
                    let expected = expected[[0, at - first, k]];
                    assert!((z - expected).abs() < 1e-12, "{stride}, {at}");
                }
                assert_eq!(next, part[at + 1]);
            }
        }
    }

    #[test]
    fn what_cannot_be_predicted_is_refused() {
        let text = text();
        let refused = |context, batch| {
            let task = NextSymbol::new(&text, context, batch, bigrams);
            task.err().unwrap().to_string()
        };
        let expected = "abc: characters of the validation text: expected more characters than the \
                        context, 11, found 11";
        assert_eq!(refused(11, 1), expected);
        assert!(refused(50, 1).contains("found 11"));
        assert!(refused(0, 1).contains("context: expected at least 1"));
        assert!(refused(4, 0).contains("batch: expected at least 1 window"));
    }
}
