//! `--networks DIR`: the joint bound of each chain in a folder, beside the product of norms, a lower end
//! that a search found, and published values.

use super::Cli;
use super::chain::natural;
use crate::support::say;
use emmy::lipschitz::joint::Network;
use emmy::lipschitz::{Lp, Upper};
use emmy::ndarray::{Array1, Array2, Axis, s};
use emmy::rand::RngExt;
use emmy::store::weights::Weights;
use emmy::{Error, Result, init};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is known of a network.
#[derive(Serialize)]
struct Row {
    net: String,
    /// ∏ ‖W_k‖.
    product: f64,
    /// The joint bound, proven.
    upper: f64,
    /// The norm of a Jacobian of the network at an input.
    lower: f64,
    /// Of the search for multipliers and its proof.
    seconds: f64,
    /// Whether the certificate was verified again, from its file.
    verified: bool,
    /// The value of LipSDP that is published, where there is one.
    published: Option<f64>,
}

/// The output that the published values of the comparison are of.
const PUBLISHED_OUTPUT: usize = 7;

/// Prints a row per file.
pub fn run(cli: &Cli, folder: &Path) -> Result<()> {
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
    if !cli.json {
        say(
            "| network | product | joint, proven | found | proven / found | LipSDP, published | seconds |",
        )?;
        say("|---|---:|---:|---:|---:|---:|---:|")?;
    }
    for path in files {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let published = published
            .get(&name)
            .and_then(|values| values["LipSDP"].as_f64());
        let mut weights = chain(&path)?;
        if published.is_some()
            && let Some(last) = weights.last_mut()
        {
            *last = last
                .slice(s![PUBLISHED_OUTPUT..=PUBLISHED_OUTPUT, ..])
                .to_owned();
        }
        let row = measure(cli, name, weights, published)?;
        match cli.json {
            true => cli.tell_json(&row)?,
            false => {
                let published = row.published.map_or("–".into(), |l| format!("{l:.5}"));
                let Row {
                    net,
                    product,
                    upper,
                    lower,
                    seconds,
                    ..
                } = &row;
                let ratio = upper / lower;
                say(format!(
                    "| {net} | {product:.4} | {upper:.6} | {lower:.4} | {ratio:.3} | {published} | {seconds:.2} |"
                ))?;
            }
        }
    }
    Ok(())
}

fn measure(
    cli: &Cli,
    net: String,
    weights: Vec<Array2<f64>>,
    published: Option<f64>,
) -> Result<Row> {
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
    let verified = network.verify(&certificate).is_ok();
    let lower = steepest(&weights, cli.restarts.unwrap_or(4), cli.seed);
    let (product, upper) = (product.get(), certificate.lipschitz);
    Ok(Row {
        net,
        product,
        upper,
        lower,
        seconds,
        verified,
        published,
    })
}

/// Steps of the search from one start.
const STEPS: usize = 300;

/// The largest norm of a Jacobian that a climb by random steps finds: a step that makes the norm larger is
/// kept, and the steps become smaller after those that do not. Biases are left out, so the networks are
/// those of the bound.
fn steepest(weights: &[Array2<f64>], starts: usize, seed: u64) -> f64 {
    let inputs = weights[0].ncols();
    let mut best = 0.0_f64;
    for start in 0..starts {
        let rng = &mut init::rng(seed.wrapping_mul(1000).wrapping_add(start as u64));
        let mut draw = || Array1::from_shape_fn(inputs, |_| rng.random_range(-1.0..1.0));
        let mut x = draw();
        let (mut here, mut size) = (slope_at(weights, &x), 0.5);
        for _ in 0..STEPS {
            let next = &x + &(draw() * size);
            let there = slope_at(weights, &next);
            match there > here {
                true => (x, here) = (next, there),
                false => size = if size > 1e-3 { size * 0.98 } else { 0.5 },
            }
        }
        best = best.max(here);
    }
    best
}

/// ‖J(x)‖₂ of the chain of ReLUs without biases, from below.
fn slope_at(weights: &[Array2<f64>], x: &Array1<f64>) -> f64 {
    let (last, hidden) = weights.split_last().expect("a chain");
    let (mut v, mut jacobian) = (x.clone(), None::<Array2<f64>>);
    for w in hidden {
        v = w.dot(&v);
        let mut next = jacobian.map_or_else(|| w.clone(), |j| w.dot(&j));
        for (mut row, y) in next.outer_iter_mut().zip(&mut v) {
            if *y <= 0.0 {
                *y = 0.0;
                row.fill(0.0);
            }
        }
        jacobian = Some(next);
    }
    let jacobian = last.dot(&jacobian.expect("a hidden layer"));
    let start = Array1::from_elem(jacobian.ncols(), 1.0);
    emmy::linalg::power_iteration(jacobian.view(), start.view(), 20).get()
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

/// The maps of a file in the natural order of their names: matrices `[out, in]`, and convolutions `[height,
/// width, in, out]` or `[height, width, out]` with stride 1 on square images of the size that the map
/// behind them reads, filled up with zeros at the border.
fn chain(path: &Path) -> Result<Vec<Array2<f64>>> {
    let file = Weights::open(path)?;
    let mut keys: Vec<&str> = file.keys().filter(|key| key.ends_with("weight")).collect();
    // Convolutions come first, whatever their names.
    let is_matrix = |key: &str| file.shape(key).is_some_and(|shape| shape.len() == 2);
    keys.sort_by(|a, b| is_matrix(a).cmp(&is_matrix(b)).then_with(|| natural(a, b)));
    let tensors = keys
        .iter()
        .map(|key| file.get::<f64>(key))
        .collect::<Result<Vec<_>>>()?;
    let last_channels = tensors
        .iter()
        .rfind(|t| t.ndim() > 2)
        .and_then(|t| t.shape().last().copied());
    let behind = tensors.iter().find(|t| t.ndim() == 2).map(|t| t.shape()[1]);
    let side = last_channels
        .zip(behind)
        .map(|(channels, n)| (n / channels).isqrt());
    let refuse = |found: String| {
        let rule = "matrices [out, in], or convolutions of square images before them";
        Err(Error::invalid(
            format!("weights {}", path.display()),
            rule,
            found,
        ))
    };
    let mut maps = Vec::new();
    for (key, tensor) in keys.iter().zip(tensors) {
        let shape = tensor.shape().to_vec();
        maps.push(match (shape.len(), side) {
            (2, _) => tensor.into_owned().into_dimensionality().expect("two axes"),
            (3, Some(side)) => convolution(&tensor.into_owned().insert_axis(Axis(2)), side),
            (4, Some(side)) => convolution(&tensor.into_owned(), side),
            _ => return refuse(format!("{key} of shape {shape:?}")),
        });
    }
    Ok(maps)
}

/// A convolution as a matrix. Pixels are counted column by column, the channels of a pixel follow one
/// another: the order in which the published networks flatten their images.
fn convolution(kernel: &emmy::ndarray::ArrayD<f64>, side: usize) -> Array2<f64> {
    let &[height, width, into, out] = kernel.shape() else {
        unreachable!("four axes");
    };
    let at = |y: usize, x: usize, c: usize, channels: usize| (x * side + y) * channels + c;
    let mut map = Array2::zeros((side * side * out, side * side * into));
    for (index, value) in kernel.indexed_iter() {
        let [dy, dx, i, o] = [index[0], index[1], index[2], index[3]];
        for y in 0..side {
            for x in 0..side {
                let from = |at: usize, d: usize, size: usize| {
                    (at + d).checked_sub(size / 2).filter(|p| *p < side)
                };
                if let (Some(r), Some(c)) = (from(y, dy, height), from(x, dx, width)) {
                    map[[at(y, x, o, out), at(r, c, i, into)]] += value;
                }
            }
        }
    }
    map
}
