//! How the bound of a network changes with its weights.

use super::Network;
use super::fixed::minima;
use super::search::Barrier;
use crate::kernels::gemm::matmul;
use ndarray::{Array1, Array2, Axis, s};

/// L, and its derivative in each map, those of the layers first. `None` as for the search.
///
/// The smallest value of w τ − ln det P(Λ, τ) changes with the weights W by −tr(S dP), S = P⁻¹ (the
/// envelope theorem: Λ and τ are where their own derivatives are 0). τ is stationary, so w is the trace of
/// the part of S that belongs to the outputs, and with Z = S / w
///
/// dτ = −tr(Z dP) = Σ_i λ_i ((l_i + u_i) Z_i − 2 l_i u_i a_i Z) · da_i − 2 tr(Z_oᵀ dC),
///
/// where Z_i is row i of Z at the values that a_i reads, and Z_o its rows at the outputs.
#[doc(hidden)]
pub fn sensitivity(network: &Network) -> Option<(f64, Vec<Array2<f64>>)> {
    let (reduced, q) = network.with_fewer_inputs();
    let barrier = Barrier::new(&reduced);
    let all = minima(&reduced)?.into_iter();
    let at = all.min_by(|a, b| a.square.total_cmp(&b.square))?;
    let lipschitz = barrier.reached(&at.multipliers)?.sqrt();
    let mut z = barrier.matrix(&at).cholesky()?.inverse();
    let output = barrier.rows(reduced.layers.len() + 1);
    let trace = z.slice(s![output.clone(), output.clone()]).diag().sum();
    z /= trace;

    let mut slopes = Vec::new();
    for (k, layer) in reduced.layers.iter().enumerate() {
        let multipliers = &at.multipliers[barrier.neurons(k)];
        let factors = |of: fn([f64; 2]) -> f64| {
            let each = layer.slopes.iter().zip(multipliers);
            let each: Array1<f64> = each.map(|(slopes, l)| of(*slopes) * l).collect();
            each.insert_axis(Axis(1))
        };
        let (sums, products) = (factors(|[l, u]| l + u), factors(|[l, u]| 2.0 * l * u));
        for (j, _) in &layer.reads {
            let columns = barrier.rows(*j);
            let mut slope = &z.slice(s![barrier.rows(k + 1), columns.clone()]) * &sums;
            for (i, a) in &layer.reads {
                let through = matmul(a.view(), z.slice(s![barrier.rows(*i), columns.clone()]));
                slope -= &(through * &products);
            }
            slopes.push((*j, slope));
        }
    }
    for (j, _) in &reduced.output {
        let slope = &z.slice(s![output.clone(), barrier.rows(*j)]) * -2.0;
        slopes.push((*j, slope));
    }
    let slopes = slopes.into_iter().map(|(j, slope)| {
        let slope = slope / (2.0 * lipschitz);
        match &q {
            Some(q) if j == 0 => matmul(slope.view(), q.t()),
            _ => slope,
        }
    });
    Some((lipschitz, slopes.collect()))
}
