//! A graph layer before a norm: C18 and C19 with attention, whose scores a factor of the weights must not
//! change either.

use crate::cases::cases;
use crate::chains::{Made, made};
use crate::support::*;
use emmy::graph::Neighbourhood;
use emmy::init;
use emmy::nn::{BatchNorm, GraphLayer, Layer, Linear, NormLayer, PairMode, PairNorm, Params, Pass};
use emmy::symmetry::{Law, Slice, Symmetry, Term};
use emmy::{Real, Var};
use proptest::prelude::*;

/// A layer of any kind, a norm, ReLU, and a map.
#[derive(Debug, Clone)]
struct Normalised<F: Real> {
    layer: GraphLayer<F>,
    last: Linear<F>,
    norm: NormLayer<F>,
}
emmy::module!(Normalised: layer, last, norm);

impl<F: Real> Normalised<F> {
    fn new(made: &Made, inputs: usize, norm: NormLayer<F>, seed: u64) -> Self {
        let mut net = Self {
            layer: made.layer(inputs),
            last: Linear::new(made.output(), 3, true, &mut init::rng(0)),
            norm,
        };
        draw_all(&mut net, seed);
        net
    }

    /// C19: incoming entries of a neuron against its attention entries, without outgoing entries.
    fn neurons(&self) -> Law {
        let terms = self
            .layer
            .ports(&Params::of(self))
            .expect("a graph layer")
            .writers;
        Law::new("layer 1, neurons", 1, Symmetry::Rescaling, terms)
    }

    /// C18: the same for all neurons as one.
    fn scale(&self) -> Law {
        let all = |term: Term| {
            let [outer, width, inner] = term.slice.shape;
            let slice = Slice::new(term.slice.parameter, [1, 1, outer * width * inner]);
            Term { slice, ..term }
        };
        let terms = self.neurons().terms.into_iter().map(all).collect();
        Law::new("layer 1, scale", 1, Symmetry::Rescaling, terms)
    }
}

impl<F: Real> Network<F> for Normalised<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let x = problem.input(pass.tape());
        let y = self
            .layer
            .forward(pass, x, &Neighbourhood::of(problem.graph.with_self_loops()));
        self.last.forward(pass, self.norm.forward(pass, y).relu())
    }
}

fn pair<F: Real>() -> NormLayer<F> {
    Box::new(PairNorm {
        eps: 0.0,
        ..PairNorm::new(PairMode::Pn)
    })
}

fn feature<F: Real>() -> NormLayer<F> {
    Box::new(BatchNorm::<F>::plain(0.0))
}

proptest! {
    #![proptest_config(proptest_cases(100))]

    // At least four inputs: with two weights the law leaves one free, and sometimes the remaining
    // gradient is as small as its rounding error.
    #[test]
    fn before_a_norm_the_scale_is_free(
        (made, inputs, seed) in (made(), 4_usize..8, any::<u32>()),
        (loss, entry, t) in (prop::sample::select(&Loss::ALL[..]), any::<prop::sample::Index>(), -4.605..4.605),
    ) {
        let problem = example(inputs, loss, seed.into());
        for (pairs, law) in [(true, Normalised::scale as fn(&_) -> _), (false, Normalised::neurons)] {
            let norm = if pairs { pair() } else { feature() };
            let mut net = Normalised::<f64>::new(&made, inputs, norm, seed.into());
            let law = law(&net);
            // The trace lists the law of neurons head by head.
            let listed = trace_on(&net, &problem).laws().into_iter();
            let listed = listed.filter(|l| l.symmetry == Symmetry::Rescaling);
            prop_assert_eq!(listed.map(|l| l.neurons()).sum::<usize>(), law.neurons());
            prop_assume!(holds_or_is_empty(std::slice::from_ref(&law), &net, &problem).is_empty());
            let norm = if pairs { pair() } else { feature() };
            let single = Normalised::<f32>::new(&made, inputs, norm, seed.into());
            prop_assume!(holds_or_is_empty(std::slice::from_ref(&law), &single, &problem).is_empty());
            stays(&mut net, &problem, &[(&law, entry.index(law.entries()), t)]);
        }
    }
}

/// Laws of the weights alone, without their attention entries, do not hold; nor does the law of a
/// single neuron before PairNorm.
#[test]
fn n_without_attention_or_neuron_by_neuron() {
    for kind in 1..CONVS.len() {
        let made = Made {
            kind,
            width: 4,
            options: Default::default(),
        };
        let (mut weights, mut single) = (Vec::new(), Vec::new());
        for seed in cases(10) {
            let problem = example(4, Loss::Smooth, seed);
            let net = Normalised::<f64>::new(&made, 4, feature(), seed);
            let mut law = net.neurons();
            law.terms.retain(|t| t.weight > 0.0);
            weights.extend(spread(&[law], &net, &problem));
            let net = Normalised::<f64>::new(&made, 4, pair(), seed);
            single.extend(spread(&[net.neurons()], &net, &problem));
        }
        typically(weights, 1e-2, &format!("weights, {kind}"));
        typically(single, 1e-2, &format!("single neurons, {kind}"));
    }
}
