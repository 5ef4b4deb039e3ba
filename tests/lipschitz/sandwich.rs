//! Difference quotient ≤ estimate of the local constant ≤ local bound ≤ bound on a set ≤ global bound, if
//! these bounds exist, for operations, layers and models.

use super::support::cases;
use emmy::init::Rng;
use emmy::lipschitz::{
    Bound, Domain, Lower, Lp, Upper, bound, declare, jacobian_norm, local, quotient,
};
use emmy::tensor::tensor;
use emmy::{Tape, Tensor, Var, init};

/// Rounding of the computed side.
const ROUNDING: f64 = 1e-9;

/// Steps of the attack on a quotient.
const STEPS: usize = 8;

/// A function of one variable, and the shape of its argument.
pub struct Subject<'a> {
    pub name: &'a str,
    pub shape: Vec<usize>,
    pub f: &'a (dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64> + Sync),
    /// Whether it has a bound for all inputs, for inputs of limited rows, and at one input, in the 2-norm.
    pub has: [bool; 3],
}

impl Subject<'_> {
    fn upper(&self, at: &Tensor<f64>, p: Lp, domain: Domain) -> Option<Upper> {
        let tape = Tape::new();
        let x = tape.var(at.clone());
        let y = (self.f)(x);
        bound(y, x, p, domain).ok().map(|b| b.upper())
    }

    /// All inequalities at some random points; sizes differ by point.
    pub fn check(&self, count: u64) {
        for seed in cases(count) {
            let rng = &mut init::rng(seed);
            let spread = [0.1, 1.0, 4.0][seed as usize % 3];
            let x = init::normal(&self.shape[..], spread, rng);
            let radius = rows(&x);
            let tape = Tape::new();
            let v = tape.var(x.clone());
            let y = (self.f)(v);
            let (spectral, jacobian) = jacobian_norm(y, v, Lp::Two);
            for p in Lp::ALL {
                let global = self.upper(&x, p, Domain::Everywhere);
                let limited = self.upper(&x, p, Domain::Rows(radius * (1.0 + 1e-9)));
                let here = self.upper(&x, p, Domain::Here);
                if p == Lp::Two {
                    let has = [global, limited, here].map(|b| b.is_some_and(Upper::is_finite));
                    assert_eq!(has, self.has, "{}: which bounds there are", self.name);
                }
                let at_point = match p {
                    Lp::Two => {
                        let (estimate, upper) = (local(y, v, 30, seed), spectral.upper);
                        assert!(
                            estimate.get() <= upper.get() * (1.0 + ROUNDING),
                            "{}: power iteration {estimate} above {upper}",
                            self.name
                        );
                        spectral.lower
                    }
                    _ => Lower::new(p.matrix(jacobian.view()).get() * (1.0 - 1e-12)),
                };
                self.below(
                    "the norm at a point",
                    at_point,
                    [here, limited, global],
                    p,
                    seed,
                );
                // Quotients of near and of distant points, both of which are moved so that the quotient
                // grows.
                for size in [1e-4, 0.3, 3.0] {
                    let step = init::normal::<f64>(&self.shape[..], size, rng);
                    let other = confined(&x + &step, radius);
                    let quotient = self.attack([x.clone(), other], p, radius, rng);
                    self.below("a quotient", quotient, [limited, global, None], p, seed);
                }
            }
        }
    }

    /// The largest quotient that random steps of two points find, with rows of at most this norm.
    fn attack(&self, mut pair: [Tensor<f64>; 2], p: Lp, radius: f64, rng: &mut Rng) -> Lower {
        let quotient = |[a, b]: &[Tensor<f64>; 2]| quotient(self.f, a, b, p);
        let mut best = quotient(&pair);
        for k in 0..STEPS {
            let apart = rows(&(&pair[1] - &pair[0]).into_shared());
            // Both points together, then one of them.
            let size = if k % 2 == 0 {
                0.2 * radius
            } else {
                0.5 * apart
            };
            let step = init::normal::<f64>(&self.shape[..], size, rng);
            let moved = pair.each_ref().map(|x| confined(x + &step, radius));
            let next = match (k % 2, &pair) {
                (0, _) => moved,
                (_, [a, _]) => [a.clone(), moved[1].clone()],
            };
            let found = quotient(&next);
            if found > best {
                (best, pair) = (found, next);
            }
        }
        best
    }

    fn below(&self, what: &str, lower: Lower, uppers: [Option<Upper>; 3], p: Lp, seed: u64) {
        let mut last = lower.get();
        for upper in uppers.into_iter().flatten() {
            assert!(
                lower.get() <= upper.get() * (1.0 + ROUNDING) + 1e-12,
                "{}, p = {p}, seed {seed}: {what} {lower:.9} above {upper:.9}",
                self.name
            );
            assert!(
                last <= upper.get() * (1.0 + 1e-7) + 1e-12,
                "{}, p = {p}, seed {seed}: a smaller set of inputs has a larger bound, {last} and {upper:.9}",
                self.name
            );
            last = upper.get();
        }
    }
}

/// x, made smaller if a row is longer than the radius.
fn confined(x: ndarray::ArrayD<f64>, radius: f64) -> Tensor<f64> {
    let x = x.into_shared();
    match radius / rows(&x) {
        scale if scale < 1.0 => (x * scale).into_shared(),
        _ => x,
    }
}

fn rows(x: &Tensor<f64>) -> f64 {
    let lanes = x.lanes(ndarray::Axis(x.ndim() - 1));
    let norms = lanes.into_iter().map(|row| row.dot(&row).sqrt());
    norms.fold(0.0, f64::max)
}

use emmy::ndarray;

fn constant<'t>(x: Var<'t, f64>, shape: &[usize], seed: u64) -> Var<'t, f64> {
    x.tape()
        .constant(init::normal(shape, 1.0, &mut init::rng(seed)))
}

fn some() -> Tensor<bool> {
    tensor(&[3], vec![true, false, true])
}

#[test]
fn of_operations() {
    const ALL: [bool; 3] = [true; 3];
    const LIMITED: [bool; 3] = [false, true, true];
    let shape = [4, 3];
    type F = for<'t> fn(Var<'t, f64>) -> Var<'t, f64>;
    let list: Vec<(&str, F, [bool; 3])> = vec![
        ("neg", |x| -x, ALL),
        ("scale", |x| x * -2.5, ALL),
        ("relu", |x| x.relu(), ALL),
        ("leaky_relu", |x| x.leaky_relu(0.2), ALL),
        ("leaky_relu, steep", |x| x.leaky_relu(3.0), ALL),
        ("elu", |x| x.elu(1.0), ALL),
        ("elu, steep", |x| x.elu(2.0), ALL),
        ("gelu", |x| x.gelu(), ALL),
        ("gelu_tanh", |x| x.gelu_tanh(), ALL),
        ("silu", |x| x.silu(), ALL),
        ("tanh", |x| x.tanh(), ALL),
        ("sigmoid", |x| x.sigmoid(), ALL),
        ("softplus", |x| x.softplus(), ALL),
        ("sin", |x| x.sin(), ALL),
        ("abs", |x| x.abs(), ALL),
        ("clamp", |x| x.clamp(-1.0, 0.5), ALL),
        ("mish", |x| x.mish(), ALL),
        ("hardtanh", |x| x.hardtanh(), ALL),
        ("square", |x| x.square(), LIMITED),
        ("exp", |x| (x * 0.3).exp(), LIMITED),
        ("cube", |x| x.powf(3.0), LIMITED),
        ("norm of rows", |x| x.norm(&[1], false), ALL),
        ("norm of columns, kept", |x| x.norm(&[0], true), ALL),
        ("norm", |x| x.frobenius_norm(), ALL),
        (
            "root of a mean square",
            |x| (x.square().mean(&[1], true) * 2.5 + 0.1).sqrt(),
            ALL,
        ),
        (
            "root of a product",
            |x| (x * x).sum(&[1], false).sqrt(),
            ALL,
        ),
        (
            "root of a positive sum",
            |x| (x.sigmoid().sum(&[1], false) + 0.5).sqrt(),
            ALL,
        ),
        (
            "logarithm of a positive sum",
            |x| (x.relu().sum(&[1], false) + 0.5).ln(),
            ALL,
        ),
        (
            "quotient by a positive sum",
            |x| x.tanh() / (x.abs().sum(&[1], true) + 0.5),
            ALL,
        ),
        (
            "quotient of a constant",
            |x| constant(x, &[3], 5) / (x.sigmoid() + 0.2),
            ALL,
        ),
        ("limits", |x| x * x.hardtanh(), LIMITED),
        ("x + x", |x| x + x, ALL),
        ("x sigmoid x", |x| x * x.sigmoid(), LIMITED),
        ("softmax", |x| x.softmax(-1), ALL),
        ("softmax of columns", |x| x.softmax(0), ALL),
        ("log_softmax", |x| x.log_softmax(-1), ALL),
        ("logsumexp", |x| x.logsumexp(-1, false), ALL),
        ("logsumexp of columns", |x| x.logsumexp(0, true), ALL),
        (
            "logsumexp of some",
            |x| x.logsumexp_masked(1, &some(), false),
            ALL,
        ),
        ("sum", |x| x.sum(&[0], false), ALL),
        ("sum of all", |x| x.sum_all(), ALL),
        ("mean", |x| x.mean(&[1], true), ALL),
        ("centred", |x| x - x.mean(&[0], true), ALL),
        ("max", |x| x.max(&[1], false), ALL),
        ("maximum", |x| x.maximum(-x), ALL),
        (
            "broadcast",
            |x| x.reshape(&[1, 4, 3]).broadcast_to(&[5, 4, 3]),
            ALL,
        ),
        ("slice", |x| x.slice(0, 1..3), ALL),
        ("chosen rows", |x| x.index_select(0, vec![0, 0, 0, 1]), ALL),
        ("added rows", |x| x.index_add(0, vec![2, 2, 0, 2], 3), ALL),
        ("concat", |x| Var::concat(&[x, x.relu()], 1), ALL),
        ("matmul", |x| x.matmul(constant(x, &[3, 5], 1)), ALL),
        (
            "matmul from the left",
            |x| constant(x, &[5, 4], 2).matmul(x),
            ALL,
        ),
        (
            "matmul of a batch",
            |x| constant(x, &[2, 5, 4], 2).matmul(x),
            ALL,
        ),
        ("matmul of itself", |x| x.matmul(x.t()), LIMITED),
        ("mul", |x| x * constant(x, &[3], 3), ALL),
        ("div", |x| x / constant(x, &[4, 1], 4), ALL),
        ("layer_norm", |x| x.layer_norm(None, None, 0.1), ALL),
        (
            "layer_norm, gain",
            |x| x.layer_norm(Some(constant(x, &[3], 5)), Some(constant(x, &[3], 6)), 1e-3),
            ALL,
        ),
        // Without a gain, a small bias has little effect.
        (
            "layer_norm, bias",
            |x| x.layer_norm(None, Some(constant(x, &[3], 6) * 1e-3), 0.1),
            ALL,
        ),
        (
            "layer_norm, ε = 0",
            |x| x.layer_norm(None, None, 0.0),
            [false, false, true],
        ),
        ("rms_norm", |x| x.rms_norm(None, 0.1), ALL),
        (
            "attention composed",
            |x| {
                let h = x.matmul(constant(x, &[3, 3], 7));
                h.matmul(x.t()).softmax(-1).matmul(x)
            },
            LIMITED,
        ),
        (
            "attention behind a norm",
            |x| {
                let x = x.layer_norm(None, None, 0.5);
                let h = x.matmul(constant(x, &[3, 3], 7));
                h.matmul(x.t()).softmax(-1).matmul(x)
            },
            ALL,
        ),
        (
            "two layers",
            |x| {
                let h = (x.matmul(constant(x, &[3, 6], 8)) + constant(x, &[6], 9)).relu();
                h.matmul(constant(x, &[6, 2], 10))
            },
            ALL,
        ),
        (
            "two layers with GELU",
            |x| {
                let h = (x.matmul(constant(x, &[3, 6], 8)) + constant(x, &[6], 9)).gelu();
                h.matmul(constant(x, &[6, 2], 10))
            },
            ALL,
        ),
        (
            "two linear layers",
            |x| {
                x.matmul(constant(x, &[3, 6], 11))
                    .matmul(constant(x, &[6, 2], 12))
            },
            ALL,
        ),
        (
            "a residual block",
            |x| {
                x + (x.matmul(constant(x, &[3, 6], 13)).leaky_relu(0.1)).matmul(constant(
                    x,
                    &[6, 3],
                    14,
                ))
            },
            ALL,
        ),
    ];
    for (name, f, has) in list {
        let subject = Subject {
            name,
            shape: shape.to_vec(),
            f: &f,
            has,
        };
        subject.check(6);
    }
}

/// The test of the test: bounds that are one percent too small, at inputs that draws alone rarely meet.
#[test]
fn a_bound_that_is_a_little_too_small_is_found() {
    fn declared<'t>(x: Var<'t, f64>, y: Var<'t, f64>, bound: f64) -> Var<'t, f64> {
        let bound = Bound::number(x.tape(), Upper::new(bound));
        declare(y, &[x], Lp::ALL.map(|p| (p, bound.clone())))
    }
    type F = for<'t> fn(Var<'t, f64>) -> Var<'t, f64>;
    // The largest slope of GELU is 1.1289, at √2, and that of a softmax is ½, at two equal entries alone.
    let wrong: [F; 2] = [
        |x| declared(x, x.gelu(), 1.118),
        |x| declared(x, x.softmax(-1), 0.495),
    ];
    for f in wrong {
        let subject = Subject {
            name: "a wrong bound",
            shape: vec![1, 2],
            f: &f,
            has: [true; 3],
        };
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| subject.check(20)));
        assert!(checked.is_err());
    }
}
