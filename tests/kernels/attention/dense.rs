//! Attention of all queries to all keys, tile by tile.

use crate::support::{bits, data};
use emmy::kernels::attention::dense::{Dense, DenseMask, Operands, Outcome};
use emmy::kernels::par;
use emmy::kernels::random::DropMask;

/// Several tiles of queries and of keys, the last ones not full, with every option.
fn case(allowed: &[bool]) -> Dense<'_, f64> {
    Dense {
        batch: 2,
        queries: 300,
        keys: 600,
        heads: 4,
        groups: 2,
        width: 3,
        value_width: 5,
        scale: 0.7,
        mask: DenseMask {
            causal: true,
            lengths: Some(&[599, 460]),
            allowed: Some(allowed),
            except: None,
        },
        dropout: DropMask::new(0.3, 9),
    }
}

fn all(attention: &Dense<'_, f64>) -> Vec<u64> {
    let [b, n, m] = [attention.batch, attention.queries, attention.keys];
    let [h, g] = [attention.heads, attention.groups];
    let (q, k) = (data(b * n * h * 3, 1), data(b * m * g * 3, 2));
    let (v, gy) = (data(b * m * g * 5, 3), data(b * n * h * 5, 4));
    let (beta, t) = (data(b * m * g, 5), data(b * n * h, 6));
    let glse = data(b * n * h, 7);
    let x = Operands {
        q: &q,
        k: &k,
        v: &v,
        beta: Some(&beta),
        t: Some(&t),
    };
    let (y, lse) = attention.forward(&x);
    let out = Outcome {
        y: &y,
        lse: &lse,
        gy: &gy,
        glse: Some(&glse),
    };
    let back = attention.backward(&x, &out);
    let parts = [
        &y[..],
        &lse.rounded,
        &back.q,
        &back.k,
        &back.v,
        &back.beta,
        &back.t,
    ];
    bits(parts.concat().iter())
}

#[test]
fn bits_do_not_depend_on_threads() {
    let allowed: Vec<bool> = (0..300_usize * 600).map(|k| k * k % 7 > 1).collect();
    let attention = case(&allowed);
    let one = par::with_threads(1, || all(&attention));
    for threads in 2..=4 {
        let several = par::with_threads(threads, || all(&attention));
        assert_eq!(several, one, "{threads} threads");
    }
}

/// Where scores grow from tile to tile, the running maximum changes in each, and the output of the tiles
/// before is rescaled to nothing.
#[test]
fn the_maximum_may_come_last() {
    // Three tiles.
    let keys = 3 * 256;
    let attention = Dense {
        batch: 1,
        queries: 1,
        keys,
        heads: 1,
        groups: 1,
        width: 1,
        value_width: 1,
        scale: 1.0_f32,
        mask: DenseMask::default(),
        dropout: DropMask::NONE,
    };
    let k: Vec<f32> = (0..keys).map(|j| j as f32).collect();
    let x = Operands {
        q: &[1.0],
        k: &k,
        v: &k,
        beta: None,
        t: None,
    };
    let (y, lse) = attention.forward(&x);
    let r = (-1.0_f64).exp();
    let (last, total) = ((keys - 1) as f64, 1.0 / (1.0 - r));
    assert!((f64::from(lse.rounded[0]) - last - total.ln()).abs() < 1e-4);
    assert!((f64::from(y[0]) - (last - r / (1.0 - r))).abs() < 1e-3);
}
