//! A network of four layers that is kept at the Lipschitz constant 1 while it is trained: its output is
//! divided by the proven bound of the whole network, which has a derivative. What does it cost in accuracy,
//! and what does it bring? Points are certified if no move of the length ε changes their class.
//!
//! `cargo run --example robust`

use emmy::lipschitz::joint::Network;
use emmy::lipschitz::{Domain, Lp, bound};
use emmy::nn::{Linear, Pass};
use emmy::optim::{Algorithm, Optimizer};
use emmy::train::{self, metrics};
use emmy::{Error, Result, Tape, Tensor, Var, init, tensor::tensor};

const HELP: &str =
    "robust: trains a network free, and kept at the Lipschitz constant 1; no arguments";

/// The length of the moves.
const EPSILON: f64 = 0.2;

/// Differences of 1 between the outputs count as 20 in the loss: a network with the constant 1 has small
/// ones.
const SHARPNESS: f64 = 20.0;

struct Net {
    layers: Vec<Linear<f64>>,
}
emmy::module!(Net for f64: layers);

impl Net {
    fn new(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let widths = [2, 16, 16, 16, 2];
        let layers = widths
            .windows(2)
            .map(|w| Linear::new(w[0], w[1], true, rng));
        Self {
            layers: layers.collect(),
        }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>) -> Var<'t, f64> {
        let mut h = x;
        for (k, layer) in self.layers.iter().enumerate() {
            h = layer.forward(pass, if k == 0 { h } else { h.relu() });
        }
        h
    }
}

/// Points around two circles, one within the other, with noise.
fn circles(count: usize, seed: u64) -> (Tensor<f64>, Vec<usize>) {
    let noise = init::normal::<f64>(&[count, 2], 0.25, &mut init::rng(seed));
    let labels: Vec<usize> = (0..count).map(|k| k % 2).collect();
    let point = |k: usize| {
        let (sin, cos) = (k as f64).sin_cos();
        let radius = 1.0 + labels[k] as f64;
        [radius * cos + noise[[k, 0]], radius * sin + noise[[k, 1]]]
    };
    let points = (0..count).flat_map(point).collect();
    (tensor(&[count, 2], points), labels)
}

/// Trains, and prints what came out.
fn run(limited: bool) -> Result<()> {
    let (x, labels) = circles(200, 1);
    let (x_test, labels_test) = circles(1000, 2);
    let mut net = Net::new(0);
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    for step in 0..200 {
        train::step(&mut net, &mut optimizer, 0.01, step, |net, pass| {
            let x = pass.tape().var(x.clone());
            let mut y = net.forward(pass, x);
            if limited {
                let bound = bound(y, x, Lp::Two, Domain::Everywhere).and_then(|b| b.var());
                y = y / bound.expect("a network of linear maps and activations has a bound");
            }
            y.scale(SHARPNESS).cross_entropy(&labels, None)
        })?;
    }

    let matrix = |layer: &Linear<f64>| {
        let weight = layer.weight.to_owned();
        weight.into_dimensionality().expect("a matrix")
    };
    let network = Network::chain(net.layers.iter().map(matrix).collect(), [0.0, 1.0])?;
    let proven = network.certify()?.lipschitz;
    let of_margin = network.margin(0, 1).certify()?.lipschitz;

    let tape = Tape::new();
    let y = net.forward(&Pass::eval(&tape, &net), tape.constant(x_test));
    let y = y.value();
    let rows = y.outer_iter().zip(&labels_test);
    let safe = rows.filter(|(row, class)| {
        let margin = row[[**class]] - row[[1 - **class]];
        margin > EPSILON * of_margin
    });
    let certified = 100.0 * safe.count() as f64 / labels_test.len() as f64;
    let accuracy = 100.0 * metrics::accuracy(&y, &labels_test, &vec![true; labels_test.len()]);
    let divisor = if limited { proven } else { 1.0 };
    println!(
        "{}: constant {:.3}, accuracy {accuracy:.1} %, certified at {EPSILON}: {certified:.1} %",
        if limited { "kept at 1" } else { "free     " },
        proven / divisor
    );
    Ok(())
}

fn main() -> Result<()> {
    if let Some(argument) = std::env::args_os().nth(1) {
        return match &*argument.to_string_lossy() {
            "--help" | "-h" => {
                println!("{HELP}");
                Ok(())
            }
            other => Err(Error::invalid("arguments", "none, or --help", other)),
        };
    }
    run(false)?;
    run(true)
}
