//! Tests of the published parts one by one, also for sets of which some parts are missing. Without the files
//! the tests print a notice and pass.

use super::assemble::Parts;
use super::{file_name, read, test_index};
use crate::data::pickle::{Adjacency, Labels, Matrix};
use crate::sparse::{Csr, Pattern};
use std::io::Write;
use std::path::PathBuf;

/// The known figures of the parts of a set.
struct Figures {
    name: &'static str,
    features: usize,
    classes: usize,
    /// Rows and non-zeros of x, of allx (if published here) and of tx.
    x: [usize; 2],
    allx: Option<[usize; 2]>,
    tx: [usize; 2],
    ally_rows: usize,
    nodes: usize,
    /// Entries of the neighbour lists, self-loops among them, distinct self-loops, distinct entries.
    entries: [usize; 4],
    /// The smallest and the largest test node.
    test: [u32; 2],
    class_sizes: &'static [usize],
    test_sizes: &'static [usize],
}

const SETS: [Figures; 3] = [
    Figures {
        name: "cora",
        features: 1433,
        classes: 7,
        x: [140, 2647],
        allx: Some([1708, 31261]),
        tx: [1000, 17955],
        ally_rows: 1708,
        nodes: 2708,
        entries: [10858, 0, 0, 10556],
        test: [1708, 2707],
        class_sizes: &[351, 217, 418, 818, 426, 298, 180],
        test_sizes: &[130, 91, 144, 319, 149, 103, 64],
    },
    Figures {
        name: "citeseer",
        features: 3703,
        classes: 6,
        x: [120, 3778],
        allx: Some([2312, 73173]),
        tx: [1000, 31992],
        ally_rows: 2312,
        nodes: 3327,
        entries: [9464, 248, 124, 9228],
        test: [2312, 3326],
        // Without the 15 nodes that have no data; in the whole set they count as the first class.
        class_sizes: &[264 - 15, 590, 668, 701, 596, 508],
        test_sizes: &[77, 182, 181, 231, 169, 160],
    },
    Figures {
        name: "pubmed",
        features: 500,
        classes: 3,
        x: [60, 2819],
        allx: None,
        tx: [1000, 50140],
        ally_rows: 18717,
        nodes: 19717,
        entries: [88676, 6, 3, 88651],
        test: [18717, 19716],
        class_sizes: &[4103, 7739, 7875],
        test_sizes: &[180, 413, 407],
    },
];

/// The folder with the published files. Where it is missing and `EMMY_REQUIRE_DATA` is 1, the test fails.
fn folder() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folder = std::env::var_os("EMMY_DATA").map_or(beside, PathBuf::from);
    let planetoid = folder.join("planetoid");
    if planetoid.is_dir() {
        return Some(planetoid);
    }
    let missing = format!("no data in {} (set EMMY_DATA)", planetoid.display());
    let required = std::env::var_os("EMMY_REQUIRE_DATA").is_some_and(|value| value == "1");
    assert!(!required, "{missing}, and EMMY_REQUIRE_DATA is 1");
    // Not through `print!`, whose output is hidden when a test passes.
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    None
}

struct Files {
    x: Matrix,
    tx: Matrix,
    y: Labels,
    ty: Labels,
    ally: Labels,
    graph: Adjacency,
}

fn files(folder: &std::path::Path, name: &str) -> Files {
    let path = |part| folder.join(file_name(name, part));
    let matrix = |part| read(path(part), |pickle| pickle.matrix()).unwrap();
    let labels = |part| read(path(part), |pickle| pickle.labels()).unwrap();
    Files {
        x: matrix("x"),
        tx: matrix("tx"),
        y: labels("y"),
        ty: labels("ty"),
        ally: labels("ally"),
        graph: read(path("graph"), |pickle| pickle.adjacency()).unwrap(),
    }
}

fn sizes(classes: usize, labels: &[usize]) -> Vec<usize> {
    let count = |c| labels.iter().filter(|&&l| l == c).count();
    (0..classes).map(count).collect()
}

#[test]
fn every_published_part_has_its_known_figures() {
    let Some(folder) = folder() else { return };
    for f in &SETS {
        let name = f.name;
        let files = files(&folder, name);
        let shape = |m: &Matrix| [m.csr.pattern.rows(), m.csr.pattern.nnz()];
        assert_eq!((shape(&files.x), shape(&files.tx)), (f.x, f.tx), "{name}");
        if let Some(allx) = f.allx {
            let path = folder.join(file_name(name, "allx"));
            let matrix = read(path, |pickle| pickle.matrix()).unwrap();
            assert_eq!(shape(&matrix), allx, "{name}");
            assert_eq!(matrix.csr.pattern.cols(), f.features, "{name}");
        }
        for matrix in [&files.x, &files.tx] {
            assert_eq!(matrix.csr.pattern.cols(), f.features, "{name}");
        }

        let Files { y, ty, ally, .. } = &files;
        for labels in [y, ty, ally] {
            assert_eq!(labels.classes, f.classes, "{name}");
        }
        let rows = [y, ty, ally].map(|labels| labels.labels.len());
        assert_eq!(rows, [f.x[0], f.tx[0], f.ally_rows], "{name}");
        assert_eq!(sizes(f.classes, &y.labels), vec![20; f.classes], "{name}");
        assert_eq!(sizes(f.classes, &ty.labels), f.test_sizes, "{name}");
        let known = [&ally.labels[..], &ty.labels].concat();
        assert_eq!(sizes(f.classes, &known), f.class_sizes, "{name}");

        let Adjacency { nodes, edges, at } = &files.graph;
        assert_eq!(
            (*nodes, edges.len(), at.len()),
            (f.nodes, f.entries[0], f.entries[0])
        );
        let loops = |edges: &[(u32, u32)]| edges.iter().filter(|(i, j)| i == j).count();
        let mut distinct = edges.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let found = [edges.len(), loops(edges), loops(&distinct), distinct.len()];
        assert_eq!(found, f.entries, "{name}");

        let test = test_index(&folder.join(file_name(name, "test.index"))).unwrap();
        let mut test: Vec<u32> = test.iter().map(|t| t.node).collect();
        test.sort_unstable();
        assert_eq!([test[0], test[999]], f.test, "{name}");
        test.dedup();
        assert_eq!(test.len(), 1000, "{name}");
    }
}

/// PubMed without the features of the nodes that are neither training nor test nodes; these rows stay empty.
#[test]
fn pubmed_assembles_around_a_stand_in_for_the_largest_part() {
    let Some(folder) = folder() else { return };
    let Files {
        x,
        tx,
        y,
        ty,
        ally,
        graph,
    } = files(&folder, "pubmed");
    let (rows, entries) = (x.csr.pattern.rows(), x.csr.pattern.nnz());
    let mut indptr = x.csr.pattern.indptr().to_vec();
    indptr.resize(ally.labels.len() + 1, entries);
    let indices = x.csr.pattern.indices().to_vec();
    let pattern = Pattern::new(ally.labels.len(), 500, indptr, indices).unwrap();
    let allx = Matrix {
        csr: Csr::new(pattern, x.csr.values.iter().copied().collect()),
        indices_at: 0,
    };
    let path = |part| folder.join(file_name("pubmed", part));
    let test = test_index(&path("test.index")).unwrap();
    let order: Vec<usize> = test.iter().map(|t| t.node as usize).collect();
    let (trained, tested) = (x.csr.clone(), tx.csr.clone());
    let parts = Parts {
        x,
        tx,
        allx,
        y,
        ty,
        ally,
        graph,
        test,
        path: &path,
    };
    let set = parts.assemble("pubmed").unwrap();

    assert_eq!(
        (set.nodes(), set.feature_count(), set.classes),
        (19717, 500, 3)
    );
    assert_eq!(set.graph.edges(), 88648);
    assert!(set.graph.is_symmetric() && set.graph.self_loops() == 0);
    assert!(set.graph.isolated().is_empty());
    assert!(set.graph.components().iter().all(|&c| c == 0));
    assert_eq!(set.graph.in_degrees().into_iter().max(), Some(171));
    let homophily = set.graph.edge_homophily(&set.labels).unwrap();
    assert!((homophily - 0.8024).abs() < 5e-5, "{homophily}");
    assert_eq!(set.class_sizes(), [4103, 7739, 7875]);
    assert_eq!(set.splits[0].counts(), [60, 500, 1000]);
    assert_eq!(set.features.pattern.nnz(), 2819 + 50140);
    // Row k of tx is the node of line k.
    let row = |csr: &Csr<f32>, i: usize| {
        let entry = |e: usize| (csr.pattern.indices()[e], csr.values[[e]]);
        csr.pattern.row(i).map(entry).collect::<Vec<_>>()
    };
    assert!((0..rows).all(|i| row(&set.features, i) == row(&trained, i)));
    for (k, &node) in order.iter().enumerate() {
        assert_eq!(row(&set.features, node), row(&tested, k));
    }
}
