//! Trains a graph network to predict the topics of papers from their words and citations.
//!
//! `cargo run --release -p papers -- cora` trains a graph attention network on Cora if it is found, else on a
//! generated data set like Cora; `--help` lists all options.

mod cli;
mod outcome;
mod watch;

use crate::support::args::{self, Float};
use crate::support::{checksum, diverged, interrupt, memory, note, progress::Epochs, report, say};
pub use cli::Cli;
use emmy::data::{self, Dataset};
use emmy::lipschitz::Lp;
use emmy::nn::{GraphNet, GraphNetConfig, Pass, Trace, Traced};
use emmy::train::{LawMonitor, NodeClassification, TrainState, Trainer, each_epoch, metrics};
use emmy::{Error, Real, Result, Tape, kernels::par, store};
use outcome::{Outcome, Run, conserved, summarize};
use std::time::{Duration, Instant};

/// Runs what the arguments ask for.
///
/// # Errors
/// If an argument does not fit, a file cannot be read or written, or all runs diverge.
pub fn run(cli: &Cli) -> Result<()> {
    par::with_threads(cli.runs.threads, || match cli.runs.float {
        Float::F32 => of_type::<f32>(cli),
        Float::F64 => of_type::<f64>(cli),
    })
}

fn of_type<F: Real>(cli: &Cli) -> Result<()> {
    if cli.runs.seeds > 1 && (cli.save.is_some() || cli.resume.is_some()) {
        let found = format!("--seeds {}", cli.runs.seeds);
        return Err(Error::invalid("--save and --resume", "a single run", found));
    }
    let set = cli.data.load()?;
    let config = cli.network(&set)?;
    memory::check::<F>(&config, &set)?;
    args::check_loss_threshold(cli.loss_threshold, set.classes)?;
    if let Some(choice) = cli.said_choice() {
        note(choice);
    }
    if cli.runs.summary {
        let table = format!(
            "{}\n{}\n{}",
            summary::<F>(&set, config)?,
            memory::estimate::<F>(&config, &set),
            interval(&set, config, &start::<F>(cli, config, cli.runs.seed)?)?
        );
        match cli.runs.json {
            true => note(table),
            false => say(table)?,
        }
    }
    if std::env::args_os().len() == 2 {
        note(format_args!(
            "a GAT of two layers learns {}: about 2 s on two processors",
            set.name
        ));
    }
    interrupt::listen()?;
    let (mut outcomes, mut undrawn) = (Vec::new(), None);
    for seed in cli.runs.seed..cli.runs.seed + cli.runs.seeds {
        let run = train::<F>(cli, &set, config, seed)?;
        if interrupt::asked() {
            let on = interrupt::goes_on(cli.save.as_deref());
            let (done, all) = (run.outcome.epochs, cli.training(seed).epochs);
            note(format_args!(
                "Ctrl-C, seed {seed}, after epoch {done} of {all}; {on}"
            ));
            run.tell(cli)?;
            break;
        }
        // Results come first, since a figure may fail.
        run.tell(cli)?;
        if let Err(error) = run.draw(cli) {
            undrawn.get_or_insert(error);
        }
        outcomes.push(run.outcome);
    }
    if !outcomes.is_empty() {
        summarize(cli, &set, &outcomes)?;
    }
    undrawn.map_or(Ok(()), Err)
}

/// The training, at its start or resumed, and the monitor of the network's laws.
fn prepare<F: Real>(
    cli: &Cli,
    set: &Dataset,
    config: GraphNetConfig,
    seed: u64,
) -> Result<(Trainer<F, GraphNet<F>>, LawMonitor)> {
    let training = cli.training(seed);
    let net = start::<F>(cli, config, seed)?;
    let of_the_net = serde_json::to_string(&config).expect("numbers and names");
    let description = format!(
        "{} (CRC-32 {:08x}), split {}, learning rate {}, initialisation {}, {of_the_net}",
        set.name,
        checksum::of_graph(set, set.split(cli.data.split)?),
        cli.data.split,
        training.lr,
        cli.init_name().unwrap_or("of the layers")
    );
    // Cross-entropy does not change if one number is added to all logits, so the laws of such losses hold
    // too. With dropout they hold in every pass.
    let laws = [net.laws(), net.softmax_laws()].concat();
    let mut trainer = Trainer::new(net, training)?.described(description);
    let mut worst = None;
    if let Some(path) = &cli.resume {
        let mut state = store::load::<F, TrainState<F>>(path)?;
        worst = state.worst.take();
        trainer.resume(state)?;
        let (history, all) = (trainer.history(), cli.training(seed).epochs);
        let best = history.best().map_or(String::new(), |best| {
            let accuracy = 100.0 * best.metrics["val_acc"];
            format!(
                ", best validation accuracy so far {accuracy:.1} %, at epoch {}",
                best.epoch
            )
        });
        note(format_args!(
            "{}: goes on after epoch {} of {all}{best}",
            path.display(),
            history.epochs()
        ));
    }
    Ok((trainer, LawMonitor::resumed(laws, worst)))
}

/// The network before it is trained.
fn start<F: Real>(cli: &Cli, config: GraphNetConfig, seed: u64) -> Result<GraphNet<F>> {
    let mut net = GraphNet::new(config, seed)?;
    if let Some(init) = cli.init {
        init.apply(&mut net, seed)?;
    }
    Ok(net)
}

/// The layers of the network as a table, with the shapes that they have on this data set.
fn summary<F: Real>(set: &Dataset, config: GraphNetConfig) -> Result<emmy::nn::Summary> {
    let net = GraphNet::<F>::new(config, 0)?;
    let (x, neighbours) = (data::features::<F>(set), config.neighbourhood(&set.graph));
    let trace = Trace::of(&net, |pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    Ok(trace.summary())
}

/// The Lipschitz interval of the network at its start, in the norm ‖·‖₂ of all features and all logits: the
/// upper bound for all features of this graph, and the lower bound found at the features of the data. If
/// there is no bound, a sentence with the reason.
///
/// The features are dense here, since the interval is about all of them, zeros included. On one slow core it
/// takes 4 s for Cora and 13 s for CiteSeer; sets with more features than 2²⁴ are left out.
fn interval<F: Real>(set: &Dataset, config: GraphNetConfig, net: &GraphNet<F>) -> Result<String> {
    const MOST: usize = 1 << 24;
    let numbers = set.nodes().saturating_mul(set.feature_count());
    if numbers > MOST {
        return Ok(format!(
            "Lipschitz constant: not looked for, {numbers} features are more than {MOST}"
        ));
    }
    let (x, neighbours) = (
        data::features::<F>(set).to_dense(),
        config.neighbourhood(&set.graph),
    );
    let trace = Trace::at(net, &x, |pass, x| net.forward(pass, x, &neighbours));
    Ok(match trace.lipschitz(Lp::Two) {
        Ok(interval) => format!("Lipschitz constant at the start, p = 2: {interval}"),
        Err(error) => format!("Lipschitz constant: no bound. {error}"),
    })
}

/// Trains one network.
fn train<F: Real>(cli: &Cli, set: &Dataset, config: GraphNetConfig, seed: u64) -> Result<Run> {
    let (mut trainer, monitor) = prepare::<F>(cli, set, config, seed)?;
    let x = data::features::<F>(set);
    let neighbours = config.neighbourhood(&set.graph);
    let split = set.split(cli.data.split)?;
    let task = NodeClassification::new(&set.labels, split, |net: &GraphNet<F>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    })?;
    let looks = cli
        .watch
        .then(|| watch::Looks::new(cli, set, config, x.clone()));
    if let Some(looks) = &looks {
        looks.tell("at the start", trainer.model())?;
    }
    let bar = Epochs::new(
        &format!("seed {seed}"),
        trainer.config().epochs,
        trainer.history().epochs(),
    );
    let (mut saved, mut unsaved) = (Instant::now(), false);
    let mut place = cli
        .save
        .as_ref()
        .map(|path| trainer.place(path))
        .transpose()?;
    let mut save = |trainer: &Trainer<F, GraphNet<F>>| match &mut place {
        Some(place) => place.save::<F>(&TrainState {
            worst: monitor.worst(),
            ..trainer.state()
        }),
        None => Ok(()),
    };
    let keep = each_epoch(|trainer: &Trainer<F, GraphNet<F>>, _| {
        bar.epoch(trainer.history());
        if let Some(looks) = &looks {
            looks.during(trainer)?;
        }
        if saved.elapsed() > Duration::from_secs(1) {
            save(trainer).inspect_err(|_| unsaved = true)?;
            saved = Instant::now();
        }
        interrupt::check()
    });
    let fitted = trainer.fit_observed(&task, (&monitor, keep));
    drop(bar);
    // The state is saved even if the training ended with an error.
    save(&trainer)?;
    // If the split fits, the only other error is a loss that is not finite.
    let fitted = match (fitted, unsaved) {
        (Err(error), true) => return Err(error),
        (fitted, _) => fitted,
    };
    let history = trainer.history();
    let stopped = diverged(fitted, history);
    if let (Some(looks), None) = (&looks, &stopped) {
        looks.tell("at the best epoch", &trainer.best_model())?;
    }
    let outcome = Outcome::new(cli, set, seed, history, &monitor, stopped)?;
    let text = match &outcome.stopped {
        Some(why) => format!("seed {seed}: diverged: {why}"),
        None => {
            let tape = Tape::new();
            let best = trainer.best_model();
            let logits = best.forward(&Pass::eval(&tape, &best), tape.sparse(&x), &neighbours);
            let counts = metrics::confusion(&logits.value(), &set.labels, &split.test);
            format!(
                "{}\n{}\n{}",
                outcome.told(),
                conserved(&monitor),
                report::confusion(&counts)
            )
        }
    };
    Ok(Run {
        outcome,
        text,
        history: history.clone(),
    })
}
