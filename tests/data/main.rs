//! Graphs, data sets, and the readers of their files.

mod cora_like;
mod dataset;
mod files;
mod generators;
mod graph;
mod hostile_files;
mod lookup_order;
mod published;
mod small_files;
