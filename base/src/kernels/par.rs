//! Threads: disjoint row blocks, and reductions over fixed chunks.
//!
//! Everything runs in rayon's current pool ([`with_threads`] chooses one), and serially where a fork would
//! cost more than it saves. No result depends on the number of threads.

use crate::sparse::Pattern;
use rayon::prelude::*;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Mutex;

/// Elementary operations below which a loop stays on its thread, since handing out work costs time too.
/// The number is chosen by the rows with two layers of `cargo bench --bench peers` on two threads.
pub const FORK: usize = 50_000;

/// Elementary operations in one block of a parallel loop: large against the cost of handing it out, small
/// enough to balance.
const BLOCK: usize = 25_000;

/// The most threads of a pool.
pub const MOST_THREADS: usize = 1024;

/// The most threads that are kept for later calls.
const MOST_IDLE: usize = 64;

/// Runs `f` with all kernels inside it on `n` threads; 0 stands for one thread per processor.
///
/// Simultaneous calls have `n` threads each. Up to 64 threads are kept for later calls. A call on a thread of a
/// pool of `n` threads runs in place, on the threads of that pool. On a thread of another pool, that thread waits
/// and does no other work, so that the calls inside the tasks of a pool are at most as many as its threads.
///
/// # Panics
/// If `n` is more than [`MOST_THREADS`], or the threads cannot be started.
#[track_caller]
pub fn with_threads<R: Send>(n: usize, f: impl FnOnce() -> R + Send) -> R {
    /// Pools that are not in use, with the sizes that were asked for.
    static IDLE: Mutex<Vec<(usize, rayon::ThreadPool)>> = Mutex::new(Vec::new());
    assert!(
        n <= MOST_THREADS,
        "with_threads: {n} threads, there may be at most {MOST_THREADS}"
    );
    if rayon::current_thread_index().is_some() && rayon::current_num_threads() == n {
        return f();
    }
    let idle = || {
        IDLE.lock()
            .expect("no thread panics while it holds the list of pools")
    };
    let found = {
        let mut idle = idle();
        let at = idle.iter().position(|(size, _)| *size == n);
        at.map(|at| idle.swap_remove(at).1)
    };
    let pool = found.unwrap_or_else(|| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(n).build();
        pool.unwrap_or_else(|e| panic!("with_threads: {n} threads: {e}"))
    });
    let out = match rayon::current_thread_index() {
        None => pool.install(f),
        // While it waits in `install`, a thread of another pool would begin further tasks of that pool, each of
        // which may call this function and start a pool. While it waits for a thread, it does nothing.
        Some(_) => std::thread::scope(|scope| {
            let done = scope.spawn(|| pool.install(f)).join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    };
    let mut idle = idle();
    let kept: usize = idle
        .iter()
        .map(|(_, pool)| pool.current_num_threads())
        .sum();
    if kept + pool.current_num_threads() <= MOST_IDLE {
        idle.push((n, pool));
    }
    out
}

thread_local! {
    static FORKED: Cell<u64> = const { Cell::new(0) };
}

/// How often an operation that this thread began was worth a fork.
#[doc(hidden)]
pub fn forked() -> u64 {
    FORKED.get()
}

/// Whether `work` elementary operations are worth a fork.
#[inline]
fn forks(work: usize) -> bool {
    let forks = work >= FORK && rayon::current_num_threads() > 1;
    if forks {
        FORKED.set(FORKED.get() + 1);
    }
    forks
}

/// Calls `f(first_row, block)` on blocks of whole rows of `out`, in parallel.
///
/// `out` has rows of `width` elements; `cost` is the number of elementary operations per row. The value of a
/// row must not depend on the block it is in: the whole of `out` may come as one block.
///
/// # Panics
/// If the length of `out` is not a multiple of `width`.
#[track_caller]
pub fn rows<T: Send>(out: &mut [T], width: usize, cost: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if out.is_empty() {
        return;
    }
    assert!(
        width > 0 && out.len().is_multiple_of(width),
        "rows: {} elements are not whole rows of {width}",
        out.len()
    );
    let work = (out.len() / width).saturating_mul(cost);
    if !forks(work) {
        return f(0, out);
    }
    // If there are several blocks per thread, each thread gets as many.
    let (threads, count) = (rayon::current_num_threads(), (work / BLOCK).max(1));
    let even = count.next_multiple_of(threads);
    let count = if count < threads { count } else { even };
    let block = (out.len() / width).div_ceil(count);
    blocks(out, block, width, work, &f);
}

/// The parallel part of [`rows`]. One copy per type of elements, not one per loop, and so below.
fn blocks<T: Send>(
    out: &mut [T],
    block: usize,
    width: usize,
    work: usize,
    f: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let parts = out.chunks_mut(block * width).enumerate();
    let parts = parts.map(|(k, part)| (k * block, part)).collect();
    each_task(parts, work, &|(first, part)| f(first, part));
}

/// Calls `f` on every task, in parallel if `work` elementary operations in all are worth it, and returns the
/// results in order.
pub fn map<T: Send, R: Send>(tasks: Vec<T>, work: usize, f: impl Fn(T) -> R + Sync) -> Vec<R> {
    each_task(tasks, work, &f)
}

/// [`map`], with one copy per type of tasks and results.
// Loops: of each chain of iterators the compiler would make several functions per copy.
fn each_task<T: Send, R: Send>(tasks: Vec<T>, work: usize, f: &(dyn Fn(T) -> R + Sync)) -> Vec<R> {
    let n = tasks.len();
    let mut results = Vec::with_capacity(n);
    if n < 2 || !forks(work) {
        for task in tasks {
            results.push(f(task));
        }
        return results;
    }
    let mut slots = Vec::with_capacity(n);
    for task in tasks {
        slots.push(Mutex::new((Some(task), None)));
    }
    each(n, &|k| {
        let mut slot = slots[k].lock().expect("each task is taken once");
        let task = slot.0.take().expect("each task is taken once");
        slot.1 = Some(f(task));
    });
    for slot in slots {
        let result = slot.into_inner().ok().and_then(|slot| slot.1);
        results.push(result.expect("every task has run"));
    }
    results
}

/// Calls `f` on every number below `n`, in parallel. It is not generic, so that what rayon needs for it is
/// compiled once, and not for every loop.
fn each(n: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..n).into_par_iter().with_max_len(1).for_each(f);
}

/// Reduces 0..len over chunks of `chunk` indices: `combine(…combine(f(0..chunk), f(chunk..2 chunk))…)`, in
/// that order on any number of threads. `None` if `len` is 0.
pub fn reduce<R: Send>(
    len: usize,
    chunk: usize,
    cost: usize,
    f: impl Fn(Range<usize>) -> R + Sync,
    combine: impl FnMut(R, R) -> R,
) -> Option<R> {
    map(chunks(len, chunk), len.saturating_mul(cost), f)
        .into_iter()
        .reduce(combine)
}

/// 0..len cut into ranges of `chunk` indices, the last one shorter.
pub fn chunks(len: usize, chunk: usize) -> Vec<Range<usize>> {
    (0..len)
        .step_by(chunk.max(1))
        .map(|start| start..len.min(start + chunk.max(1)))
        .collect()
}

/// A block of rows of a pattern, and their entries.
#[derive(Debug, Clone)]
pub struct RowBlock<'a> {
    /// The pattern whose rows these are.
    pub pattern: &'a Pattern,
    /// The numbers of the rows.
    pub rows: Range<usize>,
    /// The numbers of their entries.
    pub entries: Range<usize>,
}

impl<'a> RowBlock<'a> {
    /// Row i: the columns of its entries, and the range within the block of their elements, `per_entry`
    /// each.
    #[inline(always)]
    pub(crate) fn row(&self, i: usize, per_entry: usize) -> (&'a [u32], Range<usize>) {
        let entries = self.pattern.row(i);
        let at = |entry: usize| (entry - self.entries.start) * per_entry;
        let own = at(entries.start)..at(entries.end);
        (&self.pattern.indices()[entries], own)
    }
}

/// The rows of a pattern cut into blocks of about equal work, where a row costs `row` elementary operations
/// and an entry `entry`.
///
/// The blocks depend on the pattern and the costs alone. A block of rows costs more to begin than a block
/// of elements, so it is up to four times as large, as long as there are about 32 of them.
pub fn row_blocks(pattern: &Pattern, row: usize, entry: usize) -> Vec<RowBlock<'_>> {
    let indptr = pattern.indptr();
    let total = row * pattern.rows() + entry * pattern.nnz();
    let size = (total / 32).clamp(BLOCK, 4 * BLOCK);
    let block = |rows: Range<usize>| RowBlock {
        pattern,
        entries: indptr[rows.start]..indptr[rows.end],
        rows,
    };
    let (mut blocks, mut start, mut work) = (Vec::new(), 0, 0);
    for i in 0..pattern.rows() {
        work += row + entry * (indptr[i + 1] - indptr[i]);
        if work >= size {
            blocks.push(block(start..i + 1));
            (start, work) = (i + 1, 0);
        }
    }
    if start < pattern.rows() {
        blocks.push(block(start..pattern.rows()));
    }
    blocks
}

/// Cuts a slice into consecutive disjoint parts of the given sizes.
///
/// # Panics
/// If the sizes add up to more than the slice holds.
pub fn carve<T>(mut data: &mut [T], sizes: impl IntoIterator<Item = usize>) -> Vec<&mut [T]> {
    sizes
        .into_iter()
        .map(|n| {
            data.split_off_mut(..n)
                .unwrap_or_else(|| panic!("carve: a part of {n} elements exceeds the slice"))
        })
        .collect()
}
