//! Tools for tests of laws: random networks with all parameters away from zero, and tolerances for
//! δ.

pub use crate::problems::{Loss, Problem, example, problems};

use emmy::init;
use emmy::nn::{Activation, Conv, GraphNet, GraphNetConfig, Mlp, Module, Pass, Trace, Traced};
use emmy::symmetry::{Law, Residual, Symmetry};
use emmy::{Real, Tape, Tensor, Var};
use proptest::prelude::*;
use proptest::test_runner::contextualize_config;

/// A network with outputs for a problem.
pub trait Network<F: Real>: Module<F> {
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

/// The tolerance for the relative δ of a law.
///
/// Single precision reaches it because features and parameters, and so all that is between, are of size about
/// 1, whatever the depth: δ is a difference of sums of a few hundred products, each rounded to one part in
/// 10⁷.
pub fn tolerance<F: Real>() -> f64 {
    if F::NAME == "f64" { 1e-10 } else { 1e-3 }
}

/// The largest relative δ of any entry of any law at one point, up to what rounding leaves
/// ([`Residual::worst_above`]): of the largest terms in the network, and of numbers too small to be of full
/// precision; of a sum over classes, of p − y, for p and y are numbers of size up to 1 before they cancel.
pub fn worst<F: Real>(laws: &[Law], net: &impl Module<F>, gradients: &[Tensor<F>]) -> f64 {
    let all: Vec<Residual> = laws.iter().map(|l| measure(l, net, gradients)).collect();
    let (epsilon, smallest) = (F::epsilon().as_f64(), F::min_positive_value().as_f64());
    let rest = epsilon * largest(&all) + smallest;
    let rest = |law: &Law| match law.symmetry {
        Symmetry::Translation => 64.0 * epsilon,
        _ => rest,
    };
    let each = laws.iter().zip(&all);
    let each = each.map(|(law, m)| m.worst_above(rest(law) / tolerance::<F>()));
    each.fold(0.0, worse)
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
/// this one, and fails if it has to do so too often ([`cases`]).
#[track_caller]
#[must_use]
pub fn holds_or_is_empty<F: Real>(
    laws: &[Law],
    net: &impl Network<F>,
    problem: &Problem,
) -> Vec<String> {
    let (_, gradients) = point(net, problem);
    let found = worst(laws, net, &gradients);
    let name = F::NAME;
    assert!(
        found <= tolerance::<F>(),
        "a relative δ of {found} in {name}"
    );
    let zero = |law: &&Law| measure(law, net, &gradients).size.iter().all(|&s| s == 0.0);
    laws.iter().filter(zero).map(|l| l.name.clone()).collect()
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

/// The activations that are homogeneous of degree 1.
pub fn homogeneous() -> impl Strategy<Value = Activation> {
    prop::sample::select(vec![
        Activation::Identity,
        Activation::Relu,
        Activation::LeakyRelu { slope: 0.2 },
        Activation::LeakyRelu { slope: -0.5 },
    ])
}

/// The kinds of graph layers.
pub const CONVS: [Conv; 4] = [Conv::GCN, Conv::GAT, Conv::gatv2(true), Conv::gatv2(false)];

/// Networks of all kinds of layers, without dropout; `inputs` is that of the problem, so set it.
pub fn graph_nets() -> impl Strategy<Value = GraphNetConfig> {
    let conv = prop::sample::select(&CONVS[..]);
    let sizes = (1_usize..6, 2_usize..5, 2_usize..6, 1_usize..4, 1_usize..4);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    let slopes = prop::sample::select(vec![0.2, -0.5, 0.0]);
    (conv, sizes, homogeneous(), flags, slopes).prop_map(
        |(conv, (hidden, classes, layers, heads, output_heads), activation, flags, slope)| {
            GraphNetConfig {
                hidden,
                classes,
                layers,
                activation,
                dropout: 0.0,
                self_loops: flags.2,
                ..GraphNetConfig::gcn(1, classes)
            }
            .of(conv)
            .heads(heads, output_heads)
            .attending(|a| {
                a.dropout = 0.0;
                a.residual = flags.1;
                a.slope = slope;
            })
            .biased(flags.0)
        },
    )
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

/// The number of cases of a property. Failing cases are not stored, since a case is determined by
/// its seed.
///
/// A property that discards the cases where a law holds by 0 = 0 fails if they are more than half as many as
/// those to be tried (and twenty, for a run of few cases).
pub fn cases(cases: u32) -> ProptestConfig {
    let config = contextualize_config(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    ProptestConfig {
        max_global_rejects: config.cases / 2 + 20,
        ..config
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
