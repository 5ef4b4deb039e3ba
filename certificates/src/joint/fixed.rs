//! Neurons with one slope, l = u = s: v = s y, a linear map. The search leaves them out, and the proof does
//! not.
//!
//! For such a neuron f = g, and its term of P is λ f fᵀ, where f · Δv = Δv_i − s Δy_i is 0 for all pairs of
//! inputs: λ may be any number. As λ grows, the form becomes that of the network in which s y stands in the
//! place of v. So the search multiplies these neurons out, in floating point, and finds the multipliers of
//! the others. The proof takes the weights as they are stored, and a large λ for each neuron with one slope.

use super::search::{Barrier, Point};
use super::{Network, Neurons, Read};
use crate::kernels::gemm::matmul;
use crate::linalg::Upper;
use ndarray::{Array2, Axis};
use std::collections::BTreeMap;

/// The sizes of λ that are tried, relative to the terms in which the neuron has a part: a larger one is
/// nearer to the limit, and leaves less for the rounding of the proof.
const SIZES: [f64; 8] = [1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 1e8];

/// A value as a sum of maps of the blocks of another network.
type Sum = BTreeMap<usize, Array2<f64>>;

/// Points with a small τ, which is the one that their multipliers reach, for a network that is not constant;
/// from the smallest τ on, but some may be lost in the rounding of the proof. Empty if numbers overflow or
/// vanish.
pub(super) fn search(network: &Network) -> Vec<Point> {
    let (network, _) = network.with_fewer_inputs();
    let barrier = Barrier::new(&network);
    let reached = |at: Point| {
        let at = barrier.of_size_one(at);
        Some(Point {
            square: barrier.reached(&at.multipliers)?,
            ..at
        })
    };
    let found = minima(&network).unwrap_or_default();
    let found = found.into_iter().filter_map(reached);
    let mut found: Vec<Point> = found.filter(|at| at.square > 0.0).collect();
    found.sort_by(|a, b| a.square.total_cmp(&b.square));
    found
}

/// The last points of the barrier method; or if there are neurons that have one slope, the last one with
/// several sizes of their multipliers.
pub(super) fn minima(network: &Network) -> Option<Vec<Point>> {
    let Some(kept) = kept(network) else {
        return Barrier::new(network).path();
    };
    let rest = without_fixed(network, &kept);
    let barrier = Barrier::new(&rest);
    let at = match rest.layers.is_empty() {
        true => Point {
            square: barrier.reached(&[])?,
            multipliers: Vec::new(),
        },
        false => barrier.minimum()?,
    };
    let gap = at.square - barrier.reached(&at.multipliers)?;
    let mut all = lifted(network, &kept, &at);
    all.iter_mut().for_each(|at| at.square += gap);
    Some(all)
}

/// The neurons that have two slopes, and inputs with multipliers, in their order; `None` if all have.
fn kept(network: &Network) -> Option<Vec<Vec<usize>>> {
    let layers = network.layers.iter().map(|layer| {
        let neurons = layer.slopes.iter().enumerate();
        neurons
            .filter(|(_, [l, u])| l < u || layer.reads.is_empty())
            .map(|(i, _)| i)
            .collect::<Vec<_>>()
    });
    let kept: Vec<_> = layers.collect();
    let all = network.layers.iter().zip(&kept);
    let fixed = all.filter(|(layer, kept)| kept.len() < layer.slopes.len());
    (fixed.count() > 0).then_some(kept)
}

/// The network of the neurons that are kept; to rounding.
fn without_fixed(network: &Network, kept: &[Vec<usize>]) -> Network {
    let sizes = network.sizes();
    let mut blocks = vec![Sum::from([(0, Array2::eye(network.inputs))])];
    let mut layers = Vec::new();
    for (k, layer) in network.layers.iter().enumerate() {
        let arguments = through(&layer.reads, &blocks);
        let kept = &kept[k];
        if !kept.is_empty() {
            layers.push(Neurons {
                reads: arguments
                    .iter()
                    .map(|(j, a)| (*j, a.select(Axis(0), kept)))
                    .collect(),
                slopes: kept.iter().map(|&i| layer.slopes[i]).collect(),
            });
        }
        // The rows of those that are kept are replaced by unit vectors of their own block.
        let mut values = arguments;
        for map in values.values_mut() {
            for (mut row, [l, u]) in map.outer_iter_mut().zip(&layer.slopes) {
                row *= if l < u { 0.0 } else { *l };
            }
        }
        if !kept.is_empty() {
            let mut own = Array2::zeros((sizes[k + 1], kept.len()));
            (kept.iter().enumerate()).for_each(|(column, &i)| own[[i, column]] = 1.0);
            values.insert(layers.len(), own);
        }
        blocks.push(values);
    }
    Network {
        inputs: network.inputs,
        layers,
        output: through(&network.output, &blocks).into_iter().collect(),
        roundings: network.roundings,
    }
}

/// Σ A_j v_j for values v_j that are sums themselves.
fn through(reads: &[Read], blocks: &[Sum]) -> Sum {
    let mut sum = Sum::new();
    for (j, a) in reads {
        for (block, map) in &blocks[*j] {
            let product = matmul(a.view(), map.view());
            match sum.get_mut(block) {
                Some(all) => *all += &product,
                None => drop(sum.insert(*block, product)),
            }
        }
    }
    sum
}

/// Points of the whole network, from that of the neurons that are kept: one per size of the other
/// multipliers.
fn lifted(network: &Network, kept: &[Vec<usize>], rest: &Point) -> Vec<Point> {
    let barrier = Barrier::new(network);
    let mut multipliers = vec![0.0; barrier.neurons(network.layers.len() - 1).end];
    let mut found = rest.multipliers.iter();
    for (k, kept) in kept.iter().enumerate() {
        let first = barrier.neurons(k).start;
        kept.iter()
            .zip(found.by_ref())
            .for_each(|(i, l)| multipliers[first + i] = *l);
    }
    let parts = parts(network, &barrier, &multipliers, rest.square);
    let of_size = |size: f64| {
        let each = multipliers.iter().zip(&parts);
        let all: Vec<f64> = each
            .map(|(l, part)| if *l > 0.0 { *l } else { size * part })
            .collect();
        let square = barrier.reached(&all)?;
        Some(Point {
            multipliers: all,
            square,
        })
    };
    SIZES.into_iter().filter_map(of_size).collect()
}

impl Network {
    /// A proven constant, and for each neuron how much may be gained by the knowledge of its slope: λ times
    /// the smaller of the two squares (Δv − l Δy)² and (Δv − u Δy)² in the mean, for the Δv that the
    /// relaxation takes for the worst.
    pub(super) fn bounded(&self) -> (Upper, Vec<f64>) {
        let none: Vec<f64> = self
            .layers
            .iter()
            .flat_map(|l| vec![0.0; l.slopes.len()])
            .collect();
        if self.is_linear() {
            return (self.lipschitz().unwrap_or(Upper::INFINITE), none);
        }
        self.relaxed().unwrap_or((Upper::INFINITE, none))
    }

    fn relaxed(&self) -> Option<(Upper, Vec<f64>)> {
        let all = || self.layers.iter().map(|l| (0..l.slopes.len()).collect());
        let kept = kept(self).unwrap_or_else(|| all().collect());
        let rest = without_fixed(self, &kept);
        let barrier = Barrier::new(&rest);
        let at = barrier.minimum()?;
        let mut slack = barrier.slack(&at)?.into_iter();
        let mut points = lifted(self, &kept, &at);
        points.sort_by(|a, b| a.square.total_cmp(&b.square));
        // No certificate is written. With a wider margin than the proof needs, branches whose constant is the
        // largest one to rounding would have to be divided further.
        let (at, below) = self.best(points, 1.0)?;
        let square = self.sharpened(at, below, 1.0).square;
        let layers = self.layers.iter().zip(&kept);
        let is_kept = layers.flat_map(|(l, kept)| (0..l.slopes.len()).map(|i| kept.contains(&i)));
        let scores = is_kept.map(|is_kept| match is_kept {
            true => slack.next().unwrap_or(0.0),
            false => 0.0,
        });
        Some((Upper::new(square.sqrt()), scores.collect()))
    }
}

/// How large the terms are in which each neuron has a part, from the output to the first layer: with λ for
/// the neurons that are kept, and their own parts for the others, Σ λ_j A_ji² + Σ C_oi² / τ.
fn parts(network: &Network, barrier: &Barrier<'_>, multipliers: &[f64], square: f64) -> Vec<f64> {
    let mut parts = vec![0.0_f64; multipliers.len()];
    let read = |parts: &mut Vec<f64>, reads: &[Read], weights: &[f64]| {
        for (j, a) in reads.iter().filter(|(j, _)| *j > 0) {
            let own = barrier.neurons(j - 1);
            for (row, weight) in a.outer_iter().zip(weights) {
                let terms = parts[own.clone()].iter_mut().zip(row);
                terms.for_each(|(part, x)| *part += weight * x * x);
            }
        }
    };
    read(
        &mut parts,
        &network.output,
        &vec![1.0 / square; network.outputs()],
    );
    for (k, layer) in network.layers.iter().enumerate().rev() {
        let own = barrier.neurons(k);
        let each = own.clone().zip(&layer.slopes);
        let weights: Vec<f64> = each
            .map(|(i, [l, u])| {
                let weight = if l < u { multipliers[i] } else { parts[i] };
                weight * l.abs().max(u.abs()).powi(2)
            })
            .collect();
        read(&mut parts, &layer.reads, &weights);
    }
    // What nothing reads has no part; its λ must be positive all the same.
    parts.into_iter().map(|part| part.max(1e-100)).collect()
}
