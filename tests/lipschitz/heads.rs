//! The linear maps around attention: their bound does not depend on the basis of the values of a head.

use super::support::{cases, near, tokens};
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, bound};
use emmy::nn::{AttentionConfig, MultiHeadAttention, Pass};
use emmy::ops::attention::Mask;
use emmy::{Tape, init};

type Attention = MultiHeadAttention<f64>;

const WIDTH: usize = 4;
const RADIUS: f64 = 1.5;

fn layer(heads: usize, seed: u64) -> Attention {
    MultiHeadAttention::new(AttentionConfig::new(WIDTH, heads), &mut init::rng(seed)).unwrap()
}

/// The bound on limited rows, as a certified number and as a variable.
fn bounds(f: &Attention) -> [f64; 2] {
    let tape = Tape::new();
    let x = tape.var(tokens(3, WIDTH, 0));
    let y = f.forward(&Pass::eval(&tape, f), x, &Mask::none());
    let bound = bound(y, x, Lp::Two, Domain::Rows(RADIUS)).unwrap();
    [bound.upper().get(), bound.var().unwrap().item()]
}

/// v → g v and W_O → W_O g⁻¹ for a diagonal g that stretches one value of a head by 10 and another by 0.1:
/// the product of the norms of both maps becomes larger, and the bound stays.
#[test]
fn a_basis_of_the_values_changes_nothing() {
    for seed in cases(4) {
        for heads in [1, 2] {
            let mut f = layer(heads, seed);
            let before = bounds(&f);
            near(before[1], before[0], 1e-6);
            for (row, factor) in [(0, 10.0), (1, 0.1)] {
                for column in 0..WIDTH {
                    f.value.weight[[row, column]] *= factor;
                    f.output.weight[[column, row]] /= factor;
                }
            }
            let after = bounds(&f);
            near(after[0], before[0], 1e-9);
            near(after[1], after[0], 1e-6);
        }
    }
}

/// No input with such rows that ascent finds has a larger Jacobian. With large values and small scores it
/// comes near.
#[test]
fn ascent_does_not_exceed_the_bound() {
    for seed in cases(3) {
        for (heads, scores) in [(1, 0.01), (2, 0.01), (2, 3.0)] {
            let mut f = layer(heads, seed);
            f.query.weight *= scores;
            let search = Ascent {
                steps: 60,
                rate: 0.1,
                radius: Some(RADIUS),
                ..Ascent::new(Objective::Two, seed)
            };
            let starts = (0..3).map(|k| tokens(3, WIDTH, 10 * seed + k)).collect();
            let found = search.from(starts, |x| {
                f.forward(&Pass::eval(x.tape(), &f), x, &Mask::none())
            });
            let [proven, _] = bounds(&f);
            let found = found.lower.get();
            assert!(
                found <= proven,
                "{heads} heads: {found} found, {proven} proven"
            );
            if scores < 0.1 {
                assert!(
                    0.2 * proven < found,
                    "{heads} heads: {found} found, {proven} proven"
                );
            }
        }
    }
}
