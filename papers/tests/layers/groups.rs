//! Measures of labelled groups: distances, information.

use super::support::{cases, near, rotation, rows, tensor};
use emmy::autodiff::{check_grads, grad};
use emmy::ndarray::{Array2, Axis};
use emmy::{Tape, Tensor};
use papers::groups::{group_distances, information_gain};

/// The group distances by plain loops over pairs, as in the published code; the ratio is at least 1.
#[test]
fn distances_of_groups() {
    for seed in cases(30) {
        let n = 6 + seed as usize % 8;
        let h = rows(n, 3, 1.0, seed);
        let labels: Vec<usize> = (0..n).map(|i| [0, 2, 5][i * i % 3]).collect();
        let unit = |i: usize| &h.row(i) / h.row(i).dot(&h.row(i)).sqrt();
        let mean = |a: usize, b: usize| {
            let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
            let pairs = pairs.filter(|&(i, j)| labels[i] == a && labels[j] == b);
            let all: Vec<f64> = pairs
                .map(|(i, j)| (unit(i) - unit(j)).mapv(|x| x * x).sum())
                .collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let mut classes = labels.clone();
        classes.sort_unstable();
        classes.dedup();
        let count = classes.len();
        let within = classes.iter().map(|&c| mean(c, c)).sum::<f64>() / count as f64;
        let pairs = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j)));
        let pairs: Vec<f64> = pairs.map(|(i, j)| mean(classes[i], classes[j])).collect();
        let between = pairs.iter().sum::<f64>() / pairs.len() as f64;
        let tape = Tape::new();
        let found = group_distances(tape.constant(tensor(&h)), &labels);
        near(found.within.item(), within, 1e-11);
        near(found.between.item(), between, 1e-11);
        near(found.ratio().item(), between / within, 1e-11);
        assert!(between >= within);
    }
    let tape = Tape::new();
    let equal = group_distances(tape.constant(tensor(&Array2::ones((4, 2)))), &[0, 0, 1, 1]);
    assert!(equal.ratio().item().is_nan());
}

/// The information gain by plain loops with the estimator as published, whose constants cancel; at most the
/// entropy of the groups, and 0 where all outputs are one.
#[test]
fn the_gain_of_information() {
    let entropy = |x: &Array2<f64>, variance: f64| {
        // `entropy_estimator_bd` of the published code: that of 4σ², plus ln(¼) d/2.
        let (n, d) = (x.nrows() as f64, x.ncols() as f64);
        let (wide, mut sum) = (4.0 * variance, 0.0);
        for a in x.outer_iter() {
            let kernel = x.outer_iter().map(|b| {
                let distance = (&a - &b).mapv(|x| x * x).sum();
                (-distance / (2.0 * wide)).exp()
            });
            sum += (kernel.sum::<f64>() / n).ln() - d / 2.0 * (std::f64::consts::TAU * wide).ln();
        }
        d / 2.0 - sum / n + 0.25f64.ln() * d / 2.0
    };
    for seed in cases(3) {
        // More rows than are computed at a time.
        let n = 10 + 130 * (seed as usize % 3);
        let (x, h) = (rows(n, 4, 1.0, seed), rows(n, 3, 1.0, seed + 60));
        let unit =
            Array2::from_shape_fn((n, 4), |(i, k)| x[[i, k]] / x.row(i).dot(&x.row(i)).sqrt());
        let group = |i: usize| {
            (0..3)
                .max_by(|&a, &b| h[[i, a]].total_cmp(&h[[i, b]]))
                .unwrap()
        };
        let (mut expected, mut bound) = (entropy(&unit, 0.1), 0.0);
        for c in 0..3 {
            let members: Vec<usize> = (0..n).filter(|&i| group(i) == c).collect();
            let share = members.len() as f64 / n as f64;
            if share > 0.0 {
                expected -= share * entropy(&unit.select(Axis(0), &members), 0.1);
                bound -= share * share.log2();
            }
        }
        let found = information_gain(&tensor(&x), &tensor(&h), 0.1);
        assert!(
            (found - expected / std::f64::consts::LN_2).abs() < 1e-9,
            "{found} {expected}"
        );
        assert!(found <= bound + 1e-12);
    }
    let x = tensor(&rows(8, 4, 1.0, 1));
    assert_eq!(
        information_gain(&x, &tensor(&Array2::ones((8, 3))), 0.1),
        0.0
    );
    // Outputs that separate two distant groups: one bit, and less if the kernels overlap.
    let two = Array2::from_shape_fn((8, 1), |(i, _)| if i < 4 { 1.0 } else { -1.0 });
    let told = Array2::from_shape_fn((8, 2), |(i, k)| f64::from((i < 4) == (k == 0)));
    let found = information_gain(&tensor(&two), &tensor(&told), 0.1);
    assert!(found > 0.98 && found <= 1.0, "{found}");
}

/// First and second derivatives; at equal rows the derivative is 0, not NaN.
#[test]
fn distances_differentiate() {
    let x = tensor(&rows(5, 3, 1.0, 3));
    check_grads(|x| group_distances(x[0], &[0, 1, 0, 1, 1]).ratio(), &[x]).unwrap();
    let tape = Tape::new();
    let x = tape.var(Tensor::<f64>::zeros(vec![3, 2]));
    let within = group_distances(x, &[0, 1, 0]).within;
    assert!(grad(within, &[x])[0].iter().all(|g| *g == 0.0));
}

const N: usize = 8;

/// The size of X and a rotation of its features do not change the ratio; an offset of all rows does. All
/// three change the information gain of outputs, in some case.
#[test]
fn changes_that_leave_them_the_same() {
    let mut broken = [0; 2];
    for seed in cases(12) {
        let x = rows(N, 4, 1.0, seed);
        let labels: Vec<usize> = (0..N).map(|i| i % 3).collect();
        let ratio = |x: &Array2<f64>| {
            let tape = Tape::new();
            let ratio = group_distances(tape.constant(tensor(x)), &labels).ratio();
            ratio.item()
        };
        let gain = |x: &Array2<f64>| information_gain(&tensor(&x.mapv(f64::sin)), &tensor(x), 0.1);
        near(ratio(&(&x * 3.0)), ratio(&x), 1e-9);
        let turned = x.dot(&rotation(4, seed + 7));
        near(ratio(&turned), ratio(&x), 1e-9);
        let offset = ratio(&(&x + &rows(1, 4, 1.0, seed + 5)));
        broken[0] += u32::from((offset - ratio(&x)).abs() > 1e-9);
        broken[1] += u32::from((gain(&turned) - gain(&x)).abs() > 1e-9);
    }
    assert!(broken.iter().all(|&count| count > 0), "{broken:?}");
}

/// The information gain does not change with the size of the rows of its inputs, or with a rotation of its
/// inputs.
#[test]
fn of_the_inputs_of_the_information_gain() {
    for seed in cases(12) {
        let (x, h) = (rows(N, 4, 1.0, seed), tensor(&rows(N, 3, 1.0, seed + 30)));
        let of = |x: &Array2<f64>| information_gain(&tensor(x), &h, 0.1);
        let lengths = rows(N, 1, 1.0, seed + 60).mapv(|x| 0.5 + x.abs());
        near(of(&(&x * &lengths)), of(&x), 1e-9);
        near(of(&x.dot(&rotation(4, seed))), of(&x), 1e-9);
    }
}
