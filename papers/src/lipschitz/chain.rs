//! A chain of linear maps from a file of weights, with an activation after each but the last.

use crate::support::note;
use clap::ValueEnum;
use emmy::nn::{Activation, Mlp, Trace};
use emmy::store::weights::Weights;
use emmy::{Error, Result, Tensor, init};
use std::cmp::Ordering;
use std::path::Path;

/// An activation, as an argument.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Between {
    #[default]
    Relu,
    LeakyRelu,
    Elu,
    Gelu,
    Silu,
    Tanh,
    Sigmoid,
    Identity,
}

impl Between {
    fn activation(self) -> Activation {
        match self {
            Self::Relu => Activation::Relu,
            Self::LeakyRelu => Activation::LeakyRelu { slope: 0.01 },
            Self::Elu => Activation::Elu,
            Self::Gelu => Activation::Gelu,
            Self::Silu => Activation::Silu,
            Self::Tanh => Activation::Tanh,
            Self::Sigmoid => Activation::Sigmoid,
            Self::Identity => Activation::Identity,
        }
    }
}

/// The rows of the input at which the lower end is looked for.
const ROWS: usize = 8;

/// The chain at a normal input; a note says what was assumed.
pub fn trace(file: &Weights, path: &Path, between: Between, seed: u64) -> Result<Trace> {
    let refuse = |expected: String, found: String| {
        Err(Error::invalid(
            format!("weights {}", path.display()),
            expected,
            found,
        ))
    };
    let mut keys: Vec<&str> = file.keys().collect();
    keys.sort_by(|a, b| natural(a, b));
    let is_weight = |key: &&&str| **key == "weight" || key.ends_with(".weight");
    let weights: Vec<&str> = keys.iter().filter(is_weight).copied().collect();
    let biases: Vec<String> = weights
        .iter()
        .map(|key| format!("{}bias", &key[..key.len() - "weight".len()]))
        .collect();
    if weights.is_empty() {
        let found = format!("{} tensors, none with such a name", keys.len());
        return refuse("linear maps, whose names end in `weight`".into(), found);
    }
    if let Some(other) =
        (keys.iter()).find(|k| !weights.contains(*k) && !biases.iter().any(|b| b == **k))
    {
        let rule = "only weights and biases of linear maps, NAME.weight and NAME.bias";
        return refuse(rule.into(), (*other).to_owned());
    }
    let mut widths = Vec::new();
    for (key, bias) in weights.iter().zip(&biases) {
        let shape = file.shape(key).unwrap_or_default();
        let &[out, into] = shape else {
            return refuse(
                format!("{key} as a matrix [out, in]"),
                format!("shape {shape:?}"),
            );
        };
        match widths.last() {
            None => widths.push(into),
            Some(&before) if before != into => {
                let rule = format!(
                    "{key} of shape [_, {before}], because {before} numbers come before it"
                );
                return refuse(rule, format!("shape {shape:?}"));
            }
            _ => {}
        }
        if let Some(found) = file.shape(bias).filter(|found| *found != [out]) {
            return refuse(
                format!("{bias} of shape [{out}]"),
                format!("shape {found:?}"),
            );
        }
        widths.push(out);
    }
    if widths.contains(&0) {
        return refuse(
            "maps of at least one number".into(),
            format!("the widths {widths:?}"),
        );
    }
    let mut net = Mlp::<f64>::new(&widths, between.activation(), true, &mut init::rng(seed));
    for ((layer, key), bias) in net.layers.iter_mut().zip(&weights).zip(&biases) {
        layer.weight = file.get(key)?;
        let out = layer.weight.shape()[0];
        layer.bias = Some(match file.shape(bias) {
            Some(_) => file.get(bias)?,
            None => Tensor::zeros(vec![out]),
        });
    }
    let shown = widths
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(" -> ");
    note(format_args!(
        "assumed: {} in this order, {shown}, {between:?} between them and none after the last",
        weights.join(", ")
    ));
    let x = init::normal::<f64>(&[ROWS, widths[0]], 1.0, &mut init::rng(seed));
    Ok(Trace::at(&net, &x, |pass, x| net.forward(pass, x)))
}

/// Numbers in names count as numbers: layers.2 before layers.10.
pub fn natural(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(bool, usize, String)> {
        let mut parts: Vec<(bool, usize, String)> = Vec::new();
        for c in text.chars() {
            let digit = c.is_ascii_digit();
            match parts.last_mut() {
                Some((kind, _, part)) if *kind == digit => part.push(c),
                _ => parts.push((digit, 0, c.to_string())),
            }
        }
        for (digit, length, part) in &mut parts {
            if *digit {
                *part = part.trim_start_matches('0').to_owned();
                *length = part.len();
            }
        }
        parts
    };
    parts(a).cmp(&parts(b)).then_with(|| a.cmp(b))
}
