//! Shape rules: NumPy's broadcasting.
//!
//! Code that may panic uses loops in place of closures: a panic within a closure would report a line of this
//! file, not the caller's.

use super::Tensor;
use super::memory;
use crate::real::Real;

/// The common shape of two operands under NumPy's rule: shapes are aligned at the right, and in each place
/// the sizes are equal or one of them is 1 (or absent).
///
/// # Panics
/// If the shapes do not combine; the message names the operation `op`, both shapes and the rule.
#[track_caller]
pub fn broadcast_shapes(op: &str, a: &[usize], b: &[usize]) -> Vec<usize> {
    let ndim = a.len().max(b.len());
    let at = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(ndim) {
        Some(i) => shape[i],
        None => 1,
    };
    let mut out = Vec::with_capacity(ndim);
    for axis in 0..ndim {
        out.push(match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            (x, y) => panic!(
                "{op}: {a:?} and {b:?} do not broadcast: sizes {x} and {y} in axis {axis} are neither equal nor 1"
            ),
        });
    }
    out
}

/// The number of elements of a shape.
///
/// # Panics
/// If they are more than memory can have addresses for; the message names the operation `op`. A size 0 does not
/// allow the other sizes to be larger.
#[doc(hidden)]
#[track_caller]
pub fn elements(op: &str, shape: &[usize]) -> usize {
    let mut count = 1_usize;
    for &size in shape {
        count = match count.checked_mul(size.max(1)) {
            Some(count) if count <= isize::MAX as usize => count,
            _ => panic!("{op}: shape {shape:?} has more elements than memory has addresses"),
        };
    }
    if shape.contains(&0) { 0 } else { count }
}

/// Turns an axis that may count from the end (−1 is the last) into an index.
///
/// # Panics
/// If the axis is outside `-ndim..ndim`.
#[track_caller]
pub fn normalize_axis(op: &str, axis: isize, ndim: usize) -> usize {
    let index = if axis < 0 { axis + ndim as isize } else { axis };
    assert!(
        index >= 0 && (index as usize) < ndim,
        "{op}: axis {axis} is outside a tensor of {ndim} dimensions"
    );
    index as usize
}

/// [`normalize_axis`] for a list, sorted; an empty list stands for all axes.
///
/// # Panics
/// If an axis is out of range or occurs twice.
#[track_caller]
pub fn normalize_axes(op: &str, axes: &[isize], ndim: usize) -> Vec<usize> {
    if axes.is_empty() {
        return (0..ndim).collect();
    }
    let mut out = Vec::with_capacity(axes.len());
    for &axis in axes {
        out.push(normalize_axis(op, axis, ndim));
    }
    out.sort_unstable();
    assert!(
        out.windows(2).all(|w| w[0] != w[1]),
        "{op}: an axis occurs twice in {axes:?} (of {ndim} dimensions)"
    );
    out
}

/// A shape as a caller may write it: signed or unsigned sizes, in a slice, array or `Vec`.
///
/// Literals are sizes too, `&[2, -1]`. An empty literal does not determine its type: write `&[] as &[usize]`.
pub trait Sizes {
    /// The sizes.
    fn sizes(&self) -> Vec<isize>;
}

impl Sizes for [usize] {
    fn sizes(&self) -> Vec<isize> {
        // A size that is too large stays one: it must not become −1.
        let size = |&size: &usize| isize::try_from(size).unwrap_or(isize::MAX);
        self.iter().map(size).collect()
    }
}

impl Sizes for [isize] {
    fn sizes(&self) -> Vec<isize> {
        self.to_vec()
    }
}

/// The type of a literal of which nothing else is known.
impl Sizes for [i32] {
    fn sizes(&self) -> Vec<isize> {
        self.iter().map(|&size| size as isize).collect()
    }
}

impl<T, const N: usize> Sizes for [T; N]
where
    [T]: Sizes,
{
    fn sizes(&self) -> Vec<isize> {
        self[..].sizes()
    }
}

impl<T> Sizes for Vec<T>
where
    [T]: Sizes,
{
    fn sizes(&self) -> Vec<isize> {
        self[..].sizes()
    }
}

/// The same tensor with its elements in row-major order without gaps: shared if it lies so already, else
/// copied.
///
/// `contiguous(&x).as_slice()` is never `None`.
#[inline(never)]
pub fn contiguous<F: Real>(x: &Tensor<F>) -> Tensor<F> {
    if x.is_standard_layout() {
        return x.clone();
    }
    let turned = x.view().reversed_axes();
    match (turned.to_slice(), x.shape()) {
        (Some(data), &[rows, cols]) if !data.is_empty() => {
            let lines: Vec<&[F]> = data.chunks_exact(rows).collect();
            let mut out = memory::scratch(data.len());
            transpose(&lines, &mut out, cols);
            out.into_tensor(&[rows, cols])
        }
        _ => x.as_standard_layout().into_owned().into_shared(),
    }
}

/// out[p, l] = lines[l][p], for lines of equal length and rows of `out` that begin `stride` elements
/// apart. Blocks of 16 × 16 elements are transposed in vectors, of the width for which the caller is
/// compiled.
#[inline(always)]
pub(crate) fn transpose<F: Real>(lines: &[&[F]], out: &mut [F], stride: usize) {
    const BLOCK: usize = 16;
    let len = lines.first().map_or(0, |line| line.len());
    for (number, lines) in lines.chunks(BLOCK).enumerate() {
        let (first, mut p) = (number * BLOCK, 0);
        if let Ok(lines) = <&[&[F]; BLOCK]>::try_from(lines) {
            while p + BLOCK <= len {
                let mut block = [[F::zero(); BLOCK]; BLOCK];
                for l in 0..BLOCK {
                    block[l] = *lines[l][p..].first_chunk().expect("a block");
                }
                for q in 0..BLOCK {
                    let out = &mut out[(p + q) * stride + first..];
                    let out: &mut [F; BLOCK] = out.first_chunk_mut().expect("a block");
                    for l in 0..BLOCK {
                        out[l] = block[l][q];
                    }
                }
                p += BLOCK;
            }
        }
        for p in p..len {
            for (l, line) in lines.iter().enumerate() {
                out[p * stride + first + l] = line[p];
            }
        }
    }
}
