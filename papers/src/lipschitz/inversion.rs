//! Figure 3 of Kim et al.: x + c f(x) inverted by a fixed-point iteration, for attention by dot products, L2
//! attention, and contractive attention. Only the last is certified. The paper's figure has f itself, for
//! which nothing is guaranteed.

use super::Cli;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::{figures, note, say};
use emmy::lipschitz::{Lp, Upper, invert};
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass};
use emmy::ops::attention::Mask;
use emmy::{Result, Tape, Tensor, init};
use serde::Serialize;

#[derive(Serialize)]
struct Line {
    figure: u8,
    model: &'static str,
    c: f64,
    certified: bool,
    step: usize,
    error: f64,
}

/// Tokens and their features; the paper has 64 tokens of 64 features in 8 heads.
const SHAPE: [usize; 2] = [64, 64];
const HEADS: usize = 8;
const STEPS: usize = 30;
/// The other tokens are uniform on [−REACH, REACH].
const REACH: f64 = 10.0;

pub fn run(cli: &Cli) -> Result<()> {
    let rng = &mut init::rng(cli.seed);
    let [n, width] = SHAPE;
    // One token is 0, where the Jacobian of attention by dot products grows with the variance of the others.
    let mut x = init::uniform::<f64>(&[n, width], REACH, rng);
    x.index_axis_mut(emmy::ndarray::Axis(0), 0).fill(0.0);
    let dot = MultiHeadAttention::<f64>::new(
        AttentionConfig {
            bias: false,
            ..AttentionConfig::new(width, HEADS)
        },
        rng,
    )?;
    let l2 = MultiHeadAttention::<f64>::new(AttentionConfig::l2(width, HEADS), rng)?;
    let contractive = MultiHeadAttention::<f64>::new(
        AttentionConfig::contractive(width, HEADS, 1.0, Lp::Two),
        rng,
    )?;
    let mask = Mask::none();
    let apply = |f: &dyn Fn(&Tensor<f64>) -> Tensor<f64>, c: f64, x: &Tensor<f64>| {
        f(x).mapv(|y| c * y).into_shared()
    };
    let evaluate = |layer: &MultiHeadAttention<f64>, x: &Tensor<f64>| {
        let tape = Tape::new();
        layer
            .forward(&Pass::eval(&tape, layer), tape.constant(x.clone()), &mask)
            .value()
    };
    let dot_f = |x: &Tensor<f64>| evaluate(&dot, x);
    let l2_f = |x: &Tensor<f64>| evaluate(&l2, x);
    let contractive_f = |x: &Tensor<f64>| {
        let tape = Tape::new();
        contractive
            .forward(
                &Pass::eval(&tape, &contractive),
                tape.constant(x.clone()),
                &mask,
            )
            .value()
    };
    type Map<'a> = &'a dyn Fn(&Tensor<f64>) -> Tensor<f64>;
    let maps: [(&'static str, Map); 3] = [
        ("dot", &dot_f),
        ("l2", &l2_f),
        ("contractive", &contractive_f),
    ];
    let mut lines = Vec::new();
    if !cli.json {
        say(
            "| model | c | certified | error after 5 steps | after 30 |\n|---|---:|---|---:|---:|",
        )?;
    }
    for c in [0.5, 0.7, 0.9] {
        for (model, f) in maps {
            let g = |x: &Tensor<f64>| apply(f, c, x);
            let y = (&x + &g(&x)).into_shared();
            let certified = model == "contractive";
            // Prints the errors of each step, and checks the guarantee if there is one.
            if certified {
                let inverse = invert(
                    g,
                    &y,
                    contractive.contraction().unwrap_or(Upper::INFINITE) * Upper::new(c),
                    1e-10,
                )?;
                note(format_args!(
                    "c = {c}: {} steps, error at most {:.1e}",
                    inverse.steps, inverse.error
                ));
            }
            let errors = errors(&g, &y, &x);
            for (step, error) in errors.iter().enumerate() {
                let line = Line {
                    figure: 3,
                    model,
                    c,
                    certified,
                    step: step + 1,
                    error: *error,
                };
                if cli.json {
                    cli.tell_json(&line)?;
                }
                lines.push(line);
            }
            if !cli.json {
                let at = |k: usize| errors.get(k - 1).copied().unwrap_or(f64::NAN);
                let said = if certified { "yes" } else { "no" };
                say(format_args!(
                    "| {model} | {c} | {said} | {:.1e} | {:.1e} |",
                    at(5),
                    at(STEPS)
                ))?;
            }
        }
    }
    draw(cli, &lines)
}

/// ‖x_k − x‖_∞ of each step; fewer steps if the values become NaN or infinite.
fn errors(g: &impl Fn(&Tensor<f64>) -> Tensor<f64>, y: &Tensor<f64>, x: &Tensor<f64>) -> Vec<f64> {
    let mut errors = Vec::new();
    let mut start = y.clone();
    for _ in 0..STEPS {
        // x ← y − g(x), from where the last step ended.
        start = (y - &g(&start)).into_shared();
        let error = start
            .iter()
            .zip(x.iter())
            .fold(0.0f64, |m, (a, b)| m.max((a - b).abs()));
        if !error.is_finite() {
            break;
        }
        errors.push(error);
    }
    errors
}

fn draw(cli: &Cli, lines: &[Line]) -> Result<()> {
    let panels = [0.5, 0.7, 0.9].map(|c| {
        let mut panel = Panel::new(
            format!("x + c f(x) inverted, c = {c}"),
            Axis::new("step"),
            Axis::new("largest error").log(),
        );
        panel.series = ["dot", "l2", "contractive"]
            .iter()
            .zip(COLOURS)
            .map(|(model, colour)| {
                let of = lines.iter().filter(|l| l.model == *model && l.c == c);
                let points = of.map(|l| (l.step as f64, l.error.max(1e-17))).collect();
                Series::new(*model, colour, Mark::Line(points))
            })
            .collect();
        panel
    });
    for path in figures::write(
        &cli.figures,
        "lipschitz-3",
        (1500, 420),
        "Kim et al., Figure 3",
        3,
        &panels,
    )? {
        note(format_args!("{}", path.display()));
    }
    Ok(())
}
