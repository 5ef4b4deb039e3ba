//! The sizes of the data sets, for estimates of work before any data are loaded.

use emmy::data;

/// Nodes, and edges counted in both directions, approximately; the sizes of Cora for an unknown name.
pub fn of(dataset: &str) -> (u64, u64) {
    let [nodes, edges] = data::find(dataset).map_or([2_708, 10_556], |set| set.size);
    (nodes, edges)
}
