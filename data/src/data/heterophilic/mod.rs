//! Six heterophilic graphs, Chameleon, Squirrel, Actor, Cornell, Texas and Wisconsin (Pei et al., "Geom-GCN",
//! ICLR 2020), in the `.npz` files of Platonov et al. (ICLR 2023), with ten splits each.
//!
//! | member | elements | shape |
//! |---|---|---|
//! | `node_features.npy` | `<f4` | n × d |
//! | `node_labels.npy` | `<i8` | n |
//! | `edges.npy` | `<i8` | m × 2: each edge once, u < v, sorted |
//! | `train_masks.npy`, `val_masks.npy`, `test_masks.npy` | `\|b1` | 10 × n |
//!
//! The archive is inflated as it is read. Shapes are compared with each other, with the declared lengths and
//! with the largest sizes that are read first, and archives that inflate beyond a fixed length are refused,
//! so a small file cannot fill the memory, neither here nor in training.

mod npy;
mod npz;

use super::dataset::{Dataset, Split};
use super::files::{MAX_CLASSES, MAX_EDGES, MAX_FEATURES, MAX_NODES, read_bounded};
use super::{Direction, Files};
use crate::error::Result;
use crate::graph::{Duplicates, Graph, SelfLoops};
use crate::sparse::{Csr, Pattern};
use npz::Npz;
use std::path::Path;

/// The folder in which upstream publishes the files.
pub const ADDRESS: &str =
    "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data/";

/// The file of a set.
pub const FILES: Files = Files {
    names: &["NAME.npz"],
    folders: &["heterophilic", ""],
    address: ADDRESS,
};

/// Splits per set.
const SPLITS: usize = 10;

const MASKS: [&str; 3] = ["train_masks.npy", "val_masks.npy", "test_masks.npy"];

/// The name of a file: `texas.npz`.
pub fn file_name(name: &str) -> String {
    format!("{name}.npz")
}

/// Reads the set `name` from `NAME.npz` in `folder`.
///
/// # Errors
/// If the file cannot be read, or its content is not as expected; the message names archive, member, byte
/// within the member and expectation.
pub fn load(folder: &Path, name: &str, direction: Direction) -> Result<Dataset> {
    let file = folder.join(file_name(name));
    let bytes = read_bounded(&file, npz::MAX_ARCHIVE)?;
    read(name, &file, &bytes, direction)
}

fn read(name: &str, file: &Path, bytes: &[u8], direction: Direction) -> Result<Dataset> {
    let mut npz = Npz::open(file, bytes)?;
    let shape = check_shapes(&mut npz)?;
    let features = features(&mut npz, shape)?;
    let (labels, classes) = labels(&mut npz, shape.n)?;
    let edges = edges(&mut npz, shape)?;
    let splits = splits(&mut npz, shape.n)?;
    let mut graph = Graph::new(shape.n, &edges, Duplicates::Reject, SelfLoops::Reject)?;
    if direction == Direction::Symmetrised {
        graph = graph.symmetrise();
    }
    Dataset::new(name, graph, features, labels, classes, splits)
}

/// n nodes, d features, m edges.
#[derive(Clone, Copy)]
struct Shape {
    n: usize,
    d: usize,
    m: usize,
}

/// The shapes of all members, before any of them is read.
fn check_shapes(npz: &mut Npz) -> Result<Shape> {
    let member = npz.member("node_features.npy", "<f4")?;
    let (n, d) = match member.header.shape[..] {
        [n @ 1..=MAX_NODES, d @ 1..=MAX_FEATURES] => (n, d),
        _ => {
            let wanted = format!(
                "[nodes, features], at least one of each, at most {MAX_NODES} nodes and {MAX_FEATURES} features"
            );
            return Err(member.refuse_shape(wanted));
        }
    };
    drop(member);
    let member = npz.member("node_labels.npy", "<i8")?;
    if member.header.shape != [n] {
        return Err(member.refuse_shape(format!("[{n}], one label per row of node_features.npy")));
    }
    drop(member);
    let member = npz.member("edges.npy", "<i8")?;
    let &[m @ ..=MAX_EDGES, 2] = &member.header.shape[..] else {
        return Err(member.refuse_shape(format!("[edges, 2], at most {MAX_EDGES} edges")));
    };
    drop(member);
    for name in MASKS {
        let member = npz.member(name, "|b1")?;
        if member.header.shape != [SPLITS, n] {
            let wanted = format!("[{SPLITS}, {n}], a flag for each row of node_features.npy");
            return Err(member.refuse_shape(wanted));
        }
    }
    Ok(Shape { n, d, m })
}

fn features(npz: &mut Npz, Shape { n, d, .. }: Shape) -> Result<Csr<f32>> {
    let mut member = npz.member("node_features.npy", "<f4")?;
    member.expect_row_major()?;
    let (mut indptr, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for _ in 0..n {
        for j in 0..d {
            let x = f32::from_le_bytes(member.take()?);
            if !x.is_finite() {
                return Err(member.refuse_last(4, "a finite number", x.to_string()));
            }
            if x != 0.0 {
                indices.push(j as u32);
                values.push(x);
            }
        }
        indptr.push(indices.len());
    }
    member.end()?;
    Ok(Csr::new(Pattern::new(n, d, indptr, indices)?, values))
}

fn labels(npz: &mut Npz, n: usize) -> Result<(Vec<usize>, usize)> {
    let mut member = npz.member("node_labels.npy", "<i8")?;
    member.expect_row_major()?;
    let mut labels = Vec::new();
    let most = n.min(MAX_CLASSES);
    for _ in 0..n {
        let label = i64::from_le_bytes(member.take()?);
        match usize::try_from(label) {
            Ok(c) if c < most => labels.push(c),
            _ => {
                let expected = format!("a class from 0 to below {most}");
                return Err(member.refuse_last(8, expected, label.to_string()));
            }
        }
    }
    member.end()?;
    let classes = labels.iter().max().map_or(0, |c| c + 1);
    Ok((labels, classes))
}

fn edges(npz: &mut Npz, Shape { n, m, .. }: Shape) -> Result<Vec<(u32, u32)>> {
    let mut member = npz.member("edges.npy", "<i8")?;
    member.expect_row_major()?;
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for _ in 0..m {
        let u = i64::from_le_bytes(member.take()?);
        let v = i64::from_le_bytes(member.take()?);
        if !(0 <= u && u < v && v < n as i64) {
            let expected = format!("an edge (u, v) with 0 ≤ u < v < {n}");
            return Err(member.refuse_last(16, expected, format!("({u}, {v})")));
        }
        let edge = (u as u32, v as u32);
        if let Some(last) = edges.last().filter(|&&last| last >= edge) {
            let expected = format!("an edge after {last:?}: edges ascend");
            return Err(member.refuse_last(16, expected, format!("({u}, {v})")));
        }
        edges.push(edge);
    }
    member.end()?;
    Ok(edges)
}

fn splits(npz: &mut Npz, n: usize) -> Result<Vec<Split>> {
    let mut taken = vec![false; SPLITS * n];
    let mut masks = Vec::new();
    for name in MASKS {
        let mut member = npz.member(name, "|b1")?;
        let by_node = member.header.fortran_order;
        let mut flags = vec![false; SPLITS * n];
        for k in 0..SPLITS * n {
            let (split, node) = if by_node {
                (k % SPLITS, k / SPLITS)
            } else {
                (k / n, k % n)
            };
            let slot = split * n + node;
            match member.take()? {
                [0] => {}
                [1] if !taken[slot] => (taken[slot], flags[slot]) = (true, true),
                [1] => {
                    let expected = format!("node {node} in one mask of split {split}");
                    return Err(member.refuse_last(1, expected, "a second one"));
                }
                [flag] => return Err(member.refuse_last(1, "0 or 1", flag.to_string())),
            }
        }
        member.end()?;
        masks.push(flags);
    }
    let row = |mask: &Vec<bool>, k: usize| mask[k * n..(k + 1) * n].to_vec();
    let split = |k| Split {
        train: row(&masks[0], k),
        val: row(&masks[1], k),
        test: row(&masks[2], k),
    };
    Ok((0..SPLITS).map(split).collect())
}
