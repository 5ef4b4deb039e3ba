//! The linear pieces of a network with its biases: neurons x ↦ l x for x < 0 and u x for x > 0, such as ReLU.
//!
//! A pattern says of each neuron whether its argument is positive. On the inputs of one pattern the network
//! is affine, so its Lipschitz constant is the largest norm of the Jacobians of all patterns that have an
//! open set of inputs. [`Pieces::climb`] searches for an input where it is large, and [`Branches`] for the
//! constant itself.

mod branch;
mod contradiction;
mod nearest;
mod region;

pub use branch::Branches;

use super::Network;
use super::ball::Product;
use crate::error::{Result, Rules};
use crate::linalg::{Lower, gamma, power_iteration, svd};
use crate::{init, kernels::random::mix};
use ndarray::{Array1, ArrayView1};
use rand::RngExt;
use rayon::prelude::*;

/// A network of neurons with a kink at 0, with its biases.
///
/// ```
/// use emmy::lipschitz::joint::{Network, Pieces};
/// use ndarray::array;
///
/// // 2 relu(x) − 2 relu(x − 1) + relu(x − 5) is steepest between 0 and 1.
/// let net = Network::chain(
///     vec![array![[1.0], [1.0], [1.0]], array![[2.0, -2.0, 1.0]]],
///     [0.0, 1.0],
/// )?;
/// let pieces = Pieces::new(net, vec![array![0.0, -1.0, -5.0]])?;
/// let steepest = pieces.climb(8, 0).expect("inputs inside of pieces");
/// assert!((0.0..1.0).contains(&steepest.input[0]));
/// assert!((steepest.lower.get() - 2.0).abs() < 1e-12);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pieces {
    network: Network,
    biases: Vec<Array1<f64>>,
}

/// An input inside of a piece, and the norm of the Jacobian there, from below.
#[derive(Debug, Clone)]
pub struct Steep {
    /// The input.
    pub input: Array1<f64>,
    /// ‖J‖₂ there.
    pub lower: Lower,
}

/// Whether the argument of each neuron is positive, as far as it is decided.
type Pattern = Vec<Option<bool>>;

/// How many patterns are tried for an input in one climb.
const MOST_TRIES: usize = 200;

impl Pieces {
    /// A network with one list of biases per layer. The slopes \[l, u\] of a neuron are those for negative
    /// and for positive arguments.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if there is not one bias per neuron, or one is not finite.
    pub fn new(network: Network, biases: Vec<Array1<f64>>) -> Result<Self> {
        let rules = Rules("biases");
        let lengths = network.layers().iter().map(|l| l.slopes.len());
        let found: Vec<usize> = biases.iter().map(Array1::len).collect();
        let expected: Vec<usize> = lengths.collect();
        let fits = expected == found;
        let expected = format!("one per neuron, {expected:?}");
        rules.hold(fits, "lengths", expected, format!("{found:?}"))?;
        for bias in biases.iter().flatten() {
            rules.hold(bias.is_finite(), "number", "a finite number", bias)?;
        }
        Ok(Self { network, biases })
    }

    /// The network without its biases.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// ‖J‖₂ at an input, from below; `None` if the input is at the border of a piece, or too near to it to
    /// say on which side it is.
    ///
    /// # Panics
    /// If the input has another length than those of the network.
    #[track_caller]
    pub fn at(&self, input: ArrayView1<'_, f64>) -> Option<Lower> {
        let n = self.network.inputs;
        assert!(
            input.len() == n,
            "Pieces::at: {} numbers for {n} inputs",
            input.len()
        );
        Some(self.norm(&self.pattern(input)?).0)
    }

    /// An input where the network is steep, the steepest that a number of climbs find; `None` if none of them
    /// ends inside of a piece.
    ///
    /// Each climb begins at a random input. It changes the slope of one neuron, the one that gains most,
    /// until none gains, first among all patterns, and takes the nearest input of the pattern at its end.
    /// If there is none, it climbs again from the same input, and then each pattern must have an input; up
    /// to 200 patterns are tried.
    pub fn climb(&self, starts: usize, seed: u64) -> Option<Steep> {
        // Only the part of the input that the first layers read counts.
        let (network, q) = self.network.with_fewer_inputs();
        let reduced = Self {
            network,
            biases: self.biases.clone(),
        };
        let climb = |k: u64| {
            let found = reduced.climb_from(mix(seed, k))?;
            let input = match &q {
                Some(q) => q.dot(&found),
                None => found,
            };
            let lower = self.at(input.view())?;
            Some(Steep { input, lower })
        };
        let each: Vec<Option<Steep>> = (0..starts as u64).into_par_iter().map(climb).collect();
        (each.into_iter().flatten())
            .reduce(|a, b| if b.lower.get() > a.lower.get() { b } else { a })
    }

    fn climb_from(&self, seed: u64) -> Option<Array1<f64>> {
        let rng = &mut init::rng(seed);
        let size = 4f64.powi(rng.random_range(-2..3));
        let start = Array1::from_shape_fn(self.network.inputs, |_| rng.random_range(-size..size));
        let start = self.pattern(start.view())?;
        let free = self.climb_pattern(start.clone(), |_| true);
        self.input(&free).or_else(|| {
            let mut tries = 0;
            let end = self.climb_pattern(start, |pattern| {
                tries += 1;
                tries <= MOST_TRIES && self.input(pattern).is_some()
            });
            self.input(&end)
        })
    }

    /// Changes one neuron after the other while that makes ‖J‖ larger, among the patterns that are allowed.
    fn climb_pattern(
        &self,
        mut pattern: Pattern,
        mut allowed: impl FnMut(&Pattern) -> bool,
    ) -> Pattern {
        let (mut here, mut ends) = self.norm(&pattern);
        loop {
            let gains = self.gains(&pattern, &ends);
            let mut order: Vec<usize> = (0..gains.len()).filter(|i| gains[*i] > 0.0).collect();
            order.sort_by(|a, b| gains[*b].total_cmp(&gains[*a]).then(a.cmp(b)));
            let next = order.into_iter().find_map(|i| {
                let mut other = pattern.clone();
                other[i] = other[i].map(|on| !on);
                let (norm, ends) = self.norm(&other);
                let steeper = norm.get() > here.get() * (1.0 + 1e-9);
                (steeper && allowed(&other)).then_some((other, norm, ends))
            });
            match next {
                Some(next) => (pattern, here, ends) = next,
                None => return pattern,
            }
        }
    }

    /// What uᵀ J v gains, by first order, if the slope of one neuron changes; u and v are the singular
    /// vectors.
    fn gains(&self, pattern: &Pattern, [u, v]: &[Array1<f64>; 2]) -> Vec<f64> {
        // Derivatives of the values along v, and of uᵀ f in the values.
        let network = &self.network;
        let slopes = self.slopes(pattern);
        let mut forward = vec![v.clone()];
        let mut arguments = Vec::new();
        for (layer, slopes) in network.layers.iter().zip(&slopes) {
            let y: Array1<f64> = (layer.reads.iter())
                .map(|(j, a)| a.dot(&forward[*j]))
                .reduce(|a, b| a + b)
                .expect("a map");
            forward.push(&y * slopes);
            arguments.push(y);
        }
        let sizes = network.sizes();
        let mut backward: Vec<Array1<f64>> = sizes.iter().map(|n| Array1::zeros(*n)).collect();
        for (j, c) in &network.output {
            backward[*j] += &c.t().dot(u);
        }
        for k in (0..network.layers.len()).rev() {
            let own = &backward[k + 1] * &slopes[k];
            for (j, a) in &network.layers[k].reads {
                backward[*j] += &a.t().dot(&own);
            }
        }
        let mut gains = Vec::new();
        for (k, layer) in network.layers.iter().enumerate() {
            for (i, [low, high]) in layer.slopes.iter().enumerate() {
                let change = low + high - 2.0 * slopes[k][i];
                gains.push(change * arguments[k][i] * backward[k + 1][i]);
            }
        }
        gains
    }

    /// The slope of each neuron under a pattern; the upper one where it is not decided.
    fn slopes(&self, pattern: &[Option<bool>]) -> Vec<Array1<f64>> {
        let mut next = pattern.iter();
        let layers = self.network.layers.iter().map(|layer| {
            let each = layer.slopes.iter().zip(next.by_ref());
            each.map(|(slopes, on)| slopes[usize::from(on.unwrap_or(true))])
                .collect()
        });
        layers.collect()
    }

    /// The network in which the neurons that are decided have one slope each.
    fn under(&self, pattern: &[Option<bool>]) -> Network {
        let mut network = self.network.clone();
        let slopes = network.layers.iter_mut().flat_map(|l| &mut l.slopes);
        for (slopes, on) in slopes.zip(pattern) {
            if let Some(on) = on {
                *slopes = [slopes[usize::from(*on)]; 2];
            }
        }
        network
    }

    /// ‖J‖₂ under a pattern, from below, and its singular vectors u and v.
    fn norm(&self, pattern: &[Option<bool>]) -> (Lower, [Array1<f64>; 2]) {
        let Product { value, error } = self.under(pattern).product();
        let (u, _, vt) = svd(value.view());
        let ends = [u.column(0).to_owned(), vt.row(0).to_owned()];
        let found = power_iteration(value.view(), ends[1].view(), 2).get();
        (Lower::new((found - error.get()).next_down().max(0.0)), ends)
    }

    /// The pattern of an input, if the sign of each argument is certain in spite of rounding.
    fn pattern(&self, input: ArrayView1<'_, f64>) -> Option<Pattern> {
        let mut values = vec![(input.to_owned(), Array1::zeros(input.len()))];
        let mut pattern = Vec::new();
        for (layer, bias) in self.network.layers.iter().zip(&self.biases) {
            let mut y = bias.clone();
            let mut error = bias.mapv(|b| 2.0 * f64::EPSILON * b.abs());
            for (j, a) in &layer.reads {
                let (value, wrong) = &values[*j];
                y += &a.dot(value);
                let sizes = a.mapv(f64::abs);
                let terms = 4.0 * gamma(a.ncols() + 2);
                error += &(sizes.dot(&value.mapv(f64::abs)) * terms + sizes.dot(wrong) * 1.001);
            }
            let mut slopes = Array1::zeros(y.len());
            for (i, range) in layer.slopes.iter().enumerate() {
                if range[0] < range[1] && y[i].abs() <= error[i] {
                    return None;
                }
                slopes[i] = range[usize::from(y[i] > 0.0)];
                pattern.push(Some(y[i] > 0.0));
            }
            let rounding = (&y * &slopes).mapv(|v| v.abs() * f64::EPSILON);
            let error = &error * &slopes.mapv(f64::abs) + rounding;
            values.push((&y * &slopes, error));
        }
        Some(pattern)
    }
}
