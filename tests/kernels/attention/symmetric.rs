//! Attention whose queries are its keys.

use crate::support::{bits, close, data};
use emmy::kernels::attention::dense::{Dense, DenseMask, Operands, Outcome};
use emmy::kernels::attention::symmetric::*;
use emmy::kernels::par;
use emmy::kernels::random::DropMask;
use emmy::sparse::Pattern;
use std::sync::Arc;

const N: usize = 600;

/// Several tiles, the last ones not full; two items.
fn case(except: Option<&Pattern>) -> Symmetric<'_, f64> {
    Symmetric {
        batch: 2,
        rows: N,
        width: 5,
        value_width: 3,
        scale: 0.7,
        except,
    }
}

fn around() -> Arc<Pattern> {
    let ring = (0..N).flat_map(|i| [(i, i), (i, (i + 1) % N), ((i + 1) % N, i)]);
    Pattern::from_pairs(N, N, &ring.collect::<Vec<_>>()).unwrap()
}

fn run(kernel: &Symmetric<'_, f64>, u: &[f64], z: &[f64], gy: &[f64]) -> [Vec<f64>; 3] {
    let weights = kernel.weights(u).unwrap();
    let (y, d) = kernel.forward(u, z, &weights);
    let [gu, gz] = kernel.backward([u, z], &weights, [&y, &d, gy]);
    [y, gu, gz].map(|x| x.to_vec())
}

#[test]
fn it_is_attention_between_all_pairs() {
    let (u, z, gy) = (data(2 * N * 5, 1), data(2 * N * 3, 2), data(2 * N * 3, 3));
    let ring = around();
    for except in [None, Some(&*ring)] {
        let [y, gu, gz] = run(&case(except), &u, &z, &gy);
        let dense = Dense {
            batch: 2,
            queries: N,
            keys: N,
            heads: 1,
            groups: 1,
            width: 5,
            value_width: 3,
            scale: 0.7,
            mask: DenseMask {
                except,
                ..DenseMask::default()
            },
            dropout: DropMask::NONE,
        };
        let x = Operands {
            q: &u,
            k: &u,
            v: &z,
            beta: None,
            t: None,
        };
        let (expected, lse) = dense.forward(&x);
        let outcome = Outcome {
            y: &expected,
            lse: &lse,
            gy: &gy,
            glse: None,
        };
        let g = dense.backward(&x, &outcome);
        close(&y, &expected, 1e-13);
        let both: Vec<f64> = g.q.iter().zip(g.k.iter()).map(|(q, k)| q + k).collect();
        close(&gu, &both, 1e-12);
        close(&gz, &g.v, 1e-13);
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    // Of the second kernel, the threads share the rows of the sums too.
    let large = Symmetric {
        batch: 1,
        rows: 1200,
        width: 40,
        value_width: 40,
        ..case(None)
    };
    for kernel in [case(None), large] {
        let of = |width, seed| data(kernel.batch * kernel.rows * width, seed);
        let (u, z) = (of(kernel.width, 1), of(kernel.value_width, 2));
        let gy = of(kernel.value_width, 3);
        let all = || bits(run(&kernel, &u, &z, &gy).concat().iter());
        let one = par::with_threads(1, all);
        for threads in 2..=4 {
            let other = par::with_threads(threads, all);
            assert!(other == one, "{threads} threads, {} rows", kernel.rows);
        }
    }
}

/// Where the sizes of rows leave the weights nothing, or there is a NaN, the kernel does not serve.
#[test]
fn it_says_where_it_does_not_serve() {
    let kernel = |except| Symmetric::<f32> {
        batch: 1,
        rows: 2,
        width: 1,
        value_width: 1,
        scale: 1.0,
        except,
    };
    assert!(kernel(None).weights(&[100.0, 100.0]).is_some());
    assert!(kernel(None).weights(&[100.0, 0.0]).is_none());
    assert!(kernel(None).weights(&[f32::NAN, 0.0]).is_none());
    let none = Pattern::from_pairs(2, 2, &[]).unwrap();
    assert!(kernel(Some(&none)).weights(&[100.0, 100.0]).is_none());
}
