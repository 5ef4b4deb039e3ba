//! Networks written with existing operations, and the checks of the laws claimed for them.

pub use crate::layers::terms::*;

use emmy::nn::{Module, Pass};
use emmy::optim::{Algorithm, Optimizer};
use emmy::symmetry::{Discovery, Law, Residual, Symmetry};
use emmy::{Real, Tape, Tensor, Var, init};

/// A network with its data and a loss: a function of its parameters.
pub trait Composition<F: Real>: Module<F> + Clone {
    /// The loss, at the parameters as they are.
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F>;
}

/// All properties of a law, checked at one point.
///
/// 1. δ vanishes, in `f64` and in `f32`.
/// 2. The loss does not change when parameters are moved along the symmetry; no gradient is needed.
/// 3. c changes exactly as the formula says, over steps of gradient descent with weight decay.
pub fn conserved(double: &impl Composition<f64>, single: &impl Composition<f32>, laws: &[Law]) {
    vanishes(double, laws, 1e-10);
    vanishes(single, laws, 1e-3);
    stays(double, laws);
    drifts(double, laws, 5);
}

/// ∂L/∂θ of every parameter.
pub fn gradients<F: Real>(net: &impl Composition<F>) -> Vec<Tensor<F>> {
    let tape = Tape::new();
    let pass = Pass::train(&tape, net, 0);
    pass.gradients(net.loss(&pass))
}

/// L.
pub fn loss<F: Real>(net: &impl Composition<F>) -> f64 {
    let tape = Tape::new();
    net.loss(&Pass::eval(&tape, net)).item().as_f64()
}

/// The names of its parameters.
pub fn names<F: Real>(net: &impl Module<F>) -> Vec<String> {
    net.parameters().into_iter().map(|p| p.name).collect()
}

/// Each law as its name and its formula.
pub fn listed<F: Real>(net: &impl Module<F>, laws: &[Law]) -> Vec<String> {
    let line = |law: &Law| format!("{}: {}", law.name, law.formula(&names(net)));
    laws.iter().map(line).collect()
}

/// So many laws are declared and found, and there can be no other.
#[track_caller]
pub fn is_whole(found: &Discovery, laws: usize, what: &str) {
    assert!(
        found.broken.is_empty() && found.missing.is_empty(),
        "{what}: {found:?}"
    );
    let counts = (found.declared, found.found, found.upper);
    assert_eq!(counts, (laws, laws, Some(laws)), "{what}: {found:?}");
}

/// |δ| is at most `tolerance` times the size of its terms, for every entry of every law, up to the rounding of the largest terms of all laws.
#[track_caller]
pub fn vanishes<F: Real>(net: &impl Composition<F>, laws: &[Law], tolerance: f64) {
    let gradients = gradients(net);
    let measure = |law: &Law| law.measure(&net.tensors(), &gradients);
    let all: Vec<Residual> = laws.iter().map(measure).collect();
    let sizes = all.iter().flat_map(|m| &m.size);
    let floor = F::epsilon().as_f64() / tolerance * sizes.fold(0.0, |m: f64, &x| m.max(x));
    for (law, measured) in laws.iter().zip(&all) {
        let worst = measured.worst_above(floor);
        let (name, formula) = (&law.name, law.formula(&names(net)));
        assert!(
            worst <= tolerance,
            "{name}, {}: {formula} up to {worst:.1e}",
            F::NAME
        );
    }
}

/// A move along the symmetry does not change the loss: factors from 10⁻² to 10², shears and shifts up to ±3,
/// rotations by any angle.
#[track_caller]
pub fn stays(net: &impl Composition<f64>, laws: &[Law]) {
    let before = loss(net);
    for (k, law) in laws.iter().enumerate() {
        for (entry, t) in moves(law, k as u64) {
            let mut moved = net.clone();
            law.transform(&mut moved.tensors_mut(), entry, t);
            let after = loss(&moved);
            assert!(
                (after - before).abs() <= 1e-9 * (1.0 + before.abs()),
                "{}: entry {entry} by {t:.2} takes the loss from {before} to {after}",
                law.name
            );
        }
    }
}

/// Some entries of δ and how far to move along each.
fn moves(law: &Law, seed: u64) -> Vec<(usize, f64)> {
    let draws = init::uniform::<f64>(&[4, 2], 1.0, &mut init::rng(seed));
    let n = law.neurons();
    let one = |draw: ndarray::ArrayView1<'_, f64>| {
        let entry = ((draw[0] + 1.0) / 2.0 * law.entries() as f64) as usize;
        let diagonal = entry / n == entry % n;
        let t = match law.symmetry {
            Symmetry::Rescaling => 100.0_f64.ln() * draw[1],
            Symmetry::Linear if diagonal => 100.0_f64.ln() * draw[1],
            _ => 3.0 * draw[1],
        };
        (entry, t)
    };
    let draws = draws.into_dimensionality::<ndarray::Ix2>();
    draws
        .expect("two axes")
        .rows()
        .into_iter()
        .map(one)
        .collect()
}

/// c after each of `steps` steps of gradient descent equals [`Law::drift`] of the c before.
#[track_caller]
pub fn drifts<C: Composition<f64>>(net: &C, laws: &[Law], steps: usize) {
    let (lr, decay) = (0.1, 0.02);
    let mut net: C = net.clone();
    let mut optimizer = Optimizer::new(Algorithm::SGD).weight_decay(decay);
    let balance = |net: &C, law: &Law| law.balance(&net.tensors());
    let mut expected: Vec<_> = laws.iter().map(|law| balance(&net, law)).collect();
    for _ in 0..steps {
        let gradients = gradients(&net);
        for (law, c) in laws.iter().zip(&mut expected) {
            *c = (c.take()).and_then(|c| law.drift(&c, &gradients, lr, decay));
        }
        optimizer.step(net.tensors_mut(), &gradients, lr);
    }
    for (law, expected) in laws.iter().zip(expected) {
        let found = balance(&net, law);
        assert_eq!(found.is_none(), law.symmetry == Symmetry::Rotation);
        let (found, expected) = (found.unwrap_or_default(), expected.unwrap_or_default());
        let size = found.iter().fold(1.0_f64, |m, c| m.max(c.abs()));
        for (j, (c, predicted)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (c - predicted).abs() <= 1e-9 * size,
                "{}: entry {j} of c is {c}, predicted {predicted}",
                law.name
            );
        }
    }
}

/// For typical draws δ is far from zero, and the moves change the loss.
#[track_caller]
pub fn fails<C: Composition<f64>>(draw: impl Fn(u64) -> (C, Vec<Law>)) {
    let (mut relative, mut changes) = (Vec::new(), Vec::new());
    for (net, laws) in (0..20).map(draw) {
        let (gradients, before) = (gradients(&net), loss(&net));
        for (k, law) in laws.iter().enumerate() {
            relative.extend(law.measure(&net.tensors(), &gradients).relative());
            for (entry, t) in moves(law, k as u64) {
                let mut moved = net.clone();
                law.transform(&mut moved.tensors_mut(), entry, t);
                changes.push((loss(&moved) - before).abs() / (1.0 + before.abs()));
            }
        }
    }
    let (relative, changes) = (median(relative), median(changes));
    assert!(relative > 1e-2, "δ is {relative:.1e} of its terms");
    assert!(changes > 1e-3, "the loss changes by {changes:.1e}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A loss of y; the seed chooses one of three: cross-entropy; the squared distance of tanh y from a random
/// target; or a smooth random function of all entries without symmetries, mean (c₁ z + c₂ z² + c₃ z · (the
/// next z)) with z = tanh y. Steps of gradient descent stay small for each of them.
pub fn any_loss<F: Real>(y: Var<'_, F>, seed: u64) -> Var<'_, F> {
    let rng = &mut init::rng(seed);
    let [c1, c2, c3] = [(); 3].map(|()| y.tape().constant(init::normal(&y.shape(), 1.0, rng)));
    let (n, d) = (y.shape()[0], y.shape()[1]);
    let z = y.tanh();
    match seed % 3 {
        0 if d > 1 => {
            let labels: Vec<usize> = (0..n).map(|i| (7 * i + seed as usize / 3) % d).collect();
            y.cross_entropy(&labels, None)
        }
        1 => z.mse(c1),
        _ => {
            let neighbour = Var::concat(&[z.slice(1, 1..d), z.slice(1, 0..1)], 1);
            (z * (c1 + c2 * z + c3 * neighbour)).mean(&[], false)
        }
    }
}
