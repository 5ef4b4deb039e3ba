//! The Lipschitz constant of a whole network at once, in the 2-norm: LipSDP (Fazlyab et al., "Efficient and
//! Accurate Estimation of Lipschitz Constants for Deep Neural Networks", NeurIPS 2019, the variant with one
//! multiplier per neuron), solved without a solver of semidefinite programs, and proven with rounding.
//!
//! | letter | shape | |
//! |---|---|---|
//! | v₀ | `[n₀]` | the input |
//! | v_k | `[n_k]` | the neurons of layer k: v_k = σ(y_k), y_k = Σ_{j<k} A_kj v_j + b_k |
//! | C_j | `[m, n_j]` | the output: Σ_j C_j v_j + c |
//! | \[l, u\] | per neuron | the slopes of σ: l ≤ (σ(y) − σ(y′)) / (y − y′) ≤ u |
//! | Λ_k | `[n_k]` | the multipliers, one per neuron, at least 0 |
//!
//! # Why Λ is a proof
//! For two inputs let Δ be the difference of a quantity. A neuron i with slopes \[l, u\] satisfies
//! (Δv_i − l Δy_i)(u Δy_i − Δv_i) ≥ 0. Hence, for every Λ ≥ 0 and τ,
//!
//! τ ‖Δv₀‖² − ‖Σ C_j Δv_j‖² ≥ τ (‖Δv₀‖² − Σ_i λ_i (Δv_i − l_i Δy_i)(u_i Δy_i − Δv_i)) − ‖Σ C_j Δv_j‖².
//!
//! The right side is a quadratic form in all Δv. If it is at least 0 everywhere, L² ≤ τ. By Schur's
//! complement that is the case if
//!
//! P(Λ, τ) = \[ M(Λ), Cᵀ; C, τ I \] is positive definite,
//! M(Λ) = diag(I, 0, …) + Σ_i λ_i ½ (f_i g_iᵀ + g_i f_iᵀ), f_i = e_i − l_i a_i, g_i = e_i − u_i a_i,
//!
//! where e_i is the unit vector of the neuron and a_i its row of weights: y_i = a_i · v + b_i. Biases have
//! no part in it. M is a matrix of blocks, one per layer, and has a block (k, j) only if layer k reads
//! layer j, or both are read by one layer: for a chain of layers it is block tridiagonal.
//!
//! # How Λ is found
//! P is linear in Λ and τ. So the smallest τ is the value of a semidefinite program, and a barrier method
//! finds it: minimise w τ − ln det P(Λ, τ) by Newton's method, for growing w. With S = P⁻¹ the gradient in
//! λ_i is −f_iᵀ S g_i, and the second derivative in λ_i and λ_j is ½ (f_iᵀ S f_j g_iᵀ S g_j + f_iᵀ S g_j
//! g_iᵀ S f_j). After the minimisation τ is at most N/w above the smallest value, where P has N rows.
//! A deep network would need many steps at the first w. So no step ends next to where P is singular, and
//! after each w the search computes the smallest τ for the Λ that it has.
//!
//! # What is proven
//! The search is not trusted. [`Network::certify`] forms P(Λ, L²) from the weights as they are stored and
//! shows that it is positive definite by a Cholesky factorisation in floating point with a margin for all
//! rounding (Rump, "Verification of positive definiteness", BIT 46, 2006). A [`Certificate`] holds Λ and L;
//! everyone who has the weights can check it with one factorisation ([`Network::verify`];
//! `examples/verify.rs` is a program of its own that shares no code with this module).

mod ball;
mod certificate;
mod cholesky;
mod fixed;
mod norms;
mod pieces;
mod search;
mod sensitivity;
mod verify;

pub use certificate::Certificate;
pub use pieces::{Branches, Pieces, Steep};
#[doc(hidden)]
pub use sensitivity::sensitivity;

use crate::error::{Error, Result, Rules};
use crate::linalg::qr;
use ndarray::{Array2, ArrayView2, Axis, concatenate, s};

/// A linear map that reads one block of a network: its number (0 the input, k the neurons of layer k) and the
/// matrix `[out, n_j]`.
pub type Read = (usize, Array2<f64>);

/// A layer of neurons: y = Σ A_j v_j + b, v = σ(y).
#[derive(Debug, Clone, PartialEq)]
pub struct Neurons {
    /// The maps A_j, each of an earlier block.
    pub reads: Vec<Read>,
    /// The smallest and the largest slope of each neuron. They may be equal: the neuron is a linear map then.
    pub slopes: Vec<[f64; 2]>,
}

/// A network of layers of neurons with linear maps between them; a layer may read all blocks before it, so
/// that residual connections have their place.
///
/// ```
/// use emmy::lipschitz::joint::Network;
/// use ndarray::array;
///
/// // 2 relu(x) − 2 relu(x − 1): its slope is 0 or 2. The product of norms is 4.
/// let net = Network::chain(vec![array![[1.0], [1.0]], array![[2.0, -2.0]]], [0.0, 1.0])?;
/// let certificate = net.certify()?;
/// assert!((certificate.lipschitz - 2.0).abs() < 1e-4);
/// net.verify(&certificate)?;
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    inputs: usize,
    layers: Vec<Neurons>,
    output: Vec<Read>,
    /// The most roundings that each weight has had: 0 if the weights are those that are stored.
    roundings: usize,
}

/// The most neurons of a network whose bound is searched for. The search keeps some ten matrices of numbers
/// of this size in both directions.
const MOST_NEURONS: usize = 8192;

/// The sizes of weights that the search and the proof accept, except 0: their products neither overflow nor
/// vanish.
const USUAL: std::ops::Range<f64> = 1e-60..1e60;

impl Network {
    /// Layers of neurons behind `inputs` inputs, and the maps to the output.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no layer or no output, a map reads a block that is not before it or
    /// has another shape than this block and its neurons say, a weight is not finite or above 10⁶⁰ or below
    /// 10⁻⁶⁰ in size, a slope is not finite or l > u, or there are more than 8192 neurons.
    pub fn new(inputs: usize, layers: Vec<Neurons>, output: Vec<Read>) -> Result<Self> {
        let rules = Rules("network");
        let count = layers.iter().map(|l| l.slopes.len()).sum::<usize>();
        let rule = format!("1 to {MOST_NEURONS}");
        rules.hold((1..=MOST_NEURONS).contains(&count), "neurons", rule, count)?;
        let mut sizes = vec![inputs];
        for (k, layer) in layers.iter().enumerate() {
            let place = format!("layer {}", k + 1);
            check_reads(&place, &layer.reads, layer.slopes.len(), &sizes)?;
            let sound = |[l, u]: &[f64; 2]| l.is_finite() && u.is_finite() && l <= u;
            if let Some(found) = layer.slopes.iter().find(|slopes| !sound(slopes)) {
                let found = format!("{found:?}");
                return Err(Error::invalid(place, "slopes l ≤ u, finite", found));
            }
            sizes.push(layer.slopes.len());
        }
        let outputs = output.first().map_or(0, |(_, c)| c.nrows());
        check_reads("output", &output, outputs, &sizes)?;
        let network = Self {
            inputs,
            layers,
            output,
            roundings: 0,
        };
        network.maps().try_for_each(|(_, a)| check_weights(a))?;
        Ok(network)
    }

    /// W_l σ(… σ(W₁ x + b₁) …) + b_l from W₁, …, W_l, each `[out, in]`, all neurons with the same slopes:
    /// \[0, 1\] for ReLU.
    ///
    /// # Errors
    /// As [`new`](Self::new); and if there are fewer than two matrices.
    pub fn chain(mut weights: Vec<Array2<f64>>, slopes: [f64; 2]) -> Result<Self> {
        let Some(last) = weights.pop().filter(|_| !weights.is_empty()) else {
            return Err(Error::invalid("network", "two matrices or more", "fewer"));
        };
        let (inputs, count) = (weights[0].ncols(), weights.len());
        let layers = weights.into_iter().enumerate();
        let layers = layers.map(|(k, w)| Neurons {
            slopes: vec![slopes; w.nrows()],
            reads: vec![(k, w)],
        });
        Self::new(inputs, layers.collect(), vec![(count, last)])
    }

    /// The same network, of which each weight was computed with at most so many roundings.
    #[doc(hidden)]
    pub fn with_roundings(mut self, roundings: usize) -> Self {
        self.roundings = roundings;
        self
    }

    /// The layers of neurons.
    pub fn layers(&self) -> &[Neurons] {
        &self.layers
    }

    /// The number of outputs.
    pub fn outputs(&self) -> usize {
        self.output[0].1.nrows()
    }

    /// The network with output `row` alone.
    ///
    /// # Panics
    /// If there is no such output.
    #[must_use]
    #[track_caller]
    pub fn one_output(&self, row: usize) -> Self {
        let n = self.outputs();
        assert!(
            row < n,
            "Network::one_output: there are {n} outputs, not a number {row}"
        );
        self.with_outputs(|c| c.slice(s![row..=row, ..]).to_owned())
    }

    /// The network with the difference of two outputs, f_a − f_b, as its output: a prediction a cannot
    /// change to b within the distance (f_a − f_b) / L.
    ///
    /// # Panics
    /// If one of them is not there.
    #[must_use]
    #[track_caller]
    pub fn margin(&self, a: usize, b: usize) -> Self {
        let n = self.outputs();
        assert!(
            a < n && b < n,
            "Network::margin: there are {n} outputs, not the numbers {a} and {b}"
        );
        self.with_outputs(|c| (&c.row(a) - &c.row(b)).insert_axis(Axis(0)))
    }

    fn with_outputs(&self, rows: impl Fn(&Array2<f64>) -> Array2<f64>) -> Self {
        let output = self.output.iter().map(|(j, c)| (*j, rows(c)));
        Self {
            output: output.collect(),
            ..self.clone()
        }
    }

    /// All maps: those of each layer, then those of the output.
    fn maps(&self) -> impl Iterator<Item = &Read> {
        self.layers
            .iter()
            .flat_map(|l| &l.reads)
            .chain(&self.output)
    }

    /// The number of values of each block: the input, each layer, the output.
    fn sizes(&self) -> Vec<usize> {
        let neurons = self.layers.iter().map(|l| l.slopes.len());
        [self.inputs]
            .into_iter()
            .chain(neurons)
            .chain([self.outputs()])
            .collect()
    }

    /// A network with the same constants whose inputs are not more than the rows of all maps that read the
    /// input, and Q: with Q R = Aᵀ for these rows A, A x = Rᵀ (Qᵀ x), and Qᵀ has orthonormal rows. `None` for
    /// Q if the network is the same.
    fn with_fewer_inputs(&self) -> (Self, Option<Array2<f64>>) {
        let maps: Vec<ArrayView2<'_, f64>> = self
            .maps()
            .filter(|(j, _)| *j == 0)
            .map(|(_, a)| a.view())
            .collect();
        let rows: usize = maps.iter().map(ArrayView2::nrows).sum();
        if rows == 0 || rows >= self.inputs {
            return (self.clone(), None);
        }
        let all = concatenate(Axis(0), &maps).expect("equal widths");
        let (q, r) = qr(all.t());
        let mut first = 0;
        let mut reduced = Self {
            inputs: rows,
            ..self.clone()
        };
        let layers = reduced.layers.iter_mut().flat_map(|l| &mut l.reads);
        for (_, a) in layers.chain(&mut reduced.output).filter(|(j, _)| *j == 0) {
            let end = first + a.nrows();
            *a = r.slice(s![.., first..end]).reversed_axes().to_owned();
            first = end;
        }
        (reduced, Some(q))
    }
}

/// Checks that maps fit the blocks that they read and the rows that they write.
fn check_reads(place: &str, reads: &[Read], rows: usize, sizes: &[usize]) -> Result<()> {
    let rules = Rules(place);
    rules.hold(
        !reads.is_empty() && rows > 0,
        "maps",
        "one or more, with rows",
        "none",
    )?;
    for (j, a) in reads {
        rules.hold(
            *j < sizes.len(),
            "block that is read",
            format!("below {}", sizes.len()),
            j,
        )?;
        let expected = [rows, sizes[*j]];
        let found = format!("{:?}", a.shape());
        rules.hold(
            a.shape() == expected,
            &format!("map of block {j}"),
            format!("{expected:?}"),
            found,
        )?;
    }
    Ok(())
}

fn check_weights(a: &Array2<f64>) -> Result<()> {
    let usual = |x: &&f64| **x == 0.0 || USUAL.contains(&x.abs());
    match a.iter().find(|x| !usual(x)) {
        None => Ok(()),
        Some(x) => Err(Error::invalid(
            "weight of a network",
            "0, or 10⁻⁶⁰ to 10⁶⁰ in size",
            x.to_string(),
        )),
    }
}
