//! Figure 5 of Kim et al.: inputs and outputs of the attention of two trained one-layer models, one with dot
//! products and one with L2 attention, at inputs of which one is 0 and the others are uniform.

use super::Cli;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::{figures, note, say, texts};
use emmy::data::text::{self, Text};
use emmy::nn::{AttentionConfig, LanguageConfig, LanguageModel, Pass};
use emmy::ops::attention::Mask;
use emmy::train::{BestBy, NextSymbol, TrainConfig, Trainer};
use emmy::{Result, Tape, Tensor, Var, init};
use serde::Serialize;

#[derive(Serialize)]
struct Line {
    figure: u8,
    model: &'static str,
    /// The 1st percentile, the median and the 99th percentile of the inputs and of the outputs.
    inputs: [f64; 3],
    outputs: [f64; 3],
    val_loss: f64,
}

const WIDTH: usize = 64;
const HEADS: usize = 4;
const CONTEXT: usize = 64;
const STEPS: usize = 400;
/// Inputs are uniform on [−REACH, REACH].
const REACH: f64 = 10.0;

pub fn run(cli: &Cli) -> Result<()> {
    let text = match cli.data.as_deref() {
        Some(folder) => text::penn_treebank(Some(folder))?,
        None => texts::alice(),
    };
    note(format_args!("training on {}", text.source));
    if !cli.json {
        say(
            "| model | inputs: 1 %, median, 99 % | outputs: 1 %, median, 99 % | loss |\n|---|---|---|---:|",
        )?;
    }
    let mut series = Vec::new();
    let x = inputs(cli.seed);
    let models = [
        (
            "dot",
            AttentionConfig {
                bias: false,
                ..AttentionConfig::new(WIDTH, HEADS)
            },
        ),
        ("l2-tied", AttentionConfig::l2(WIDTH, HEADS)),
    ];
    for (model, attention) in models {
        let (net, val_loss) = trained(cli, &text, attention)?;
        let layer = &net.blocks.layers[0].attention;
        let tape = Tape::new();
        let pass = Pass::eval(&tape, layer);
        let y = layer
            .forward(&pass, tape.constant(x.clone()), &Mask::none())
            .value();
        let line = Line {
            figure: 5,
            model,
            inputs: percentiles(&x),
            outputs: percentiles(&y),
            val_loss,
        };
        match cli.json {
            true => cli.tell_json(&line)?,
            false => say(format_args!(
                "| {model} | {} | {} | {val_loss:.3} |",
                shown(line.inputs),
                shown(line.outputs)
            ))?,
        }
        series.push((model, y));
    }
    draw(cli, &x, &series)
}

/// One row of zeros, the others uniform.
fn inputs(seed: u64) -> Tensor<f32> {
    let mut x = init::uniform::<f32>(&[CONTEXT, WIDTH], REACH, &mut init::rng(seed));
    x.index_axis_mut(emmy::ndarray::Axis(0), 0).fill(0.0);
    x
}

fn forward<'t>(
    net: &LanguageModel<f32>,
    pass: &Pass<'t, '_, f32>,
    symbols: &[usize],
    sequences: usize,
) -> Var<'t, f32> {
    net.forward(pass, symbols, sequences)
}

/// A one-layer language model with this attention, and its loss on the validation text.
fn trained(
    cli: &Cli,
    text: &Text,
    attention: AttentionConfig,
) -> Result<(LanguageModel<f32>, f64)> {
    let mut config = LanguageConfig::gpt(text.symbol_count(), CONTEXT, 1, HEADS, WIDTH);
    config.block.attention = attention;
    let task = NextSymbol::new(text, CONTEXT, 12, forward)?.steps_per_epoch(STEPS);
    let train = TrainConfig {
        lr: 1e-3,
        epochs: 1,
        seed: cli.seed,
        best_by: BestBy::LOSS,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(LanguageModel::new(config, cli.seed)?, train)?;
    trainer.fit(&task, |_, _| Ok(()))?;
    let loss = trainer
        .history()
        .last()
        .map_or(f64::NAN, |r| r.metrics["val_loss"]);
    Ok((trainer.best_model(), loss))
}

fn percentiles(x: &Tensor<f32>) -> [f64; 3] {
    let mut all: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    all.sort_by(f64::total_cmp);
    [0.01, 0.5, 0.99].map(|share| all[((all.len() - 1) as f64 * share) as usize])
}

fn shown(values: [f64; 3]) -> String {
    values.map(|v| format!("{v:.2}")).join(", ")
}

fn draw(cli: &Cli, x: &Tensor<f32>, outputs: &[(&'static str, Tensor<f32>)]) -> Result<()> {
    let all = std::iter::once(("input", x)).chain(outputs.iter().map(|(name, y)| (*name, y)));
    let reach = all.clone().map(|(_, values)| {
        let [low, _, high] = percentiles(values);
        high.max(-low)
    });
    let reach = reach.fold(1e-6, f64::max) * 1.05;
    let panels: Vec<Panel> = (all.zip(COLOURS))
        .map(|((name, values), colour)| {
            const BINS: usize = 60;
            let width = 2.0 * reach / BINS as f64;
            let mut counts = vec![0usize; BINS];
            for &v in values {
                let bin = (f64::from(v) + reach) / width;
                if (0.0..BINS as f64).contains(&bin) {
                    counts[bin as usize] += 1;
                }
            }
            let share = |count: &usize| *count as f64 / values.len() as f64;
            let bars = counts.iter().enumerate();
            let bars = bars.map(|(k, count)| (-reach + (k as f64 + 0.5) * width, share(count)));
            let mut panel = Panel::new(name, Axis::new("value"), Axis::new("share"));
            panel.series = vec![Series::new("", colour, Mark::Bars(bars.collect(), width))];
            panel
        })
        .collect();
    for path in figures::write(
        &cli.figures,
        "lipschitz-5",
        (1500, 420),
        "Kim et al., Figure 5",
        3,
        &panels,
    )? {
        note(format_args!("{}", path.display()));
    }
    Ok(())
}
