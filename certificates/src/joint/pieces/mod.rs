//! The linear pieces of a network with its biases: neurons x ↦ l x for x < 0 and u x for x > 0, such as ReLU.
//!
//! A pattern says of each neuron whether its argument is positive. On the inputs of one pattern the network
//! is affine, so its Lipschitz constant is the largest norm of the Jacobians of all patterns that have an
//! open set of inputs. [`Pieces::climb`] searches for an input where it is large, and [`Branches`] for the
//! constant itself.

mod ascent;
mod branch;
mod climb;
mod contradiction;
mod nearest;
mod region;

pub use branch::Branches;

use super::Network;
use super::ball::Product;
use crate::error::{Result, Rules};
use crate::linalg::{Lower, gamma, power_iteration, svd};
use ndarray::{Array1, ArrayView1};

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

impl Pieces {
    /// A network with one list of biases per layer. The slopes \[l, u\] of a neuron are those for negative
    /// and for positive arguments.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::error::Error::Invalid) if there is not one bias per neuron, or one is not
    /// finite.
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
        Some(self.norm(&self.pattern(input)?))
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

    /// ‖J‖₂ under a pattern, from below.
    fn norm(&self, pattern: &[Option<bool>]) -> Lower {
        let Product { value, error } = self.under(pattern).product();
        let (_, _, vt) = svd(value.view());
        let found = power_iteration(value.view(), vt.row(0), 2).get();
        Lower::new((found - error.get()).next_down().max(0.0))
    }

    /// The pattern of an input, if the sign of each argument is certain in spite of rounding.
    fn pattern(&self, input: ArrayView1<'_, f64>) -> Option<Pattern> {
        let mut values = vec![(input.to_owned(), Array1::zeros(input.len()))];
        let mut pattern = Vec::new();
        for (layer, bias) in self.network.layers.iter().zip(&self.biases) {
            let mut y = bias.clone();
            // The sums of the reads are added one after the other.
            let reads = layer.reads.len();
            let mut error = bias.mapv(|b| (2 + reads) as f64 * f64::EPSILON * b.abs());
            for (j, a) in &layer.reads {
                let (value, wrong) = &values[*j];
                y += &a.dot(value);
                let sizes = a.mapv(f64::abs);
                let terms = 4.0 * gamma(a.ncols() + 2 + reads);
                error += &(sizes.dot(&value.mapv(f64::abs)) * terms + sizes.dot(wrong) * 1.001);
            }
            let mut slopes = Array1::zeros(y.len());
            for (i, range) in layer.slopes.iter().enumerate() {
                // Also if one of both is no number.
                let is_certain = y[i].abs() > error[i];
                if range[0] < range[1] && !is_certain {
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
