//! Elementwise functions with NumPy's broadcasting, without materialising the broadcast operands.
//!
//! Neighbouring axes that every operand crosses in equal steps are merged, so equal shapes give one run over
//! all elements, a row vector `[n, d] ∘ [d]` or a column `[n, d] ∘ [n, 1]` one run per row, and a scalar is a
//! constant in the loop.

use super::{par, simd};
use crate::real::Real;
use crate::tensor::{Tensor, broadcast_shapes, contiguous, memory};
use smallvec::SmallVec;

/// y = f(x), element by element; y is row-major.
///
/// `f` should be without branches and, where it captures numbers, `move`, so that the loop can be vectorised:
/// numbers behind a reference would have to be read again after every element written. Mark a longer closure
/// `#[inline(always)]`.
pub fn unary<F: Real>(x: &Tensor<F>, f: impl Fn(F) -> F + Copy + Sync) -> Tensor<F> {
    collect(x.shape(), [x], move |x, _, _| f(x))
}

/// x repeated to `shape`, to which it broadcasts; row-major.
#[inline(never)]
pub fn broadcast<F: Real>(x: &Tensor<F>, shape: &[usize]) -> Tensor<F> {
    over(shape, [x], &|runs, first, part| {
        simd(
            #[inline(always)]
            || {
                let ([x], [step], length) = (runs.data, runs.inner().steps, runs.length(part));
                for (k, row) in part.chunks_exact_mut(length).enumerate() {
                    let [at] = runs.start(first + k);
                    match step {
                        0 => memory::write(row, x[at]),
                        1 => row.copy_from_slice(&x[at..at + row.len()]),
                        _ => (row.iter_mut().enumerate()).for_each(|(i, y)| *y = x[at + i * step]),
                    }
                }
            },
        )
    })
}

/// y = f(a, b), element by element over the common shape; y is row-major.
///
/// # Panics
/// If the shapes do not broadcast; the message names `op`.
#[track_caller]
pub fn binary<F: Real>(
    op: &str,
    a: &Tensor<F>,
    b: &Tensor<F>,
    f: impl Fn(F, F) -> F + Copy + Sync,
) -> Tensor<F> {
    let shape = broadcast_shapes(op, a.shape(), b.shape());
    collect(&shape, [a, b], move |a, b, _| f(a, b))
}

/// y = f(a, b, c), element by element over the common shape; y is row-major.
///
/// # Panics
/// If the shapes do not broadcast; the message names `op`.
#[track_caller]
pub fn ternary<F: Real>(
    op: &str,
    a: &Tensor<F>,
    b: &Tensor<F>,
    c: &Tensor<F>,
    f: impl Fn(F, F, F) -> F + Copy + Sync,
) -> Tensor<F> {
    let shape = broadcast_shapes(op, a.shape(), b.shape());
    let shape = broadcast_shapes(op, &shape, c.shape());
    collect(&shape, [a, b, c], f)
}

/// a ← a + b; b broadcasts to the shape of a. In place where nothing shares the data of a.
///
/// # Panics
/// If b does not broadcast to the shape of a.
#[track_caller]
#[inline(never)]
pub fn add_assign<F: Real>(a: &mut Tensor<F>, b: &Tensor<F>) {
    let shape = broadcast_shapes("add_assign", a.shape(), b.shape());
    assert_eq!(
        shape,
        a.shape(),
        "add_assign: {:?} does not broadcast to {:?}",
        b.shape(),
        a.shape()
    );
    // Equal shapes, or one row that is added to each row of a.
    let equal = a.shape() == b.shape();
    let fits = equal || a.shape().ends_with(b.shape()) && b.len() > 1;
    if fits && a.is_unique() && a.is_standard_layout() && b.is_standard_layout() {
        let b = b.as_slice().expect("standard layout");
        let a = a.as_slice_mut().expect("standard layout");
        // Equal lengths may be cut anywhere.
        let width = if equal { 1 } else { b.len() };
        return par::rows(a, width, width, |first, a| match equal {
            true => super::accumulate_rows(a, &b[first..first + a.len()]),
            false => super::accumulate_rows(a, b),
        });
    }
    *a = binary("add_assign", a, b, |a, b| a + b);
}

/// One axis of a loop over N operands: its size, and the step of every operand along it.
struct Loop<const N: usize> {
    size: usize,
    steps: [usize; N],
}

/// The loops over the elements of `shape`, outermost first, neighbours merged where every operand allows it.
/// At least one.
fn loops<F, const N: usize>(shape: &[usize], xs: &[&Tensor<F>; N]) -> SmallVec<[Loop<N>; 4]> {
    let mut loops: SmallVec<[Loop<N>; 4]> = SmallVec::new();
    for (axis, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
        let steps = xs.map(|x| match (axis + x.ndim()).checked_sub(shape.len()) {
            Some(own) if x.shape()[own] != 1 => x.strides()[own] as usize,
            _ => 0,
        });
        match loops.last_mut() {
            Some(outer) if (0..N).all(|k| outer.steps[k] == steps[k] * size) => {
                outer.size *= size;
                outer.steps = steps;
            }
            _ => loops.push(Loop { size, steps }),
        }
    }
    if loops.is_empty() {
        loops.push(Loop {
            size: 1,
            steps: [0; N],
        });
    }
    loops
}

/// The runs of the innermost loop: the elements of N operands in the order of memory, and all loops.
struct Runs<'a, F, const N: usize> {
    data: [&'a [F]; N],
    loops: &'a [Loop<N>],
}

impl<F, const N: usize> Runs<'_, F, N> {
    fn inner(&self) -> &Loop<N> {
        self.loops.last().expect("at least one loop")
    }

    /// The elements of a run within `part`. Without outer loops there is one run, which may be cut
    /// anywhere.
    fn length(&self, part: &[F]) -> usize {
        match self.loops {
            [_] => part.len(),
            _ => self.inner().size,
        }
    }

    /// Where the operands stand at the given turn: of the outer loops, or of the only one.
    #[inline(always)]
    fn start(&self, mut turn: usize) -> [usize; N] {
        let mut at = [0; N];
        let outer = match self.loops {
            [only] => std::slice::from_ref(only),
            [outer @ .., _] => outer,
            [] => &[],
        };
        for axis in outer.iter().rev() {
            let index = if outer.len() == 1 {
                turn
            } else {
                turn % axis.size
            };
            turn /= axis.size;
            for k in 0..N {
                at[k] += index * axis.steps[k];
            }
        }
        at
    }
}

/// y = f(xs) over `shape`, to which every operand broadcasts. There are at most three operands; in the
/// place of those that are missing `f` gets zeros.
#[inline(never)]
fn collect<F: Real, const N: usize>(
    shape: &[usize],
    xs: [&Tensor<F>; N],
    f: impl Fn(F, F, F) -> F + Copy + Sync,
) -> Tensor<F> {
    over(shape, xs, &move |runs, first, part| {
        simd(
            #[inline(always)]
            || {
                let (data, steps, length) = (runs.data, runs.inner().steps, runs.length(part));
                for (k, row) in part.chunks_exact_mut(length).enumerate() {
                    run(data, runs.start(first + k), steps, row, f);
                }
            },
        )
    })
}

/// Writes one part of the result. The number is that of its first run; without outer loops, that of its
/// first element.
type Fill<'a, F, const N: usize> = dyn Fn(&Runs<'_, F, N>, usize, &mut [F]) + Sync + 'a;

/// Has `fill` write the result over `shape` in parallel. One copy per type of elements and number of
/// operands, not one per function.
#[inline(never)]
fn over<F: Real, const N: usize>(
    shape: &[usize],
    xs: [&Tensor<F>; N],
    fill: &Fill<'_, F, N>,
) -> Tensor<F> {
    let len = shape.iter().product();
    let mut out = memory::scratch(len);
    if len == 0 {
        return out.into_tensor(shape);
    }
    let (dense, loops) = prepare(shape, xs);
    let runs = Runs {
        data: (dense.each_ref()).map(|x| x.as_slice_memory_order().expect("no gaps")),
        loops: &loops,
    };
    let width = match loops[..] {
        [_] => 1,
        _ => runs.inner().size,
    };
    par::rows(&mut out, width, width, |first, part| {
        fill(&runs, first, part);
    });
    out.into_tensor(shape)
}

/// The operands without gaps and reversed axes, and the loops over them.
#[inline(never)]
fn prepare<F: Real, const N: usize>(
    shape: &[usize],
    xs: [&Tensor<F>; N],
) -> ([Tensor<F>; N], SmallVec<[Loop<N>; 4]>) {
    let dense = xs.map(|x| {
        if x.strides().iter().all(|&s| s >= 0) && x.as_slice_memory_order().is_some() {
            x.clone()
        } else {
            contiguous(x)
        }
    });
    let loops = loops(shape, &dense.each_ref());
    (dense, loops)
}

/// One run of the innermost loop. Constant operands are told apart at compile time, so that each case is a
/// plain loop.
#[inline(always)]
fn run<F: Real, const N: usize>(
    data: [&[F]; N],
    at: [usize; N],
    steps: [usize; N],
    out: &mut [F],
    f: impl Fn(F, F, F) -> F + Copy,
) {
    let constant: usize = (0..N).map(|k| usize::from(steps[k] == 0) << k).sum();
    if steps.iter().all(|&s| s <= 1) {
        if constant == 0 {
            return plain::<F, N, 0>(data, at, out, f);
        } else if const { N > 1 } && constant == 1 {
            return plain::<F, N, 1>(data, at, out, f);
        } else if const { N > 1 } && constant == 2 {
            return plain::<F, N, 2>(data, at, out, f);
        }
    }
    for (i, y) in out.iter_mut().enumerate() {
        let x = |k: usize| {
            if k < N {
                data[k][at[k] + i * steps[k]]
            } else {
                F::zero()
            }
        };
        *y = f(x(0), x(1), x(2));
    }
}

/// A run whose operands are constant (bit k of `CONSTANT` set) or without gaps.
#[inline(always)]
fn plain<F: Real, const N: usize, const CONSTANT: usize>(
    data: [&[F]; N],
    at: [usize; N],
    out: &mut [F],
    f: impl Fn(F, F, F) -> F + Copy,
) {
    let len = out.len();
    let operand = |k: usize| {
        let len = if CONSTANT >> k & 1 == 1 { 1 } else { len };
        if k < N {
            &data[k][at[k]..at[k] + len]
        } else {
            &[]
        }
    };
    let (a, b, c) = (operand(0), operand(1), operand(2));
    let zero = F::zero();
    // The least of the lengths shows the compiler that nothing is out of bounds.
    match (N, CONSTANT) {
        (1, 0) => {
            for i in 0..len.min(a.len()) {
                out[i] = f(a[i], zero, zero);
            }
        }
        (2, 0) => {
            for i in 0..len.min(a.len()).min(b.len()) {
                out[i] = f(a[i], b[i], zero);
            }
        }
        (2, 1) => {
            let a = a[0];
            for i in 0..len.min(b.len()) {
                out[i] = f(a, b[i], zero);
            }
        }
        (2, 2) => {
            let b = b[0];
            for i in 0..len.min(a.len()) {
                out[i] = f(a[i], b, zero);
            }
        }
        _ => {
            for i in 0..len {
                let at = |k: usize| if CONSTANT >> k & 1 == 1 { 0 } else { i };
                let of = |x: &[F], k: usize| if k < N { x[at(k)] } else { zero };
                out[i] = f(of(a, 0), of(b, 1), of(c, 2));
            }
        }
    }
}
