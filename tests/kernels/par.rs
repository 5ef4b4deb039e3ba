//! Pools of threads, and work that is cut in the same way on any number of them.

use emmy::kernels::par::{reduce, row_blocks, rows, with_threads};
use emmy::sparse::Pattern;
use rayon::prelude::*;

#[test]
fn calls_at_the_same_time_do_not_wait_for_each_other() {
    use std::sync::mpsc::channel;
    use std::time::Duration;
    let (say, hear) = channel();
    let (answer, answered) = channel();
    let patience = Duration::from_secs(20);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            with_threads(1, move || {
                hear.recv_timeout(patience).map(|()| answer.send(()))
            })
        });
        with_threads(1, move || {
            say.send(()).expect("the other call listens");
            answered.recv_timeout(patience).expect("it runs now");
        });
    });
}

/// The threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Threads:"));
    line.expect("a count").trim().parse().expect("a number")
}

#[cfg(target_os = "linux")]
#[test]
fn calls_inside_tasks_of_a_pool_start_few_threads() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (most, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
    with_threads(4, || {
        (0..2000).into_par_iter().with_max_len(1).for_each(|_| {
            with_threads(3, || {
                std::thread::sleep(std::time::Duration::from_micros(50));
                calls.fetch_add(1, Ordering::Relaxed);
            });
            most.fetch_max(threads(), Ordering::Relaxed);
        });
    });
    assert_eq!(calls.into_inner(), 2000);
    // Other tests run at the same time, with some threads each.
    let most = most.into_inner();
    assert!(most < 200, "{most} threads");
}

#[test]
fn threads_that_are_kept_have_a_bound() {
    // More than the 64 that are kept: they end, and the next call has its threads all the same.
    for _ in 0..3 {
        assert_eq!(with_threads(65, rayon::current_num_threads), 65);
    }
}

#[test]
fn a_call_on_a_pool_of_this_size_runs_in_place() {
    let place = || std::thread::current().id();
    assert!(with_threads(3, || place() == with_threads(3, place)));
    assert!(with_threads(3, || place() != with_threads(2, place)));
}

#[test]
#[should_panic(expected = "with_threads: 9223372036854775807 threads, there may be at most 1024")]
fn a_number_of_threads_has_a_bound() {
    with_threads(usize::MAX >> 1, || ());
}

#[test]
fn rows_are_visited_once_on_any_number_of_threads() {
    for n in 1..=4 {
        let mut out = vec![0_usize; 3 * 5000];
        with_threads(n, || {
            rows(&mut out, 3, 100, |first, block| {
                for (k, row) in block.chunks_mut(3).enumerate() {
                    for x in row {
                        *x += first + k + 1;
                    }
                }
            })
        });
        assert!(out.iter().enumerate().all(|(k, &x)| x == k / 3 + 1));
    }
    rows(&mut [0_u8; 0], 0, 1, |_, _| panic!("there is no row"));
}

#[test]
fn a_reduction_has_the_same_order_on_any_number_of_threads() {
    let join = |n| {
        with_threads(n, || {
            reduce(
                1003,
                10,
                1000,
                |r| format!("[{}]", r.len()),
                |a, b| format!("({a}{b})"),
            )
        })
    };
    let one = join(1).unwrap();
    assert!(one.ends_with("[3])") && one.matches("[10]").count() == 100);
    for n in 2..=4 {
        assert_eq!(join(n).unwrap(), one);
    }
    assert_eq!(reduce(0, 10, 1, |r| r.len(), |a, b| a + b), None);
}

#[test]
fn row_blocks_cover_every_row_once() {
    let pairs: Vec<_> = (0..3000).map(|k| (k * k % 700, k % 900)).collect();
    let pattern = Pattern::from_pairs(700, 900, &pairs).unwrap();
    let blocks = row_blocks(&pattern, 10, 1000);
    // About 32 blocks, unless they would have less work than a quarter of the most, or more than the most.
    assert!((25..=32).contains(&blocks.len()), "{}", blocks.len());
    assert_eq!(row_blocks(&pattern, 10, 10).len(), 2);
    let pairs: Vec<_> = (0..3000).map(|k| (k % 700, k % 900)).collect();
    let even = Pattern::from_pairs(700, 900, &pairs).unwrap();
    assert!((200..=300).contains(&row_blocks(&even, 10, 10_000).len()));
    let rows: Vec<usize> = blocks.iter().flat_map(|b| b.rows.clone()).collect();
    assert_eq!(rows, (0..700).collect::<Vec<_>>());
    let entries: Vec<usize> = blocks.into_iter().flat_map(|b| b.entries).collect();
    assert_eq!(entries, (0..pattern.nnz()).collect::<Vec<_>>());
    let empty = Pattern::from_pairs(0, 4, &[]).unwrap();
    assert!(row_blocks(&empty, 1, 1).is_empty());
}

#[test]
fn a_pool_has_the_size_asked_for() {
    for n in [1, 2, 3] {
        assert_eq!(with_threads(n, rayon::current_num_threads), n);
    }
}
