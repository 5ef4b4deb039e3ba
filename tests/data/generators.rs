//! Generated graphs: known counts of the regular families and the karate club, statistics of the random ones.

use emmy::Graph;
use emmy::graph::generators::*;
use proptest::prelude::*;

/// Undirected, without self-loops, and with this many nodes and undirected edges.
#[track_caller]
fn is_simple(g: &Graph, nodes: usize, undirected_edges: usize) {
    assert_eq!((g.nodes(), g.edges()), (nodes, 2 * undirected_edges));
    assert!(g.is_symmetric());
    assert_eq!(g.self_loops(), 0);
}

fn component_count(g: &Graph) -> usize {
    g.components().iter().max().map_or(0, |m| m + 1)
}

#[test]
fn families_have_their_known_counts() {
    is_simple(&path(5), 5, 4);
    is_simple(&path(0), 0, 0);
    is_simple(&path(1), 1, 0);
    is_simple(&cycle(5), 5, 5);
    is_simple(&complete(6), 6, 15);
    is_simple(&star(7), 8, 7);
    is_simple(&grid(3, 4), 12, 17);
    is_simple(&grid(1, 1), 1, 0);
    is_simple(&grid(0, 4), 0, 0);
    is_simple(&balanced_tree(2, 3), 15, 14);
    is_simple(&balanced_tree(3, 0), 1, 0);
    is_simple(&balanced_tree(1, 4), 5, 4);
    is_simple(&balanced_tree(0, 9), 1, 0);
    assert_eq!(balanced_tree(1, 4), path(5));
    assert!(cycle(9).in_degrees().iter().all(|&d| d == 2));
    assert_eq!(grid(3, 3).sources(4), [1, 3, 5, 7]);
    assert_eq!(balanced_tree(2, 2).sources(1), [0, 3, 4]);
    for g in [grid(3, 4), balanced_tree(3, 3), star(4), cycle(6)] {
        assert_eq!(component_count(&g), 1);
    }
}

#[test]
fn the_karate_club_is_zacharys() {
    let g = karate_club();
    is_simple(&g, 34, 78);
    assert_eq!(component_count(&g), 1);
    let degrees = [
        16, 9, 10, 6, 3, 4, 4, 4, 5, 2, 3, 1, 2, 5, 2, 2, 2, 2, 2, 3, 2, 2, 2, 5, 3, 3, 2, 4, 3, 4,
        4, 6, 12, 17,
    ];
    assert_eq!(g.in_degrees(), degrees);
    // Each of the 45 triangles of the literature is counted once per corner.
    let triangles: usize = g
        .edge_list()
        .filter(|(j, i)| j < i)
        .map(|(j, i)| {
            let beyond = |&&k: &&u32| k > i && g.has_edge(k as usize, j as usize);
            g.sources(i as usize).iter().filter(beyond).count()
        })
        .sum();
    assert_eq!(triangles, 45);
    assert_eq!(KARATE_FACTIONS.iter().sum::<usize>(), 17);
    assert_eq!((KARATE_FACTIONS[0], KARATE_FACTIONS[33]), (0, 1));
    let communities = (0..4).map(|c| KARATE_COMMUNITIES.iter().filter(|&&x| x == c).count());
    assert_eq!(communities.collect::<Vec<_>>(), [13, 12, 4, 5]);
    // 11 of 78 friendships crossed the split; it would be 10 if member 8 had joined the side that
    // he supported.
    assert_eq!(g.edge_homophily(&KARATE_FACTIONS), Some(67.0 / 78.0));
    let mut sided = KARATE_FACTIONS;
    sided[8] = 1;
    assert_eq!(g.edge_homophily(&sided), Some(68.0 / 78.0));
}

#[test]
fn blocks_have_the_expected_number_of_edges() {
    let sizes = [300, 200, 100];
    let p = vec![
        vec![0.05, 0.01, 0.0],
        vec![0.01, 0.1, 0.02],
        vec![0.0, 0.02, 1.0],
    ];
    let g = stochastic_block_model(&sizes, &p, 7);
    let labels = block_labels(&sizes);
    assert!(g.is_symmetric() && g.self_loops() == 0);
    let mut counts = [[0_usize; 3]; 3];
    for (j, i) in g.edge_list() {
        counts[labels[i as usize]][labels[j as usize]] += 1;
    }
    for a in 0..3 {
        for b in 0..3 {
            // Ordered pairs: an undirected edge is counted in both directions, within a block in
            // the same cell.
            let pairs = if a == b {
                sizes[a] * (sizes[a] - 1)
            } else {
                sizes[a] * sizes[b]
            } as f64;
            let copies = if a == b { 2.0 } else { 1.0 };
            let mean = pairs * p[a][b];
            let deviation = (copies * mean * (1.0 - p[a][b])).sqrt();
            let found = counts[a][b] as f64;
            assert!(
                (found - mean).abs() <= 4.0 * deviation,
                "{a} {b}: {found} {mean}"
            );
        }
    }
    assert_eq!(stochastic_block_model(&sizes, &p, 7), g);
    assert_ne!(stochastic_block_model(&sizes, &p, 8), g);
}

#[test]
fn every_pair_of_a_block_model_is_equally_likely() {
    // 6 nodes; every pair occurs about 0.3 · 4000 times. An error in the numbering of pairs would make some
    // pairs more frequent.
    let p = vec![vec![0.3; 2]; 2];
    let mut met = [[0; 6]; 6];
    for seed in 0..4000 {
        for (j, i) in stochastic_block_model(&[4, 2], &p, seed).edge_list() {
            met[i as usize][j as usize] += 1;
        }
    }
    for (i, row) in met.iter().enumerate() {
        for (j, &count) in row.iter().enumerate().filter(|&(j, _)| j != i) {
            assert!((1200_i32 - count).abs() < 130, "{i} {j}: {count}");
        }
    }
}

#[test]
fn a_block_model_of_a_million_edges_is_drawn_in_linear_time() {
    // 2·10⁵ nodes have 2·10¹⁰ pairs: walking them all would take minutes.
    let p = vec![vec![9e-5, 1e-5], vec![1e-5, 9e-5]];
    let g = stochastic_block_model(&[100_000, 100_000], &p, 1);
    assert!((1_980_000..2_020_000).contains(&g.edges()), "{}", g.edges());
    let homophily = g
        .edge_homophily(&block_labels(&[100_000, 100_000]))
        .unwrap();
    assert!((homophily - 0.9).abs() < 0.002, "{homophily}");
}

#[test]
fn random_graphs_have_exactly_the_requested_number_of_edges() {
    is_simple(&random_graph(50_000, 500_000, 3), 50_000, 500_000);
    is_simple(&random_graph(0, 0, 0), 0, 0);
    is_simple(&random_graph(1, 0, 0), 1, 0);
    assert_eq!(random_graph(40, 40 * 39 / 2, 5), complete(40));
    let mut met = [0; 25];
    for seed in 0..4000 {
        for (j, i) in random_graph(5, 3, seed).edge_list() {
            met[(5 * i + j) as usize] += 1;
        }
    }
    for k in (0..25).filter(|k| k / 5 != k % 5) {
        assert!((1200_i32 - met[k]).abs() < 130, "{k}: {}", met[k]);
    }
}

proptest! {
    #[test]
    fn random_graphs_of_any_density(n in 2..25_usize, share in 0.0..=1.0_f64, seed: u64) {
        let m = (share * (n * (n - 1) / 2) as f64) as usize;
        let g = random_graph(n, m, seed);
        is_simple(&g, n, m);
        prop_assert_eq!(&g, &random_graph(n, m, seed));
    }
}
