//! Complete sets on small files that the tests write: assembly, and the places where files are looked for.

use crate::files::{self, Parts, npz, pickle};
use emmy::Error;
use emmy::data::{self, Dataset, Direction, Options, heterophilic, planetoid};
use std::path::Path;
use tempfile::TempDir;

/// The features of a node, as (word, value).
fn row(set: &Dataset, i: usize) -> Vec<(usize, f32)> {
    let x = &set.features;
    let entry = |e: usize| (x.pattern.indices()[e] as usize, x.values[[e]]);
    x.pattern.row(i).map(entry).collect()
}

/// The expected contents of the small Planetoid set, node by node.
fn check(set: &Dataset) {
    assert_eq!((set.nodes(), set.feature_count()), (files::N, files::D));
    assert_eq!(set.classes, 3);
    let split = &set.splits[0];
    for i in 0..files::N {
        let unknown = [510, 513].contains(&i);
        let expected = if unknown { vec![] } else { files::row(i) };
        assert_eq!(row(set, i), expected, "{i}");
        let class = if unknown { 0 } else { files::class(i) };
        assert_eq!(set.labels[i], class, "{i}");
        assert_eq!(split.train[i], i < 6);
        assert_eq!(split.val[i], (6..506).contains(&i));
        assert_eq!(split.test[i], i >= 506 && !unknown);
    }
    // Each neighbour occurs once, and no node is its own neighbour.
    for (i, mut list) in files::neighbours().into_iter().enumerate() {
        list.sort_unstable();
        list.dedup();
        list.retain(|&j| j != i);
        let found: Vec<usize> = set.graph.sources(i).iter().map(|&j| j as usize).collect();
        assert_eq!(found, list, "{i}");
    }
    assert!(set.graph.is_symmetric());
}

fn load(folder: &Path, name: &str) -> emmy::Result<Dataset> {
    let options = Options {
        folder: Some(folder.to_path_buf()),
        ..Options::default()
    };
    data::load(name, &options)
}

#[test]
fn a_complete_pubmed_is_assembled_wherever_it_lies() {
    for place in ["planetoid", "", "PubMed/raw", "pubmed/raw", "raw"] {
        let folder = TempDir::new().unwrap();
        files::write_parts(&folder.path().join(place), "pubmed", &files::small_set());
        let set = load(folder.path(), "pubmed").unwrap();
        assert_eq!(set.name, "pubmed");
        check(&set);
    }
}

#[test]
fn columns_in_any_order_are_sorted() {
    let mut parts = files::small_set();
    let mut rows: Vec<_> = files::TEST.iter().map(|&i| files::row(i)).collect();
    rows.iter_mut().for_each(|row| row.reverse());
    parts.insert("tx", pickle::csr(files::D, &rows));
    let folder = TempDir::new().unwrap();
    files::write_parts(folder.path(), "pubmed", &parts);
    check(&planetoid::load(folder.path(), "pubmed").unwrap());
}

#[test]
fn the_writer_of_these_tests_writes_what_upstream_wrote() {
    let Some(folder) = files::published() else {
        return;
    };
    let published = |part| std::fs::read(folder.join("planetoid").join(format!("ind.cora.{part}")));
    let cora = load(&folder, "cora").unwrap();
    let rows: Vec<_> = (0..140).map(|i| row(&cora, i)).collect();
    assert!(pickle::csr(1433, &rows) == published("x").unwrap());
    assert!(pickle::one_hot(7, &cora.labels[..140]) == published("y").unwrap());
    let rows: Vec<_> = (0..1708).map(|i| row(&cora, i)).collect();
    assert!(pickle::csr(1433, &rows) == published("allx").unwrap());
}

#[test]
fn a_missing_part_is_named_with_its_address_and_all_places() {
    let folder = TempDir::new().unwrap();
    let mut parts = files::small_set();
    parts.remove("allx");
    parts.remove("ty");
    files::write_parts(&folder.path().join("planetoid"), "pubmed", &parts);
    let error = load(folder.path(), "pubmed").unwrap_err();
    assert!(matches!(&error, Error::NotFound { looked, .. } if looked.len() == 5));
    let message = error.to_string();
    assert!(
        message.starts_with("ind.pubmed.allx, ind.pubmed.ty (the other files of PubMed are in ")
    );
    for part in ["allx", "ty"] {
        let address = format!("{}ind.pubmed.{part}", planetoid::ADDRESS);
        assert!(message.contains(&address), "{message}");
    }
    // A complete set in another place of the same folder is preferred to the incomplete one.
    files::write_parts(
        &folder.path().join("PubMed/raw"),
        "pubmed",
        &files::small_set(),
    );
    check(&load(folder.path(), "pubmed").unwrap());
}

#[test]
fn a_folder_without_the_set_is_an_error_with_places_and_address() {
    let folder = TempDir::new().unwrap();
    for (name, address) in [
        ("cora", format!("{}ind.cora.x", planetoid::ADDRESS)),
        ("texas", format!("{}texas.npz", heterophilic::ADDRESS)),
    ] {
        let error = load(folder.path(), name).unwrap_err();
        let Error::NotFound { looked, .. } = &error else {
            panic!("{error}")
        };
        // Only the given folder is searched.
        assert!(looked.iter().all(|place| place.starts_with(folder.path())));
        assert!(error.to_string().contains(&address), "{error}");
    }
}

#[test]
fn a_small_heterophilic_set_is_read_in_both_directions() {
    let folder = TempDir::new().unwrap();
    for place in ["heterophilic", ""] {
        let inside = folder.path().join(place);
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("texas.npz"), npz::archive(&npz::small_set())).unwrap();
        let set = load(folder.path(), "texas").unwrap();
        assert_eq!((set.nodes(), set.feature_count(), set.classes), (6, 3, 3));
        assert_eq!(set.labels, [0, 1, 2, 0, 1, 1]);
        assert_eq!(row(&set, 0), [(1, 1.0)]);
        assert_eq!(row(&set, 1), [(2, 1.0)]);
        assert_eq!(set.graph.edges(), 8);
        assert_eq!(set.graph.sources(1), [0, 2]);
        assert_eq!(set.splits.len(), 10);
        for (k, split) in set.splits.iter().enumerate() {
            for i in 0..6 {
                let flags = [split.train[i], split.val[i], split.test[i]];
                assert_eq!(flags, [0, 1, 2].map(|which| (i + k) % 3 == which));
            }
        }
        let directed = heterophilic::load(&inside, "texas", Direction::Directed).unwrap();
        assert_eq!(directed.graph.edges(), 4);
        assert_eq!(directed.graph.sources(5), [0]);
        assert!(directed.graph.sources(0).is_empty());
        std::fs::remove_file(inside.join("texas.npz")).unwrap();
    }
}

#[test]
fn masks_in_row_major_order_say_the_same() {
    let mut members = npz::small_set();
    let mut reference = None;
    for fortran in [true, false] {
        if !fortran {
            for (_, bytes) in &mut members[3..] {
                let data = &bytes[128..];
                let turned: Vec<u8> = (0..60).map(|b| data[10 * (b % 6) + b / 6]).collect();
                *bytes = npz::npy("|b1", false, "(10, 6)", &turned);
            }
        }
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("texas.npz"), npz::archive(&members)).unwrap();
        let set = load(folder.path(), "texas").unwrap();
        let reference = reference.get_or_insert_with(|| set.clone());
        assert_eq!(set.splits, reference.splits);
    }
}

#[test]
fn files_of_two_sets_are_not_mixed() {
    let folder = TempDir::new().unwrap();
    let load = |parts: &Parts| {
        files::write_parts(folder.path(), "pubmed", parts);
        planetoid::load(folder.path(), "pubmed")
    };
    let replaced = |part, bytes| {
        let mut parts = files::small_set();
        parts.insert(part, bytes);
        load(&parts)
    };
    let row = |i| files::row(i);
    let mut rows: Vec<_> = (0..6).map(row).collect();
    rows[1][0].1 += 1.0;
    let result = replaced("x", pickle::csr(files::D, &rows));
    files::refused(
        result,
        "ind.pubmed.x",
        None,
        "row 1 to be that of part allx",
    );
    let labels: Vec<_> = (0..6).map(|i| (files::class(i) + i / 5) % 3).collect();
    let result = replaced("y", pickle::one_hot(3, &labels));
    files::refused(result, "ind.pubmed.y", None, "as in part ally");
    let rows: Vec<_> = files::TEST.iter().map(|&i| row(i)).collect();
    let result = replaced("tx", pickle::csr(files::D + 1, &rows));
    files::refused(
        result,
        "ind.pubmed.tx",
        0,
        "9 columns, as many as part allx",
    );
    let result = replaced("tx", pickle::csr(files::D, &rows[1..]));
    files::refused(
        result,
        "ind.pubmed.tx",
        0,
        "9 rows, as many as the labels of part ty",
    );
    let classes: Vec<_> = files::TEST.iter().map(|&i| files::class(i)).collect();
    let result = replaced("ty", pickle::one_hot(4, &classes));
    files::refused(
        result,
        "ind.pubmed.ty",
        None,
        "3 classes, as many as part ally",
    );
    let mut one_way = files::neighbours();
    one_way[100].push(300);
    let result = replaced("graph", pickle::graph(&one_way));
    files::refused(
        result,
        "ind.pubmed.graph",
        None,
        "neighbour 300 of node 100 to have 100",
    );
    let few: Vec<_> = (0..400).map(row).collect();
    let result = replaced("allx", pickle::csr(files::D, &few));
    files::refused(result, "ind.pubmed.allx", 0, "506 rows");
    check(&load(&files::small_set()).unwrap());
}
