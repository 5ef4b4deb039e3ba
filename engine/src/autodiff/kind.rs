//! What an operation is: all that a reader of the tape may rely on.
//!
//! The laws of a trace and the bounds of `lipschitz` are matches over [`Kind`] without a case for the rest: a
//! kind that one of them does not answer does not compile.

use super::DenseAttention;
use super::function::Function;
use crate::sparse::Pattern;
use std::any::Any;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// What an operation is, with the numbers, axes and patterns that it was given.
///
/// [`Var::unary`](crate::Var::unary) and its relatives take a kind. A name alone stands for
/// [`Opaque`](Self::Opaque): an operation that says nothing of itself, through which no law and no bound
/// passes. An operation that says that it is a [`Function`] of each entry, or a linear map, gets both.
/// [`check_kind`](super::check_kind) compares what it says with numbers.
#[derive(Clone)]
pub enum Kind {
    /// A variable: a leaf with derivatives.
    Variable,
    /// A constant: a leaf without.
    Constant,
    /// y = x, another node for the same value.
    Alias,
    /// y = x, with a bound that `lipschitz::declare` declares.
    Declared(Declaration),
    /// y = f(x), entry by entry.
    Entrywise(Function),
    /// y = c x.
    Scale(f64),
    /// y = x + c.
    AddScalar(f64),
    /// y = m ⊙ x: each m is 0, or this factor.
    Dropout {
        /// 1 / (1 − p), rounded up.
        factor: f64,
    },
    /// A linear map of its operand.
    Linear(Map),
    /// y = a + b.
    Add,
    /// y = a − b.
    Subtract,
    /// y = a ⊙ b.
    Multiply,
    /// y = a ⊘ b.
    Divide,
    /// Entry by entry one of two operands.
    Choice(Choice),
    /// The operands one behind the other.
    Concat {
        /// Along this axis.
        axis: usize,
    },
    /// A matrix product, also of batches.
    MatMul {
        /// Whether it is x Wᵀ in place of a b.
        transposed: bool,
    },
    /// S x with a sparse matrix S, whose values are the first operand; or Sᵀ x.
    SparseProduct {
        /// The places of S.
        pattern: Arc<Pattern>,
        /// Whether it is Sᵀ x.
        transposed: bool,
    },
    /// s_e = ⟨a_i, b_j⟩ for the entries e = (i, j) of a pattern.
    SampledProduct(Arc<Pattern>),
    /// The largest or the smallest element over axes, which stay with size 1.
    Extremum {
        /// Whether it is the largest.
        largest: bool,
    },
    /// The largest entry of each row of a pattern.
    SegmentMax,
    /// Softmax along the last axis.
    Softmax,
    /// The logarithm of softmax along the last axis.
    LogSoftmax,
    /// ln Σ eˣ along the last axis, which stays with size 1.
    LogSumExp,
    /// Softmax over the entries of each row of a pattern.
    SegmentSoftmax,
    /// Normalisation of rows: LayerNorm, RMSNorm. The operands are x, then γ and β as far as they are there.
    RowNorm {
        /// Whether the mean is subtracted.
        centred: bool,
        /// ε.
        eps: f64,
        /// Whether γ is there.
        gain: bool,
        /// Whether β is there.
        bias: bool,
    },
    /// Attention of queries to keys. The operands are q, k and v, then β and t as far as they are there.
    Attention {
        /// Scale, mask and dropout.
        options: DenseAttention,
        /// Whether β is there.
        beta: bool,
        /// Whether t is there.
        t: bool,
    },
    /// Attention along the edges of a graph: means of the rows of the first operand, v, with weights that a
    /// score computes.
    EdgeAttention {
        /// The name of the score.
        score: &'static str,
        /// Whether the score reads other operands than v alone.
        apart: bool,
    },
    /// An operation of this name that says nothing of itself.
    Opaque(&'static str),
}

/// A linear map of one operand.
#[derive(Clone)]
pub enum Map {
    /// Sums over axes, which stay with size 1.
    Sum,
    /// Sums over the axes that a broadcast repeated.
    SumTo,
    /// Repetition along axes.
    Broadcast,
    /// The same elements in another shape.
    Reshape,
    /// The axes in another order.
    Permute {
        /// Whether the last axis stays.
        last: bool,
    },
    /// A part along an axis.
    Slice {
        /// The axis.
        axis: usize,
    },
    /// Zeros around x along an axis.
    Pad {
        /// The axis.
        axis: usize,
    },
    /// Slices chosen by index.
    Select {
        /// The axis.
        axis: usize,
        /// The slices that are read.
        indices: Arc<[usize]>,
    },
    /// Slices added at the places of indices.
    Scatter {
        /// The axis.
        axis: usize,
        /// The places.
        indices: Arc<[usize]>,
    },
    /// The row of each entry of a pattern.
    GatherRows(Arc<Pattern>),
    /// The column of each entry of a pattern.
    GatherColumns(Arc<Pattern>),
    /// Sums over the entries of each row of a pattern.
    SegmentSum(Arc<Pattern>),
    /// Sums over the entries of each column of a pattern.
    SegmentSumColumns(Arc<Pattern>),
    /// Rotations of planes of neurons.
    Rotate,
    /// A map of a user's own.
    Own {
        /// Its name.
        name: &'static str,
        /// An upper bound of its norm for p = 1, 2 and ∞, rounded up.
        norms: [f64; 3],
    },
}

/// Which of two operands an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The larger.
    Maximum,
    /// The smaller.
    Minimum,
    /// The one that a fixed condition selects.
    Where,
}

/// A bound that `lipschitz::declare` declares; it alone reads it.
#[derive(Clone)]
pub struct Declaration(Rc<dyn Any>);

impl Declaration {
    #[doc(hidden)]
    pub fn new(statement: Rc<dyn Any>) -> Self {
        Self(statement)
    }

    #[doc(hidden)]
    pub fn statement(self) -> Rc<dyn Any> {
        self.0
    }
}

impl Kind {
    /// The name, for messages and counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Variable => "var",
            Self::Constant => "constant",
            Self::Alias | Self::Declared(_) => "alias",
            Self::Entrywise(function) => function.name,
            Self::Scale(-1.0) => "neg",
            Self::Scale(_) => "scale",
            Self::AddScalar(_) => "add_scalar",
            Self::Dropout { .. } => "dropout",
            Self::Linear(map) => map.name(),
            Self::Add => "add",
            Self::Subtract => "sub",
            Self::Multiply => "mul",
            Self::Divide => "div",
            Self::Choice(Choice::Maximum) => "maximum",
            Self::Choice(Choice::Minimum) => "minimum",
            Self::Choice(Choice::Where) => "where_",
            Self::Concat { .. } => "concat",
            Self::MatMul { transposed: false } => "matmul",
            Self::MatMul { transposed: true } => "linear",
            Self::SparseProduct {
                transposed: false, ..
            } => "spmm",
            Self::SparseProduct {
                transposed: true, ..
            } => "spmm_t",
            Self::SampledProduct(_) => "sddmm",
            Self::Extremum { largest: true } => "max",
            Self::Extremum { largest: false } => "min",
            Self::SegmentMax => "segment_max",
            Self::Softmax => "softmax",
            Self::LogSoftmax => "log_softmax",
            Self::LogSumExp => "logsumexp",
            Self::SegmentSoftmax => "segment_softmax",
            Self::RowNorm { centred: true, .. } => "layer_norm",
            Self::RowNorm { centred: false, .. } => "rms_norm",
            Self::Attention { .. } => "attend",
            Self::EdgeAttention { score, .. } => score,
            Self::Opaque(name) => name,
        }
    }
}

impl Map {
    /// The name, for messages and counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::SumTo => "sum_to",
            Self::Broadcast => "broadcast_to",
            Self::Reshape => "reshape",
            Self::Permute { .. } => "permute",
            Self::Slice { .. } => "slice",
            Self::Pad { .. } => "pad",
            Self::Select { .. } => "index_select",
            Self::Scatter { .. } => "index_add",
            Self::GatherRows(_) => "gather_rows",
            Self::GatherColumns(_) => "gather_columns",
            Self::SegmentSum(_) => "segment_sum",
            Self::SegmentSumColumns(_) => "segment_sum_columns",
            Self::Rotate => "rotate_planes",
            Self::Own { name, .. } => name,
        }
    }
}

impl From<&'static str> for Kind {
    fn from(name: &'static str) -> Self {
        Self::Opaque(name)
    }
}

impl From<Function> for Kind {
    fn from(function: Function) -> Self {
        Self::Entrywise(function)
    }
}

impl From<Map> for Kind {
    fn from(map: Map) -> Self {
        Self::Linear(map)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
