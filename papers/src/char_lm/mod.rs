//! Trains a model that writes text character by character: a transformer, one with L2 attention, an LSTM,
//! or a model with a certified Lipschitz constant; or evaluates the mean of several such models.
//!
//! `cargo run --release -p papers -- char_lm` trains a small model on Alice's Adventures in Wonderland; with
//! `--data DIR` it learns Tiny Shakespeare, like nanoGPT's recipe for a laptop; `--help` lists all options.

mod certify;
mod cli;
mod evaluate;
mod look;
mod mean;
mod model;
mod outcome;
mod watch;
mod written;

use crate::support::args::Float;
use crate::support::{checksum, diverged, interrupt, note, say};
pub use cli::Cli;
use emmy::data::text::Text;
use emmy::nn::{Pass, parameter_count};
use emmy::train::{History, NextSymbol, Record, TrainConfig, TrainState, Trainer, each_epoch};
use emmy::{Error, Real, Result, Var, kernels::par};
use evaluate::Quality;
use model::CharModel;
use outcome::{Measurement, Outcome};
use std::time::Instant;
use watch::{Steps, Watch};
use written::{Checkpoint, write};

/// Runs what the arguments ask for.
///
/// # Errors
/// If an argument does not fit, a file cannot be read or written, or the training diverges.
pub fn run(cli: &Cli) -> Result<()> {
    par::with_threads(cli.threads, || match cli.float {
        Float::F32 => of_type::<f32>(cli),
        Float::F64 => of_type::<f64>(cli),
    })
}

fn forward<'t, F: Real>(
    net: &CharModel<F>,
    pass: &Pass<'t, '_, F>,
    symbols: &[usize],
    sequences: usize,
) -> Var<'t, F> {
    net.forward(pass, symbols, sequences)
}

fn of_type<F: Real>(cli: &Cli) -> Result<()> {
    let begun = cli.load.as_ref().or(cli.resume.as_ref());
    let begun = begun.map(|path| Checkpoint::read(path)).transpose()?;
    let text = match &begun {
        Some(checkpoint) if cli.only_writes() => return written::only(cli, checkpoint),
        Some(checkpoint) => checkpoint.recoded(&cli.text()?)?,
        None => cli.text()?,
    };
    let prompt = cli.prompt(&text)?;
    let model = CharModel::<F>::new(cli, &text)?;
    let task = NextSymbol::new(&text, cli.context, cli.batch, forward::<F>)?
        .evaluated_on(cli.eval_batches.saturating_mul(cli.batch));
    if !cli.mean_of.is_empty() {
        return mean::evaluate(cli, &text, &task, &prompt);
    }
    if cli.summary {
        cli.tell(model.trace(cli.context).summary())?;
    }
    if !cli.json {
        say(described(cli, &text, parameter_count(&model)))?;
    }
    let start = Instant::now();
    let resumed = begun.as_ref().filter(|_| cli.resume.is_some());
    let worst = resumed.and_then(|checkpoint| checkpoint.state.worst.clone());
    let watch = Watch::new(model.trace(cli.context.min(4)), cli.watch, worst);
    let mut trainer = begin(cli, &text, model, begun)?;
    if let Some(path) = &cli.resume {
        let (path, history) = (path.display(), trainer.history());
        let (done, all) = (history.steps.len(), cli.steps);
        note(format_args!(
            "{path}: goes on after step {done} of {all}{}",
            best_so_far(history)
        ));
    }
    let steps = Steps::new(cli.steps, trainer.history());
    interrupt::listen()?;
    let mut place = cli
        .save
        .as_ref()
        .map(|path| trainer.place(path))
        .transpose()?;
    let mut save = |trainer: &Trainer<F, CharModel<F>>| match &mut place {
        Some(place) => place.save::<F>(&TrainState {
            worst: watch.worst(),
            ..trainer.state()
        }),
        None => Ok(()),
    };

    // Whole intervals first, then what remains of the steps.
    let interval = cli.eval_interval;
    let (whole, left) = (cli.steps / interval, cli.steps % interval);
    let mut stopped = None;
    for (epochs, length) in [(whole, interval), (whole.saturating_add(1), left)] {
        if length == 0 || stopped.is_some() || interrupt::asked() {
            continue;
        }
        trainer = until(epochs, trainer)?;
        let task = task.steps_per_epoch(length);
        let mut failed = None;
        let keep = each_epoch(|trainer: &Trainer<F, CharModel<F>>, record: &Record| {
            let measured = Measurement::new(trainer.history(), record, steps.pace(), start);
            let look = cli.watch.then(|| look::Look::at(trainer.model(), &text));
            let measured = measured.with(look);
            let kept = steps
                .aside(|| measured.tell(cli))
                .and_then(|()| save(trainer));
            kept.map_err(|error| {
                let told = Error::invalid("the run", "to go on", error.to_string());
                failed = Some(error);
                told
            })
        });
        let fitted = trainer.fit_observed(&task, ((&watch, &steps), keep));
        if let Some(error) = failed {
            return Err(error);
        }
        // If the text fits, the only other error is a loss that is not finite.
        stopped = diverged(fitted, trainer.history());
    }
    // The state is saved even if the training diverged or was interrupted.
    save(&trainer)?;
    if interrupt::asked() {
        steps.end();
        return cli.tell(interrupted(cli, trainer.history()));
    }
    let seconds = start.elapsed().as_secs_f64();
    let (mut best, history) = (trainer.best_model(), trainer.history());
    let found = history.best().filter(|_| stopped.is_none());
    let quality = match found {
        Some(_) => Quality::of(cli, &text, &task, &mut best, |what| steps.say(what))?,
        None => Quality::default(),
    };
    let outcome = Outcome {
        summary: true,
        model: cli.model_name(),
        dataset: text.source.clone(),
        parameters: parameter_count(&best),
        members: 1,
        steps: history.steps.len(),
        best_step: found.map(|best| best.steps),
        quality,
        ms_per_step: steps.pace(),
        seconds,
        max_delta: watch.worst().map(|worst| worst.delta),
        stopped,
    };
    steps.end();

    // Results come first, since a figure may fail.
    outcome.tell(cli, Some(&watch))?;
    if let Some(why) = outcome.stopped {
        return Err(Error::invalid("training", "one that does not diverge", why));
    }
    write(cli, &text, &best, &prompt)?;
    outcome::draw(cli, &text, history)
}

/// The best evaluation so far, for the end of a sentence.
fn best_so_far(history: &History) -> String {
    history.best().map_or(String::new(), |best| {
        let loss = best.metrics["val_loss"];
        format!(
            ", best validation loss so far {loss:.3}, at step {}",
            best.steps
        )
    })
}

/// The report of a training that Ctrl-C ended.
fn interrupted(cli: &Cli, history: &History) -> String {
    format!(
        "Ctrl-C after step {} of {}{}; {}",
        history.steps.len(),
        cli.steps,
        best_so_far(history),
        interrupt::goes_on(cli.save.as_deref())
    )
}

/// The training at its start, resumed, or from the weights of another.
fn begin<F: Real>(
    cli: &Cli,
    text: &Text,
    mut model: CharModel<F>,
    begun: Option<Checkpoint<F>>,
) -> Result<Trainer<F, CharModel<F>>> {
    if let Some(checkpoint) = begun.as_ref().filter(|_| cli.load.is_some()) {
        checkpoint.restore(cli, &mut model)?;
    }
    let mut trainer = Trainer::new(model, cli.training())?.described(description(cli, text));
    if let Some(checkpoint) = begun.filter(|_| cli.resume.is_some()) {
        check_intervals(cli, &checkpoint.state.history)?;
        trainer.resume(checkpoint.state)?;
    }
    Ok(trainer)
}

/// The text, the model and the training of a checkpoint.
fn description(cli: &Cli, text: &Text) -> String {
    let [train, validation, test] =
        [&text.train, &text.validation, &text.test].map(|part| part.len());
    let described = format!(
        "{} of {train} + {validation} + {test} characters (CRC-32 {:08x}), {}, dropout {}, \
         context {}, {} windows per step, {} batches per evaluation, learning rate {}, {:?}",
        text.source,
        checksum::of_text(text),
        written::of_model(cli),
        cli.dropout,
        cli.context,
        cli.batch,
        cli.eval_batches,
        cli.lr,
        cli.training().schedule,
    );
    written::with_symbols(described, text)
}

/// Refuses a run whose evaluations were after other steps than those of this run: the windows of a step
/// depend on the number of the evaluation before it.
fn check_intervals(cli: &Cli, history: &History) -> Result<()> {
    let mut records = history.records.iter();
    let place = |epoch: usize| epoch.saturating_mul(cli.eval_interval).min(cli.steps);
    match records.find(|record| record.steps != place(record.epoch)) {
        None => Ok(()),
        Some(record) => Err(Error::invalid(
            format!("checkpoint of another run: evaluation {}", record.epoch),
            format!("after {} steps", place(record.epoch)),
            format!("after {}", record.steps),
        )),
    }
}

/// The same training with another number of epochs.
fn until<F: Real>(
    epochs: usize,
    trainer: Trainer<F, CharModel<F>>,
) -> Result<Trainer<F, CharModel<F>>> {
    let state = trainer.state();
    let config = TrainConfig {
        epochs,
        ..trainer.config().clone()
    };
    let model = trainer.model().clone();
    let mut next = Trainer::new(model, config)?.described(state.description.clone());
    next.resume(state)?;
    Ok(next)
}

/// Prints the model, the text and the head of the table of measurements.
fn described(cli: &Cli, text: &Text, parameters: usize) -> String {
    format!(
        "{}: {} characters to train, {} to validate, {} to test, {} symbols\n\
         {}: {} layers of width {}, {parameters} parameters; {} windows of {} characters per step\n\n{}",
        text.source,
        text.train.len(),
        text.validation.len(),
        text.test.len(),
        text.symbol_count(),
        cli.model_name(),
        cli.layers,
        cli.width,
        cli.batch,
        cli.context,
        outcome::HEAD,
    )
}

impl Cli {
    /// Prints a text for readers; with `--json` on standard error.
    fn tell(&self, told: impl std::fmt::Display) -> Result<()> {
        match self.json {
            true => note(told),
            false => say(told)?,
        }
        Ok(())
    }
}
