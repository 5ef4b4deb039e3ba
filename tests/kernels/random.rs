//! Masks of dropout: as random as they should be, and the same however they are cut.

use emmy::kernels::par;
use emmy::kernels::random::{DropMask, dropout};
use emmy::nn::{Activation, Mlp, Pass};
use emmy::tensor::{contiguous, tensor};
use emmy::{Tape, init};
use proptest::prelude::*;

/// The share of kept elements among `n` from `first`.
fn kept(dropout: DropMask, first: usize, n: usize) -> Vec<bool> {
    let mut out = vec![0.0; n];
    dropout.apply(&vec![1.0_f64; n], first, &mut out);
    out.into_iter().map(|x| x != 0.0).collect()
}

/// The correlation coefficient of two masks of keep probability q, in standard deviations of that of
/// independent masks.
fn correlation(a: &[bool], b: &[bool], q: f64) -> f64 {
    let n = a.len() as f64;
    let centred = |x: bool| f64::from(u8::from(x)) - q;
    let sum: f64 = a
        .iter()
        .zip(b)
        .map(|(&a, &b)| centred(a) * centred(b))
        .sum();
    sum / (n.sqrt() * q * (1.0 - q))
}

/// The first numbers of SplitMix64 from 1234567, as its authors' code gives them: the seeds that a pass
/// draws.
#[test]
fn numbers_are_those_of_splitmix64() {
    let known = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
    ];
    let (tape, net) = (
        Tape::<f64>::new(),
        Mlp::new(&[1, 1], Activation::Relu, true, &mut init::rng(0)),
    );
    let pass = Pass::train(&tape, &net, 1_234_567);
    assert_eq!([0, 1, 2].map(|_| pass.draw()), known.map(Some));
}

#[test]
fn as_many_are_dropped_as_asked_for() {
    let n = 200_000;
    for (k, p) in [0.0, 0.1, 0.5, 0.6, 0.97, 1.0].into_iter().enumerate() {
        let mask = kept(DropMask::new(p, k as u64), 12_345, n);
        let count = mask.iter().filter(|k| **k).count() as f64;
        let deviation = (n as f64 * p * (1.0 - p)).sqrt();
        assert!(
            (count - n as f64 * (1.0 - p)).abs() <= 4.0 * deviation,
            "p = {p}: {count} kept"
        );
    }
}

#[test]
fn elements_and_seeds_are_uncorrelated() {
    let n = 50_000;
    for p in [0.1, 0.5, 0.6] {
        for seed in [0, 1, 2, 1 << 32, u64::MAX] {
            let mask = kept(DropMask::new(p, seed), 0, n + 5000);
            for lag in [1, 2, 3, 4, 8, 15, 16, 64, 1433, 4096] {
                let z = correlation(&mask[..n], &mask[lag..lag + n], 1.0 - p);
                assert!(
                    z.abs() < 4.5,
                    "p {p}, seed {seed}, lag {lag}: {z} deviations"
                );
            }
            for other in [seed ^ 1, seed ^ 2, seed.wrapping_add(1 << 33), !seed] {
                let second = kept(DropMask::new(p, other), 0, n);
                let z = correlation(&mask[..n], &second, 1.0 - p);
                assert!(
                    z.abs() < 4.5,
                    "p {p}, seeds {seed} and {other}: {z} deviations"
                );
            }
        }
    }
}

#[test]
fn every_bit_of_the_index_changes_half_of_a_mask() {
    let drop = DropMask::new(0.5, 7);
    let is_kept = |i: u32| drop.factor::<f32>(i as usize) != 0.0;
    for bit in 0..32 {
        let indices = (0..16_384_u32).map(|i| i.wrapping_mul(0x9e37_79b1));
        let flips = indices
            .filter(|i| is_kept(*i) != is_kept(i ^ 1 << bit))
            .count();
        // 8192 ± 6 deviations of 64.
        assert!((7808..8576).contains(&flips), "bit {bit}: {flips}");
    }
}

#[test]
fn the_upper_half_of_the_index_counts() {
    let drop = DropMask::new(0.5, 3);
    let edge = u32::MAX as usize - 1000;
    let across = kept(drop, edge, 3000);
    for (k, &kept) in across.iter().enumerate() {
        assert_eq!(kept, drop.factor::<f32>(edge + k) != 0.0);
    }
    let n = 100_000;
    let z = correlation(&kept(drop, 0, n), &kept(drop, 1 << 32, n), 0.5);
    assert!(z.abs() < 4.5, "{z} deviations");
}

proptest! {
    #[test]
    fn a_mask_can_be_made_in_parts(p in 0.0..=1.0_f64, seed: u64, cut in 0_usize..300) {
        let drop = DropMask::new(p, seed);
        let whole = kept(drop, 40, 300);
        prop_assert_eq!(&kept(drop, 40 + cut, 300 - cut), &whole[cut..]);
        let ones = tensor(&[300], vec![1.0_f32; 300]);
        for (k, &y) in dropout(&ones, p, seed).iter().enumerate() {
            prop_assert_eq!(y, drop.factor::<f32>(k));
        }
    }
}

#[test]
fn transposes_are_numbered_row_by_row() {
    let x = tensor(&[30, 20], (1..=600).map(f64::from).collect());
    let plain = dropout(&contiguous(&x.clone().reversed_axes()), 0.4, 1);
    assert_eq!(dropout(&x.reversed_axes(), 0.4, 1), plain);
}

#[test]
fn masks_do_not_depend_on_threads() {
    let x = tensor(&[200_000], vec![1.0_f32; 200_000]);
    let run = |n| par::with_threads(n, || dropout(&x, 0.6, 9));
    let one = run(1);
    for n in 2..=4 {
        assert_eq!(run(n), one);
    }
}

#[test]
#[should_panic(expected = "dropout: the probability 1.5 is not within 0 ≤ p ≤ 1")]
fn probabilities_are_checked() {
    DropMask::new(1.5, 0);
}
