//! `--networks DIR`: the joint bound of each chain in a folder, beside bounds in closed form, a lower end
//! that a search found, and published values; with `--exact` also the ends that branch and bound reaches.

use super::Cli;
use super::chain::natural;
use super::closed_forms::{eclipse_fast, lip_lt};
use super::files::{Chain, chain};
use crate::support::progress::Ends;
use crate::support::{note, say};
use emmy::error::Rules;
use emmy::lipschitz::joint::{Branches, Certificate, Network, Pieces};
use emmy::lipschitz::{Lp, Upper};
use emmy::ndarray::s;
use emmy::{Error, Result};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is known of a network.
#[derive(Serialize)]
struct Row {
    net: String,
    /// ∏ ‖W_k‖.
    product: f64,
    eclipse_fast: f64,
    lip_lt: f64,
    /// The joint bound, proven.
    upper: f64,
    /// The norm of a Jacobian of the network at an input, from below.
    lower: f64,
    /// Of the search for multipliers and its proof.
    seconds: f64,
    /// Whether the certificate was verified again, from its text.
    verified: bool,
    /// The value of LipSDP that is published, where there is one.
    published: Option<f64>,
    /// What branch and bound reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<Exact>,
}

/// The ends of the constant after branch and bound.
#[derive(Serialize)]
struct Exact {
    lower: f64,
    upper: f64,
    branches: usize,
    seconds: f64,
    /// Whether the ends met, to the accuracy that was asked for.
    met: bool,
}

/// The output that the published values of the comparison are of.
const PUBLISHED_OUTPUT: usize = 7;

/// Prints a row per file.
pub fn run(cli: &Cli, folder: &Path) -> Result<()> {
    let networks = networks(folder)?;
    if !cli.json {
        let columns = "| network | product | ECLipsE-Fast | LipLT | LipSDP, published | joint, proven | found | \
                       proven / found | seconds |";
        let exact = ["", " exact | branches | seconds |"][usize::from(cli.exact)];
        say(format!("{columns}{exact}"))?;
        let exact = ["", "---:|---:|---:|"][usize::from(cli.exact)];
        say(format!(
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|{exact}"
        ))?;
    }
    for network in networks {
        let row = measure(cli, network?)?;
        match cli.json {
            true => cli.tell_json(&row)?,
            false => say(row.line())?,
        }
    }
    Ok(())
}

/// A network of a folder.
pub struct Named {
    pub name: String,
    pub chain: Chain,
    /// The published value of LipSDP, which is that of one output, as the maps then are.
    pub published: Option<f64>,
}

/// The networks of the files of a folder, each read when it is asked for.
pub fn networks(folder: &Path) -> Result<impl Iterator<Item = Result<Named>>> {
    let listing = std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))?;
    let mut files: Vec<PathBuf> = listing
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "safetensors"));
    files.sort_by(|a, b| natural(&a.to_string_lossy(), &b.to_string_lossy()));
    if files.is_empty() {
        let rule = "a folder with files NAME.safetensors";
        return Err(Error::invalid(
            "--networks",
            rule,
            folder.display().to_string(),
        ));
    }
    let published = published(folder)?;
    Ok(files.into_iter().map(move |path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let published = published
            .get(&*name)
            .and_then(|values| values["LipSDP"].as_f64());
        let mut chain = chain(&path)?;
        if published.is_some()
            && let (Some(last), Some(bias)) = (chain.weights.last_mut(), chain.biases.last_mut())
        {
            let (own, rows) = (PUBLISHED_OUTPUT..=PUBLISHED_OUTPUT, last.nrows());
            let rule = "networks with output 8, of which the values are";
            let found = format!("{name}, which has {rows} outputs");
            Rules("published.json").hold(rows > PUBLISHED_OUTPUT, "networks", rule, found)?;
            *last = last.slice(s![own.clone(), ..]).to_owned();
            *bias = bias.slice(s![own]).to_owned();
        }
        Ok(Named {
            name: name.into_owned(),
            chain,
            published,
        })
    }))
}

impl Row {
    fn line(&self) -> String {
        let published = self.published.map_or("–".into(), number);
        // No input inside of a piece was found.
        let [lower, ratio] = match self.lower > 0.0 {
            true => [
                number(self.lower),
                match self.upper / self.lower {
                    small if small < 1e3 => format!("{small:.3}"),
                    large => number(large),
                },
            ],
            false => ["–".into(), "–".into()],
        };
        let exact = self.exact.as_ref().map_or(String::new(), |exact| {
            let ends = match exact.met {
                true => format!("{:.5}", exact.upper),
                false => format!("{:.5} to {:.5}", exact.lower, exact.upper),
            };
            format!(" {ends} | {} | {:.0} |", exact.branches, exact.seconds)
        });
        let Self {
            net,
            product,
            eclipse_fast,
            lip_lt,
            upper,
            seconds,
            ..
        } = self;
        let [product, eclipse_fast, lip_lt, upper] =
            [product, eclipse_fast, lip_lt, upper].map(|x| number(*x));
        format!(
            "| {net} | {product} | {eclipse_fast} | {lip_lt} | {published} | {upper} | {lower} | {ratio} \
             | {seconds:.2} |{exact}"
        )
    }
}

/// Six digits.
pub fn number(x: f64) -> String {
    match x.abs() {
        size if (1e-3..1e6).contains(&size) => {
            let digits = 5 - size.log10().floor() as i32;
            format!("{x:.*}", digits.max(0) as usize)
        }
        _ => format!("{x:.5e}"),
    }
}

fn measure(cli: &Cli, network: Named) -> Result<Row> {
    let Named {
        name: net,
        chain: Chain { weights, biases },
        published,
    } = network;
    let product: Upper = weights.iter().map(|w| Lp::Two.matrix(w.view())).product();
    let network = Network::chain(weights.clone(), [0.0, 1.0])?;
    let start = Instant::now();
    let certificate = network.certify()?;
    let seconds = start.elapsed().as_secs_f64();
    if let Some(folder) = &cli.certificates {
        std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
        let path = folder.join(format!("{net}.json"));
        std::fs::write(&path, certificate.to_json()).map_err(|e| Error::io(&path, e))?;
    }
    // As a reader does: from the text.
    let verified = Certificate::from_json(&certificate.to_json())
        .and_then(|read| network.verify(&read))
        .is_ok();
    if !verified {
        note(format_args!(
            "{net}: its certificate does not pass the check"
        ));
    }
    let hidden = biases.len() - 1;
    let pieces = Pieces::new(network, biases.into_iter().take(hidden).collect())?;
    let steepest = pieces.climb(cli.restarts.unwrap_or(4), cli.seed);
    let exact = cli.exact.then(|| exact(cli, &net, pieces));
    Ok(Row {
        net,
        product: product.get(),
        eclipse_fast: eclipse_fast(&weights),
        lip_lt: lip_lt(&weights),
        upper: certificate.lipschitz,
        lower: steepest.map_or(0.0, |found| found.lower.get()),
        seconds,
        verified,
        published,
        exact,
    })
}

/// How near the ends of branch and bound are to be, as a part of the constant.
const ACCURACY: f64 = 5e-6;

/// The seconds of branch and bound, unless others are asked for.
const SECONDS: f64 = 60.0;

fn exact(cli: &Cli, net: &str, pieces: Pieces) -> Exact {
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    let progress = Ends::new(net);
    let mut branches = Branches::new(pieces, cli.seed);
    let mut open = true;
    while open && seconds() < cli.seconds.unwrap_or(SECONDS) {
        open = branches.step(ACCURACY);
        progress.show(&branches.interval(), branches.count());
    }
    let ends = branches.interval();
    let [lower, upper] = [ends.lower.get(), ends.upper.get()];
    Exact {
        lower,
        upper,
        branches: branches.count(),
        seconds: seconds(),
        met: upper <= lower * (1.0 + 2.0 * ACCURACY),
    }
}

/// The published values by network; none if the folder has no `published.json`.
fn published(folder: &Path) -> Result<serde_json::Map<String, serde_json::Value>> {
    let path = folder.join("published.json");
    if !path.exists() {
        return Ok(serde_json::Map::new());
    }
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, e))?;
    serde_json::from_str(&text)
        .map_err(|e| Error::invalid(path.display().to_string(), "JSON, an object", e.to_string()))
}
