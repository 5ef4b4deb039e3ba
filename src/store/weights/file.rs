//! Reading a file of weights: first its header, then the tensors that are requested.

use super::header;
use super::numbers::{self, Numbers, is_read};
use super::plan::{Key, plan};
use super::{Misshapen, Missing, Report, Unexpected};
use crate::error::{Error, Result, printable};
use crate::files::open_regular;
use crate::nn::{Module, in_order};
use crate::real::Real;
use crate::tensor::{Tensor, memory};
use safetensors::tensor::{Metadata, TensorInfo};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The last part of names that are ignored.
const IGNORED: &str = "num_batches_tracked";

/// For at most so many unexpected names, of at most this length, the most similar missing name is searched.
const COMPARED: usize = 50;
const LONGEST: usize = 120;

/// A file of weights, of which the header has been read.
///
/// ```
/// use emmy::init;
/// use emmy::nn::{Activation, Mlp};
/// use emmy::store::weights::{self, Weights};
///
/// let folder = std::path::Path::new("target/listings/weights-file");
/// std::fs::create_dir_all(folder).unwrap();
/// let path = folder.join("mlp.safetensors");
/// let mlp = Mlp::<f64>::new(&[4, 8, 3], Activation::Relu, true, &mut init::rng(0));
/// weights::save(&path, &mlp, &())?;
///
/// let file = Weights::open(&path)?;
/// assert_eq!(file.model(), Some("Mlp"));
/// assert_eq!(file.shape("lins.1.weight"), Some(&[3, 8][..]));
/// assert_eq!(file.get::<f64>("lins.1.weight")?, mlp.layers[1].weight);
///
/// // A model with one more layer takes the two that are there.
/// let mut deeper = Mlp::<f64>::new(&[4, 8, 3, 3], Activation::Relu, true, &mut init::rng(1));
/// assert!(file.load_into(&mut deeper).is_err());
/// let report = file.load_matching(&mut deeper)?;
/// assert_eq!(report.missing[0].key, "lins.2.weight");
/// assert_eq!(deeper.layers[1].weight, mlp.layers[1].weight);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug)]
pub struct Weights {
    path: PathBuf,
    file: File,
    header: Metadata,
    /// The names of the tensors, in the order of their numbers.
    names: Vec<String>,
    /// The first byte of the numbers.
    start: u64,
}

impl Weights {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or is not a regular file; [`Error::Format`] with the byte and the
    /// expectation if it is not a safetensors file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut file = open_regular(path)?;
        let (header, start) = header::read(path, &mut file)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            names: header.offset_keys(),
            header,
            start,
        })
    }

    /// The names of the tensors, in the order of their numbers in the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The shape of a tensor.
    pub fn shape(&self, key: &str) -> Option<&[usize]> {
        Some(&self.header.info(key)?.shape)
    }

    /// The type of the numbers of a tensor, such as `"F32"`.
    pub fn dtype(&self, key: &str) -> Option<String> {
        Some(self.header.info(key)?.dtype.to_string())
    }

    /// The number of entries of all tensors together.
    pub fn count(&self) -> u64 {
        let tensors = self.keys().filter_map(|key| self.shape(key));
        tensors
            .map(|shape| shape.iter().product::<usize>() as u64)
            .sum()
    }

    /// The text that the header has under a name.
    pub fn metadata(&self, name: &str) -> Option<&str> {
        let texts = self.header.metadata().as_ref()?;
        texts.get(name).map(String::as_str)
    }

    /// The type of the model, if the file is one of this crate.
    pub fn model(&self) -> Option<&str> {
        self.metadata("model")
    }

    /// The configuration of the model.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file has none, or one of another form.
    pub fn config<C: DeserializeOwned>(&self) -> Result<C> {
        let refuse = |found: String| {
            let what = format!("configuration in {}", printable(&self.path));
            let expected = format!("JSON of the type {}", std::any::type_name::<C>());
            Error::invalid(what, expected, found)
        };
        let text = (self.metadata("config"))
            .ok_or_else(|| refuse("none: load the file into a model that is there".into()))?;
        serde_json::from_str(text).map_err(|e| refuse(e.to_string()))
    }

    /// A tensor of the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not there, has no floating-point numbers, or has finite numbers that are
    /// too large for the type F; [`Error::Io`] if it cannot be read.
    pub fn get<F: Real>(&self, key: &str) -> Result<Tensor<F>> {
        let refuse = |expected: &str, found: String| {
            let what = format!("{} in {}", printable(key), printable(&self.path));
            Error::invalid(what, expected, found)
        };
        let Some(stored) = self.header.info(key) else {
            return Err(refuse("a tensor", "no such name".into()));
        };
        let Some(numbers) = self.read::<F>(key, stored)? else {
            let expected = "numbers of type F64, F32, F16 or BF16";
            return Err(refuse(expected, stored.dtype.to_string()));
        };
        if numbers.overflowing > 0 {
            let expected = format!("numbers in the range of {}", F::NAME);
            return Err(refuse(&expected, format!("{} others", numbers.overflowing)));
        }
        // In memory that begins at a line of the cache.
        Ok(memory::copy(&numbers.values).into_tensor(&stored.shape))
    }

    /// Compares the tensors of the file with those of a model by names, shapes and types.
    ///
    /// # Panics
    /// As [`save`](super::save).
    #[track_caller]
    pub fn compare<F: Real>(&self, model: &(impl Module<F> + ?Sized)) -> Report {
        self.against(&plan(model))
    }

    /// Replaces the tensors of a model, parameters and state, by those of the file: all of them, or none.
    ///
    /// # Errors
    /// [`Error::Weights`] with the whole report if the tensors of the file are not those of the model;
    /// [`Error::Io`] if they cannot be read. The model is then as it was.
    ///
    /// # Panics
    /// As [`save`](super::save).
    #[track_caller]
    pub fn load_into<F: Real, M: Module<F> + ?Sized>(&self, model: &mut M) -> Result<Report> {
        let (report, values) = self.values(&plan(model))?;
        if !report.fits() {
            return Err(Error::Weights {
                file: self.path.clone(),
                report: Box::new(report),
            });
        }
        put(values, model);
        Ok(report)
    }

    /// Replaces those tensors of a model that are in the file and fit. The others stay as they are, and the
    /// report names them: tensors that are missing, have another shape or type, or have numbers that are too
    /// large. If two different tensors of the file belong to one tensor of the model, the first is taken.
    ///
    /// # Errors
    /// [`Error::Io`] if the tensors cannot be read. The model is then as it was.
    ///
    /// # Panics
    /// As [`save`](super::save).
    #[track_caller]
    pub fn load_matching<F: Real, M: Module<F> + ?Sized>(&self, model: &mut M) -> Result<Report> {
        let (report, values) = self.values(&plan(model))?;
        put(values, model);
        Ok(report)
    }

    /// The report on names, shapes and types.
    #[inline(never)]
    fn against<F: Real>(&self, keys: &[Key<F>]) -> Report {
        let mut report = Report::default();
        for key in keys {
            let name = key.name.clone();
            match self.header.info(&key.name) {
                None => match self.other_name(key, keys) {
                    Some(there) => report.once.push((name, there.name.clone())),
                    None => report.missing.push(Missing {
                        key: name,
                        shape: key.shape.clone(),
                    }),
                },
                Some(stored) if !is_read(stored.dtype) => {
                    report.mistyped.push((name, stored.dtype.to_string()));
                }
                Some(stored) if wide(&stored.shape).ne(wide(&key.shape)) => {
                    report.misshapen.push(Misshapen {
                        key: name,
                        expected: key.shape.clone(),
                        found: stored.shape.clone(),
                    });
                }
                Some(_) => report.fitting.push(name),
            }
        }
        let known: BTreeSet<_> = keys.iter().map(|key| key.name.as_str()).collect();
        for key in self.names.iter().cloned() {
            if known.contains(&*key) {
                continue;
            } else if key.rsplit('.').next() == Some(IGNORED) {
                report.ignored.push(key);
            } else {
                let shape = self.shape(&key).expect("it is in the file").to_vec();
                let nearest = match report.unexpected.len() < COMPARED {
                    true => nearest(&key, &shape, &report.missing),
                    false => None,
                };
                report.unexpected.push(Unexpected {
                    key,
                    shape,
                    nearest,
                });
            }
        }
        report
    }

    /// Another tensor of the file that has the numbers of `key`, if the file does not have `key`: for
    /// programs that write a tensor once although PyTorch has two names for it. Such programs leave out a
    /// whole field. If the file has other tensors of the same field, `key` is missing.
    fn other_name<'k, F: Real>(&self, key: &Key<F>, keys: &'k [Key<F>]) -> Option<&'k Key<F>> {
        let is_there = |other: &&Key<F>| self.header.info(&other.name).is_some();
        let numbers: BTreeSet<_> = key.numbers().collect();
        let holds = |other: &&Key<F>| numbers.is_subset(&other.numbers().collect());
        let there = keys.iter().filter(is_there).find(holds)?;
        // The two sides of a field: the second names, and the first names of the same tensors.
        let fields: BTreeSet<_> = key.copies().chain(there.copies()).collect();
        let whole = |field: usize| {
            let (second, others): (Vec<_>, Vec<_>) =
                keys.iter().partition(|k| k.copies().any(|c| c == field));
            let numbers: BTreeSet<_> = second.iter().flat_map(|k| k.numbers()).collect();
            let first = others
                .into_iter()
                .filter(|k| k.numbers().any(|n| numbers.contains(&n)))
                .collect();
            [first, second]
                .iter()
                .all(|side: &Vec<_>| side.iter().all(is_there) || !side.iter().any(is_there))
        };
        fields.into_iter().all(whole).then_some(there)
    }

    /// The whole report, and the tensors of the model that the file has, by their numbers.
    #[inline(never)]
    fn values<F: Real>(&self, keys: &[Key<F>]) -> Result<(Report, BTreeMap<usize, Tensor<F>>)> {
        let mut report = self.against(keys);
        let mut fitting = std::mem::take(&mut report.fitting);
        let names: BTreeSet<_> = fitting.iter().cloned().collect();
        let mut values: BTreeMap<usize, (Tensor<F>, &str)> = BTreeMap::new();
        for key in keys.iter().filter(|key| names.contains(&key.name)) {
            let stored = self.header.info(&key.name).expect("it fits");
            let numbers = self.read::<F>(&key.name, stored)?.expect("it fits");
            if numbers.not_finite > 0 {
                let count = numbers.not_finite;
                report.not_finite.push((key.name.clone(), count));
            }
            if numbers.overflowing > 0 {
                let count = numbers.overflowing;
                report.overflowing.push((key.name.clone(), count));
                fitting.retain(|name| *name != key.name);
                continue;
            }
            for (number, value) in key.split(numbers.values) {
                let (first, name) = (values.entry(number)).or_insert((value.clone(), &key.name));
                if !same(first, &value) {
                    let pair = (name.to_owned(), key.name.clone());
                    report.differing.push(pair);
                    fitting.retain(|name| *name != key.name);
                }
            }
        }
        report.fitting = fitting;
        let values = values.into_iter();
        Ok((report, values.map(|(k, (value, _))| (k, value)).collect()))
    }

    /// The numbers of a tensor, if numbers of its type can be those of a model.
    #[inline(never)]
    fn read<F: Real>(&self, key: &str, stored: &TensorInfo) -> Result<Option<Numbers<F>>> {
        if !is_read(stored.dtype) {
            return Ok(None);
        }
        let (from, to) = (stored.data_offsets.0 as u64, stored.data_offsets.1 as u64);
        let mut file = &self.file;
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.start + from))
            .and_then(|_| file.take(to - from).read_to_end(&mut bytes));
        read.map_err(|e| Error::io(&self.path, e))?;
        if bytes.len() as u64 != to - from {
            // The file had this length when it was opened.
            let byte = self.start + from + bytes.len() as u64;
            let expected = format!("the numbers of {key}");
            return Err(Error::format(
                &self.path,
                byte,
                expected,
                "the end of the file",
            ));
        }
        Ok(numbers::decode(stored.dtype, &bytes))
    }
}

/// Replaces tensors of a model by the given values; a number says which tensor each value belongs to.
fn put<F: Real>(mut values: BTreeMap<usize, Tensor<F>>, model: &mut (impl Module<F> + ?Sized)) {
    for (number, tensor) in in_order(model).enumerate() {
        if let Some(value) = values.remove(&number) {
            *tensor = value;
        }
    }
}

/// A shape without its axes of size 1.
fn wide(shape: &[usize]) -> impl Iterator<Item = usize> {
    shape.iter().copied().filter(|&size| size != 1)
}

/// Whether two tensors hold the same numbers; NaN is NaN.
fn same<F: Real>(a: &Tensor<F>, b: &Tensor<F>) -> bool {
    let mut pairs = a.iter().zip(b);
    pairs.all(|(x, y)| x == y || (x.is_nan() && y.is_nan()))
}

/// The missing name that is most similar to `key`, with at most half of it changed; among equals the one with
/// this shape.
fn nearest(key: &str, shape: &[usize], missing: &[Missing]) -> Option<String> {
    let fits = |m: &&Missing| m.key.len().max(key.len()) <= LONGEST;
    let near = missing.iter().filter(fits).map(|m| {
        let changes = strsim::levenshtein(key, &m.key);
        (changes, m.shape != shape, m)
    });
    let (changes, _, nearest) = near.min_by_key(|&(changes, other, _)| (changes, other))?;
    let longer = key.chars().count().max(nearest.key.chars().count());
    (2 * changes <= longer).then(|| nearest.key.clone())
}
