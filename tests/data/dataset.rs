//! The rules of a data set, and the sets that need no file.

use emmy::data::{self, Dataset, Options, Split};
use emmy::graph::{Duplicates, Graph, SelfLoops};
use emmy::sparse::Csr;
use emmy::tensor::tensor;

/// Two nodes with the given features.
fn two_nodes(features: [f32; 4]) -> Dataset {
    let graph = Graph::new(2, &[(0, 1)], Duplicates::Reject, SelfLoops::Reject).unwrap();
    let x = Csr::from_dense(&tensor(&[2, 2], features.to_vec()));
    let split = Split::from_indices(2, &[0], &[], &[1]);
    Dataset::new("two", graph, x, vec![0, 1], 2, vec![split]).unwrap()
}

#[test]
fn normalisation_follows_the_formula_of_pytorch_geometric() {
    let normalised = |features| {
        let x = two_nodes(features).normalized_features::<f64>().to_dense();
        x.iter().copied().collect::<Vec<_>>()
    };
    // A row whose sum is below one is not scaled up.
    assert_eq!(normalised([0.0, 0.25, 3.0, 1.0]), [0.0, 0.25, 0.75, 0.25]);
    // First, the minimum over the whole matrix is moved to zero, whether it is negative …
    assert_eq!(
        normalised([-1.0, 0.0, 1.0, 4.0]),
        [0.0, 1.0, 2.0 / 7.0, 5.0 / 7.0]
    );
    // … or, with every entry stored, positive.
    assert_eq!(normalised([1.0, 2.0, 4.0, 2.0]), [0.0, 1.0, 0.75, 0.25]);
}

#[test]
fn a_data_set_whose_parts_disagree_is_refused() {
    let good = two_nodes([1.0, 0.0, 0.0, 1.0]);
    let build = |labels: Vec<usize>, splits: Vec<Split>, x: Csr<f32>| {
        let graph = good.graph.clone();
        let result = Dataset::new("two", graph, x, labels, 2, splits);
        result.map(|_| ()).map_err(|e| e.to_string())
    };
    let split = good.splits[0].clone();
    let x = good.features.clone();
    assert_eq!(build(vec![0, 1], vec![split.clone()], x.clone()), Ok(()));
    let refused = |result: Result<(), String>, part: &str| {
        let message = result.unwrap_err();
        assert!(message.contains(part), "{message}");
    };
    refused(
        build(vec![0], vec![split.clone()], x.clone()),
        "two: labels: expected 2",
    );
    refused(
        build(vec![0, 2], vec![split.clone()], x.clone()),
        "label of node 1",
    );
    refused(build(vec![0, 1], vec![], x.clone()), "at least one");
    let overlapping = Split::from_indices(2, &[0], &[0], &[1]);
    refused(
        build(vec![0, 1], vec![overlapping], x.clone()),
        "node 0 in more than one",
    );
    let short = Split::from_indices(1, &[0], &[], &[]);
    refused(build(vec![0, 1], vec![split.clone(), short], x), "split 1");
    let nan = Csr::from_dense(&tensor(&[2, 2], vec![1.0, 0.0, 0.0, f32::NAN]));
    refused(
        build(vec![0, 1], vec![split.clone()], nan),
        "features of node 1",
    );
    let tall = Csr::from_dense(&tensor(&[3, 1], vec![1.0; 3]));
    refused(build(vec![0, 1], vec![split], tall), "rows of features");
}

#[test]
fn isolated_nodes_leave_the_masks_and_nothing_else() {
    // A node with an edge in one direction is not isolated: 0 only sends, 1 only receives. 2 has a
    // self-loop, 3 to 5 have no edges; 6 and 7 are neighbours.
    let edges = [(0, 1), (2, 2), (6, 7), (7, 6)];
    let graph = Graph::new(8, &edges, Duplicates::Reject, SelfLoops::Keep).unwrap();
    let x = Csr::from_dense(&tensor(&[8, 1], vec![1.0; 8]));
    let [full, other] = [
        Split::from_indices(8, &[0, 2, 6], &[1, 3], &[4, 7]),
        Split::from_indices(8, &[2], &[], &[0, 1]),
    ];
    let splits = vec![full.clone(), other.clone()];
    let set = Dataset::new("eight", graph, x, vec![0; 8], 1, splits).unwrap();
    assert_eq!(
        set.without_isolated(&full),
        Split::from_indices(8, &[0, 6], &[1], &[7])
    );
    assert_eq!(
        set.without_isolated(&other),
        Split::from_indices(8, &[], &[], &[0, 1])
    );
    let karate = data::karate();
    assert_eq!(karate.without_isolated(&karate.splits[0]), karate.splits[0]);
}

#[test]
#[should_panic(expected = "without_isolated: a mask of 3 flags for 2 nodes")]
fn masks_are_of_this_set() {
    let set = two_nodes([1.0; 4]);
    set.without_isolated(&Split::from_indices(3, &[0], &[1], &[2]));
}

#[test]
fn sets_are_found_by_their_names() {
    for set in &data::ALL {
        assert_eq!(data::find(set.name).unwrap().title, set.title);
        let files = set.files.names.is_empty();
        assert_eq!(files, ["cora-like", "karate"].contains(&set.name));
    }
    let message = data::find("Cora!").unwrap_err().to_string();
    assert!(message.contains("cora, citeseer, pubmed"), "{message}");
}

#[test]
fn sizes_in_the_table_are_those_of_the_sets() {
    let folder = crate::files::published();
    for set in &data::ALL {
        let options = Options {
            folder: folder.clone(),
            ..Options::default()
        };
        // Sets that are not here have nothing to compare with.
        if let Ok(found) = set.load(&options) {
            assert_eq!(found.name, set.name);
            let size = [found.nodes(), found.graph.edges()].map(|count| count as u64);
            assert_eq!(size, set.size, "{}", set.name);
        }
    }
}

#[test]
fn the_karate_club_has_one_labelled_leader_per_faction() {
    let set = data::load("karate", &Options::default()).unwrap();
    assert_eq!(
        (set.nodes(), set.feature_count(), set.graph.edges()),
        (34, 34, 156)
    );
    assert_eq!(
        set.features.to_dense(),
        ndarray::Array2::<f32>::eye(34).into_dyn().into_shared()
    );
    assert_eq!(set.class_sizes(), [17, 17]);
    let split = &set.splits[0];
    assert_eq!(split.counts(), [2, 8, 24]);
    assert!(split.train[0] && split.train[33]);
    let second: usize = (0..34)
        .filter(|&i| split.val[i])
        .map(|i| set.labels[i])
        .sum();
    assert_eq!(second, 4);
}

#[test]
fn six_sets_are_heterophilic() {
    let names: Vec<&str> = (data::ALL.iter())
        .filter(|set| set.heterophilic)
        .map(|set| set.name)
        .collect();
    let six = [
        "chameleon",
        "squirrel",
        "actor",
        "cornell",
        "texas",
        "wisconsin",
    ];
    assert_eq!(names, six);
}
