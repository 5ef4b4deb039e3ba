//! The output of `--watch` at each evaluation: how far the logits can move if the embedded characters move,
//! and how many directions the characters of a sequence still have after each layer.

use crate::certified::CertifiedEnsemble;
use crate::char_lm::model::CharModel;
use emmy::data::text::Text;
use emmy::linalg::effective_rank;
use emmy::lipschitz::Lp;
use emmy::nn::{LanguageModel, Pass, Trace};
use emmy::ops::attention::Mask;
use emmy::{Real, Tape, Tensor};
use serde::Serialize;

/// The number of characters of the sequence at which a model is measured.
const LENGTH: usize = 32;

/// The measurements of a model; empty for a model that does not read an embedded sequence.
#[derive(Serialize, Debug, Default)]
pub struct Look {
    /// A lower bound of the Lipschitz constant of the logits as a function of the embedded characters, in the
    /// 2-norm: found at one sequence.
    pub lipschitz_lower: Option<f64>,
    /// The upper bound, proven for all inputs; null if there is none.
    pub lipschitz_upper: Option<f64>,
    /// The effective rank of the characters of the sequence: embedded, then after each layer.
    pub effective_rank: Vec<f64>,
}

impl Look {
    /// Measures a model at the first characters of the validation text.
    pub fn at<F: Real>(model: &CharModel<F>, text: &Text) -> Self {
        let net = match model {
            CharModel::Transformer(net) => net,
            CharModel::Certified(net) => return Self::certified(net, text),
            CharModel::Lstm(_) => return Self::default(),
        };
        let length = LENGTH.min(net.config.context).min(text.validation.len());
        let symbols: Vec<usize> = (text.validation[..length].iter())
            .map(|&symbol| usize::from(symbol))
            .collect();
        let tape = Tape::new();
        let pass = Pass::eval(&tape, &**net);
        let x = net.embedded(&pass, &symbols, 1);
        let interval = interval(net, &x.value());
        let mut ranks = vec![rank(&x.value())];
        let mut x = x;
        for layer in &net.blocks.layers {
            x = layer.forward(&pass, x, &Mask::causal());
            ranks.push(rank(&x.value()));
        }
        Self {
            lipschitz_lower: interval.map(|i| i[0]),
            lipschitz_upper: interval.map(|i| i[1]).filter(|u| u.is_finite()),
            effective_rank: ranks,
        }
    }

    /// The same for the certified model; the rank is only that of the embedded characters.
    fn certified<F: Real>(net: &CertifiedEnsemble<F>, text: &Text) -> Self {
        let length = LENGTH.min(net.config().context).min(text.validation.len());
        let read = &text.validation[..length];
        let symbols: Vec<usize> = read.iter().map(|&symbol| usize::from(symbol)).collect();
        let tape = Tape::new();
        let x = net.embedded(&Pass::eval(&tape, net), &symbols, 1).value();
        let trace = Trace::at(net, &x, |pass, x| net.of_embedded(pass, x));
        let interval = trace.lipschitz(Lp::Two).ok();
        Self {
            lipschitz_lower: interval.map(|i| i.lower.get()),
            lipschitz_upper: interval.map(|i| i.upper.get()).filter(|u| u.is_finite()),
            effective_rank: vec![rank(&x)],
        }
    }
}

/// The lower and the upper bound; the upper bound is infinite if there is none.
fn interval<F: Real>(net: &LanguageModel<F>, x: &Tensor<F>) -> Option<[f64; 2]> {
    let trace = Trace::at(net, x, |pass, x| net.of_embedded(pass, x));
    let table = trace
        .lipschitz_by_layer(Lp::Two, emmy::lipschitz::Domain::Everywhere)
        .ok()?;
    let upper = table.whole.upper.map_or(f64::INFINITY, |u| u.get());
    Some([table.whole.lower.get(), upper])
}

fn rank<F: Real>(x: &Tensor<F>) -> f64 {
    let width = x.shape().last().copied().unwrap_or(1);
    let values: Vec<f64> = x.iter().map(|x| x.as_f64()).collect();
    let rows = values.len() / width.max(1);
    let matrix = emmy::ndarray::ArrayView2::from_shape((rows, width), &values);
    match matrix {
        Ok(a) if values.iter().all(|x| x.is_finite()) => effective_rank(a),
        _ => f64::NAN,
    }
}
