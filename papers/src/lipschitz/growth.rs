//! Figure 2 of Kim et al.: with more tokens the bound of L2 attention grows like log N − log log N in the
//! ∞-norm, and so does the value that gradient ascent finds. One head of width 1, all weights 1.

use super::Cli;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::{figures, note, say};
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, bound};
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass};
use emmy::ops::attention::Mask;
use emmy::{Result, Tape, Tensor, Var, init};
use serde::Serialize;

#[derive(Serialize)]
struct Line {
    figure: u8,
    n: usize,
    p: String,
    lower: f64,
    upper: f64,
}

/// Numbers of tokens, unless others are given.
const TOKENS: [usize; 11] = [2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000];

pub fn run(cli: &Cli) -> Result<()> {
    let config = AttentionConfig::l2(1, 1);
    let mut f = MultiHeadAttention::<f64>::new(config, &mut init::rng(0))?;
    for map in [&mut f.query, &mut f.value, &mut f.output] {
        map.weight.fill(1.0);
    }
    let tokens = match &cli.tokens[..] {
        [] => &TOKENS[..],
        given => given,
    };
    let mut lines = Vec::new();
    if !cli.json {
        say("| N | p | found | proven | proven / found |\n|---:|---|---:|---:|---:|")?;
    }
    for p in cli.norms(&[Lp::Inf, Lp::Two]) {
        for &n in tokens {
            note(format_args!("N = {n}, p = {p}"));
            let line = Line {
                figure: 2,
                n,
                p: p.to_string(),
                lower: found(cli, &f, n, p)?,
                upper: proven(&f, n, p)?,
            };
            match cli.json {
                true => cli.tell_json(&line)?,
                false => say(format_args!(
                    "| {n} | {p} | {:.3} | {:.3} | {:.2} |",
                    line.lower,
                    line.upper,
                    line.upper / line.lower
                ))?,
            }
            lines.push(line);
        }
    }
    draw(cli, &lines)
}

fn attend<'t>(f: &MultiHeadAttention<f64>, x: Var<'t, f64>) -> Var<'t, f64> {
    f.forward(&Pass::eval(x.tape(), f), x, &Mask::none())
}

fn proven(f: &MultiHeadAttention<f64>, n: usize, p: Lp) -> Result<f64> {
    let tape = Tape::new();
    let x = tape.var(init::zeros(&[n, 1]));
    Ok(bound(attend(f, x), x, p, Domain::Everywhere)?.upper().get())
}

/// Ascent from random tokens, and from tokens of which one is at 0, half of the others at d, and half at −d.
/// There the row sum of the first token is 4 (1 − P₀) d² + 2P₀ − 1 with P₀ = 1/(1 + (N − 1) e^(−d²)). It is
/// largest at d² = 1 + φ⁻¹(N − 1), and then differs from 4φ⁻¹(N − 1) by less than 1.
fn found(cli: &Cli, f: &MultiHeadAttention<f64>, n: usize, p: Lp) -> Result<f64> {
    let objective = match p {
        Lp::Two => Objective::Two,
        _ => Objective::Row(0),
    };
    let search = Ascent {
        restarts: cli.restarts.unwrap_or(if n > 100 { 3 } else { 10 }),
        steps: if n > 100 { 30 } else { 200 },
        rate: 0.05,
        ..Ascent::new(objective, cli.seed)
    };
    let random = (0..search.restarts as u64).map(|k| {
        let rng = &mut init::rng(cli.seed.wrapping_add(k));
        init::normal(&[n, 1], 1.0 + k as f64 / 4.0, rng)
    });
    let best = (1.0 + (proven(f, n, Lp::Inf)? - 1.0) / 4.0).sqrt();
    let apart = (0..search.restarts).map(|k| {
        let d = best * (1.0 + 0.05 * (k as f64 - 1.0));
        let x = |i: usize| match i {
            0 => 0.0,
            i if i % 2 == 0 => d,
            _ => -d,
        };
        // Slightly different tokens, so that ascent can move them away from each other.
        Tensor::from_shape_fn(vec![n, 1], |i| {
            x(i[0]) * (1.0 + 1e-3 * (i[0] as f64 / n as f64))
        })
    });
    let found = search.from(random.chain(apart).collect(), |x| attend(f, x));
    Ok(found.lower.get())
}

fn draw(cli: &Cli, lines: &[Line]) -> Result<()> {
    let mut panels = Vec::new();
    for p in ["∞", "2"] {
        let of = |value: fn(&Line) -> f64| -> Vec<(f64, f64)> {
            let some = lines.iter().filter(|line| line.p == p);
            some.map(|line| (line.n as f64, value(line))).collect()
        };
        if of(|l| l.lower).len() < 2 {
            continue;
        }
        let mut panel = Panel::new(
            format!("L2 attention, one head of width 1, p = {p}"),
            Axis::new("tokens").log(),
            Axis::new("Lipschitz constant"),
        );
        panel.series = vec![
            Series::new("proven", COLOURS[1], Mark::Line(of(|l| l.upper))),
            Series::new("found", COLOURS[0], Mark::Line(of(|l| l.lower))),
        ];
        panels.push(panel);
    }
    if panels.is_empty() {
        return Ok(());
    }
    let size = (560 * panels.len() as u32, 420);
    for path in figures::write(
        &cli.figures,
        "lipschitz-2",
        size,
        "Kim et al., Figure 2",
        panels.len(),
        &panels,
    )? {
        note(format_args!("{}", path.display()));
    }
    Ok(())
}
