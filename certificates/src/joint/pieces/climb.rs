//! The search for an input where a network is steep, from pattern to pattern.

use super::{Pattern, Pieces, Steep};
use crate::joint::Read;
use crate::kernels::draw;
use crate::kernels::{gemm::matmul, random::mix};
use ndarray::{Array1, Array2, Axis};
use rand::RngExt;
use rayon::prelude::*;

/// Steps of the power iteration after each change of a pattern.
const STEPS: usize = 8;

/// How many patterns are tried for an input in one climb.
const MOST_TRIES: usize = 100;

/// How often an input at which the network is constant is multiplied by 4.
const MOST_OUTWARD: usize = 200;

/// The direction in which a network with given slopes is steepest, and the derivatives along it.
pub(super) struct Direction {
    /// The derivatives of each layer's arguments in the input.
    pub arguments: Vec<Array2<f64>>,
    /// The derivatives of uᵀ f in the values of each block.
    pub backward: Vec<Array1<f64>>,
    /// Jᵀ u.
    pub along: Array1<f64>,
    /// The left singular vector of the largest singular value.
    pub u: Array1<f64>,
}

/// A climb through all patterns, whether they have an input or not.
struct Climbed {
    /// The random input at which it began, and its pattern.
    input: Array1<f64>,
    start: Pattern,
    /// The pattern at its end, and about its ‖J‖.
    end: Pattern,
    norm: f64,
}

impl Pieces {
    /// An input where the network is steep, the steepest that a number of climbs find; `None` if none of them
    /// ends inside of a piece.
    ///
    /// Each climb begins with the pattern of a random input. It changes the slope of one neuron, the one
    /// that gains most, until none gains. The steepest of the patterns at the ends is taken that has an
    /// input. From the inputs at which steeper ones without an input began, and from those to which
    /// gradient ascent leads from them, it climbs again, and each pattern must have an input then; up to
    /// 100 patterns are tried. The result does not depend on the number of threads.
    pub fn climb(&self, starts: usize, seed: u64) -> Option<Steep> {
        // Only the part of the input that the first layers read counts.
        let (network, q) = self.network.with_fewer_inputs();
        let reduced = Self {
            network,
            biases: self.biases.clone(),
        };
        let seeds: Vec<u64> = (0..starts as u64).map(|k| mix(seed, k)).collect();
        let free = |seed: &u64| {
            let (input, start) = reduced.start(*seed)?;
            let (end, norm) = reduced.climb_pattern(start.clone(), |_| true);
            Some(Climbed {
                input,
                start,
                end,
                norm,
            })
        };
        let climbed: Vec<Option<_>> = seeds.par_iter().map(free).collect();
        let mut climbed: Vec<Climbed> = climbed.into_iter().flatten().collect();
        climbed.sort_by(|a, b| b.norm.total_cmp(&a.norm).then_with(|| a.end.cmp(&b.end)));
        climbed.dedup_by(|a, b| a.end == b.end);
        let first = climbed
            .iter()
            .position(|climbed| reduced.input(&climbed.end).is_some());
        let before = first.unwrap_or(climbed.len());
        let among_inputs = |start: Pattern| {
            let mut tries = 0;
            let allowed = |pattern: &Pattern| {
                tries += 1;
                tries <= MOST_TRIES && reduced.input(pattern).is_some()
            };
            reduced.climb_pattern(start, allowed).0
        };
        let again = climbed[..before].par_iter().flat_map_iter(|climbed| {
            let ascended = reduced.ascend(climbed.input.clone());
            let ascended = reduced.pattern(ascended.view());
            let starts = [Some(climbed.start.clone()), ascended];
            starts.into_iter().flatten().map(among_inputs)
        });
        let mut patterns: Vec<Pattern> = again.collect();
        patterns.extend(first.map(|k| climbed[k].end.clone()));
        let steep = |pattern: &Pattern| {
            let found = reduced.input(pattern)?;
            let input = match &q {
                Some(q) => q.dot(&found),
                None => found,
            };
            let lower = self.at(input.view())?;
            Some(Steep { input, lower })
        };
        (patterns.iter().filter_map(steep))
            .reduce(|a, b| if b.lower.get() > a.lower.get() { b } else { a })
    }

    /// A random input at which the Jacobian is not 0, and its pattern.
    ///
    /// Where all neurons of a layer are off, a network is constant. In a deep network that is so at most
    /// inputs whose size is that of the biases; far from 0 the biases matter less. So an input where the
    /// network is constant is multiplied by 4 until it is not.
    fn start(&self, seed: u64) -> Option<(Array1<f64>, Pattern)> {
        let rng = &mut draw::rng(seed);
        let size = 4f64.powi(rng.random_range(-2..3));
        let mut at = Array1::from_shape_fn(self.network.inputs, |_| rng.random_range(-size..size));
        for _ in 0..MOST_OUTWARD {
            let pattern = self.pattern(at.view())?;
            let (_, jacobian) = self.derivatives(&self.slopes(&pattern));
            if jacobian.iter().any(|x| *x != 0.0) {
                return Some((at, pattern));
            }
            at *= 4.0;
        }
        None
    }

    /// Changes one neuron after the other while that makes ‖J‖ larger, among the patterns that are allowed;
    /// the pattern at the end, and about its ‖J‖.
    fn climb_pattern(
        &self,
        mut pattern: Pattern,
        mut allowed: impl FnMut(&Pattern) -> bool,
    ) -> (Pattern, f64) {
        let mut direction = None;
        loop {
            let (norm, gains, u) = self.gains(&pattern, direction);
            let least = 1e-9 * norm * norm;
            let mut order: Vec<usize> = (0..gains.len()).filter(|i| gains[*i] > least).collect();
            order.sort_by(|a, b| gains[*b].total_cmp(&gains[*a]).then(a.cmp(b)));
            let next = order.into_iter().find_map(|i| {
                let mut other = pattern.clone();
                other[i] = other[i].map(|on| !on);
                allowed(&other).then_some(other)
            });
            match next {
                Some(next) => (pattern, direction) = (next, Some(u)),
                None => return (pattern, norm),
            }
        }
    }

    /// About ‖J‖, the gain in ‖Jᵀu‖² of a change of each neuron's slope, and u.
    ///
    /// If the slope changes by c, J becomes J + c b aᵀ, with a the derivative of the neuron's argument in the
    /// input, and b that of the outputs in its value. So the gain is 2 c (u·b) (a·Jᵀu) + c² (u·b)² ‖a‖², and
    /// ‖J‖² becomes larger by that at least.
    fn gains(&self, pattern: &Pattern, u: Option<Array1<f64>>) -> (f64, Vec<f64>, Array1<f64>) {
        let slopes = self.slopes(pattern);
        let Direction {
            arguments,
            backward,
            along,
            u,
        } = self.direction(&slopes, u);
        let mut gains = Vec::new();
        for (k, layer) in self.network.layers.iter().enumerate() {
            for (i, [low, high]) in layer.slopes.iter().enumerate() {
                let a = arguments[k].row(i);
                let by = (low + high - 2.0 * slopes[k][i]) * backward[k + 1][i];
                gains.push(2.0 * by * a.dot(&along) + by * by * a.dot(&a));
            }
        }
        (along.dot(&along).sqrt(), gains, u)
    }

    /// The steepest direction, which a few steps of a power iteration from `u` improve.
    pub(super) fn direction(&self, slopes: &[Array1<f64>], u: Option<Array1<f64>>) -> Direction {
        let network = &self.network;
        let (arguments, jacobian) = self.derivatives(slopes);
        let mut u = u.unwrap_or_else(|| Array1::from_elem(jacobian.nrows(), 1.0));
        let mut along = jacobian.t().dot(&u);
        for _ in 0..if u.len() > 1 { STEPS } else { 1 } {
            let next = jacobian.dot(&along);
            let size = next.dot(&next).sqrt();
            if size == 0.0 {
                break;
            }
            u = next / size;
            along = jacobian.t().dot(&u);
        }
        let sizes = network.sizes();
        let mut backward: Vec<Array1<f64>> = sizes.iter().map(|n| Array1::zeros(*n)).collect();
        for (j, c) in &network.output {
            backward[*j] += &c.t().dot(&u);
        }
        for k in (0..network.layers.len()).rev() {
            let own = &backward[k + 1] * &slopes[k];
            for (j, a) in &network.layers[k].reads {
                backward[*j] += &a.t().dot(&own);
            }
        }
        Direction {
            arguments,
            backward,
            along,
            u,
        }
    }

    /// The derivatives in the input, of the arguments of each layer and of the outputs.
    fn derivatives(&self, slopes: &[Array1<f64>]) -> (Vec<Array2<f64>>, Array2<f64>) {
        let mut arguments: Vec<Array2<f64>> = Vec::new();
        let sum = |reads: &[Read], arguments: &[Array2<f64>]| {
            let products = reads.iter().map(|(j, a)| match j.checked_sub(1) {
                None => a.clone(),
                Some(k) => {
                    let scaled = a * &slopes[k].view().insert_axis(Axis(0));
                    matmul(scaled.view(), arguments[k].view())
                }
            });
            products.reduce(|a, b| a + b).expect("a map")
        };
        for layer in &self.network.layers {
            let own = sum(&layer.reads, &arguments);
            arguments.push(own);
        }
        let jacobian = sum(&self.network.output, &arguments);
        (arguments, jacobian)
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
}
