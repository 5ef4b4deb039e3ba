//! Peak memory of attention and of ContraNorm, forward and backward, at growing numbers of tokens: as one
//! operation, and composed.
//!
//! `cargo bench --bench memory` prints the table. Each number is the peak of a process of its own, less that
//! of one that computes nothing (Linux: `VmHWM`).

#[path = "support/mod.rs"]
mod support;

use emmy::autodiff::vjp;
use emmy::nn::{ContraConfig, Pass};
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::{Tape, Tensor, Var, init};
use std::process::{Command, ExitCode};
use support::options::{self, list, value};

/// Heads, and the width of each.
const HEADS: usize = 8;
const WIDTH: usize = 64;

const HELP: &str = "Measure the peak memory of attention

  --tokens <N,..>  Numbers of tokens [default: 1024,4096,16384]
  --composed <N>   Most tokens for which the composition is measured: its memory grows with their square [default: 4096]
  --nodes <N,..>   Numbers of nodes for ContraNorm [default: 2708,8000,20000]";

struct Cli {
    tokens: Vec<usize>,
    composed: usize,
    nodes: Vec<usize>,
    /// Compute once with so many tokens and print the peak in kB
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
            once: None,
            contra: false,
            by_parts: false,
        };
        options::read(HELP, |name, parser| {
            match name {
                "tokens" => cli.tokens = list(parser)?,
                "composed" => cli.composed = value(parser)?,
                "nodes" => cli.nodes = list(parser)?,
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
    if let Some(tokens) = cli.once {
        match cli.contra {
            true => contra(tokens, cli.by_parts),
            false => compute(tokens, cli.by_parts),
        }
        return match support::resident("VmHWM") {
            Some(kilobytes) => {
                println!("{kilobytes}");
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    let Some(nothing) = measure(0, false, false) else {
        eprintln!("the peak memory of a process is not known on this system");
        return ExitCode::FAILURE;
    };
    for (what, of_contra, rows) in [
        ("attention: tokens", false, &cli.tokens),
        ("ContraNorm: nodes", true, &cli.nodes),
    ] {
        println!("| {what} | one operation, MB | composed, MB |\n|---:|---:|---:|");
        for &rows in rows {
            let show = |by_parts| {
                let peak = measure(rows, by_parts, of_contra);
                peak.map_or("–".to_owned(), |kb| {
                    format!("{:.0}", kb.saturating_sub(nothing) as f64 / 1e3)
                })
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

/// The peak of a process that computes once, in kB.
fn measure(tokens: usize, by_parts: bool, contra: bool) -> Option<usize> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["--once", &tokens.to_string()]);
    command.args(by_parts.then_some("--by-parts"));
    command.args(contra.then_some("--contra"));
    let output = command.output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
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
