//! The words behind masks of dropout are as good as random, by a suite of statistics that weak hashes fail.
//!
//! A statistic is a deviation from what independent uniform words have, in standard deviations. The suite has
//! some eight thousand of them, and of so many true ones none exceeds 6 but with probability 2 · 10⁻⁵.

use emmy::kernels::random::bits;

/// Word i of stream `seed`.
type Words<'a> = &'a dyn Fn(u64, u64) -> u32;

/// Deviations with their names.
type Deviations = Vec<(String, f64)>;

const SEEDS: [u64; 4] = [0, 1, 1 << 40, 0x0123_4567_89ab_cdef];

/// The number of words of a statistic.
const N: u64 = 1 << 15;

/// A part of the suite.
type Part = fn(Words) -> Deviations;

/// All parts.
const PARTS: [(&str, Part); 8] = [
    ("moments", moments),
    ("bits", ones),
    ("runs", runs),
    ("series", series),
    ("triples", triples),
    ("lanes", lanes),
    ("seeds", seeds),
    ("avalanche", avalanche),
];

/// A uniform number with mean 0.
fn centred(word: u32) -> f64 {
    (f64::from(word) + 0.5) / 4_294_967_296.0 - 0.5
}

/// So many of `n` that have a probability of one half.
fn half(count: u64, n: u64) -> f64 {
    (2.0 * count as f64 - n as f64) / (n as f64).sqrt()
}

/// Σₖ xₖ yₖ of centred words, whose products have variance 1/144.
fn correlation(pairs: impl Iterator<Item = (u32, u32)>) -> f64 {
    let (mut sum, mut n) = (0.0, 0.0_f64);
    for (x, y) in pairs {
        sum += centred(x) * centred(y);
        n += 1.0;
    }
    12.0 * sum / n.sqrt()
}

/// χ² of counts that should be in proportion to `shares`, as a deviation from its mean.
fn chi_squared(counts: &[u64], shares: impl Fn(usize) -> f64) -> f64 {
    let n = counts.iter().sum::<u64>() as f64;
    let term =
        |(k, &count): (usize, &u64)| (count as f64 - n * shares(k)).powi(2) / (n * shares(k));
    let freedom = (counts.len() - 1) as f64;
    (counts.iter().enumerate().map(term).sum::<f64>() - freedom) / (2.0 * freedom).sqrt()
}

/// Mean and variance.
fn moments(words: Words) -> Deviations {
    let mut out = Vec::new();
    for seed in SEEDS {
        let (mut first, mut second) = (0.0, 0.0);
        for i in 0..N {
            let x = centred(words(seed, i));
            first += x;
            second += x * x - 1.0 / 12.0;
        }
        let n = (N as f64).sqrt();
        out.push((format!("mean of {seed}"), first / n * 12.0_f64.sqrt()));
        out.push((format!("variance of {seed}"), second / n * 180.0_f64.sqrt()));
    }
    out
}

/// Every bit is one as often as zero, and every two bits of a word are equal as often as not.
fn ones(words: Words) -> Deviations {
    let mut out = Vec::new();
    for seed in SEEDS {
        let all: Vec<_> = (0..N).map(|i| words(seed, i)).collect();
        for b in 0..32 {
            let count = all.iter().filter(|x| *x >> b & 1 == 1).count();
            out.push((format!("bit {b} of {seed}"), half(count as u64, N)));
            for c in b + 1..32 {
                let count = all.iter().filter(|x| (*x >> b ^ *x >> c) & 1 == 1).count();
                let name = format!("bits {b} and {c} of {seed}");
                out.push((name, half(count as u64, N)));
            }
        }
    }
    out
}

/// Runs of equal bits: a run has length l with probability 2⁻ˡ.
fn runs(words: Words) -> Deviations {
    const LONGEST: usize = 8;
    let mut out = Vec::new();
    for seed in SEEDS {
        for b in 0..32 {
            let (mut counts, mut length, mut last) = ([0; LONGEST], 0, words(seed, 0) >> b & 1);
            for i in 0..N {
                let bit = words(seed, i) >> b & 1;
                if bit == last {
                    length += 1;
                } else {
                    counts[length.min(LONGEST) - 1] += 1;
                    (length, last) = (1, bit);
                }
            }
            let share = |k: usize| 0.5_f64.powi((k + 1).min(LONGEST - 1) as i32);
            let name = format!("runs of bit {b} of {seed}");
            out.push((name, chi_squared(&counts, share)));
        }
    }
    out
}

/// Words and bits do not depend on those some places before.
fn series(words: Words) -> Deviations {
    let mut out = Vec::new();
    for seed in SEEDS {
        for lag in [1, 2, 3, 4, 7, 8, 16, 31, 64, 1433, 4096] {
            let pairs = (0..N).map(|i| (words(seed, i), words(seed, i + lag)));
            out.push((format!("lag {lag} of {seed}"), correlation(pairs)));
        }
    }
    out
}

/// Three words after one another fill a cube evenly: the four highest bits of each.
fn triples(words: Words) -> Deviations {
    let mut out = Vec::new();
    for seed in SEEDS {
        let mut counts = vec![0; 1 << 12];
        for i in 0..2 * N {
            let cell = (0..3).fold(0, |cell, k| cell << 4 | words(seed, 3 * i + k) >> 28);
            counts[cell as usize] += 1;
        }
        let deviation = chi_squared(&counts, |_| 1.0 / 4096.0);
        out.push((format!("triples of {seed}"), deviation));
    }
    out
}

/// The sixteen lanes of a vector are uncorrelated, also between neighbouring vectors.
fn lanes(words: Words) -> Deviations {
    let mut out = Vec::new();
    for a in 0..16 {
        for b in a + 1..32 {
            let pairs = (0..N / 4).map(|i| (words(7, 16 * i + a), words(7, 16 * i + b)));
            out.push((format!("lanes {a} and {b}"), correlation(pairs)));
        }
    }
    out
}

/// Streams of neighbouring seeds are uncorrelated, word by word and with the neighbours of a word.
fn seeds(words: Words) -> Deviations {
    let mut out = Vec::new();
    for seed in SEEDS {
        let flips = (0..64).map(|bit| seed ^ 1 << bit);
        for other in flips.chain([seed.wrapping_add(1), seed.wrapping_sub(1), !seed]) {
            for change in [0, 1, 2, 3] {
                let pairs = (0..N / 4).map(|i| (words(seed, i), words(other, i ^ change)));
                let name = format!("seeds {seed} and {other} at counters i and i ^ {change}");
                out.push((name, correlation(pairs)));
            }
        }
    }
    out
}

/// A changed bit of the counter or of the seed changes every bit of the word with probability one half.
fn avalanche(words: Words) -> Deviations {
    let mut out = Vec::new();
    for bit in 0..128 {
        // Most of all the lower half of the counter, which the rounds alone mix.
        let times: u64 = if bit < 32 { 1 << 16 } else { 1 << 12 };
        let mut counts = [0; 32];
        for k in 0..times {
            let (seed, i) = (5 + k / 1024, k.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
            let (seed, i) = if bit < 64 { (seed, i) } else { (i, seed) };
            let other = match bit {
                0..64 => words(seed, i ^ 1 << bit),
                _ => words(seed ^ 1 << (bit - 64), i),
            };
            let change = words(seed, i) ^ other;
            for (b, count) in counts.iter_mut().enumerate() {
                *count += u64::from(change >> b & 1);
            }
        }
        for (b, count) in counts.into_iter().enumerate() {
            let of = if bit < 64 { "counter" } else { "seed" };
            let name = format!("bit {b} by bit {} of the {of}", bit % 64);
            out.push((name, half(count, times)));
        }
    }
    out
}

/// The largest deviation of a part.
fn largest(deviations: Deviations) -> (String, f64) {
    let larger = |a: (String, f64), b: (String, f64)| if b.1.abs() > a.1.abs() { b } else { a };
    deviations.into_iter().reduce(larger).expect("a deviation")
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn words_pass_the_suite() {
    for (part, of) in PARTS {
        let (what, deviation) = largest(of(&bits));
        assert!(
            deviation.abs() < 6.0,
            "{part}: {what}: {deviation} deviations"
        );
    }
}

/// Two rounds of the hash, where there are three; with the key before each.
fn two_rounds(seed: u64, i: u64) -> u32 {
    let key = u64::from(bits(seed, i >> 32 << 32)) << 32 | u64::from(bits(!seed, i >> 32 << 32));
    let mut x = i as u32 ^ key as u32;
    x = (x ^ (x >> 17)).wrapping_mul(0xed5a_d4bb);
    x = (x ^ (x >> 11)).wrapping_add((key >> 32) as u32);
    x = x.wrapping_mul(0xac4c_1b51);
    x ^ (x >> 15)
}

/// The high half of a congruential generator modulo 2⁶⁴, Knuth's, that starts at the seed.
fn congruential(seed: u64, i: u64) -> u32 {
    let x = seed ^ i.wrapping_mul(0x5851_f42d_4c95_7f2d);
    (x.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 32) as u32
}

/// Generators with a fault, and parts of the suite that find it.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn weak_words_fail_the_suite() {
    let weak: [(&str, Words, &[&str]); 7] = [
        ("two rounds", &two_rounds, &["avalanche"]),
        (
            "congruential",
            &congruential,
            &["runs", "series", "triples", "lanes", "seeds", "avalanche"],
        ),
        (
            "mean too large",
            &|s, i| bits(s, i) | bits(!s, i) & bits(s, !i) >> 2,
            &["moments", "bits"],
        ),
        (
            "a bit copied",
            &|s, i| bits(s, i) & !2 | bits(s, i) >> 30 & 2,
            &["bits"],
        ),
        ("the seed not mixed", &|s, i| bits(0, i ^ s), &["seeds"]),
        (
            "the upper half of the counter ignored",
            &|s, i| bits(s, i & 0xffff_ffff),
            &["avalanche"],
        ),
        (
            "one word in eight repeated",
            &|s, i| bits(s, i - u64::from(i % 8 == 7)),
            &["series", "triples", "lanes"],
        ),
    ];
    for (name, words, parts) in weak {
        for (part, of) in PARTS.iter().filter(|(part, _)| parts.contains(part)) {
            let (what, deviation) = largest(of(words));
            assert!(
                deviation.abs() > 12.0,
                "{name}: {part}: at most {deviation} deviations, {what}"
            );
            print!("{name} {part} {deviation:.1}; ");
        }
    }
}
