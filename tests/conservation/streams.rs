//! C21: layers that are tied by skip connections have one common law, and no separate laws.

use crate::cases::cases;
use crate::chains::{Made, made};
use crate::support::*;
use emmy::graph::Neighbourhood;
use emmy::init;
use emmy::nn::{
    Activation, AttentionOptions, GraphLayer, Heads, Layer, LayerNorm, Linear, Params, Pass,
};
use emmy::symmetry::{Law, Ports, Symmetry};
use emmy::{Real, Var};
use proptest::prelude::*;

/// The effect of a block f on the stream x.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Skip {
    /// x + σ(f(x))
    Behind,
    /// x + f(σ(x))
    Before,
    /// σ((1 − β) x + β f(x)), the identity map of GCNII (Chen et al., ICML 2020, Eq. (5), without the initial
    /// residual)
    Map(f64),
}

const SKIPS: [Skip; 3] = [Skip::Behind, Skip::Before, Skip::Map(0.4)];

/// A stream that `first` writes, blocks add to and `last` reads.
#[derive(Debug, Clone)]
struct Stream<F: Real> {
    first: Linear<F>,
    blocks: Vec<GraphLayer<F>>,
    last: Linear<F>,
    skip: Skip,
    activation: Activation,
}
emmy::module!(Stream: first, blocks, last);

impl<F: Real> Network<F> for Stream<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let neighbours = &Neighbourhood::of(problem.graph.with_self_loops());
        let sigma = |x| self.activation.apply(x);
        let mut x = self.first.forward(pass, problem.input(pass.tape()));
        for block in &self.blocks {
            let f = |x: Var<'t, F>| block.forward(pass, x, neighbours);
            x = match self.skip {
                Skip::Behind => x + sigma(f(x)),
                Skip::Before => x + f(sigma(x)),
                Skip::Map(beta) => sigma(x.scale(F::of(1.0 - beta)) + f(x).scale(F::of(beta))),
            };
        }
        self.last.forward(pass, x)
    }
}

impl<F: Real> Stream<F> {
    fn new(blocks: &[Made], inputs: usize, skip: Skip, activation: Activation, seed: u64) -> Self {
        let rng = &mut init::rng(0);
        let width = blocks[0].output();
        let mut stream = Self {
            first: Linear::new(inputs, width, true, rng),
            blocks: blocks.iter().map(|made| made.layer(width)).collect(),
            last: Linear::new(width, 3, true, rng),
            skip,
            activation,
        };
        draw_all(&mut stream, seed);
        stream
    }

    /// Of the first layer, the blocks and the last layer.
    fn ports(&self) -> Vec<Ports> {
        let slots = Params::of(self);
        let blocks = self.blocks.iter().map(|block| block.ports(&slots));
        let first = std::iter::once(self.first.ports(&slots));
        let last = std::iter::once(self.last.ports(&slots));
        let all = first.chain(blocks).chain(last);
        all.map(|ports| ports.expect("a layer of the library"))
            .collect()
    }

    /// The one law of the neurons of the stream, as the trace finds it.
    fn law(&self, problem: &Problem) -> Law {
        let mut laws = trace_on(self, problem).laws();
        laws.retain(|law| law.symmetry == Symmetry::Rescaling);
        assert_eq!(laws.len(), 1, "{laws:?}");
        laws.swap_remove(0)
    }
}

/// The law that would hold if only these layers wrote and read a stream.
fn stream_law(name: &str, writers: &[&Ports], readers: &[&Ports]) -> Law {
    let written = writers.iter().flat_map(|ports| &ports.writers);
    let read = readers.iter().flat_map(|ports| &ports.readers[0].terms);
    let terms = written.chain(read).cloned().collect();
    Law::new(name, 1, Symmetry::Rescaling, terms)
}

/// Blocks of one width: heads of `kind` side by side or averaged, then graph convolutions in between.
fn blocks() -> impl Strategy<Value = Vec<Made>> {
    (made(), 1_usize..4).prop_map(|(made, count)| {
        let gcn = Made {
            kind: 0,
            width: made.output(),
            ..made
        };
        let both = [made, gcn];
        (0..count).map(|k| both[k % 2]).collect()
    })
}

proptest! {
    #![proptest_config(proptest_cases(300))]

    #[test]
    fn of_graph_layers_have_one_law_per_coordinate(
        (problem, blocks, activation) in (problems(), blocks(), homogeneous()),
        (skip, seed) in (prop::sample::select(&SKIPS[..]), any::<u64>()),
        (entry, t) in (any::<prop::sample::Index>(), -4.6..4.6),
    ) {
        let mut net: Stream<f64> = Stream::new(&blocks, problem.inputs, skip, activation, seed);
        let law = net.law(&problem);
        prop_assert_eq!(law.neurons(), blocks[0].output());
        prop_assume!(holds_or_is_empty(std::slice::from_ref(&law), &net, &problem).is_empty());
        stays(&mut net, &problem, &[(&law, entry.index(law.neurons()), t)]);
        let net: Stream<f32> = Stream::new(&blocks, problem.inputs, skip, activation, seed);
        prop_assume!(holds_or_is_empty(&[law], &net, &problem).is_empty());
    }
}

fn blocks_of(kind: usize, count: usize) -> Vec<Made> {
    let options = AttentionOptions {
        heads: 2,
        join: Heads::Concatenate,
        ..AttentionOptions::default()
    };
    let width = if kind == 0 { 6 } else { 3 };
    let made = Made {
        kind,
        width,
        options,
    };
    vec![made; count]
}

/// Also the negative row of GCNII: between the first layer and a block with its identity map there is no law
/// C1.
#[test]
fn the_layers_of_a_stream_have_no_laws_of_their_own() {
    for skip in SKIPS {
        for kind in 0..CONVS.len() {
            // For each pair of neighbouring layers alone.
            let mut found = vec![Vec::new(); 4];
            for seed in cases(10) {
                let activation = Activation::LeakyRelu { slope: 0.2 };
                let net = Stream::<f64>::new(&blocks_of(kind, 3), 4, skip, activation, seed);
                let problem = example(4, Loss::Smooth, seed);
                holds(&[net.law(&problem)], &net, &problem);
                let ports = net.ports();
                assert_eq!(ports.len(), found.len() + 1);
                for (pair, found) in ports.windows(2).zip(&mut found) {
                    let law = stream_law("pair", &[&pair[0]], &[&pair[1]]);
                    found.extend(spread(&[law], &net, &problem));
                }
            }
            for (k, found) in found.into_iter().enumerate() {
                typically(found, 0.1, &format!("{skip:?}, {kind}, pair {k}"));
            }
        }
    }
}

#[test]
fn no_writer_or_reader_of_a_stream_can_be_left_out() {
    for skip in SKIPS {
        for kind in 0..CONVS.len() {
            let activation = Activation::LeakyRelu { slope: 0.2 };
            let net = Stream::<f64>::new(&blocks_of(kind, 2), 4, skip, activation, 1);
            let problems = [1, 2, 3].map(|seed| example(4, Loss::Tasks, seed));
            let ports = net.ports();
            let all: Vec<&Ports> = ports.iter().collect();
            let (writers, readers) = (&all[..3], &all[1..]);
            for k in 0..3 {
                let [w, r] = [writers, readers].map(|side| {
                    let mut less = side.to_vec();
                    less.remove(k);
                    less
                });
                let laws = [
                    stream_law("less written", &w, readers),
                    stream_law("less read", writers, &r),
                ];
                for law in laws {
                    let name = format!("{skip:?}, {kind}: {} {k}", law.name);
                    let found = problems
                        .iter()
                        .map(|p| spread(std::slice::from_ref(&law), &net, p));
                    typically(found.flatten().collect(), 0.01, &name);
                }
            }
        }
    }
}

/// The stream of a linear network has a larger symmetry than one factor per coordinate: any matrix.
#[test]
fn the_stream_of_a_linear_network_may_be_mixed() {
    for skip in [Skip::Behind, Skip::Before, Skip::Map(0.4)] {
        for seed in cases(10) {
            let net = Stream::<f64>::new(&blocks_of(0, 3), 4, skip, Activation::Identity, seed);
            let problem = example(4, Loss::Smooth, seed);
            let laws = trace_on(&net, &problem).laws();
            let kinds: Vec<Symmetry> = laws.iter().map(|law| law.symmetry).collect();
            assert_eq!(kinds, [Symmetry::Rescaling, Symmetry::Linear]);
            assert_eq!(laws[1].entries(), 36);
            holds(&laws, &net, &problem);
        }
    }
}

/// Two maps write the stream x + B n(x), with x = A input and n a LayerNorm; the readout reads the stream, or
/// its norm.
#[derive(Debug, Clone)]
struct TwoWriters<F: Real> {
    first: Linear<F>,
    second: Linear<F>,
    norm: LayerNorm<F>,
    /// Whether the norm is after the sum (post-norm), else before the second map.
    behind: bool,
}
emmy::module!(TwoWriters: first, second);

impl<F: Real> Network<F> for TwoWriters<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let x = self.first.forward(pass, problem.input(pass.tape()));
        let norm = |x| self.norm.forward(pass, x);
        match self.behind {
            true => norm(x + self.second.forward(pass, x)),
            false => x + self.second.forward(pass, norm(x)),
        }
    }
}

/// A shift by one writer alone is a law if only a norm, which removes the shift, reads the stream after this
/// writer; the other readers of the stream are before it. If the stream itself is the output, it is not a
/// law.
#[test]
fn one_writer_may_shift_what_only_a_norm_reads() {
    let problem = example(4, Loss::SquaredError, 3);
    let rng = &mut init::rng(0);
    for (behind, shifts) in [(true, 2), (false, 0)] {
        let mut net = TwoWriters::<f64> {
            first: Linear::new(4, 3, true, rng),
            second: Linear::new(3, 3, true, rng),
            norm: LayerNorm::plain(1e-3),
            behind,
        };
        draw_all(&mut net, 5);
        let laws = trace_on(&net, &problem).laws();
        let of_second = |law: &&Law| law.name.starts_with("second, shift");
        let found: Vec<Law> = laws.iter().filter(of_second).cloned().collect();
        assert_eq!(found.len(), shifts, "{behind}: {laws:?}");
        assert!(!laws.iter().any(|law| law.name.starts_with("first, shift")));
        holds(&laws, &net, &problem);
    }
}
