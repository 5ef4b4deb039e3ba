//! Several certified models as one.

use super::{CertifiedConfig, CertifiedLanguageModel};
use emmy::Var;
use emmy::error::{Error, Result};
use emmy::lipschitz::Upper;
use emmy::nn::{Layer, Pass};
use emmy::real::Real;

/// The mean of the logits of M models ("members"), each with its own vectors of symbols:
///
/// ```text
/// x = [x¹, .., xᴹ]               the vectors of a symbol, one per member, side by side
/// z = (1/M) Σ_m z_m(xᵐ)
/// ```
///
/// If z_m has constant L_m, the constant of z is at most √(Σ_m L_m²) / M, so at most L / √M if none is above
/// L: ‖z(x) − z(y)‖ ≤ (1/M) Σ_m L_m ‖xᵐ − yᵐ‖, and by Cauchy and Schwarz this is at most
/// (1/M) √(Σ_m L_m²) ‖x − y‖. Two members z_m(x) = x reach the bound. The vectors of two symbols are also
/// about √M times as far apart as those of one member.
///
/// The softmax of the mean is the normalised geometric mean of the members' probabilities. The mean usually
/// predicts better than one member if the members were trained independently (other weights at the start,
/// other batches), because then their errors differ.
///
/// ```
/// use emmy::lipschitz::Upper;
/// use emmy::nn::Pass;
/// use papers::certified::{CertifiedConfig, CertifiedEnsemble, CertifiedLanguageModel};
/// use emmy::Tape;
/// let member = |seed| CertifiedLanguageModel::<f64>::new(CertifiedConfig::new(10, 8, 1, 16), seed);
/// let model = CertifiedEnsemble::of(vec![member(0)?, member(1)?, member(2)?, member(3)?])?;
/// let tape = Tape::new();
/// let z = model.forward(&Pass::eval(&tape, &model), &[1, 2, 3, 4], 2);
/// assert_eq!(z.shape(), [2, 2, 10]);
/// assert!(model.certificate(8)? <= Upper::new(2.0 / 2.0));
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct CertifiedEnsemble<F: Real> {
    members: Vec<CertifiedLanguageModel<F>>,
}
emmy::module!(CertifiedEnsemble: members);

impl<F: Real> CertifiedEnsemble<F> {
    /// The mean of these models.
    ///
    /// # Errors
    /// If there is no model, or two have different configurations.
    pub fn of(members: Vec<CertifiedLanguageModel<F>>) -> Result<Self> {
        let Some(first) = members.first() else {
            return Err(Error::invalid("members", "at least 1", "0"));
        };
        let expected = first.config;
        if let Some(m) = members.iter().position(|net| net.config != expected) {
            let (what, found) = (format!("configuration of member {m}"), members[m].config);
            let expected = format!("that of the first member, {expected:?}");
            return Err(Error::invalid(what, expected, format!("{found:?}")));
        }
        Ok(Self { members })
    }

    /// The members, at least one.
    pub fn members(&self) -> &[CertifiedLanguageModel<F>] {
        &self.members
    }

    /// Takes the members out of the mean.
    pub fn into_members(self) -> Vec<CertifiedLanguageModel<F>> {
        self.members
    }

    /// The configuration of each member.
    pub fn config(&self) -> &CertifiedConfig {
        &self.members[0].config
    }

    /// The logits `[sequences, length, symbols]` of `sequences` sequences of equal length, which follow one
    /// another in `symbols`.
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
            mean(members.map(|net| net.forward(pass, symbols, sequences)))
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

    /// z as a function of x.
    ///
    /// # Panics
    /// If the shapes do not fit, or a sequence is longer than the context.
    #[track_caller]
    pub fn of_embedded<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let features = self.config().features;
            let (found, expected) = (x.shape().last().copied(), self.members.len() * features);
            assert_eq!(
                found,
                Some(expected),
                "CertifiedEnsemble: x {:?} needs {expected} features",
                x.shape()
            );
            let members = self.members.iter().enumerate();
            mean(members.map(|(m, net)| {
                net.of_embedded(pass, x.slice(-1, m * features..(m + 1) * features))
            }))
        })
    }

    /// The certificate: an upper bound of the constant of the logits of n symbols as a function of x, in the
    /// 2-norm, computed from the present weights. It is at most L / √M.
    ///
    /// # Errors
    /// If a weight is not a finite number.
    ///
    /// # Panics
    /// If n is larger than the context.
    #[track_caller]
    pub fn certificate(&self, n: usize) -> Result<Upper> {
        let mut squares = Upper::ZERO;
        for net in &self.members {
            squares = squares + net.certificate(n)?.square();
        }
        let share: F = share(self.members.len());
        Ok(squares.sqrt() * Upper::new(share.as_f64()))
    }

    /// [Tightens](CertifiedLanguageModel::tighten) each member: the certificate of each is then just below
    /// L, and that of the mean just below L / √M.
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

/// 1/M as the model stores it.
fn share<F: Real>(members: usize) -> F {
    F::of((members as f64).recip())
}

/// The mean of the members' logits; those of a single member are not touched.
fn mean<'t, F: Real>(logits: impl ExactSizeIterator<Item = Var<'t, F>>) -> Var<'t, F> {
    let members = logits.len();
    let sum = logits.reduce(|sum, z| sum + z);
    let sum = sum.expect("an ensemble has a member");
    match members {
        1 => sum,
        _ => sum.scale(share(members)),
    }
}

impl<F: Real> Layer<F> for CertifiedEnsemble<F> {}
