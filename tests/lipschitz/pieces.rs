//! Networks with one layer of ReLUs: their linear pieces, the bound of all pieces, and the steepest piece.

use crate::cases::{cases, near};
use emmy::kernels::par;
use emmy::lipschitz::{Ascent, Domain, Lp, Objective, Pieces, bound, jacobian_norm};
use emmy::ndarray::{Array1, Array2, Axis, Ix2, array, concatenate};
use emmy::{Tape, Tensor, Var, init};

/// x ↦ W₂ σ(W₁ x + b), where σ has slope `low` for negative arguments and 1 for positive ones.
struct Net {
    first: Array2<f64>,
    bias: Array1<f64>,
    second: Array2<f64>,
    low: f64,
}

fn matrix(shape: [usize; 2], seed: u64) -> Array2<f64> {
    let x: Tensor<f64> = init::normal(&shape, 1.0, &mut init::rng(seed));
    x.into_owned().into_dimensionality().unwrap()
}

impl Net {
    /// k inputs, h neurons, m outputs.
    fn new([k, h, m]: [usize; 3], low: f64, seed: u64) -> Self {
        Self {
            first: matrix([h, k], 4 * seed),
            bias: matrix([1, h], 4 * seed + 1).remove_axis(Axis(0)),
            second: matrix([m, h], 4 * seed + 2),
            low,
        }
    }

    fn hidden<'t>(&self, x: Var<'t, f64>) -> Var<'t, f64> {
        let constant = |x: &Array2<f64>| x.clone().into_dyn().into_shared();
        let bias = self.bias.clone().insert_axis(Axis(0));
        x.linear(x.tape().constant(constant(&self.first))) + x.tape().constant(constant(&bias))
    }

    fn output<'t>(&self, h: Var<'t, f64>) -> Var<'t, f64> {
        h.linear(
            h.tape()
                .constant(self.second.clone().into_dyn().into_shared()),
        )
    }

    fn forward<'t>(&self, x: Var<'t, f64>) -> Var<'t, f64> {
        self.output(self.hidden(x).leaky_relu(self.low))
    }

    fn bound(&self, p: Lp) -> f64 {
        let tape = Tape::new();
        let x = tape.var(init::zeros(&[1, self.first.ncols()]));
        let bound = bound(self.forward(x), x, p, Domain::Everywhere).unwrap();
        bound.upper().get()
    }

    fn jacobian_at(&self, x: &Tensor<f64>) -> f64 {
        let tape = Tape::new();
        let x = tape.var(x.clone());
        jacobian_norm(self.forward(x), x, Lp::Two).0.lower.get()
    }

    /// The largest norm of W₂ diag(t) W₁ over all patterns t.
    fn steepest(&self, p: Lp) -> f64 {
        let h = self.first.nrows();
        let norm = |pattern: usize| {
            let on = |j: usize| pattern >> j & 1 == 1;
            let t: Array1<f64> = (0..h).map(|j| if on(j) { 1.0 } else { self.low }).collect();
            let scaled = &self.second * &t.insert_axis(Axis(0));
            p.matrix(scaled.dot(&self.first).view()).get()
        };
        (0..1 << h).map(norm).fold(0.0, f64::max)
    }

    fn pieces(&self) -> Pieces<'_> {
        Pieces {
            first: self.first.view(),
            bias: self.bias.view(),
            second: self.second.view(),
            slopes: [self.low, 1.0],
        }
    }

    fn found(&self, starts: usize) -> f64 {
        let inputs = self.pieces().steep_inputs(starts, 0);
        assert!(inputs.len() <= starts);
        let norms = inputs.iter().map(|x| self.jacobian_at(x));
        norms.fold(0.0, f64::max)
    }
}

/// Sizes and lower slopes of the cases: 0 is ReLU, −1 the absolute value.
fn nets(count: u64) -> impl Iterator<Item = (usize, Net)> {
    cases(count).map(|seed| {
        let draw = |n: u64, k: u64| (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (8 * k)) % n;
        let [k, h, m] = [1 + draw(9, 1), 1 + draw(7, 2), 1 + draw(3, 3)].map(|n| n as usize);
        let low = [0.0, 0.2, -0.1, -1.0][draw(4, 4) as usize];
        (m, Net::new([k, h, m], low, seed))
    })
}

/// No pattern is steeper than the bound. With one output the bound is at most √(π/2) times the steepest
/// pattern (Nesterov, 1998); 1e-3 is for the search for D.
#[test]
fn the_bound_of_all_pieces() {
    for (m, net) in nets(60) {
        for p in Lp::ALL {
            let (steepest, bound) = (net.steepest(p), net.bound(p));
            assert!(
                steepest <= bound * (1.0 + 1e-12),
                "{p}: {steepest} and {bound}"
            );
            let most = (std::f64::consts::PI / 2.0).sqrt() * 1.001 * steepest;
            assert!(
                p != Lp::Two || m > 1 || bound <= most,
                "{steepest} and {bound}"
            );
        }
    }
}

/// With linearly independent rows of W₁ the search reaches the steepest of all pieces, and the function has
/// an input there. With other rows it never claims more than the patterns have.
#[test]
fn the_steepest_piece_is_found() {
    for (_, net) in nets(60) {
        let (found, steepest) = (net.found(24), net.steepest(Lp::Two));
        assert!(found <= steepest * (1.0 + 1e-12), "{found} and {steepest}");
        if net.first.nrows() <= net.first.ncols() {
            near(found, steepest, 1e-9);
        }
    }
}

/// In a network with too many pieces to try them all, the interval is narrow, and gradient ascent finds less.
#[test]
fn the_interval_is_narrow() {
    for (m, most) in [(1, 1.03), (4, 1.08)] {
        let net = Net::new([80, 64, m], 0.0, 7);
        let (found, bound) = (net.found(50), net.bound(Lp::Two));
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

/// |w x| − |−w x| is 0 for all x. Two patterns of slopes would give another function, but no input has them.
/// An input at the border of the pieces, whose derivative is that of no piece, is left out. The search ends
/// with slopes of any size.
#[test]
fn pieces_that_do_not_exist_are_not_found() {
    for seed in cases(20) {
        for size in [1e-6, 1.0, 1e3] {
            let w = matrix([1, 3], seed);
            let first = concatenate![Axis(0), w, -&w];
            let (bias, second) = (Array1::zeros(2), array![[1.0, -1.0]]);
            let pieces = Pieces {
                first: first.view(),
                bias: bias.view(),
                second: second.view(),
                slopes: [-size, size],
            };
            for x in pieces.steep_inputs(8, seed) {
                let x = x.view().into_dimensionality::<Ix2>().unwrap();
                let z = first.dot(&x.t());
                assert!(z[[0, 0]].abs() > 1e-9 && z[[0, 0]] == -z[[1, 0]], "{z}");
            }
        }
    }
}

/// Weights whose products are too small or too large for normal numbers have the plain bound.
#[test]
fn weights_of_extreme_size_have_a_bound() {
    let mut net = Net::new([1, 1, 1], 0.2, 0);
    for [first, second] in [[1e300, 5e-324], [1e160, 1e160]] {
        (net.first[[0, 0]], net.second[[0, 0]]) = (first, second);
        for p in Lp::ALL {
            assert!(net.bound(p) >= first * second, "{first} and {second}");
        }
    }
}

/// A neuron whose incoming or outgoing weights are all 0 does not count, however large its other weights are.
#[test]
fn neurons_without_effect_do_not_count() {
    let mut net = Net::new([5, 6, 1], 0.0, 3);
    for p in Lp::ALL {
        let mut few = Net::new([5, 6, 1], 0.0, 3);
        few.first.row_mut(0).fill(0.0);
        few.second.column_mut(1).fill(0.0);
        let expected = few.bound(p);
        few.second.column_mut(0).fill(100.0);
        few.first.row_mut(1).fill(100.0);
        near(few.bound(p), expected, 1e-9);
    }
    net.first.fill(0.0);
    assert_eq!(net.bound(Lp::Two), 0.0);
}

#[test]
fn the_search_is_the_same_on_any_number_of_threads() {
    let net = Net::new([30, 24, 3], 0.1, 5);
    let inputs = |threads| par::with_threads(threads, || net.pieces().steep_inputs(9, 4));
    let one = inputs(1);
    assert_eq!(one, inputs(2));
    // The largest first.
    let norms: Vec<f64> = one.iter().map(|x| net.jacobian_at(x)).collect();
    assert!(norms.is_sorted_by(|a, b| *a >= b - 1e-9 * b), "{norms:?}");
}

#[test]
#[should_panic(expected = "W₁ has 6 rows, b 6 entries, W₂ 5 columns; they must be equal")]
fn shapes_must_agree() {
    let mut net = Net::new([5, 6, 1], 0.0, 3);
    net.second = matrix([1, 5], 0);
    net.pieces().steep_inputs(1, 0);
}

#[test]
#[should_panic(expected = "not finite")]
fn numbers_must_be_finite() {
    let mut net = Net::new([5, 6, 1], 0.0, 3);
    net.bias[2] = f64::NAN;
    net.pieces().steep_inputs(1, 0);
}
