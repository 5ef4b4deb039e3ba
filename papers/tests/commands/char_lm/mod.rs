//! `char_lm`: its training, output, checkpoints and errors.

mod loading;
mod mean;
mod refusals;
mod resuming;

use super::*;
use emmy::nn::{LanguageConfig, LanguageModel, Module};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// A model of some hundred parameters, for some steps of Alice's Adventures.
const TINY: [&str; 19] = [
    "--layers",
    "1",
    "--width",
    "8",
    "--heads",
    "2",
    "--context",
    "8",
    "--batch",
    "2",
    "--steps",
    "10",
    "--eval-interval",
    "4",
    "--eval-batches",
    "3",
    "--figures",
    "none",
    "--json",
];

fn char_lm(folder: &TempDir, args: &[&str]) -> Output {
    command("char_lm", folder, args).output().unwrap()
}

fn tiny(folder: &TempDir, more: &[&str]) -> Output {
    let text = folder.path().join("text");
    if !text.exists() {
        std::fs::write(&text, "a rose is a rose is a rose.\n".repeat(8)).unwrap();
    }
    let args = match more
        .iter()
        .any(|option| ["--data", "--dataset", "--text"].contains(option))
    {
        true => TINY.to_vec(),
        false => [&TINY[..], &["--text", "text"]].concat(),
    };
    // The last value of an option counts. An LSTM has no heads.
    let heads = args.iter().position(|option| *option == "--heads");
    let kept = match heads {
        Some(at) if more.contains(&"lstm") => [&args[..at], &args[at + 2..]].concat(),
        _ => args,
    };
    char_lm(folder, &[&kept[..], more].concat())
}

/// The text that a run has written on standard error after its results: the sample.
#[track_caller]
fn written(err: &str) -> String {
    let law = |line: &str| {
        line.starts_with("largest relative δ") || line == "no conservation law was checked"
    };
    let mut lines = err.lines().skip_while(|line| !law(line)).skip(1);
    let time = lines.next().unwrap_or_else(|| panic!("{err}"));
    assert!(time.contains(" s"), "{err}");
    let sample = lines.collect::<Vec<_>>().join("\n");
    assert!(sample.len() > 300, "{err}");
    sample
}

/// The lines without the times, and standard error.
fn run(folder: &TempDir, more: &[&str]) -> (Vec<Value>, String) {
    let (out, err) = succeeded(&tiny(folder, more));
    let mut lines = json(&out);
    for line in &mut lines {
        let line = line.as_object_mut().unwrap();
        for time in ["ms_per_step", "seconds"] {
            assert!(line.remove(time).is_some());
        }
    }
    (lines, err)
}

#[test]
fn without_options_it_learns_alice_and_says_so() {
    let folder = TempDir::new().unwrap();
    let args: Vec<&str> = TINY
        .into_iter()
        .filter(|option| *option != "--json")
        .collect();
    let (out, err) = succeeded(&char_lm(&folder, &args));
    let alice = crate::alice();
    let count = alice.train.len() + alice.validation.len();
    let said = format!("learning Alice's Adventures in Wonderland, {count} characters");
    let pace = " characters per second written\n";
    assert!(err.contains(&said) && err.ends_with(pace), "{err}");
    let head = format!("alice: {} characters to train", alice.train.len());
    assert!(out.starts_with(&head), "{out}");
    for part in [
        "transformer: 1 layers of width 8",
        "validation ",
        "after ",
        "ms per step",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // If this text is named, the result is the same.
    let (named, err) = succeeded(&char_lm(
        &folder,
        &[&args[..], &["--dataset", "alice"]].concat(),
    ));
    assert!(named.starts_with(&head), "{named}");
    assert!(err.ends_with(pace) && err.lines().count() == 1, "{err}");
}

/// The demonstration is a smaller model than the recipe for a text that is named.
#[test]
fn a_text_that_is_named_gets_the_whole_recipe() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("text"), "a rose is a rose.\n".repeat(40)).unwrap();
    let short = "--steps 1 --eval-batches 1 --context 8 --figures none";
    let short: Vec<&str> = short.split(' ').collect();
    let (out, err) = succeeded(&char_lm(&folder, &short));
    assert!(out.contains("transformer: 2 layers of width 64"), "{out}");
    assert!(err.contains("about 30 s on two processors"), "{err}");
    for named in [["--text", "text"], ["--dataset", "alice"]] {
        let (out, _) = succeeded(&char_lm(&folder, &[&short[..], &named].concat()));
        assert!(out.contains("transformer: 4 layers of width 128"), "{out}");
    }
    let (out, _) = succeeded(&char_lm(
        &folder,
        &[&short[..], &["--layers", "3"]].concat(),
    ));
    assert!(out.contains("transformer: 3 layers of width 64"), "{out}");
}

#[test]
fn each_evaluation_is_an_object_and_the_last_line_a_summary() {
    let folder = TempDir::new().unwrap();
    let (lines, _) = run(&folder, &[]);
    let steps: Vec<_> = lines[..3]
        .iter()
        .map(|line| line["step"].as_u64().unwrap())
        .collect();
    assert_eq!(steps, [4, 8, 10]);
    let [summary] = &lines[3..] else {
        panic!("{lines:?}")
    };
    assert_eq!(summary["summary"], true);
    assert_eq!(
        (&summary["model"], &summary["dataset"]),
        (&"transformer".into(), &"text".into())
    );
    assert_eq!(summary["steps"], 10);
    assert!(summary["test_loss"].is_null() && summary["stopped"].is_null());
    assert!(summary["max_delta"].as_f64().unwrap() > 0.0);
    let best = summary["best_step"].as_u64().unwrap();
    let losses = lines[..3].iter().map(|line| {
        (
            line["val_loss"].as_f64().unwrap(),
            line["step"].as_u64().unwrap(),
        )
    });
    assert_eq!(
        losses
            .reduce(|a, b| if b.0 < a.0 { b } else { a })
            .unwrap()
            .1,
        best
    );
    // Nine symbols: about their logarithm before much is learnt.
    let loss = lines[0]["train_loss"].as_f64().unwrap();
    assert!((2.0..2.25).contains(&loss), "{loss}");
}

/// The test checks the whole of what a user can see: the loss of the saved parameters, and the sample.
#[test]
fn the_summary_and_the_sample_are_those_of_the_saved_model() {
    let folder = TempDir::new().unwrap();
    let prompt = "is a rose";
    let (lines, err) = run(
        &folder,
        &[
            "--save",
            "run.ckpt",
            "--temperature",
            "0",
            "--prompt",
            prompt,
            "--float",
            "f64",
            "--steps",
            "200",
            "--eval-interval",
            "100",
            "--lr",
            "0.02",
        ],
    );
    let state: TrainState<f64> = store::load::<f64, _>(&folder.path().join("run.ckpt")).unwrap();
    let text = text::from_file(&folder.path().join("text")).unwrap();
    let config = LanguageConfig::gpt(text.symbol_count(), 8, 1, 2, 8);
    let mut model = LanguageModel::<f64>::new(config, 1).unwrap();
    for (to, from) in model.tensors_mut().into_iter().zip(&state.best) {
        assert_eq!(to.shape(), from.shape());
        *to = from.clone();
    }
    let logits = |symbols: &[usize]| {
        let tape = Tape::new();
        model
            .forward(&Pass::eval(&tape, &model), symbols, 1)
            .value()
    };
    // Every character but the first is predicted once, from the beginning of its window of 8.
    let part: Vec<usize> = text.validation.iter().map(|&s| s.into()).collect();
    let mut sum = 0.0;
    for start in (0..part.len() - 1).step_by(8) {
        let end = (start + 8).min(part.len() - 1);
        let logits = logits(&part[start..end]);
        for place in start..end {
            let row = logits.slice(emmy::ndarray::s![0, place - start, ..]);
            let total: f64 = row.iter().map(|x| x.exp()).sum();
            sum += total.ln() - row[part[place + 1]];
        }
    }
    let expected = sum / (part.len() - 1) as f64;
    let found = lines.last().unwrap()["val_loss"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9, "{found}, {expected}");

    // The most likely characters, computed without a memory: if the context of 8 characters is full, from the
    // last 4 on.
    let mut all: Vec<usize> = text
        .encode("", prompt)
        .unwrap()
        .iter()
        .map(|&s| s.into())
        .collect();
    let mut from = all.len() - 8;
    for _ in 0..300 {
        if all.len() - from > 8 {
            from = all.len() - 4;
        }
        let logits = logits(&all[from..]);
        let row = logits.slice(emmy::ndarray::s![0, -1, ..]);
        let likely = (0..row.len()).reduce(|a, b| if row[b] > row[a] { b } else { a });
        all.push(likely.unwrap());
    }
    let written: String = all.iter().map(|&s| text.symbols[s]).collect();
    assert!(err.contains(&format!("\n{written}\n")), "{written}\n{err}");
    assert!(written.contains("rose is a rose is a rose"), "{written}");
}

#[test]
fn samples_follow_from_the_seed_the_temperature_and_the_most_likely() {
    let folder = TempDir::new().unwrap();
    let sample = |more: &[&str]| written(&run(&folder, more).1);
    let most_likely = sample(&["--temperature", "0"]);
    assert_eq!(sample(&["--top-k", "1"]), most_likely);
    let drawn = sample(&["--temperature", "5"]);
    assert_ne!(drawn, most_likely);
    assert_eq!(sample(&["--temperature", "5"]), drawn);
    assert_ne!(sample(&["--temperature", "5", "--top-k", "2"]), drawn);
}

#[test]
fn every_model_and_option_has_a_training_of_its_own() {
    let folder = TempDir::new().unwrap();
    let mut found: Vec<(String, String)> = Vec::new();
    for more in [
        &[][..],
        &["--model", "l2"],
        &["--model", "l2-tied"],
        &["--model", "contractive"],
        &["--model", "lstm"],
        &["--model", "certified"],
        &["--model", "certified", "--window", "2"],
        &["--norm", "post"],
        &["--layers", "2"],
        &["--width", "12"],
        &["--heads", "4"],
        &["--context", "5"],
        &["--batch", "3"],
        &["--lr", "0.1"],
        &["--schedule", "fixed"],
        &["--schedule", "warmup-sqrt", "--steps", "20"],
        &["--steps", "20"],
        &["--dropout", "0.3"],
        &["--seed", "1"],
    ] {
        let output = tiny(&folder, more);
        let (out, _) = succeeded(&output);
        let summary = json(&out).pop().unwrap();
        let losses = format!("{} {}", summary["train_loss"], summary["val_loss"]);
        if let Some((other, _)) = found.iter().find(|(_, l)| *l == losses) {
            panic!("{more:?} is as {other}");
        }
        found.push((format!("{more:?}"), losses));
    }
    let parameters = |more: &[&str]| run(&folder, more).0.pop().unwrap()["parameters"].clone();
    // Without biases: 12 width² per layer, two gains per layer and one more, the table of 9 symbols, 8
    // places.
    assert_eq!(
        parameters(&["--layers", "2"]),
        2 * 12 * 64 + 5 * 8 + (9 + 8) * 8
    );
    for model in ["l2-tied", "contractive"] {
        assert_eq!(
            parameters(&["--model", model]),
            11 * 64 + 3 * 8 + (9 + 8) * 8
        );
    }
}

#[test]
fn watching_the_model_shows_its_constant_and_its_ranks() {
    let folder = TempDir::new().unwrap();
    let looks = |model: &str| {
        let (lines, _) = run(&folder, &["--model", model, "--layers", "2", "--watch"]);
        lines[0].clone()
    };
    for model in ["transformer", "contractive"] {
        let line = looks(model);
        let (lower, upper) = (&line["lipschitz_lower"], &line["lipschitz_upper"]);
        assert!(lower.as_f64().unwrap() > 0.0);
        assert!(
            upper.as_f64().unwrap() >= lower.as_f64().unwrap(),
            "{model}: {upper}"
        );
        let ranks = line["effective_rank"].as_array().unwrap();
        assert_eq!(ranks.len(), 3);
        assert!(
            ranks
                .iter()
                .all(|rank| (1.0..=8.0 + 1e-9).contains(&rank.as_f64().unwrap()))
        );
    }
    // Distances without the theorem's values have no constant, and an LSTM has no layers of tokens.
    assert!(looks("l2")["lipschitz_upper"].is_null());
    assert_eq!(looks("lstm")["effective_rank"].as_array().unwrap().len(), 0);
}

#[test]
fn a_certified_model_ends_with_its_interval() {
    let folder = TempDir::new().unwrap();
    let (lines, _) = run(&folder, &["--model", "certified", "--watch"]);
    let [summary, look] = [lines.last(), lines.first()].map(|line| line.unwrap());
    let number = |line: &Value, key: &str| line[key].as_f64().unwrap();
    for line in [summary, look] {
        let [lower, upper] = ["lipschitz_lower", "lipschitz_upper"].map(|key| number(line, key));
        assert!(0.0 < lower && lower <= upper && upper <= 2.0, "{line}");
    }
    // K was made as small as the constant allows.
    assert!(number(summary, "lipschitz_upper") > 1.99);
    assert!(number(summary, "lipschitz_at_text") <= number(summary, "lipschitz_lower"));
    assert!(number(summary, "certified_radius") > 0.0);
    let accuracy = number(summary, "val_accuracy");
    assert!((0.05..=1.0).contains(&accuracy), "{accuracy}");
    assert!(summary["test_accuracy"].is_null());
    // Other models have an accuracy too, and no certificate.
    let (lines, _) = run(&folder, &[]);
    let summary = lines.last().unwrap();
    assert!(summary["val_accuracy"].is_f64() && summary.get("lipschitz_upper").is_none());
}

#[test]
fn penn_treebank_has_a_test_text() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("ptb")).unwrap();
    for (part, count) in [("train", 20), ("valid", 5), ("test", 3)] {
        let path = folder.path().join(format!("ptb/ptb.{part}.txt"));
        std::fs::write(path, " a rose is a <unk> \n".repeat(count)).unwrap();
    }
    let (lines, _) = run(&folder, &["--dataset", "ptb", "--data", "."]);
    let summary = lines.last().unwrap();
    assert_eq!(summary["dataset"], "ptb");
    let [validation, test] = ["val_loss", "test_loss"].map(|key| summary[key].as_f64().unwrap());
    assert!(
        (validation - test).abs() < 0.1 && validation != test,
        "{summary}"
    );
    let output = tiny(&folder, &["--dataset", "shakespeare", "--data", "."]);
    refused(
        &output,
        "the text Tiny Shakespeare (the file input.txt) was not found",
    );
}

#[test]
fn a_figure_and_a_table_of_layers_are_made_on_request() {
    let folder = TempDir::new().unwrap();
    let (_, err) = run(
        &folder,
        &[
            "--figures",
            "drawn",
            "--summary",
            "--watch",
            "--threads",
            "2",
        ],
    );
    assert!(err.contains("blocks.layers.0.attention.query"), "{err}");
    assert!(
        err.contains("figure: drawn/text-transformer-L1-seed0.svg"),
        "{err}"
    );
    for ending in ["svg", "png"] {
        let path = format!("drawn/text-transformer-L1-seed0.{ending}");
        assert!(folder.path().join(path).exists());
    }
}

/// In "aabb aabb ..", a character follows from the two before it, and not from one. So the first predictions
/// of a window fail for half of the windows. With a stride below the context, only the first window has them.
#[test]
fn a_stride_gives_predictions_something_to_see() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("pairs"), "aabb".repeat(200)).unwrap();
    let accuracy = |more: &[&str]| {
        let args = "--text pairs --context 7 --steps 300 --eval-interval 100 --lr 1e-2";
        let args: Vec<&str> = args.split(' ').chain(more.iter().copied()).collect();
        let (lines, _) = run(&folder, &args);
        let last = lines.last().unwrap();
        ["val_accuracy", "val_loss"].map(|key| last[key].as_f64().unwrap())
    };
    let without = accuracy(&[]);
    assert_eq!(accuracy(&["--stride", "7"]), without);
    let [predicted, loss] = accuracy(&["--stride", "3"]);
    assert!(without[0] < 0.97, "{without:?}");
    assert!(
        predicted > 0.98 && loss < 0.5 * without[1],
        "{predicted} {loss}, {without:?}"
    );
}
