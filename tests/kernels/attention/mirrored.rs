//! The adjoints where sources and targets have the same rows: the kernels sum both roles of a node. Where
//! each edge has its reverse too, a pass of its own computes this sum.

use super::case::*;
use crate::support::close;
use emmy::kernels::attention::Operands;

impl Case {
    /// Asserts that the adjoints of shared rows are the sums of those of equal rows zs and zt, with and
    /// without a.
    fn has_both_roles(&self, score: Score) {
        for a in [Some(&*self.a), None] {
            let run = |x: Operands<f64>| self.run_with(score, Operands { a, ..x }).2;
            let (apart, shared) = (run(self.gatv2()), run(self.shared()));
            let sum: Vec<f64> = apart.v.iter().zip(&apart.q).map(|(v, q)| v + q).collect();
            close(&shared.v, &sum, 1e-12);
            close(&shared.a, &apart.a, 1e-12);
            close(&shared.t, &apart.t, 1e-12);
        }
    }
}

#[test]
fn shared_weights_sum_both_adjoints() {
    for (heads, d) in SIZES {
        for mut case in case(25, 25, 120, heads, d, 0.3).both() {
            case.zt = case.zs.clone();
            let (_, _, apart) = case.run(case.gatv2());
            let (_, _, shared) = case.run(case.shared());
            let sum: Vec<f64> = apart.v.iter().zip(&apart.q).map(|(v, q)| v + q).collect();
            close(&shared.v, &sum, 1e-13);
            assert_eq!(shared.a, apart.a);
            assert_eq!(shared.t, apart.t);
        }
    }
}

/// Edges in one pass for both roles, and those that do not allow it: a score that is not symmetric, or
/// temperatures.
#[test]
fn mirrored_edges_have_the_adjoints_of_two_roles() {
    for (n, nnz) in [(25, 120), (1, 1), (3, 0), (0, 0)] {
        for (heads, d) in SIZES {
            for p in [0.0, 0.3] {
                for mut case in case(n, n, nnz, heads, d, p).mirrored().both() {
                    case.zt = case.zs.clone();
                    for score in [LEAKY_SUM, PRODUCT, SQUARE] {
                        case.has_both_roles(score);
                    }
                }
            }
        }
    }
    // More than one block of rows: wide heads, and many.
    for p in [0.0, 0.3] {
        for &(heads, d) in &SIZES[..2] {
            for mut case in case(300, 300, 2000, heads, d, p).mirrored().both() {
                case.zt = case.zs.clone();
                case.has_both_roles(LEAKY_SUM);
            }
        }
    }
}

/// Where one coefficient is 1 and the others are 0, what is left is the adjoint of the values.
#[test]
fn a_saturated_softmax_of_mirrored_edges_passes_no_adjoint() {
    // Factors of dropout that are no powers of two, so that products of rows are rounded.
    for p in [0.0, 0.3] {
        let mut case = case(30, 30, 150, 2, 8, p).mirrored();
        case.zs.iter_mut().for_each(|z| *z *= 1e8);
        let x = Operands {
            a: None,
            ..case.shared()
        };
        let (_, alpha, found) = case.run_with(PRODUCT, x);
        assert!(alpha.iter().all(|&a| a == 0.0 || a == 1.0));
        let mut expected = vec![0.0; case.zs.len()];
        for (e, &i) in case.pattern.rows_of().iter().enumerate() {
            let j = case.pattern.indices()[e] as usize;
            for c in 0..16 {
                let k = 2 * e + c / 8;
                let kept = alpha[k] * case.dropout.factor::<f64>(k);
                expected[16 * j + c] += kept * case.gy[16 * i as usize + c];
            }
        }
        close(&found.v, &expected, 1e-13);
    }
}
