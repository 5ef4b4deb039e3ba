//! The arguments that the programs share.

use super::note;
use clap::builder::{PathBufValueParser, RangedU64ValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Parser, ValueEnum};
use emmy::data::{self, Dataset, Direction, Options, Source, csv};
use emmy::init::Initialization;
use emmy::{Error, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The most threads, and the most cells at a time.
pub const MOST_THREADS: usize = 256;

/// The largest first seed, and the most runs: together they are a `u64`.
pub const MOST_SEED: u64 = u64::MAX - MOST_RUNS;
pub const MOST_RUNS: u64 = 1_000_000;

/// The source of the data.
#[derive(Args, Debug, Clone)]
pub struct Data {
    /// Folder with the data sets [default: $EMMY_DATA, else the user's cache directory]
    #[arg(long = "data", value_name = "DIR", value_parser = folder())]
    pub folder: Option<PathBuf>,

    /// Data set [default: cora; cora-like if it is not found]
    #[arg(long = "dataset", value_name = "NAME", value_parser = sources())]
    pub name: Option<&'static Source>,

    /// A graph of your own: its edge list in CSV, a line per edge with the ids of source and target
    #[arg(long, value_name = "FILE", requires = "nodes", conflicts_with_all = ["folder", "name"])]
    pub edges: Option<PathBuf>,

    /// The table of its nodes in CSV: the id, features, a column "label", and perhaps a column "split" with
    /// train, val and test; without it, the split is drawn
    #[arg(long, value_name = "FILE", requires = "edges")]
    pub nodes: Option<PathBuf>,

    /// Column of the labels in --nodes
    #[arg(
        long,
        value_name = "COLUMN",
        requires = "nodes",
        default_value = "label"
    )]
    pub label: String,

    /// The files of --edges and --nodes have no line of names: ids are in the first column, labels in the
    /// last
    #[arg(long, requires = "nodes", conflicts_with = "label")]
    pub no_header: bool,

    /// The edges of --edges lead one way
    #[arg(long, requires = "nodes")]
    pub directed: bool,

    /// Number of the split, from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub split: usize,
}

/// The number of runs, and their settings.
#[derive(Args, Debug, Clone)]
pub struct Runs {
    /// Seed of the first run
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub seed: u64,

    /// Number of runs, each with the next seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=MOST_RUNS))]
    pub seeds: u64,

    /// Threads, at most 256; 0 for one per processor. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = threads())]
    pub threads: usize,

    /// Type of the numbers
    #[arg(long, default_value = "f32")]
    pub float: Float,

    /// Print one JSON object per run and a summary to standard output, everything else to standard
    /// error
    #[arg(long)]
    pub json: bool,

    /// Folder for figures; none to draw none
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub figures: Figures,

    /// Print the layers of the network, the shapes of their outputs and their parameters, before the first
    /// run
    #[arg(long)]
    pub summary: bool,
}

/// Where figures go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Figures {
    /// Nowhere: no figure is drawn.
    None,
    /// Into this folder.
    Folder(PathBuf),
}

impl From<OsString> for Figures {
    fn from(text: OsString) -> Self {
        match text == "none" {
            true => Self::None,
            false => Self::Folder(text.into()),
        }
    }
}

/// The type of the numbers.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Float {
    F32,
    F64,
}

impl Data {
    /// The chosen data set. If neither a name nor a folder (here or by `EMMY_DATA`) is given and Cora is not
    /// found, it is cora-like, and a line on standard error says so.
    pub fn load(&self) -> Result<Dataset> {
        if let (Some(edges), Some(nodes)) = (&self.edges, &self.nodes) {
            let mut set = csv::load(edges, nodes, &self.columns())?;
            // A name of a known set would say how its features are to be treated.
            if data::find(&set.name).is_ok() {
                set.name += " (CSV)";
            }
            let counts = set.split(self.split)?.counts();
            if counts.contains(&0) {
                let [train, val, test] = counts;
                let found = format!("{train}, {val} and {test}");
                let expected = "nodes that train, validate and test";
                return Err(Error::invalid("split", expected, found));
            }
            return Ok(set);
        }
        let options = Options {
            folder: self.folder.clone(),
            ..Options::default()
        };
        let found = match self.name {
            Some(source) => source.load(&options),
            None => data::load("cora", &options),
        };
        let variable = std::env::var_os("EMMY_DATA").is_some_and(|folder| !folder.is_empty());
        let given = variable || self.name.is_some() || self.folder.is_some();
        let set = match found {
            Err(Error::NotFound { what, .. }) if !given => {
                note(format_args!(
                    "{what} was not found (say where with --data DIR): training on the generated cora-like instead."
                ));
                data::load("cora-like", &options)?
            }
            found => found?,
        };
        set.split(self.split)?;
        Ok(set)
    }

    /// How `--edges` and `--nodes` are read.
    fn columns(&self) -> csv::Options {
        let options = match self.no_header {
            true => csv::Options::without_headers(),
            false => csv::Options {
                label: csv::Column::Named(self.label.clone()),
                ..csv::Options::default()
            },
        };
        let direction = match self.directed {
            true => Direction::Directed,
            false => Direction::Symmetrised,
        };
        csv::Options {
            direction,
            ..options
        }
    }
}

/// A name as it is typed.
pub fn typed(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no variant is skipped");
    value.get_name().to_owned()
}

/// The command line. `--help` and `--version` end the program; a wrong argument ends it with exit code 2.
///
/// # Errors
/// The exit code with which the program ends: 1 if the help cannot be written to standard output.
pub fn parse<C: Parser>() -> Result<C, ExitCode> {
    let command = C::command().mut_subcommands(with_common);
    let matches = command.try_get_matches();
    let parsed = matches.and_then(|mut matches| C::from_arg_matches_mut(&mut matches));
    parsed.map_err(|message| {
        let written = message.print().and_then(|()| std::io::stdout().flush());
        match written {
            Err(e) if !message.use_stderr() => super::exit(Err(Error::io("standard output", e))),
            _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2)),
        }
    })
}

/// A subcommand with what all of them have.
fn with_common(command: Command) -> Command {
    // A negative number is a wrong value, and not an option that does not exist.
    let command = command.mut_args(|arg| match arg.get_action().takes_values() {
        true if ["figures", "out"].map(Some).contains(&arg.get_long()) => {
            arg.visible_alias("plot").allow_negative_numbers(true)
        }
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    // Other programs of this kind have it; here there is one device.
    let device = Arg::new("device").long("device").value_name("NAME");
    command.arg(device.value_parser(["cpu"]).hide(true))
}

/// The parser of a folder, which must exist.
pub fn folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err("it is not a folder".to_owned()),
        Err(e) => Err(e.to_string()),
    })
}

/// The parser of a number of threads.
pub fn threads() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=MOST_THREADS as u64)
}

/// The parser of a loss.
pub fn at_least_zero(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    match value.is_finite() && value >= 0.0 {
        // −0 is 0.
        true => Ok(value.abs()),
        false => Err("not a finite number from 0 up".to_owned()),
    }
}

/// The parser of a probability.
pub fn probability(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    match (0.0..=1.0).contains(&value) {
        true => Ok(value.abs()),
        false => Err("not a probability, 0 to 1".to_owned()),
    }
}

/// Refuses a loss threshold of ln C or more: ln C is the loss of guessing among C classes, which needs no
/// training.
pub fn check_loss_threshold(threshold: Option<f64>, classes: usize) -> Result<()> {
    let guessing = (classes as f64).ln();
    match threshold.filter(|least| classes > 1 && *least >= guessing) {
        None => Ok(()),
        Some(least) => Err(Error::invalid(
            "--loss-threshold",
            format!("less than {guessing:.3}, the loss of guessing one of {classes} classes"),
            format!("{least:?}"),
        )),
    }
}

/// Every data set of the library.
pub fn sources() -> impl TypedValueParser<Value = &'static Source> {
    use clap::builder::PossibleValuesParser;
    let all = PossibleValuesParser::new(data::ALL.each_ref().map(|set| set.name));
    all.try_map(|name| data::find(&name))
}

/// Every initialisation with a name.
pub fn initializations() -> impl TypedValueParser<Value = Initialization> {
    use clap::builder::{PossibleValue, PossibleValuesParser};
    let named = Initialization::NAMED.map(|(name, _)| PossibleValue::new(name));
    let synonym = PossibleValue::new("ll-ortho-bal").hide(true);
    let all = PossibleValuesParser::new(named.into_iter().chain([synonym]));
    all.try_map(|name| name.parse::<Initialization>())
}
