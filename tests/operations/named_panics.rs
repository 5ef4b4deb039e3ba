//! A violated contract: the message begins with the operation that was called, and its location is the line
//! of the call.

use crate::registry::operations;
use emmy::autodiff::{checkpoint, grad, grad_graph, hvp, jacobian, jvp, jvp_graph, vjp, vjp_graph};
use emmy::ops::Sparse;
use emmy::ops::attention::{DenseAttention, EdgeAttention, EdgeOperands, LeakySum, Mask, Qkv};
use emmy::ops::recurrent::{gru, lstm};
use emmy::ops::sparse::{
    gather_columns, gather_rows, sddmm, sddmm_add, segment_max, segment_mean, segment_softmax,
    segment_sum, segment_sum_columns, spmm, spmm_t,
};
use emmy::sparse::{Csr, Pattern};
use emmy::{Tape, Tensor, Var};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Once};

thread_local! {
    /// On a thread that expects a panic: its location and its message.
    static SEEN: RefCell<Option<(String, String)>> = const { RefCell::new(None) };
}

/// The file a panic of `f` points at, and its message.
#[track_caller]
fn refusal(what: &str, f: impl FnOnce()) -> (String, String) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            let expected = SEEN.with_borrow_mut(|seen| {
                let expected = seen.is_some();
                if let (Some(seen), Some(location)) = (seen, info.location()) {
                    let payload = info.payload();
                    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
                    let message = text.or_else(|| payload.downcast_ref::<String>().cloned());
                    *seen = (location.file().to_owned(), message.unwrap_or_default());
                }
                expected
            });
            if !expected {
                usual(info);
            }
        }));
    });
    SEEN.set(Some(Default::default()));
    let run = catch_unwind(AssertUnwindSafe(f));
    let seen = SEEN.take().expect("set above");
    assert!(run.is_err(), "{what}: it was not refused");
    seen
}

/// An operation that must be refused, and its message after the name.
type Refused = (&'static str, &'static str, fn(&Both));

/// Two tapes, and a pattern of four entries, two by three.
struct Both {
    tape: Tape<f64>,
    other: Tape<f64>,
    pattern: Arc<Pattern>,
}

impl Both {
    fn new() -> Self {
        let pairs = [(0, 0), (0, 2), (1, 1), (1, 2)];
        Self {
            tape: Tape::new(),
            other: Tape::new(),
            pattern: Pattern::from_pairs(2, 3, &pairs).unwrap(),
        }
    }

    fn x(&self, shape: &[usize]) -> Var<'_, f64> {
        self.tape.var(Tensor::ones(shape))
    }

    /// A variable on the other tape.
    fn y(&self, shape: &[usize]) -> Var<'_, f64> {
        self.other.var(Tensor::ones(shape))
    }

    fn edges(&self, dropout: Option<(f64, u64)>) -> EdgeAttention {
        EdgeAttention {
            pattern: Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)]).unwrap(),
            dropout,
        }
    }

    /// A matrix with one value too few, which only a struct literal can construct.
    fn short(&self) -> Sparse<'_, f64> {
        Sparse {
            pattern: self.pattern.clone(),
            values: self.x(&[3]),
        }
    }

    fn matrix(&self) -> Sparse<'_, f64> {
        Sparse::new(&self.pattern, self.x(&[4]))
    }
}

const LEAKY: LeakySum<f64> = LeakySum { slope: 0.2 };
const TAPES: &str = "the operands stand on different tapes";
const AXIS: &str = "axis 2 is outside a tensor of 2 dimensions";
const SHORT: &str = "4 entries need values of shape [nnz] or [nnz, H], not [3]";

fn mask(shape: &[usize]) -> Tensor<bool> {
    Tensor::from_elem(shape, true)
}

#[rustfmt::skip]
const DENSE: &[Refused] = &[
    ("add", "[3, 4] and [3] do not broadcast", |t| { let _ = t.x(&[3, 4]) + t.x(&[3]); }),
    ("add", TAPES, |t| { let _ = t.x(&[3]) + t.y(&[3]); }),
    ("sub", "[3, 4] and [3] do not broadcast", |t| { let _ = t.x(&[3, 4]) - t.x(&[3]); }),
    ("sub", TAPES, |t| { let _ = t.x(&[3]) - t.y(&[3]); }),
    ("mul", "[3, 4] and [3] do not broadcast", |t| { let _ = t.x(&[3, 4]) * t.x(&[3]); }),
    ("mul", TAPES, |t| { let _ = t.x(&[3]) * t.y(&[3]); }),
    ("div", "[3, 4] and [3] do not broadcast", |t| { let _ = t.x(&[3, 4]) / t.x(&[3]); }),
    ("div", TAPES, |t| { let _ = t.x(&[3]) / t.y(&[3]); }),
    ("maximum", "[3, 4] and [3] do not broadcast", |t| { t.x(&[3, 4]).maximum(t.x(&[3])); }),
    ("maximum", TAPES, |t| { t.x(&[3]).maximum(t.y(&[3])); }),
    ("minimum", "[3, 4] and [3] do not broadcast", |t| { t.x(&[3, 4]).minimum(t.x(&[3])); }),
    ("minimum", TAPES, |t| { t.x(&[3]).minimum(t.y(&[3])); }),
    ("where_", "[4] and [3] do not broadcast", |t| { t.x(&[3]).where_(&mask(&[4]), t.x(&[3])); }),
    ("where_", TAPES, |t| { t.x(&[3]).where_(&mask(&[3]), t.y(&[3])); }),
    ("clamp", "low 2 is not below high 1", |t| { t.x(&[3]).clamp(2.0, 1.0); }),
    ("gate", "[3] is gated by [4]", |t| { t.x(&[3]).gate(Tensor::ones(&[4][..]), 0.0); }),
    ("dropout", "the probability 1.5 is not within", |t| { t.x(&[3]).dropout(1.5, 0); }),
    ("sum", AXIS, |t| { t.x(&[3, 4]).sum(&[2], false); }),
    ("sum", "an axis occurs twice in [1, -1]", |t| { t.x(&[3, 4]).sum(&[1, -1], false); }),
    ("mean", AXIS, |t| { t.x(&[3, 4]).mean(&[2], false); }),
    ("mean", "an axis occurs twice in [1, -1]", |t| { t.x(&[3, 4]).mean(&[1, -1], false); }),
    ("var", AXIS, |t| { t.x(&[3, 4]).var(&[2], false); }),
    ("max", AXIS, |t| { t.x(&[3, 4]).max(&[2], false); }),
    ("min", AXIS, |t| { t.x(&[3, 4]).min(&[2], false); }),
    ("norm", AXIS, |t| { t.x(&[3, 4]).norm(&[2], false); }),
    ("row_norms", "a matrix has two dimensions, not [3]", |t| { t.x(&[3]).row_norms(); }),
    ("column_norms", "a matrix has two dimensions, not [3]", |t| { t.x(&[3]).column_norms(); }),
    ("inf_2_norm", "a matrix has two dimensions, not [3]", |t| { t.x(&[3]).inf_2_norm(); }),
    ("softmax", AXIS, |t| { t.x(&[3, 4]).softmax(2); }),
    ("log_softmax", AXIS, |t| { t.x(&[3, 4]).log_softmax(2); }),
    ("logsumexp", AXIS, |t| { t.x(&[3, 4]).logsumexp(2, false); }),
    ("softmax_masked", AXIS, |t| { t.x(&[3, 4]).softmax_masked(2, &mask(&[3, 4])); }),
    ("softmax_masked", "the mask [5] does not broadcast to [3, 4]", |t| { t.x(&[3, 4]).softmax_masked(1, &mask(&[5])); }),
    ("logsumexp_masked", "the mask [5] does not broadcast to [3, 4]", |t| { t.x(&[3, 4]).logsumexp_masked(1, &mask(&[5]), true); }),
    ("log_softmax_masked", "the mask [5] does not broadcast to [3, 4]", |t| { t.x(&[3, 4]).log_softmax_masked(1, &mask(&[5])); }),
    ("layer_norm", "x has no axis", |t| { t.x(&[]).layer_norm(None, None, 0.0); }),
    ("layer_norm", "x has shape [3, 4], γ [3]: it must be [4]", |t| { t.x(&[3, 4]).layer_norm(Some(t.x(&[3])), None, 0.0); }),
    ("layer_norm", "x has shape [3, 4], β [1, 4]: it must be [4]", |t| { t.x(&[3, 4]).layer_norm(None, Some(t.x(&[1, 4])), 0.0); }),
    ("layer_norm", "ε is -1: it must be at least 0", |t| { t.x(&[3, 4]).layer_norm(None, None, -1.0); }),
    ("layer_norm", TAPES, |t| { t.x(&[3, 4]).layer_norm(None, Some(t.y(&[4])), 0.0); }),
    ("rms_norm", "x has no axis", |t| { t.x(&[]).rms_norm(None, 0.0); }),
    ("rms_norm", "x has shape [3, 4], γ [3]: it must be [4]", |t| { t.x(&[3, 4]).rms_norm(Some(t.x(&[3])), 0.0); }),
    ("rms_norm", "ε is NaN: it must be at least 0", |t| { t.x(&[3, 4]).rms_norm(None, f64::NAN); }),
    ("rms_norm", TAPES, |t| { t.x(&[3, 4]).rms_norm(Some(t.y(&[4])), 0.0); }),
    ("broadcast_to", "[3] does not broadcast to [3, 4]", |t| { t.x(&[3]).broadcast_to(&[3, 4]); }),
    ("sum_to", "[3, 4] and [2] do not broadcast", |t| { t.x(&[3, 4]).sum_to(&[2]); }),
    ("sum_to", "[2, 4] does not broadcast to [4]", |t| { t.x(&[4]).sum_to(&[2, 4]); }),
    ("reshape", "[3, 4] has 12 elements, [5] has 5", |t| { t.x(&[3, 4]).reshape(&[5]); }),
    ("reshape", "[3, 4] has 12 elements, and no size in place of -1 gives [5, -1] as many", |t| { t.x(&[3, 4]).reshape(&[5, -1]); }),
    ("reshape", "[0, 4] has 0 elements, and no size in place of -1 gives [0, -1] as many", |t| { t.x(&[0, 4]).reshape(&[0, -1]); }),
    ("reshape", "shape [9223372036854775807, 2] has more elements than memory has addresses", |t| { t.x(&[0]).reshape(&[isize::MAX, 2]); }),
    ("reshape", "shape [4611686018427387904, 4] has more elements than memory has addresses", |t| { t.x(&[0]).reshape(&[1_isize << 62, 4, -1]); }),
    ("reshape", "[-1, -1] is not a shape: only one size may be -1", |t| { t.x(&[3, 4]).reshape(&[-1, -1]); }),
    ("reshape", "[6, -2] is not a shape: only one size may be -1, and none less", |t| { t.x(&[3, 4]).reshape(&[6, -2]); }),
    ("unsqueeze", "axis 3 is outside a tensor of 3 dimensions", |t| { t.x(&[3, 4]).unsqueeze(3); }),
    ("squeeze", AXIS, |t| { t.x(&[3, 4]).squeeze(2); }),
    ("squeeze", "axis 0 of [3, 4] does not have size 1", |t| { t.x(&[3, 4]).squeeze(0); }),
    ("permute", "[0, 0] is not a permutation", |t| { t.x(&[3, 4]).permute(&[0, 0]); }),
    ("permute", "[0, -2] is not a permutation", |t| { t.x(&[3, 4]).permute(&[0, -2]); }),
    ("permute", "[0, -3] is not a permutation", |t| { t.x(&[3, 4]).permute(&[0, -3]); }),
    ("permute", "[1, 0, 2] is not a permutation of the 2 dimensions", |t| { t.x(&[3, 4]).permute(&[1, 0, 2]); }),
    ("transpose", AXIS, |t| { t.x(&[3, 4]).transpose(0, 2); }),
    ("t", "shape [3] has fewer than two dimensions", |t| { t.x(&[3]).t(); }),
    ("slice", AXIS, |t| { t.x(&[3, 4]).slice(2, 0..1); }),
    ("slice", "1..5 is not within axis 0 of [3, 4]", |t| { t.x(&[3, 4]).slice(0, 1..5); }),
    ("pad", AXIS, |t| { t.x(&[3, 4]).pad(2, 1, 1); }),
    ("pad", "0 zeros before and 18446744073709551615 after axis 0 of [1] are too many to count", |t| { t.x(&[1]).pad(0, 0, usize::MAX); }),
    ("pad", "18446744073709551615 zeros before and 1 after axis 0 of [0] are too many to count", |t| { t.x(&[0]).pad(0, usize::MAX, 1); }),
    ("pad", "shape [3, 4611686018427387908] has more elements than memory has addresses", |t| { t.x(&[3, 4]).pad(1, 1 << 62, 0); }),
    ("concat", "it needs at least one tensor", |_| { Var::<f64>::concat(&[], 0); }),
    ("concat", AXIS, |t| { Var::concat(&[t.x(&[3, 4])], 2); }),
    ("concat", "ranks 2 and 3 do not go together", |t| { Var::concat(&[t.x(&[3, 4]), t.x(&[3, 4, 1])], 0); }),
    ("concat", "shapes [[3, 4], [3, 5]] differ elsewhere than in axis 0", |t| { Var::concat(&[t.x(&[3, 4]), t.x(&[3, 5])], 0); }),
    ("concat", TAPES, |t| { Var::concat(&[t.x(&[3]), t.y(&[3])], 0); }),
    ("stack", "it needs at least one tensor", |_| { Var::<f64>::stack(&[], 0); }),
    ("stack", "axis 2 is outside a tensor of 2 dimensions", |t| { Var::stack(&[t.x(&[3])], 2); }),
    ("stack", "shapes [3] and [4] differ", |t| { Var::stack(&[t.x(&[3]), t.x(&[4])], 0); }),
    ("stack", "shapes [3] and [3, 1] differ", |t| { Var::stack(&[t.x(&[3]), t.x(&[3, 1])], 0); }),
    ("stack", TAPES, |t| { Var::stack(&[t.x(&[3]), t.y(&[3])], 0); }),
    ("index_select", AXIS, |t| { t.x(&[3, 4]).index_select(2, vec![0]); }),
    ("index_select", "index 3 is not below the size 3 of axis 0", |t| { t.x(&[3, 4]).index_select(0, vec![3]); }),
    ("index_add", "1 indices for axis 0 of [3, 4]", |t| { t.x(&[3, 4]).index_add(0, vec![0], 5); }),
    ("index_add", "shape [9223372036854775808, 4] has more elements than memory has addresses", |t| { t.x(&[1, 4]).index_add(0, vec![5], 1 << 63); }),
    ("index_add", "index 5 is not below the size 5 of axis 0", |t| { t.x(&[1, 4]).index_add(0, vec![5], 5); }),
    ("matmul", "[3, 4] · [5, 2]: inner dimensions 4 ≠ 5", |t| { t.x(&[3, 4]).matmul(t.x(&[5, 2])); }),
    ("matmul", "[4] · [4, 2]: a factor has fewer than two dimensions", |t| { t.x(&[4]).matmul(t.x(&[4, 2])); }),
    ("matmul", "[2] and [3] do not broadcast", |t| { t.x(&[2, 3, 4]).matmul(t.x(&[3, 4, 5])); }),
    ("matmul", TAPES, |t| { t.x(&[3, 4]).matmul(t.y(&[4, 2])); }),
    ("linear", "x [3, 4], weight [2, 5]", |t| { t.x(&[3, 4]).linear(t.x(&[2, 5])); }),
    ("linear", TAPES, |t| { t.x(&[3, 4]).linear(t.y(&[2, 4])); }),
    ("add_bias", "x [3, 4] and b [3]", |t| { let _ = t.x(&[3, 4]).add_bias(t.x(&[3])); }),
    ("add_bias", TAPES, |t| { let _ = t.x(&[3]).add_bias(t.y(&[3])); }),
    ("cross_entropy", "logits have shape [rows, classes], not [3]", |t| { t.x(&[3]).cross_entropy(&[0; 3], None); }),
    ("cross_entropy", "logits [3, 4] need one label per row: 3 rows, 2 labels", |t| { t.x(&[3, 4]).cross_entropy(&[0; 2], None); }),
    ("cross_entropy", "logits [3, 4] need one flag of the mask per row: 3 rows, 3 labels, 2 flags", |t| { t.x(&[3, 4]).cross_entropy(&[0; 3], Some(&[true; 2])); }),
    ("cross_entropy", "row 2 has label 4, there are 4 classes", |t| { t.x(&[3, 4]).cross_entropy(&[0, 1, 4], None); }),
    ("cross_entropy", "no row takes part", |t| { t.x(&[3, 4]).cross_entropy(&[0; 3], Some(&[false; 3])); }),
    ("nll", "no row takes part", |t| { t.x(&[0, 4]).nll(&[], None); }),
    ("mse", "predictions [3, 4] and targets [3, 1] differ in shape", |t| { t.x(&[3, 4]).mse(t.x(&[3, 1])); }),
    ("mse", TAPES, |t| { t.x(&[3]).mse(t.y(&[3])); }),
    ("bce_with_logits", "predictions [3] and targets [1] differ in shape", |t| { t.x(&[3]).bce_with_logits(t.x(&[1])); }),
    ("bce_with_logits", TAPES, |t| { t.x(&[3]).bce_with_logits(t.y(&[3])); }),
];

#[rustfmt::skip]
const SPARSE: &[Refused] = &[
    ("spmm", "values [3] and x [3, 5]", |t| { spmm(&t.pattern, t.x(&[3]), t.x(&[3, 5])); }),
    ("spmm", "values [4, 2] and x [3, 1, 5]", |t| { spmm(&t.pattern, t.x(&[4, 2]), t.x(&[3, 1, 5])); }),
    ("spmm", TAPES, |t| { spmm(&t.pattern, t.x(&[4]), t.y(&[3, 5])); }),
    ("spmm_t", "values [4] and x [3, 5]", |t| { spmm_t(&t.pattern, t.x(&[4]), t.x(&[3, 5])); }),
    ("spmm_t", TAPES, |t| { spmm_t(&t.pattern, t.x(&[4]), t.y(&[2, 5])); }),
    ("sddmm", "[2, 5] and [3, 1] on a pattern of (2, 3)", |t| { sddmm(&t.pattern, t.x(&[2, 5]), t.x(&[3, 1])); }),
    ("sddmm", TAPES, |t| { sddmm(&t.pattern, t.x(&[2, 5]), t.y(&[3, 5])); }),
    ("sddmm_add", "[2, 5] and [3, 1] on a pattern of (2, 3)", |t| { sddmm_add(&t.pattern, t.x(&[2, 5]), t.x(&[3, 1])); }),
    ("sddmm_add", "[] and [3] on a pattern of (2, 3)", |t| { sddmm_add(&t.pattern, t.x(&[]), t.x(&[3])); }),
    ("sddmm_add", TAPES, |t| { sddmm_add(&t.pattern, t.x(&[2]), t.y(&[3])); }),
    ("gather_rows", "the first axis of [3, 5] must have size 2", |t| { gather_rows(&t.pattern, t.x(&[3, 5])); }),
    ("gather_columns", "the first axis of [2, 5] must have size 3", |t| { gather_columns(&t.pattern, t.x(&[2, 5])); }),
    ("segment_sum", "the first axis of [3, 5] must have size 4", |t| { segment_sum(&t.pattern, t.x(&[3, 5])); }),
    ("segment_sum_columns", "the first axis of [3, 5] must have size 4", |t| { segment_sum_columns(&t.pattern, t.x(&[3, 5])); }),
    ("segment_mean", "the first axis of [3, 5] must have size 4", |t| { segment_mean(&t.pattern, t.x(&[3, 5])); }),
    ("segment_max", "the first axis of [3, 5] must have size 4", |t| { segment_max(&t.pattern, t.x(&[3, 5])); }),
    ("segment_softmax", "the first axis of [3, 5] must have size 4", |t| { segment_softmax(&t.pattern, t.x(&[3, 5])); }),
    ("Sparse::matmul", "values [4] and x [2, 5]", |t| { t.matrix().matmul(t.x(&[2, 5])); }),
    ("Sparse::matmul", "values [3] and x [3, 5]", |t| { t.short().matmul(t.x(&[3, 5])); }),
    ("Sparse::matmul", TAPES, |t| { t.matrix().matmul(t.y(&[3, 5])); }),
    ("Sparse::t_matmul", "values [4] and x [3, 5]", |t| { t.matrix().t_matmul(t.x(&[3, 5])); }),
    ("Sparse::linear", "values [4] and weight [5, 2]", |t| { t.matrix().linear(t.x(&[5, 2])); }),
    ("Sparse::linear", "values [4] and weight [3]", |t| { t.matrix().linear(t.x(&[3])); }),
    ("Sparse::linear", TAPES, |t| { t.matrix().linear(t.y(&[5, 3])); }),
    ("Sparse::new", SHORT, |t| { Sparse::new(&t.pattern, t.x(&[3])); }),
    ("sparse", SHORT, |t| {
        let matrix = Csr { pattern: t.pattern.clone(), values: Tensor::ones(&[3][..]) };
        t.tape.sparse(&matrix);
    }),
    ("Sparse::t", SHORT, |t| { t.short().t(); }),
    ("Sparse::row_sums", SHORT, |t| { t.short().row_sums(); }),
    ("Sparse::column_sums", SHORT, |t| { t.short().column_sums(); }),
    ("Sparse::softmax", SHORT, |t| { t.short().softmax(); }),
    ("Sparse::to_dense", SHORT, |t| { t.short().to_dense(); }),
];

fn dense(dropout: Option<(f64, u64)>) -> DenseAttention {
    DenseAttention {
        dropout,
        ..DenseAttention::new(5, Mask::none())
    }
}

fn masked(mask: Mask) -> DenseAttention {
    DenseAttention::new(5, mask)
}

/// Attention goes by the name under which the fused operation is recorded.
#[rustfmt::skip]
const ATTENTION: &[Refused] = &[
    ("EdgeAttention::attend", "v has shape [3, 2, 5], it must be [2, heads, width]", |t| { t.edges(None).attend(LEAKY, EdgeOperands::gat(t.x(&[3, 2, 5]), t.x(&[2, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::attend", "a_t has shape [1, 5], it must be [heads, width], here [2, 5]", |t| { t.edges(None).attend(LEAKY, EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[2, 5]), t.x(&[1, 5]))); }),
    ("EdgeAttention::attend", TAPES, |t| { t.edges(None).attend(LEAKY, EdgeOperands::gat(t.x(&[2, 2, 5]), t.y(&[2, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::attend", "t has shape [2], it must be [targets, heads], here [2, 2]", |t| { t.edges(None).attend(LEAKY, EdgeOperands { t: Some(t.x(&[2])), ..EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[2, 5]), t.x(&[2, 5])) }); }),
    ("EdgeAttention::attend", TAPES, |t| { t.edges(None).attend(LEAKY, EdgeOperands { t: Some(t.y(&[2, 2])), ..EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[2, 5]), t.x(&[2, 5])) }); }),
    ("EdgeAttention::attend", "the dropout probability -0.5 is not within", |t| { t.edges(Some((-0.5, 0))).attend(LEAKY, EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[2, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::coefficients", "a_s has shape [5], it must be [heads, width], here [2, 5]", |t| { t.edges(None).coefficients(LEAKY, EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::coefficients", TAPES, |t| { t.edges(None).coefficients(LEAKY, EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[2, 5]), t.y(&[2, 5]))); }),
    ("EdgeAttention::coefficients", "t has shape [2, 1], it must be [targets, heads], here [2, 2]", |t| { t.edges(None).coefficients(LEAKY, EdgeOperands { t: Some(t.x(&[2, 1])), ..EdgeOperands::gat(t.x(&[2, 2, 5]), t.x(&[2, 5]), t.x(&[2, 5])) }); }),
    ("EdgeAttention::attend", "q has shape [3, 2, 5], it must be [targets, heads, width of k], here [2, 2, 5]", |t| { t.edges(None).attend(LEAKY, EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[3, 2, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::attend", "a has shape [1, 5], it must be [heads, width of k], here [2, 5]", |t| { t.edges(None).attend(LEAKY, EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.x(&[1, 5]))); }),
    ("EdgeAttention::attend", TAPES, |t| { t.edges(None).attend(LEAKY, EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.y(&[2, 5]))); }),
    ("EdgeAttention::attend", "t has shape [3, 2], it must be [targets, heads], here [2, 2]", |t| { let z = t.x(&[2, 2, 5]); t.edges(None).attend(LEAKY, EdgeOperands { t: Some(t.x(&[3, 2])), ..EdgeOperands::gatv2(z, z, t.x(&[2, 5])) }); }),
    ("EdgeAttention::attend", TAPES, |t| { t.edges(None).attend(LEAKY, EdgeOperands { t: Some(t.y(&[2, 2])), ..EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.x(&[2, 5])) }); }),
    ("EdgeAttention::attend", "the dropout probability 2 is not within", |t| { let z = t.x(&[2, 2, 5]); t.edges(Some((2.0, 0))).attend(LEAKY, EdgeOperands::gatv2(z, z, t.x(&[2, 5]))); }),
    ("EdgeAttention::attend", "the dropout probability NaN is not within", |t| { t.edges(Some((f64::NAN, 0))).attend(LEAKY, EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::coefficients", "q has shape [2, 1, 5], it must be [targets, heads, width of k], here [2, 2, 5]", |t| { t.edges(None).coefficients(LEAKY, EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[2, 1, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::coefficients", TAPES, |t| { t.edges(None).coefficients(LEAKY, EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.y(&[2, 2, 5]), t.x(&[2, 5]))); }),
    ("EdgeAttention::attend", "k has shape [3, 2, 4], it must be [sources, heads, width], here [2, 2, 4]", |t| { let z = t.x(&[2, 2, 5]); t.edges(None).attend(LEAKY, EdgeOperands::new(z, t.x(&[3, 2, 4]), z)); }),
    ("EdgeAttention::attend", "halves of scores on a pattern of 2 × 3, which must be square", |t| { let a = t.x(&[2, 5]); EdgeAttention { pattern: t.pattern.clone(), dropout: None }.attend(LEAKY, EdgeOperands::gat(t.x(&[3, 2, 5]), a, a)); }),
    ("rotate_planes", "x has shape [2, 4], it must be [.., n, heads, d]", |t| { t.x(&[2, 4]).rotate_planes(0, 10.0); }),
    ("rotate_planes", "x has shape [2, 2, 5]: the width 5 of a head is odd", |t| { t.x(&[2, 2, 5]).rotate_planes(0, 10.0); }),
    ("attend", "q [2, 2, 5], k [2, 2, 5], v [3, 2, 5]: they must be", |t| { let z = t.x(&[2, 2, 5]); dense(None).attend(Qkv::new(z, z, t.x(&[3, 2, 5]))); }),
    ("attend", "q [2, 2, 5], k [2, 2, 4], v [2, 2, 5]: they must be", |t| { let z = t.x(&[2, 2, 5]); dense(None).attend(Qkv::new(z, t.x(&[2, 2, 4]), z)); }),
    ("attend", "q [2, 3, 5], k [2, 2, 5], v [2, 2, 5]: they must be", |t| { let z = t.x(&[2, 2, 5]); dense(None).attend(Qkv::new(t.x(&[2, 3, 5]), z, z)); }),
    ("attend", "q [2, 3, 5], k [2, 0, 5], v [2, 0, 5]: they must be", |t| { let z = t.x(&[2, 0, 5]); dense(None).attend(Qkv::new(t.x(&[2, 3, 5]), z, z)); }),
    ("attend", "q [2, 5], k [2, 5], v [2, 5]: they must be", |t| { let z = t.x(&[2, 5]); dense(None).attend(Qkv::new(z, z, z)); }),
    ("attend", TAPES, |t| { let z = t.x(&[2, 2, 5]); dense(None).attend(Qkv::new(z, t.y(&[2, 2, 5]), z)); }),
    ("attend", "β has shape [2], it must be [2, 2]", |t| { let z = t.x(&[2, 2, 5]); dense(None).attend(Qkv { beta: Some(t.x(&[2])), ..Qkv::new(z, z, z) }); }),
    ("attend", "t has shape [3, 2], it must be [2, 2]", |t| { let z = t.x(&[2, 2, 5]); dense(None).attend(Qkv { t: Some(t.x(&[3, 2])), ..Qkv::new(z, z, z) }); }),
    ("attend", "the dropout probability 2 is not within", |t| { let z = t.x(&[2, 2, 5]); dense(Some((2.0, 0))).attend(Qkv::new(z, z, z)); }),
    ("attend", "the mask has 1 lengths for 2 items", |t| { let z = t.x(&[2, 2, 2, 5]); masked(Mask::lengths(&[1])).attend(Qkv::new(z, z, z)); }),
    ("attend", "the mask has a length of 3, there are 2 keys", |t| { let z = t.x(&[1, 2, 2, 5]); masked(Mask::lengths(&[3])).attend(Qkv::new(z, z, z)); }),
    ("attend", "the mask has shape [2, 3], it must be [2, 2] or [1, 2, 2]", |t| { let z = t.x(&[2, 2, 5]); masked(Mask::allowed(Tensor::from_elem(&[2, 3][..], true))).attend(Qkv::new(z, z, z)); }),
    ("attend", "a pattern of (2, 3) for 2 items of 2 queries and 2 keys", |t| { let z = t.x(&[2, 2, 2, 5]); masked(Mask::edges(t.pattern.clone())).attend(Qkv::new(z, z, z)); }),
    ("attention_coefficients", "q [2, 5], k [2, 5], v [2, 5]: they must be", |t| { let z = t.x(&[2, 5]); dense(None).attention_coefficients(Qkv::new(z, z, z)); }),
    ("attention_coefficients", TAPES, |t| { let z = t.x(&[2, 2, 5]); dense(None).attention_coefficients(Qkv::new(z, t.y(&[2, 2, 5]), z)); }),
    ("log_sum_exp", "q [2, 5], k [2, 5], v [2, 5]: they must be", |t| { let z = t.x(&[2, 5]); dense(None).log_sum_exp(Qkv::new(z, z, z)); }),
    ("attend_symmetric", "u [2, 5], z [3, 5]: they must be [.., n, d] and [.., n, e]", |t| { dense(None).attend_symmetric(t.x(&[2, 5]), t.x(&[3, 5])); }),
    ("attend_symmetric", TAPES, |t| { dense(None).attend_symmetric(t.x(&[2, 5]), t.y(&[2, 5])); }),
    ("attend_symmetric", "the mask leaves out the edges of a pattern of (2, 3); it must be (2, 2)", |t| { masked(Mask::all_but(t.pattern.clone())).attend_symmetric(t.x(&[2, 5]), t.x(&[2, 5])); }),
    ("log_sum_exp", TAPES, |t| { let z = t.x(&[2, 2, 5]); dense(None).log_sum_exp(Qkv::new(z, t.y(&[2, 2, 5]), z)); }),
    ("log_sum_exp", "the mask is a set of edges; it must be one of all pairs", |t| { let z = t.x(&[2, 2, 5]); masked(Mask::edges(t.edges(None).pattern)).log_sum_exp(Qkv::new(z, z, z)); }),
    ("attend", "the mask leaves out the edges of a pattern of (2, 3); it must be (2, 2)", |t| { let z = t.x(&[2, 2, 5]); masked(Mask::all_but(t.pattern.clone())).attend(Qkv::new(z, z, z)); }),
    ("EdgeAttention::coefficients", "t has shape [], it must be [targets, heads], here [2, 2]", |t| { t.edges(None).coefficients(LEAKY, EdgeOperands { t: Some(t.x(&[])), ..EdgeOperands::gatv2(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.x(&[2, 5])) }); }),
];

#[rustfmt::skip]
const RECURRENT: &[Refused] = &[
    ("lstm", "the weight has shape [12, 4], it must be [4 h, h]", |t| { lstm(t.x(&[5, 2, 12]), t.x(&[12, 4]), t.x(&[12]), t.x(&[2, 3]), t.x(&[2, 3])); }),
    ("lstm", "the weight has shape [12], it must be [4 h, h]", |t| { lstm(t.x(&[5, 2, 12]), t.x(&[12]), t.x(&[12]), t.x(&[2, 3]), t.x(&[2, 3])); }),
    ("lstm", "the bias has shape [3], it must be [12]", |t| { lstm(t.x(&[5, 2, 12]), t.x(&[12, 3]), t.x(&[3]), t.x(&[2, 3]), t.x(&[2, 3])); }),
    ("lstm", "x has shape [0, 2, 12], it must be [steps, rows, 12], with one step or more", |t| { lstm(t.x(&[0, 2, 12]), t.x(&[12, 3]), t.x(&[12]), t.x(&[2, 3]), t.x(&[2, 3])); }),
    ("lstm", "x has shape [2, 12], it must be [steps, rows, 12], with one step or more", |t| { lstm(t.x(&[2, 12]), t.x(&[12, 3]), t.x(&[12]), t.x(&[2, 3]), t.x(&[2, 3])); }),
    ("lstm", "c has shape [3, 2], it must be [2, 3]: one row per row of x", |t| { lstm(t.x(&[5, 2, 12]), t.x(&[12, 3]), t.x(&[12]), t.x(&[2, 3]), t.x(&[3, 2])); }),
    ("lstm", TAPES, |t| { lstm(t.x(&[5, 2, 12]), t.x(&[12, 3]), t.x(&[12]), t.y(&[2, 3]), t.x(&[2, 3])); }),
    ("gru", "the weight has shape [12, 3], it must be [3 h, h]", |t| { gru(t.x(&[5, 2, 9]), t.x(&[12, 3]), t.x(&[9]), t.x(&[2, 3])); }),
    ("gru", "the bias has shape [12], it must be [9]", |t| { gru(t.x(&[5, 2, 9]), t.x(&[9, 3]), t.x(&[12]), t.x(&[2, 3])); }),
    ("gru", "x has shape [5, 2, 12], it must be [steps, rows, 9], with one step or more", |t| { gru(t.x(&[5, 2, 12]), t.x(&[9, 3]), t.x(&[9]), t.x(&[2, 3])); }),
    ("gru", "h has shape [1, 3], it must be [2, 3]: one row per row of x", |t| { gru(t.x(&[5, 2, 9]), t.x(&[9, 3]), t.x(&[9]), t.x(&[1, 3])); }),
    ("gru", TAPES, |t| { gru(t.x(&[5, 2, 9]), t.y(&[9, 3]), t.x(&[9]), t.x(&[2, 3])); }),
];

#[rustfmt::skip]
const DOT: &[Refused] = &[
    ("dot", "q [2, 2, 5] and k [2, 2, 4]: they must be [2, heads, width] and [2, heads, width]", |t| { t.edges(None).dot(t.x(&[2, 2, 5]), t.x(&[2, 2, 4]), t.x(&[2, 2, 5]), None); }),
    ("dot", "v has shape [2, 1, 5], it must be [2, 2, width]", |t| { t.edges(None).dot(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.x(&[2, 1, 5]), None); }),
    ("dot", "e has shape [2, 5], it must be [edges, heads, width]", |t| { let z = t.x(&[2, 2, 5]); t.edges(None).dot(z, z, z, Some(t.x(&[2, 5]))); }),
    ("dot", TAPES, |t| { t.edges(None).dot(t.x(&[2, 2, 5]), t.y(&[2, 2, 5]), t.x(&[2, 2, 5]), None); }),
    ("dot", TAPES, |t| { t.edges(None).dot(t.x(&[2, 2, 5]), t.x(&[2, 2, 5]), t.y(&[2, 2, 5]), None); }),
    ("dot", "the dropout probability 1.5 is not within", |t| { let z = t.x(&[2, 2, 5]); t.edges(Some((1.5, 0))).dot(z, z, z, None); }),
    ("dot_coefficients", "q [2, 5] and k [2, 5]", |t| { t.edges(None).dot_coefficients(t.x(&[2, 5]), t.x(&[2, 5]), None); }),
    ("dot_coefficients", TAPES, |t| { t.edges(None).dot_coefficients(t.x(&[2, 2, 5]), t.y(&[2, 2, 5]), None); }),
    ("combine", "α has shape [7, 2], it must be [", |t| { t.edges(None).combine(t.x(&[7, 2]), t.x(&[2, 2, 5]), None); }),
];

#[rustfmt::skip]
const ENGINE: &[Refused] = &[
    ("item", "shape [2] does not hold exactly one element", |t| { t.x(&[2]).item(); }),
    ("grad", "y must hold one element, its shape is [2]", |t| { let x = t.x(&[2]); grad(x.exp(), &[x]); }),
    ("grad", "asked for the derivative with respect to a constant", |t| { grad(t.x(&[]), &[t.x(&[]).detach()]); }),
    ("grad_graph", "x and y stand on different tapes", |t| { grad_graph(t.x(&[]), &[t.y(&[])]); }),
    ("vjp", "the cotangent has shape [3], y has [2]", |t| { let x = t.x(&[2]); vjp(x.exp(), &[x], &Tensor::ones(&[3][..])); }),
    ("vjp", "x and y stand on different tapes", |t| { vjp(t.x(&[]), &[t.y(&[])], &Tensor::ones(&[][..])); }),
    ("vjp_graph", "the cotangent has shape [3], y has [2]", |t| { let x = t.x(&[2]); vjp_graph(x.exp(), &[x], t.x(&[3])); }),
    ("vjp_graph", TAPES, |t| { let x = t.x(&[2]); vjp_graph(x.exp(), &[x], t.y(&[2])); }),
    ("jvp", "the directions have shapes [[3]], the variables [[2]]", |t| { let x = t.x(&[2]); jvp(x.exp(), &[x], &[Tensor::ones(&[3][..])]); }),
    ("jvp", "asked for the derivative with respect to a constant", |t| { let x = t.x(&[2]).detach(); jvp(x, &[x], &[Tensor::ones(&[2][..])]); }),
    ("jvp_graph", "the directions have shapes [], the variables [[2]]", |t| { let x = t.x(&[2]); jvp_graph(x.exp(), &[x], &[]); }),
    ("jvp_graph", TAPES, |t| { let x = t.x(&[2]); jvp_graph(x.exp(), &[x], &[t.y(&[2])]); }),
    ("hvp", "y must hold one element, its shape is [2]", |t| { let x = t.x(&[2]); hvp(x.exp(), &[x], &[Tensor::ones(&[2][..])]); }),
    ("hvp", "the directions have shapes [[3]], the variables [[2]]", |t| { let x = t.x(&[2]); hvp(x.exp().sum_all(), &[x], &[Tensor::ones(&[3][..])]); }),
    ("jacobian", "x and y stand on different tapes", |t| { jacobian(t.x(&[2]), t.y(&[2])); }),
    ("nothing", "it needs at least one argument", |_| { checkpoint::<f64>("nothing", &[], |x| x[0]); }),
    ("both", TAPES, |t| { checkpoint("both", &[t.x(&[2]), t.y(&[2])], |x| x[0] + x[1]); }),
];

#[test]
fn the_message_begins_with_the_operation_and_points_at_the_caller() {
    let mut wrong = Vec::new();
    for (name, says, f) in [DENSE, SPARSE, ATTENTION, DOT, RECURRENT, ENGINE].concat() {
        let expected = format!("{name}: {says}");
        let (file, message) = refusal(&expected, || f(&Both::new()));
        if !message.starts_with(&expected) || file != file!() {
            wrong.push(format!("{expected:?}, but {message:?} at {file}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_operation_that_can_be_refused_is_above() {
    // These operations take one operand of any shape, and all numbers are allowed; `gat` and `gatv2` are
    // operands of `EdgeAttention::attend`.
    let never = "gat gatv2 neg add_scalar sub_scalar scale div_scalar scalar_add scalar_sub scalar_mul scalar_div powf exp ln sqrt abs sin cos \
        tanh sigmoid relu leaky_relu elu gelu normal_cdf gelu_tanh silu mish hardtanh softplus square sum_all mean_all \
        max_all min_all frobenius_norm";
    let mut above: BTreeSet<&str> = never.split(' ').collect();
    let refused = [DENSE, SPARSE, ATTENTION, DOT, RECURRENT].concat();
    above.extend(
        refused
            .iter()
            .map(|(name, ..)| name.trim_end_matches("_attention")),
    );
    let missing: Vec<_> = (operations().into_iter().map(|o| o.name))
        .filter(|name| !above.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
