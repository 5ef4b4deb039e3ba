//! Balancing: c = 0 for every neuron, by scaling the drawn parameters.

use crate::error::{Error, Result, Rules};
use crate::init::{self, Rng};
use crate::real::Real;
use crate::symmetry::{Law, Side, Slice, Symmetry, Term};
use crate::tensor::{Tensor, contiguous, tensor};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// β_j, the squared norm that balancing starts from, for each neuron j.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beta {
    /// The same for all.
    Constant(f64),
    /// Drawn from U(low, high).
    Uniform {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// The absolute value of a draw from N(mean, std²).
    Normal {
        /// The mean before the absolute value.
        mean: f64,
        /// The standard deviation before the absolute value.
        std: f64,
    },
}

/// Where balancing starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// β is the squared norm of the incoming entries of the neurons of the first layer; outgoing entries are
    /// scaled, layer by layer.
    LeftToRight,
    /// β is the squared norm of the outgoing entries of the neurons before the last layer; incoming entries
    /// are scaled, from the last layer to the first.
    RightToLeft,
}

/// How to scale the parameters of a network so that c = 0 for every neuron.
///
/// Mustafa, Bojchevski and Burkholz, "Are GATs Out of Balance?", NeurIPS 2023, Procedure 2.6 and Remark 2.7.
/// With c_j = ‖in_j‖² − ‖a_j‖² − k ‖out_j‖² (k = 1 but for σ of another degree), neuron by neuron and layer
/// by layer:
///
/// 1. In the first layer the incoming entries of j in every parameter are scaled to squared norm β_j. Entries
///    that are all zero, such as a bias, stay zero. Of two weights (GATv2 with separate ones) each gets β_j.
/// 2. The outgoing entries of j are scaled, as a whole, to k ‖out_j‖² = ρ ‖in_j‖², with in_j as already
///    scaled.
/// 3. a_j = √((1 − ρ) ‖in_j‖²), the same number for each of several entries; their squares add up to (1 − ρ)
///    ‖in_j‖². With ρ = 1 it is zero.
///
/// A neuron without attention has ρ = 1. From right to left the outgoing entries of j are given: in the last
/// law they are scaled, in each parameter, to squared norm β_j, and the incoming entries are scaled, as a
/// whole, to ‖in_j‖² = k ‖out_j‖² / ρ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Balancing {
    /// β.
    pub beta: Beta,
    /// ρ, the share of ‖in‖² that flows out, 0 < ρ ≤ 1. The rest is in the attention.
    pub ratio: f64,
    /// Where to start.
    pub order: Order,
}

impl Balancing {
    /// The paper's: the same β for all, a = 0, from left to right.
    pub const fn constant(beta: f64) -> Self {
        Self {
            beta: Beta::Constant(beta),
            ratio: 1.0,
            order: Order::LeftToRight,
        }
    }

    /// Checks that balancing with these values is possible.
    ///
    /// # Errors
    /// If β cannot be a squared norm larger than 0, or not 0 < ρ ≤ 1.
    pub fn validate(&self) -> Result<()> {
        self.beta.validate()?;
        let holds = self.ratio > 0.0 && self.ratio <= 1.0;
        let rule = "a number above 0 and at most 1";
        Rules("balancing").hold(holds, "ratio", rule, self.ratio)
    }

    /// Scales the parameters so that c = 0 for every neuron of `laws`; only laws of rescaling count. β is
    /// drawn neuron by neuron, the laws of the starting layer in their order, or from right to left in the
    /// reverse of it. Sums and factors are `f64`, the parameters are rounded once.
    ///
    /// # Errors
    /// If this is not [valid](Self::validate), or entries that should be scaled to a norm are all zero or not
    /// finite. The parameters are then as they were.
    ///
    /// # Panics
    /// If a parameter is missing or has another number of entries than a law says.
    #[track_caller]
    pub fn apply<F: Real>(
        &self,
        laws: &[Law],
        parameters: &mut [&mut Tensor<F>],
        rng: &mut Rng,
    ) -> Result<()> {
        self.validate()?;
        let mut laws: Vec<&Law> = (laws.iter())
            .filter(|law| law.symmetry == Symmetry::Rescaling)
            .collect();
        laws.sort_by_key(|law| law.layer);
        if self.order == Order::RightToLeft {
            laws.reverse();
        }
        let mut values: Vec<Vec<f64>> = (parameters.iter())
            .map(|p| contiguous(p).iter().map(|x| x.as_f64()).collect())
            .collect();
        let start = laws.first().map(|law| law.layer);
        for law in laws {
            for Term { slice, .. } in &law.terms {
                law.find(slice, values.get(slice.parameter), |x| x.len());
            }
            for j in 0..law.neurons() {
                let beta = (Some(law.layer) == start).then(|| self.beta.draw(rng));
                self.balance(&Neuron { law, j }, beta, &mut values)?;
            }
        }
        for (parameter, values) in parameters.iter_mut().zip(values) {
            let shape = parameter.shape().to_vec();
            **parameter = tensor(&shape, values.into_iter().map(F::of).collect());
        }
        Ok(())
    }

    /// Steps 1 to 3 for one neuron; β is given only where balancing starts.
    fn balance(
        &self,
        neuron: &Neuron<'_>,
        beta: Option<f64>,
        values: &mut [Vec<f64>],
    ) -> Result<()> {
        let attention = neuron.law.side(Side::Attention);
        let entries: usize = attention.map(|t| neuron.entries(&t.slice).count()).sum();
        let ratio = if entries > 0 { self.ratio } else { 1.0 };
        let (given, scaled) = match self.order {
            Order::LeftToRight => (Side::Incoming, Side::Outgoing),
            Order::RightToLeft => (Side::Outgoing, Side::Incoming),
        };
        if let Some(beta) = beta {
            neuron.start(given, beta, values)?;
        }
        let given = neuron.norm(given, values);
        let (incoming, wanted) = match self.order {
            Order::LeftToRight => (given, ratio * given),
            Order::RightToLeft => (given / ratio, given / ratio),
        };
        neuron.scale(scaled, wanted, values)?;
        for term in neuron.law.side(Side::Attention) {
            let share = (1.0 - ratio) * incoming / entries as f64;
            let a = (share / term.weight.abs()).sqrt();
            for at in neuron.entries(&term.slice) {
                values[term.slice.parameter][at] = a;
            }
        }
        Ok(())
    }
}

impl Beta {
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Constant(beta) => beta,
            Self::Uniform { low, high } => low + (high - low) * rng.random::<f64>(),
            Self::Normal { mean, std } => (mean + std * init::gauss(rng)).abs(),
        }
    }

    fn validate(self) -> Result<()> {
        let (holds, rule) = match self {
            Self::Constant(beta) => (beta.is_finite() && beta > 0.0, "a number above 0"),
            Self::Uniform { low, high } => (
                0.0 <= low && low <= high && 0.0 < high && high.is_finite(),
                "0 ≤ low ≤ high, and high above 0",
            ),
            Self::Normal { mean, std } => (
                mean.is_finite() && std.is_finite() && std >= 0.0 && (mean != 0.0 || std > 0.0),
                "numbers, not both 0, the standard deviation at least 0",
            ),
        };
        Rules("balancing").hold(holds, "β", rule, format!("{self:?}"))
    }
}

/// Neuron j of a law.
struct Neuron<'a> {
    law: &'a Law,
    j: usize,
}

impl Neuron<'_> {
    /// The places of its entries in the parameter of a slice.
    fn entries(&self, slice: &Slice) -> impl Iterator<Item = usize> + use<> {
        let (j, inner) = (self.j, slice.shape[2]);
        let own = move |s: Range<usize>| s.start + j * inner..s.start + (j + 1) * inner;
        slice.stretches().flat_map(own)
    }

    /// ‖M_j‖² of one term, without its weight.
    fn norm_of(&self, term: &Term, values: &[Vec<f64>]) -> f64 {
        let x = &values[term.slice.parameter];
        self.entries(&term.slice).map(|at| x[at] * x[at]).sum()
    }

    /// Σ |w| ‖M_j‖² over one side.
    fn norm(&self, side: Side, values: &[Vec<f64>]) -> f64 {
        let terms = self.law.side(side);
        terms
            .map(|t| t.weight.abs() * self.norm_of(t, values))
            .sum()
    }

    fn times(&self, term: &Term, factor: f64, values: &mut [Vec<f64>]) {
        for at in self.entries(&term.slice) {
            values[term.slice.parameter][at] *= factor;
        }
    }

    /// Scales every term of a side that is not zero to squared norm β.
    fn start(&self, side: Side, beta: f64, values: &mut [Vec<f64>]) -> Result<()> {
        self.scalable(side, beta, self.norm(side, values))?;
        for term in self.law.side(side) {
            let norm = self.norm_of(term, values);
            if norm > 0.0 {
                self.times(term, (beta / norm).sqrt(), values);
            }
        }
        Ok(())
    }

    /// Scales a whole side to Σ |w| ‖M_j‖² = `wanted`.
    fn scale(&self, side: Side, wanted: f64, values: &mut [Vec<f64>]) -> Result<()> {
        let norm = self.norm(side, values);
        self.scalable(side, wanted, norm)?;
        let factor = if norm > 0.0 {
            (wanted / norm).sqrt()
        } else {
            0.0
        };
        for term in self.law.side(side) {
            self.times(term, factor, values);
        }
        Ok(())
    }

    /// Checks that entries of squared norm `found` can be scaled to squared norm `wanted`.
    fn scalable(&self, side: Side, wanted: f64, found: f64) -> Result<()> {
        if (found > 0.0 || wanted == 0.0) && found.is_finite() {
            return Ok(());
        }
        let (name, j, n) = (&self.law.name, self.j + 1, self.law.neurons());
        let entries = match side {
            Side::Incoming => "incoming entries",
            Side::Attention => "attention entries",
            Side::Outgoing => "outgoing entries",
        };
        Err(Error::invalid(
            format!("balancing {name}, number {j} of {n}"),
            format!("{entries} that can be scaled to squared norm {wanted}: finite, not all zero"),
            format!("squared norm {found}"),
        ))
    }
}
