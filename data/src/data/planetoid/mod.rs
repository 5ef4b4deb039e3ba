//! The Planetoid citation graphs Cora, CiteSeer and PubMed (Yang, Cohen and Salakhutdinov, ICML 2016), from
//! the raw files `ind.NAME.PART` as upstream publishes them.
//!
//! | part | holds |
//! |---|---|
//! | `x`, `y` | features and one-hot labels of the training nodes |
//! | `allx`, `ally` | those of all nodes but the test nodes; the first rows are `x`, `y` |
//! | `tx`, `ty` | those of the test nodes, in the order of `test.index` |
//! | `graph` | lists of neighbours |
//! | `test.index` | the numbers of the test nodes, one per line |
//!
//! All but `test.index` are Python pickles. They are not run but read by an interpreter that knows 28 opcodes
//! and six names, calls nothing, and is bounded in memory by the length of the file.

mod assemble;
mod test_index;

use super::Files;
use super::dataset::Dataset;
use super::files::read_bounded;
use super::pickle::{self, Pickle};
use crate::error::Result;
use std::path::{Path, PathBuf};
use test_index::TestNode;

/// The eight parts of a set, in the order of upstream.
pub const PARTS: [&str; 8] = ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"];

/// The folder in which upstream publishes the files.
pub const ADDRESS: &str = "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data/";

/// The eight files of a set.
pub const FILES: Files = Files {
    names: &[
        "ind.NAME.x",
        "ind.NAME.tx",
        "ind.NAME.allx",
        "ind.NAME.y",
        "ind.NAME.ty",
        "ind.NAME.ally",
        "ind.NAME.graph",
        "ind.NAME.test.index",
    ],
    folders: &["planetoid", "", "TITLE/raw", "NAME/raw", "raw"],
    address: ADDRESS,
};

/// The name of a file: `ind.cora.allx`.
pub fn file_name(name: &str, part: &str) -> String {
    format!("ind.{name}.{part}")
}

/// Reads the set `name` (`cora`, `citeseer`, `pubmed`) from the eight files in `folder`.
///
/// The graph is undirected and without self-loops; the one split is the public one: the rows of `y` to train
/// on, the next 500 nodes to validate, the nodes of `test.index` to test. Test nodes that are not in
/// `test.index` (CiteSeer has 15) keep features of zero, label 0, and lie in no mask, as in PyTorch
/// Geometric.
///
/// # Errors
/// If a file cannot be read, or its content is not as expected; the message names file, byte and expectation.
pub fn load(folder: &Path, name: &str) -> Result<Dataset> {
    let path = |part| folder.join(file_name(name, part));
    let matrix = |part| read(path(part), |pickle| pickle.matrix());
    let labels = |part| read(path(part), |pickle| pickle.labels());
    assemble::Parts {
        x: matrix("x")?,
        tx: matrix("tx")?,
        allx: matrix("allx")?,
        y: labels("y")?,
        ty: labels("ty")?,
        ally: labels("ally")?,
        graph: read(path("graph"), |pickle| pickle.adjacency())?,
        test: test_index(&path("test.index"))?,
        path: &path,
    }
    .assemble(name)
}

fn test_index(file: &Path) -> Result<Vec<TestNode>> {
    test_index::parse(file, &read_bounded(file, test_index::MAX_BYTES)?)
}

fn read<T>(path: PathBuf, content: impl Fn(&Pickle) -> Result<T>) -> Result<T> {
    let bytes = read_bounded(&path, pickle::MAX_BYTES)?;
    content(&Pickle::read(&path, &bytes)?)
}
