//! `--networks DIR --p 1` and `--p inf`: the joint bound of each chain in these norms, beside the product of
//! norms and the norm of a Jacobian that a search finds.

use super::Cli;
use super::files::Chain;
use super::networks::{Named, networks, number};
use crate::support::say;
use emmy::lipschitz::joint::Network;
use emmy::lipschitz::{Lp, Upper};
use emmy::ndarray::{Array1, Array2, Axis};
use emmy::rand::RngExt;
use emmy::{Result, Tensor, init};
use serde::Serialize;
use std::path::Path;
use std::time::Instant;

/// Steps of the search from each start.
const STEPS: usize = 400;

#[derive(Serialize)]
struct Row {
    net: String,
    p: String,
    /// ∏ ‖W_k‖.
    product: f64,
    /// The joint bound, proven.
    upper: f64,
    /// The norm of a Jacobian at an input, to rounding.
    lower: f64,
    /// Of the proof.
    seconds: f64,
}

/// Prints a row per file.
pub fn run(cli: &Cli, folder: &Path, p: Lp) -> Result<()> {
    let networks = networks(folder)?;
    if !cli.json {
        say(format_args!(
            "| network, p = {p} | product | joint, proven | found | proven / found | seconds |\n\
             |---|---:|---:|---:|---:|---:|"
        ))?;
    }
    for network in networks {
        let Named {
            name: net, chain, ..
        } = network?;
        let product: Upper = chain.weights.iter().map(|w| p.matrix(w.view())).product();
        let network = Network::chain(chain.weights.clone(), [0.0, 1.0])?;
        let start = Instant::now();
        let upper = network.lipschitz_in(p)?.get();
        let seconds = start.elapsed().as_secs_f64();
        let lower = steepest(&chain, p, cli.restarts.unwrap_or(8), cli.seed);
        let product = product.get();
        if cli.json {
            let p = p.to_string();
            cli.tell_json(&Row {
                net,
                p,
                product,
                upper,
                lower,
                seconds,
            })?;
            continue;
        }
        let ratio = upper / lower;
        let [product, upper, lower] = [product, upper, lower].map(number);
        say(format_args!(
            "| {net} | {product} | {upper} | {lower} | {ratio:.3} | {seconds:.2} |"
        ))?;
    }
    Ok(())
}

/// The largest norm of a Jacobian that random steps from random inputs find.
fn steepest(chain: &Chain, p: Lp, starts: usize, seed: u64) -> f64 {
    let norm = |x: &Array1<f64>| p.matrix(jacobian(chain, x).view()).get();
    let from = |k: usize| {
        let rng = &mut init::rng(seed.wrapping_mul(1000) + k as u64);
        let mut size = 4f64.powi(rng.random_range(-2..2));
        let mut at = normal(chain.weights[0].ncols(), size, rng);
        let mut best = norm(&at);
        for _ in 0..STEPS {
            let next = &at + &normal(at.len(), size, rng);
            match norm(&next) {
                found if found > best => (best, at) = (found, next),
                // A smaller step after one that gains nothing, and a large one again in the end.
                _ => size = if size < 1e-3 { 1.0 } else { 0.97 * size },
            }
        }
        best
    };
    (0..starts).map(from).fold(0.0, f64::max)
}

fn normal(n: usize, size: f64, rng: &mut init::Rng) -> Array1<f64> {
    let x: Tensor<f64> = init::normal(&[n], size, rng);
    x.iter().copied().collect()
}

/// W_l D … D W₁ at an input.
fn jacobian(chain: &Chain, x: &Array1<f64>) -> Array2<f64> {
    let (mut x, mut j) = (x.clone(), None);
    let last = chain.weights.len() - 1;
    for (k, (w, b)) in chain.weights.iter().zip(&chain.biases).enumerate() {
        let y = w.dot(&x) + b;
        let mut next = j.map_or_else(|| w.clone(), |j: Array2<f64>| w.dot(&j));
        if k < last {
            let on = y.mapv(|y| f64::from(u8::from(y > 0.0)));
            next *= &on.insert_axis(Axis(1));
        }
        x = y.mapv(|y| y.max(0.0));
        j = Some(next);
    }
    j.expect("a map")
}
