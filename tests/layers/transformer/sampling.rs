//! Texts that language models write.

use emmy::nn::{LanguageConfig, LanguageModel, Module, Pass, Sampling};
use emmy::{Tape, init};
use std::panic::AssertUnwindSafe;

const DRAWS: usize = 40_000;

/// How often each symbol is drawn.
fn counts(how: &Sampling, logits: &[f64]) -> Vec<usize> {
    let rng = &mut init::rng(7);
    let mut counts = vec![0; logits.len()];
    for _ in 0..DRAWS {
        counts[how.draw(logits.iter().copied(), rng)] += 1;
    }
    counts
}

/// A model whose logits differ by several units, so that it prefers some symbols.
fn model() -> LanguageModel<f64> {
    let mut model = LanguageModel::new(LanguageConfig::gpt(7, 6, 2, 2, 8), 1).unwrap();
    for (k, p) in model.tensors_mut().into_iter().enumerate() {
        *p = init::normal(p.shape(), 1.0, &mut init::rng(k as u64));
    }
    model
}

#[test]
fn symbols_are_drawn_from_the_softmax_of_the_likeliest() {
    let logits = [0.5, -1.0, 2.0, f64::NEG_INFINITY, 1.2, 0.5];
    // The third of the likeliest is the first of two equals.
    for (temperature, top_k, among) in [
        (1.0, None, &[0, 1, 2, 4, 5][..]),
        (0.5, None, &[0, 1, 2, 4, 5]),
        (3.0, Some(100), &[0, 1, 2, 4, 5]),
        (2.0, Some(3), &[0, 2, 4]),
    ] {
        let how = Sampling {
            temperature,
            top_k,
            seed: 0,
        };
        let found = counts(&how, &logits);
        let weight = |k: usize| (logits[k] / temperature).exp();
        let sum: f64 = among.iter().map(|&k| weight(k)).sum();
        for (k, &count) in found.iter().enumerate() {
            let p = match among.contains(&k) {
                true => weight(k) / sum,
                false => 0.0,
            };
            // Five standard deviations of a binomial distribution.
            let n = DRAWS as f64;
            let away = (count as f64 - n * p).abs();
            assert!(
                away <= 5.0 * (n * p * (1.0 - p)).sqrt(),
                "{how:?}: symbol {k}, p {p}: {count}"
            );
        }
    }
}

#[test]
fn without_temperature_or_choice_the_likeliest_is_taken() {
    let logits = [0.5, -1.0, 2.0, 1.9, 2.0];
    let with = |temperature, top_k| Sampling {
        temperature,
        top_k,
        seed: 0,
    };
    for how in [Sampling::GREEDY, with(0.0, Some(4)), with(5.0, Some(1))] {
        assert_eq!(counts(&how, &logits)[2], DRAWS, "{how:?}");
    }
    // The limit of low temperatures: equals share, all others never come.
    for temperature in [1e-3, 1e-300] {
        let found = counts(&with(temperature, None), &logits);
        assert_eq!(found[2] + found[4], DRAWS);
        assert!(found[2].abs_diff(found[4]) < DRAWS / 20, "{found:?}");
    }

    // A whole text: the argmax of the logits, computed without a cache, also when the context of 6 is full.
    let model = model();
    let written = model.generate(&[3, 1], 30, &Sampling::GREEDY);
    assert_eq!(model.generate(&[3, 1], 30, &with(2.0, Some(1))), written);
    let mut all = vec![3, 1];
    let mut first = 0;
    for _ in 0..30 {
        if all.len() - first > 6 {
            first = all.len() - 3;
        }
        let tape = Tape::new();
        let logits = model.forward(&Pass::eval(&tape, &model), &all[first..], 1);
        let logits = logits.value();
        let row = logits.slice(emmy::ndarray::s![0, -1, ..]);
        let best = (0..7).reduce(|a, b| if row[b] > row[a] { b } else { a });
        all.push(best.unwrap());
    }
    assert_eq!(written, all[2..]);
    assert!(written.iter().any(|&s| s != written[0]), "{written:?}");
}

#[test]
fn a_text_follows_from_its_seed() {
    let model = model();
    let with = |seed| Sampling {
        temperature: 3.0,
        top_k: None,
        seed,
    };
    let written = model.generate(&[3], 50, &with(5));
    assert_eq!(model.generate(&[3], 50, &with(5)), written);
    assert_ne!(model.generate(&[3], 50, &with(6)), written);
    // A shorter text is the beginning of a longer one; a prompt longer than the context is cut.
    assert_eq!(model.generate(&[3], 20, &with(5)), written[..20]);
    let long = [0, 5, 5, 1, 2, 3, 4, 6];
    assert_eq!(
        model.generate(&long, 9, &with(5)),
        model.generate(&long[2..], 9, &with(5))
    );
    assert!(model.generate(&[3], 0, &with(5)).is_empty());
}

#[test]
fn wrong_options_are_named() {
    let model = model();
    let told = |prompt: &[usize], how: Sampling| {
        let generate = AssertUnwindSafe(|| model.generate(prompt, 3, &how));
        let written = std::panic::catch_unwind(generate);
        let told = written.unwrap_err();
        told.downcast::<String>()
            .map_or_else(|e| e.downcast::<&str>().unwrap().to_string(), |text| *text)
    };
    let with = |temperature, top_k| Sampling {
        temperature,
        top_k,
        seed: 0,
    };
    for (prompt, how, expected) in [
        (&[][..], with(1.0, None), "the prompt is empty"),
        (&[1], with(-1.0, None), "the temperature is -1"),
        (&[1], with(f64::NAN, None), "the temperature is NaN"),
        (&[1], with(1.0, Some(0)), "top_k is 0"),
        (&[7], with(1.0, None), "7"),
    ] {
        let told = told(prompt, how);
        assert!(told.contains(expected), "{told}");
    }
    for logits in [
        &[][..],
        &[1.0, f64::NAN],
        &[f64::INFINITY, 0.0],
        &[f64::NEG_INFINITY],
    ] {
        let draw = || Sampling::GREEDY.draw(logits.iter().copied(), &mut init::rng(0));
        assert!(std::panic::catch_unwind(draw).is_err(), "{logits:?}");
    }
}
