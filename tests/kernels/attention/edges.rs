//! The fused kernels against loops that follow the formulas, and the adjoints against central differences.

use super::case::*;
use crate::support::{bits, close};
use emmy::kernels::attention::*;
use emmy::kernels::par;
use emmy::kernels::random::DropMask;
use emmy::sparse::Pattern;

fn inner(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn forward_is_the_definition() {
    for (n, m, nnz) in [
        (30, 30, 150),
        (1, 1, 1),
        (0, 5, 0),
        (5, 0, 0),
        (7, 9, 0),
        (20, 35, 90),
        (3, 60, 140),
    ] {
        for (heads, d) in SIZES {
            for p in [0.0, 0.6] {
                for case in case(n, m, nnz, heads, d, p).both() {
                    let (y, alpha) = case.attention().forward(case.gat(), leaky_sum);
                    let (expected_y, expected_alpha) = case.naive_gat();
                    close(&alpha, &expected_alpha, 1e-14);
                    close(&y, &expected_y, 1e-13);
                    let (y, alpha) = case.attention().forward(case.gatv2(), leaky_sum);
                    let (expected_y, expected_alpha) = case.naive_gatv2();
                    close(&alpha, &expected_alpha, 1e-13);
                    close(&y, &expected_y, 1e-12);
                }
            }
        }
    }
}

#[test]
fn large_scores_do_not_overflow() {
    let mut case = case(20, 20, 100, 2, 8, 0.0);
    case.zs
        .iter_mut()
        .chain(&mut case.zt)
        .for_each(|z| *z *= 1e150);
    case.a.iter_mut().for_each(|a| *a *= 1e150);
    case.s_src.iter_mut().for_each(|s| *s *= 1e300);
    for (_, alpha) in [
        case.attention().forward(case.gat(), leaky_sum),
        case.attention().forward(case.gatv2(), leaky_sum),
    ] {
        assert!(alpha.iter().all(|a| (0.0..=1.0).contains(a)));
    }
}

/// Where one coefficient is 1 and the others are 0, the adjoints of scores are exactly 0, with dropout too.
/// The first pass goes by columns if the rows k are given, and by rows if they are those of v.
#[test]
fn a_saturated_softmax_passes_no_adjoint() {
    for (heads, p) in [(1, 0.0), (1, 0.3), (3, 0.3), (15, 0.3)] {
        let case = case(20, 20, 100, heads, 8, p);
        let v = &case.zs;
        let k: Vec<f64> = v.iter().map(|v| 1e8 * v).collect();
        let q: Vec<f64> = case.zt.iter().map(|q| 1e8 * q).collect();
        for k in [Some(&*k), None] {
            let x = Operands {
                v,
                k,
                q: Some(&q),
                width: 8,
                a: None,
                t: None,
            };
            let (_, alpha, found) = case.run_with(PRODUCT, x);
            assert!(alpha.iter().all(|&a| a == 0.0 || a == 1.0));
            let scores = found.q.iter().chain(&*found.k);
            assert!(scores.copied().all(|g| g == 0.0), "{heads} heads, {p}");
        }
    }
}

#[test]
fn the_adjoints_of_gat_are_differences() {
    for (n, m, nnz) in [(6, 6, 20), (4, 7, 15), (1, 1, 1), (3, 2, 0), (0, 2, 0)] {
        for (heads, d) in [(1, 64), (8, 8), (2, 3), (2, 0), (0, 2)] {
            for p in [0.0, 0.5] {
                for mut case in case(n, m, nnz, heads, d, p).both() {
                    let (_, _, got) = case.run(case.gat());
                    let loss = |c: &Case| inner(&c.naive_gat().0, &c.gy);
                    close(&got.v, &differences(&mut case, |c| &mut c.zs, loss), 1e-8);
                    let by_s_src = differences(&mut case, |c| &mut c.s_src, loss);
                    close(&got.k, &by_s_src, 1e-8);
                    let by_s_tgt = differences(&mut case, |c| &mut c.s_tgt, loss);
                    close(&got.q, &by_s_tgt, 1e-8);
                    close(&got.t, &by_temperature(&mut case, loss), 1e-8);
                }
            }
        }
    }
}

/// One number per end and head, of a score whose derivatives by the two ends differ, unlike those of GAT.
#[test]
fn the_two_ends_of_an_edge_are_not_confused() {
    for (n, m, nnz) in [(6, 6, 20), (4, 7, 15)] {
        for heads in [1, 2, 3, 8, 15] {
            for mut case in case(n, m, nnz, heads, 2, 0.0).both() {
                let (_, _, got) = case.run_with(SQUARE, case.gat());
                let loss = |c: &Case| inner(&c.attention().forward(c.gat(), SQUARE.value).0, &c.gy);
                let by_source = differences(&mut case, |c| &mut c.s_src, loss);
                close(&got.k, &by_source, 1e-8);
                let by_target = differences(&mut case, |c| &mut c.s_tgt, loss);
                close(&got.q, &by_target, 1e-8);
            }
        }
    }
}

#[test]
fn the_adjoints_of_gatv2_are_differences() {
    for (n, m, nnz) in [(6, 6, 20), (4, 7, 15), (1, 1, 1), (3, 2, 0), (0, 2, 0)] {
        for (heads, d) in [(1, 34), (5, 8), (2, 3), (2, 0), (0, 2)] {
            for p in [0.0, 0.5] {
                for mut case in case(n, m, nnz, heads, d, p).both() {
                    let (_, _, got) = case.run(case.gatv2());
                    let loss = |c: &Case| inner(&c.naive_gatv2().0, &c.gy);
                    close(&got.v, &differences(&mut case, |c| &mut c.zs, loss), 1e-8);
                    close(&got.q, &differences(&mut case, |c| &mut c.zt, loss), 1e-8);
                    close(&got.a, &differences(&mut case, |c| &mut c.a, loss), 1e-8);
                    close(&got.t, &by_temperature(&mut case, loss), 1e-8);
                }
            }
        }
    }
}

#[test]
fn a_temperature_of_one_gives_the_bits_of_none() {
    for (heads, d) in SIZES {
        for p in [0.0, 0.6] {
            let mut case = case(40, 40, 300, heads, d, p);
            let run = |case: &Case| {
                let all = [case.gat(), case.gatv2(), case.shared()].map(|x| {
                    let (y, alpha, g) = case.run(x);
                    [&y, &alpha, &g.v, &g.k, &g.q, &g.a].map(bits)
                });
                all.concat()
            };
            let without = run(&case);
            case.t = Some(vec![1.0; 40 * heads]);
            assert_eq!(run(&case), without, "{heads} heads of {d}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    for (heads, d) in [(1, 64), (8, 8), (3, 7)] {
        let case = case(300, 300, 3000, heads, d, 0.6);
        let [plain, with_t] = case.clone().both();
        for case in [plain, with_t, case.mirrored()] {
            let run = |threads| {
                par::with_threads(threads, || {
                    let all = [case.gat(), case.gatv2(), case.shared()].map(|x| {
                        let (y, alpha, g) = case.run(x);
                        [&y, &alpha, &g.v, &g.k, &g.q, &g.a, &g.t].map(bits)
                    });
                    all.concat()
                })
            };
            let one = run(1);
            for threads in [2, 3] {
                assert_eq!(
                    run(threads),
                    one,
                    "{heads} heads of {d} on {threads} threads"
                );
            }
        }
    }
}

#[test]
#[should_panic(expected = "edge attention: t must have shape [5, 2]")]
fn the_temperature_must_have_a_number_per_target_and_head() {
    let case = case(5, 5, 10, 2, 3, 0.0);
    let x = Operands {
        t: Some(&[1.0; 5]),
        ..case.gat()
    };
    case.attention().forward(x, leaky_sum);
}

#[test]
#[should_panic(expected = "edge attention: q must have shape [5, 2, 3]")]
fn sizes_must_agree() {
    let case = case(5, 5, 10, 2, 3, 0.0);
    let x = Operands {
        q: Some(&[0.0; 3]),
        ..case.gatv2()
    };
    case.attention().forward(x, leaky_sum);
}

/// The scores are summed in lanes of sixteen: what fills the last of them up is not data, and f never sees
/// it.
#[test]
fn the_score_sees_nothing_but_data() {
    for d in [9, 16, 20, 33] {
        let pattern = Pattern::from_pairs(2, 2, &[(0, 0), (0, 1), (1, 1)]).unwrap();
        let attention = Attention {
            pattern: &pattern,
            heads: 1,
            width: d,
            dropout: DropMask::NONE,
        };
        let v = vec![1.5; 2 * d];
        let x = Operands {
            v: &v,
            k: None,
            q: None,
            width: d,
            a: None,
            t: None,
        };
        attention.forward(x, |k: f64, q: f64| {
            assert_eq!((k, q), (1.5, 1.5), "d = {d}");
            k * q
        });
    }
}
