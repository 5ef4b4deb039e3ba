//! The search among the linear pieces of networks with one layer of ReLUs.

use crate::cases::{cases, near};
use crate::two_layers::{Net, matrix, nets};
use emmy::kernels::par;
use emmy::lipschitz::{Ascent, Lp, Objective, jacobian_norm};
use emmy::ndarray::{Array1, Axis, Ix2, array, concatenate};
use emmy::{Tape, Tensor, init};
use papers::lipschitz::Pieces;

fn pieces(net: &Net) -> Pieces<'_> {
    Pieces {
        first: net.first.view(),
        bias: net.bias.view(),
        second: net.second.view(),
        slopes: [net.low, 1.0],
    }
}

fn jacobian_at(net: &Net, x: &Tensor<f64>) -> f64 {
    let tape = Tape::new();
    let x = tape.var(x.clone());
    jacobian_norm(net.forward(x), x, Lp::Two).0.lower.get()
}

fn found(net: &Net, starts: usize) -> f64 {
    let inputs = pieces(net).steep_inputs(starts, 0);
    assert!(inputs.len() <= starts);
    let norms = inputs.iter().map(|x| jacobian_at(net, x));
    norms.fold(0.0, f64::max)
}

/// With linearly independent rows of W₁ the search reaches the steepest of all pieces, and the function has
/// an input there. With other rows it never claims more than the patterns have.
#[test]
fn the_steepest_piece_is_found() {
    for (_, net) in nets(60) {
        let (found, steepest) = (found(&net, 24), net.steepest(Lp::Two));
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
        let (found, bound) = (found(&net, 50), net.bound(Lp::Two));
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

#[test]
fn the_search_is_the_same_on_any_number_of_threads() {
    let net = Net::new([30, 24, 3], 0.1, 5);
    let inputs = |threads| par::with_threads(threads, || pieces(&net).steep_inputs(9, 4));
    let one = inputs(1);
    assert_eq!(one, inputs(2));
    // The largest first.
    let norms: Vec<f64> = one.iter().map(|x| jacobian_at(&net, x)).collect();
    assert!(norms.is_sorted_by(|a, b| *a >= b - 1e-9 * b), "{norms:?}");
}

#[test]
#[should_panic(expected = "W₁ has 6 rows, b 6 entries, W₂ 5 columns; they must be equal")]
fn shapes_must_agree() {
    let mut net = Net::new([5, 6, 1], 0.0, 3);
    net.second = matrix([1, 5], 0);
    pieces(&net).steep_inputs(1, 0);
}

#[test]
#[should_panic(expected = "not finite")]
fn numbers_must_be_finite() {
    let mut net = Net::new([5, 6, 1], 0.0, 3);
    net.bias[2] = f64::NAN;
    pieces(&net).steep_inputs(1, 0);
}
