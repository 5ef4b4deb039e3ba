//! Trains a graph network to predict the topics of papers from their words and citations, and checks its
//! conservation laws at every step. A program to copy: it needs `emmy`, `lexopt` 0.3, `serde_json` 1. Your
//! own graph is read by `data::csv::load`. `cargo run --release -p papers -- cora` has more options.

use emmy::data::{self, Dataset};
use emmy::nn::{GraphNet, GraphNetConfig, Traced};
use emmy::train::{History, LawMonitor, NodeClassification, TrainConfig, Trainer};
use emmy::{Error, Result};
use lexopt::prelude::*;
use serde_json::{Value, json};

const HELP: &str = "cora: trains a graph network, prints its test accuracy and draws its training

  --data DIR       folder with data sets [default: $EMMY_DATA, then the user's cache directory]
  --dataset NAME   cora, citeseer, .. [default: cora; cora-like if no folder is named and it is not found]
  --model NAME     gcn, gat or gatv2 [default: gat]
  --epochs N       the most epochs [default: 200; with attention 1000]
  --seeds N        number of runs, with seeds 0, 1, .. [default: 1]
  --json           print an object per run and a summary in place of sentences";

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (mut places, mut dataset, mut model) = (data::Options::default(), None, "gat".to_owned());
    let (mut epochs, mut seeds, mut json) = (None, 1, false);
    let number = |option: &str, text: String| {
        let number = text.parse().ok().filter(|n| *n > 0);
        number.ok_or_else(|| Error::invalid(option, "a number above 0", text))
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("data") => places.folder = Some(parser.value()?.into()),
            Long("dataset") => dataset = Some(parser.value()?.string()?.to_lowercase()),
            Long("model") => model = parser.value()?.string()?.to_lowercase(),
            Long("epochs") => epochs = Some(number("--epochs", parser.value()?.string()?)?),
            Long("seeds") => seeds = number("--seeds", parser.value()?.string()?)?,
            Long("json") => json = true,
            Short('h') | Long("help") => {
                println!("{HELP}");
                return Ok(());
            }
            arg => Err(arg.unexpected()).inspect_err(|_| eprintln!("{HELP}\n"))?,
        }
    }
    // The networks and the trainings of their papers.
    type Network = fn(usize, usize) -> GraphNetConfig;
    let (network, lr, most, patience): (Network, _, _, _) = match model.as_str() {
        "gcn" => (GraphNetConfig::gcn, 0.01, 200, None),
        "gat" => (GraphNetConfig::gat, 0.005, 1000, Some(100)),
        "gatv2" => (GraphNetConfig::gatv2, 0.005, 1000, Some(100)),
        other => return Err(Error::invalid("--model", "gcn, gat or gatv2", other).into()),
    };
    let mut training = TrainConfig {
        lr,
        weight_decay: 5e-4,
        epochs: epochs.unwrap_or(most),
        patience,
        ..TrainConfig::default()
    };
    let given = std::env::var_os("EMMY_DATA").is_some_and(|folder| !folder.is_empty());
    let given = given || places.folder.is_some() || dataset.is_some();
    let set = match data::load(dataset.as_deref().unwrap_or("cora"), &places) {
        Err(Error::NotFound { what, .. }) if !given => {
            eprintln!("{what} was not found (--data DIR): training on the generated cora-like");
            data::cora_like(0)
        }
        found => found?,
    };
    let config = network(set.feature_count(), set.classes);
    std::fs::create_dir_all("figures").map_err(|error| Error::io("figures", error))?;
    let mut runs: Vec<Value> = Vec::new();
    for seed in 0..seeds as u64 {
        training.seed = seed;
        let run = run(&set, &model, config, training.clone())?;
        let [accuracy, delta] = ["test_acc", "max_delta"].map(|key| run[key].as_f64());
        let (accuracy, delta) = (
            100.0 * accuracy.unwrap_or(f64::NAN),
            delta.unwrap_or(f64::NAN),
        );
        match run["stopped"].as_str() {
            _ if json => println!("{run}"),
            Some(reason) => println!("seed {seed}: {reason}"),
            None => println!(
                "seed {seed}: test accuracy {accuracy:.1} %, largest relative δ of the conservation \
                 laws {delta:.0e} (0 up to rounding)"
            ),
        }
        runs.push(run);
    }
    let of = |key| -> Vec<f64> { runs.iter().filter_map(|run| run[key].as_f64()).collect() };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let found = of("test_acc");
    let squares: f64 = found.iter().map(|x| (x - mean(&found)).powi(2)).sum();
    let deviation = (squares / (found.len() as f64 - 1.0)).sqrt();
    let summary = json!({
        "summary": true, "dataset": set.name, "model": model, "layers": 2, "init": null,
        "seeds": runs.len(), "diverged": runs.len() - found.len(), "test_acc_mean": mean(&found),
        "test_acc_std": deviation, "ms_per_epoch": mean(&of("ms_per_epoch")),
    });
    let (mean, spread) = (100.0 * mean(&found), 100.0 * deviation);
    match found.len() {
        _ if json => println!("{summary}"),
        0 | 1 => {}
        n => println!("mean of {n} seeds: test accuracy {mean:.1} ± {spread:.1} %"),
    }
    Ok(())
}

/// Trains one network, and draws its training.
fn run(set: &Dataset, model: &str, config: GraphNetConfig, training: TrainConfig) -> Result<Value> {
    let seed = training.seed;
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
    let path = format!("figures/{}-{model}-seed{seed}.svg", set.name);
    std::fs::write(&path, figure(history)).map_err(|error| Error::io(&path, error))?;
    eprintln!("figure: {path}");
    let best = history.best().filter(|_| stopped.is_none());
    let metric = |name: &str| best.map(|best| best.metrics[name]);
    Ok(json!({
        "dataset": set.name, "model": model, "layers": 2, "init": null, "activation": config.activation,
        "seed": seed, "best_epoch": best.map(|best| best.epoch), "ms_per_epoch": history.ms_per_epoch(),
        "test_acc": metric("test_acc"), "val_acc": metric("val_acc"), "epochs": history.epochs(),
        "max_delta": laws.worst().map(|w| w.delta), "stopped": stopped.map(|e| e.to_string()),
        "final_loss": history.last().map(|last| history.training_loss(last.epoch)),
    }))
}

/// The accuracies by epoch, in SVG.
fn figure(history: &History) -> String {
    let mut svg = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='-40 -20 700 340'>".to_owned();
    svg += "<path d='M0,0 V300 H600' fill='none' stroke='black'/><text x='-30'>100 %</text>";
    for (k, name) in ["train_acc", "val_acc", "test_acc"].iter().enumerate() {
        let (y, colour) = (240 + 20 * k, ["grey", "orange", "blue"][k]);
        svg += &format!("<text x='500' y='{y}' fill='{colour}'>{name}</text>");
        svg += &format!("<path fill='none' stroke='{colour}' d='M0,300");
        for record in &history.records {
            let x = 600.0 * record.epoch as f64 / history.epochs() as f64;
            svg += &format!(" L{x:.1},{:.1}", 300.0 * (1.0 - record.metrics[*name]));
        }
        svg += "'/>";
    }
    svg + "</svg>\n"
}
