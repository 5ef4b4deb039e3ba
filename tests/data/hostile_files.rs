//! Hostile files, whose bytes claim what is not so, and damaged ones: whatever the bytes are, the readers
//! answer with a data set or with an error that names file and byte.

mod damaged;

use crate::files::{self, npz, pickle};
use emmy::Error;
use emmy::data::{Dataset, Direction, heterophilic, planetoid};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PARTS: [&str; 8] = ["x", "allx", "tx", "y", "ally", "ty", "graph", "test.index"];

/// A folder with the small Planetoid set, in which one part at a time is replaced.
struct Planetoid(TempDir);

impl Planetoid {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        files::write_parts(folder.path(), "pubmed", &files::small_set());
        Self(folder)
    }

    /// The result of the loader with `bytes` in place of a part.
    fn with(&self, part: &str, bytes: &[u8]) -> emmy::Result<Dataset> {
        let path = self.0.path().join(format!("ind.pubmed.{part}"));
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let result = planetoid::load(self.0.path(), "pubmed");
        std::fs::write(&path, whole).unwrap();
        result
    }
}

fn npz_with(folder: &Path, bytes: &[u8]) -> emmy::Result<Dataset> {
    std::fs::write(folder.join("texas.npz"), bytes).unwrap();
    heterophilic::load(folder, "texas", Direction::Symmetrised)
}

/// An error must be of the kind that names the place. A data set must be consistent, which
/// `Dataset::new` has checked.
fn place(result: emmy::Result<Dataset>) -> Option<(PathBuf, u64)> {
    match result {
        Ok(_) => None,
        Err(Error::Format { file, byte, .. }) => Some((file, byte)),
        Err(other) => panic!("not an error about the contents: {other}"),
    }
}

/// Pickles with opcodes for execution, which no data file has.
fn refused_pickle(body: &[u8], byte: u64, expected: &str) {
    let result = Planetoid::new().with("y", &[&b"\x80\x02"[..], body].concat());
    files::refused(result, "ind.pubmed.y", byte, expected);
}

#[test]
fn nothing_is_executed() {
    for code in [
        &b"cos\nsystem\n"[..],
        b"c__builtin__\neval\n",
        b"cposix\nsystem\n",
        b"cnumpy\nload\n",
    ] {
        let body = [code, b"U\x04true\x85R."].concat();
        let result = Planetoid::new().with("y", &[&b"\x80\x02"[..], &body].concat());
        files::refused(result, "ind.pubmed.y", 2, "");
    }
    // STACK_GLOBAL, INST, OBJ, EXT, PERSID: not among the opcodes of these files.
    for opcode in [0x93u8, b'i', b'o', 0x82, b'P', b'Q', 0x95] {
        refused_pickle(&[opcode, 0, 0, 0, 0, 0, 0, 0, 0], 2, "");
    }
}

#[test]
fn false_lengths_cost_no_memory() {
    // A string of 2³¹ − 1 bytes in a file of nine; an array of 10¹⁸ elements; a million nested tuples.
    refused_pickle(b"T\xff\xff\xff\x7fab", 9, "2147483647 bytes from byte 7 on");
    refused_pickle(b"T\xff\xff\xff\xffab", 2, "a string of non-negative length");
    let set = Planetoid::new();
    let mut huge = pickle::Writer::new();
    huge.raw(b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n");
    huge.int(0).raw(b"\x85U\x01b\x87R(");
    huge.int(1).int(i32::MAX).int(i32::MAX).raw(b"\x86");
    huge.raw(b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R(").int(3);
    huge.raw(b"U\x01<NNN").int(-1).int(-1).int(0).raw(b"tb");
    huge.raw(b"\x89U\x04abcdtb.");
    assert!(place(set.with("y", &huge.bytes)).is_some());
    let nested = [
        b"\x80\x02K\x00".to_vec(),
        vec![0x85; 1_000_000],
        b".".to_vec(),
    ]
    .concat();
    assert!(place(set.with("y", &nested)).is_some());
    let marks = [b"\x80\x02".to_vec(), vec![b'('; 1_000_000], b".".to_vec()].concat();
    assert!(place(set.with("y", &marks)).is_some());
}

#[test]
fn archives_with_false_sizes_cost_no_memory() {
    let folder = TempDir::new().unwrap();
    for shape in [
        "(1000000000000, 3)",
        "(18446744073709551615, 3)",
        "(6, 99999999999999999999)",
        "(-6, 3)",
        "(6, 3",
        "6, 3)",
        "()",
    ] {
        let lie = npz::npy("<f4", false, shape, &[0; 72]);
        assert!(
            place(npz_with(
                folder.path(),
                &npz::with("node_features.npy", lie)
            ))
            .is_some(),
            "{shape}"
        );
    }
    for descr in ["|O", "<f2", "<U8", ">f4", "|V4"] {
        let lie = npz::npy(descr, false, "(6, 3)", &[0; 72]);
        assert!(
            place(npz_with(
                folder.path(),
                &npz::with("node_features.npy", lie)
            ))
            .is_some(),
            "{descr}"
        );
    }
    // 64 MiB of zeros deflate to some 64 kB: more than the header promises.
    let bomb = npz::npy("<f4", false, "(6, 3)", &vec![0; 64 << 20]);
    let archive = npz::with("node_features.npy", bomb);
    assert!(archive.len() < 1 << 20);
    assert!(place(npz_with(folder.path(), &archive)).is_some());
}

#[test]
fn many_end_records_cost_no_time() {
    // Each record points at a directory with an error in its last member. A reader that tries all
    // of them in turn reads thousands of members thousands of times.
    let good = npz::archive(&npz::small_set());
    let at = good.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
    let end = good.len() - 22;
    let mut entry = good[at..at + 46 + "node_features.npy".len()].to_vec();
    entry[28] = 17;
    let mut bytes: Vec<u8> = entry.repeat(4000);
    let mut record = good[end..].to_vec();
    record[8..12].copy_from_slice(&[0xfe, 0xff, 0xfe, 0xff]);
    record[16..20].copy_from_slice(&[0; 4]);
    bytes.extend(record.repeat(4000));
    let last = bytes.len() - 22;
    let folder = TempDir::new().unwrap();
    let result = npz_with(folder.path(), &bytes);
    files::refused(result, "texas.npz", last as u64 + 10, "at most 64 members");
    bytes[last + 8..last + 12].copy_from_slice(&[6, 0, 6, 0]);
    let result = npz_with(folder.path(), &bytes);
    files::refused(result, "texas.npz", None, "no more than 4 records");
    let result = npz_with(folder.path(), &[&good[..], b"  "].concat());
    files::refused(result, "texas.npz", end as u64 + 2, "PK 05 06");
}

#[test]
fn members_that_inflate_to_too_much_together_are_refused() {
    let mut members = npz::small_set();
    members.push(("a.npy", vec![0; 70 << 20]));
    members.push(("b.npy", vec![0; 70 << 20]));
    let bytes = npz::archive(&members);
    assert!(bytes.len() < 1 << 20);
    let folder = TempDir::new().unwrap();
    let result = npz_with(folder.path(), &bytes);
    files::refused(
        result,
        "texas.npz",
        bytes.len() as u64 - 22,
        "bytes together",
    );
}

#[test]
fn sizes_without_elements_are_refused() {
    // The header promises four thousand million features of no node, without a byte of elements …
    let folder = TempDir::new().unwrap();
    let lie = npz::npy("<f4", false, "(0, 4294967295)", &[]);
    let result = npz_with(folder.path(), &npz::with("node_features.npy", lie));
    files::refused(result, "node_features.npy", 10, "at least one of each");
    // … or two thousand million columns of a sparse matrix.
    let rows: Vec<_> = (0..6).map(files::row).collect();
    let result = Planetoid::new().with("x", &pickle::csr(i32::MAX as usize, &rows));
    files::refused(result, "ind.pubmed.x", None, "at most 65536 columns");
    let result = Planetoid::new().with("x", &pickle::csr(files::D, &[]));
    files::refused(result, "ind.pubmed.x", 0, "6 rows");
}

#[test]
fn every_other_opcode_is_refused() {
    let known = b"\x80cqrh)\x81}](UTKMJ\x85\x86\x87tN\x88\x89Rbuea.";
    assert_eq!(known.len(), 28);
    let set = Planetoid::new();
    // PROTO is allowed as the first byte only.
    for opcode in (0..=255).filter(|code| *code == 0x80 || !known.contains(code)) {
        let body = [&b"\x80\x02"[..], &[opcode, 0, 0, 0, 0, b'.']].concat();
        files::refused(set.with("y", &body), "ind.pubmed.y", 2, "opcodes");
    }
}

#[test]
fn values_that_hold_themselves_are_refused() {
    let set = Planetoid::new();
    // A list that contains itself, a dict that is its own value, a matrix whose state holds the
    // matrix.
    for body in [
        &b"]q\x01h\x01a."[..],
        b"}q\x01(K\x00h\x01u.",
        b"}q\x01(K\x00]q\x02h\x02au.",
        b"cscipy.sparse.csr\ncsr_matrix\n)\x81q\x01}(U\x06formath\x01ub.",
    ] {
        for part in ["x", "y", "graph"] {
            let bytes = [&b"\x80\x02"[..], body].concat();
            assert!(place(set.with(part, &bytes)).is_some());
        }
    }
    // One list of a thousand neighbours, referred to by every one of five thousand nodes.
    let mut w = files::pickle::default_dict();
    w.raw(b"(").int(0).raw(b"]").put().raw(b"(");
    for j in 0..1000 {
        w.int(j);
    }
    w.raw(b"e");
    for i in 1..5000 {
        w.int(i).raw(b"h\x04");
    }
    let result = set.with("graph", w.raw(b"u.").bytes.as_slice());
    files::refused(result, "ind.pubmed.graph", None, "a list of its own");
}

#[test]
fn sizes_that_no_training_could_bear_are_refused() {
    let set = Planetoid::new();
    // 257 classes. Two million rows or neighbour lists need megabytes, so small files cannot declare so many.
    let labels: Vec<usize> = (0..6).map(files::class).collect();
    let result = set.with("y", &pickle::one_hot(257, &labels));
    files::refused(result, "ind.pubmed.y", None, "1 to 256 classes, found 257");
    let rows = pickle::raw_csr([65_537, 9], &vec![0; 65_538], &[], &[]);
    let result = set.with("x", &rows);
    files::refused(result, "ind.pubmed.x", None, "at most 65536 rows");
    let lists = vec![Vec::new(); 65_537];
    let result = set.with("graph", &pickle::graph(&lists));
    files::refused(
        result,
        "ind.pubmed.graph",
        None,
        "at most 65536 neighbour lists",
    );

    let folder = TempDir::new().unwrap();
    let npz = |name, bytes| npz_with(folder.path(), &npz::with(name, bytes));
    let shape = |text: &str, bytes: usize| npz::npy("<f4", false, text, &vec![0; bytes]);
    for text in ["(65537, 1)", "(1, 65537)"] {
        let result = npz("node_features.npy", shape(text, 4 * 65_537));
        let rule = "at most 65536 nodes and 65536 features";
        files::refused(result, "node_features.npy", 10, rule);
    }
    let many = npz::npy("<i8", false, "(1048577, 2)", &vec![0; 16 * 1_048_577]);
    let result = npz("edges.npy", many);
    files::refused(result, "edges.npy", 10, "at most 1048576 edges");
    // As many classes as nodes, at most.
    let labels = npz::npy("<i8", false, "(6,)", &npz::i8(&[0, 1, 2, 0, 1, 6]));
    let result = npz("node_labels.npy", labels);
    files::refused(result, "node_labels.npy", 128 + 40, "below 6, found 6");
}

#[test]
fn features_of_a_citation_set_are_not_negative() {
    let mut rows: Vec<_> = (0..6).map(files::row).collect();
    rows[2].push((8, -0.5));
    rows[2].sort_by_key(|(j, _)| *j);
    let result = Planetoid::new().with("x", &pickle::csr(files::D, &rows));
    files::refused(
        result,
        "ind.pubmed.x",
        None,
        "a finite number from 0 up, found -0.5",
    );
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_read() {
    let set = Planetoid::new();
    let pipe = |name: &str| {
        let path = set.0.path().join(name);
        let _ = std::fs::remove_file(&path);
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        path
    };
    let refused = |result: emmy::Result<Dataset>, path: &Path| {
        let message = result.unwrap_err().to_string();
        let expected = format!("{}: not a regular file", path.display());
        assert_eq!(message, expected);
    };
    // No program writes to these pipes: opening one would wait for ever.
    for part in ["test.index", "x"] {
        let path = pipe(&format!("ind.pubmed.{part}"));
        refused(planetoid::load(set.0.path(), "pubmed"), &path);
    }
    let path = pipe("texas.npz");
    let result = heterophilic::load(set.0.path(), "texas", Direction::Symmetrised);
    refused(result, &path);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    let result = heterophilic::load(set.0.path(), "texas", Direction::Symmetrised);
    refused(result, &path);
}
