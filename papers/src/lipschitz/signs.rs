//! `--networks DIR --p 1` and `--p inf`: the joint bound of each chain in these norms, beside the product of
//! norms and the norm of a Jacobian that a search finds.

use super::Cli;
use super::files::Chain;
use super::networks::{Named, networks, number};
use crate::support::say;
use emmy::lipschitz::joint::Network;
use emmy::lipschitz::{Lp, Upper, jacobian_norm};
use emmy::nn::{Activation, Linear, Mlp, Pass};
use emmy::rand::RngExt;
use emmy::{Result, Tape, Tensor, init};
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
    let maps = chain.weights.iter().zip(&chain.biases);
    let maps = maps.map(|(w, b)| Linear {
        weight: w.clone().into_dyn().into_shared(),
        bias: Some(b.clone().into_dyn().into_shared()),
    });
    let net = Mlp {
        layers: maps.collect(),
        activation: Activation::Relu,
    };
    let norm = |x: &Tensor<f64>| {
        let tape = Tape::new();
        let x = tape.var(x.clone());
        let y = net.forward(&Pass::eval(&tape, &net), x);
        jacobian_norm(y, x, p).0.lower.get()
    };
    let from = |k: usize| {
        let rng = &mut init::rng(seed.wrapping_mul(1000) + k as u64);
        let mut size = 4f64.powi(rng.random_range(-2..2));
        let shape = [1, chain.weights[0].ncols()];
        let mut at: Tensor<f64> = init::normal(&shape, size, rng);
        let mut best = norm(&at);
        for _ in 0..STEPS {
            let next = (&at + &init::normal::<f64>(&shape, size, rng)).into_shared();
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
