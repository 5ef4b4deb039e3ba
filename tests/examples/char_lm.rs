//! `char_lm` and `microgpt`: what they learn, write, save and refuse.

use super::*;
use emmy::data::text;
use emmy::nn::{LanguageConfig, LanguageModel, Module};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// A model of some hundred parameters, for some steps of the book.
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
    // Options given twice are refused, so those of the test take the place of those above.
    let mut kept = Vec::new();
    let mut args = args.into_iter().peekable();
    while let Some(option) = args.next() {
        let value = args.next_if(|next| !next.starts_with("--"));
        // An LSTM has no heads.
        let fits = option != "--heads" || !more.contains(&"lstm");
        if fits && !more.contains(&option) {
            kept.push(option);
            kept.extend(value);
        }
    }
    char_lm(folder, &[&kept[..], more].concat())
}

/// What a run has written on standard error behind its results: the sample.
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
fn without_options_it_learns_the_book_and_says_so() {
    let folder = TempDir::new().unwrap();
    let args: Vec<&str> = TINY
        .into_iter()
        .filter(|option| *option != "--json")
        .collect();
    let (out, err) = succeeded(&char_lm(&folder, &args));
    let book = text::book();
    let count = book.train.len() + book.validation.len();
    let said = format!("learning the project's own book, {count} characters");
    assert!(err.contains(&said), "{err}");
    let head = format!("book: {} characters to train", book.train.len());
    assert!(out.starts_with(&head), "{out}");
    for part in [
        "transformer: 1 layers of width 8",
        "validation ",
        "after ",
        "ms per step",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    // Asked for by name it is the same.
    let (named, err) = succeeded(&char_lm(
        &folder,
        &[&args[..], &["--dataset", "book"]].concat(),
    ));
    assert!(named.starts_with(&head) && err.is_empty(), "{named}\n{err}");
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
    for ((name, to), from) in model.parameters_mut().into_iter().zip(&state.best) {
        assert_eq!(to.shape(), from.shape(), "{name}");
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

    // The likeliest characters, computed without a memory: where 8 characters are full, from the last 4 on.
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
        &["--model", "lstm"],
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
    assert_eq!(
        parameters(&["--model", "l2-tied"]),
        11 * 64 + 3 * 8 + (9 + 8) * 8
    );
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
        "the text Tiny Shakespeare (input.txt) was not found",
    );
}

#[test]
fn a_run_saved_and_resumed_ends_in_the_same_bits() {
    let folder = TempDir::new().unwrap();
    let load = |name: &str| {
        let mut state: TrainState<f32> = store::load::<f32, _>(&folder.path().join(name)).unwrap();
        state
            .history
            .records
            .iter_mut()
            .for_each(|record| record.ms = 0.0);
        state
    };
    let options = ["--dropout", "0.2", "--schedule", "fixed", "--seed", "3"];
    let run = |more: &[&str]| {
        let (lines, err) = run(&folder, &[&options[..], more].concat());
        (lines, written(&err))
    };
    let (whole, sample) = run(&["--steps", "22", "--save", "whole.ckpt"]);
    run(&["--steps", "8", "--save", "half.ckpt"]);
    let (rest, resumed) = run(&[
        "--steps",
        "22",
        "--resume",
        "half.ckpt",
        "--save",
        "half.ckpt",
    ]);
    assert!(load("half.ckpt") == load("whole.ckpt"));
    assert_eq!(resumed, sample);
    // The two evaluations before are not repeated; δ is that of the steps taken here.
    assert_eq!(rest[..rest.len() - 1], whole[2..whole.len() - 1]);
    for key in ["train_loss", "val_loss", "best_step", "steps"] {
        assert_eq!(
            rest.last().unwrap()[key],
            whole.last().unwrap()[key],
            "{key}"
        );
    }
    // Once more, nothing is left to do.
    let (again, resumed) = run(&["--steps", "22", "--resume", "whole.ckpt"]);
    assert_eq!((again.len(), resumed), (1, sample));
    assert!(again[0]["max_delta"].is_null());

    for (more, reason) in [
        (
            &["--steps", "30", "--resume", "whole.ckpt"][..],
            "evaluation 6: expected after 24 steps, found after 22",
        ),
        (
            &[
                "--steps",
                "22",
                "--resume",
                "whole.ckpt",
                "--eval-interval",
                "11",
            ],
            "evaluation 1",
        ),
        (
            &["--steps", "22", "--resume", "whole.ckpt", "--lr", "0.5"],
            "learning rate 0.5",
        ),
        (
            &["--steps", "22", "--resume", "whole.ckpt", "--model", "l2"],
            "another run: description",
        ),
    ] {
        refused(&tiny(&folder, &[&options[..], more].concat()), reason);
    }
}

#[test]
fn a_killed_run_resumes_to_the_same_bits() {
    let folder = TempDir::new().unwrap();
    let long = ["--steps", "600", "--eval-interval", "20"];
    let (_, whole) = run(&folder, &[&long[..], &["--save", "whole.ckpt"]].concat());
    let path = folder.path().join("killed.ckpt");
    // Killed when the first checkpoint is there, then again and again until a run gets to its end.
    let mut kills = 0;
    loop {
        let resume = match path.exists() {
            true => &["--resume", "killed.ckpt"][..],
            false => &[],
        };
        let before = path.exists().then(|| std::fs::read(&path).unwrap());
        let args: Vec<&str> = (TINY[..10].iter().copied())
            .chain([
                "--eval-batches",
                "3",
                "--figures",
                "none",
                "--json",
                "--text",
                "text",
            ])
            .chain(long)
            .chain(["--save", "killed.ckpt"])
            .chain(resume.iter().copied())
            .collect();
        let mut process = command("char_lm", &folder, &args);
        process.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = process.spawn().unwrap();
        loop {
            let moved = path.exists() && before != Some(std::fs::read(&path).unwrap());
            if process.try_wait().unwrap().is_some() || (moved && kills < 3) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if process.try_wait().unwrap().is_none() {
            kills += 1;
            process.kill().unwrap();
            process.wait().unwrap();
            continue;
        }
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(written(&text(&output.stderr)), written(&whole));
        break;
    }
    let load = |name: &str| {
        let mut state: TrainState<f32> = store::load::<f32, _>(&folder.path().join(name)).unwrap();
        state
            .history
            .records
            .iter_mut()
            .for_each(|record| record.ms = 0.0);
        state
    };
    assert!(kills > 0 && load("killed.ckpt") == load("whole.ckpt"));
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

#[test]
fn a_diverging_training_says_so() {
    let folder = TempDir::new().unwrap();
    let output = tiny(&folder, &["--lr", "1e30", "--schedule", "fixed"]);
    assert_eq!(output.status.code(), Some(1));
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let summary = json(&out).pop().unwrap();
    assert!(
        summary["val_loss"].is_null() && summary["best_step"].is_null(),
        "{summary}"
    );
    assert!(
        summary["stopped"].as_str().unwrap().contains("loss"),
        "{summary}"
    );
    assert!(
        err.contains("error: training: expected one that does not diverge"),
        "{err}"
    );
}

#[test]
fn wrong_input_is_refused_with_a_reason() {
    let folder = TempDir::new().unwrap();
    let file =
        |name: &str, content: &[u8]| std::fs::write(folder.path().join(name), content).unwrap();
    file("empty", b"");
    file("short", b"0123456789");
    file("binary", b"text and \xff\xfe");
    file("noise.ckpt", b"not a checkpoint at all, but long enough");
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let most = usize::MAX.to_string();
    for (args, reason) in [
        (&["--text", "folder"][..], "folder: not a regular file"),
        (&["--text", "nowhere"], "nowhere: "),
        (
            &["--text", "empty"],
            "empty: expected a text, found no character",
        ),
        (
            &["--text", "short"],
            "short: expected at least 11 characters",
        ),
        (
            &["--text", "binary"],
            "binary: byte 9: expected text in UTF-8, found the byte 0xff",
        ),
        (
            &["--text", "empty", "--dataset", "book"],
            "cannot be used with",
        ),
        (&["--dataset", "hamlet"], "shakespeare, ptb, book"),
        (&["--data", "nowhere"], "nowhere"),
        (
            &["--data", "folder"],
            "Tiny Shakespeare (input.txt) was not found",
        ),
        (&["--dataset", "ptb"], "Penn Treebank"),
        (&["--prompt", "a €"], "--prompt: expected characters among"),
        (&["--prompt", ""], "--prompt"),
        (
            &["--width", "9"],
            "--width: expected a multiple of the 2 heads, found 9",
        ),
        (&["--width", "0"], "--width"),
        (&["--layers", "0"], "--layers"),
        (&["--steps", "0"], "--steps"),
        (&["--eval-interval", "0"], "--eval-interval"),
        (
            &["--context", "23"],
            "validation text: expected more characters than the context, 23, found 23",
        ),
        (&["--context", "0"], "--context"),
        (&["--top-k", "0"], "--top-k"),
        (&["--temperature", "-0.5"], "not a finite number from 0 up"),
        (&["--temperature", "nan"], "not a finite number from 0 up"),
        (&["--lr", "nan"], "learning rate: expected a number"),
        (&["--dropout", "1"], "--dropout: expected a probability"),
        (
            &["--model", "lstm", "--norm", "pre"],
            "--norm: expected a model with attention, found lstm",
        ),
        (
            &["--layers", &most],
            "memory to train the model: expected at most",
        ),
        (
            &["--batch", &most],
            "memory to train the model: expected at most",
        ),
        (&["--threads", "1000"], "is not in 0..=256"),
        (&["--resume", "noise.ckpt"], "byte 0"),
        (&["--save", "no/such/folder/x.ckpt"], "x.ckpt"),
        (&["--model", "gru"], "transformer, l2, l2-tied, lstm"),
        (
            &["--steps", &most, "--eval-interval", &most],
            "memory to train the model: expected at most",
        ),
    ] {
        refused(&tiny(&folder, args), reason);
    }
    let args = ["--model", "lstm", "--heads", "2"];
    let reason = "--heads: expected a model with attention, found lstm";
    refused(&char_lm(&folder, &args), reason);
}

#[test]
fn microgpt_learns_names_in_a_thousand_steps() {
    let folder = TempDir::new().unwrap();
    let (out, _) = succeeded(&command("microgpt", &folder, &[]).output().unwrap());
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].ends_with(" names, 4192 parameters"), "{out}");
    let loss = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
    let [first, last] = [1, 10].map(|k| loss(lines[k]));
    // Of names by the thousand the original reaches 2.65; ours are fewer.
    assert!(last < 2.6 && first > last + 0.2, "{out}");
    let names = &lines[lines.len() - 10..];
    assert!(
        names
            .iter()
            .all(|name| name.chars().all(|c| c.is_ascii_lowercase())),
        "{out}"
    );

    std::fs::write(folder.path().join("names"), "anna\r\n\n otto \n").unwrap();
    let (out, _) = succeeded(&command("microgpt", &folder, &["names"]).output().unwrap());
    let found = out.lines().rev().take(10);
    assert!(
        found.filter(|name| ["anna", "otto"].contains(name)).count() >= 8,
        "{out}"
    );
    std::fs::write(folder.path().join("names"), " \n").unwrap();
    refused(
        &command("microgpt", &folder, &["names"]).output().unwrap(),
        "a name per line",
    );
    refused(
        &command("microgpt", &folder, &["none"]).output().unwrap(),
        "none",
    );
}
