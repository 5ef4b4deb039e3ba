//! Selecting and adding by index against plain loops.

use crate::support::{bits, data};
use emmy::kernels::index::{add, select};
use emmy::kernels::par;
use proptest::prelude::*;

proptest! {
    #[test]
    fn equal_plain_loops(
        outer in 0_usize..4,
        n in 0_usize..5,
        w in 0_usize..5,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 0..7),
    ) {
        let picks = if n == 0 { Vec::new() } else { picks };
        let indices: Vec<usize> = picks.iter().map(|p| p.index(n)).collect();
        let c = indices.len();
        let x: Vec<f64> = data(outer * n * w, 1);
        let y = select(&x, [outer, n, w], &indices);
        let u: Vec<f64> = data(outer * c * w, 2);
        let sums = add(&u, [outer, c, w], &indices, n);
        let mut expected = vec![0.0; outer * n * w];
        prop_assert_eq!(y.len(), u.len());
        for o in 0..outer {
            for (k, i) in indices.iter().enumerate() {
                for l in 0..w {
                    prop_assert_eq!(y[(o * c + k) * w + l], x[(o * n + i) * w + l]);
                    expected[(o * n + i) * w + l] += u[(o * c + k) * w + l];
                }
            }
        }
        prop_assert_eq!(&*sums, &expected[..]);
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let x: Vec<f32> = data(300 * 7 * 90, 3);
    let indices = [6, 0, 6, 1, 5, 5, 2];
    let run = |threads| {
        par::with_threads(threads, || {
            let y = select(&x, [300, 7, 90], &indices);
            let sums = add(&y, [300, 7, 90], &indices, 8);
            (bits(&y), bits(&sums))
        })
    };
    let one = run(1);
    for threads in 2..=4 {
        assert_eq!(run(threads), one);
    }
}
