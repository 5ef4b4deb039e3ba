//! How many digits keep their class whatever is added to them: an interval, proven from below by the
//! constants of differences of logits, and found from above by an attack.

use emmy::autodiff::grad;
use emmy::lipschitz::joint::Network;
use emmy::ndarray::ArrayViewD;
use emmy::nn::{Mlp, Pass};
use emmy::{Error, Result, Tape, Tensor, init};
use rayon::prelude::*;

/// The sizes ε of what is added, in the 2-norm.
pub const SIZES: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// Random starts of the attack, and its steps.
const STARTS: u64 = 3;
const STEPS: usize = 20;

/// The part of the digits whose class is right and stays so.
pub struct Robust {
    pub size: f64,
    /// Proven: every margin f_y − f_j exceeds its constant times ε.
    pub certified: f64,
    /// Those for which the attack found nothing.
    pub attacked: f64,
}

/// The matrices of a network with ReLU.
pub fn network(net: &Mlp<f64>) -> Result<Network> {
    let weights = net.layers.iter().map(|layer| layer.weight.to_owned());
    let matrices = weights.map(|w| w.into_dimensionality().expect("a matrix"));
    Network::chain(matrices.collect(), [0.0, 1.0])
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

/// The intervals for these images `[n, d]` and their classes.
pub fn robust(net: &Mlp<f64>, x: &Tensor<f64>, labels: &[usize], seed: u64) -> Result<Vec<Robust>> {
    let constants = constants(net)?;
    let clean = logits(net, x);
    let part = |count: usize| count as f64 / labels.len() as f64;
    let holds = |row: ArrayViewD<'_, f64>, y: usize, size: f64| {
        let mut others = (0..row.len()).filter(|&j| j != y);
        others.all(|j| row[[y]] - row[[j]] > size * constants[y][j])
    };
    let certified = |size: f64| {
        let rows = clean.outer_iter().zip(labels);
        part(rows.filter(|(row, y)| holds(row.view(), **y, size)).count())
    };
    SIZES
        .map(|size| {
            let mut least = margins(&clean, labels);
            for start in 0..STARTS {
                let found = attack(net, x, labels, size, seed * STARTS + start);
                least.iter_mut().zip(found).for_each(|(a, b)| *a = a.min(b));
            }
            let robust = Robust {
                size,
                certified: certified(size),
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
