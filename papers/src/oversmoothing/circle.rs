//! How fast attention collapses tokens on a circle, alone and together with other layers.
//!
//! Dong, Cordonnier and Loukas, "Attention is Not All You Need: Pure Attention Loses Rank Doubly
//! Exponentially with Depth", ICML 2021, draw such circles; here the plane is embedded in the width of a
//! transformer, and layers have random weights.

use crate::support::figures::Figure;
use crate::support::paper::Options;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::report::mean_std;
use crate::support::{note, say};
use emmy::collapse::{Spectrum, rank_one_norm, rank_one_residual, value};
use emmy::init::{self, Rng};
use emmy::nn::{
    AttentionConfig, ContraConfig, ContraNorm, FeedForward, FeedForwardConfig, LayerNorm,
    MultiHeadAttention, Pass,
};
use emmy::ops::attention::Mask;
use emmy::{Result, Tape, Tensor, Var};
use serde_json::json;

const TOKENS: usize = 64;
const WIDTH: usize = 32;
const LAYERS: usize = 24;
const SEEDS: u64 = 5;

/// The layers beside attention.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Company {
    name: &'static str,
    skip: bool,
    feed_forward: bool,
    norm: bool,
    contra: bool,
}

const ALONE: Company = Company {
    name: "attention",
    skip: false,
    feed_forward: false,
    norm: false,
    contra: false,
};

const COMPANIES: [Company; 5] = [
    ALONE,
    Company {
        name: "+ skip",
        skip: true,
        ..ALONE
    },
    Company {
        name: "+ skip, feed-forward",
        skip: true,
        feed_forward: true,
        ..ALONE
    },
    Company {
        name: "+ skip, feed-forward, norm",
        skip: true,
        feed_forward: true,
        norm: true,
        ..ALONE
    },
    Company {
        name: "+ ContraNorm",
        contra: true,
        ..ALONE
    },
];

/// Layers of attention with random weights, and the layers beside them.
struct Tower {
    attention: Vec<MultiHeadAttention<f64>>,
    feed_forward: Vec<FeedForward<f64>>,
    norm: LayerNorm<f64>,
    contra: ContraNorm<f64>,
}
emmy::module!(Tower for f64: attention, feed_forward, norm, contra);

impl Tower {
    fn new(rng: &mut Rng) -> Result<Self> {
        let attention =
            |rng: &mut Rng| MultiHeadAttention::new(AttentionConfig::new(WIDTH, 4), rng);
        let feed = |rng: &mut Rng| FeedForward::new(FeedForwardConfig::relu(WIDTH, 2 * WIDTH), rng);
        Ok(Self {
            attention: (0..LAYERS).map(|_| attention(rng)).collect::<Result<_>>()?,
            feed_forward: (0..LAYERS).map(|_| feed(rng)).collect::<Result<_>>()?,
            norm: LayerNorm::plain(1e-5),
            contra: ContraConfig::vision_code(0.9).build(WIDTH),
        })
    }

    /// The tokens after each layer.
    fn by_layer<'t>(
        &self,
        pass: &Pass<'t, '_, f64>,
        mut x: Var<'t, f64>,
        company: Company,
    ) -> Vec<Var<'t, f64>> {
        let normed = |x| match company.norm {
            true => self.norm.forward(pass, x),
            false => x,
        };
        let beside = |x, y| if company.skip { x + y } else { y };
        let layers = self.attention.iter().zip(&self.feed_forward);
        let layer = |(attention, feed): (&MultiHeadAttention<f64>, &FeedForward<f64>)| {
            x = beside(x, attention.forward(pass, normed(x), &Mask::none()));
            if company.feed_forward {
                x = beside(x, feed.forward(pass, normed(x)));
            }
            if company.contra {
                x = self.contra.forward(pass, x);
            }
            x
        };
        layers.map(layer).collect()
    }
}

/// Per layer, including the start: the residual of rank one relative to the size of all tokens, and the
/// effective rank.
fn ranks(company: Company, seed: u64) -> Result<Vec<[f64; 2]>> {
    let rng = &mut init::rng(seed);
    let up = init::normal::<f64>(&[2, WIDTH], 1.0, rng);
    let angle = |i: usize| std::f64::consts::TAU * i as f64 / TOKENS as f64;
    let circle = Tensor::from_shape_fn(vec![TOKENS, 2], |at| match at[1] {
        0 => angle(at[0]).cos(),
        _ => angle(at[0]).sin(),
    });
    let tower = Tower::new(rng)?;
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &tower);
    let x = tape.constant(circle).matmul(tape.constant(up));
    let layers = tower.by_layer(&pass, x, company);
    let measure = |x: &Var<'_, f64>| {
        let x = x.value();
        let share = value(&x, rank_one_residual) / value(&x, rank_one_norm);
        [share, Spectrum::of(&x).effective_rank()]
    };
    Ok(std::iter::once(&x).chain(&layers).map(measure).collect())
}

/// Draws and prints the means over seeds.
///
/// # Errors
/// If standard output or the figure cannot be written.
pub fn draw(options: &Options) -> Result<()> {
    let axis = |label: &str| Panel::new(label, Axis::new("layer"), Axis::new(""));
    let mut residual = axis("residual of rank one / whole");
    residual.y = Axis::new("").log();
    let mut effective = axis("effective rank");
    let mut lines = vec!["layer  residual  effective rank  attention".to_owned()];
    for (k, company) in COMPANIES.into_iter().enumerate() {
        let seeds = (options.seed..options.seed + SEEDS).map(|seed| ranks(company, seed));
        let runs: Vec<_> = seeds.collect::<Result<_>>()?;
        let mean = |layer: usize, of: usize| {
            let values: Vec<f64> = runs.iter().map(|run| run[layer][of]).collect();
            mean_std(&values).0
        };
        let curve = |of: usize| (0..=LAYERS).map(|l| (l as f64, mean(l, of))).collect();
        for (panel, of) in [(&mut residual, 0), (&mut effective, 1)] {
            let series = Series::new(company.name, COLOURS[k], Mark::Line(curve(of)));
            panel.series.push(series);
        }
        for layer in 0..=LAYERS {
            let (share, rank) = (mean(layer, 0), mean(layer, 1));
            if layer.is_multiple_of(4) || layer == 1 {
                let name = company.name;
                lines.push(format!("{layer:5}  {share:8.1e}  {rank:14.3}  {name}"));
            }
            if options.json {
                say(json!({
                    "figure": "circle", "layer": layer, "company": company.name,
                    "residual": share, "erank": rank, "seeds": SEEDS,
                }))?;
            }
        }
    }
    match options.json {
        true => note(lines.join("\n")),
        false => say(lines.join("\n"))?,
    }
    let title = "Rank by layer of attention with random weights, tokens on a circle";
    let panels = vec![residual, effective];
    crate::oversmoothing::write(
        Figure::new("oversmoothing-circle", title, 2, panels),
        options,
    )
}
