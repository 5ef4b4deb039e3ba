//! Layers of different kinds in a row, heads side by side or averaged in any of them.

use crate::support::*;
use emmy::graph::Neighbourhood;
use emmy::init;
use emmy::nn::{
    Activation, AttentionOptions, ConvOptions, GatConv, Gatv2Conv, GcnConv, GraphLayer, Heads,
    Module, Pass, Trace, Traced,
};
use emmy::symmetry::Side;
use emmy::{Real, Var};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// The description of a layer: its kind as in [`CONVS`], the width of a head, and options.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    pub kind: usize,
    pub width: usize,
    pub options: AttentionOptions,
}

impl Made {
    /// The width of its output.
    pub fn output(&self) -> usize {
        match self.kind {
            0 => self.width,
            _ => self.options.output(self.width),
        }
    }

    /// The number of laws about its neurons.
    fn laws(&self) -> usize {
        match (self.kind, self.options.join) {
            (0, _) | (_, Heads::Average) => 1,
            _ => self.options.heads,
        }
    }

    pub fn layer<F: Real>(&self, input: usize) -> GraphLayer<F> {
        let (width, options, rng) = (self.width, self.options, &mut init::rng(0));
        match self.kind {
            0 => Box::new(GcnConv::new(input, width, options.bias, rng)),
            1 => Box::new(GatConv::new(input, width, options, rng)),
            k => Box::new(Gatv2Conv::new(input, width, k == 2, options, rng)),
        }
    }
}

/// A layer of any kind.
pub fn made() -> impl Strategy<Value = Made> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (0..CONVS.len(), 1_usize..5, 1_usize..4, flags).prop_map(|(kind, width, heads, flags)| {
        let (average, bias, residual) = flags;
        let options = AttentionOptions {
            heads,
            join: if average {
                Heads::Average
            } else {
                Heads::Concatenate
            },
            bias,
            residual,
            ..AttentionOptions::default()
        };
        Made {
            kind,
            width,
            options,
        }
    })
}

#[derive(Debug, Clone)]
struct Chain<F: Real> {
    layers: Vec<GraphLayer<F>>,
    activation: Activation,
}
emmy::module!(Chain: layers);

impl<F: Real> Network<F> for Chain<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        // The neighbourhood has the self-loops of the graph.
        let neighbours = &Neighbourhood::of(problem.graph.clone());
        let mut x = problem.input(pass.tape());
        for layer in &self.layers[..self.layers.len() - 1] {
            let y = layer.forward(pass, x, neighbours);
            x = self.activation.apply(y).into();
        }
        self.layers[self.layers.len() - 1].forward(pass, x, neighbours)
    }
}

impl<F: Real> Traced<F> for Chain<F> {
    fn trace(&self) -> Trace {
        // Its first weight reads the features.
        let inputs = *self.tensors()[0].shape().last().expect("a matrix");
        trace_on(self, &example(inputs, Loss::Smooth, 0))
    }
}

fn chain<F: Real>(all: &[Made], activation: Activation, inputs: usize, seed: u64) -> Chain<F> {
    let widths = all.iter().map(Made::output);
    let fed = std::iter::once(inputs).chain(widths);
    let layers = all.iter().zip(fed).map(|(m, input)| m.layer(input));
    let mut chain = Chain {
        layers: layers.collect(),
        activation,
    };
    draw_all(&mut chain, seed);
    chain
}

proptest! {
    #![proptest_config(proptest_cases(300))]

    /// C6: an averaged neuron is scaled in all its heads at once, and has one law; neurons of heads side by
    /// side have one each.
    #[test]
    fn of_any_layers_keep_their_laws(
        (problem, all, activation) in (problems(), vec(made(), 2..5), homogeneous()),
        // Factors from 10⁻² to 10².
        moves in vec((any::<Index>(), any::<Index>(), -4.605..4.605), 1..4),
        seed in any::<u64>(),
    ) {
        let net: Chain<f64> = chain(&all, activation, problem.inputs, seed);
        let hidden = &all[..all.len() - 1];
        let neurons: usize = hidden.iter().map(Made::laws).sum();
        let linear = hidden.iter().filter(|made| made.kind < 2);
        let spaces: usize = linear.map(Made::laws).sum();
        let spaces = if activation == Activation::Identity { spaces } else { 0 };
        prop_assert_eq!(net.laws().len(), neurons + spaces);
        prop_assume!(holds_or_is_empty(&net.laws(), &net, &problem).is_empty());
        let single: Chain<f32> = chain(&all, activation, problem.inputs, seed);
        prop_assume!(holds_or_is_empty(&single.laws(), &single, &problem).is_empty());
        let laws = net.laws();
        let moves: Vec<_> = moves.iter().map(|(law, entry, t)| {
            let law = law.get(&laws);
            (law, entry.index(law.entries()), *t)
        }).collect();
        stays(&mut net.clone(), &problem, &moves);
    }
}

#[test]
fn no_head_of_an_averaged_neuron_can_be_left_out() {
    let options = AttentionOptions {
        heads: 2,
        join: Heads::Average,
        bias: false,
        ..AttentionOptions::default()
    };
    for kind in 1..4 {
        let hidden = Made {
            kind,
            width: 3,
            options,
        };
        let last = Made {
            kind: 0,
            width: 2,
            options,
        };
        let net: Chain<f64> = chain(&[hidden, last], Activation::Relu, 4, 1);
        let problem = example(4, Loss::Smooth, 2);
        let [law] = &net.laws()[..] else {
            panic!("one averaged layer has one law")
        };
        assert_eq!((law.name.as_str(), law.neurons()), ("layer 1, neurons", 3));
        holds(std::slice::from_ref(law), &net, &problem);
        // Head 1 alone: the first half of every parameter of the layer.
        let mut half = law.clone();
        for term in half.terms.iter_mut().filter(|t| t.side != Side::Outgoing) {
            term.slice.range = 0..3;
            term.slice.shape = [1, 6, term.slice.shape[2]];
        }
        assert_ne!(&half, law);
        let (_, gradients) = point(&net, &problem);
        assert!(measure(&half, &net, &gradients).worst() > 1e-2);
    }
}
