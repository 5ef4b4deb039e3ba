//! The conservation laws of networks of your own: read off a forward pass, searched for, and counted.
//!
//! A law is a quantity that gradient flow conserves for every loss of the outputs, whatever the data: for a
//! neuron with ReLU ‖incoming weights‖² − ‖outgoing weights‖², since multiplying the first by λ and
//! dividing the second by λ changes nothing.
//!
//! `cargo run --example laws`; `cargo run --release -p papers -- laws` does it for 38 networks (39
//! with `--all`), and trains them and draws how far the laws drift.

use emmy::init::{self, Rng};
use emmy::nn::{
    Activation, AttentionConfig, Linear, Mlp, Module, MultiHeadAttention, Pass, discover,
};
use emmy::ops::attention::Mask;
use emmy::symmetry::Search;
use emmy::{Error, Result, Var};

const HELP: &str =
    "laws: prints the conservation laws of four networks, declared and found; no arguments";

/// y = R (x + W x): a network of your own is its fields and a forward function.
struct IdentityMap {
    inner: Linear<f64>,
    readout: Linear<f64>,
}
emmy::module!(IdentityMap for f64: inner, readout);

impl IdentityMap {
    fn new(rng: &mut Rng) -> Self {
        Self {
            inner: Linear::new(2, 2, false, rng),
            readout: Linear::new(2, 3, false, rng),
        }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>) -> Var<'t, f64> {
        pass.call(self, &[x], || {
            self.readout.forward(pass, x + self.inner.forward(pass, x))
        })
    }
}
impl emmy::nn::Layer<f64> for IdentityMap {}

/// Rows of random numbers as input.
fn rows<'t>(pass: &Pass<'t, '_, f64>, width: usize, seed: u64) -> Var<'t, f64> {
    let x = init::normal(&[6, width], 1.0, &mut init::rng(seed));
    pass.tape().constant(x)
}

/// Prints how many laws a model has, and those that nobody has declared.
fn report<M: Module<f64> + Sync>(
    name: &str,
    model: &M,
    forward: impl for<'t, 'm> Fn(&Pass<'t, 'm, f64>, u64) -> Var<'t, f64> + Sync,
) {
    let laws = discover(model, &Search::default(), forward);
    let upper = laws.upper.map_or("unknown".to_owned(), |n| n.to_string());
    println!(
        "{name}: {} parameters; laws declared {}, found {}, at most {upper}; largest |δ| {:.0e}",
        laws.parameters, laws.declared, laws.found, laws.max_delta
    );
    for law in laws.discovered() {
        println!("    not declared: {}", law.formula);
    }
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
    let rng = &mut init::rng(0);
    let mlp = Mlp::<f64>::new(&[3, 5, 4, 2], Activation::Relu, true, rng);
    report("perceptron with ReLU", &mlp, |pass, seed| {
        mlp.forward(pass, rows(pass, 3, seed))
    });
    // A smooth activation leaves nothing to rescale.
    let smooth = Mlp::<f64>::new(&[3, 5, 4, 2], Activation::Tanh, true, rng);
    report("perceptron with tanh", &smooth, |pass, seed| {
        smooth.forward(pass, rows(pass, 3, seed))
    });
    // Queries and keys of a head meet in products only: any mixing of one can be undone in the other.
    let attention = MultiHeadAttention::<f64>::new(AttentionConfig::new(4, 2), rng)?;
    report("attention with two heads", &attention, |pass, seed| {
        attention.forward(pass, rows(pass, 4, seed), &Mask::none())
    });
    let own = IdentityMap::new(rng);
    report("x + W x", &own, |pass, seed| {
        own.forward(pass, rows(pass, 2, seed))
    });
    Ok(())
}
