//! Several certified models as one.

use super::{CertifiedConfig, CertifiedLanguageModel};
use crate::autodiff::{Tape, Var};
use crate::error::{Error, Result};
use crate::init;
use crate::kernels::random::mix;
use crate::lipschitz::{Domain, Lp, Upper, bound};
use crate::nn::{Layer, Pass};
use crate::real::Real;

/// The mean of the logits of M models ("members") that learn independently of each other:
///
/// ```text
/// x = [x¹, .., xᴹ]               the vectors of a symbol, one per member, side by side
/// z = (1/M) Σ_m z_m(xᵐ)          in an evaluation
/// z = [z_1(x¹), .., z_M(xᴹ)]     in a training pass, one after the other along the first axis
/// ```
///
/// If each z_m has constant L, so has z: ‖z(x) − z(y)‖ ≤ (1/M) Σ_m L ‖xᵐ − yᵐ‖ ≤ L ‖x − y‖. The softmax of
/// the mean is the normalised geometric mean of the members' probabilities. The mean usually predicts better
/// than one member: members start with other weights, and so their errors differ.
///
/// In a training pass the logits have M times as many sequences, so that the mean of the cross-entropies over
/// all of them is the mean over the members, and each member learns as it would alone.
/// [`NextSymbol`](crate::train::NextSymbol) compares each part of them with the same symbols.
///
/// ```
/// use emmy::lipschitz::Upper;
/// use emmy::nn::{CertifiedConfig, CertifiedEnsemble, Pass};
/// use emmy::Tape;
/// let model = CertifiedEnsemble::<f64>::new(CertifiedConfig::new(10, 8, 1, 16), 3, 0)?;
/// let tape = Tape::new();
/// let z = model.forward(&Pass::eval(&tape, &model), &[1, 2, 3, 4], 2);
/// assert_eq!(z.shape(), [2, 2, 10]);
/// assert!(model.certificate(8)? <= Upper::new(2.0));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CertifiedEnsemble<F: Real> {
    /// The members, which have the same sizes.
    pub members: Vec<CertifiedLanguageModel<F>>,
}
crate::module!(CertifiedEnsemble: members);

impl<F: Real> CertifiedEnsemble<F> {
    /// Models with freshly drawn weights; the first has the weights that it would have alone.
    ///
    /// # Errors
    /// If there is no member, or the configuration is not [valid](CertifiedConfig::validate).
    pub fn new(config: CertifiedConfig, members: usize, seed: u64) -> Result<Self> {
        if members == 0 {
            return Err(Error::invalid("members", "at least 1", "0"));
        }
        let seed = |m: usize| if m == 0 { seed } else { mix(seed, m as u64) };
        let member = |m| CertifiedLanguageModel::new(config, seed(m));
        Ok(Self {
            members: (0..members).map(member).collect::<Result<_>>()?,
        })
    }

    /// The configuration of each member.
    pub fn config(&self) -> &CertifiedConfig {
        &self.members[0].config
    }

    /// The logits of `sequences` sequences of equal length, one after the other in `symbols`; shape
    /// `[sequences, length, symbols]` in an evaluation, `[M sequences, length, symbols]` in a training pass.
    ///
    /// # Panics
    /// As [`CertifiedLanguageModel::forward`].
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
    ) -> Var<'t, F> {
        pass.call(self, &[], || {
            let members = self.members.iter();
            let logits: Vec<_> = members
                .map(|net| net.forward(pass, symbols, sequences))
                .collect();
            match pass.is_training() && logits.len() > 1 {
                true => Var::concat(&logits, 0),
                false => mean(&logits),
            }
        })
    }

    /// x, `[sequences, length, M features]`: the input of [`of_embedded`](Self::of_embedded).
    ///
    /// # Panics
    /// As [`forward`](Self::forward).
    #[track_caller]
    pub fn embedded<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        symbols: &[usize],
        sequences: usize,
    ) -> Var<'t, F> {
        let members = self.members.iter();
        let vectors: Vec<_> = members
            .map(|net| net.embedded(pass, symbols, sequences))
            .collect();
        Var::concat(&vectors, -1)
    }

    /// z as a function of x, as in an evaluation.
    ///
    /// # Panics
    /// If the shapes do not fit, or a sequence is longer than the context.
    #[track_caller]
    pub fn of_embedded<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let features = self.config().features;
            let of = |(m, net): (usize, &CertifiedLanguageModel<F>)| {
                net.of_embedded(pass, x.slice(-1, m * features..(m + 1) * features))
            };
            let logits: Vec<_> = self.members.iter().enumerate().map(of).collect();
            mean(&logits)
        })
    }

    /// The certificate: an upper bound of the constant of the logits of n symbols as a function of x, in the
    /// 2-norm, computed from the present weights. It is at most L.
    ///
    /// # Errors
    /// If a weight is not a finite number.
    ///
    /// # Panics
    /// If n is larger than the context.
    #[track_caller]
    pub fn certificate(&self, n: usize) -> Result<Upper> {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, self);
        let features = self.members.len() * self.config().features;
        let x = tape.var(init::zeros(&[1, n, features]));
        let z = self.of_embedded(&pass, x);
        Ok(bound(z, x, Lp::Two, Domain::Everywhere)?.upper())
    }

    /// [Tightens](CertifiedLanguageModel::tighten) each member, so that the certified constant is L.
    ///
    /// # Errors
    /// If a weight is not a finite number.
    pub fn tighten(&mut self) -> Result<()> {
        for net in &mut self.members {
            net.tighten()?;
        }
        Ok(())
    }
}

fn mean<'t, F: Real>(logits: &[Var<'t, F>]) -> Var<'t, F> {
    let [first, others @ ..] = logits else {
        unreachable!("an ensemble has a member");
    };
    if others.is_empty() {
        return *first;
    }
    let sum = others.iter().fold(*first, |sum, z| sum + *z);
    sum.scale(F::of((logits.len() as f64).recip()))
}

impl<F: Real> Layer<F> for CertifiedEnsemble<F> {}
