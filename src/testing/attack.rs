//! An attack on a Lipschitz bound: ascent on inputs, then on pairs of inputs.

use super::quotient::{Steepness, size, steepness};
use super::{Report, Row, Subject, Verdict, worst_weights};
use crate::autodiff::{Tape, grad};
use crate::error::Error;
use crate::init;
use crate::kernels::random::mix;
use crate::lipschitz::{Ascent, Lp, Objective, jacobian_norm};
use crate::nn::Trace;
use crate::optim::{Algorithm, Optimizer};
use crate::real::Real;
use crate::tensor::Tensor;

/// How long a bound is attacked.
///
/// 1. From the subject's input, and from random ones, gradient ascent on the norm of the Jacobian
///    ([`Ascent`]; for p = 1, where there is none, the norm at each start, and nothing for a Jacobian of more
///    than 2¹⁶ entries).
/// 2. Where the ascent did not move, and for p = 1, a search without gradients from the worst of these
///    inputs: each step tries a random change of some entries, and keeps it if the norm grows. The Jacobian
///    of a network of ReLUs is constant between kinks, so its gradient is zero, and only this step leaves
///    the piece at the start.
/// 3. From the worst input and a point beside it, and from random pairs, gradient ascent on the quotient
///    ln ‖f(x) − f(x′)‖ − ln ‖x − x′‖ over both.
/// 4. With [`weights`](Self::weights), from the same pairs, gradient ascent on the quotient over the bound,
///    ln ‖f(x) − f(x′)‖ − ln ‖x − x′‖ − ln L, over both and over the parameters. A bound of the form L(θ) is
///    attacked with the weights for which it is worst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attack {
    /// The number of random starts of each ascent.
    pub restarts: usize,
    /// Steps per start.
    pub steps: usize,
    /// The rate of Adam.
    pub rate: f64,
    /// The standard deviation of the entries of random starts.
    pub spread: f64,
    /// Whether the parameters climb too.
    pub weights: bool,
}

impl Default for Attack {
    /// 3 starts of 60 steps, with the subject's parameters.
    fn default() -> Self {
        Self {
            restarts: 3,
            steps: 60,
            rate: 0.05,
            spread: 1.0,
            weights: false,
        }
    }
}

/// The largest number that an attack found, how, and at which inputs.
struct Found<F> {
    value: f64,
    how: &'static str,
    at: Vec<Tensor<F>>,
}

impl<F: Real> Found<F> {
    fn offer(&mut self, value: f64, how: &'static str, at: &[Tensor<F>]) {
        if value > self.value {
            *self = Self {
                value,
                how,
                at: at.to_vec(),
            };
        }
    }

    /// The inputs, if they are short enough to be read.
    fn inputs(&self) -> String {
        const MOST: usize = 32;
        let numbers: usize = self.at.iter().map(Tensor::len).sum();
        match numbers {
            1..=MOST => self
                .at
                .iter()
                .map(|x| format!("at {x:?}"))
                .collect::<Vec<_>>()
                .join(", "),
            _ => String::new(),
        }
    }
}

/// Jacobians of at most so many entries are computed as a whole.
const SMALL: usize = 1 << 16;

impl Attack {
    /// The largest quotient at the subject's parameters, and the pairs from which the ascent began.
    fn run<F: Real>(
        &self,
        subject: &Subject<'_, F>,
        x: &Tensor<F>,
        p: Lp,
    ) -> (Found<F>, Vec<[Tensor<F>; 2]>) {
        let draw = |k: u64| -> Tensor<F> {
            init::normal(x.shape(), self.spread, &mut init::rng(mix(subject.seed, k)))
        };
        let mut starts = vec![x.clone()];
        starts.extend((0..self.restarts as u64).map(draw));
        let mut found = Found {
            value: 0.0,
            how: "nowhere",
            at: Vec::new(),
        };
        let moved = match p {
            Lp::One => {
                for start in starts {
                    let norm = self.norm(subject, &start, p);
                    found.offer(norm, "the Jacobian at an input", &[start]);
                }
                false
            }
            Lp::Two | Lp::Inf => {
                let steepest = self
                    .ascent(p, self.steps, subject.seed)
                    .from(starts.clone(), |x| subject.evaluate(x));
                let moved = !starts.contains(&steepest.at);
                let at = [steepest.at];
                found.offer(steepest.lower.get(), "the Jacobian after ascent", &at);
                moved
            }
        };
        if !moved {
            self.wander(
                subject,
                found.at.first().unwrap_or(x).clone(),
                p,
                &mut found,
            );
        }
        let worst = found.at.first().unwrap_or(x).clone();
        let pair = |k: u64| {
            let offset = draw(1000 + k);
            let (near, size) = match k {
                0 => (worst.clone(), F::of(1e-3)),
                _ => (draw(2000 + k), F::one()),
            };
            let other = (&near + &offset.mapv(|x| x * size)).into_shared();
            [near, other]
        };
        let pairs: Vec<_> = (0..=self.restarts as u64).map(pair).collect();
        for pair in &pairs {
            let (best, at) = self.climb(subject, pair.clone(), p);
            found.offer(best, "a pair after ascent", &at);
        }
        (found, pairs)
    }

    fn ascent(&self, p: Lp, steps: usize, seed: u64) -> Ascent {
        let objective = match p {
            Lp::Inf => Objective::Inf,
            _ => Objective::Two,
        };
        Ascent {
            restarts: self.restarts,
            steps,
            rate: self.rate,
            spread: self.spread,
            ..Ascent::new(objective, seed)
        }
    }

    /// A lower bound of the norm of the Jacobian at x; 0 for p = 1 if the Jacobian is too large to be
    /// computed as a whole.
    fn norm<F: Real>(&self, subject: &Subject<'_, F>, x: &Tensor<F>, p: Lp) -> f64 {
        if p != Lp::One {
            let here = self.ascent(p, 0, subject.seed);
            let here = here.from(vec![x.clone()], |x| subject.evaluate(x));
            return here.lower.get();
        }
        let tape = Tape::new();
        let at = tape.var(x.clone());
        let y = subject.evaluate(at);
        match y.len() * x.len() {
            0..=SMALL => jacobian_norm(y, at, p).0.lower.get(),
            _ => 0.0,
        }
    }

    /// A search for a larger norm of the Jacobian without gradients, from `best` on: twice as many tries as
    /// an ascent has steps, each a change of a part of the entries by up to three times the spread.
    fn wander<F: Real>(
        &self,
        subject: &Subject<'_, F>,
        mut best: Tensor<F>,
        p: Lp,
        found: &mut Found<F>,
    ) {
        for k in 0..2 * self.steps as u64 {
            let rng = &mut init::rng(mix(subject.seed, 3000 + k));
            let [offset, chosen]: [Tensor<F>; 2] =
                [self.spread, 1.0].map(|spread| init::normal(best.shape(), spread, rng));
            let size = F::of([0.3, 1.0, 3.0][k as usize % 3]);
            // A sixth of the entries, or about half of them.
            let least = F::of([1.0, 0.0][(k / 3) as usize % 2]);
            let mut tried = best.clone();
            tried.zip_mut_with(&offset, |x, &by| *x += size * by);
            let moves = chosen.iter().map(|&c| c >= least);
            let kept = tried.iter_mut().zip(&best).zip(moves);
            kept.filter(|(_, moves)| !moves)
                .for_each(|((x, &old), _)| *x = old);
            let norm = self.norm(subject, &tried, p);
            if norm > found.value {
                found.offer(norm, "the Jacobian after a search", &[tried.clone()]);
                best = tried;
            }
        }
    }

    /// The row of a bound that is `bound` at the subject's parameters, and `given` for all others, or else
    /// read off the model anew.
    #[track_caller]
    fn row<F: Real>(&self, subject: &Subject<'_, F>, p: Lp, bound: f64, given: Option<f64>) -> Row {
        let Some(x) = &subject.x else {
            panic!("check_bound: a subject without an input");
        };
        if x.is_empty() {
            let what = "the input is empty".to_owned();
            return Row::without(formula(p), Verdict::Vacuous, what);
        }
        let y = subject.evaluate(Tape::new().constant(x.clone())).value();
        if !y.iter().all(|y| y.is_finite()) {
            let what = "an output at the input of the subject is not finite";
            return Row::without(formula(p), Verdict::Unknown, what);
        }
        let (found, pairs) = self.run(subject, x, p);
        let mut worst = [found.value, bound];
        let mut how = found.how;
        if self.weights {
            for pair in pairs {
                let climbed =
                    worst_weights::climb((self.steps, self.rate), subject, pair, p, given);
                if climbed[0] / climbed[1] > worst[0] / worst[1] {
                    worst = climbed;
                    how = "a pair and weights after ascent";
                }
            }
        }
        let own = how == found.how;
        let rounding = match &found.at[..] {
            [x, other] if own => reached(subject, &[x.clone(), other.clone()], p).rounding,
            _ => 0.0,
        };
        let row = Row::at_most(formula(p), how, worst);
        match row.verdict {
            Verdict::Fails if own => row.noting(found.inputs()),
            _ if rounding > 0.01 * found.value => row.noting(format!(
                "{rounding:.1e} less than was measured, which may be rounding"
            )),
            _ => row,
        }
    }

    /// The largest quotient on the way up from a pair, and the pair that has it.
    fn climb<F: Real>(
        &self,
        subject: &Subject<'_, F>,
        mut pair: [Tensor<F>; 2],
        p: Lp,
    ) -> (f64, [Tensor<F>; 2]) {
        let mut optimizer = Optimizer::new(Algorithm::ADAM);
        let mut best = (0.0, pair.clone());
        for step in 0..=self.steps {
            let here = reached(subject, &pair, p).found;
            if here > best.0 {
                best = (here, pair.clone());
            }
            if step == self.steps {
                break;
            }
            let tape = Tape::new();
            let at = pair.clone().map(|x| tape.var(x));
            let [y, other] = at.map(|x| subject.evaluate(x));
            let slope = size(y - other, p).ln() - size(at[0] - at[1], p).ln();
            // The optimiser descends. Where two values are equal there is no slope.
            let upward = |g: F| if g.is_finite() { -g } else { F::zero() };
            let gradients = grad(slope, &at).into_iter();
            let gradients: Vec<_> = gradients.map(|g| g.mapv(upward).into_shared()).collect();
            optimizer.step(pair.iter_mut(), &gradients, self.rate);
        }
        best
    }
}

/// [`steepness`] of an evaluation.
fn reached<F: Real>(subject: &Subject<'_, F>, pair: &[Tensor<F>; 2], p: Lp) -> Steepness {
    let tape = Tape::new();
    let values = [0, 1].map(|k| subject.evaluate(tape.var(pair[k].clone())));
    steepness(&tape, values, pair, p)
}

/// Reads the model's Lipschitz bound off an evaluation ([`Trace::lipschitz`]) and attacks it.
///
/// One row: found ≤ L, with r = found / L. A bound that nothing reaches is not wrong, but may be too large
/// by 1 / r. An operation without a bound is unknown, with its place; so is an infinite bound, and a subject
/// without an input.
///
/// [`Subject`](super::Subject) has an example.
#[must_use]
pub fn check_lipschitz<F: Real>(subject: &Subject<'_, F>, p: Lp, attack: &Attack) -> Report {
    let read = match &subject.x {
        Some(x) => {
            let trace = Trace::at(subject.model, x, |pass, x| {
                subject.output(pass, Some(x), None)
            });
            trace.lipschitz(p).map(|interval| interval.upper.get())
        }
        None => Err(Error::invalid(
            "Lipschitz bound",
            "a subject with an input",
            "none",
        )),
    };
    let mut report =
        Report::new("lipschitz", subject.seed).with_options(format_args!("{attack:?}"));
    report.push(match read {
        Ok(bound) if bound.is_finite() => attack.row(subject, p, bound, None),
        Ok(_) => Row::without(
            formula(p),
            Verdict::Unknown,
            "the bound is infinite".to_owned(),
        ),
        Err(why) => Row::without(formula(p), Verdict::Unknown, why.to_string()),
    });
    report
}

/// The same for a bound of your own. With [`Attack::weights`] it must hold for all parameters.
///
/// ```
/// use emmy::{init, lipschitz::Lp, nn::Linear, testing::{Attack, Subject, check_bound}};
/// // A linear map whose largest singular value is 2.
/// let mut net = Linear::<f64>::new(2, 2, false, &mut init::rng(0));
/// net.weight = emmy::tensor::tensor(&[2, 2], vec![2.0, 0.0, 0.0, 1.0]);
/// let x = init::normal(&[1, 2], 1.0, &mut init::rng(1));
/// let subject = Subject::new(&net, &x, 7, |pass, x| net.forward(pass, x));
/// assert!(check_bound(&subject, Lp::Two, 2.0, &Attack::default()).holds());
/// assert!(!check_bound(&subject, Lp::Two, 1.9, &Attack::default()).holds());
/// ```
///
/// # Panics
/// If the subject has no input.
#[track_caller]
#[must_use]
pub fn check_bound<F: Real>(
    subject: &Subject<'_, F>,
    p: Lp,
    bound: f64,
    attack: &Attack,
) -> Report {
    let options = format!("a bound of {bound:?}, p = {p}, {attack:?}");
    let mut report = Report::new("lipschitz", subject.seed).with_options(options);
    report.push(attack.row(subject, p, bound, Some(bound)));
    report
}

fn formula(p: Lp) -> String {
    format!("‖f(x) − f(x′)‖ ≤ L ‖x − x′‖, p = {p}")
}

/// Asserts that a default [`Attack`] does not break the Lipschitz bound that is read off the model.
///
/// # Panics
/// If it does, or there is no bound; the message is the report of [`check_lipschitz`].
#[track_caller]
pub fn assert_lipschitz<F: Real>(subject: &Subject<'_, F>, p: Lp) -> Report {
    check_lipschitz(subject, p, &Attack::default()).assert()
}
