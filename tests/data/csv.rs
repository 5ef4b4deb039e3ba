//! Graphs from an edge list and a table of nodes in CSV.

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

/// The message of a set that is refused; its place begins with the name of the file.
fn refusal(edges: impl AsRef<[u8]>, nodes: impl AsRef<[u8]>, options: &Options) -> String {
    let message = Files::new(edges, nodes)
        .load(options)
        .unwrap_err()
        .to_string();
    let file = message.find(".csv").expect("a file");
    let start = message[..file].rfind('/').map_or(0, |at| at + 1);
    message[start..].to_owned()
}

#[test]
fn what_is_wrong_is_told_with_file_line_and_rule() {
    let table = |rest: &str| format!("id,x,label\na,1,0\nb,2,1\n{rest}");
    let cases: [(&str, String, &str); 26] = [
        (
            "a,b\n",
            table(""),
            "edges.csv: line 1: expected a first line with names of the two columns; a list without one has \
             edge_header: false, found an edge, \"a\" to \"b\"",
        ),
        (
            "f,t\r\ra,b\rb,zed\r",
            table(""),
            "edges.csv: line 4: expected the id of a node of the table, found \"zed\"",
        ),
        (
            "f,t\na, \"b\"\n",
            table(""),
            "edges.csv: line 2: expected a quote that begins its field, found a blank before it",
        ),
        (
            "f,t\na,b\n",
            table("c,1,\"0\nd,1,0\n"),
            "nodes.csv: line 4: expected a quote that ends the field, found the end of the file",
        ),
        (
            "f,t\na,b\n",
            table("\"two\nlines\",1,0\n\"d,\n\",1,\" no \"\"end\"\"\n"),
            "nodes.csv: line 7: expected a quote that ends the field",
        ),
        (
            "f,t\na,b\n",
            "id,x,label,label\na,1,0,0\n".into(),
            "nodes.csv: line 1: expected one column \"label\", found two, columns 3 and 4",
        ),
        (
            "f,t\na,b\n",
            "id,split,label,split\na,train,0,1\n".into(),
            "nodes.csv: line 1: expected one column \"split\", found two, columns 2 and 4",
        ),
        (
            "f,t\na,b\n",
            table("c,1,0\t \"\n").replace(',', ";"),
            "nodes.csv: line 1: expected a column \"label\"",
        ),
        (
            "f,t\na,b\nb,zed\n",
            table(""),
            "edges.csv: line 3: expected the id of a node of the table, found \"zed\"",
        ),
        (
            "f,t\na,b,1\n",
            table(""),
            "edges.csv: line 2: expected two fields, the ids of source and target, found 3",
        ),
        (
            "",
            table(""),
            "edges.csv: expected a list with a line for each edge, found a file without edges",
        ),
        (
            "f,t\n",
            table(""),
            "edges.csv: expected a list with a line for each edge",
        ),
        (
            "f;t\na;b\n",
            table(""),
            "edges.csv: line 1: expected two fields",
        ),
        (
            "f,t\n",
            String::new(),
            "nodes.csv: expected a table with a line for each node, found a file without nodes",
        ),
        (
            "f,t\n",
            "id,x,label\n".into(),
            "nodes.csv: expected a table with a line for each node",
        ),
        (
            "f,t\n",
            table("c,nan,0\n"),
            "nodes.csv: line 4: expected a finite number in column \"x\", found \"nan\"",
        ),
        (
            "f,t\n",
            table("c,inf,0\n"),
            "nodes.csv: line 4: expected a finite number",
        ),
        (
            "f,t\n",
            table("c,,0\n"),
            "nodes.csv: line 4: expected a finite number in column \"x\", found \"\"",
        ),
        (
            "f,t\n",
            table("c,1e40,0\n"),
            "nodes.csv: line 4: expected a finite number",
        ),
        (
            "f,t\n",
            table("\nc,1\n"),
            "nodes.csv: line 5: expected 3 fields, as in the first line, found 2",
        ),
        (
            "f,t\n",
            table("c,1,0,9\n"),
            "nodes.csv: line 4: expected 3 fields, as in the first line, found 4",
        ),
        (
            "f,t\n",
            table("a,3,0\n"),
            "nodes.csv: line 4: expected an id that no node before has, found \"a\" of line 2",
        ),
        (
            "f,t\n",
            table(",3,0\n"),
            "nodes.csv: line 4: expected an id of the node, found an empty field",
        ),
        (
            "f,t\n",
            "id,x,class\na,1,0\n".into(),
            "nodes.csv: line 1: expected a column \"label\" with the labels, found id, x, class",
        ),
        (
            "f,t\n",
            "id,label\na,0\n".into(),
            "nodes.csv: line 1: expected columns with the ids, the labels, and at least one feature",
        ),
        (
            "f,t\n",
            "id,x,label\na,1,\n".into(),
            "nodes.csv: expected a node with a label, found none",
        ),
    ];
    for (edges, nodes, expected) in cases {
        let message = refusal(edges, nodes, &Options::default());
        assert!(message.starts_with(expected), "{message}\nnot {expected}");
    }
}

#[test]
fn the_split_column_has_three_words() {
    let with =
        |part: &str, label: &str| format!("id,x,label,split\na,1,0,train\nb,1,{label},{part}\n");
    let message = refusal("f,t\n", with("training", "1"), &Options::default());
    assert!(
        message.starts_with(
            "nodes.csv: line 3: expected train, val, test, or nothing, found \"training\""
        ),
        "{message}"
    );
    let message = refusal("f,t\n", with("test", ""), &Options::default());
    assert!(
        message.starts_with("nodes.csv: line 3: expected a label, since the node is in the split")
    );
    assert!(read("f,t\na,b\n", with("", "")).is_ok());
}

#[test]
fn bytes_that_are_not_utf_8_are_told_with_their_line() {
    let nodes = b"id,x,label\na,1,0\nb,2,\xff\xfe\n";
    let message = refusal("f,t\na,b\n", nodes, &Options::default());
    assert!(
        message.starts_with("nodes.csv: line 3: expected text in UTF-8, found the byte 0xff"),
        "{message}"
    );
    let message = refusal(b"f,t\na,\xc3\n", "id,x,label\na,1,0\n", &Options::default());
    assert!(
        message.starts_with("edges.csv: line 2: expected text in UTF-8"),
        "{message}"
    );
}

#[test]
fn columns_that_are_not_there_or_mean_two_things_are_refused() {
    let options = |id, label| Options {
        id,
        label,
        ..Options::without_headers()
    };
    for (options, expected) in [
        (
            options(Column::Number(0), Column::Last),
            "a column with the ids, Number(0), found 3 columns",
        ),
        (
            options(Column::Number(4), Column::Last),
            "a column with the ids, Number(4), found 3 columns",
        ),
        (
            options(Column::Last, Column::Last),
            "columns with the ids, the labels, and at least one feature",
        ),
        (
            options(Column::Number(1), Column::Named("y".to_owned())),
            "a first line with names, among them \"y\", found no header",
        ),
    ] {
        let message = refusal("a,b\n", "a,1,0\nb,2,1\n", &options);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_column_of_numbers_is_no_column_of_classes() {
    let mut nodes = "id,x,label\n".to_owned();
    for i in 0..2000 {
        writeln!(nodes, "{i},1,{}", i as f64 / 7.0).unwrap();
    }
    let message = refusal("f,t\n1,2\n", nodes, &Options::default());
    assert!(
        message.starts_with("nodes.csv: line 1026: expected labels of at most 1024 classes"),
        "{message}"
    );
    // A class has two spellings, and a node no label.
    let mut nodes = "id,x,label\n".to_owned();
    for i in 0..1024 {
        writeln!(nodes, "{i},1,{i}").unwrap();
    }
    let set = read("f,t\n1,2\n", nodes + "a,1,007\nb,1,\n").unwrap();
    assert_eq!(
        (set.classes, set.labels[1024], set.labels[1025]),
        (1024, 7, 0)
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let files = Files::new(EDGES, NODES);
    std::fs::remove_file(&files.edges).unwrap();
    let error = files.load(&Options::default()).unwrap_err();
    assert!(matches!(error, emmy::Error::Io { .. }));
    assert!(error.to_string().contains("edges.csv"), "{error}");
}
