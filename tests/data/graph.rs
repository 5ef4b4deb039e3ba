//! Graphs: policies, transformations and norms against naive dense references, on random edge lists.

use emmy::graph::{Duplicates, Graph, SelfLoops, inverse};
use emmy::sparse::Csr;
use emmy::{Error, Tensor};
use emmy_strategies::{edge_lists, permutations};
use ndarray::Axis;
use proptest::prelude::*;

/// A_ij = 1 for the edge j → i.
fn dense(graph: &Graph) -> Vec<Vec<f64>> {
    let n = graph.nodes();
    let mut a = vec![vec![0.0; n]; n];
    for (j, i) in graph.edge_list() {
        a[i as usize][j as usize] = 1.0;
    }
    a
}

fn from_dense(a: &[Vec<f64>]) -> Graph {
    let n = a.len();
    let all = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let edges: Vec<_> = all
        .filter(|&(i, j)| a[i][j] != 0.0)
        .map(|(i, j)| (j as u32, i as u32))
        .collect();
    Graph::new(n, &edges, Duplicates::Reject, SelfLoops::Keep).unwrap()
}

/// From lists with duplicates, self-loops and isolated nodes.
fn graphs() -> impl Strategy<Value = Graph> {
    edge_lists(1..12, 0..40)
        .prop_map(|(n, e)| Graph::new(n, &e, Duplicates::Merge, SelfLoops::Keep).unwrap())
}

fn graph_and_permutation() -> impl Strategy<Value = (Graph, Vec<usize>)> {
    graphs().prop_flat_map(|g| {
        let n = g.nodes();
        (Just(g), permutations(n))
    })
}

fn values(matrix: Csr<f64>) -> Vec<f64> {
    matrix.values.iter().copied().collect()
}

fn close(a: &Tensor<f64>, b: &[Vec<f64>]) -> bool {
    let n = b.len();
    a.shape() == [n, n] && (0..n * n).all(|k| (a[[k / n, k % n]] - b[k / n][k % n]).abs() < 1e-15)
}

#[test]
fn an_edge_goes_from_source_to_target() {
    let g = Graph::new(3, &[(0, 2), (1, 2)], Duplicates::Reject, SelfLoops::Reject).unwrap();
    assert_eq!(g.sources(2), [0, 1]);
    assert!(g.sources(0).is_empty());
    assert!(g.has_edge(0, 2) && !g.has_edge(2, 0));
    assert_eq!(g.in_degrees(), [0, 0, 2]);
    assert_eq!(g.out_degrees(), [1, 1, 0]);
    assert_eq!(g.reversed().sources(0), [2]);
    assert!(!g.is_symmetric());
    // Rows of the pattern are targets.
    assert_eq!(g.pattern().find(2, 0), Some(0));
}

#[test]
fn policies_reject_and_say_where() {
    let message = |edges: &[(u32, u32)]| {
        let e = Graph::new(3, edges, Duplicates::Reject, SelfLoops::Reject).unwrap_err();
        assert!(matches!(e, Error::Invalid { .. }));
        e.to_string()
    };
    assert_eq!(
        message(&[(0, 1), (1, 3)]),
        "graph: edge 1: expected two node numbers below 3, found 1 → 3"
    );
    assert_eq!(
        message(&[(0, 1), (2, 2)]),
        "graph: edge 1: expected no self-loop, found 2 → 2"
    );
    assert_eq!(
        message(&[(0, 1), (1, 0), (0, 1)]),
        "graph: edges: expected every edge once, found 0 → 1 more than once"
    );
    assert!(message(&[(u32::MAX, 0)]).contains("below 3"));
    // It is refused before memory for every node is allocated.
    let e = Graph::new(usize::MAX, &[], Duplicates::Reject, SelfLoops::Reject).unwrap_err();
    assert!(e.to_string().contains("at most 4294967295"), "{e}");
    let oblong = emmy::sparse::Pattern::from_pairs(2, 3, &[(0, 0)]).unwrap();
    let e = Graph::from_pattern(oblong).unwrap_err();
    assert!(e.to_string().contains("2 × 3"), "{e}");
}

#[test]
fn empty_and_edgeless_graphs() {
    let none = Graph::new(0, &[], Duplicates::Reject, SelfLoops::Reject).unwrap();
    assert_eq!(none.symmetrise().with_self_loops().edges(), 0);
    assert_eq!(none.gcn_norm::<f32>().values.len(), 0);
    let alone = Graph::new(3, &[], Duplicates::Reject, SelfLoops::Reject).unwrap();
    assert_eq!(alone.isolated(), [0, 1, 2]);
    assert_eq!(alone.edge_homophily(&[0, 0, 0]), None);
    // A node whose only edge is its self-loop keeps its features.
    assert_eq!(values(alone.gcn_norm()), [1.0; 3]);
    assert_eq!(values(alone.row_norm()), [1.0; 3]);
}

#[test]
fn directed_gcn_norm_takes_the_in_degree_at_both_ends() {
    // 0 → 1, 0 → 2, 1 → 2 with self-loops: in-degrees 1, 2, 3. Values of PyTorch Geometric's gcn_norm.
    let edges = [(0, 1), (0, 2), (1, 2)];
    let g = Graph::new(3, &edges, Duplicates::Reject, SelfLoops::Reject).unwrap();
    let norm = g.gcn_norm::<f64>().to_dense();
    let expected = vec![
        vec![1.0, 0.0, 0.0],
        vec![1.0 / 2_f64.sqrt(), 1.0 / 2.0, 0.0],
        vec![1.0 / 3_f64.sqrt(), 1.0 / 6_f64.sqrt(), 1.0 / 3.0],
    ];
    assert!(close(&norm, &expected), "{norm}");
}

#[test]
fn without_self_loops_an_edge_from_a_node_of_in_degree_zero_has_weight_zero() {
    // 0 → 1, 1 → 2, 0 → 2: in-degrees 0, 1, 2. PyTorch Geometric sets 1 / √0 to 0.
    let edges = [(0, 1), (1, 2), (0, 2)];
    let g = Graph::new(3, &edges, Duplicates::Reject, SelfLoops::Reject).unwrap();
    let norm = g.symmetric_norm::<f64>().to_dense();
    let expected = vec![
        vec![0.0; 3],
        vec![0.0; 3],
        vec![0.0, 1.0 / 2_f64.sqrt(), 0.0],
    ];
    assert!(close(&norm, &expected), "{norm}");
}

#[test]
fn homophily_and_components_of_a_known_graph() {
    let edges = [(0, 1), (1, 2), (3, 4), (4, 4)];
    let g = Graph::new(6, &edges, Duplicates::Reject, SelfLoops::Keep).unwrap();
    assert_eq!(g.components(), [0, 0, 0, 1, 1, 2]);
    assert_eq!(g.isolated(), [5]);
    assert_eq!(g.self_loops(), 1);
    assert_eq!(g.edge_homophily(&[7, 7, 0, 1, 1, 1]), Some(2.0 / 3.0));
    assert_eq!(g.symmetrise().edges(), 7);
}

/// A shuffled path becomes a path again, and a shuffled grid of 8 × 20 about as narrow as its short side: at
/// most two diagonals of it stand between neighbours.
#[test]
fn cuthill_and_mckee_find_the_layout_of_a_path_and_of_a_grid() {
    use emmy::graph::generators::{grid, path};
    for (graph, narrow) in [(path(50), 1), (grid(8, 20), 16)] {
        let n = graph.nodes();
        // 7 divides neither number of nodes.
        let to: Vec<_> = (0..n).map(|i| 7 * i % n).collect();
        let shuffled = graph.permute(&to);
        assert!(shuffled.bandwidth() > narrow);
        let found = shuffled.permute(&shuffled.cuthill_mckee());
        assert!(found.bandwidth() <= narrow, "{}", found.bandwidth());
    }
    // Reversed: the node of lowest degree with which the walk begins is the last.
    assert_eq!(path(3).cuthill_mckee(), [2, 1, 0]);
    let empty = Graph::new(0, &[], Duplicates::Reject, SelfLoops::Keep).unwrap();
    assert!(empty.cuthill_mckee().is_empty() && empty.bandwidth() == 0);
    // Two nodes without edges, and edges in one direction.
    let parts = Graph::new(5, &[(4, 0), (2, 4)], Duplicates::Reject, SelfLoops::Keep).unwrap();
    assert_eq!(parts.permute(&parts.cuthill_mckee()).bandwidth(), 1);
}

/// Everything that belongs to a node moves with it.
#[test]
fn a_data_set_is_renumbered_whole() {
    let club = emmy::data::karate();
    let to = club.graph.cuthill_mckee();
    let moved = club.permute(&to);
    let (before, after) = (club.features.to_dense(), moved.features.to_dense());
    for (i, &k) in to.iter().enumerate() {
        assert_eq!(club.labels[i], moved.labels[k]);
        assert_eq!(before.index_axis(Axis(0), i), after.index_axis(Axis(0), k));
        for (a, b) in club.splits.iter().zip(&moved.splits) {
            for (a, b) in [(&a.train, &b.train), (&a.val, &b.val), (&a.test, &b.test)] {
                assert_eq!(a[i], b[k]);
            }
        }
    }
    assert_eq!(moved.graph, club.graph.permute(&to));
}

#[test]
#[should_panic(expected = "a permutation of 0..3 is needed")]
fn permute_wants_a_permutation() {
    let _ = emmy::graph::generators::path(3).permute(&[0, 2, 2]);
}

proptest! {
    #[test]
    fn policies_keep_merge_and_remove((n, edges) in edge_lists(1..12, 0..40)) {
        let merged = Graph::new(n, &edges, Duplicates::Merge, SelfLoops::Keep).unwrap();
        let mut expected = edges.clone();
        expected.sort_unstable_by_key(|&(s, t)| (t, s));
        expected.dedup();
        prop_assert_eq!(merged.edge_list().collect::<Vec<_>>(), expected.clone());

        let removed = Graph::new(n, &edges, Duplicates::Merge, SelfLoops::Remove).unwrap();
        prop_assert_eq!(&removed, &merged.without_self_loops());
        prop_assert_eq!(removed.edges() + merged.self_loops(), merged.edges());

        let strict = Graph::new(n, &edges, Duplicates::Reject, SelfLoops::Keep);
        prop_assert_eq!(strict.is_ok(), expected.len() == edges.len());
        let loopless = Graph::new(n, &edges, Duplicates::Merge, SelfLoops::Reject);
        prop_assert_eq!(loopless.is_ok(), edges.iter().all(|(s, t)| s != t));
    }

    #[test]
    fn transformations_equal_dense_ones(g in graphs()) {
        let (a, n) = (dense(&g), g.nodes());
        let map = |f: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
            (0..n).map(|i| (0..n).map(|j| f(i, j)).collect()).collect()
        };
        let symmetric = map(&|i, j| a[i][j].max(a[j][i]));
        let looped = map(&|i, j| if i == j { 1.0 } else { a[i][j] });
        let bare = map(&|i, j| if i == j { 0.0 } else { a[i][j] });
        let turned = map(&|i, j| a[j][i]);
        prop_assert_eq!(g.symmetrise(), from_dense(&symmetric));
        prop_assert_eq!(g.with_self_loops(), from_dense(&looped));
        prop_assert_eq!(g.without_self_loops(), from_dense(&bare));
        prop_assert_eq!(g.reversed(), from_dense(&turned));
        prop_assert_eq!(g.is_symmetric(), a == turned);

        let degree: Vec<f64> = looped.iter().map(|row| row.iter().sum()).collect();
        let gcn = map(&|i, j| looped[i][j] / (degree[i].sqrt() * degree[j].sqrt()));
        let row = map(&|i, j| looped[i][j] / degree[i]);
        prop_assert!(close(&g.gcn_norm().to_dense(), &gcn));
        prop_assert!(close(&g.row_norm().to_dense(), &row));
        prop_assert_eq!(g.gcn_norm::<f32>().values, g.gcn_norm::<f64>().cast::<f32>().values);
    }

    #[test]
    fn permutation_moves_everything_along((g, to) in graph_and_permutation()) {
        let moved = g.permute(&to);
        prop_assert_eq!(moved.edges(), g.edges());
        prop_assert!(g.edge_list().all(|(j, i)| moved.has_edge(to[j as usize], to[i as usize])));
        prop_assert_eq!(moved.symmetrise(), g.symmetrise().permute(&to));
        let (before, after) = (g.gcn_norm::<f64>().to_dense(), moved.gcn_norm::<f64>().to_dense());
        for i in 0..g.nodes() {
            for j in 0..g.nodes() {
                prop_assert_eq!(before[[i, j]], after[[to[i], to[j]]]);
            }
        }
        prop_assert_eq!(moved.permute(&inverse(&to)), g);
    }

    #[test]
    fn orders_are_permutations(g in graphs()) {
        for to in [g.cuthill_mckee(), g.by_degree()] {
            prop_assert_eq!(g.permute(&to).edges(), g.edges());
        }
        let degrees = g.permute(&g.by_degree()).out_degrees();
        prop_assert!(degrees.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_disjoint_union_leaves_both_parts_alone(a in graphs(), b in graphs()) {
        let (both, n) = (a.disjoint_union(&b), a.nodes());
        prop_assert_eq!(both.nodes(), n + b.nodes());
        prop_assert_eq!(both.edges(), a.edges() + b.edges());
        for i in 0..n { prop_assert_eq!(both.sources(i), a.sources(i)); }
        for i in 0..b.nodes() {
            let shifted: Vec<u32> = b.sources(i).iter().map(|&j| j + n as u32).collect();
            prop_assert_eq!(both.sources(n + i), &shifted[..]);
        }
        let mut norm = values(a.gcn_norm());
        norm.extend(b.gcn_norm::<f64>().values.iter());
        prop_assert_eq!(values(both.gcn_norm()), norm);
    }
}
