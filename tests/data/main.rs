//! Graphs, data sets, and the readers of their files.

#[path = "../cases/mod.rs"]
mod cases;
mod cora_like;
mod csv;
mod dataset;
mod errors;
mod files;
mod fuzzing;
mod generators;
mod graph;
mod hostile_files;
mod idx;
mod lookup_order;
#[cfg(target_os = "linux")]
mod memory;
mod ogb;
mod published;
mod small_files;
mod text;
mod windows;
