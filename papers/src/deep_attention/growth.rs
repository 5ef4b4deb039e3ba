//! How much the layers of a network at its start stretch the features and the gradients: measured, and
//! predicted from second moments.
//!
//! | letter | meaning |
//! |---|---|
//! | x_j | row j of the input of a layer, before dropout |
//! | g_i | row i of the gradient of the output of a layer |
//! | α | coefficients of attention, without dropout |
//! | p, p′ | dropout of the input of a layer, and of coefficients |
//! | v | variance of the entries of W, 2/(inputs + outputs) |
//!
//! A layer computes σ(y_i) with y_i = W Σ_j drop(α)_ij drop(x)_j, plus x_i with a residual connection. Over
//! dropout, and over a random W that α does not depend on, the entries of y_i are independent, with mean 0
//! and the variance
//!
//! s_i² = v (‖Σ_j α_ij x_j‖² + (1/((1 − p)(1 − p′)) − 1) Σ_j α_ij² ‖x_j‖²).
//!
//! If they are normal, E‖σ(y_i)‖² is the number of outputs times E σ(s_i z)². The part of the gradient that
//! passes through the values, not through the scores, has at x_j the mean square
//!
//! inputs · v · E‖Σ_i drop(α)_ij σ′(y_i) ⊙ g_i‖²/(1 − p),
//!
//! if σ′ is independent of g and from entry to entry.
//!
//! The concentration of attention is Σ_ij α_ij² ‖x_j‖² / Σ_j ‖x_j‖². It is 1/deg if attention is a mean over
//! deg neighbours, 1 if each node listens to itself alone, and more than 1 if several nodes listen only to one
//! node with large features.

use super::cell::{Cell, Model, Normaliser};
use super::net::{DeepNet, features};
use super::plan::{Entry, Plan};
use super::run::Prepared;
use crate::support::args::{Float, typed};
use crate::support::paper::{Cell as _, Options};
use crate::support::{note, say};
use emmy::autodiff::{grad, vjp};
use emmy::ndarray::{Array1, Array2, ArrayView2, Axis, Ix2, s};
use emmy::nn::{Activation, GatConv, Input, Pass};
use emmy::sparse::Pattern;
use emmy::{Error, Real, Result, Tape, Tensor, Var};
use serde::Serialize;

/// By layer, first to last: how much it stretches, and the concentration of its attention; for one seed, or
/// geometric means over seeds.
#[derive(Default, Serialize)]
struct Stretch {
    features: Vec<f64>,
    features_predicted: Vec<f64>,
    gradients: Vec<f64>,
    gradients_predicted: Vec<f64>,
    /// If the coefficients of every layer are held constant in the backward pass.
    gradients_with_fixed_coefficients: Vec<f64>,
    concentration: Vec<f64>,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    cell: &'a Cell,
    seeds: usize,
    #[serde(flatten)]
    stretch: &'a Stretch,
}

/// Prints one line per entry of the plan.
///
/// # Errors
/// If a cell is not one of graph attention without a norm of rows, or its data are not found.
pub fn run(plan: &Plan, options: &Options) -> Result<()> {
    for entry in &plan.entries {
        entry.cells.iter().try_for_each(check)?;
    }
    if !options.json {
        say(
            "| network | features | predicted | gradients | α held constant | predicted | concentration, first to last |\n|---|---|---|---|---|---|---|",
        )?;
    }
    for entry in &plan.entries {
        let Entry {
            row, column, cells, ..
        } = entry;
        note(format_args!("{row}, {column}: {} seeds", cells.len()));
        let folder = options.data.as_deref();
        let of = |cell: &Cell| {
            let data = cell.load(folder)?;
            cell.check(&data)?;
            match cell.float {
                Float::F32 => stretch::<f32>(cell, &data),
                Float::F64 => stretch::<f64>(cell, &data),
            }
        };
        let all: Vec<Stretch> = cells.iter().map(of).collect::<Result<_>>()?;
        let mean = Stretch::mean(&all);
        say(match options.json {
            true => {
                let line = Line {
                    cell: &cells[0],
                    seeds: cells.len(),
                    stretch: &mean,
                };
                serde_json::to_string(&line).expect("numbers")
            }
            false => format!("| {row}, {column} | {} |", mean.row()),
        })?;
    }
    Ok(())
}

/// Only graph attention whose rows are not normalised has the recursion.
fn check(cell: &Cell) -> Result<()> {
    if !cell.place.is_last() {
        let rule = "residuals at their usual place, with --growth";
        return Err(Error::invalid("--residual", rule, typed(&cell.place)));
    }
    if cell.model == Model::Gat && matches!(cell.norm, Normaliser::None | Normaliser::Lipschitz) {
        return Ok(());
    }
    let rule = "--model gat with --norm none or --norm lipschitz";
    let found = format!("{} with {}", cell.model, cell.norm);
    Err(Error::invalid("--growth", rule, found))
}

/// The stretch of the network of a cell at its start, in a pass of training.
fn stretch<F: Real>(cell: &Cell, data: &Prepared) -> Result<Stretch> {
    let set = data.set();
    let config = cell.network(set)?;
    let net = DeepNet::<F>::new(config, cell.seed, cell.published_start)?;
    let neighbours = config.neighbourhood(&set.graph);
    let x = features::<F>(set, cell.normalized, &data.erased(cell.missing, cell.seed));
    let tape = Tape::new();
    let pass = Pass::train(&tape, &net, cell.seed);
    let mut alphas = Vec::new();
    let through = net.through(
        &pass,
        Input::from(tape.sparse(&x)),
        &neighbours,
        |layer, x, around| {
            let conv: &GatConv<F> = layer.downcast_ref().expect("graph attention");
            let (y, alpha) = conv.forward_with_attention(&pass, x, around.neighbours.pattern());
            alphas.push(alpha.values);
            y
        },
    );
    let logits = (net.net.output.as_ref())
        .expect("a linear map after the layers")
        .forward(&pass, through.last);
    let loss = logits.cross_entropy(&set.labels, Some(&data.split().train));
    let mut states = through.inputs;
    states.push(through.last);
    let gradients = grad(loss, &states);
    let fixed = with_fixed_coefficients(&states, &alphas, gradients[alphas.len()].clone());
    let [gradients, fixed] =
        [gradients, fixed].map(|all| all.iter().map(numbers).collect::<Vec<_>>());
    let states: Vec<_> = states.iter().map(|x| numbers(&x.value())).collect();
    let mut found = Stretch::default();
    for (l, alpha) in alphas.iter().enumerate() {
        let predicted = Predicted::of(
            cell,
            match l + 1 < alphas.len() {
                true => config.activation,
                false => Activation::Identity,
            },
            (neighbours.pattern(), &numbers(&alpha.value())),
            [&states[l], &gradients[l + 1]],
        );
        let ratio = |after: f64, before: f64| (after / before).sqrt();
        let [before, after] = [l, l + 1].map(|l| square(&states[l]));
        let [of_input, of_output] = [l, l + 1].map(|l| square(&gradients[l]));
        let [fixed_input, fixed_output] = [l, l + 1].map(|l| square(&fixed[l]));
        found.features.push(ratio(after, before));
        (found.features_predicted).push(ratio(predicted.features, before));
        found.gradients.push(ratio(of_input, of_output));
        (found.gradients_predicted).push(ratio(predicted.gradients, of_output));
        (found.gradients_with_fixed_coefficients).push(ratio(fixed_input, fixed_output));
        found.concentration.push(predicted.concentration);
    }
    Ok(found)
}

/// The gradients with respect to the `states` before, between and after the layers if the coefficients α of
/// every layer are held constant, for the gradient `last` with respect to the last state. What passes through
/// the coefficients of a layer is subtracted from the whole.
fn with_fixed_coefficients<'t, F: Real>(
    states: &[Var<'t, F>],
    alphas: &[Var<'t, F>],
    last: Tensor<F>,
) -> Vec<Tensor<F>> {
    let mut out = vec![last];
    for (ends, &alpha) in states.windows(2).zip(alphas).rev() {
        let &[x, y] = ends else {
            unreachable!("windows of two")
        };
        let g = out.last().expect("the gradient of the output");
        let all = vjp(y, &[x, alpha], g);
        let through_scores = vjp(alpha, &[x], &all[1]);
        out.push((&all[0] - &through_scores[0]).into_shared());
    }
    out.reverse();
    out
}

/// The predicted sums of squares behind a layer, and the concentration of its attention.
struct Predicted {
    features: f64,
    gradients: f64,
    concentration: f64,
}

impl Predicted {
    /// For coefficients `[nnz, H]` of the edges, the input of a layer and the gradient of its output.
    fn of(
        cell: &Cell,
        activation: Activation,
        (edges, alpha): (&Pattern, &Array2<f64>),
        [x, g]: [&Array2<f64>; 2],
    ) -> Self {
        let (heads, width) = (alpha.ncols(), g.ncols() / alpha.ncols());
        let variance = 2.0 / (x.ncols() + g.ncols()) as f64;
        let [kept, of_coefficients] = [cell.dropout, cell.attention_dropout].map(|p| 1.0 - p);
        let residual = cell.residual && x.ncols() == g.ncols();
        let [mut features, mut gradients] = match residual {
            true => [square(x), square(g)],
            false => [0.0; 2],
        };
        let mut concentrated = 0.0;
        let of_x = sizes(x.view());
        for h in 0..heads {
            let own = s![.., h * width..(h + 1) * width];
            let ends = || edges.rows_of().iter().zip(edges.indices());
            let ahead = || ends().zip(alpha.column(h)).map(|((&i, &j), &a)| (i, j, a));
            let back = ahead().map(|(i, j, a)| (j, i, a));

            let apart = &of_x * ((kept * of_coefficients).recip() - 1.0);
            let of_y = (means(ahead(), x.view(), &apart) * variance).mapv(f64::sqrt);
            let normal = Normal::of(activation, &of_y);
            features += width as f64 * normal.square.sum();
            if residual {
                features += 2.0 * normal.mean.dot(&x.slice(own).sum_axis(Axis(1)));
            }
            concentrated += ahead()
                .map(|(_, j, a)| a * a * of_x[j as usize])
                .sum::<f64>();

            let g = g.slice(own);
            let slope = normal.slope.view().insert_axis(Axis(1));
            let apart =
                sizes(g) * (normal.slope_square / of_coefficients - &normal.slope * &normal.slope);
            let sum = means(back, (&g * &slope).view(), &apart).sum();
            gradients += x.ncols() as f64 * variance * sum / kept;
        }
        Self {
            features,
            gradients,
            concentration: concentrated / (heads as f64 * square(x)),
        }
    }
}

/// ‖Σ_j a_ij x_j‖² + Σ_j a_ij² apart_j per node i, for entries (i, j, a_ij).
fn means(
    entries: impl Iterator<Item = (u32, u32, f64)>,
    x: ArrayView2<'_, f64>,
    apart: &Array1<f64>,
) -> Array1<f64> {
    let mut mixed = Array2::<f64>::zeros(x.raw_dim());
    let mut out = Array1::<f64>::zeros(x.nrows());
    for (i, j, a) in entries {
        let [i, j] = [i, j].map(|node| node as usize);
        mixed.row_mut(i).scaled_add(a, &x.row(j));
        out[i] += a * a * apart[j];
    }
    out + sizes(mixed.view())
}

/// E σ(s z), E σ(s z)², E σ′(s z) and E σ′(s z)² over a normal z of variance 1, for several s.
struct Normal {
    mean: Array1<f64>,
    square: Array1<f64>,
    slope: Array1<f64>,
    slope_square: Array1<f64>,
}

impl Normal {
    /// By sums over 401 values of z from −8 to 8, of which one is 0, where slopes may jump.
    fn of(activation: Activation, sizes: &Array1<f64>) -> Self {
        let z = Array1::linspace(-8.0, 8.0, 401);
        let weights = z.mapv(|z: f64| (-z * z / 2.0).exp());
        let weights = &weights / weights.sum();
        let tape = Tape::new();
        let all = &sizes.view().insert_axis(Axis(1)) * &z;
        let x = tape.var(all.into_dyn().into_shared());
        let y = activation.apply(x);
        let slopes = numbers(&grad(y.sum_all(), &[x])[0]);
        let y = numbers(&y.value());
        let square = |x: f64| x * x;
        Self {
            mean: y.dot(&weights),
            square: y.mapv(square).dot(&weights),
            slope: slopes.dot(&weights),
            slope_square: slopes.mapv(square).dot(&weights),
        }
    }
}

/// ‖x_i‖² per row.
fn sizes(x: ArrayView2<'_, f64>) -> Array1<f64> {
    x.rows().into_iter().map(|row| row.dot(&row)).collect()
}

fn square(x: &Array2<f64>) -> f64 {
    sizes(x.view()).sum()
}

fn numbers<F: Real>(x: &Tensor<F>) -> Array2<f64> {
    let numbers = x.mapv(|x| x.as_f64());
    numbers.into_dimensionality::<Ix2>().expect("rows")
}

impl Stretch {
    /// The geometric means by layer.
    fn mean(all: &[Self]) -> Self {
        let of = |part: fn(&Self) -> &Vec<f64>| {
            let layers = all.first().map_or(0, |one| part(one).len());
            let logs = |l: usize| all.iter().map(|one| part(one)[l].ln()).sum::<f64>();
            (0..layers)
                .map(|l| (logs(l) / all.len() as f64).exp())
                .collect()
        };
        Self {
            features: of(|one| &one.features),
            features_predicted: of(|one| &one.features_predicted),
            gradients: of(|one| &one.gradients),
            gradients_predicted: of(|one| &one.gradients_predicted),
            gradients_with_fixed_coefficients: of(|one| &one.gradients_with_fixed_coefficients),
            concentration: of(|one| &one.concentration),
        }
    }

    /// Cells of a table: the factors of all layers together, and the concentration.
    fn row(&self) -> String {
        let factors = [
            &self.features,
            &self.features_predicted,
            &self.gradients,
            &self.gradients_with_fixed_coefficients,
            &self.gradients_predicted,
        ];
        let all = factors.map(|factors| format!("{:.1e}", factors.iter().product::<f64>()));
        let concentration = match self.concentration[..] {
            [first, .., last] => format!("{first:.2} to {last:.2}"),
            [only] => format!("{only:.2}"),
            [] => "–".to_owned(),
        };
        format!("{} | {concentration}", all.join(" | "))
    }
}
