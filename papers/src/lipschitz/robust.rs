//! How many digits keep their class whatever is added to them: an interval, proven from below by the
//! constants of differences of logits, and found from above by an attack. What is proven of the network in
//! exact arithmetic is one thing, what its program in `f32` then does another: both are counted.

use super::perceptron::network;
use emmy::autodiff::grad;
use emmy::lipschitz::rounding;
use emmy::ndarray::{Array2, Zip};
use emmy::nn::{Mlp, Pass};
use emmy::{Error, Real, Result, Tape, Tensor, init};
use rayon::prelude::*;

/// The sizes ε of what is added, in the 2-norm.
pub const SIZES: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// Random starts of the attack, and its steps.
const STARTS: u64 = 3;
const STEPS: usize = 20;

/// The part of the digits whose class is right and stays so.
pub struct Robust {
    pub size: f64,
    /// Proven: every margin f_y − f_j of the exact network exceeds its constant times ε.
    pub certified: f64,
    /// Proven for the program in `f32`: every margin exceeds that and its rounding errors around the image.
    pub executed: f64,
    /// Those for which the attack found nothing.
    pub attacked: f64,
}

/// L_ab, the constant of f_a − f_b, for all pairs of logits.
fn constants(net: &Mlp<f64>) -> Result<Vec<Vec<f64>>> {
    let network = network(net)?;
    let classes = network.outputs();
    let pairs: Vec<_> = (0..classes)
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .collect();
    let found = pairs
        .par_iter()
        .map(|&(a, b)| network.margin(a, b).certify());
    let found: Vec<_> = found.collect::<Result<_>>()?;
    let mut all = vec![vec![0.0; classes]; classes];
    for ((a, b), certificate) in pairs.into_iter().zip(found) {
        all[a][b] = certificate.lipschitz;
        all[b][a] = certificate.lipschitz;
    }
    Ok(all)
}

fn logits(net: &Mlp<f64>, x: &Tensor<f64>) -> Tensor<f64> {
    let tape = Tape::new();
    let pass = Pass::eval(&tape, net);
    net.forward(&pass, tape.constant(x.clone())).value()
}

/// f_y − max f_j over the other classes, per image.
fn margins(logits: &Tensor<f64>, labels: &[usize]) -> Vec<f64> {
    let rows = logits.outer_iter().zip(labels);
    rows.map(|(row, &y)| {
        let others = row.iter().enumerate().filter(|(j, _)| *j != y);
        row[[y]] - others.map(|(_, f)| *f).fold(f64::NEG_INFINITY, f64::max)
    })
    .collect()
}

/// The logits of images, and how far they are from the exact ones if something of 2-norm `size` is added.
fn errors<F: Real>(net: &Mlp<F>, x: &Tensor<F>, size: f64) -> Result<[Tensor<f64>; 2]> {
    let tape = Tape::new();
    let pass = Pass::differentiable(&tape, net);
    let x = tape.var(x.clone());
    let y = net.forward(&pass, x);
    let errors = rounding(y, x, size)?.entries().clone();
    Ok([y.value().mapv(Real::as_f64).into_shared(), errors])
}

/// Whether f_y − f_j exceeds ε L_yj and the errors of both, for every other j.
fn holds(row: &[f64], errors: &[f64], y: usize, constants: &[f64], size: f64) -> bool {
    let mut others = (0..row.len()).filter(|&j| j != y);
    // Rounded so that a margin is never too large.
    others.all(|j| {
        let needed = (size * constants[j]).next_up() + (errors[y] + errors[j]).next_up();
        (row[y] - row[j]).next_down() > needed.next_up()
    })
}

/// The intervals for these images `[n, d]` and their classes, of a network in `f32` and the same in `f64`.
pub fn robust(
    (net, double): (&Mlp<f32>, &Mlp<f64>),
    images: &Tensor<f32>,
    labels: &[usize],
    seed: u64,
) -> Result<Vec<Robust>> {
    let x = &images.mapv(f64::from).into_shared();
    let constants = constants(double)?;
    let [clean, exact] = errors(double, x, 0.0)?;
    let part = |count: usize| count as f64 / labels.len() as f64;
    let certified = |size: f64, errors: &Tensor<f64>| {
        let matrix = |x: &Tensor<f64>| -> Array2<f64> {
            let rows = x.view().into_dimensionality();
            rows.expect("a row per image")
                .as_standard_layout()
                .into_owned()
        };
        let (rows, errors) = (matrix(&clean), matrix(errors));
        let rows = rows.outer_iter().zip(errors.outer_iter()).zip(labels);
        part(
            rows.filter(|((row, errors), y)| {
                let [row, errors] = [row, errors].map(|x| x.as_slice().expect("a row"));
                holds(row, errors, **y, &constants[**y], size)
            })
            .count(),
        )
    };
    SIZES
        .map(|size| {
            let mut least = margins(&clean, labels);
            for start in 0..STARTS {
                let found = attack(double, x, labels, size, seed * STARTS + start);
                least.iter_mut().zip(found).for_each(|(a, b)| *a = a.min(b));
            }
            let [_, of_program] = errors(net, images, size)?;
            let of_both = Zip::from(&exact).and(&of_program);
            let of_both = of_both.map_collect(|a, b| (a + b).next_up()).into_shared();
            let robust = Robust {
                size,
                certified: certified(size, &exact),
                executed: certified(size, &of_both),
                attacked: part(least.iter().filter(|m| **m > 0.0).count()),
            };
            if robust.certified > robust.attacked {
                let found = format!("{} above {}", robust.certified, robust.attacked);
                return Err(Error::invalid(
                    "robust accuracy",
                    "at most what the attack leaves",
                    found,
                ));
            }
            Ok(robust)
        })
        .into_iter()
        .collect()
}

/// The smallest margins that projected gradient descent finds within the distance ε in the 2-norm, from one
/// random start per image (Madry et al., "Towards Deep Learning Models Resistant to Adversarial Attacks",
/// ICLR 2018).
fn attack(net: &Mlp<f64>, x: &Tensor<f64>, labels: &[usize], size: f64, seed: u64) -> Vec<f64> {
    let mut moved: Tensor<f64> = init::normal(x.shape(), 1.0, &mut init::rng(seed));
    project(&mut moved, size, true);
    let mut least = vec![f64::INFINITY; labels.len()];
    for _ in 0..STEPS {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, net);
        let at = tape.var((x + &moved).into_shared());
        let y = net.forward(&pass, at);
        let found = margins(&y.value(), labels);
        least.iter_mut().zip(found).for_each(|(a, b)| *a = a.min(b));
        // The images do not interact, so the gradient of the sum is that of each loss.
        let loss = y.cross_entropy(labels, None).scale(labels.len() as f64);
        let mut step = grad(loss, &[at]).swap_remove(0);
        project(&mut step, 2.5 * size / STEPS as f64, true);
        moved = (moved + &step).into_shared();
        project(&mut moved, size, false);
    }
    let end = margins(&logits(net, &(x + &moved).into_shared()), labels);
    least.iter().zip(end).map(|(a, b)| a.min(b)).collect()
}

/// Shortens each row to the length `size`, or sets it to this length.
fn project(x: &mut Tensor<f64>, size: f64, always: bool) {
    for mut row in x.outer_iter_mut() {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length > size || always && length > 0.0 {
            // A hair shorter, so that rounding does not lead out of the ball.
            row *= size * (1.0 - 1e-12) / length;
        }
    }
}
