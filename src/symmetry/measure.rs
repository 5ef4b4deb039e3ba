//! δ, c and drift in plain numbers: sums in `f64`, whatever the type of the parameters.

use super::{Law, Side, Slice, Symmetry, Term};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous};

/// δ of a law at one point, and the size of what it sums.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// δ, one number a neuron; for a matrix row by row.
    pub delta: Vec<f64>,
    /// Σ |w θ G| over everything δ sums; for a translation Σ |G|, that of a [yardstick](super::Term::yardstick) too.
    pub size: Vec<f64>,
}

impl Measured {
    /// |δ| / Σ|w θ G|; 0 where that sum is 0, as for a neuron that is never active.
    pub fn relative(&self) -> Vec<f64> {
        let ratio = |(d, s): (&f64, &f64)| if *s == 0.0 { 0.0 } else { d.abs() / s };
        self.delta.iter().zip(&self.size).map(ratio).collect()
    }

    /// The largest relative δ; NaN if one is.
    pub fn worst(&self) -> f64 {
        (self.relative().into_iter()).fold(0.0, |m, x| if x > m || x.is_nan() { x } else { m })
    }
}

impl Law {
    /// δ at a point: the parameters of a model and ∂L/∂θ of each, in the model's order.
    ///
    /// # Panics
    /// If a parameter or gradient is missing or has another number of entries than the law says.
    #[track_caller]
    pub fn measure<F: Real>(&self, parameters: &[&Tensor<F>], gradients: &[Tensor<F>]) -> Measured {
        let mut out = Measured {
            delta: vec![0.0; self.entries()],
            size: vec![0.0; self.entries()],
        };
        for term in &self.terms {
            let g = Values::new(self, &term.slice, gradients.get(term.slice.parameter));
            let theta = Values::new(
                self,
                &term.slice,
                parameters.get(term.slice.parameter).copied(),
            );
            match self.symmetry {
                Symmetry::Rescaling => {
                    let mut add = |j: usize, theta: f64, g: f64| {
                        let product = term.weight * theta * g;
                        out.delta[j] += product;
                        out.size[j] += product.abs();
                    };
                    term.slice.for_each(theta.slice(), g.slice(), &mut add);
                }
                Symmetry::Translation => {
                    let mut add = |j: usize, _: f64, g: f64| {
                        out.delta[j] += term.weight * g;
                        out.size[j] += g.abs();
                    };
                    term.slice.for_each(theta.slice(), g.slice(), &mut add);
                }
                Symmetry::Linear | Symmetry::Rotation => {
                    let (m, n) = (theta.rows(&term.slice), g.rows(&term.slice));
                    self.mix(term, &m, &n, &mut out);
                }
            }
        }
        out
    }

    /// Adds N Mᵀ, −M Nᵀ, or for a rotation both.
    fn mix(&self, term: &Term, m: &[Vec<f64>], n: &[Vec<f64>], out: &mut Measured) {
        let width = self.neurons();
        for i in 0..width {
            for j in 0..width {
                let mut add = |sign: f64, a: &[f64], b: &[f64]| {
                    for (x, y) in a.iter().zip(b) {
                        out.delta[i * width + j] += sign * x * y;
                        out.size[i * width + j] += (x * y).abs();
                    }
                };
                if self.symmetry == Symmetry::Rotation || term.side == Side::Incoming {
                    add(1.0, &n[i], &m[j]);
                }
                if self.symmetry == Symmetry::Rotation || term.side != Side::Incoming {
                    add(-1.0, &m[i], &n[j]);
                }
            }
        }
    }

    /// c, the degree of balance: what gradient flow conserves. `None` for rotations, which conserve nothing under gradient flow.
    ///
    /// For [`Symmetry::Rescaling`] Σ w ‖M_j‖², "Are GATs Out of Balance?", Eq. (5); dc/dt = −2δ.
    ///
    /// # Panics
    /// If a parameter is missing or has another number of entries than the law says.
    #[track_caller]
    pub fn balance<F: Real>(&self, parameters: &[&Tensor<F>]) -> Option<Vec<f64>> {
        let mut out = vec![0.0; self.entries()];
        for term in &self.terms {
            let theta = Values::new(
                self,
                &term.slice,
                parameters.get(term.slice.parameter).copied(),
            );
            match self.symmetry {
                Symmetry::Rescaling => {
                    let mut add = |j: usize, a: f64, b: f64| out[j] += term.weight * a * b;
                    term.slice.for_each(theta.slice(), theta.slice(), &mut add);
                }
                Symmetry::Translation => {
                    let mut add = |j: usize, a: f64, _: f64| out[j] += term.weight * a;
                    term.slice.for_each(theta.slice(), theta.slice(), &mut add);
                }
                Symmetry::Linear => {
                    let rows = theta.rows(&term.slice);
                    let sign = if term.side == Side::Incoming {
                        1.0
                    } else {
                        -1.0
                    };
                    let pairs = rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b)));
                    for (out, (a, b)) in out.iter_mut().zip(pairs) {
                        *out += sign * a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
                    }
                }
                Symmetry::Rotation => return None,
            }
        }
        Some(out)
    }

    /// c after one step of plain gradient descent θ ← θ − η (G + λθ) from a point where it is `balance`: exact for every η and λ,
    ///
    /// c⁺ = (1 − ηλ)² c + η² γ,
    ///
    /// γ being [`balance`](Self::balance) of the gradients; for a translation c⁺ = (1 − ηλ) c. `None` where there is no c. Momentum, Adam and
    /// clipping have no such formula.
    ///
    /// # Panics
    /// If a gradient is missing or has another number of entries than the law says, or `balance` is not one number an entry of δ.
    #[track_caller]
    pub fn drift<F: Real>(
        &self,
        balance: &[f64],
        gradients: &[Tensor<F>],
        lr: f64,
        weight_decay: f64,
    ) -> Option<Vec<f64>> {
        assert_eq!(
            balance.len(),
            self.entries(),
            "drift: the balance of {} is {} numbers",
            self.name,
            self.entries()
        );
        let gradients: Vec<&Tensor<F>> = gradients.iter().collect();
        let gamma = self.balance(&gradients)?;
        let keep = 1.0 - lr * weight_decay;
        let next = |(c, gamma): (&f64, &f64)| match self.symmetry {
            Symmetry::Translation => keep * c,
            _ => keep * keep * c + lr * lr * gamma,
        };
        Some(balance.iter().zip(&gamma).map(next).collect())
    }
}

/// The values of one parameter or gradient, one after the other.
struct Values<F: Real>(Tensor<F>);

impl<F: Real> Values<F> {
    #[track_caller]
    fn new(law: &Law, slice: &Slice, tensor: Option<&Tensor<F>>) -> Self {
        let (k, expected) = (slice.parameter, slice.len());
        let Some(tensor) = tensor else {
            panic!("{}: there is no parameter {k}", law.name);
        };
        assert_eq!(
            tensor.len(),
            expected,
            "{}: parameter {k} has {} entries, the law speaks of {expected}",
            law.name,
            tensor.len()
        );
        Self(contiguous(tensor))
    }

    fn slice(&self) -> &[F] {
        self.0.as_slice().expect("contiguous")
    }

    /// The entries of each neuron.
    fn rows(&self, slice: &Slice) -> Vec<Vec<f64>> {
        let mut out = vec![Vec::new(); slice.neurons()];
        let values = self.slice();
        slice.for_each(values, values, &mut |j, x, _| out[j].push(x));
        out
    }
}

impl Slice {
    /// Calls `f` with the neuron and both values of every entry.
    fn for_each<F: Real>(&self, a: &[F], b: &[F], f: &mut impl FnMut(usize, f64, f64)) {
        let inner = self.shape[2].max(1);
        for stretch in self.stretches() {
            let (a, b) = (&a[stretch.clone()], &b[stretch]);
            let neurons = a.chunks_exact(inner).zip(b.chunks_exact(inner));
            for (j, (a, b)) in neurons.enumerate() {
                for (x, y) in a.iter().zip(b) {
                    f(j, x.as_f64(), y.as_f64());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autodiff::Tape;
    use crate::symmetry;
    use crate::tensor::tensor;

    /// a + t and b − 2t, beside c, whose gradient is what δ is compared with.
    #[test]
    fn a_translation_has_weights_and_a_yardstick() {
        let terms = vec![
            Term::incoming(Slice::new(0, [1, 2, 1])),
            Term::outgoing(Slice::new(1, [1, 2, 1])).times(2.0),
            Term::yardstick(Slice::new(2, [1, 2, 3])),
        ];
        let law = Law::new("shift", 1, Symmetry::Translation, terms);
        let a = tensor(&[2], vec![1.0, 2.0]);
        let b = tensor(&[2], vec![10.0, 20.0]);
        let c = tensor(&[2, 3], vec![1.0; 6]);
        let gradients = [
            tensor(&[2], vec![4.0, -1.0]),
            tensor(&[2], vec![2.0, 0.5]),
            tensor(&[2, 3], vec![1.0, -2.0, 3.0, 0.0, 0.0, 4.0]),
        ];
        let measured = law.measure(&[&a, &b, &c], &gradients);
        assert_eq!(measured.delta, [0.0, -2.0]);
        assert_eq!(measured.size, [12.0, 5.5]);
        let balance = law.balance(&[&a, &b, &c]).unwrap();
        assert_eq!(balance, [-19.0, -38.0]);
        let drift = law.drift(&balance, &gradients, 0.5, 0.5).unwrap();
        assert_eq!(drift, [0.75 * -19.0, 0.75 * -38.0]);

        let tape = Tape::new();
        let on_tape = |x: &Tensor<f64>| tape.var(x.clone());
        let (theta, g) = ([&a, &b, &c].map(on_tape), gradients.each_ref().map(on_tape));
        let delta = symmetry::delta(&law, &theta, &g).value();
        assert!(delta.iter().eq(&measured.delta));
        let on_tape = symmetry::balance(&law, &theta).unwrap().value();
        assert!(on_tape.iter().eq(&balance));

        let (mut a, mut b, mut c) = (a, b, c);
        law.transform(&mut [&mut a, &mut b, &mut c], 1, 0.5);
        assert_eq!(a, tensor(&[2], vec![1.0, 2.5]));
        assert_eq!(b, tensor(&[2], vec![10.0, 19.0]));
        assert_eq!(c, tensor(&[2, 3], vec![1.0; 6]));
    }
}
