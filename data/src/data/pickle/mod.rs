//! A reader for the pickles of the Planetoid files, and for nothing else.
//!
//! A pickle is a program for a stack machine that may call any Python function. This interpreter calls none:
//! it knows the 28 opcodes and six names that occur in the published files, checks every argument, and
//! refuses everything else.
//!
//! | name | becomes |
//! |---|---|
//! | `scipy.sparse.csr csr_matrix` | an object whose state is a dict |
//! | `numpy.core.multiarray _reconstruct`, `numpy ndarray` | an array whose elements stay where they are in the file |
//! | `numpy dtype` | `i4` or `f4`, little-endian |
//! | `collections defaultdict`, `__builtin__ list` | a dict whose default is an empty list |
//!
//! Memory: strings and arrays are ranges of the file, never copied; lists, tuples and dicts are ids into an
//! arena, so nothing is nested in memory and dropping cannot recurse. Every opcode pushes at most one small
//! item, so a pickle makes the reader allocate at most a fixed number of bytes per opcode, and the number of
//! opcodes is limited as well ([`MAX_BYTES`], [`MAX_OPCODES`]).

mod contents;
mod machine;
mod objects;
mod stack;

pub(super) use contents::{Adjacency, Labels, Matrix};

use super::files::shown;
use crate::error::{Error, Result};
use std::ops::Range;
use std::path::Path;

/// The longest file that is read, in bytes: 64 MiB. The longest published one has about 7.5 MB.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// The largest number of opcodes in a file: 2²⁰. The largest published number is 178 216
/// (`ind.pubmed.graph`).
pub(super) const MAX_OPCODES: usize = 1 << 20;

/// The names that a pickle may refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Global {
    CsrMatrix,
    Reconstruct,
    Ndarray,
    Dtype,
    DefaultDict,
    List,
}

/// Element types of arrays, both four bytes long and little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dtype {
    I4,
    F4,
}

/// A value on the stack: small, without anything nested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Bool(bool),
    Int(i32),
    /// A string: the bytes of the file from `start`, `len` of them.
    Bytes {
        start: u32,
        len: u32,
    },
    Global(Global),
    Dtype(Dtype),
    /// Ids into [`Pickle::containers`]; a dict holds keys and values in turn.
    Tuple(u32),
    List(u32),
    Dict(u32),
    /// An id into [`Pickle::arrays`].
    Array(u32),
    /// An id into [`Pickle::matrices`].
    Matrix(u32),
}

/// A value and the byte of the file where its opcode stands.
#[derive(Debug, Clone, Copy)]
struct Item {
    value: Value,
    at: u32,
}

/// An array of shape `shape`, whose elements are the bytes `data` of the file in row-major order.
#[derive(Debug, Clone)]
struct Array {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Range<usize>,
}

/// A pickle that has been run: its value, and all that the value refers to.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    root: Item,
    containers: Vec<Vec<Item>>,
    /// `None` until the array's state has been set.
    arrays: Vec<Option<Array>>,
    /// The dict that is the matrix's state, once it has been set.
    matrices: Vec<Option<u32>>,
}

impl<'a> Pickle<'a> {
    /// Runs the pickle `bytes`, the content of `file`.
    pub(super) fn read(file: &'a Path, bytes: &'a [u8]) -> Result<Self> {
        machine::run(file, bytes)
    }

    /// The content of a string.
    fn bytes_of(&self, start: u32, len: u32) -> &'a [u8] {
        &self.bytes[start as usize..][..len as usize]
    }

    /// The bytes of a string, if it is one.
    fn text(&self, item: Item) -> Option<&'a [u8]> {
        match item.value {
            Value::Bytes { start, len } => Some(self.bytes_of(start, len)),
            _ => None,
        }
    }

    /// An error about `item`.
    fn refuse(&self, item: Item, expected: impl Into<String>) -> Error {
        let found = match item.value {
            Value::Bytes { start, len } => shown(self.bytes_of(start, len)),
            Value::Tuple(id) => format!("a tuple of {}", self.containers[id as usize].len()),
            Value::List(id) => format!("a list of {}", self.containers[id as usize].len()),
            Value::Dict(id) => format!("a dict of {}", self.containers[id as usize].len() / 2),
            Value::Array(_) => "an array".into(),
            Value::Matrix(_) => "a csr_matrix".into(),
            Value::Int(i) => i.to_string(),
            other => format!("{other:?}"),
        };
        Error::format(self.file, u64::from(item.at), expected, found)
    }
}
