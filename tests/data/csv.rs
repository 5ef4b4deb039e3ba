//! Graphs from an edge list and a table of nodes in CSV.

mod refusals;

use emmy::data::csv::{self, Column, Options};
use emmy::data::{Dataset, Direction, cora_like, karate};
use emmy::tensor::tensor;
use std::fmt::Write;
use std::path::PathBuf;
use tempfile::TempDir;

const EDGES: &str = "from,to\nada,bob\nbob,eve\neve,ada\ncyd,ada\nada,bob\nbob,bob\n";
const NODES: &str = "name,age,label,income,split\n\
                     ada,36,yes,2.5,train\n\
                     bob,41,no,0,val\n\
                     eve,29,yes,-1e-3,test\n\
                     cyd,0,maybe,7,\n";

/// Two files and their folder.
struct Files {
    _folder: TempDir,
    edges: PathBuf,
    nodes: PathBuf,
}

impl Files {
    fn new(edges: impl AsRef<[u8]>, nodes: impl AsRef<[u8]>) -> Self {
        let folder = TempDir::new().unwrap();
        let files = Self {
            edges: folder.path().join("edges.csv"),
            nodes: folder.path().join("nodes.csv"),
            _folder: folder,
        };
        std::fs::write(&files.edges, edges).unwrap();
        std::fs::write(&files.nodes, nodes).unwrap();
        files
    }

    fn load(&self, options: &Options) -> emmy::Result<Dataset> {
        csv::load(&self.edges, &self.nodes, options)
    }
}

fn read(edges: impl AsRef<[u8]>, nodes: impl AsRef<[u8]>) -> emmy::Result<Dataset> {
    Files::new(edges, nodes).load(&Options::default())
}

fn pairs(set: &Dataset) -> Vec<(u32, u32)> {
    let pattern = set.graph.pattern();
    let (rows, columns) = (pattern.rows_of(), pattern.indices());
    rows.iter().copied().zip(columns.iter().copied()).collect()
}

#[test]
fn a_table_and_an_edge_list_are_a_graph_with_features_classes_and_a_split() {
    let set = read(EDGES, NODES).unwrap();
    assert_eq!((set.name.as_str(), set.nodes()), ("nodes.csv", 4));
    // Each edge both ways, once; no edge from bob to bob.
    assert_eq!(set.graph.edges(), 8);
    assert!(set.graph.is_symmetric());
    let rows = vec![36.0, 2.5, 41.0, 0.0, 29.0, -1e-3, 0.0, 7.0];
    assert_eq!(set.features.to_dense(), tensor(&[4, 2], rows));
    // Zeros are not stored.
    assert_eq!(set.features.pattern.nnz(), 6);
    // maybe, no, yes
    assert_eq!((set.labels.as_slice(), set.classes), (&[2, 1, 2, 0][..], 3));
    let split = &set.splits[0];
    assert_eq!(split.counts(), [1, 1, 1]);
    assert!(split.train[0] && split.val[1] && split.test[2]);
}

#[test]
fn directed_edges_lead_from_source_to_target() {
    let options = Options {
        direction: Direction::Directed,
        ..Options::default()
    };
    let files = Files::new(EDGES, NODES);
    let (one_way, both) = (files.load(&options).unwrap(), read(EDGES, NODES).unwrap());
    assert_eq!(one_way.graph.edges(), 4);
    assert!(!one_way.graph.is_symmetric());
    assert_eq!(one_way.graph.symmetrise(), both.graph);
    let reversed = "to,from\nbob,ada\n";
    let other = Files::new(reversed, NODES).load(&options).unwrap();
    let straight = Files::new("from,to\nada,bob\n", NODES)
        .load(&options)
        .unwrap();
    assert_ne!(pairs(&other), pairs(&straight));
}

/// What `cargo run -p papers -- cora --edges .. --nodes ..` gets for these sets.
#[test]
fn a_set_that_is_written_comes_back() {
    for set in [karate(), cora_like(1)] {
        let (mut edges, mut nodes) = (String::new(), String::new());
        for (row, column) in pairs(&set) {
            if row < column {
                writeln!(edges, "p{column};p{row}").unwrap();
            }
        }
        let features = set.features.to_dense();
        let split = &set.splits[0];
        write!(nodes, "paper").unwrap();
        for column in 0..set.feature_count() {
            write!(nodes, ";word {column}").unwrap();
        }
        writeln!(nodes, ";split;label").unwrap();
        for i in 0..set.nodes() {
            write!(nodes, "p{i}").unwrap();
            for j in 0..set.feature_count() {
                // Most of a row: formatting each takes a second.
                match features[[i, j]] {
                    0.0 => nodes.push_str(";0"),
                    x => write!(nodes, ";{x}").unwrap(),
                }
            }
            let part = match (split.train[i], split.val[i], split.test[i]) {
                (true, ..) => "train",
                (_, true, _) => "Validation",
                (_, _, true) => "test",
                _ => "none",
            };
            writeln!(nodes, ";{part};{}", set.labels[i]).unwrap();
        }
        let options = Options {
            name: Some(set.name.clone()),
            edge_header: false,
            delimiter: b';',
            ..Options::default()
        };
        assert_eq!(Files::new(edges, nodes).load(&options).unwrap(), set);
    }
}

#[test]
fn without_headers_ids_come_first_and_labels_last() {
    let (edges, nodes) = ("7,3\n3,-1\n", "3,0.5,2\n7,1,10\n-1,2,9\n");
    let options = Options::without_headers();
    let set = Files::new(edges, nodes).load(&options).unwrap();
    assert_eq!((set.nodes(), set.graph.edges()), (3, 4));
    // Whole numbers are in their order: 2, 9, 10.
    assert_eq!((set.labels.as_slice(), set.classes), (&[0, 2, 1][..], 3));
    assert_eq!(
        set.features.to_dense(),
        tensor(&[3, 1], vec![0.5, 1.0, 2.0])
    );

    let other = Options {
        id: Column::Number(3),
        label: Column::Number(1),
        split: Some(Column::Number(2)),
        ..options
    };
    let nodes = "a,test,x,1\na,train,y,2\nb,val,z,3\n";
    let set = Files::new("x,y\n", nodes).load(&other).unwrap();
    assert_eq!(set.labels, [0, 0, 1]);
    assert!(set.splits[0].test[0] && set.splits[0].train[1] && set.splits[0].val[2]);
}

#[test]
fn fields_may_have_quotes_blanks_and_any_text_and_files_a_mark_of_utf_8() {
    let edges = "\u{feff}from,to\r\n\"Lovelace, Ada\", Zoë \r\n\r\n  \r\n";
    let nodes = "\u{feff}name,age,label\r\n\"Lovelace, Ada\",36,\"a \"\"b\"\"\"\r\n Zoë,2, c\r\n";
    let set = read(edges, nodes).unwrap();
    assert_eq!((set.nodes(), set.graph.edges(), set.classes), (2, 2, 2));
}

/// A node without a label is there for its neighbours, and in no part of a split.
#[test]
fn nodes_may_have_no_label() {
    let mut nodes = "id,x,label\n".to_owned();
    for i in 0..10 {
        writeln!(nodes, "{i},1,{}", ["", "b", "a"][i % 3]).unwrap();
    }
    let set = read("a,b\n1,2\n", nodes).unwrap();
    assert_eq!((set.classes, set.labels[1], set.labels[2]), (2, 1, 0));
    let split = &set.splits[0];
    for i in (0..10).step_by(3) {
        assert!(!split.train[i] && !split.val[i] && !split.test[i]);
    }
    assert_eq!(split.counts().iter().sum::<usize>(), 6);
}

#[test]
fn a_split_is_drawn_from_the_seed_with_the_shares_of_each_class() {
    let mut nodes = "id,x,label\n".to_owned();
    for i in 0..110 {
        writeln!(nodes, "{i},1,{}", i64::from(i >= 100)).unwrap();
    }
    let files = Files::new("a,b\n1,2\n", nodes);
    let split = |seed, shares| {
        let options = Options {
            seed,
            shares,
            ..Options::default()
        };
        files.load(&options).unwrap().splits.remove(0)
    };
    let half = split(0, [0.5, 0.3]);
    assert_eq!(half.counts(), [55, 33, 22]);
    assert_eq!(half.train[100..].iter().filter(|&&x| x).count(), 5);
    assert_eq!(half, split(0, [0.5, 0.3]));
    assert_ne!(half, split(1, [0.5, 0.3]));
    assert_eq!(split(0, [0.6, 0.2]).counts(), [66, 22, 22]);
    // Each class trains.
    assert_eq!(split(0, [0.001, 0.5]).counts(), [2, 55, 53]);
    for shares in [[0.0, 0.5], [0.5, 0.5], [f64::NAN, 0.1]] {
        let options = Options {
            shares,
            ..Options::default()
        };
        let message = files.load(&options).unwrap_err().to_string();
        assert!(message.contains("split: shares"), "{message}");
    }
}
