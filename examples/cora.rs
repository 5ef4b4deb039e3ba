//! Trains a graph network to predict the topics of papers from their words and citations, and checks its
//! conservation laws at every step. A program to copy and change; `cargo run --release -p papers -- cora` has
//! more options, checkpoints and tables. `data::csv::load` reads a graph of your own.

use emmy::data::{self, Dataset};
use emmy::nn::{GraphNet, GraphNetConfig, Traced};
use emmy::train::{History, LawMonitor, NodeClassification, TrainConfig, Trainer};
use emmy::{Error, Result};
use lexopt::prelude::*;
use serde_json::{Value, json};

const HELP: &str = "cora: trains a graph network, prints its test accuracy and draws its training

  --data DIR       folder with data sets [default: $EMMY_DATA, then the user's cache directory]
  --dataset NAME   cora, citeseer, pubmed, .. [default: cora; cora-like if it is not found]
  --model NAME     gcn, gat or gatv2 [default: gat]
  --epochs N       the most epochs [default: 200; with attention 1000]
  --seeds N        number of runs, with seeds 0, 1, .. [default: 1]
  --json           print an object per run and a summary in place of sentences";

#[derive(Default)]
struct Options {
    data: data::Options,
    dataset: Option<String>,
    model: Option<String>,
    epochs: Option<usize>,
    seeds: Option<u64>,
    json: bool,
}

fn options() -> std::result::Result<Options, lexopt::Error> {
    let (mut all, mut parser) = (Options::default(), lexopt::Parser::from_env());
    while let Some(option) = parser.next()? {
        match option {
            Long("data") => all.data.folder = Some(parser.value()?.into()),
            Long("dataset") => all.dataset = Some(parser.value()?.string()?),
            Long("model") => all.model = Some(parser.value()?.string()?),
            Long("epochs") => all.epochs = Some(parser.value()?.parse()?),
            Long("seeds") => all.seeds = Some(parser.value()?.parse()?),
            Long("json") => all.json = true,
            other => return Err(other.unexpected()),
        }
    }
    Ok(all)
}

fn main() -> Result<()> {
    let options = options().unwrap_or_else(|wrong| {
        eprintln!("{wrong}\n\n{HELP}");
        std::process::exit(2)
    });
    let set = match data::load(options.dataset.as_deref().unwrap_or("cora"), &options.data) {
        Err(Error::NotFound { what, .. }) if options.dataset.is_none() => {
            eprintln!("{what} was not found (--data DIR): training on the generated cora-like");
            data::cora_like(0)
        }
        found => found?,
    };
    let runs = (0..options.seeds.unwrap_or(1).max(1)).map(|seed| run(&options, &set, seed));
    let runs = runs.collect::<Result<Vec<Value>>>()?;
    let of = |key| -> Vec<f64> { runs.iter().filter_map(|run| run[key].as_f64()).collect() };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let found = of("test_acc");
    let squares: f64 = found.iter().map(|x| (x - mean(&found)).powi(2)).sum();
    let deviation = (squares / (found.len() as f64 - 1.0).max(1.0)).sqrt();
    let summary = json!({
        "summary": true, "dataset": set.name, "model": runs[0]["model"], "layers": 2, "init": null,
        "seeds": runs.len(), "diverged": runs.len() - found.len(), "test_acc_mean": mean(&found),
        "test_acc_std": deviation, "ms_per_epoch": mean(&of("ms_per_epoch")),
    });
    match options.json {
        true => println!("{summary}"),
        false => println!("test accuracy {:.3} ± {deviation:.3}", mean(&found)),
    }
    Ok(())
}

/// Trains one network, reports it and draws it.
fn run(options: &Options, set: &Dataset, seed: u64) -> Result<Value> {
    let (inputs, classes) = (set.feature_count(), set.classes);
    let model = options.model.as_deref().unwrap_or("gat");
    let config = match model {
        "gcn" => GraphNetConfig::gcn(inputs, classes),
        "gat" => GraphNetConfig::gat(inputs, classes),
        "gatv2" => GraphNetConfig::gatv2(inputs, classes),
        other => return Err(Error::invalid("--model", "gcn, gat or gatv2", other)),
    };
    let (activation, lr, epochs, patience) = match model.starts_with("gat") {
        true => ("elu", 0.005, 1000, Some(100)),
        false => ("relu", 0.01, 200, None),
    };
    let training = TrainConfig {
        lr,
        weight_decay: 5e-4,
        epochs: options.epochs.unwrap_or(epochs),
        patience,
        seed,
        ..TrainConfig::default()
    };
    let net = GraphNet::<f32>::new(config, seed)?;
    // The second list: laws of a loss that stays the same if one number is added to all logits.
    let laws = LawMonitor::new([net.laws(), net.softmax_laws()].concat());
    let (x, neighbours) = (data::features(set), config.neighbourhood(&set.graph));
    let task = NodeClassification::new(&set.labels, set.split(0)?, |net: &GraphNet<f32>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    })?;
    let mut trainer = Trainer::new(net, training)?;
    let stopped = trainer.fit_observed(&task, &laws).err();
    let history = trainer.history();
    let best = history.best().filter(|_| stopped.is_none());
    let metric = |name: &str| best.map(|best| best.metrics[name]);
    let run = json!({
        "dataset": set.name, "model": model, "layers": 2, "init": null, "activation": activation,
        "seed": seed, "test_acc": metric("test_acc"), "val_acc": metric("val_acc"),
        "best_epoch": best.map(|best| best.epoch), "epochs": history.epochs(),
        "ms_per_epoch": history.ms_per_epoch(), "max_delta": laws.worst().map(|w| w.delta),
        "final_loss": history.last().map(|last| history.training_loss(last.epoch)),
        "stopped": stopped.map(|error| error.to_string()),
    });
    let (accuracy, delta) = (metric("test_acc").unwrap_or(f64::NAN), laws.max_delta());
    match options.json {
        true => println!("{run}"),
        false => println!("seed {seed}: test accuracy {accuracy:.3}, largest δ {delta:.0e}"),
    }
    let path = format!("figures/{}-{model}-seed{seed}.svg", set.name);
    std::fs::create_dir_all("figures")
        .and_then(|()| std::fs::write(&path, figure(history)))
        .map_err(|error| Error::io(&path, error))?;
    eprintln!("figure: {path}");
    Ok(run)
}

/// The accuracies by epoch, in SVG.
fn figure(history: &History) -> String {
    let head = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='-40 -20 700 340'>";
    let axes = "<path d='M0,0 V300 H600' fill='none' stroke='black'/><text x='-30'>100 %</text>";
    let mut svg = format!("{head}{axes}");
    let curves = ["train_acc", "val_acc", "test_acc"].into_iter().enumerate();
    for ((k, name), colour) in curves.zip(["grey", "orange", "blue"]) {
        let y = 240 + 20 * k;
        svg += &format!("<text x='500' y='{y}' fill='{colour}'>{name}</text>");
        svg += &format!("<path fill='none' stroke='{colour}' d='M0,300");
        for record in &history.records {
            let x = 600.0 * record.epoch as f64 / history.epochs() as f64;
            svg += &format!(" L{x:.1},{:.1}", 300.0 * (1.0 - record.metrics[name]));
        }
        svg += "'/>";
    }
    svg + "</svg>\n"
}
