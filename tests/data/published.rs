//! The known numbers of the public data sets. If the folder with the files is missing, the tests
//! say so and pass.

use crate::files::{REQUIRED, pickle, published, refused};
use emmy::Error;
use emmy::data::{self, Dataset, Direction, Options, Split, planetoid};
use std::path::PathBuf;
use tempfile::TempDir;

fn options(folder: PathBuf) -> Options {
    Options {
        folder: Some(folder),
        ..Options::default()
    }
}

/// The known numbers of a data set.
struct Figures {
    name: &'static str,
    nodes: usize,
    features: usize,
    undirected_edges: usize,
    counts: [usize; 3],
    splits: usize,
    isolated: usize,
    components: usize,
    max_degree: usize,
    non_zeros: usize,
    featureless: usize,
    homophily: f64,
    class_sizes: &'static [usize],
    /// Nodes that receive nothing when edges are read as directed.
    receive_nothing: Option<usize>,
}

const SETS: [Figures; 8] = [
    Figures {
        name: "cora",
        nodes: 2708,
        features: 1433,
        undirected_edges: 5278,
        counts: [140, 500, 1000],
        splits: 1,
        isolated: 0,
        components: 78,
        max_degree: 168,
        non_zeros: 49216,
        featureless: 0,
        homophily: 0.8100,
        class_sizes: &[351, 217, 418, 818, 426, 298, 180],
        receive_nothing: None,
    },
    Figures {
        name: "citeseer",
        nodes: 3327,
        features: 3703,
        undirected_edges: 4552,
        counts: [120, 500, 1000],
        splits: 1,
        isolated: 48,
        components: 438,
        max_degree: 99,
        non_zeros: 105165,
        featureless: 15,
        homophily: 0.7355,
        class_sizes: &[264, 590, 668, 701, 596, 508],
        receive_nothing: None,
    },
    Figures {
        name: "chameleon",
        nodes: 2277,
        features: 2325,
        undirected_edges: 31371,
        counts: [1092, 729, 456],
        splits: 10,
        isolated: 0,
        components: 1,
        max_degree: 732,
        non_zeros: 29157,
        featureless: 233,
        homophily: 0.2299,
        class_sizes: &[456, 460, 453, 521, 387],
        receive_nothing: Some(536),
    },
    Figures {
        name: "squirrel",
        nodes: 5201,
        features: 2089,
        undirected_edges: 198353,
        counts: [2496, 1664, 1041],
        splits: 10,
        isolated: 0,
        components: 1,
        max_degree: 1903,
        non_zeros: 93477,
        featureless: 165,
        homophily: 0.2221,
        class_sizes: &[1042, 1040, 1039, 1040, 1040],
        receive_nothing: Some(1108),
    },
    Figures {
        name: "actor",
        nodes: 7600,
        features: 932,
        undirected_edges: 26659,
        counts: [3648, 2432, 1520],
        splits: 10,
        isolated: 0,
        components: 1,
        max_degree: 1303,
        non_zeros: 40977,
        featureless: 0,
        homophily: 0.2167,
        class_sizes: &[853, 1337, 1630, 1815, 1965],
        receive_nothing: Some(1930),
    },
    Figures {
        name: "cornell",
        nodes: 183,
        features: 1703,
        undirected_edges: 277,
        counts: [87, 59, 37],
        splits: 10,
        isolated: 0,
        components: 1,
        max_degree: 94,
        non_zeros: 17240,
        featureless: 0,
        homophily: 0.1227,
        class_sizes: &[38, 16, 30, 82, 17],
        receive_nothing: Some(52),
    },
    Figures {
        name: "texas",
        nodes: 183,
        features: 1703,
        undirected_edges: 279,
        counts: [87, 59, 37],
        splits: 10,
        isolated: 0,
        components: 1,
        max_degree: 104,
        non_zeros: 15266,
        featureless: 0,
        homophily: 0.0609,
        class_sizes: &[33, 1, 18, 101, 30],
        receive_nothing: Some(56),
    },
    Figures {
        name: "wisconsin",
        nodes: 251,
        features: 1703,
        undirected_edges: 450,
        counts: [120, 80, 51],
        splits: 10,
        isolated: 0,
        components: 1,
        max_degree: 122,
        non_zeros: 24057,
        featureless: 0,
        homophily: 0.1778,
        class_sizes: &[10, 70, 118, 32, 21],
        receive_nothing: Some(73),
    },
];

fn compare(set: &Dataset, f: &Figures) {
    let g = &set.graph;
    let name = f.name;
    assert_eq!(set.name, name);
    assert_eq!(
        (set.nodes(), set.feature_count()),
        (f.nodes, f.features),
        "{name}"
    );
    assert_eq!(g.edges(), 2 * f.undirected_edges, "{name}");
    assert!(g.is_symmetric() && g.self_loops() == 0, "{name}");
    assert_eq!(set.splits.len(), f.splits, "{name}");
    assert!(set.splits.iter().all(|s| s.counts() == f.counts), "{name}");
    assert_eq!(g.isolated().len(), f.isolated, "{name}");
    let components = g.components().into_iter().max().map_or(0, |c| c + 1);
    assert_eq!(components, f.components, "{name}");
    assert_eq!(
        g.in_degrees().into_iter().max(),
        Some(f.max_degree),
        "{name}"
    );
    assert_eq!(set.features.pattern.nnz(), f.non_zeros, "{name}");
    // All features of these sets are binary.
    assert!(set.features.values.iter().all(|&x| x == 1.0), "{name}");
    let row = |i: &usize| set.features.pattern.row(*i);
    let featureless = (0..f.nodes).filter(|i| row(i).is_empty()).count();
    assert_eq!(featureless, f.featureless, "{name}");
    let homophily = g.edge_homophily(&set.labels).unwrap();
    assert!(
        (homophily - f.homophily).abs() < 5e-5,
        "{name}: {homophily}"
    );
    assert_eq!(set.classes, f.class_sizes.len(), "{name}");
    assert_eq!(set.class_sizes(), f.class_sizes, "{name}");
    assert!(set.split(f.splits - 1).is_ok() && set.split(f.splits).is_err());
}

#[test]
fn the_public_sets_have_their_known_figures() {
    let Some(folder) = published() else { return };
    for figures in &SETS {
        let set = data::load(figures.name, &options(folder.clone())).unwrap();
        compare(&set, figures);
    }
}

#[test]
fn planetoid_assembly_agrees_with_the_published_details() {
    let Some(folder) = published() else { return };
    let cora = data::load("cora", &options(folder.clone())).unwrap();
    let Split { train, val, test } = &cora.splits[0];
    // Training nodes come first, twenty per class; then validation nodes; the test nodes are the
    // last thousand.
    assert!((0..2708).all(|i| train[i] == (i < 140)));
    assert!((0..2708).all(|i| val[i] == (140..640).contains(&i)));
    assert!((0..2708).all(|i| test[i] == (i >= 1708)));
    let sizes = |set: &Dataset, mask: &[bool]| {
        let mut sizes = vec![0; set.classes];
        (0..set.nodes())
            .filter(|&i| mask[i])
            .for_each(|i| sizes[set.labels[i]] += 1);
        sizes
    };
    assert_eq!(sizes(&cora, train), [20; 7]);
    assert_eq!(sizes(&cora, test), [130, 91, 144, 319, 149, 103, 64]);
    // In the lists of the file, node 0 has the neighbours 633, 1862 and 2582.
    assert_eq!(cora.graph.sources(0), [633, 1862, 2582]);

    let citeseer = data::load("citeseer", &options(folder)).unwrap();
    let unknown = [
        2407, 2489, 2553, 2682, 2781, 2953, 3042, 3063, 3212, 3214, 3250, 3292, 3305, 3306, 3309,
    ];
    let split = &citeseer.splits[0];
    for i in unknown {
        assert!(citeseer.features.pattern.row(i).is_empty());
        assert_eq!(citeseer.labels[i], 0);
        assert!(!split.train[i] && !split.val[i] && !split.test[i]);
        assert!((1..=2).contains(&citeseer.graph.sources(i).len()));
    }
    assert_eq!(sizes(&citeseer, &split.test), [77, 182, 181, 231, 169, 160]);
}

#[test]
fn without_isolated_nodes_citeseer_chooses_by_494_and_tests_on_988() {
    let Some(folder) = published() else { return };
    for figures in &SETS {
        let set = data::load(figures.name, &options(folder.clone())).unwrap();
        let split = &set.splits[0];
        let [train, val, test] = split.counts();
        let expected = match figures.name {
            "citeseer" => [train, val - 6, test - 12],
            _ => [train, val, test],
        };
        let found = set.without_isolated(split);
        assert_eq!(found.counts(), expected, "{}", figures.name);
        // No node is added, and every remaining node has a neighbour.
        let within = |mask: &[bool], all: &[bool]| mask.iter().zip(all).all(|(&m, &a)| a || !m);
        assert!(within(&found.val, &split.val) && within(&found.test, &split.test));
        let sources = |i: usize| set.graph.sources(i);
        assert!((0..set.nodes()).all(|i| !found.test[i] || !sources(i).is_empty()));
    }
}

#[test]
fn heterophilic_splits_cover_all_nodes_and_edges_can_be_read_directed() {
    let Some(folder) = published() else { return };
    for figures in SETS.iter().filter(|f| f.receive_nothing.is_some()) {
        let both = data::load(figures.name, &options(folder.clone())).unwrap();
        for split in &both.splits {
            assert_eq!(split.counts().iter().sum::<usize>(), figures.nodes);
        }
        let directed = Options {
            direction: Direction::Directed,
            ..options(folder.clone())
        };
        let one_way = data::load(figures.name, &directed).unwrap();
        assert_eq!(one_way.graph.edges(), figures.undirected_edges);
        assert!(
            one_way
                .graph
                .edge_list()
                .all(|(source, target)| source < target)
        );
        assert_eq!(one_way.graph.symmetrise(), both.graph);
        let receive_nothing = one_way.graph.in_degrees().into_iter().filter(|&d| d == 0);
        assert_eq!(Some(receive_nothing.count()), figures.receive_nothing);
    }
}

#[test]
fn an_incomplete_set_names_the_missing_file_and_its_address() {
    let Some(folder) = published() else { return };
    if folder.join("planetoid/ind.pubmed.allx").is_file() {
        let set = data::load("pubmed", &options(folder)).unwrap();
        assert_eq!((set.nodes(), set.feature_count()), (19717, 500));
        assert_eq!(set.graph.edges(), 2 * 44324);
        assert_eq!(set.class_sizes(), [4103, 7739, 7875]);
        return;
    }
    let error = data::load("pubmed", &options(folder.clone())).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }));
    let message = error.to_string();
    assert!(
        message.starts_with("ind.pubmed.allx (the other files of PubMed are in "),
        "{message}"
    );
    assert!(
        message.contains(folder.join("planetoid").to_str().unwrap()),
        "{message}"
    );
    let address =
        "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/ind.pubmed.allx";
    assert!(message.ends_with(address), "{message}");
}

#[test]
fn normalised_rows_sum_to_one() {
    let Some(folder) = published() else { return };
    let citeseer = data::load("citeseer", &options(folder)).unwrap();
    let x = citeseer.normalized_features::<f64>();
    assert_eq!(x.pattern, citeseer.features.pattern);
    for i in 0..citeseer.nodes() {
        let row = x.pattern.row(i);
        let sum: f64 = row.clone().map(|e| x.values[[e]]).sum();
        let expected = if row.is_empty() { 0.0 } else { 1.0 };
        assert!((sum - expected).abs() < 1e-12, "{i}: {sum}");
    }
    assert_eq!(citeseer.normalized_features::<f32>(), x.cast());
}

/// A test on published data skips if they are missing, and fails if they are required. The environment
/// belongs to a process, so each case runs in a process of its own.
#[test]
fn missing_data_are_an_error_where_they_are_required() {
    let nowhere = tempfile::TempDir::new().unwrap();
    for (required, passes) in [(None, true), (Some("0"), true), (Some("1"), false)] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "published::normalised_rows_sum_to_one",
            "--nocapture",
        ]);
        child.env("EMMY_DATA", nowhere.path());
        child.env_remove(REQUIRED);
        if let Some(value) = required {
            child.env(REQUIRED, value);
        }
        let output = child.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        let (out, expected) = (
            String::from_utf8_lossy(&output.stdout),
            match passes {
                true => "skipped: no data in",
                false => "and EMMY_REQUIRE_DATA is 1",
            },
        );
        assert_eq!(
            output.status.success(),
            passes,
            "{required:?}: {out}\n{err}"
        );
        assert!(err.contains(expected), "{required:?}: {out}\n{err}");
        assert!(out.contains("running 1 test"), "{out}");
    }
}

/// PubMed with a stand-in for its largest part: the features of the nodes that are not tested on, here none
/// at all.
#[test]
fn pubmed_assembles_around_a_stand_in_for_the_largest_part() {
    let Some(folder) = published() else { return };
    let stand_in = TempDir::new().unwrap();
    let place = |part| stand_in.path().join(planetoid::file_name("pubmed", part));
    for part in planetoid::PARTS.into_iter().filter(|part| *part != "allx") {
        let name = planetoid::file_name("pubmed", part);
        std::fs::copy(folder.join("planetoid").join(name), place(part)).unwrap();
    }
    let without_words = |rows| pickle::csr(500, &vec![vec![]; rows]);
    std::fs::write(place("allx"), without_words(18717)).unwrap();
    // The published features of the training nodes are not those of the stand-in.
    let mixed = planetoid::load(stand_in.path(), "pubmed");
    refused(mixed, "ind.pubmed.x", None, "row 0 to be that of part allx");
    std::fs::write(place("x"), without_words(60)).unwrap();
    let set = planetoid::load(stand_in.path(), "pubmed").unwrap();
    let sizes = (set.nodes(), set.feature_count(), set.classes);
    assert_eq!(sizes, (19717, 500, 3));
    assert_eq!(set.graph.edges(), 88648);
    assert!(set.graph.is_symmetric() && set.graph.self_loops() == 0);
    assert!(set.graph.isolated().is_empty());
    assert!(set.graph.components().iter().all(|&c| c == 0));
    assert_eq!(set.graph.in_degrees().into_iter().max(), Some(171));
    let homophily = set.graph.edge_homophily(&set.labels).unwrap();
    assert!((homophily - 0.8024).abs() < 5e-5, "{homophily}");
    assert_eq!(set.class_sizes(), [4103, 7739, 7875]);
    assert_eq!(set.splits[0].counts(), [60, 500, 1000]);
    let tested = &set.splits[0].test;
    let of_class = |c| {
        (0..set.nodes())
            .filter(|&i| tested[i] && set.labels[i] == c)
            .count()
    };
    assert_eq!([0, 1, 2].map(of_class), [180, 413, 407]);
    // The features of the tested nodes, and no others.
    assert_eq!(set.features.pattern.nnz(), 50140);
    let words = |i| set.features.pattern.row(i).count();
    assert!((0..set.nodes()).all(|i| tested[i] || words(i) == 0));
}
