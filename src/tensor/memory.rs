//! Memory used again. A training step needs the same buffers as the one before; fetched from the operating system each time, their
//! first touch costs more than many a kernel. What a tape drops is kept here, by length, and handed out again.
//!
//! A pool belongs to a thread; the thread that runs a tape both takes and gives back.

use super::Tensor;
use crate::real::Real;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

/// Elements below which the allocator is quick anyway.
const SMALL: usize = 2048;

/// Bytes that a pool keeps at most; beyond, it is emptied.
const MOST: usize = 2 << 30;

/// Buffers of one type, by length.
#[derive(Debug)]
pub struct Pool<F> {
    free: HashMap<usize, Vec<Vec<F>>>,
    bytes: usize,
}

impl<F> Default for Pool<F> {
    fn default() -> Self {
        Self {
            free: HashMap::new(),
            bytes: 0,
        }
    }
}

/// The pools of a thread.
#[derive(Debug, Default)]
pub struct Pools {
    pub(crate) f32: RefCell<Pool<f32>>,
    pub(crate) f64: RefCell<Pool<f64>>,
}

thread_local! {
    static POOLS: Pools = Pools::default();
}

/// A buffer of zeros.
pub fn zeros<F: Real>(len: usize) -> Vec<F> {
    match take(len) {
        Some(mut buffer) => {
            buffer.fill(F::zero());
            buffer
        }
        None => vec![F::zero(); len],
    }
}

/// A buffer with anything in it, to be written to whole. In debug builds it holds NaN, so that an element left out is noticed.
pub fn scratch<F: Real>(len: usize) -> Vec<F> {
    let mut buffer = take(len).unwrap_or_else(|| vec![F::zero(); len]);
    if cfg!(debug_assertions) {
        buffer.fill(F::nan());
    }
    buffer
}

/// A buffer with the given contents.
pub fn copy<F: Real>(data: &[F]) -> Vec<F> {
    let mut buffer = take(data.len()).unwrap_or_else(|| vec![F::zero(); data.len()]);
    buffer.copy_from_slice(data);
    buffer
}

/// Gives a buffer back.
pub fn recycle_buffer<F: Real>(buffer: Vec<F>) {
    let len = buffer.len();
    let bytes = size_of::<F>() * len;
    if len < SMALL || buffer.capacity() != len || bytes > MOST / 4 {
        return;
    }
    with_pool(|pool| {
        if pool.bytes + bytes > MOST {
            *pool = Pool::default();
        }
        pool.bytes += bytes;
        pool.free.entry(len).or_default().push(buffer);
    });
}

/// Gives the memory of a tensor back, if nothing else shares it.
pub fn recycle<F: Real>(x: Tensor<F>) {
    if x.len() < SMALL {
        return;
    }
    if let Ok(owned) = x.try_into_owned_nocopy() {
        recycle_buffer(owned.into_raw_vec_and_offset().0);
    }
}

/// Frees what the pools of this thread hold.
pub fn clear() {
    POOLS.with(|pools| {
        pools.f32.take();
        pools.f64.take();
    });
}

fn take<F: Real>(len: usize) -> Option<Vec<F>> {
    if len < SMALL {
        return None;
    }
    with_pool(|pool: &mut Pool<F>| {
        let buffer = pool.free.get_mut(&len)?.pop()?;
        pool.bytes -= size_of::<F>() * len;
        Some(buffer)
    })
    .flatten()
}

/// `None` while the thread ends and its pools are gone.
fn with_pool<F: Real, R>(f: impl FnOnce(&mut Pool<F>) -> R) -> Option<R> {
    POOLS
        .try_with(|pools| f(&mut F::pool(pools).borrow_mut()))
        .ok()
}

/// A buffer that gives itself back.
#[derive(Debug, Default)]
pub struct Buffer<F: Real>(Vec<F>);

impl<F: Real> From<Vec<F>> for Buffer<F> {
    fn from(data: Vec<F>) -> Self {
        Self(data)
    }
}

impl<F: Real> Deref for Buffer<F> {
    type Target = [F];
    fn deref(&self) -> &[F] {
        &self.0
    }
}

impl<F: Real> DerefMut for Buffer<F> {
    fn deref_mut(&mut self) -> &mut [F] {
        &mut self.0
    }
}

impl<F: Real> Drop for Buffer<F> {
    fn drop(&mut self) {
        recycle_buffer(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::tensor;

    #[test]
    fn what_is_given_back_comes_again() {
        clear();
        let x = tensor(&[64, 64], vec![7.0_f32; 4096]);
        let place = x.as_ptr();
        let shared = x.clone();
        recycle(x);
        let other = zeros::<f32>(4096);
        assert_ne!(other.as_ptr(), place, "it was still shared");
        recycle(shared);
        let again = zeros::<f32>(4096);
        assert_eq!(again.as_ptr(), place);
        assert!(again.iter().all(|&x| x == 0.0));
        // Another type has another pool, and a view of a part is not the buffer it was cut from.
        drop(Buffer::from(again));
        let double = zeros::<f64>(4096);
        assert_ne!(double.as_ptr().cast(), place);
        assert_eq!(Buffer::from(scratch::<f32>(4096)).as_ptr(), place);
        clear();
    }

    #[test]
    fn a_pool_has_a_bound() {
        clear();
        let len = MOST / 4 / size_of::<f64>();
        for _ in 0..20 {
            recycle_buffer(vec![0.0_f64; len]);
        }
        POOLS.with(|pools| assert!(pools.f64.borrow().bytes <= MOST));
        recycle_buffer(vec![0.0_f64; len + 1]);
        POOLS.with(|pools| assert!(!pools.f64.borrow().free.contains_key(&(len + 1))));
        clear();
        POOLS.with(|pools| assert_eq!(pools.f64.borrow().bytes, 0));
    }
}
