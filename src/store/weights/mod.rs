//! Weights: the tensors of a model in a file that PyTorch reads and writes as well.
//!
//! The files are [safetensors](https://huggingface.co/docs/safetensors), the names in them those of PyTorch
//! and PyTorch Geometric, which [`module!`](crate::module) declares beside each field. The header also holds
//! the configuration of the model, so that a file rebuilds its model:
//!
//! ```
//! use emmy::nn::{GraphNet, GraphNetConfig, Module};
//! use emmy::store::weights;
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("gat.safetensors");
//! let net = GraphNet::<f32>::new(GraphNetConfig::gat(34, 2), 0)?;
//! weights::save(&path, &net, &net.config)?;
//!
//! let again = weights::load(&path, |config| GraphNet::<f32>::new(config, 1))?;
//! assert_eq!(again.tensors(), net.tensors());
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! # What fits
//! The file must hold every tensor of the model, parameters and state, in its shape and by its name, and no
//! other; else nothing is loaded, and [`Error::Weights`] lists all that is missing, unexpected or of another
//! shape. [`Weights::load_matching`] takes what fits. Three things are allowed:
//! - shapes that differ by axes of size 1;
//! - counters of batches (`num_batches_tracked`), which PyTorch's normalisers keep and ours do not. They are
//!   ignored, and not written; `load_state_dict` does without them;
//! - a second name for a tensor that the model has once, and PyTorch twice. One of the two is enough, if it is
//!   left out with all the tensors of its field, and the [`Report`] names both; if both are there, they must
//!   hold the same numbers. Both are written.
//!
//! # Numbers
//! A model of `f32` is written as F32, one of `f64` as F64. F64, F32, F16 and BF16 are read into both: each
//! number becomes the nearest one of the model's type, of two equally near the one with an even last bit.
//! Only F64 in a model of `f32` is rounded. A finite number that would become infinite is refused. NaN and
//! infinite numbers are read as they are, and the [`Report`] counts them.
//!
//! # Files that cannot be trusted
//! No byte of a file is taken for granted: what breaks the format is an [`Error::Format`] with the byte.
//! Memory is asked for the header, which must be in the file and is at most 100 MB long, and for the tensors
//! of the model, after their shapes have been compared. The configuration in a file is as trustworthy as the
//! file: a function that builds a model from it decides what it asks memory for ([`Weights::count`] says how
//! many numbers the file holds).
//!
//! A file is written as checkpoints are: the path holds the old file or the new one at any moment, and a file
//! that a run keeps as its [`Place`](super::Place) is refused.

mod file;
mod header;
mod numbers;
mod plan;

pub use crate::error::{Misshapen, Missing, Report, Unexpected};
pub use file::Weights;

use super::Slot;
use crate::error::{Error, Result, printable};
use crate::nn::Module;
use crate::real::Real;
use plan::{Key, plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Writes the tensors of a model, and the configuration from which [`load`] builds the model. `&()` is no
/// configuration: then [`load_into`] reads the file into a model that is there.
///
/// The header names the version of this crate (`emmy`), the type of the model (`model`) and the configuration
/// (`config`, JSON, whose numbers come back bit for bit, but for infinite ones and NaN, which JSON has not).
///
/// # Errors
/// As [`store::save`](super::save); [`Error::Invalid`] if the configuration cannot be written as JSON.
///
/// # Panics
/// If `module!` gives two tensors one name, or axes that they do not have.
#[track_caller]
pub fn save<F: Real, M: Module<F>>(
    path: impl AsRef<Path>,
    model: &M,
    config: &impl Serialize,
) -> Result<()> {
    let path = path.as_ref();
    let config = serde_json::to_string(config).map_err(|e| not_json("configuration", path, &e))?;
    write(path, name_of::<M>(), &plan(model), config)
}

fn not_json(what: &str, path: &Path, e: &serde_json::Error) -> Error {
    let what = format!("{what} of weights {}", printable(path));
    Error::invalid(what, "JSON", e.to_string())
}

#[inline(never)]
fn write<F: Real>(path: &Path, model: &str, keys: &[Key<F>], config: String) -> Result<()> {
    let mut metadata = vec![
        ("format", "pt".to_owned()),
        ("emmy", env!("CARGO_PKG_VERSION").to_owned()),
        ("model", model.to_owned()),
    ];
    if config != "null" {
        metadata.push(("config", config));
    }
    let encoded = keys.iter().map(|key| {
        let mut bytes = Vec::new();
        key.laid()
            .for_each(|part| numbers::encode(part, &mut bytes));
        bytes
    });
    let encoded: Vec<_> = encoded.collect();
    let tensors: Vec<_> = (keys.iter().zip(&encoded))
        .map(|(key, bytes)| (key.name.as_str(), key.shape.as_slice(), bytes.len()))
        .collect();
    let header = header::write(&metadata, &tensors, &numbers::name_of::<F>())
        .map_err(|e| not_json("header", path, &e))?;
    let parts = std::iter::once(&header).chain(&encoded);
    let parts: Vec<_> = parts.map(Vec::as_slice).collect();
    Slot::new(path.to_owned()).write(&parts)
}

/// The model of a file: `build` makes one from the configuration in the file, and its tensors are replaced by
/// those of the file.
///
/// # Errors
/// As [`Weights::open`], [`Weights::config`] and [`Weights::load_into`]; the error of `build`; and
/// [`Error::Invalid`] if the file is of another type of model.
#[track_caller]
pub fn load<F: Real, C: DeserializeOwned, M: Module<F>>(
    path: impl AsRef<Path>,
    build: impl FnOnce(C) -> Result<M>,
) -> Result<M> {
    let path = path.as_ref();
    let file = Weights::open(path)?;
    let (found, expected) = (
        file.model().unwrap_or("a model without a name"),
        name_of::<M>(),
    );
    if found != expected {
        let what = format!("weights {}", printable(path));
        return Err(Error::invalid(what, format!("a {expected}"), found));
    }
    let mut model = build(file.config()?)?;
    file.load_into(&mut model)?;
    Ok(model)
}

/// Replaces the tensors of a model by those of a file: [`Weights::load_into`].
///
/// # Errors
/// As [`Weights::open`] and [`Weights::load_into`].
#[track_caller]
pub fn load_into<F: Real, M: Module<F> + ?Sized>(
    path: impl AsRef<Path>,
    model: &mut M,
) -> Result<Report> {
    Weights::open(path)?.load_into(model)
}

/// The names and shapes of the tensors that [`save`] writes for a model.
///
/// # Panics
/// As [`save`].
#[track_caller]
pub fn keys<F: Real>(model: &(impl Module<F> + ?Sized)) -> Vec<(String, Vec<usize>)> {
    let keys = plan(model).into_iter();
    keys.map(|key| (key.name, key.shape)).collect()
}

/// The name of a type without its path and parameters.
fn name_of<T: ?Sized>() -> &'static str {
    let whole = std::any::type_name::<T>();
    let path = whole.split('<').next().unwrap_or(whole);
    path.rsplit("::").next().unwrap_or(path)
}
