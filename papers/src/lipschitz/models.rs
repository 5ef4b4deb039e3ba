//! The interval of a model, layer by layer.

use super::perceptron::pieces;
use super::{Cli, chain};
use crate::support::say;
use clap::ValueEnum;
use emmy::lipschitz::{Domain, Lp};
use emmy::nn::{
    Activation, AttentionConfig, BlockConfig, Constants, GcnConv, LanguageConfig, LanguageModel,
    LipschitzNorm, Mlp, MultiHeadAttention, Pass, Positions, Trace, Transformer,
};
use emmy::ops::attention::Mask;
use emmy::store::weights::Weights;
use emmy::{Error, Result, Tape, Tensor, init};
use ndarray::Axis;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// A built-in model with random weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Model {
    /// Two pre-norm blocks: attention by dot products, ReLU
    Transformer,
    /// Only attention by dot products: it has no constant on all inputs
    Attention,
    /// Attention by distances, with a constant (Kim et al.)
    L2,
    /// The same divided by its constant, times 0.9
    Contractive,

    /// Attention with LipschitzNorm (Dasoulas et al.)
    LipschitzNorm,
    /// Two linear maps with ReLU between them, at an input in the steepest linear piece that is found
    Mlp,
    /// Two graph convolutions on the karate club
    Gcn,
}

/// One layer as JSON.
#[derive(Serialize)]
struct Line<'a> {
    layer: &'a str,
    kind: &'a str,
    p: String,
    lower: f64,
    upper: Option<f64>,
    reason: Option<&'a str>,
}

pub fn run(cli: &Cli) -> Result<()> {
    let domain = cli.radius.map_or(Domain::Everywhere, Domain::Rows);
    let trace = match &cli.weights {
        Some(path) => of_file(cli, path)?,
        None => trace(cli.model, cli.seed)?,
    };
    for p in cli.norms(&[Lp::Two]) {
        let table = trace.lipschitz_by_layer(p, domain)?;
        match cli.json {
            true => json(cli, &table)?,
            false => say(table)?,
        }
    }
    Ok(())
}

fn json(cli: &Cli, table: &Constants) -> Result<()> {
    for layer in table.layers.iter().chain([&table.whole]) {
        let upper = layer.upper.as_ref().ok().filter(|u| u.is_finite());
        cli.tell_json(&Line {
            layer: &layer.path,
            kind: layer.kind,
            p: table.p.to_string(),
            lower: layer.lower.get(),
            upper: upper.map(|u| u.get()),
            reason: layer.upper.as_ref().err().map(String::as_str),
        })?;
    }
    Ok(())
}

/// Tokens and their features.
const SHAPE: [usize; 2] = [8, 16];

fn trace(model: Model, seed: u64) -> Result<Trace> {
    let rng = &mut init::rng(seed);
    let x = init::normal::<f64>(&SHAPE, 1.0, rng);
    let width = SHAPE[1];
    let mask = Mask::none();
    let attention = |config, norm: Option<LipschitzNorm>, rng: &mut init::Rng| {
        let mut layer = MultiHeadAttention::<f64>::new(config, rng)?;
        if let Some(norm) = norm {
            layer.normalizer = Some(Arc::new(norm));
        }
        emmy::Result::Ok(Trace::at(&layer, &x, |pass, x| {
            layer.forward(pass, x, &Mask::none())
        }))
    };
    let plain = AttentionConfig::new(width, 2);
    Ok(match model {
        Model::Transformer => {
            let net = Transformer::<f64>::new(
                2,
                BlockConfig::pre_norm_encoder(width, 2, 4 * width),
                rng,
            )?;
            Trace::at(&net, &x, |pass, x| net.forward(pass, x, &mask))
        }
        Model::Attention => attention(plain, None, rng)?,
        Model::L2 => attention(AttentionConfig::l2(width, 2), None, rng)?,
        Model::LipschitzNorm => attention(plain, Some(LipschitzNorm::DOT), rng)?,
        Model::Contractive => attention(
            AttentionConfig::contractive(width, 2, 0.9, Lp::Two),
            None,
            rng,
        )?,
        Model::Mlp => {
            let net = Mlp::<f64>::new(&[width, width, 4], Activation::Relu, true, rng);
            let x = steepest(&net, seed)?.unwrap_or(x);
            Trace::at(&net, &x, |pass, x| net.forward(pass, x))
        }
        Model::Gcn => {
            let club = emmy::data::karate();
            let adjacency = club.graph.with_self_loops().gcn_norm::<f64>();
            let net = [(width, 16), (16, 2)].map(|(a, b)| GcnConv::<f64>::new(a, b, true, rng));
            let net = net.to_vec();
            let x = init::normal(&[club.nodes(), width], 1.0, rng);
            Trace::at(&net, &x, |pass, x| {
                let h = net[0].forward(pass, x, &adjacency).relu();
                net[1].forward(pass, h, &adjacency)
            })
        }
    })
}

/// An input in the steepest linear piece that the search finds, from which the lower end then starts.
fn steepest(net: &Mlp<f64>, seed: u64) -> Result<Option<Tensor<f64>>> {
    let found = pieces(net, None)?.climb(100, seed);
    Ok(found.map(|steep| steep.input.insert_axis(Axis(0)).into_dyn().into_shared()))
}

/// A file of weights: a language model if its header says so, else a chain of linear maps.
fn of_file(cli: &Cli, path: &Path) -> Result<Trace> {
    let file = Weights::open(path)?;
    if file.model() != Some("LanguageModel") {
        return chain::trace(&file, path, cli.activation.unwrap_or_default(), cli.seed);
    }
    if cli.activation.is_some() {
        let rule = "none for a language model, whose configuration has it";
        return Err(Error::invalid("--activation", rule, "one"));
    }
    let config: LanguageConfig = file.config()?;
    check_size(&file, path, &config)?;
    let mut net = LanguageModel::<f64>::new(config, 0)?;
    file.load_into(&mut net)?;
    let length = (config.context / 4).max(1);
    let mut rng = init::rng(cli.seed);
    let draw = |_| emmy::rand::RngExt::random_range(&mut rng, 0..config.symbols);
    let symbols: Vec<usize> = (0..length).map(draw).collect();
    let tape = Tape::new();
    let x = net.embedded(&Pass::eval(&tape, &net), &symbols, 1).value();
    Ok(Trace::at(&net, &x, |pass, x| net.of_embedded(pass, x)))
}

/// Refuses a configuration with sizes that the file does not have, before a model of these sizes is made: each
/// of these products is a number of entries of one or more tensors.
fn check_size(file: &Weights, path: &Path, config: &LanguageConfig) -> Result<()> {
    let width = config.block.attention.width;
    let hidden = config.block.feed_forward.hidden;
    let square = width.saturating_mul(width.max(hidden));
    let least = [
        config.symbols.saturating_mul(width),
        config.layers.saturating_mul(square),
    ];
    let places = match config.positions {
        Positions::Learned => config.context.saturating_mul(width),
        _ => config.context,
    };
    let least = least.into_iter().chain([places]).max().unwrap_or(0) as u64;
    match least > file.count().saturating_mul(16).max(1 << 20) {
        false => Ok(()),
        true => Err(Error::invalid(
            format!("configuration in {}", path.display()),
            format!(
                "one of a model with the {} numbers of the file",
                file.count()
            ),
            format!("one of a model with {least} numbers or more"),
        )),
    }
}
