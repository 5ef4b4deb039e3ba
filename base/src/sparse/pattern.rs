//! The structure of a sparse matrix in compressed-row form.
//!
//! | letter | meaning |
//! |---|---|
//! | n, m | rows, columns |
//! | nnz | stored entries, numbered 0..nnz row by row, columns ascending within a row |

use crate::error::{Error, Result};
use sprs::CsMat;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The structure of an n × m sparse matrix: which entries exist, in compressed-row form, without their
/// values.
///
/// Entries are numbered row by row. Column numbers ascend strictly in every row, so no entry occurs twice. A
/// pattern is immutable; its transpose is built once, when it is first asked for.
#[derive(Debug)]
pub struct Pattern {
    cols: usize,
    indptr: Box<[usize]>,
    indices: Box<[u32]>,
    rows_of: Box<[u32]>,
    transposed: OnceLock<Transposed>,
}

/// The transpose of a [`Pattern`] and where each of its entries comes from.
#[derive(Debug)]
pub struct Transposed {
    /// The m × n pattern.
    pub pattern: Arc<Pattern>,
    /// Entry `k` of the transposed pattern is entry `entry[k]` of the original.
    pub entry: Box<[u32]>,
}

impl Pattern {
    /// A pattern of `rows` × `cols` from row starts (`rows + 1` of them) and the column number of every
    /// entry.
    ///
    /// # Errors
    /// If the row starts do not ascend from 0 to the number of entries, a column is out of range or does not
    /// ascend strictly within its row, or a size exceeds 2³² − 1.
    pub fn new(
        rows: usize,
        cols: usize,
        indptr: Vec<usize>,
        indices: Vec<u32>,
    ) -> Result<Arc<Self>> {
        check_sizes(rows, cols, indices.len())?;
        if indptr.len() != rows + 1
            || indptr.first() != Some(&0)
            || indptr.last() != Some(&indices.len())
            || indptr.windows(2).any(|w| w[0] > w[1])
        {
            return Err(Error::invalid(
                "sparse pattern: row starts",
                format!("{} numbers ascending from 0 to {}", rows + 1, indices.len()),
                format!(
                    "{} numbers from {:?} to {:?}",
                    indptr.len(),
                    indptr.first(),
                    indptr.last()
                ),
            ));
        }
        let mut rows_of = Vec::with_capacity(indices.len());
        for row in 0..rows {
            let columns = &indices[indptr[row]..indptr[row + 1]];
            rows_of.resize(rows_of.len() + columns.len(), row as u32);
            if let Some(&c) = columns.iter().find(|&&c| c as usize >= cols) {
                return Err(Error::invalid(
                    format!("sparse pattern: row {row}"),
                    format!("columns below {cols}"),
                    format!("column {c}"),
                ));
            }
            if let Some(w) = columns.windows(2).find(|w| w[0] >= w[1]) {
                return Err(Error::invalid(
                    format!("sparse pattern: row {row}"),
                    "strictly ascending columns",
                    format!("column {} followed by {}", w[0], w[1]),
                ));
            }
        }
        Ok(Arc::new(Self {
            cols,
            indptr: indptr.into(),
            indices: indices.into(),
            rows_of: rows_of.into(),
            transposed: OnceLock::new(),
        }))
    }

    /// A pattern from (row, column) pairs in any order; a pair given more than once is one entry.
    ///
    /// # Errors
    /// If a pair is out of range, or a size exceeds 2³² − 1.
    pub fn from_pairs(rows: usize, cols: usize, pairs: &[(usize, usize)]) -> Result<Arc<Self>> {
        check_sizes(rows, cols, 0)?;
        if let Some((k, &(i, j))) = pairs
            .iter()
            .enumerate()
            .find(|(_, p)| p.0 >= rows || p.1 >= cols)
        {
            return Err(Error::invalid(
                format!("sparse pattern: pair {k}"),
                format!("a row below {rows} and a column below {cols}"),
                format!("({i}, {j})"),
            ));
        }
        let mut sorted = pairs.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut indptr = vec![0; rows + 1];
        for &(i, _) in &sorted {
            indptr[i + 1] += 1;
        }
        for i in 0..rows {
            indptr[i + 1] += indptr[i];
        }
        Self::new(
            rows,
            cols,
            indptr,
            sorted.into_iter().map(|(_, j)| j as u32).collect(),
        )
    }

    /// The structure of a sprs matrix (compressed by rows or by columns), without its values.
    ///
    /// # Errors
    /// If a size exceeds 2³² − 1.
    pub fn from_sprs<N: Clone + Default>(matrix: &CsMat<N>) -> Result<Arc<Self>> {
        let csr = matrix.to_csr();
        let indices = csr.indices().iter().map(|&j| j as u32).collect();
        let indptr = csr.indptr().into_raw_storage().to_vec();
        Self::new(csr.rows(), csr.cols(), indptr, indices)
    }

    /// A sprs matrix with this structure and the given values, one per entry.
    ///
    /// # Panics
    /// If there is not exactly one value per entry.
    #[track_caller]
    pub fn to_sprs<N>(&self, values: Vec<N>) -> CsMat<N> {
        assert_eq!(
            values.len(),
            self.nnz(),
            "to_sprs: {} entries need as many values",
            self.nnz()
        );
        let indices = self.indices.iter().map(|&j| j as usize).collect();
        CsMat::new(self.shape(), self.indptr.to_vec(), indices, values)
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows(), self.cols)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.indptr.len() - 1
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The number of stored entries.
    pub fn nnz(&self) -> usize {
        self.indices.len()
    }

    /// Row starts: row `i` holds the entries `indptr[i]..indptr[i + 1]`.
    pub fn indptr(&self) -> &[usize] {
        &self.indptr
    }

    /// The column of every entry.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The row of every entry.
    pub fn rows_of(&self) -> &[u32] {
        &self.rows_of
    }

    /// The numbers of the entries of one row.
    ///
    /// # Panics
    /// If `row` is out of range.
    #[inline]
    #[track_caller]
    pub fn row(&self, row: usize) -> Range<usize> {
        self.indptr[row]..self.indptr[row + 1]
    }

    /// Whether every row has an entry.
    pub fn has_no_empty_row(&self) -> bool {
        self.indptr.windows(2).all(|ends| ends[0] < ends[1])
    }

    /// The number of the entry at (`row`, `col`), if it exists.
    pub fn find(&self, row: usize, col: usize) -> Option<usize> {
        let range = self.row(row);
        let start = range.start;
        let col = u32::try_from(col).ok()?;
        self.indices[range]
            .binary_search(&col)
            .ok()
            .map(|k| start + k)
    }

    /// The columns of the entries of one row that lie within a range.
    #[inline]
    pub fn indices_within(&self, row: usize, columns: &Range<usize>) -> &[u32] {
        let row = &self.indices[self.row(row)];
        let before = |end: usize| row.partition_point(|&j| (j as usize) < end);
        &row[before(columns.start)..before(columns.end)]
    }

    /// Whether there is an entry (j, i) for each entry (i, j).
    pub fn is_symmetric(&self) -> bool {
        self == &*self.transposed().pattern
    }

    /// The transpose and the permutation of entries, built at the first call and kept.
    pub fn transposed(&self) -> &Transposed {
        self.transposed.get_or_init(|| {
            let mut indptr = vec![0; self.cols + 1];
            for &j in &self.indices {
                indptr[j as usize + 1] += 1;
            }
            for j in 0..self.cols {
                indptr[j + 1] += indptr[j];
            }
            let mut next = indptr.clone();
            let mut entry = vec![0; self.nnz()];
            let mut indices = vec![0; self.nnz()];
            // Rows ascend, so each column receives its row numbers in ascending order.
            for (e, (&i, &j)) in self.rows_of.iter().zip(&self.indices).enumerate() {
                let k = next[j as usize];
                next[j as usize] += 1;
                entry[k] = e as u32;
                indices[k] = i;
            }
            let pattern = Self::new(self.cols, self.rows(), indptr, indices)
                .expect("the transpose of a valid pattern is valid");
            Transposed {
                pattern,
                entry: entry.into(),
            }
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.cols == other.cols && self.indptr == other.indptr && self.indices == other.indices
    }
}

impl Eq for Pattern {}

fn check_sizes(rows: usize, cols: usize, entries: usize) -> Result<()> {
    let limit = u32::MAX as usize;
    if rows > limit || cols > limit || entries > limit {
        return Err(Error::invalid(
            "sparse pattern",
            format!("at most {limit} rows, columns and entries"),
            format!("{rows} × {cols} with {entries} entries"),
        ));
    }
    Ok(())
}
