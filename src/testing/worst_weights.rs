//! An attack on a Lipschitz bound over pairs of inputs and over the parameters together.

use super::Subject;
use super::quotient::{size, steepness};
use crate::autodiff::{Tape, grad};
use crate::lipschitz::{Bound, Domain, Lp, bound};
use crate::nn::Pass;
use crate::optim::{Algorithm, Optimizer};
use crate::real::Real;
use crate::tensor::Tensor;

/// The quotient and the bound at the pair and the parameters on the way up whose ratio is the largest; from
/// the subject's parameters and this pair. The bound is `given`, or read off the model at every step.
pub(super) fn climb<F: Real>(
    (steps, rate): (usize, f64),
    subject: &Subject<'_, F>,
    pair: [Tensor<F>; 2],
    p: Lp,
    given: Option<f64>,
) -> [f64; 2] {
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let mut all = pair.to_vec();
    all.extend(subject.parameters());
    let mut best = [0.0, 1.0];
    for step in 0..=steps {
        let tape = Tape::new();
        let at: Vec<_> = all.iter().map(|x| tape.var(x.clone())).collect();
        let pass = Pass::bound_as(&tape, subject.model, &at[2..], None);
        let values = [at[0], at[1]].map(|x| subject.output(&pass, Some(x), None));
        let read = given
            .is_none()
            .then(|| bound(values[0], at[0], p, Domain::Everywhere));
        let limit: Option<Bound<'_, F>> = match read {
            Some(Ok(limit)) => Some(limit),
            // Parameters without a bound: this ascent ends.
            Some(Err(_)) => break,
            None => None,
        };
        let number = match (&limit, given) {
            (Some(limit), _) => limit.upper().get(),
            (None, given) => given.expect("a bound"),
        };
        let here = [&all[0], &all[1]].map(Clone::clone);
        let found = steepness(&tape, values, &here, p).found;
        if number.is_finite() && found / number > best[0] / best[1] {
            best = [found, number];
        }
        if step == steps {
            break;
        }
        let mut slope = size(values[0] - values[1], p).ln() - size(at[0] - at[1], p).ln();
        // A bound without a derivative stands still.
        if let Some(Ok(limit)) = limit.map(|limit| limit.var()) {
            slope = slope - limit.ln();
        }
        let upward = |g: F| if g.is_finite() { -g } else { F::zero() };
        let gradients = grad(slope, &at).into_iter();
        let gradients: Vec<_> = gradients.map(|g| g.mapv(upward).into_shared()).collect();
        optimizer.step(all.iter_mut(), &gradients, rate);
    }
    best
}
