//! Tools for tests of laws: random networks with all parameters away from zero, and tolerances for
//! δ.

pub use crate::cases::proptest_cases;
pub use crate::problems::example;
pub use emmy::testing::{Loss, Problem, tolerance};
pub use emmy_strategies::{CONVS, homogeneous, homogeneous_graph_nets, problems};

use emmy::init;
use emmy::nn::{Activation, GraphNet, GraphNetConfig, Mlp, Module, Pass, Trace, Traced};
use emmy::symmetry::{Law, Residual, Symmetry};
use emmy::tensor::scalar;
use emmy::testing::{Subject, Verdict, check_laws_at, check_laws_of};
use emmy::{Real, Tape, Tensor, Var};

/// A network with outputs for a problem.
pub trait Network<F: Real>: Module<F> + Sync {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F>;
}

impl<F: Real> Network<F> for Mlp<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        self.forward(pass, problem.input(pass.tape()))
    }
}

impl<F: Real> Network<F> for GraphNet<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let neighbours = self.config.neighbourhood(&problem.graph);
        self.forward(pass, problem.input(pass.tape()), &neighbours)
    }
}

/// The trace of a network's pass over a problem.
pub fn trace_on<F: Real>(net: &impl Network<F>, problem: &Problem) -> Trace {
    Trace::of(net, |pass| net.outputs(pass, problem))
}

/// The loss of a network in a training pass, and its gradients.
pub fn point<F: Real>(net: &impl Network<F>, problem: &Problem) -> (f64, Vec<Tensor<F>>) {
    let tape = Tape::new();
    let pass = Pass::train(&tape, net, problem.seed);
    let loss = problem.loss.of(net.outputs(&pass, problem), problem.seed);
    (loss.item().as_f64(), pass.gradients(loss))
}

/// δ of one law at one point.
pub fn measure<F: Real>(law: &Law, net: &impl Module<F>, gradients: &[Tensor<F>]) -> Residual {
    law.measure(&net.tensors(), gradients)
}

/// A network on a problem, for the checks of the kit.
pub fn subject<'a, F: Real>(net: &'a impl Network<F>, problem: &'a Problem) -> Subject<'a, F> {
    Subject::without_input(net, problem.seed, |pass| net.outputs(pass, problem))
        .with_loss(problem.loss)
}

/// The largest relative δ of any entry of any law at one point, up to what rounding leaves.
pub fn worst<F: Real>(laws: &[Law], net: &impl Module<F>, gradients: &[Tensor<F>]) -> f64 {
    check_laws_at(laws, net, gradients, 0).worst()
}

fn largest(all: &[Residual]) -> f64 {
    let sizes = all.iter().flat_map(|m| &m.size);
    sizes.fold(0.0, |m: f64, &x| m.max(x))
}

/// The larger of two numbers; NaN is worse than any.
pub fn worse(a: f64, b: f64) -> f64 {
    if b > a || b.is_nan() { b } else { a }
}

/// Asserts that laws hold at a point, and that each has a term there that is not zero: 0 = 0 proves nothing.
#[track_caller]
pub fn holds<F: Real>(laws: &[Law], net: &impl Network<F>, problem: &Problem) {
    let empty = holds_or_is_empty(laws, net, problem);
    let name = F::NAME;
    assert!(empty.is_empty(), "in {name} by 0 = 0 alone: {empty:?}");
}

/// Asserts that laws hold at a point. Returns the names of those that hold by 0 = 0: every term of every
/// entry is zero.
///
/// This is for networks drawn at random, where a layer of ReLU may be dead or no edge may lead to a node. A
/// property test asks with `prop_assume!` that there are none: proptest then draws another case in place of
/// this one, and fails if it has to do so too often ([`proptest_cases`]).
#[track_caller]
#[must_use]
pub fn holds_or_is_empty<F: Real>(
    laws: &[Law],
    net: &impl Network<F>,
    problem: &Problem,
) -> Vec<String> {
    let report = check_laws_of(&subject(net, problem), laws).assert();
    let rows = laws.iter().zip(&report.rows);
    let vacuous = rows.filter(|(_, row)| row.verdict == Verdict::Vacuous);
    vacuous.map(|(law, _)| law.name.clone()).collect()
}

/// The share of all entries of δ that [`worst`] compares with their own terms: those of neurons that are
/// neither dead nor smaller than the rounding of the largest.
pub fn alive<F: Real>(laws: &[Law], net: &impl Network<F>, problem: &Problem) -> f64 {
    let (_, gradients) = point(net, problem);
    let all: Vec<Residual> = laws.iter().map(|l| measure(l, net, &gradients)).collect();
    let floor = F::epsilon().as_f64() * largest(&all) / tolerance::<F>();
    let sizes: Vec<f64> = all.into_iter().flat_map(|m| m.size).collect();
    sizes.iter().filter(|&&s| s > floor).count() as f64 / sizes.len() as f64
}

/// The relative δ of every entry that is not zero to rounding; of a law about a space of neurons the entries
/// off the diagonal, for those on it are about one neuron each.
pub fn spread(laws: &[Law], net: &impl Network<f64>, problem: &Problem) -> Vec<f64> {
    let (_, gradients) = point(net, problem);
    let all: Vec<Residual> = laws.iter().map(|l| measure(l, net, &gradients)).collect();
    let floor = 1e-6 * largest(&all);
    let mut out = Vec::new();
    for (law, measured) in laws.iter().zip(&all) {
        let step = law.neurons() + 1;
        let diagonal = |k: usize| law.symmetry == Symmetry::Linear && k.is_multiple_of(step);
        let entries = measured.relative().into_iter().zip(&measured.size);
        let live = (entries.enumerate()).filter(|&(k, (_, &s))| s > floor && !diagonal(k));
        out.extend(live.map(|(_, (relative, _))| relative));
    }
    out
}

/// Draws every parameter anew: biases and attention too, so that no part of a law is zero.
pub fn draw_all<F: Real>(net: &mut impl Module<F>, seed: u64) {
    let rng = &mut init::rng(seed);
    for parameter in net.tensors_mut() {
        let shape = parameter.shape().to_vec();
        let std = match shape[..] {
            [_, input] => (1.5 / input as f64).sqrt(),
            _ => 0.5,
        };
        *parameter = init::normal(&shape, std, rng);
    }
}

/// Normal numbers of variance 1.
pub fn normal(shape: &[usize], seed: u64) -> Tensor<f64> {
    init::normal(shape, 1.0, &mut init::rng(seed))
}

/// A random smooth function of all outputs, or of their softmax.
pub fn loss_of<'t>(outputs: &[Var<'t, f64>], softmax: bool) -> Var<'t, f64> {
    let mut total = outputs[0].tape().constant(scalar(0.0));
    for (k, &y) in outputs.iter().enumerate() {
        let y = if softmax { y.log_softmax(-1) } else { y };
        let draw = |j: u64| (y.tape()).constant(normal(&y.shape(), 5000 + 10 * k as u64 + j));
        let wave = (y * draw(0) + draw(1)).sin().sum_all();
        total = total + wave + (y * draw(2)).square().sum_all().add_scalar(1.0).ln();
    }
    total
}

/// Multiplies every parameter by `factor`.
pub fn amplify<F: Real>(net: &mut impl Module<F>, factor: f64) {
    for parameter in net.tensors_mut() {
        parameter.mapv_inplace(|x| x * F::of(factor));
    }
}

/// The network of a configuration, with every parameter drawn.
pub fn graph_net<F: Real>(config: GraphNetConfig, seed: u64) -> GraphNet<F> {
    let mut net = GraphNet::new(config, 0).expect("a valid configuration");
    draw_all(&mut net, seed);
    net
}

/// A perceptron from `inputs` over `hidden` to `outputs` with biases, every parameter drawn.
pub fn mlp<F: Real>(widths: &[usize], activation: Activation, bias: bool, seed: u64) -> Mlp<F> {
    let mut net = Mlp::new(widths, activation, bias, &mut init::rng(0));
    draw_all(&mut net, seed);
    net
}

/// Asserts that the median of relative δ is larger than `least`, as for a law that does not hold.
#[track_caller]
pub fn typically(mut found: Vec<f64>, least: f64, what: &str) {
    found.sort_by(f64::total_cmp);
    let median = found[found.len() / 2];
    assert!(
        median > least,
        "{what}: a median of {median} over {}",
        found.len()
    );
}

/// The laws of neurons and of their spaces: all but those of sums of gradients.
pub fn of_neurons(net: &impl Traced<f64>) -> Vec<Law> {
    let mut laws = net.laws();
    laws.retain(|law| law.symmetry != Symmetry::Translation);
    laws
}

/// A law of GATv2 with separate weights as Theorem 6.3 prints it: without the term of the next
/// layer's target weight.
pub fn printed(net: &GraphNet<f64>, law: &Law) -> Law {
    let target = format!("layers.{}.target.weight", law.layer);
    let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
    let mut printed = law.clone();
    printed.terms.retain(|t| names[t.slice.parameter] != target);
    assert_eq!(printed.terms.len() + 1, law.terms.len());
    printed
}

/// Moves a network along entries of laws, by t each, and checks that the parameters change and the
/// loss does not.
#[track_caller]
pub fn stays(net: &mut impl Network<f64>, problem: &Problem, moves: &[(&Law, usize, f64)]) {
    let (before, _) = point(net, problem);
    for &(law, entry, t) in moves {
        let old: Vec<Tensor<f64>> = net.tensors().into_iter().cloned().collect();
        law.transform(&mut net.tensors_mut(), entry, t);
        let moved = net
            .tensors()
            .into_iter()
            .zip(&old)
            .any(|(new, old)| new != old);
        assert!(moved || t == 0.0, "{}: nothing was moved by {t}", law.name);
        let (after, _) = point(net, problem);
        assert!(
            (after - before).abs() <= 1e-9 * before.abs().max(1.0),
            "{}, entry {entry}, by {t}: {before} became {after}",
            law.name
        );
    }
}

/// All kinds of laws.
pub const SYMMETRIES: [Symmetry; 4] = [
    Symmetry::Rescaling,
    Symmetry::Linear,
    Symmetry::Rotation,
    Symmetry::Translation,
];

/// Each by reference, as a model gives its parameters.
pub fn refs<F: Real>(x: &[Tensor<F>]) -> Vec<&Tensor<F>> {
    x.iter().collect()
}
