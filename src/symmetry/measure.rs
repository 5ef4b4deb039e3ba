//! δ, c and drift in plain numbers: sums are in `f64` for parameters of either type.

use super::{Law, Side, Slice, Symmetry, Term};
use crate::kernels::neurons::{Entries, products, sums};
use crate::real::Real;
use crate::tensor::{Tensor, contiguous};

/// δ of a law at one point, and the size of its terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// δ, one number per neuron; for a matrix row by row.
    pub delta: Vec<f64>,
    /// Σ |w θ G| over all terms of δ; for a translation Σ |G|, that of a [reference](super::Term::reference)
    /// too.
    pub size: Vec<f64>,
}

impl Residual {
    /// |δ| / Σ|w θ G|; 0 where that sum is 0, as for a neuron that is never active.
    pub fn relative(&self) -> Vec<f64> {
        self.relative_above(0.0).collect()
    }

    /// The largest relative δ; NaN if one is.
    pub fn worst(&self) -> f64 {
        self.worst_above(0.0)
    }

    /// The same, but relative to `floor` where the size is less than `floor`.
    ///
    /// G has rounding errors. If large contributions to a derivative cancel to zero, only their rounding
    /// errors remain, and δ is then as large as its size. (An example is a neuron that matters only in the
    /// attention of nodes whose neighbours are all alike.) To tell whether a law holds to a tolerance, give ε
    /// / tolerance times the largest size in the network, where ε is the rounding error of its numbers.
    pub fn worst_above(&self, floor: f64) -> f64 {
        let larger = |m: f64, x: f64| if x > m || x.is_nan() { x } else { m };
        self.relative_above(floor).fold(0.0, larger)
    }

    /// The relative δ of every entry, relative to `floor` where the size is less than `floor`.
    pub(crate) fn relative_above(&self, floor: f64) -> impl Iterator<Item = f64> {
        let ratio = move |(d, s): (&f64, &f64)| match *s {
            0.0 => 0.0,
            s if s < floor => d.abs() / floor,
            s => d.abs() / s,
        };
        self.delta.iter().zip(&self.size).map(ratio)
    }
}

impl Law {
    /// δ at a point: the parameters of a model and ∂L/∂θ of each, in the model's order. For a rescaling
    /// δ_j = Σ w ⟨M_j, N_j⟩ over the terms, with N = ∂L/∂M; the table at [`symmetry`](crate::symmetry) has
    /// the others.
    ///
    /// # Panics
    /// If a parameter or gradient is missing or has another number of entries than the law says.
    #[track_caller]
    #[inline(never)]
    pub fn measure<F: Real>(&self, parameters: &[&Tensor<F>], gradients: &[Tensor<F>]) -> Residual {
        let mut out = Residual {
            delta: vec![0.0; self.entries()],
            size: vec![0.0; self.entries()],
        };
        for term in &self.terms {
            let g = Values::new(self, &term.slice, gradients.get(term.slice.parameter));
            let theta = parameters.get(term.slice.parameter).copied();
            let theta = Values::new(self, &term.slice, theta);
            match self.symmetry {
                Symmetry::Rescaling if term.mean || term.is_shifted() => {
                    let (m, n) = (theta.shifted(term), g.rows(&term.slice));
                    let (m, n) = if term.mean {
                        (mean(&m), mean(&n))
                    } else {
                        (m, n)
                    };
                    for (j, (m, n)) in m.iter().zip(&n).enumerate() {
                        for (m, n) in m.iter().zip(n) {
                            out.delta[j] += term.weight * m * n;
                            out.size[j] += (term.weight * m * n).abs();
                        }
                    }
                }
                Symmetry::Rescaling => {
                    let out = [&mut out.delta[..], &mut out.size];
                    products(
                        &term.slice.by_neuron(),
                        term.weight,
                        theta.slice(),
                        g.slice(),
                        out,
                    );
                }
                Symmetry::Translation => {
                    let out = [&mut out.delta[..], &mut out.size];
                    sums(&term.slice.by_neuron(), term.weight, g.slice(), out);
                }
                Symmetry::Linear | Symmetry::Rotation => {
                    let (m, n) = (theta.shifted(term), g.rows(&term.slice));
                    self.mix(term, &m, &n, &mut out);
                }
            }
        }
        out
    }

    /// Adds N Mᵀ, −M Nᵀ, or for a rotation both.
    fn mix(&self, term: &Term, m: &[Vec<f64>], n: &[Vec<f64>], out: &mut Residual) {
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

    /// c, the degree of balance. Gradient flow conserves it; steps of gradient descent do not (see
    /// [`drift`](Self::drift)). `None` for rotations, which conserve nothing under gradient flow.
    ///
    /// For [`Symmetry::Rescaling`] Σ w ‖M_j‖², "Are GATs Out of Balance?", Eq. (5); dc/dt = −2δ.
    ///
    /// # Panics
    /// If a parameter is missing or has another number of entries than the law says.
    #[track_caller]
    #[inline(never)]
    pub fn balance<F: Real>(&self, parameters: &[&Tensor<F>]) -> Option<Vec<f64>> {
        self.squares(parameters, &self.terms)
    }

    /// Σ w ‖M_j‖² and its like, with numbers in place of the parameters.
    #[track_caller]
    fn squares<F: Real>(&self, numbers: &[&Tensor<F>], terms: &[Term]) -> Option<Vec<f64>> {
        // The sizes come with the sums; nobody reads them.
        let (mut out, mut sizes) = (vec![0.0; self.entries()], vec![0.0; self.entries()]);
        for term in terms {
            let theta = numbers.get(term.slice.parameter).copied();
            let theta = Values::new(self, &term.slice, theta);
            match self.symmetry {
                Symmetry::Rescaling if term.mean || term.is_shifted() => {
                    let rows = theta.shifted(term);
                    let rows = if term.mean { mean(&rows) } else { rows };
                    for (out, row) in out.iter_mut().zip(rows) {
                        *out += term.weight * row.iter().map(|m| m * m).sum::<f64>();
                    }
                }
                Symmetry::Rescaling => {
                    let values = theta.slice();
                    products(
                        &term.slice.by_neuron(),
                        term.weight,
                        values,
                        values,
                        [&mut out, &mut sizes],
                    );
                }
                Symmetry::Translation => {
                    sums(
                        &term.slice.by_neuron(),
                        term.weight,
                        theta.slice(),
                        [&mut out, &mut sizes],
                    );
                }
                Symmetry::Linear => {
                    let rows = theta.shifted(term);
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

    /// c after one step of plain gradient descent θ ← θ − η (G + λθ) from a point where it is `balance`:
    /// exact for every η and λ,
    ///
    /// c⁺ = (1 − ηλ)² c + η² γ,
    ///
    /// where γ is the [`balance`](Self::balance) of the gradients; for a translation c⁺ = (1 − ηλ) c. `None`
    /// if there is no c, and with λ ≠ 0 if a weight stands [beside an identity](Term::beside_identity): decay
    /// does not act on the identity.
    ///
    /// Gradients that are clipped by their global norm are a multiple of G: give the clipped gradients. Steps
    /// with momentum have another formula ([`Drift`](super::Drift)); steps of Adam and of gradients clipped
    /// entry by entry have none.
    ///
    /// # Panics
    /// If a gradient is missing or has another number of entries than the law says, or `balance` does not
    /// hold one number per entry of δ.
    #[track_caller]
    #[inline(never)]
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
        if weight_decay != 0.0 && self.terms.iter().any(Term::is_shifted) {
            return None;
        }
        // The identity beside a weight has no gradient.
        let bare = |term: &Term| Term {
            identity: 0.0,
            ..term.clone()
        };
        let terms: Vec<Term> = self.terms.iter().map(bare).collect();
        let gamma = self.squares(&gradients, &terms)?;
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
        Self(contiguous(law.find(slice, tensor, |t| t.len())))
    }

    fn slice(&self) -> &[F] {
        self.0.as_slice().expect("contiguous")
    }

    /// The entries of each neuron, those of W + c I beside an identity.
    fn shifted(&self, term: &Term) -> Vec<Vec<f64>> {
        let mut rows = self.rows(&term.slice);
        if term.is_shifted() {
            for (j, row) in rows.iter_mut().enumerate() {
                for (x, entry) in row.iter_mut().zip(term.entries_of(j)) {
                    *x += term.added_to(entry);
                }
            }
        }
        rows
    }

    /// The entries of each neuron.
    fn rows(&self, slice: &Slice) -> Vec<Vec<f64>> {
        let mut out = vec![Vec::new(); slice.neurons()];
        let inner = slice.shape[2].max(1);
        for stretch in slice.stretches() {
            let neurons = self.slice()[stretch].chunks_exact(inner);
            for (row, entries) in out.iter_mut().zip(neurons) {
                row.extend(entries.iter().map(|x| x.as_f64()));
            }
        }
        out
    }
}

/// The sum over the n neurons divided by √n: the products of two such sums are those of P M, P = 11ᵀ/n.
fn mean(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let scale = (rows.len() as f64).sqrt().recip();
    let mut out = vec![0.0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        for (sum, x) in out.iter_mut().zip(row) {
            *sum += scale * x;
        }
    }
    vec![out]
}

impl Slice {
    /// The entries, by neurons.
    fn by_neuron(&self) -> Entries {
        Entries {
            stretches: self.stretches().collect(),
            inner: self.shape[2].max(1),
        }
    }
}
