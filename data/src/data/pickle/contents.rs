//! The contents of a Planetoid pickle: a sparse matrix, one-hot labels, or lists of neighbours. Everything is
//! checked while it is read.

use super::{Array, Dtype, Item, MAX_OPCODES, Pickle, Value};
use crate::data::files::{MAX_CLASSES, MAX_FEATURES, MAX_NODES};
use crate::error::{Error, Result};
use crate::sparse::{Csr, Pattern};

/// A sparse matrix and where its entries begin in the file.
#[derive(Debug)]
pub(in crate::data) struct Matrix {
    pub(in crate::data) csr: Csr<f32>,
    /// The byte of the first column number; four bytes per entry.
    pub(in crate::data) indices_at: u64,
}

/// The labels of some nodes, out of `classes` classes.
#[derive(Debug)]
pub(in crate::data) struct Labels {
    pub(in crate::data) classes: usize,
    pub(in crate::data) labels: Vec<usize>,
    /// The byte of the first row of the one-hot matrix; 4 · `classes` bytes per row.
    pub(in crate::data) rows_at: u64,
}

/// The neighbour lists of the nodes 0..`nodes`.
#[derive(Debug)]
pub(in crate::data) struct Adjacency {
    pub(in crate::data) nodes: usize,
    /// (i, j) for each j in the list of node i.
    pub(in crate::data) edges: Vec<(u32, u32)>,
    /// The byte where each pair stands.
    pub(in crate::data) at: Vec<u32>,
}

impl Pickle<'_> {
    /// The value as a sparse matrix: row starts ascending, columns distinct and in range, numbers finite and
    /// not negative. Counts and weights of words are none; with a negative number, a matrix whose smallest
    /// number is made 0 would have no zeros left.
    pub(in crate::data) fn matrix(&self) -> Result<Matrix> {
        let Value::Matrix(id) = self.root.value else {
            return Err(self.refuse(self.root, "a csr_matrix"));
        };
        let Some(dict) = self.matrices[id as usize] else {
            return Err(self.refuse(self.root, "a csr_matrix with its state"));
        };
        let field = |name| self.field(dict, name);
        let format = field("format")?;
        if self.text(format) != Some(b"csr") {
            return Err(self.refuse(format, "'csr'"));
        }
        let shape = field("_shape")?;
        let [rows, cols] = self.sizes(shape)?;
        for (what, size, most) in [("rows", rows, MAX_NODES), ("columns", cols, MAX_FEATURES)] {
            if size > most {
                let (at, expected) = (shape.at.into(), format!("at most {most} {what}"));
                return Err(Error::format(self.file, at, expected, size.to_string()));
            }
        }
        let indptr = self.vector(field("indptr")?, Dtype::I4)?;
        let indices = self.vector(field("indices")?, Dtype::I4)?;
        let data = self.vector(field("data")?, Dtype::F4)?;
        let nnz = indices.shape[0];
        self.length(indptr, rows.saturating_add(1), "row starts")?;
        self.length(data, nnz, "values, one per column number")?;

        let starts = self.row_starts(indptr, nnz)?;
        let column = |e: usize| self.element(indices, e);
        let (mut columns, mut values) = (Vec::with_capacity(nnz), Vec::with_capacity(nnz));
        let mut row = Vec::new();
        for w in starts.windows(2) {
            row.clear();
            for e in w[0]..w[1] {
                let value = f32::from_le_bytes(self.element(data, e));
                if !value.is_finite() || value < 0.0 {
                    let found = value.to_string();
                    return Err(self.at_element(data, e, "a finite number from 0 up", found));
                }
                row.push((i32::from_le_bytes(column(e)), e, value));
            }
            row.sort_unstable_by_key(|&(j, e, _)| (j, e));
            for (k, &(j, e, value)) in row.iter().enumerate() {
                if usize::try_from(j).is_ok_and(|j| j < cols) {
                    columns.push(j as u32);
                    values.push(value);
                } else {
                    let expected = format!("a column number below {cols}");
                    return Err(self.at_element(indices, e, expected, j.to_string()));
                }
                if k > 0 && row[k - 1].0 == j {
                    let found = format!("column {j} again");
                    return Err(self.at_element(indices, e, "each column once per row", found));
                }
            }
        }
        let pattern = Pattern::new(rows, cols, starts, columns)?;
        Ok(Matrix {
            csr: Csr::new(pattern, values),
            indices_at: indices.data.start as u64,
        })
    }

    /// The value as labels: an i4 matrix whose rows are one-hot.
    pub(in crate::data) fn labels(&self) -> Result<Labels> {
        let array = self.array_of(self.root, Dtype::I4)?;
        let &[rows, classes] = &array.shape[..] else {
            return Err(self.refuse(self.root, "a matrix of one-hot labels"));
        };
        if !(1..=MAX_CLASSES).contains(&classes) {
            let (at, expected) = (self.root.at.into(), format!("1 to {MAX_CLASSES} classes"));
            return Err(Error::format(self.file, at, expected, classes.to_string()));
        }
        let mut labels = Vec::with_capacity(rows);
        for i in 0..rows {
            let mut label = None;
            for c in 0..classes {
                match (
                    i32::from_le_bytes(self.element(array, i * classes + c)),
                    label,
                ) {
                    (0, _) => {}
                    (1, None) => label = Some(c),
                    (found, _) => {
                        let expected = format!("row {i} to hold one 1 and zeros");
                        let found = format!("{found} in column {c}");
                        return Err(self.at_element(array, i * classes + c, expected, found));
                    }
                }
            }
            let Some(label) = label else {
                let expected = format!("row {i} to hold one 1 and zeros");
                return Err(self.at_element(array, i * classes, expected, "zeros alone"));
            };
            labels.push(label);
        }
        Ok(Labels {
            classes,
            labels,
            rows_at: array.data.start as u64,
        })
    }

    /// The value as neighbour lists: keys 0, 1, 2, … in order, neighbours in range. Duplicates and self-loops
    /// are left in.
    pub(in crate::data) fn adjacency(&self) -> Result<Adjacency> {
        let Value::Dict(id) = self.root.value else {
            return Err(self.refuse(self.root, "a dict of neighbour lists"));
        };
        let pairs = &self.containers[id as usize];
        let nodes = pairs.len() / 2;
        if nodes > MAX_NODES {
            let expected = format!("a dict of at most {MAX_NODES} neighbour lists");
            return Err(self.refuse(self.root, expected));
        }
        let (mut edges, mut at) = (Vec::new(), Vec::new());
        for (i, pair) in pairs.chunks_exact(2).enumerate() {
            if pair[0].value != Value::Int(i as i32) {
                return Err(self.refuse(pair[0], format!("the key {i}, the next in order")));
            }
            let Value::List(list) = pair[1].value else {
                return Err(self.refuse(pair[1], "a list of neighbours"));
            };
            for &item in &self.containers[list as usize] {
                match item.value {
                    Value::Int(j) if usize::try_from(j).is_ok_and(|j| j < nodes) => {
                        edges.push((i as u32, j as u32));
                        at.push(item.at);
                    }
                    _ => return Err(self.refuse(item, format!("a node number below {nodes}"))),
                }
            }
            // A list that is referred to many times could give far more edges than the file has bytes.
            if edges.len() > MAX_OPCODES {
                return Err(self.refuse(pair[1], "a list of its own for each node"));
            }
        }
        Ok(Adjacency { nodes, edges, at })
    }

    /// The value of a key of a matrix's state; it must occur exactly once, and no unknown key may occur.
    fn field(&self, dict: u32, name: &str) -> Result<Item> {
        let mut found = None;
        for pair in self.containers[dict as usize].chunks_exact(2) {
            let key = self.text(pair[0]).unwrap_or_default();
            let known = [
                &b"format"[..],
                b"_shape",
                b"indptr",
                b"indices",
                b"data",
                b"maxprint",
            ];
            // Keys with this prefix are private to scipy; one says whether the columns are sorted.
            if !known.contains(&key) && !key.starts_with(b"_cs_matrix__") {
                return Err(self.refuse(pair[0], "a key of a csr_matrix's state"));
            }
            if key == name.as_bytes() {
                if found.is_some() {
                    return Err(self.refuse(pair[0], "each key once"));
                }
                found = Some(pair[1]);
            }
        }
        found.ok_or_else(|| self.refuse(self.root, format!("a csr_matrix with the key {name:?}")))
    }

    /// A tuple of two sizes.
    fn sizes(&self, item: Item) -> Result<[usize; 2]> {
        if let Value::Tuple(id) = item.value
            && let [a, b] = self.containers[id as usize][..]
            && let (Value::Int(a @ 0..), Value::Int(b @ 0..)) = (a.value, b.value)
        {
            return Ok([a as usize, b as usize]);
        }
        Err(self.refuse(item, "a tuple of two sizes that are not negative"))
    }

    fn array_of(&self, item: Item, dtype: Dtype) -> Result<&Array> {
        match item.value {
            Value::Array(id) => match &self.arrays[id as usize] {
                Some(array) if array.dtype == dtype => Ok(array),
                Some(_) => Err(self.refuse(item, format!("elements of type {dtype:?}"))),
                None => Err(self.refuse(item, "an array with its state")),
            },
            _ => Err(self.refuse(item, "an array")),
        }
    }

    fn vector(&self, item: Item, dtype: Dtype) -> Result<&Array> {
        let array = self.array_of(item, dtype)?;
        if array.shape.len() != 1 {
            return Err(self.refuse(item, "an array of one dimension"));
        }
        Ok(array)
    }

    fn length(&self, array: &Array, wanted: usize, what: &str) -> Result<()> {
        if array.shape[0] == wanted {
            return Ok(());
        }
        let found = array.shape[0].to_string();
        Err(self.at_element(array, 0, format!("{wanted} {what}"), found))
    }

    /// Row starts that ascend from 0 to `nnz`.
    fn row_starts(&self, indptr: &Array, nnz: usize) -> Result<Vec<usize>> {
        let rows = indptr.shape[0] - 1;
        let mut starts = Vec::with_capacity(rows + 1);
        let mut last = 0;
        for i in 0..=rows {
            let found = i32::from_le_bytes(self.element(indptr, i));
            let lo = if i == rows { nnz } else { last };
            let hi = if i == 0 { 0 } else { nnz };
            match usize::try_from(found) {
                Ok(start) if (lo..=hi).contains(&start) => last = start,
                _ => {
                    let expected = format!("row start {i} from {lo} to {hi}");
                    return Err(self.at_element(indptr, i, expected, found.to_string()));
                }
            }
            starts.push(last);
        }
        Ok(starts)
    }

    /// The four bytes of element `k`.
    fn element(&self, array: &Array, k: usize) -> [u8; 4] {
        let start = array.data.start + 4 * k;
        let mut out = [0; 4];
        out.copy_from_slice(&self.bytes[start..start + 4]);
        out
    }

    fn at_element(
        &self,
        array: &Array,
        k: usize,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Error {
        let byte = (array.data.start + 4 * k) as u64;
        Error::format(self.file, byte, expected, found)
    }
}
