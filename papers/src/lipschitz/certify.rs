//! A classifier of digits, and a proven interval for how far its logits can move.

use super::Cli;
use super::perceptron::{network, pieces};
use super::robust::{Robust, robust};
use crate::support::{note, say};
use emmy::data::images::{self, Part};
use emmy::lipschitz::{Domain, Interval, Lower, Lp, Upper, bound};
use emmy::nn::{Activation, Mlp, Module, Pass};
use emmy::train::{BestBy, Classify, TrainConfig, Trainer};
use emmy::{Error, Result, Tape, Tensor, Var, init};
use serde::Serialize;
use std::time::Instant;

/// A line of JSON: the interval of one logit, or of all logits together.
#[derive(Serialize)]
struct Line {
    logit: String,
    lower: f64,
    upper: f64,
    ratio: f64,
    product: f64,
    accuracy: f64,
    seconds: f64,
}

/// The number of digits that are held out for the test.
const HELD_OUT: usize = 1000;

/// The number of hidden neurons.
fn hidden(cli: &Cli) -> u32 {
    cli.hidden.unwrap_or(256)
}

pub fn run(cli: &Cli) -> Result<()> {
    let (net, test, accuracy) = train(cli)?;
    if !cli.json {
        say(format_args!(
            "a network of 784-{}-10 with ReLU, {:.1} % of the {HELD_OUT} test digits right",
            hidden(cli),
            100.0 * accuracy
        ))?;
        say(
            "| logit | found | proven | proven / found | ‖W₂‖ ‖W₁‖ | seconds |\n|---|---:|---:|---:|---:|---:|",
        )?;
    }
    let choices = (0..10).map(Some).chain([None]);
    for logit in choices {
        let start = Instant::now();
        let (interval, product) = certify(cli, &net, logit)?;
        let line = Line {
            logit: logit.map_or("all".to_owned(), |k| k.to_string()),
            lower: interval.lower.get(),
            upper: interval.upper.get(),
            ratio: interval.ratio(),
            product,
            accuracy,
            seconds: start.elapsed().as_secs_f64(),
        };
        if interval.is_contradicted(1e-6) {
            let found = format!("{interval}");
            return Err(Error::invalid("the interval", "found below proven", found));
        }
        match cli.json {
            true => cli.tell_json(&line)?,
            false => say(format_args!(
                "| {} | {:.4} | {:.4} | {:.3} | {:.4} | {:.1} |",
                line.logit, line.lower, line.upper, line.ratio, line.product, line.seconds
            ))?,
        }
    }
    tell_robust(cli, &net, &test)
}

/// A line of JSON: how many digits keep their class.
#[derive(Serialize)]
struct RobustLine {
    epsilon: f64,
    certified: f64,
    executed: f64,
    attacked: f64,
}

/// Prints the interval of the accuracy for digits to which something of the size ε is added.
fn tell_robust(cli: &Cli, net: &Mlp<f32>, test: &images::Images) -> Result<()> {
    if !cli.json {
        say("\n| ε, 2-norm | certified | its program | under attack |\n|---|---:|---:|---:|")?;
    }
    let rows = robust(
        (net, &widened(net)?),
        &test.rows::<f32>(),
        &test.classes_of(),
        cli.seed,
    )?;
    for Robust {
        size,
        certified,
        executed,
        attacked,
    } in rows
    {
        match cli.json {
            true => cli.tell_json(&RobustLine {
                epsilon: size,
                certified,
                executed,
                attacked,
            })?,
            false => say(format_args!(
                "| {size} | {:.1} % | {:.1} % | {:.1} % |",
                100.0 * certified,
                100.0 * executed,
                100.0 * attacked
            ))?,
        }
    }
    Ok(())
}

/// The network, the digits that it has not seen, and its accuracy on them.
fn train(cli: &Cli) -> Result<(Mlp<f32>, images::Images, f64)> {
    let digits = images::load(cli.data.as_deref(), "mnist", Part::Test)?;
    let (train, test) = digits.split(HELD_OUT, cli.seed)?;
    let rng = &mut init::rng(cli.seed);
    let widths = [
        digits.height * digits.width,
        hidden(cli) as usize,
        digits.classes(),
    ];
    let net = Mlp::<f32>::new(&widths, Activation::Relu, true, rng);
    let part = |images: &images::Images| (images.rows::<f32>(), images.classes_of());
    let task = Classify::new(part(&train), part(&test), 100, classify)?;
    let config = TrainConfig {
        lr: 1e-3,
        epochs: cli.epochs.unwrap_or(15) as usize,
        seed: cli.seed,
        best_by: BestBy::LOSS,
        ..TrainConfig::default()
    };
    note("training");
    let mut trainer = Trainer::new(net, config)?;
    trainer.fit(&task, |_, _| Ok(()))?;
    let net = trainer.best_model();
    let (_, accuracy) = task.measure(&net);
    Ok((net, test, accuracy))
}

fn classify<'t>(net: &Mlp<f32>, pass: &Pass<'t, '_, f32>, x: Var<'t, f32>) -> Var<'t, f32> {
    net.forward(pass, x)
}

/// The logits, or one of them, of images `[n, 784]`.
fn logits<'t>(
    net: &Mlp<f64>,
    pass: &Pass<'t, '_, f64>,
    x: Var<'t, f64>,
    logit: Option<usize>,
) -> Var<'t, f64> {
    let h = net.layers[0].forward(pass, x).relu();
    match logit {
        None => net.layers[1].forward(pass, h),
        // The bias has no effect on the constant.
        Some(k) => h.linear(pass.param(&net.layers[1].weight).slice(0, k..k + 1)),
    }
}

/// The interval, and the product of the two norms, which is the plain bound.
fn certify(cli: &Cli, net: &Mlp<f32>, logit: Option<usize>) -> Result<(Interval, f64)> {
    let net = widened(net)?;
    let inputs = net.layers[0].weight.shape()[1];
    let upper = {
        let tape = Tape::new();
        let x = tape.var(init::zeros(&[1, inputs]));
        let pass = Pass::differentiable(&tape, &net);
        bound(
            logits(&net, &pass, x, logit),
            x,
            Lp::Two,
            Domain::Everywhere,
        )?
        .upper()
    };
    // For several outputs the multipliers of the network as a whole prove a smaller constant.
    let upper = match logit {
        None => upper.min(whole(&net)?),
        Some(_) => upper,
    };
    let product = {
        let norm = |w: &Tensor<f64>, rows: Option<usize>| {
            let w = w.view().into_dimensionality().expect("a matrix");
            match rows {
                Some(k) => Lp::Two
                    .matrix(w.slice(emmy::ndarray::s![k..k + 1, ..]))
                    .get(),
                None => Lp::Two.matrix(w).get(),
            }
        };
        norm(&net.layers[1].weight, logit) * norm(&net.layers[0].weight, None)
    };
    let lower = steepest(cli, &net, logit)?;
    Ok((Interval { lower, upper }, product))
}

/// The bound of the network as a whole.
fn whole(net: &Mlp<f64>) -> Result<Upper> {
    let certificate = network(net)?.certify()?;
    Ok(Upper::new(certificate.lipschitz))
}

/// The largest norm of the Jacobian at the inputs that the search finds.
fn steepest(cli: &Cli, net: &Mlp<f64>, logit: Option<usize>) -> Result<Lower> {
    let found = pieces(net, logit)?.climb(cli.restarts.unwrap_or(100), cli.seed);
    Ok(found.map_or(Lower::ZERO, |steep| steep.lower))
}

/// The same weights in `f64`, exactly.
fn widened(net: &Mlp<f32>) -> Result<Mlp<f64>> {
    let widths: Vec<usize> = std::iter::once(net.layers[0].weight.shape()[1])
        .chain(net.layers.iter().map(|layer| layer.weight.shape()[0]))
        .collect();
    let mut wide = Mlp::<f64>::new(&widths, Activation::Relu, true, &mut init::rng(0));
    for (to, from) in wide.tensors_mut().into_iter().zip(net.tensors()) {
        *to = from.mapv(f64::from).into_shared();
    }
    Ok(wide)
}
