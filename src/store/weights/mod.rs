//! Weights: the tensors of a model in a file that PyTorch reads and writes as well.
//!
//! The files are [safetensors](https://huggingface.co/docs/safetensors). The names in them are those of
//! PyTorch and PyTorch Geometric; [`module!`](crate::module) declares them beside each field. The header also
//! has the configuration of the model, so the model can be rebuilt from the file:
//!
//! ```
//! use emmy::nn::{GraphNet, GraphNetConfig, Module};
//! use emmy::store::weights;
//!
//! let folder = std::path::Path::new("target/listings/weights-mod");
//! std::fs::create_dir_all(folder).unwrap();
//! let path = folder.join("gat.safetensors");
//! let net = GraphNet::<f32>::new(GraphNetConfig::gat(34, 2), 0)?;
//! weights::save(&path, &net, &net.config)?;
//!
//! let again = weights::load(&path, |config| GraphNet::<f32>::new(config, 1))?;
//! assert_eq!(again.tensors(), net.tensors());
//! # Ok::<(), emmy::Error>(())
//! ```
//!
//! # What fits
//! The file must have every tensor of the model, parameters and state, with its shape and its name, and no
//! other tensor. Otherwise nothing is loaded, and [`Error::Weights`] lists all tensors that are missing,
//! unexpected or of another shape. [`Weights::load_matching`] loads only the tensors that fit. Three
//! differences are allowed:
//! - shapes that differ by axes of size 1;
//! - counters of batches (`num_batches_tracked`), which PyTorch's normalisers keep and ours do not. They are
//!   ignored, and not written; `load_state_dict` does without them;
//! - a second name for a tensor that the model has once, and PyTorch twice. One of the two is enough if all
//!   tensors of the other field are left out; the [`Report`] then names both. If both are there, they must
//!   have the same numbers. Both are written.
//!
//! # Numbers
//! A model of `f32` is written as F32, one of `f64` as F64. F64, F32, F16 and BF16 are read into both: each
//! number becomes the nearest number of the model's type; of two equally near numbers, the one with an even
//! last bit. Only F64 in a model of `f32` is rounded. A finite number that would become infinite is refused.
//! NaN and infinite numbers are read as they are, and the [`Report`] counts them.
//!
//! # Files that cannot be trusted
//! Every byte of a file is checked: a violation of the format is an [`Error::Format`] with the byte. Memory
//! is allocated for the header, which must be in the file and is at most 100 MB long, and for the tensors of
//! the model, after their shapes have been compared. The configuration in a file can be trusted only as far
//! as the file: a function that builds a model from it decides how much memory to allocate
//! ([`Weights::count`] gives the number of values in the file).
//!
//! Files are written like checkpoints: at any moment the path holds the old file or the new one. Writing to a
//! file that a run keeps as its [`Place`](super::Place) is refused.

mod file;
mod header;
mod numbers;
mod plan;
mod report;

pub use file::Weights;
pub use report::{Misshapen, Missing, Report, Unexpected};

use super::place::{Kind, Slot};
use crate::error::{Error, Result, printable};
use crate::nn::Module;
use crate::real::Real;
use plan::{Key, plan};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// Writes the tensors of a model, and the configuration from which [`load`] builds the model. `&()` means no
/// configuration: then only [`load_into`] can read the file, into a model that exists already.
///
/// The header has the version of this crate (`emmy`), the type of the model (`model`) and the configuration
/// (`config`, in JSON). Numbers of the configuration are read back bit for bit, except infinite numbers and
/// NaN, which JSON does not have.
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
    let header = header::write(&metadata, &tensors, numbers::dtype_of::<F>())
        .map_err(|e| not_json("header", path, &e))?;
    let parts = std::iter::once(&header).chain(&encoded);
    let parts: Vec<_> = parts.map(Vec::as_slice).collect();
    Slot::new(path.to_owned(), Kind::WEIGHTS).write_once(&parts)
}

/// The model of a file: `build` makes a model from the configuration in the file, and the tensors of the file
/// replace its tensors.
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
