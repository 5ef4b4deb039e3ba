//! Dense attention over several tiles of queries and keys is the composition of smaller operations, forward
//! and backward, with every option. The registry has cases of a few tokens, which are one tile.

use emmy::autodiff::vjp;
use emmy::init;
use emmy::ops::attention::{DenseAttention, Mask, Qkv};
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, Var};

const ITEMS: usize = 2;
const QUERIES: usize = 300;
const KEYS: usize = 600;
const HEADS: usize = 4;
const GROUPS: usize = 2;
const WIDTH: usize = 3;
const DROPOUT: (f64, u64) = (0.3, 9);

/// q, k, v, β, t, and a cotangent of the output.
fn data() -> [Tensor<f64>; 6] {
    let rng = &mut init::rng(1);
    let shapes: [&[usize]; 6] = [
        &[ITEMS, QUERIES, HEADS, WIDTH],
        &[ITEMS, KEYS, GROUPS, WIDTH],
        &[ITEMS, KEYS, GROUPS, WIDTH],
        &[ITEMS, KEYS, GROUPS],
        &[ITEMS, QUERIES, HEADS],
        &[ITEMS, QUERIES, HEADS, WIDTH],
    ];
    shapes.map(|shape| init::normal(shape, 1.0, rng))
}

/// softmax, dropout, product with the values of the head's group.
fn composed<'t>(attention: &DenseAttention, x: Qkv<'t, f64>) -> Var<'t, f64> {
    let v = x.v.permute(&[0, 2, 1, 3]);
    let alpha = attention.attention_coefficients(x);
    let alpha = match attention.dropout {
        Some((p, seed)) => alpha.dropout(p, seed),
        None => alpha,
    };
    let share = HEADS / GROUPS;
    let heads = (0..HEADS).map(|h| {
        let own = alpha.slice(1, h..h + 1);
        own.matmul(v.slice(1, h / share..h / share + 1))
    });
    let heads: Vec<_> = heads.collect();
    Var::concat(&heads, 1).permute(&[0, 2, 1, 3])
}

#[test]
fn dense_attention_over_several_tiles_is_its_composition() {
    let keep = (0..QUERIES * KEYS).map(|k| k * k % 7 > 1).collect();
    let masks = [
        Mask::none(),
        Mask::lengths(&[599, 460]),
        Mask::causal().with_allowed(tensor(&[QUERIES, KEYS], keep)),
    ];
    for mask in masks {
        for dropout in [None, Some(DROPOUT)] {
            let what = format!("{mask:?}").chars().take(60).collect::<String>();
            let attention = DenseAttention {
                scale: 0.7,
                mask: mask.clone(),
                dropout,
            };
            let [q, k, v, beta, t, c] = data();
            let run = |fused: bool| {
                let tape = Tape::new();
                let xs = [&q, &k, &v, &beta, &t].map(|x| tape.var(x));
                let x = Qkv {
                    beta: Some(xs[3]),
                    t: Some(xs[4]),
                    ..Qkv::new(xs[0], xs[1], xs[2])
                };
                let y = match fused {
                    true => attention.attend(x),
                    false => composed(&attention, x),
                };
                [vec![y.value()], vjp(y, &xs, &c)].concat()
            };
            for (k, (found, expected)) in run(true).iter().zip(&run(false)).enumerate() {
                let size = expected.iter().fold(1.0_f64, |m, x| m.max(x.abs()));
                let off = (found - expected).fold(0.0_f64, |m, x| m.max(x.abs()));
                assert!(
                    off <= 1e-11 * size,
                    "{what}, {dropout:?}, result {k}: {off:e}"
                );
            }
        }
    }
}
