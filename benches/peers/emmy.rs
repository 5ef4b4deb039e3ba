//! Milliseconds a training step takes, beside PyTorch Geometric (`pyg.py`, `compare.py`): forward, backward, optimiser, on the whole of Cora.
//!
//! One JSON object per row on standard output, with the floor of the row: products at 0.7 of the peak rate
//! and edge traffic at the bandwidth of the caches, both measured in the same run.

#[path = "../support/mod.rs"]
mod support;

use emmy::data::{self, Dataset, Options};
use emmy::kernels::par;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig};
use emmy::optim::{Algorithm, Optimizer};
use emmy::sparse::Csr;
use emmy::{Result, train};
use std::path::PathBuf;
use support::Limits;
use support::options::{self, list, value};

const HELP: &str = "Time training steps on Cora

  --data <DIR>      Folder with Cora; without it, the generated cora-like
  --threads <N,..>  Numbers of threads [default: 1,4]
  --row <NAME,..>   Rows; all without it
  --seconds <S>     Seconds per row [default: 2]";

struct Cli {
    data: Option<PathBuf>,
    threads: Vec<usize>,
    row: Vec<String>,
    seconds: f64,
}

impl Cli {
    fn parse() -> Self {
        let mut cli = Self {
            data: None,
            threads: vec![1, 4],
            row: Vec::new(),
            seconds: 2.0,
        };
        options::read(HELP, |name, parser| {
            match name {
                "data" => cli.data = Some(value(parser)?),
                "threads" => cli.threads = list(parser)?,
                "row" => cli.row = list(parser)?,
                "seconds" => cli.seconds = value(parser)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

/// A row: name, network, optimiser with its learning rate.
fn rows(set: &Dataset) -> Vec<(&'static str, GraphNetConfig, Algorithm, f64)> {
    let (inputs, classes) = (set.feature_count(), set.classes);
    let gcn = GraphNetConfig::gcn(inputs, classes);
    let gcn_64 = GraphNetConfig {
        hidden: 64,
        dropout: 0.0,
        ..gcn
    };
    let gat = GraphNetConfig::gat(inputs, classes);
    let gat_plain = GraphNetConfig {
        dropout: 0.0,
        ..gat
    }
    .attending(|a| a.dropout = 0.0);
    let gatv2 = GraphNetConfig {
        hidden: 64,
        activation: Activation::Relu,
        ..gat_plain
    }
    .of(Conv::gatv2(true))
    .heads(1, 1)
    .biased(false);
    let deep = |config| GraphNetConfig {
        layers: 10,
        ..config
    };
    vec![
        ("gcn-2x16-dropout", gcn, Algorithm::ADAM, 0.01),
        ("gcn-2x64", gcn_64, Algorithm::ADAM, 0.01),
        ("gcn-10x64", deep(gcn_64), Algorithm::ADAM, 0.01),
        ("gat-2x8x8-dropout", gat, Algorithm::ADAM, 0.005),
        ("gat-2x8x8", gat_plain, Algorithm::ADAM, 0.005),
        ("gat-10x8x8", deep(gat_plain), Algorithm::ADAM, 0.005),
        ("gatv2-2x64", gatv2, Algorithm::SGD, 0.1),
        ("gatv2-10x64", deep(gatv2), Algorithm::SGD, 0.05),
    ]
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let options = Options {
        folder: cli.data.clone(),
        ..Options::default()
    };
    let set = match data::load("cora", &options) {
        Err(emmy::Error::NotFound { .. }) if cli.data.is_none() => data::cora_like(0),
        found => found?,
    };
    let names: Vec<_> = rows(&set).iter().map(|(name, ..)| *name).collect();
    options::known("row", &cli.row, &names);
    for &threads in &cli.threads {
        par::with_threads(threads, || -> Result<()> {
            let limits = Limits::measure();
            for (name, config, method, lr) in rows(&set) {
                if cli.row.is_empty() || cli.row.iter().any(|row| row == name) {
                    let (min, median, loss) = row(&set, config, method, lr, cli.seconds)?;
                    let [products, traffic] = floor(&set, &config, limits);
                    let ms = |s: f64| (s * 1e6).round() / 1e3;
                    println!(
                        "{}",
                        serde_json::json!({
                            "who": "emmy", "dataset": set.name, "row": name, "threads": threads,
                            "ms_min": ms(min), "ms_median": ms(median), "loss": loss,
                            "floor_ms": ms(products + traffic), "floor_products_ms": ms(products), "floor_traffic_ms": ms(traffic),
                        })
                    );
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Minimum and median seconds of a step, and the last loss.
fn row(
    set: &Dataset,
    config: GraphNetConfig,
    method: Algorithm,
    lr: f64,
    seconds: f64,
) -> Result<(f64, f64, f64)> {
    let x: Csr<f32> = set.normalized_features();
    let adjacency = config.neighbourhood(&set.graph);
    let train_nodes = &set.split(0)?.train;
    let mut net = GraphNet::<f32>::new(config, 0)?;
    let mut optimizer = Optimizer::new(method).weight_decay(5e-4);
    let (mut epoch, mut last) = (0, 0.0_f64);
    let (min, median) = support::time(20, seconds, || {
        let loss = train::step(&mut net, &mut optimizer, lr, epoch, |net, pass| {
            net.forward(pass, pass.tape().sparse(&x), &adjacency)
                .cross_entropy(&set.labels, Some(train_nodes))
        });
        last = loss.expect("a finite loss");
        epoch += 1;
    });
    Ok((min, median, last))
}

/// Seconds that the products and the edge traffic of a step take at least.
///
/// Products: two floating-point operations a multiply-add, forward, by the input and by the weight (the first layer's input is constant and
/// sparse). Traffic, in bytes: for each pass over the edges an index and the values of an entry, the row of the other end, and each row
/// of the output once. GCN makes one pass forward and one backward; attention one forward (score and sum together) and one backward over
/// targets and one over sources.
fn floor(set: &Dataset, config: &GraphNetConfig, limits: Limits) -> [f64; 2] {
    let n = set.nodes() as f64;
    let edges = set.graph.with_self_loops().edges() as f64;
    let stored = set.features.pattern.nnz() as f64;
    let (mut flops, mut bytes) = (0.0, 0.0);
    for l in 0..config.layers {
        let attention = config.conv.attention();
        let hidden_heads = attention.map_or(1, |a| a.heads);
        let heads = if l + 1 < config.layers {
            hidden_heads
        } else {
            1
        } as f64;
        let width = if l + 1 < config.layers {
            config.hidden as f64 * heads
        } else {
            config.classes as f64
        };
        if l == 0 {
            flops += 2.0 * 2.0 * stored * width;
        } else {
            let input = (config.hidden * hidden_heads) as f64;
            flops += 3.0 * 2.0 * n * input * width;
        }
        let row = 4.0 * width;
        let pass = |values: f64| edges * (4.0 + 4.0 * values + row) + n * row;
        bytes += if attention.is_some() {
            3.0 * pass(heads)
        } else {
            2.0 * pass(1.0)
        };
    }
    [flops / (0.7 * limits.flops), bytes / limits.cache]
}
