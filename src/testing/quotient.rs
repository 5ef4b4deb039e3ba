//! The quotient that an attack on a Lipschitz bound makes large.

use crate::autodiff::{Tape, Var};
use crate::linalg::gamma;
use crate::lipschitz::Lp;
use crate::real::Real;
use crate::tensor::Tensor;

/// ‖f(x) − f(x′)‖ / ‖x − x′‖ of a pair.
#[derive(Default)]
pub(super) struct Steepness {
    /// The quotient, less what rounding may have added.
    pub found: f64,
    /// What rounding may have added.
    pub rounding: f64,
}

/// The quotient of two values on a tape. What rounding may have added is estimated as the error of a chain of
/// sums: as many as the tape has operations, each as long as the longest axis, relative to both values.
pub(super) fn steepness<'t, F: Real>(
    tape: &'t Tape<F>,
    [y, z]: [Var<'t, F>; 2],
    pair: &[Tensor<F>; 2],
    p: Lp,
) -> Steepness {
    let axes = (0..tape.len()).filter_map(|id| tape.node(id).shape.iter().copied().max());
    let sums = tape.len() * axes.max().unwrap_or(1);
    let unit = F::epsilon().as_f64() / f64::EPSILON;
    let (y, z) = (y.value(), z.value());
    let norm = |x: &Tensor<F>| p.of(x.iter().map(|x| x.as_f64()));
    let apart =
        |a: &Tensor<F>, b: &Tensor<F>| p.of(a.iter().zip(b).map(|(a, b)| a.as_f64() - b.as_f64()));
    let between = apart(&pair[0], &pair[1]);
    let rounding = gamma(sums) * unit * (norm(&y) + norm(&z)) / between;
    let found = apart(&y, &z) / between - rounding;
    match found.is_finite() {
        true => Steepness { found, rounding },
        false => Steepness::default(),
    }
}

/// ‖x‖_p on the tape.
pub(super) fn size<'t, F: Real>(x: Var<'t, F>, p: Lp) -> Var<'t, F> {
    match p {
        Lp::One => x.abs().sum_all(),
        Lp::Two => x.square().sum_all().sqrt(),
        Lp::Inf => x.abs().max_all(),
    }
}
