//! Lipschitz constants as intervals: a proven upper bound, and a lower bound that was found.
//!
//! - `cargo run --release -p papers -- lipschitz` prints the interval of a small network with ReLU, layer
//!   by layer; `--model` chooses another, `--weights FILE` reads a chain of linear maps, or a language
//!   model, from a file of weights.
//! - `--networks DIR` bounds each network of linear maps and ReLUs in a folder as a whole, and writes
//!   certificates that `cargo run --release --example verify` checks; with `--p 1` or `--p inf` in this norm.
//! - `--blocks` prints the bounds of attention and of transformer blocks on rows of limited size, beside what
//!   gradient ascent finds.
//! - `--certify mnist` trains a network on handwritten digits and bounds how far its outputs can move.
//! - `--figure 2`, `3` and `5` are those of Kim, Papamakarios and Mnih, "The Lipschitz Constant of
//!   Self-Attention" (ICML 2021): the bound of L2 attention against the value that gradient ascent finds,
//!   inversion, and the spread of outputs.

mod blocks;
mod certify;
mod chain;
mod closed_forms;
mod files;
mod growth;
mod inversion;
mod models;
mod networks;
mod perceptron;
mod robust;
mod signs;
mod spread;

use crate::support::{args, say};
use clap::{Args, ValueEnum};
use emmy::kernels::par;
use emmy::lipschitz::Lp;
use emmy::{Error, Result};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(about = "Bound how far outputs can move if inputs move", long_about = None)]
pub struct Cli {
    /// Print the constants of a model, layer by layer
    #[arg(long, value_enum, default_value = "mlp", conflicts_with_all = ["certify", "figure"])]
    model: models::Model,

    /// Read the weights from this safetensors file: of a chain of linear maps with an activation after each
    /// but the last, in the natural order of their names; or of a language model that emmy wrote
    #[arg(long, value_name = "FILE", conflicts_with_all = ["model", "certify", "figure"])]
    weights: Option<PathBuf>,

    /// The activation of the chain in the file [default: relu]
    #[arg(long, value_enum, requires = "weights")]
    activation: Option<chain::Between>,

    /// Train a classifier of digits, and certify it
    #[arg(long, value_enum, conflicts_with_all = ["figure", "p", "radius"])]
    certify: Option<Set>,

    /// Draw a figure of the paper: 2 (growth with the tokens), 3 (inversion) or 5 (spread of outputs)
    #[arg(long, value_parser = ["2", "3", "5"])]
    figure: Option<String>,

    /// Print the joint bound of each chain of linear maps with ReLU in the safetensors files of this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "weights", "certify", "figure", "radius"])]
    networks: Option<PathBuf>,

    /// Print the bounds of attention and of transformer blocks on inputs of limited size, beside what a
    /// search finds
    #[arg(long, conflicts_with_all = ["model", "weights", "certify", "figure", "networks", "p"])]
    blocks: bool,

    /// Write the certificates of these bounds to this folder
    #[arg(long, value_name = "DIR", requires = "networks", conflicts_with = "p")]
    certificates: Option<PathBuf>,

    /// Approach the constants of these networks from both sides, by branch and bound; for small ones
    #[arg(long, requires = "networks", conflicts_with = "p")]
    exact: bool,

    /// The most seconds of this for a network [default: 60]
    #[arg(long, value_name = "S", requires = "exact", value_parser = seconds)]
    seconds: Option<f64>,

    /// The norm: 1, 2 or inf (for a figure: only this one)
    #[arg(long, value_enum)]
    p: Option<Norm>,

    /// Bound the constant only on inputs whose rows have at most this 2-norm
    #[arg(long, value_name = "R")]
    radius: Option<f64>,

    /// Numbers of tokens of figure 2 [default: 2,3,5,10,20,30,50,100,200,500,1000]
    #[arg(long, value_delimiter = ',')]
    tokens: Vec<usize>,

    /// Starts of each search [default: 100 with --certify, 4 with --networks, 8 with --p too, 4 with
    /// --blocks; else 2 to 10]
    #[arg(long)]
    restarts: Option<usize>,

    /// Hidden neurons of the classifier [default: 256]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096))]
    hidden: Option<u32>,

    /// Epochs of the classifier [default: 15]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    epochs: Option<u32>,

    /// The folder with the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Seed of all random numbers
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,

    /// Threads, at most 256; 0 for one per processor
    #[arg(long, value_name = "N", visible_alias = "jobs", default_value_t = 0, value_parser = args::threads())]
    threads: usize,

    /// Write figures (SVG and PNG) to this folder; none to draw none
    #[arg(long, value_name = "DIR", default_value = "target/figures")]
    figures: args::Figures,

    /// Print JSON objects
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|e| e.to_string())?;
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok(seconds),
        false => Err("a number, at least 0".into()),
    }
}

/// The largest number of starts.
const MOST_STARTS: usize = 100_000;

/// A set of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Set {
    /// The 10 000 test digits of MNIST: 9000 to train on, 1000 to test
    Mnist,
}

/// A norm, as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Norm {
    /// Sums
    #[value(name = "1")]
    One,
    /// Euclidean
    #[value(name = "2")]
    Two,
    /// Maxima
    Inf,
}

impl From<Norm> for Lp {
    fn from(norm: Norm) -> Self {
        match norm {
            Norm::One => Self::One,
            Norm::Two => Self::Two,
            Norm::Inf => Self::Inf,
        }
    }
}

/// Runs what the arguments ask for.
///
/// # Errors
/// If an argument does not fit, a file cannot be read or written, or a bound does not exist.
pub fn run(cli: &Cli) -> Result<()> {
    par::with_threads(cli.threads, || cli.run())
}

impl Cli {
    fn run(&self) -> Result<()> {
        if let Some(radius) = self.radius.filter(|r| !(r.is_finite() && *r > 0.0)) {
            return Err(Error::invalid(
                "--radius",
                "a number above 0",
                radius.to_string(),
            ));
        }
        self.check_effects()?;
        if self.figure.is_some() && self.p == Some(Norm::One) {
            return Err(Error::invalid("--p", "2 or inf for --figure 2", "1"));
        }
        if let Some(0) = self.restarts {
            return Err(Error::invalid("--restarts", "at least 1", "0"));
        }
        if let Some(starts) = self.restarts.filter(|&n| n > MOST_STARTS) {
            let rule = format!("at most {MOST_STARTS}");
            return Err(Error::invalid("--restarts", rule, starts.to_string()));
        }
        if let Some(n) = self.tokens.iter().find(|n| !(1..=4096).contains(*n)) {
            return Err(Error::invalid(
                "--tokens",
                "numbers from 1 to 4096",
                n.to_string(),
            ));
        }
        if let Some(folder) = &self.networks {
            return match self.norms(&[Lp::Two])[0] {
                Lp::Two => networks::run(self, folder),
                p => signs::run(self, folder, p),
            };
        }
        if self.blocks {
            return blocks::run(self);
        }
        match (self.certify, self.figure.as_deref()) {
            (Some(Set::Mnist), _) => certify::run(self),
            (_, Some("2")) => growth::run(self),
            (_, Some("3")) => inversion::run(self),
            (_, Some(_)) => spread::run(self),
            _ => models::run(self),
        }
    }

    /// Refuses options that would change nothing.
    fn check_effects(&self) -> Result<()> {
        let certify = self.certify.is_some();
        let figure = self.figure.as_deref();
        let options = [
            ("--hidden", self.hidden.is_some(), certify, "--certify"),
            ("--epochs", self.epochs.is_some(), certify, "--certify"),
            (
                "--tokens",
                !self.tokens.is_empty(),
                figure == Some("2"),
                "--figure 2",
            ),
            (
                "--radius",
                self.radius.is_some(),
                figure.is_none(),
                "--model or --weights",
            ),
            (
                "--p",
                self.p.is_some(),
                matches!(figure, None | Some("2")),
                "--model, --weights, --networks or --figure 2",
            ),
            (
                "--restarts",
                self.restarts.is_some(),
                certify || figure == Some("2") || self.networks.is_some() || self.blocks,
                "--certify, --networks, --blocks or --figure 2",
            ),
            (
                "--data",
                self.data.is_some(),
                certify || figure == Some("5"),
                "--certify or --figure 5",
            ),
        ];
        match options
            .into_iter()
            .find(|&(_, given, used, _)| given && !used)
        {
            Some((name, .., with)) => {
                let rule = format!("to be given with {with} only, because it changes nothing else");
                Err(Error::invalid(name, rule, "another task"))
            }
            None => Ok(()),
        }
    }

    /// The norms to compute for.
    fn norms(&self, otherwise: &[Lp]) -> Vec<Lp> {
        self.p.map_or(otherwise.to_vec(), |p| vec![p.into()])
    }

    /// One JSON object on a line.
    fn tell_json(&self, line: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(line)
            .map_err(|e| Error::invalid("JSON", "numbers and texts", e.to_string()))?;
        say(text)
    }
}
