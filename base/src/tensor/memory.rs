//! Reuse of memory. A training step needs the same buffers as the step before. Memory fetched from the
//! operating system costs more at its first use than many kernels do. So the buffers that a tape drops are
//! kept here, by length, and handed out again.
//!
//! All threads share the pools. A kernel takes buffers on the threads that share its work, and the thread
//! that runs the tape gives them back. With one pool per thread, the pool of that thread would grow, and the
//! other pools would stay empty.
//!
//! A buffer that none of the last eight tapes has used is freed as soon as a pool holds more than 32 MiB. So where
//! the number of rows changes from step to step, the pools hold about as much as eight steps need.
//! A pool never holds more than 2 GiB, and there is one per type of numbers. [`release`] frees all of them.

use super::Tensor;
use crate::real::Real;
use ndarray::{Array, Array1, Dimension, IntoDimension, s};
use std::any::Any;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard};

/// Bytes of a cache line. Loading a vector register of this width touches two lines unless its address is a
/// multiple of it.
const ALIGN: usize = 64;

/// Buffers with fewer elements are not kept: the allocator is fast for them.
const SMALL: usize = 2048;

/// The largest number of bytes that a pool keeps; a pool that would exceed it is emptied.
const MOST: usize = 2 << 30;

/// Bytes up to which a pool keeps every buffer, and the number of tapes that a buffer of a larger pool may wait
/// for its next use.
const FREE: usize = 32 << 20;
const PATIENCE: u64 = 8;

/// A buffer that waits for its next use.
struct Kept<F> {
    data: Vec<F>,
    /// The number of tapes that had used the pool when it was given back.
    since: u64,
}

/// Buffers of one type, by length; those of one length in the order in which they were given back.
struct Pool<F> {
    free: HashMap<usize, Vec<Kept<F>>>,
    bytes: usize,
    /// The number of tapes that have ended and had given buffers back. A tape of small tensors does not count.
    tapes: u64,
    /// Whether a buffer was given back since then.
    used: bool,
}

impl<F> Default for Pool<F> {
    fn default() -> Self {
        Self {
            free: HashMap::new(),
            bytes: 0,
            tapes: 0,
            used: false,
        }
    }
}

impl<F> Pool<F> {
    /// Keeps a buffer. A pool that would exceed [`MOST`] is emptied before.
    fn give(&mut self, data: Vec<F>) {
        let bytes = size_of::<F>() * data.len();
        if bytes > MOST / 4 {
            return;
        }
        if self.bytes + bytes > MOST {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.used = true;
        let since = self.tapes;
        let of_length = self.free.entry(data.len()).or_default();
        of_length.push(Kept { data, since });
    }

    /// A kept buffer of this length.
    fn take(&mut self, len: usize) -> Option<Vec<F>> {
        let buffer = self.free.get_mut(&len)?.pop()?;
        self.bytes -= size_of::<F>() * len;
        Some(buffer.data)
    }

    /// Notes that a tape has ended, and frees what has waited for too long.
    fn age(&mut self) {
        self.tapes += u64::from(std::mem::take(&mut self.used));
        if self.bytes <= FREE {
            return;
        }
        let tapes = self.tapes;
        self.free.retain(|_, buffers| {
            buffers.retain(|buffer| buffer.since + PATIENCE >= tapes);
            !buffers.is_empty()
        });
        let lengths = self.free.iter();
        let elements: usize = lengths.map(|(len, buffers)| len * buffers.len()).sum();
        self.bytes = size_of::<F>() * elements;
    }
}

/// The pools, one per type of numbers that was used. A pool is found by its type, so that the scalar trait
/// needs no code for memory.
static POOLS: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());

/// Frees all buffers that are kept for later use, of all types. What is in use stays.
///
/// ```
/// use emmy::{Tape, tensor::{self, memory}};
/// let tape = Tape::<f32>::new();
/// let x = tape.constant(tensor::Tensor::zeros(vec![1000, 1000]));
/// let y = x.exp().value();
/// drop(tape);
/// memory::release();
/// assert_eq!(y[[0, 0]], 1.0);
/// ```
pub fn release() {
    let pools = std::mem::take(&mut *lock());
    // Freed when no thread waits for the pools any more.
    drop(pools);
}

/// Notes that a tape has ended.
#[doc(hidden)]
pub fn end_of_tape<F: Real>() {
    with_pool(Pool::<F>::age);
}

/// A buffer of zeros.
#[inline(never)]
pub fn zeros<F: Real>(len: usize) -> Buffer<F> {
    let (mut buffer, used) = fetch(len);
    if used {
        write(&mut buffer, F::zero());
    }
    buffer
}

/// A buffer with arbitrary contents: the caller writes every element. In debug builds it holds NaN, so that a
/// missed element is noticed.
#[inline(never)]
pub fn scratch<F: Real>(len: usize) -> Buffer<F> {
    let (mut buffer, _) = fetch(len);
    if cfg!(debug_assertions) {
        write(&mut buffer, F::nan());
    }
    buffer
}

/// Unlike `fill`, which is not always inlined, this is a loop of vectors; for zeros, the system's fastest
/// way to write them.
#[inline(always)]
pub(crate) fn write<F: Real>(buffer: &mut [F], number: F) {
    for x in buffer {
        *x = number;
    }
}

/// A buffer with the given contents.
#[inline(never)]
pub fn copy<F: Real>(data: &[F]) -> Buffer<F> {
    let (mut buffer, _) = fetch(data.len());
    buffer.copy_from_slice(data);
    buffer
}

/// A buffer of zeros and `false`, or a used one with arbitrary contents and `true`.
fn fetch<F: Real>(len: usize) -> (Buffer<F>, bool) {
    if len < SMALL {
        return (vec![F::zero(); len].into(), false);
    }
    let room = room::<F>();
    let taken = with_pool(|pool| pool.take(len + room));
    let used = taken.is_some();
    let data = taken.unwrap_or_else(|| vec![F::zero(); len + room]);
    let start = data.as_ptr().align_offset(ALIGN).min(room);
    (Buffer { data, start, len }, used)
}

/// Gives the memory of a tensor back, if nothing else shares it and it came from here.
#[inline(never)]
pub fn recycle<F: Real>(x: Tensor<F>) {
    let len = x.len();
    if len < SMALL {
        return;
    }
    if let Ok(owned) = x.try_into_owned_nocopy() {
        give(owned.into_raw_vec_and_offset().0, len);
    }
}

/// Keeps the memory of a buffer of `len` elements. Memory of another length than `fetch` allocates is not
/// kept: it would never be asked for.
fn give<F: Real>(data: Vec<F>, len: usize) {
    if len >= SMALL && data.len() == len + room::<F>() {
        with_pool(|pool| pool.give(data));
    }
}

/// Extra elements, so that a buffer can begin at a multiple of [`ALIGN`] wherever the allocator puts it.
fn room<F>() -> usize {
    ALIGN / size_of::<F>()
}

fn lock() -> MutexGuard<'static, Vec<Box<dyn Any + Send>>> {
    POOLS
        .lock()
        .expect("no thread panics while it holds the pools")
}

fn with_pool<F: Real, R>(f: impl FnOnce(&mut Pool<F>) -> R) -> R {
    let mut pools = lock();
    let found = pools.iter().position(|pool| pool.is::<Pool<F>>());
    let place = found.unwrap_or_else(|| {
        pools.push(Box::new(Pool::<F>::default()));
        pools.len() - 1
    });
    f(pools[place].downcast_mut().expect("a pool of this type"))
}

/// Numbers that give their memory back when they are dropped; kernels write to them and return them.
#[derive(Debug, Default)]
pub struct Buffer<F: Real> {
    data: Vec<F>,
    start: usize,
    len: usize,
}

impl<F: Real> Buffer<F> {
    /// The numbers as an array in row-major order, without a copy.
    ///
    /// # Panics
    /// If the shape does not have as many elements.
    #[track_caller]
    pub fn into_array<D: Dimension>(mut self, shape: impl IntoDimension<Dim = D>) -> Array<F, D> {
        let (data, len) = (std::mem::take(&mut self.data), self.len);
        let own = Array1::from_vec(data).slice_move(s![self.start..self.start + len]);
        let shape = shape.into_dimension();
        match own.into_shape_with_order(shape.clone()) {
            Ok(array) => array,
            Err(_) => panic!(
                "into_array: shape {:?} holds {} elements, {len} were given",
                shape.slice(),
                shape.size()
            ),
        }
    }

    /// The numbers as a tensor, in row-major order, without a copy.
    ///
    /// # Panics
    /// If the shape does not have as many elements.
    #[track_caller]
    pub fn into_tensor(self, shape: &[usize]) -> Tensor<F> {
        self.into_array(shape).into_shared()
    }
}

impl<F: Real> From<Vec<F>> for Buffer<F> {
    fn from(data: Vec<F>) -> Self {
        Self {
            len: data.len(),
            start: 0,
            data,
        }
    }
}

impl<F: Real> Clone for Buffer<F> {
    fn clone(&self) -> Self {
        copy(self)
    }
}

impl<F: Real> PartialEq for Buffer<F> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<'a, F: Real> IntoIterator for &'a Buffer<F> {
    type Item = &'a F;
    type IntoIter = std::slice::Iter<'a, F>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<F: Real> Deref for Buffer<F> {
    type Target = [F];
    #[inline]
    fn deref(&self) -> &[F] {
        &self.data[self.start..][..self.len]
    }
}

impl<F: Real> DerefMut for Buffer<F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [F] {
        &mut self.data[self.start..][..self.len]
    }
}

impl<F: Real> Drop for Buffer<F> {
    fn drop(&mut self) {
        give(std::mem::take(&mut self.data), self.len);
    }
}
