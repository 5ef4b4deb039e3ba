//! The conservation laws of small models, found with nothing but their forward functions.
//!
//! ```sh
//! cargo run --release -p papers -- laws
//! cargo run --release -p papers -- laws --model preln-block --eps 0.01 --laws
//! cargo run --release -p papers -- laws --model gatv2 --train 200 --rule momentum
//! cargo run --release -p papers -- laws --drift
//! cargo run --release -p papers -- laws --field muon
//! ```

mod audit;
mod drawing;
mod drift;
pub mod models;
pub mod nets;
pub mod training;

use crate::support::args::{Figures, MOST_SEED, at_least_zero, threads};
use crate::support::{note, say};
use audit::{json, line};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use emmy::nn::discover;
use emmy::symmetry::{self, Ansatz, Search};
use emmy::{Error, Result};
use models::{MODELS, Model, Options};
use std::time::Instant;
use training::{How, Rule, train};

/// Find the conservation laws of small models, compute an upper bound on their number, and compare them with
/// the declared laws
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub struct Cli {
    /// Models, by name [default: all small ones]
    #[arg(long = "model", value_name = "NAME", value_parser = names(), num_args = 1..)]
    models: Vec<&'static Model>,

    /// All models, also the large one, gatv2-10-layers
    #[arg(long, conflicts_with = "models")]
    all: bool,

    /// ε of every LayerNorm
    #[arg(long, default_value_t = 0.0, value_parser = at_least_zero, allow_negative_numbers = true)]
    eps: f64,

    /// Print all laws as formulas, the declared ones too
    #[arg(long)]
    laws: bool,

    /// Form of the laws that are searched for [default: the most general one that is affordable]
    #[arg(long)]
    form: Option<Form>,

    /// What η does to c: gradient descent for a fixed time with learning rates below and beyond the edge of
    /// stability [default models: mlp, gcn, gat, encoder]
    #[arg(long, conflicts_with_all = ["train", "laws", "form", "all", "field"])]
    drift: bool,

    /// Search for what is conserved along another vector field than the gradient's
    #[arg(long, conflicts_with_all = ["train", "all"])]
    field: Option<Field>,

    /// Train each model for N steps and draw δ, c and the exact drift
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    train: Option<u64>,

    /// Rule of the steps
    #[arg(long, default_value = "descent", requires = "train")]
    rule: Rule,

    /// Learning rate [default: 0.05; 0.01 for adam and adamw; 0.02 for muon]
    #[arg(long, value_name = "RATE", value_parser = at_least_zero, allow_negative_numbers = true, requires = "train")]
    lr: Option<f64>,

    /// Weight decay
    #[arg(long, value_name = "LAMBDA", default_value_t = 0.0, value_parser = at_least_zero, allow_negative_numbers = true, requires = "train")]
    weight_decay: f64,

    /// Seed of all random numbers
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    seed: u64,

    /// Threads, at most 256; 0 for one per processor. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    threads: usize,

    /// Print one JSON object per model to standard output, everything else to standard error
    #[arg(long)]
    json: bool,

    /// Folder for figures; none to draw none
    #[arg(long, value_name = "DIR", default_value = "figures")]
    figures: Figures,
}

/// The model that takes two thirds of the time of all.
const LARGE: &str = "gatv2-10-layers";

/// The form of the laws that are searched for.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Any quadratic or linear law
    Full,
    /// Laws between rows and between columns of single parameters
    Matrices,
    /// Laws about single rows and columns
    Neurons,
}

impl From<Form> for Ansatz {
    fn from(form: Form) -> Self {
        match form {
            Form::Full => Self::Full,
            Form::Matrices => Self::Matrices,
            Form::Neurons => Self::Neurons,
        }
    }
}

// By hand, since the tests of `emmy` train with these rules too, and have no command line.
impl ValueEnum for Rule {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Descent,
            Self::Momentum,
            Self::Adam,
            Self::AdamW,
            Self::Muon,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Descent => ("descent", "θ ← θ − η (G + λ θ)"),
            Self::Momentum => ("momentum", "v ← 0.9 v + G + λ θ, θ ← θ − η v"),
            Self::Adam => ("adam", "Adam, which has no formula for the drift"),
            Self::AdamW => (
                "adamw",
                "AdamW with gradients clipped to a norm of 0.1; it has no formula either",
            ),
            Self::Muon => ("muon", "Muon, which has no formula either"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

const HELP: &str = "A law is an independent quantity that gradient flow conserves for every loss of the outputs, whatever the
data.

  declared   laws that the trace of a forward pass states
  found      laws found from gradients at random points: a lower bound
  upper      D minus the rank of the gradients and their Lie brackets: an upper bound
  max |δ|    the largest relative δ of a law found, at points that the search did not use

Exit code: 0; 1 if a declared law is false or a figure cannot be written; 2 for a wrong argument.";

/// The parser of the name of a model.
fn names() -> impl TypedValueParser<Value = &'static Model> {
    let all = MODELS
        .iter()
        .map(|m| PossibleValue::new(m.name).help(m.about));
    PossibleValuesParser::new(all)
        .map(|name| (MODELS.iter().find(|m| m.name == name)).expect("a possible value"))
}

/// A vector field of the parameters, made of the gradient.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// The sign of each entry: Adam without memory
    Sign,
    /// The nearest orthogonal matrix to each matrix, and the sign of each other entry: Muon without memory
    Muon,
}

impl From<Field> for symmetry::Field {
    fn from(field: Field) -> Self {
        match field {
            Field::Sign => Self::Sign,
            Field::Muon => Self::Polar,
        }
    }
}

/// `--drift`.
fn drift(cli: &Cli, options: Options) -> Result<()> {
    const DEFAULT: [&str; 4] = ["mlp", "gcn", "gat", "encoder"];
    let chosen: Vec<&Model> = match &cli.models[..] {
        [] => (MODELS.iter())
            .filter(|m| DEFAULT.contains(&m.name))
            .collect(),
        named => named.to_vec(),
    };
    let mut studies = Vec::new();
    for model in chosen {
        let study = drift::Study::of(model, options)?;
        match cli.json {
            true => say(study.json())?,
            false => say(study.lines())?,
        }
        studies.push(study);
    }
    if let Some(path) = drift::draw(&studies, &cli.figures)? {
        note(format!("figure: {}", path.display()));
    }
    Ok(())
}

/// Runs what the arguments ask for.
pub fn run(cli: &Cli) -> Result<()> {
    if cli.threads > 0 {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(cli.threads);
        pool.build_global()
            .map_err(|e| Error::invalid("--threads", "threads that start", e.to_string()))?;
    }
    let options = Options {
        eps: cli.eps,
        seed: cli.seed,
    };
    if cli.drift {
        return drift(cli, options);
    }
    let search = Search {
        ansatz: cli.form.map(Ansatz::from),
        field: cli.field.map_or(symmetry::Field::Gradient, Into::into),
        seed: cli.seed,
        ..Search::default()
    };
    let small = |model: &&Model| cli.all || model.name != LARGE;
    let chosen: Vec<&Model> = match &cli.models[..] {
        [] => MODELS.iter().filter(small).collect(),
        named => named.to_vec(),
    };
    if cli.models.is_empty() {
        note(match cli.all {
            true => "the laws of all models: about a minute on two processors",
            false => {
                "the laws of all small models: about 20 s on two processors; --all has a large one too"
            }
        });
    }
    // The table is for readers: with JSON it goes to standard error.
    let tell = |text: &str| match cli.json {
        true => {
            note(text);
            Ok(())
        }
        false => say(text),
    };
    tell(audit::HEAD)?;
    let mut broken = Vec::new();
    for model in chosen {
        let start = Instant::now();
        let mut net = (model.make)(options);
        let found = discover(&*net, &search, |pass, seed| net.forward(pass, seed));
        let seconds = start.elapsed().as_secs_f64();
        tell(&line(model.name, &found, seconds))?;
        for law in found
            .laws
            .iter()
            .filter(|law| cli.laws || law.declared.is_none())
        {
            tell(&audit::law(law))?;
        }
        // Along another field a declared law need not be a conserved quantity.
        let declared = (found.broken.iter()).filter(|_| cli.field.is_none());
        broken.extend(declared.map(|law| format!("{}: {law}", model.name)));
        let mut object = json(model, &found, seconds);
        if let Some(steps) = cli.train {
            let how = How {
                steps,
                rule: cli.rule,
                lr: cli.lr.unwrap_or(cli.rule.lr()),
                decay: cli.weight_decay,
                seed: cli.seed,
            };
            let laws: Vec<_> = found.laws.iter().map(|law| law.generator.clone()).collect();
            let run = train(&mut *net, &how, &laws);
            tell(&run.line())?;
            run.add_to(&mut object);
            if let Some(path) = run.draw(&cli.figures, model.name, &how)? {
                tell(&format!("    figure: {}", path.display()))?;
            }
        }
        if cli.json {
            say(object)?;
        }
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Error::invalid(
            "declared laws",
            "laws that hold",
            broken.join("; "),
        )),
    }
}
