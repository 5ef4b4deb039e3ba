//! The next symbol of a text: windows, losses and predictions by hand.

use emmy::data::text::{Symbol, Text};
use emmy::nn::{Embedding, LanguageConfig, LanguageModel, Pass};
use emmy::train::{NextSymbol, Task};
use emmy::{Tape, Var, init};

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
