//! Trains a small transformer to write text, character by character.
//!
//! `cargo run --example char_lm [FILE [STEPS]]` learns any text file in UTF-8; without FILE, "Alice's
//! Adventures in Wonderland", in half a minute to 80 seconds. `cargo run --release -p papers -- char_lm` has
//! other models, checkpoints and measurements. A copy needs no crate but `emmy`, and the book beside it,
//! `texts/alice.txt`.

use emmy::data::text::{self, Text};
use emmy::nn::{LanguageConfig, LanguageModel, Pass, Role, Sampling};
use emmy::optim::{AdamW, Algorithm, Clip, Decay, Schedule, Unit};
use emmy::train::{BestBy, NextSymbol, TrainConfig, Trainer};
use emmy::{Error, Result, Var};
use std::ffi::OsString;
use std::path::Path;

const HELP: &str = "char_lm [FILE [STEPS]]: trains a transformer to write text like that of a file

  FILE    a text in UTF-8 [default: Alice's Adventures in Wonderland]
  STEPS   steps of training [default: 3000]";

const CONTEXT: usize = 64;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const WIDTH: usize = 64;
/// Windows of a step.
const BATCH: usize = 12;
/// Steps between two evaluations, which are an epoch here.
const INTERVAL: usize = 250;

type Model = LanguageModel<f32>;

/// The logits of the character after each, `[sequences, length, characters]`.
fn forward<'t>(
    net: &Model,
    pass: &Pass<'t, '_, f32>,
    characters: &[usize],
    sequences: usize,
) -> Var<'t, f32> {
    net.forward(pass, characters, sequences)
}

fn main() -> Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let is_option = |argument: &&OsString| argument.to_string_lossy().starts_with('-');
    if let Some(unknown) = arguments.first().filter(is_option).or(arguments.get(2)) {
        let unknown = unknown.to_string_lossy();
        return Err(Error::invalid("arguments", "[FILE [STEPS]]", unknown));
    }
    let text: Text = match arguments.first() {
        Some(path) => text::from_file(Path::new(path))?,
        None => Text::split("alice", include_str!("texts/alice.txt"))?,
    };
    let steps = match arguments.get(1).map(|steps| steps.to_string_lossy()) {
        Some(steps) => (steps.parse::<usize>().ok().filter(|n| *n > 0))
            .ok_or_else(|| Error::invalid("STEPS", "a number above 0", steps))?,
        None => 3000,
    };
    let characters = text.symbol_count();
    let config = LanguageConfig::gpt(characters, CONTEXT, LAYERS, HEADS, WIDTH);
    let net = Model::new(config, 0)?;
    println!(
        "{}: {} characters to learn from",
        text.source,
        text.train.len()
    );

    // Evaluations at equal distances; `steps` are rounded down to a multiple of their number.
    let epochs = steps.div_ceil(INTERVAL);
    let interval = steps / epochs;
    let steps = epochs * interval;
    let warm_up = 100.min(steps / 10);
    let training = TrainConfig {
        algorithm: Algorithm::AdamW(AdamW {
            beta1: 0.9,
            beta2: 0.99,
            eps: 1e-8,
        }),
        lr: 4e-3,
        weight_decay: 0.1,
        // Gains and biases do not decay.
        decay_roles: Some(vec![Role::Weight, Role::Table]),
        clip: Some(Clip::GlobalNorm(1.0)),
        schedule: Schedule {
            warm_up,
            then: Decay::Cosine {
                over: steps - warm_up,
                end: 0.1,
            },
            unit: Unit::Steps,
        },
        epochs,
        best_by: BestBy::LOSS,
        ..TrainConfig::default()
    };
    let task = NextSymbol::new(&text, CONTEXT, BATCH, forward)?
        .steps_per_epoch(interval)
        .evaluated_on(20 * BATCH);
    let mut trainer = Trainer::new(net, training)?;
    trainer.fit(&task, |_, record| {
        let (step, loss) = (record.steps, record.metrics["val_loss"]);
        println!("step {step:5}: validation loss {loss:.3} nats per character");
        Ok(())
    })?;

    // 300 characters, each drawn from what the model expects, with the keys and values of the earlier ones
    // kept.
    let how = Sampling {
        temperature: 0.8,
        top_k: Some(200),
        seed: 0,
    };
    let start = text.train[..1].iter().map(|&symbol| symbol.into());
    let written = (trainer.best_model()).generate(&start.collect::<Vec<usize>>(), 300, &how);
    let written: Vec<u16> = written.iter().map(|&symbol| symbol as u16).collect();
    println!("\n{}", text.decode(&written));
    Ok(())
}
