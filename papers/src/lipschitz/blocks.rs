//! A block of a transformer on inputs of limited size: the proven bound beside the value that ascent finds.

use super::Cli;
use crate::support::{note, say};
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, bound};
use emmy::nn::{AttentionConfig, BlockConfig, MultiHeadAttention, Pass, TransformerBlock};
use emmy::ops::attention::Mask;
use emmy::{Result, Tape, Tensor, Var, init};
use serde::Serialize;

/// Tokens, their width, heads, and hidden neurons of the feed-forward part.
const TOKENS: usize = 6;
const WIDTH: usize = 8;
const HEADS: usize = 2;
const HIDDEN: usize = 32;

/// Limits of the 2-norm of a row; infinity for all inputs.
const RADII: [f64; 4] = [0.5, 2.0, 8.0, f64::INFINITY];

/// Steps of ascent per start.
const STEPS: usize = 120;

#[derive(Serialize)]
struct Line {
    model: &'static str,
    radius: Option<f64>,
    lower: f64,
    upper: Option<f64>,
    ratio: Option<f64>,
}

/// What is bounded.
enum Subject {
    Attention(Box<MultiHeadAttention<f64>>),
    Block(Box<TransformerBlock<f64>>),
}

impl Subject {
    fn forward<'t>(&self, x: Var<'t, f64>) -> Var<'t, f64> {
        let mask = Mask::none();
        match self {
            Self::Attention(layer) => layer.forward(&Pass::eval(x.tape(), &**layer), x, &mask),
            Self::Block(block) => block.forward(&Pass::eval(x.tape(), &**block), x, &mask),
        }
    }
}

/// Attention by dot products and by distances: alone, and in blocks with LayerNorm before and after its
/// parts.
fn subjects(seed: u64) -> Result<Vec<(&'static str, Subject)>> {
    let (dot, l2) = (
        AttentionConfig::new(WIDTH, HEADS),
        AttentionConfig::l2(WIDTH, HEADS),
    );
    let attention = |config| {
        let layer = MultiHeadAttention::new(config, &mut init::rng(seed))?;
        Ok::<_, emmy::Error>(Subject::Attention(Box::new(layer)))
    };
    let block = |attention, norm_first| {
        let config = BlockConfig {
            attention,
            norm_first,
            ..BlockConfig::pre_norm_encoder(WIDTH, HEADS, HIDDEN)
        };
        let block = TransformerBlock::new(config, &mut init::rng(seed))?;
        Ok::<_, emmy::Error>(Subject::Block(Box::new(block)))
    };
    Ok(vec![
        ("dot products", attention(dot)?),
        ("L2 attention", attention(l2)?),
        ("pre-norm block, dot products", block(dot, true)?),
        ("pre-norm block, L2 attention", block(l2, true)?),
        ("post-norm block, dot products", block(dot, false)?),
        ("post-norm block, L2 attention", block(l2, false)?),
    ])
}

pub fn run(cli: &Cli) -> Result<()> {
    let radii = match cli.radius {
        Some(radius) => vec![radius],
        None => RADII.to_vec(),
    };
    if !cli.json {
        say(format_args!(
            "{TOKENS} tokens of width {WIDTH}, {HEADS} heads, {HIDDEN} hidden neurons, p = 2"
        ))?;
        say("| model | rows up to | found | proven | proven / found |\n|---|---:|---:|---:|---:|")?;
    }
    for (model, subject) in subjects(cli.seed)? {
        // What is found on a set counts on larger ones.
        let mut lower = 0.0f64;
        for &radius in &radii {
            note(format_args!("{model}, rows up to {radius}"));
            lower = lower.max(found(cli, &subject, radius));
            let upper = proven(&subject, radius);
            let line = Line {
                model,
                radius: radius.is_finite().then_some(radius),
                lower,
                upper,
                ratio: upper.map(|upper| upper / lower),
            };
            match cli.json {
                true => cli.tell_json(&line)?,
                false => {
                    let rows = line.radius.map_or("∞".into(), |r| r.to_string());
                    let [upper, ratio] = [line.upper, line.ratio]
                        .map(|x| x.map_or("–".into(), |x| format!("{x:.2}")));
                    say(format_args!(
                        "| {model} | {rows} | {lower:.4} | {upper} | {ratio} |"
                    ))?;
                }
            }
        }
    }
    Ok(())
}

/// The bound; none where there is none.
fn proven(subject: &Subject, radius: f64) -> Option<f64> {
    let tape = Tape::new();
    let x = tape.var(init::zeros(&[TOKENS, WIDTH]));
    let domain = match radius.is_finite() {
        true => Domain::Rows(radius),
        false => Domain::Everywhere,
    };
    let found = bound(subject.forward(x), x, Lp::Two, domain).ok()?.upper();
    found.is_finite().then_some(found.get())
}

/// The largest norm of a Jacobian that ascent finds: from random rows of several sizes, some of them nearly
/// without variance, where LayerNorm is steep, and from rows that are nearly ± one direction, where the
/// covariance of the tokens is large.
fn found(cli: &Cli, subject: &Subject, radius: f64) -> f64 {
    // Where there is no limit, rows of this size are far beyond those at which softmax changes.
    let size = if radius.is_finite() { radius } else { 20.0 };
    let starts = (0..cli.restarts.unwrap_or(4) as u64).flat_map(|k| {
        let rng = &mut init::rng(cli.seed.wrapping_mul(1000) + k);
        let noise: Tensor<f64> = init::normal(&[TOKENS, WIDTH], 1.0, rng);
        let direction: Tensor<f64> = init::normal(&[WIDTH], 1.0, rng);
        let root = (WIDTH as f64).sqrt();
        let random =
            [1e-3, 0.1, 0.5, 1.0].map(|part| (&noise * (part * size / root)).into_shared());
        let sides = Tensor::from_shape_fn(vec![TOKENS, WIDTH], |i| {
            let side = if i[0] % 2 == 0 { 1.0 } else { -1.0 };
            let part = if i[0] == 0 { 0.1 } else { 1.0 };
            (side * part * direction[i[1]] + 0.05 * noise[[i[0], i[1]]]) * size / root
        });
        random.into_iter().chain([sides])
    });
    let search = Ascent {
        steps: STEPS,
        rate: 0.03 * size,
        radius: radius.is_finite().then_some(radius),
        ..Ascent::new(Objective::Two, cli.seed)
    };
    let starts: Vec<_> = starts.collect();
    // A large step leaves the places where LayerNorm is steep, a small one climbs there.
    let rates = [search.rate, 0.01 * search.rate];
    let all = rates.map(|rate| {
        let search = Ascent { rate, ..search };
        let found = search.from(starts.clone(), |x| subject.forward(x));
        found.lower.get()
    });
    all.into_iter().fold(0.0, f64::max)
}
