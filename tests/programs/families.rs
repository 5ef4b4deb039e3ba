//! Operations by family, each with whatever operands fit; none if x does not.

use super::{Machine, V};
use emmy::Var;
use emmy::ops::attention::{
    DenseAttention, EdgeAttention, EdgeOperands, LeakySum, Mask, Qkv, ScaledProduct,
};
use emmy::ops::{recurrent, sparse as entries};

type Made<'t> = Option<(String, V<'t>)>;

fn made<'t>(name: impl Into<String>, y: V<'t>) -> Made<'t> {
    Some((name.into(), y))
}

/// Functions of one number.
pub fn function<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let a = 1.5 * m.d.signed();
    match m.d.count(0, 22) {
        0 => made("relu", x.relu()),
        1 => made(format!("leaky {a}"), x.leaky_relu(a)),
        2 => made(format!("elu {a}"), x.elu(a)),
        3 => made("gelu", x.gelu()),
        4 => made("gelu_tanh", x.gelu_tanh()),
        5 => made("silu", x.silu()),
        6 => made("mish", x.mish()),
        7 => made("softplus", x.softplus()),
        8 => made("clamp", x.clamp(a.min(0.3), a.max(0.3))),
        9 => made("hardtanh", x.hardtanh()),
        10 => made("normal_cdf", x.normal_cdf()),
        11 => made("tanh", x.tanh()),
        12 => made("sigmoid", x.sigmoid()),
        13 => made("abs", x.abs()),
        14 => made("sin", x.sin()),
        15 => made("cos", x.cos()),
        16 => made("square", x.square()),
        17 => made("exp", x.exp()),
        18 => made("√(x² + 1)", (x.square() + 1.0).sqrt()),
        19 => made("ln (x² + 1)", (x.square() + 1.0).ln()),
        20 => made("x³", x.powf(3.0)),
        21 => made("√|x|", x.abs().sqrt()),
        _ => made("1 / x", x.powf(-1.0)),
    }
}

/// Entry by entry, with numbers or operands that are broadcast.
pub fn arithmetic<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let shape = x.shape();
    let c = 3.0 * m.d.signed();
    let b = m.broadcast(&shape);
    let at = b.shape();
    match m.d.count(0, 15) {
        0 => made(format!("{c} x"), x.scale(c)),
        1 => made(format!("x + {c}"), x.add_scalar(c)),
        2 => made(format!("{c} / (x² + 1)"), c / (x.square() + 1.0)),
        3 | 4 => made(format!("x + b {at:?}"), x + b),
        5 => made(format!("b {at:?} − x"), b - x),
        6..=8 => made(format!("x · b {at:?}"), x * b),
        9 => made(format!("x / (b² + 1) {at:?}"), x / (b.square() + 1.0)),
        10 => made(format!("b {at:?} / x"), b / x),
        11 => made(format!("max b {at:?}"), x.maximum(b)),
        12 => made(format!("min b {at:?}"), b.minimum(x)),
        13 => made("dropout", x.dropout(0.5, m.d.seed())),
        14 => {
            let mask = m.d.mask(&shape);
            let other = m.operand(&shape);
            match m.d.flag() {
                true => made("x where", x.where_(&mask, other)),
                false => made("other where", other.where_(&mask, x)),
            }
        }
        _ => made("gate", x.gate(m.d.numbers(&shape), m.d.signed())),
    }
}

/// Products of matrices.
pub fn products<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let shape = x.shape();
    let &[.., rows, columns] = &shape[..] else {
        return None;
    };
    let size = m.d.count(1, 3);
    let batch = if m.d.flag() {
        shape[..shape.len() - 2].to_vec()
    } else {
        Vec::new()
    };
    let of = |a: usize, b: usize| [&batch[..], &[a, b]].concat();
    match m.d.count(0, 7) {
        0 | 1 if shape.len() == 2 => {
            let w = m.operand(&[size, columns]);
            made(format!("x Wᵀ {size}"), x.linear(w))
        }
        2 | 3 => {
            let w = m.operand(&of(columns, size));
            made(format!("x W {:?}", w.shape()), x.matmul(w))
        }
        4 => {
            let w = m.operand(&of(size, rows));
            made(format!("W x {:?}", w.shape()), w.matmul(x))
        }
        5 if shape.len() == 2 => made("x xᵀ", x.matmul(x.t())),
        6 if shape.len() == 2 => made("xᵀ x", x.t().matmul(x)),
        7 if shape.len() == 2 => made("x xᵀ x", x.linear(x).matmul(x)),
        _ => None,
    }
}

/// Entries in other places.
pub fn shapes<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let shape = x.shape();
    let n = shape.len();
    if n == 0 {
        return made("reshape", x.reshape(&[1]));
    }
    let axis = m.d.axis(n);
    let size = shape[axis.rem_euclid(n as isize) as usize];
    match m.d.count(0, 8) {
        0 | 1 => {
            let to = m.d.factors(x.len());
            made(format!("reshape {to:?}"), x.reshape(&to))
        }
        2 => {
            let mut order: Vec<isize> = (0..n as isize).collect();
            order.rotate_left(m.d.count(0, n - 1));
            made(format!("permute {order:?}"), x.permute(&order))
        }
        3 => {
            let start = m.d.count(0, size - 1);
            let end = m.d.count(start + 1, size);
            let range = start..end;
            made(format!("slice {axis} {range:?}"), x.slice(axis, range))
        }
        4 => {
            let (a, b) = (m.d.count(0, 2), m.d.count(0, 2));
            made(format!("pad {axis} {a} {b}"), x.pad(axis, a, b))
        }
        5 => {
            let count = m.d.count(1, 4);
            let at: Vec<usize> = (0..count).map(|_| m.d.count(0, size - 1)).collect();
            made(format!("select {axis} {at:?}"), x.index_select(axis, at))
        }
        6 => {
            let to = m.d.count(1, 3);
            let at: Vec<usize> = (0..size).map(|_| m.d.count(0, to - 1)).collect();
            made(format!("add {axis} {at:?}"), x.index_add(axis, at, to))
        }
        7 => {
            let b = m.operand(&shape);
            let all = [vec![x, x], vec![x, b, x], vec![b, x]][m.d.count(0, 2)].clone();
            let count = all.len();
            match m.d.flag() {
                true => made(format!("concat {axis} {count}"), Var::concat(&all, axis)),
                false => made(format!("stack {axis} {count}"), Var::stack(&all, axis)),
            }
        }
        _ => {
            let mut to = shape;
            for size in to.iter_mut().filter(|size| **size == 1) {
                *size = m.d.count(1, 3);
            }
            to.insert(0, m.d.count(1, 2));
            made(format!("broadcast {to:?}"), x.broadcast_to(&to))
        }
    }
}

/// Sums, extrema and norms.
pub fn reductions<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let (n, keep) = (x.ndim(), m.d.flag());
    let axes = m.d.axes(n);
    match m.d.count(0, 9) {
        0 => made(format!("sum {axes:?}"), x.sum(&axes, keep)),
        1 => made(format!("mean {axes:?}"), x.mean(&axes, keep)),
        2 => made(format!("max {axes:?}"), x.max(&axes, keep)),
        3 => made(format!("min {axes:?}"), x.min(&axes, keep)),
        4 => made(format!("var {axes:?}"), x.var(&axes, keep)),
        5 => made(format!("norm {axes:?}"), x.norm(&axes, keep)),
        6 if n == 2 => made("row norms", x.row_norms()),
        7 if n == 2 => made("column norms", x.column_norms()),
        8 if n == 2 => made("frobenius", x.frobenius_norm()),
        9 if n == 2 => made("inf-2 norm", x.inf_2_norm()),
        _ => None,
    }
}

/// What acts on rows: softmax, norms, losses, steps of recurrent units.
pub fn rows<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let shape = x.shape();
    let &width = shape.last()?;
    let axis = m.d.axis(shape.len());
    let mask = m.d.mask(&shape);
    match m.d.count(0, 12) {
        0 => made("softmax", x.softmax(axis)),
        1 => made("softmax masked", x.softmax_masked(axis, &mask)),
        2 => made("logsumexp", x.logsumexp(axis, m.d.flag())),
        3 => made("logsumexp masked", x.logsumexp_masked(axis, &mask, true)),
        4 => made("log softmax", x.log_softmax(axis)),
        5 => made("log softmax masked", x.log_softmax_masked(axis, &mask)),
        6..=8 => {
            let eps = [1.0, 0.1, 1e-3, 0.0][m.d.count(0, 3)];
            let gain = m.d.flag().then(|| m.operand(&[width]));
            let bias = m.d.flag().then(|| m.operand(&[width]));
            match m.d.flag() {
                true => made(format!("layer norm {eps}"), x.layer_norm(gain, bias, eps)),
                false => made(format!("RMS norm {eps}"), x.rms_norm(gain, eps)),
            }
        }
        9 if shape.len() == 2 => {
            let labels = (0..shape[0]).map(|_| m.d.count(0, width - 1));
            let labels: Vec<usize> = labels.collect();
            made("cross-entropy", x.cross_entropy(&labels, None))
        }
        10 => {
            let target = m.operand(&shape);
            match m.d.flag() {
                true => made("mse", x.mse(target)),
                false => made("bce", x.bce_with_logits(target)),
            }
        }
        11 if shape.len() == 3 && width.is_multiple_of(2) => {
            made("rotate", x.rotate_planes(m.d.count(0, 3), 10.0))
        }
        12 if shape.len() == 3 => {
            let [steps, n] = [shape[0], shape[1]];
            let is_lstm = m.d.flag();
            let gates = if is_lstm { 4 } else { 3 };
            let x = m.operand(&[steps, n, gates]);
            let (w, b) = (m.operand(&[gates, 1]), m.operand(&[gates]));
            let (h, c) = (m.operand(&[n, 1]), m.operand(&[n, 1]));
            match is_lstm {
                true => made("lstm", recurrent::lstm(x, w, b, h, c)),
                false => made("gru", recurrent::gru(x, w, b, h)),
            }
        }
        _ => None,
    }
}

/// Operations on the entries of a sparse pattern.
pub fn sparse<'t>(m: &mut Machine<'t>, x: V<'t>) -> Made<'t> {
    let shape = x.shape();
    let (&n, rest) = shape.split_first()?;
    let other = m.d.count(1, 3);
    let p = match m.d.flag() {
        true => m.d.pattern(n, other),
        false => m.d.pattern(other, n),
    };
    let (rows, columns, count) = (p.rows(), p.cols(), p.nnz());
    if count == 0 {
        return None;
    }
    let of = |first: usize| [&[first][..], rest].concat();
    let is_matrix = rest.len() == 1;
    match m.d.count(0, 9) {
        0 if rows == n => made("gather rows", entries::gather_rows(&p, x)),
        1 if columns == n => made("gather columns", entries::gather_columns(&p, x)),
        2 => made(
            "segment sum",
            entries::segment_sum(&p, m.operand(&of(count))),
        ),
        3 => made(
            "segment mean",
            entries::segment_mean(&p, m.operand(&of(count))),
        ),
        4 => made(
            "segment max",
            entries::segment_max(&p, m.operand(&of(count))),
        ),
        5 => {
            let v = m.operand(&of(count));
            made(
                "segment sum of columns",
                entries::segment_sum_columns(&p, v),
            )
        }
        6 => made(
            "segment softmax",
            entries::segment_softmax(&p, m.operand(&[count])),
        ),
        7 if is_matrix && columns == n => made("spmm", entries::spmm(&p, m.operand(&[count]), x)),
        8 if is_matrix && rows == n => made("spmm_t", entries::spmm_t(&p, m.operand(&[count]), x)),
        9 if is_matrix && rows == n => {
            let b = m.operand(&[columns, rest[0]]);
            made("sddmm", entries::sddmm(&p, x, b))
        }
        _ => None,
    }
}

/// Attention between all pairs, and along edges.
pub fn attention<'t>(m: &mut Machine<'t>) -> Made<'t> {
    let d = &mut m.d;
    let [n, keys] = [0; 2].map(|_| d.count(1, 3));
    let [heads, width, value_width] = [0; 3].map(|_| d.count(1, 2));
    let seed = d.seed();
    let dropout = (d.count(0, 3) == 0).then_some((0.5, seed));
    if d.count(0, 2) == 0 {
        return along_edges(m, [n, keys, heads, width, value_width], dropout);
    }
    let is_own = n == keys && d.flag();
    if is_own && d.count(0, 3) == 0 {
        let mask = if d.flag() {
            Mask::none()
        } else {
            Mask::causal()
        };
        let attention = DenseAttention::new(width, mask);
        let u = m.operand(&[heads, n, width]);
        let z = m.operand(&[heads, n, value_width]);
        return made("symmetric attention", attention.attend_symmetric(u, z));
    }
    let mask = match d.count(0, 3) {
        0 => Mask::causal(),
        1 => Mask::allowed(d.mask(&[1, n, keys])),
        2 => Mask::edges(d.pattern(n, keys)),
        _ => Mask::none(),
    };
    let is_sparse = mask.pattern().is_some();
    let attention = DenseAttention {
        dropout,
        ..DenseAttention::new(width, mask)
    };
    let q = m.operand(&[n, heads, width]);
    let k = match is_own && m.d.flag() {
        true => q,
        false => m.operand(&[keys, heads, width]),
    };
    let v = match width == value_width && m.d.flag() {
        true => k,
        false => m.operand(&[keys, heads, value_width]),
    };
    let beta = (m.d.count(0, 3) == 0).then(|| m.operand(&[keys, heads]));
    let t = (m.d.count(0, 5) == 0).then(|| m.operand(&[n, heads]));
    let all = Qkv {
        beta,
        t,
        ..Qkv::new(q, k, v)
    };
    let name = format!("attention {n} × {keys}, {heads} heads of {width}, {value_width}");
    match m.d.count(0, 5) {
        0 => made(
            format!("α of {name}"),
            attention.attention_coefficients(all),
        ),
        1 if !is_sparse => made(format!("ℓ of {name}"), attention.log_sum_exp(all)),
        _ => made(name, attention.attend(all)),
    }
}

fn along_edges<'t>(
    m: &mut Machine<'t>,
    [n, sources, heads, width, value_width]: [usize; 5],
    dropout: Option<(f64, u64)>,
) -> Made<'t> {
    let n = if m.d.count(0, 2) == 0 { n } else { sources };
    let pattern = m.d.pattern(n, sources);
    if pattern.nnz() == 0 {
        return None;
    }
    let attention = EdgeAttention { pattern, dropout };
    let slope = m.d.signed();
    let z = m.operand(&[sources, heads, width]);
    let (name, operands) = match m.d.count(0, 2) {
        0 if n == sources => {
            let a = [0; 2].map(|_| m.operand(&[heads, width]));
            ("GAT", EdgeOperands::gat(z, a[0], a[1]))
        }
        1 => {
            let z_t = match n == sources && m.d.flag() {
                true => z,
                false => m.operand(&[n, heads, width]),
            };
            (
                "GATv2",
                EdgeOperands::gatv2(z, z_t, m.operand(&[heads, width])),
            )
        }
        _ => {
            let q = m.operand(&[n, heads, width]);
            let v = m.operand(&[sources, heads, value_width]);
            let product = ScaledProduct { scale: slope };
            let x = EdgeOperands::new(q, z, v);
            return match m.d.flag() {
                true => made("α of products", attention.coefficients(product, x)),
                false => made("products along edges", attention.attend(product, x)),
            };
        }
    };
    let score = LeakySum { slope };
    match m.d.flag() {
        true => made(
            format!("α of {name}"),
            attention.coefficients(score, operands),
        ),
        false => made(format!("{name} {slope}"), attention.attend(score, operands)),
    }
}
