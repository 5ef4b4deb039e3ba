//! Peak memory of training steps, beside all that a step computes with; and of attention and of ContraNorm,
//! forward and backward, at growing numbers of tokens: as one operation, and composed.
//!
//! `cargo bench --bench memory` prints the tables. Each number is the peak of a process of its own, less
//! that of one that computes nothing (Linux: `VmHWM`). A step computes with the parameters, their gradients
//! and the moments of Adam, the inputs, and the values of all operations of the forward pass.

#[path = "support/mod.rs"]
mod support;

use emmy::autodiff::{grad_and_free, vjp};
use emmy::graph::generators::random_graph;
use emmy::nn::{
    ContraConfig, Conv, GraphNet, GraphNetConfig, LanguageConfig, LanguageModel, Module, Pass,
};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::optim::{Algorithm, Optimizer};
use emmy::{Tape, Tensor, Var, init};
use std::collections::HashMap;
use std::process::{Command, ExitCode};
use support::options::{self, list, value};

/// Heads, and the width of each.
const HEADS: usize = 8;
const WIDTH: usize = 64;

const HELP: &str = "Measure the peak memory of attention

  --tokens <N,..>  Numbers of tokens [default: 1024,4096,16384]
  --composed <N>   Most tokens for which the composition is measured: its memory grows with their square [default: 4096]
  --nodes <N,..>   Numbers of nodes for ContraNorm [default: 2708,8000,20000]
  --edges <N>      Edges of the graph of the training steps, with a tenth as many nodes [default: 1000000]";

struct Cli {
    tokens: Vec<usize>,
    composed: usize,
    nodes: Vec<usize>,
    edges: usize,
    /// Train this model for two steps and print the peak, that before the first backward pass, and what a
    /// step computes with, in bytes
    step: Option<String>,
    /// Compute once with so many tokens and print the peak
    once: Option<usize>,
    /// Of ContraNorm
    contra: bool,
    /// Composed of products and a softmax
    by_parts: bool,
}

impl Cli {
    fn parse() -> Self {
        let mut cli = Self {
            tokens: vec![1024, 4096, 16384],
            composed: 4096,
            nodes: vec![2708, 8000, 20000],
            edges: 1_000_000,
            step: None,
            once: None,
            contra: false,
            by_parts: false,
        };
        options::read(HELP, |name, parser| {
            match name {
                "tokens" => cli.tokens = list(parser)?,
                "composed" => cli.composed = value(parser)?,
                "nodes" => cli.nodes = list(parser)?,
                "edges" => cli.edges = value(parser)?,
                "step" => cli.step = Some(value(parser)?),
                "once" => cli.once = Some(value(parser)?),
                "contra" => cli.contra = true,
                "by-parts" => cli.by_parts = true,
                _ => return Ok(false),
            }
            Ok(true)
        });
        cli
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(model) = &cli.step {
        return train(model, cli.edges).map_or(ExitCode::FAILURE, print_with_peak);
    }
    if let Some(tokens) = cli.once {
        match cli.contra {
            true => contra(tokens, cli.by_parts),
            false => compute(tokens, cli.by_parts),
        }
        return print_with_peak([0, 0]);
    }
    let Some([nothing, ..]) = measure(&["--once", "0"]) else {
        eprintln!("the peak memory of a process is not known on this system");
        return ExitCode::FAILURE;
    };
    let mb = |peak: u64| format!("{:.0}", peak.saturating_sub(nothing) as f64 / 1e6);
    println!(
        "| a training step | all values, MB | peak of forward, MB | peak, MB | peak / all values |\n|---|---:|---:|---:|---:|"
    );
    for model in MODELS {
        let edges = cli.edges.to_string();
        let Some([peak, forward, all]) = measure(&["--step", model, "--edges", &edges]) else {
            eprintln!("{model}: its process ended without a result");
            return ExitCode::FAILURE;
        };
        let ratio = peak.saturating_sub(nothing) as f64 / all as f64;
        println!(
            "| {model} | {:.0} | {} | {} | {ratio:.2} |",
            all as f64 / 1e6,
            mb(forward),
            mb(peak)
        );
    }
    println!();
    for (what, of_contra, rows) in [
        ("attention: tokens", false, &cli.tokens),
        ("ContraNorm: nodes", true, &cli.nodes),
    ] {
        println!("| {what} | one operation, MB | composed, MB |\n|---:|---:|---:|");
        for &rows in rows {
            let show = |by_parts: bool| {
                let rows = rows.to_string();
                let mut options = vec!["--once", &rows];
                options.extend(by_parts.then_some("--by-parts"));
                options.extend(of_contra.then_some("--contra"));
                measure(&options).map_or("failed".to_owned(), |[peak, ..]| mb(peak))
            };
            let composed = match rows <= cli.composed {
                true => show(true),
                false => "–".to_owned(),
            };
            println!("| {rows} | {} | {composed} |", show(false));
        }
        println!();
    }
    ExitCode::SUCCESS
}

/// Prints the peak of this process and other numbers, in bytes.
fn print_with_peak(others: [u64; 2]) -> ExitCode {
    match support::resident("VmHWM") {
        Some(peak) => {
            println!("{peak} {} {}", others[0], others[1]);
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

/// The numbers that a process of its own prints.
fn measure(options: &[&str]) -> Option<[u64; 3]> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    let output = command.args(options).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let numbers: Result<Vec<_>, _> = text.split_whitespace().map(str::parse).collect();
    numbers.ok()?.try_into().ok()
}

/// The networks of `peers`, and a language model of four blocks of width 256 on 16 windows of 256 symbols.
const MODELS: [&str; 7] = [
    "gcn-2x64",
    "gcn-10x64",
    "gat-2x8x8",
    "gat-10x8x8",
    "gatv2-2x64",
    "gatv2-10x64",
    "language-4x256",
];

/// Two steps with Adam. Returns the peak before the first backward pass, and the bytes that a step must
/// hold.
fn train(model: &str, edges: usize) -> Option<[u64; 2]> {
    if model == "language-4x256" {
        let net = LanguageModel::<f32>::new(LanguageConfig::gpt(65, 256, 4, 4, 256), 0);
        let symbols: Vec<usize> = (0..16 * 256).map(|k| k * 31 % 65).collect();
        return steps(net.expect("valid sizes"), 0, |net, pass| {
            let logits = net.forward(pass, &symbols, 16);
            logits
                .reshape(&[16 * 256, 65])
                .cross_entropy(&symbols, None)
        });
    }
    let nodes = edges / 10;
    let plain = GraphNetConfig {
        hidden: 64,
        dropout: 0.0,
        ..GraphNetConfig::gcn(64, 7)
    };
    let (conv, layers) = model.split_once('-').expect("the name of a model");
    let config = match conv {
        "gcn" => plain,
        "gat" => GraphNetConfig { hidden: 8, ..plain }
            .of(Conv::GAT)
            .heads(8, 1)
            .attending(|a| a.dropout = 0.0),
        _ => plain
            .of(Conv::gatv2(true))
            .heads(1, 1)
            .attending(|a| a.dropout = 0.0),
    };
    let layers = layers.split('x').next().and_then(|n| n.parse().ok());
    let config = GraphNetConfig {
        layers: layers.expect("a number of layers"),
        ..config
    };
    let adjacency = config.neighbourhood(&random_graph(nodes, edges / 2, 1));
    let x = init::normal::<f32>(&[nodes, 64], 1.0, &mut init::rng(0));
    let labels: Vec<usize> = (0..nodes).map(|i| i % 7).collect();
    let net = GraphNet::<f32>::new(config, 0).expect("a valid network");
    // Of the graph, an entry has two indices, and a value; by rows and by columns.
    let inputs = 24 * edges;
    steps(net, inputs, |net, pass| {
        net.forward(pass, pass.tape().constant(x.clone()), &adjacency)
            .cross_entropy(&labels, None)
    })
}

/// Two steps of a model: the peak before the first backward pass, and the bytes of all that a step computes
/// with, those of its `inputs` included.
fn steps<M: Module<f32>>(
    mut net: M,
    inputs: usize,
    loss: impl for<'t, 'm> Fn(&M, &Pass<'t, 'm, f32>) -> Var<'t, f32>,
) -> Option<[u64; 2]> {
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let (mut forward, mut all) = (None, 0);
    for epoch in 0..2 {
        let tape = Tape::new();
        let pass = Pass::train(&tape, &net, epoch);
        let loss = loss(&net, &pass);
        // Views of one buffer count once.
        let (mut values, mut forgotten) = (HashMap::new(), 0);
        for id in 0..tape.len() {
            let var = tape.handle(id);
            match var.is_kept() {
                true => _ = values.insert(var.value().as_ptr(), var.len()),
                false => forgotten += var.len(),
            }
        }
        let parameters: usize = net.tensors().iter().map(|p| p.len()).sum();
        // The parameters themselves are values of the tape.
        let numbers = values.values().sum::<usize>() + forgotten + 3 * parameters;
        all = (4 * numbers + inputs) as u64;
        forward = forward.or_else(|| support::resident("VmHWM"));
        let gradients = grad_and_free(loss, pass.vars());
        drop(pass);
        drop(tape);
        optimizer.step(net.tensors_mut(), &gradients, 1e-3);
    }
    Some([forward?, all])
}

fn compute(tokens: usize, by_parts: bool) {
    let shape = [tokens, HEADS, WIDTH];
    let tape = Tape::<f32>::new();
    let [q, k, v] = [0, 1, 2].map(|seed| tape.var(init::normal(&shape, 1.0, &mut init::rng(seed))));
    let y = match by_parts {
        true => composed(q, k, v),
        false => DenseAttention::new(WIDTH, Mask::none()).attend(Qkv::new(q, k, v)),
    };
    vjp(y, &[q, k, v], &Tensor::ones(&shape[..]));
}

/// H − softmax(HHᵀ) H / 2 of rows of a width of 64.
fn contra(nodes: usize, by_parts: bool) {
    let shape = [nodes, WIDTH];
    let norm = ContraConfig::stopped(0.5).build::<f32>(WIDTH);
    let tape = Tape::<f32>::new();
    let h = tape.var(init::normal(&shape, 0.3, &mut init::rng(0)));
    let y = match by_parts {
        true => h - 0.5 * h.matmul(h.t()).softmax(-1).matmul(h),
        false => norm.forward(&Pass::train(&tape, &norm, 0), h),
    };
    vjp(y, &[h], &Tensor::ones(&shape[..]));
}

fn composed<'t>(q: Var<'t, f32>, k: Var<'t, f32>, v: Var<'t, f32>) -> Var<'t, f32> {
    let [q, k, v] = [q, k, v].map(|z| z.transpose(0, 1));
    let scores = q.matmul(k.t()) / (WIDTH as f32).sqrt();
    scores.softmax(-1).matmul(v).transpose(0, 1)
}
