//! Dirichlet energy: how much features differ along the edges of a graph.

use super::sizes;
use crate::autodiff::Var;
use crate::graph::Graph;
use crate::ops::sparse::{gather_columns, gather_rows};
use crate::real::Real;

/// E(X) = ½ Σ_{j→i} ‖x_i − x_j‖², on an undirected graph tr(Xᵀ(D − A)X), shape `[n, d]` → `[]`.
///
/// Each undirected edge counts once, each edge without its reverse half; self-loops add nothing. It is 0
/// exactly where the rows are equal within each component; √E satisfies the triangle inequality, so on a
/// connected graph it is a measure of oversmoothing (Rusch, Bronstein and Mishra, 2023, whose E is 2/n times
/// this one).
///
/// One row of features is stored per edge: a difference of equal rows is 0 without rounding.
///
/// # Panics
/// If x does not have one row per node.
#[track_caller]
pub fn dirichlet_energy<'t, F: Real>(x: Var<'t, F>, graph: &Graph) -> Var<'t, F> {
    energy("dirichlet_energy", x, graph)
}

/// ½ Σ_{j→i} ‖x_i/√d_i − x_j/√d_j‖² with the degrees of the graph, on an undirected graph
/// tr(Xᵀ(I − D^-½ A D^-½)X) but for isolated nodes, which add nothing here.
///
/// With [`Graph::with_self_loops`] it is the energy of Cai and Wang, "A Note on Over-Smoothing for Graph
/// Neural Networks", 2020. A propagation by [`Graph::gcn_norm`] does not increase it. It is 0 exactly where
/// x_i/√d_i is constant on each component, so for constant rows only if all degrees are equal: it measures
/// the distance to the limit of repeated propagation, not to constant rows.
///
/// On a directed graph d is the number of edges into a node, and x_i/√d_i is 0 for a node without such edges.
///
/// # Panics
/// If x does not have one row per node.
#[track_caller]
pub fn normalised_dirichlet_energy<'t, F: Real>(x: Var<'t, F>, graph: &Graph) -> Var<'t, F> {
    let op = "normalised_dirichlet_energy";
    check(op, x, graph);
    let degrees = graph.in_degrees().into_iter();
    let scales = degrees.map(|d| match d {
        0 => F::zero(),
        d => F::of((d as f64).sqrt().recip()),
    });
    let scales: Vec<F> = scales.collect();
    let scales = x.tape().constant(scales).unsqueeze(1);
    energy(op, x * scales, graph)
}

#[track_caller]
fn energy<'t, F: Real>(op: &str, x: Var<'t, F>, graph: &Graph) -> Var<'t, F> {
    check(op, x, graph);
    let pattern = graph.pattern();
    let difference = gather_rows(pattern, x) - gather_columns(pattern, x);
    difference.square().sum_all().scale(F::of(0.5))
}

#[track_caller]
fn check<F: Real>(op: &str, x: Var<'_, F>, graph: &Graph) {
    let [n, _] = sizes(op, &x.shape());
    let nodes = graph.nodes();
    assert!(
        n == nodes,
        "{op}: x has {n} rows, the graph {nodes} nodes: there must be one row per node"
    );
}
