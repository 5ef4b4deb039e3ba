//! Peak memory of attention, forward and backward, at growing numbers of tokens: as one operation, and
//! composed.
//!
//! `cargo bench --bench memory` prints the table. Each number is the peak of a process of its own, less that
//! of one that computes nothing (Linux: `VmHWM`).

use clap::Parser;
use emmy::autodiff::vjp;
use emmy::ops::attention::{Compared, DenseAttention, Mask};
use emmy::{Tape, Tensor, Var, init};
use std::process::{Command, ExitCode};

/// Heads, and the width of each.
const HEADS: usize = 8;
const WIDTH: usize = 64;

/// Measure the peak memory of attention
#[derive(Parser)]
struct Cli {
    /// Numbers of tokens
    #[arg(long, value_delimiter = ',', default_values_t = [1024, 4096, 16384])]
    tokens: Vec<usize>,

    /// Most tokens for which the composition is measured: its memory grows with their square
    #[arg(long, default_value_t = 4096)]
    composed: usize,

    /// Compute once with so many tokens and print the peak in kB
    #[arg(long, hide = true)]
    once: Option<usize>,

    /// Composed of products and a softmax
    #[arg(long, hide = true)]
    by_parts: bool,

    /// What cargo passes to a bench
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(tokens) = cli.once {
        compute(tokens, cli.by_parts);
        return match peak() {
            Some(kilobytes) => {
                println!("{kilobytes}");
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    let Some(nothing) = measure(0, false) else {
        eprintln!("the peak memory of a process is not known on this system");
        return ExitCode::FAILURE;
    };
    println!("| tokens | one operation, MB | composed, MB |\n|---:|---:|---:|");
    for tokens in cli.tokens {
        let show = |by_parts| {
            let peak = measure(tokens, by_parts);
            peak.map_or("–".to_owned(), |kb| {
                format!("{:.0}", kb.saturating_sub(nothing) as f64 / 1e3)
            })
        };
        let composed = if tokens <= cli.composed {
            show(true)
        } else {
            "–".to_owned()
        };
        println!("| {tokens} | {} | {composed} |", show(false));
    }
    ExitCode::SUCCESS
}

/// The peak of a process that computes once, in kB.
fn measure(tokens: usize, by_parts: bool) -> Option<usize> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["--once", &tokens.to_string()]);
    command.args(by_parts.then_some("--by-parts"));
    let output = command.output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// The largest resident size of this process so far, in kB.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn compute(tokens: usize, by_parts: bool) {
    let shape = [tokens, HEADS, WIDTH];
    let tape = Tape::<f32>::new();
    let [q, k, v] = [0, 1, 2].map(|seed| tape.var(init::normal(&shape, 1.0, &mut init::rng(seed))));
    let y = match by_parts {
        true => composed(q, k, v),
        false => DenseAttention::new(WIDTH, Mask::none()).attend(Compared::new(q, k, v)),
    };
    vjp(y, &[q, k, v], &Tensor::ones(&shape[..]));
}

fn composed<'t>(q: Var<'t, f32>, k: Var<'t, f32>, v: Var<'t, f32>) -> Var<'t, f32> {
    let [q, k, v] = [q, k, v].map(|z| z.transpose(0, 1));
    let scores = q.matmul(k.t()) / (WIDTH as f32).sqrt();
    scores.softmax(-1).matmul(v).transpose(0, 1)
}
