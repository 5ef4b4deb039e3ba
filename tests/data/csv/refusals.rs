//! What is wrong in the files is told with file, line and rule.

use super::*;

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
            "edges.csv: line 2: expected two fields, the ids of source and target, with ',' between them, found 3",
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
