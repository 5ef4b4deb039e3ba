//! The raw folders of the Open Graph Benchmark, tested with a small folder that we made.

use emmy::data::{Direction, ogb};
use std::io::Write;
use std::path::Path;
use tempfile::TempDir;

/// Five nodes on a path with directed edges, three features each, two classes.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in [
        ("raw/num-node-list.csv", "5\n"),
        ("raw/num-edge-list.csv", "5\n"),
        ("raw/edge.csv", "0,1\n1,2\n3,2\n3,4\n3,4\n"),
        (
            "raw/node-feat.csv",
            "1.5,0,0\n0,-2,0\n0.0,0.0,0.25\n1,1,1\n0,0,0\n",
        ),
        ("raw/node-label.csv", "0\n1\n0\n1.0\n1\n"),
        ("split/time/train.csv", "0\n1\n"),
        ("split/time/valid.csv", "2\n"),
        ("split/time/test.csv", "3\n4\n"),
    ] {
        write(folder.path(), name, text);
    }
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_folder_is_read_plain_and_compressed() {
    let folder = folder();
    let set = ogb::load(folder.path(), None, Direction::Symmetrised).unwrap();
    assert_eq!((set.nodes(), set.feature_count(), set.classes), (5, 3, 2));
    assert_eq!(set.labels, [0, 1, 0, 1, 1]);
    // A duplicate edge counts once; both directions are read.
    assert_eq!(set.graph.edges(), 8);
    assert!(set.graph.is_symmetric());
    assert_eq!(
        set.features.values.as_slice().unwrap(),
        [1.5, -2.0, 0.25, 1.0, 1.0, 1.0]
    );
    assert_eq!(set.split(0).unwrap().counts(), [2, 1, 2]);
    let directed = ogb::load(folder.path(), Some("time"), Direction::Directed).unwrap();
    assert_eq!(directed.graph.edges(), 4);
    assert!(directed.graph.has_edge(3, 4) && !directed.graph.has_edge(4, 3));

    let path = folder.path().join("raw/edge.csv");
    let text = std::fs::read(&path).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&text).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(
        folder.path().join("raw/edge.csv.gz"),
        packed.finish().unwrap(),
    )
    .unwrap();
    let again = ogb::load(folder.path(), None, Direction::Symmetrised).unwrap();
    assert_eq!(
        again.graph.pattern().indices(),
        set.graph.pattern().indices()
    );
}

#[test]
fn errors_name_the_file_and_the_line() {
    for (name, text, expected) in [
        (
            "raw/edge.csv",
            "0,1\n1,5\n3,2\n3,4\n3,4\n",
            "edge.csv: line 2: expected a whole number below 5, found 5",
        ),
        (
            "raw/edge.csv",
            "0,1\n1 2\n",
            "line 2: expected source,target, found 1 2",
        ),
        (
            "raw/edge.csv",
            "0,1\n",
            "expected 5 edges, as num-edge-list says, found the end of the file after 1",
        ),
        (
            "raw/edge.csv",
            "0,1\n0,1\n0,1\n0,1\n0,1\n0,1\n",
            "found more",
        ),
        (
            "raw/node-feat.csv",
            "1,2,3\n1,2\n",
            "line 2: expected 3 numbers, as in the first line, found 2",
        ),
        (
            "raw/node-feat.csv",
            "1,NaN,3\n",
            "line 1: expected finite numbers, found NaN",
        ),
        (
            "raw/node-feat.csv",
            "1,2,3\n",
            "expected 5 lines, one per node, found the end of the file after 1",
        ),
        (
            "raw/node-label.csv",
            "0\n-1\n",
            "line 2: expected a whole number below 1024, found -1",
        ),
        (
            "raw/node-label.csv",
            "0\n1\n",
            "expected 5 lines, one per node, found the end of the file after 2",
        ),
        (
            "raw/num-node-list.csv",
            "3\n2\n",
            "expected the end of the file: a set of one graph",
        ),
        (
            "raw/num-node-list.csv",
            "",
            "expected a number, found the end of the file",
        ),
        (
            "split/time/test.csv",
            "9\n",
            "test.csv: line 1: expected a whole number below 5, found 9",
        ),
        ("split/time/test.csv", "0\n", "disjoint masks"),
        (
            "split/time/test.csv",
            "4\n3\n4\n",
            "test.csv: line 3: expected a node that no line before has, found 4",
        ),
        (
            "raw/node-label.csv",
            "0\n1\n0\n1\n1\n1\n",
            "node-label.csv: line 6: expected 5 lines, one per node, found more",
        ),
        (
            "split/other/test.csv",
            "0\n",
            "expected one split, or the name of one, found other, time",
        ),
    ] {
        let folder = folder();
        write(folder.path(), name, text);
        let error = ogb::load(folder.path(), None, Direction::Symmetrised)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    let folder = folder();
    std::fs::remove_file(folder.path().join("raw/node-feat.csv")).unwrap();
    let error = ogb::load(folder.path(), None, Direction::Symmetrised)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("node-feat.csv.gz or node-feat.csv was not found"),
        "{error}"
    );
}

/// Files that are far longer than the numbers of nodes and edges say are read up to these numbers: the text after
/// them is not even decompressed. So the damage in it is not found.
#[test]
fn lines_beyond_the_known_number_are_not_read() {
    let pack = |name: &str, head: &str, tail: &[u8]| {
        let folder = folder();
        std::fs::remove_file(folder.path().join(format!("{name}.csv"))).unwrap();
        // The tail begins in a block of its own, which is damaged.
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(head.as_bytes()).unwrap();
        packed.flush().unwrap();
        let mut bytes = packed.get_ref().clone();
        bytes.extend(tail);
        std::fs::write(folder.path().join(format!("{name}.csv.gz")), bytes).unwrap();
        let found = ogb::load(folder.path(), None, Direction::Symmetrised);
        found.unwrap_err().to_string()
    };
    let many = "1\n".repeat(100_000);
    let damage = [0xff; 100];
    // A part of the split ends at the first node that is there twice.
    for (name, line) in [("raw/node-label", 6), ("split/time/test", 2)] {
        let error = pack(name, &many, &damage);
        let expected = format!("line {line}: expected ");
        assert!(error.contains(&expected), "{error}");
    }
    // Within the known number damage is found.
    let error = pack("raw/node-label", "1\n", &damage);
    assert!(error.contains("expected a whole gzip file"), "{error}");
}

#[test]
fn a_long_line_is_not_quoted_whole() {
    let folder = folder();
    write(folder.path(), "raw/edge.csv", &"7".repeat(1 << 20));
    let load = || {
        ogb::load(folder.path(), None, Direction::Symmetrised)
            .unwrap_err()
            .to_string()
    };
    let error = load();
    assert!(
        error.contains("expected source,target, found 7777") && error.len() < 1000,
        "{}",
        error.len()
    );
    write(folder.path(), "raw/edge.csv", &"7".repeat(1 << 23));
    let error = load();
    assert!(
        error.ends_with("line 1: expected a line of at most 4194304 bytes, found a longer one"),
        "{error}"
    );
}
