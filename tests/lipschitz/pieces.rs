//! Networks with one layer of ReLUs: the bound of all their linear pieces.

use crate::cases::near;
use crate::two_layers::{Net, nets};
use emmy::lipschitz::Lp;

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
