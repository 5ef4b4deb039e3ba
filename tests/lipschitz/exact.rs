//! The search among linear pieces, and branch and bound: both ends meet at the constant that an enumeration
//! finds.

use crate::cases::{cases, near, number};
use crate::two_layers::{Net, nets};
use emmy::lipschitz::joint::{Branches, Network, Neurons, Pieces, Steep};
use emmy::lipschitz::{Ascent, Interval, Lp, Objective};
use emmy::ndarray::{Array1, Array2, Axis, array, concatenate, s};
use emmy::rand::RngExt;
use emmy::{Tensor, init};

fn draw(rows: usize, columns: usize, seed: u64) -> Array2<f64> {
    let x: Tensor<f64> = init::normal(&[rows, columns], 1.0, &mut init::rng(seed));
    x.into_owned().into_dimensionality().unwrap()
}

/// A chain with biases.
struct Chain {
    weights: Vec<Array2<f64>>,
    biases: Vec<Array1<f64>>,
    slopes: [f64; 2],
}

impl Chain {
    fn new(widths: &[usize], slopes: [f64; 2], seed: u64) -> Self {
        let pairs = || widths.windows(2).zip(100 * seed..);
        let hidden = widths.len() - 2;
        Self {
            weights: pairs().map(|(w, k)| draw(w[1], w[0], k)).collect(),
            biases: (pairs().take(hidden))
                .map(|(w, k)| draw(w[1], 1, k + 50).column(0).to_owned())
                .collect(),
            slopes,
        }
    }

    fn pieces(&self) -> Pieces {
        let network = Network::chain(self.weights.clone(), self.slopes).unwrap();
        Pieces::new(network, self.biases.clone()).unwrap()
    }

    /// J at an input.
    fn jacobian(&self, x: &Array1<f64>) -> Array2<f64> {
        let (last, hidden) = self.weights.split_last().unwrap();
        let (mut v, mut j) = (x.clone(), Array2::eye(x.len()));
        for (w, b) in hidden.iter().zip(&self.biases) {
            let y = w.dot(&v) + b;
            let slopes = y.mapv(|y| self.slopes[usize::from(y > 0.0)]);
            v = &y * &slopes;
            j = w.dot(&j) * slopes.insert_axis(Axis(1));
        }
        last.dot(&j)
    }
}

/// ‖A‖₂ by the eigenvalues of AᵀA.
fn norm(a: &Array2<f64>) -> f64 {
    let (values, _) = emmy::linalg::eigh(a.t().dot(a).view());
    values.iter().fold(0.0_f64, |m, x| m.max(*x)).sqrt()
}

fn bounded(pieces: Pieces) -> (Interval, Steep, usize) {
    let mut branches = Branches::new(pieces, 0);
    while branches.step(1e-7) {}
    let steepest = branches.steepest().unwrap().clone();
    (branches.interval(), steepest, branches.count())
}

fn meets(ends: &Interval, expected: f64, what: &str) {
    let [lower, upper] = [ends.lower.get(), ends.upper.get()];
    assert!(
        lower <= expected * (1.0 + 1e-9) && expected <= upper * (1.0 + 1e-9),
        "{what}: {expected} is not between {lower} and {upper}"
    );
    assert!(upper <= lower * (1.0 + 1e-6), "{what}: {lower} to {upper}");
}

/// With one input the pieces are intervals between the kinks, which one can walk along.
#[test]
fn with_one_input_the_constant_is_that_of_a_walk_along_all_pieces() {
    let shapes: [&[usize]; 3] = [&[1, 8, 1], &[1, 5, 4, 2], &[1, 4, 4, 3, 1]];
    for case in cases(6) {
        let (seed, k) = (case / 3, case as usize % 3);
        let chain = Chain::new(
            shapes[k],
            [[0.0, 1.0], [0.2, 1.0]][k % 2],
            10 * seed + k as u64,
        );
        // Pieces far away, then ever finer near 0: the walk halves intervals until both ends have the
        // same slope and so has their middle, or they are short.
        let mut largest = 0.0_f64;
        let slope = |x: f64| norm(&chain.jacobian(&array![x]));
        let at = |x: f64| (x, slope(x));
        let mut walk = vec![(at(-1e3), at(1e3), 0)];
        while let Some((a, b, depth)) = walk.pop() {
            largest = largest.max(a.1).max(b.1);
            if depth < 9 || a.1 != b.1 && depth < 40 {
                let middle = at(0.5 * (a.0 + b.0));
                walk.extend([(a, middle, depth + 1), (middle, b, depth + 1)]);
            }
        }
        let (ends, steepest, _) = bounded(chain.pieces());
        let [lower, upper] = [ends.lower.get(), ends.upper.get()];
        assert!(largest <= upper * (1.0 + 1e-9), "{largest} above {upper}");
        assert!(upper <= lower * (1.0 + 1e-6), "{lower} to {upper}");
        // A piece that the walk did not see is there nevertheless.
        let there = norm(&chain.jacobian(&steepest.input));
        assert!((there / lower - 1.0).abs() < 1e-9, "{there} and {lower}");
    }
}

/// With one layer, and rows that are linearly independent, every pattern has inputs.
#[test]
fn with_independent_rows_the_constant_is_that_of_all_patterns() {
    for seed in cases(6) {
        for slopes in [[0.0, 1.0], [-0.3, 1.0]] {
            let chain = Chain::new(&[9, 8, 2], slopes, 40 + seed);
            let of = |pattern: usize| {
                let diagonal = Array1::from_shape_fn(8, |i| slopes[pattern >> i & 1]);
                let scaled = &chain.weights[0] * &diagonal.insert_axis(Axis(1));
                norm(&chain.weights[1].dot(&scaled))
            };
            let largest = (0..256).map(of).fold(0.0, f64::max);
            let (ends, ..) = bounded(chain.pieces());
            meets(&ends, largest, "one layer");
        }
    }
}

/// Branches whose constant is the largest one up to rounding are closed, not divided further: 214 branches do
/// here, and 3 854 where each is proven with four times the margin for rounding.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn branches_as_steep_as_the_steepest_are_closed() {
    let chain = Chain::new(&[11, 12, 12, 1], [0.0, 1.0], 1);
    let mut branches = Branches::new(chain.pieces(), 0);
    while branches.count() < 1000 && branches.step(5e-6) {}
    assert!(branches.count() < 1000, "{:?}", branches.interval());
}

/// With fewer inputs than neurons many patterns have no input: the largest norm of all patterns is above the
/// constant, and no input of many exceeds it.
#[test]
fn patterns_without_an_input_do_not_count() {
    let mut apart = 0;
    for seed in cases(2) {
        let chain = Chain::new(&[2, 6, 5, 2], [0.0, 1.0], 70 + seed);
        let (ends, steepest, _) = bounded(chain.pieces());
        let there = norm(&chain.jacobian(&steepest.input));
        meets(&ends, there, "two inputs");
        let rng = &mut init::rng(seed);
        let mut found = 0.0_f64;
        for k in 0..number(40_000) as i32 {
            let size = 10f64.powi(k % 5 - 2);
            let x = Array1::from_shape_fn(2, |_| rng.random_range(-size..size));
            found = found.max(norm(&chain.jacobian(&x)));
        }
        assert!(
            found <= there * (1.0 + 1e-9) && found > 0.7 * there,
            "{found} and {there}"
        );
        let all = (0..1usize << 11).map(|pattern| {
            let slopes = Array1::from_shape_fn(11, |i| (pattern >> i & 1) as f64);
            let column = |range| slopes.slice(range).to_owned().insert_axis(Axis(1));
            let [first, second] = [column(s![..6]), column(s![6..])];
            let w = &chain.weights;
            let inner = w[1].dot(&(&w[0] * &first)) * second;
            norm(&w[2].dot(&inner))
        });
        apart += usize::from(all.fold(0.0, f64::max) > 1.01 * there);
    }
    assert!(apart > 0, "no network whose steepest pattern has no input");
}

fn pieces(net: &Net) -> Pieces {
    let weights = vec![net.first.clone(), net.second.clone()];
    let network = Network::chain(weights, [net.low, 1.0]).unwrap();
    Pieces::new(network, vec![net.bias.clone()]).unwrap()
}

/// With linearly independent rows of W₁ the climbs reach the steepest of all pieces, and the function has an
/// input there. With other rows they never claim more than the patterns have.
#[test]
fn climbs_find_the_steepest_piece() {
    for (_, net) in nets(60) {
        let found = pieces(&net).climb(24, 0).map_or(0.0, |f| f.lower.get());
        let steepest = net.steepest(Lp::Two);
        assert!(found <= steepest * (1.0 + 1e-12), "{found} and {steepest}");
        if net.first.nrows() <= net.first.ncols() {
            near(found, steepest, 1e-9);
        }
    }
}

/// In a network with too many pieces to try them all, the interval is narrow, and gradient ascent finds less.
#[test]
fn climbs_leave_a_narrow_interval() {
    for (m, most) in [(1, 1.03), (4, 1.08)] {
        let net = Net::new([80, 64, m], 0.0, 7);
        let found = pieces(&net).climb(50, 0).unwrap().lower.get();
        let bound = net.bound(Lp::Two);
        assert!(
            found <= bound && bound <= most * found,
            "{found} and {bound}"
        );
        let search = Ascent {
            restarts: 4,
            steps: 60,
            rate: 0.1,
            ..Ascent::new(Objective::Two, 0)
        };
        let starts = (0..4).map(|k| init::normal(&[1, 80], 1.0, &mut init::rng(k)));
        let ascent = search.guided(
            starts.collect(),
            |x| net.forward(x),
            |x| net.output(net.hidden(x).scale(10.0).softplus().scale(0.1)),
        );
        let ascent = ascent.lower.get();
        assert!(
            ascent < found && ascent > 0.7 * found,
            "{ascent} and {found}"
        );
    }
}

/// A contracting network with 16 layers and negative biases is constant at inputs of the size of its biases.
/// The search finds an input where it is at least twice as steep as at as many random inputs far from 0. The
/// lower end is almost the norm of the Jacobian there, which is only about 10⁻⁵.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn climbs_find_where_a_deep_network_is_not_constant() {
    for seed in cases(6) {
        let mut widths = vec![24; 18];
        (widths[0], widths[17]) = (6, 2);
        let mut net = Chain::new(&widths, [0.0, 1.0], seed);
        net.weights
            .iter_mut()
            .for_each(|w| *w *= 0.7 / 24f64.sqrt());
        net.biases.iter_mut().for_each(|b| *b = -b.mapv(f64::abs));
        let random = |size: f64| {
            let steepest = (0..8).map(|k| {
                let x = draw(6, 1, 1000 + k).column(0).to_owned() * size;
                norm(&net.jacobian(&x))
            });
            steepest.fold(0.0, f64::max)
        };
        assert_eq!(random(1.0), 0.0);
        let pieces = net.pieces();
        let Steep { input, lower } = pieces.climb(8, seed).expect("an input");
        let found = norm(&net.jacobian(&input));
        let lost = 1.0 - lower.get() / found;
        assert!((-1e-12..3e-9).contains(&lost), "{lost} of {found}");
        let [far, bound] = [random(1e12), pieces.network().lipschitz().unwrap().get()];
        assert!(
            2.0 * far < found && found <= bound,
            "{far}, {found} and {bound}"
        );
    }
}

/// |w x| − |−w x| is 0 for all x. Two patterns of slopes would give another function, but no input has them.
#[test]
fn pieces_that_do_not_exist_are_not_found() {
    for seed in cases(20) {
        for size in [1e-6, 1.0, 1e3] {
            let w = draw(1, 3, seed);
            let first = concatenate![Axis(0), w, -&w];
            let network = Network::chain(vec![first, array![[1.0, -1.0]]], [-size, size]).unwrap();
            let pieces = Pieces::new(network, vec![Array1::zeros(2)]).unwrap();
            let found = pieces.climb(8, seed).map_or(0.0, |f| f.lower.get());
            assert!(found < 1e-12 * size, "{found}");
        }
    }
}

/// Residual connections, and neurons with one slope.
#[test]
fn networks_that_are_no_chains() {
    for seed in cases(4) {
        let [a, b, c] = [
            draw(5, 2, 900 + seed),
            draw(4, 5, 910 + seed),
            draw(2, 4, 920 + seed),
        ];
        let skip = draw(2, 2, 930 + seed);
        let neurons = |reads, slopes: [f64; 2], n| Neurons {
            reads,
            slopes: vec![slopes; n],
        };
        let layers = vec![
            neurons(vec![(0, a.clone())], [0.0, 1.0], 5),
            neurons(vec![(1, b.clone())], [1.0, 1.0], 4),
            neurons(vec![(2, c.clone())], [0.1, 1.0], 2),
        ];
        let output = vec![(0, skip.clone()), (3, Array2::eye(2))];
        let network = Network::new(2, layers, output).unwrap();
        let bias = draw(5, 1, 940 + seed).column(0).to_owned();
        let biases = vec![bias.clone(), Array1::zeros(4), Array1::zeros(2)];
        let (ends, ..) = bounded(Pieces::new(network, biases).unwrap());
        let jacobian = |x: &Array1<f64>| {
            let slopes = (a.dot(x) + &bias).mapv(|y| f64::from(u8::from(y > 0.0)));
            let inner = c.dot(&b);
            let y = inner.dot(&((a.dot(x) + &bias) * &slopes));
            let outer = y.mapv(|y| if y > 0.0 { 1.0 } else { 0.1 });
            let axis = Axis(1);
            let first = &a * &slopes.insert_axis(axis);
            inner.dot(&first) * outer.insert_axis(axis) + &skip
        };
        let rng = &mut init::rng(seed);
        let points = (0..20_000).map(|k| {
            let size = 10f64.powi(k % 4 - 1);
            Array1::from_shape_fn(2, |_| rng.random_range(-size..size))
        });
        let found = points.map(|x| norm(&jacobian(&x))).fold(0.0, f64::max);
        let [lower, upper] = [ends.lower.get(), ends.upper.get()];
        assert!(upper <= lower * (1.0 + 1e-6), "{lower} to {upper}");
        assert!(
            found <= upper * (1.0 + 1e-9) && found > 0.97 * upper,
            "{found} and {upper}"
        );
    }
}

/// Neither the number of threads nor a stop in between changes what is found.
#[test]
fn the_ends_do_not_depend_on_the_threads() {
    let chain = Chain::new(&[3, 7, 6, 1], [0.0, 1.0], 5);
    let run = |threads: usize| {
        emmy::kernels::par::with_threads(threads, || {
            let mut branches = Branches::new(chain.pieces(), 3);
            for _ in 0..3 {
                branches.step(0.0);
            }
            let ends = branches.interval();
            (
                ends.lower.get().to_bits(),
                ends.upper.get().to_bits(),
                branches.count(),
                chain.pieces().climb(9, 4).unwrap().input,
            )
        })
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn biases_that_do_not_fit_are_refused() {
    let network =
        || Network::chain(vec![array![[1.0], [2.0]], array![[1.0, 1.0]]], [0.0, 1.0]).unwrap();
    let error = |biases| Pieces::new(network(), biases).unwrap_err().to_string();
    assert!(error(vec![array![1.0]]).contains("one per neuron, [2]"));
    assert!(error(vec![array![1.0, f64::NAN]]).contains("finite"));
    // An input on a border is in no piece.
    let pieces = Pieces::new(network(), vec![array![0.0, 1.0]]).unwrap();
    assert!(pieces.at(array![0.0].view()).is_none());
    assert!((pieces.at(array![1.0].view()).unwrap().get() - 3.0).abs() < 1e-12);
}

/// 3x − 3 relu(x) + 3 relu(−x) is 0 everywhere; at an input that is no number, or whose arguments are none,
/// no pattern is certain.
#[test]
fn an_input_without_numbers_has_no_pattern() {
    let neurons = |a| Neurons {
        reads: vec![(0, a)],
        slopes: vec![[0.0, 1.0]; 2],
    };
    let zero = vec![(0, array![[3.0]]), (1, array![[-3.0, 3.0]])];
    let network = Network::new(1, vec![neurons(array![[1.0], [-1.0]])], zero).unwrap();
    let pieces = Pieces::new(network, vec![array![0.0, 0.0]]).unwrap();
    assert!(pieces.at(array![f64::NAN].view()).is_none());
    let large = array![[9e59, 9e59], [9e59, 9e59]];
    let network = Network::new(2, vec![neurons(large)], vec![(1, array![[1.0, 1.0]])]).unwrap();
    let pieces = Pieces::new(network, vec![array![0.0, 0.0]]).unwrap();
    assert!(pieces.at(array![1e300, -1e300].view()).is_none());
}

/// The sign of a sum of many reads is not certain where it may be rounding.
#[test]
fn the_rounding_of_many_reads_counts() {
    let mut reads = vec![(0, array![[1e-16]]); 200];
    reads.push((0, array![[-(1.0 + 1e-14)]]));
    let neurons = Neurons {
        reads,
        slopes: vec![[0.0, 1.0]],
    };
    let network = Network::new(1, vec![neurons], vec![(1, array![[1.0]])]).unwrap();
    let pieces = Pieces::new(network, vec![array![1.0]]).unwrap();
    // Exactly 1 + 2e-14 − (1 + 1e-14) > 0; added one by one it is below 0.
    assert!(pieces.at(array![1.0].view()).is_none());
}

/// Neurons with one slope each are a linear map: nothing is left to divide.
#[test]
fn a_network_without_a_kink_is_bounded_at_once() {
    let neurons = Neurons {
        reads: vec![(0, array![[1.0], [1.0]])],
        slopes: vec![[1.0, 1.0]; 2],
    };
    for (output, constant) in [(array![[1.0, -1.0]], 0.0), (array![[1.0, 2.0]], 3.0)] {
        let network = Network::new(1, vec![neurons.clone()], vec![(1, output)]).unwrap();
        let pieces = Pieces::new(network, vec![array![0.0, 0.0]]).unwrap();
        let mut branches = Branches::new(pieces, 0);
        while branches.step(0.0) {}
        let ends = branches.interval();
        assert!(ends.lower.get() <= constant && constant <= ends.upper.get());
        assert!(ends.upper.get() <= constant + 1e-12);
    }
}
