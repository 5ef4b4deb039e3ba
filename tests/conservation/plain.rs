//! Networks as users write them: a struct and a forward function, without any statement about laws.

use crate::cases::cases;
use crate::compositions::listed;
use crate::support::*;
use emmy::nn::Module;
use emmy::nn::{Embedding, LayerNorm, Linear, Pass, Role, Trace};
use emmy::symmetry::Symmetry;
use emmy::{Real, Var, init};

/// A residual, a norm, two activations.
#[derive(Debug, Clone)]
struct Plain<F: Real> {
    first: Linear<F>,
    up: Linear<F>,
    down: Linear<F>,
    norm: LayerNorm<F>,
    inner: Linear<F>,
    last: Linear<F>,
}
emmy::module!(Plain: first, up, down, norm, inner, last);

impl<F: Real> Network<F> for Plain<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let x = self.first.forward(pass, problem.input(pass.tape()));
        let x = x + self.down.forward(pass, self.up.forward(pass, x).relu());
        let y = self.inner.forward(pass, self.norm.forward(pass, x));
        self.last.forward(pass, y.leaky_relu(F::of(0.1)))
    }
}

impl<F: Real> Plain<F> {
    fn new(inputs: usize, eps: f64, seed: u64) -> Self {
        let rng = &mut init::rng(0);
        let norm = LayerNorm::new(5);
        let mut net = Self {
            first: Linear::new(inputs, 5, true, rng),
            up: Linear::new(5, 6, true, rng),
            down: Linear::new(6, 5, true, rng),
            norm: LayerNorm { eps, ..norm },
            inner: Linear::new(5, 4, true, rng),
            last: Linear::new(4, 3, true, rng),
        };
        draw_all(&mut net, seed);
        net
    }
}

#[test]
fn a_network_of_ones_own_gets_its_laws() {
    // `up` reads the stream directly, `inner` reads it through a norm.
    let scale = "first, scale: ⟨first.weight, G⟩ + ⟨first.bias, G⟩ + ⟨down.weight, G⟩ + ⟨down.bias, G⟩ − ⟨up.weight, G⟩ = 0";
    // `down` writes to the stream after `up` has read it, so that only the norm sees its shift.
    let always = [
        "down, shift, 1: Σ G of down.weight[:,j] = 0",
        "down, shift, 2: Σ G of down.bias = 0",
        "first, mean: ⟨P first.weight, G⟩ + ⟨P first.bias, G⟩ + ⟨P down.weight, G⟩ + ⟨P down.bias, G⟩ \
         − ⟨up.weight P, G⟩ = 0, P = 11ᵀ/5",
        "up, neurons: ⟨up.weight[j,:], G⟩ + ⟨up.bias[j], G⟩ − ⟨down.weight[:,j], G⟩ = 0",
        "norm, neurons: ⟨norm.gain[j], G⟩ + ⟨norm.bias[j], G⟩ − ⟨inner.weight[:,j], G⟩ = 0",
        "inner, neurons: ⟨inner.weight[j,:], G⟩ + ⟨inner.bias[j], G⟩ − ⟨last.weight[:,j], G⟩ = 0",
    ];
    for seed in cases(20) {
        let problem = example(4, Loss::ALL[seed as usize % 5], seed);
        for eps in [0.0, 1e-5] {
            let net = Plain::<f64>::new(4, eps, seed);
            let laws = trace_on(&net, &problem).laws();
            let seen = if eps == 0.0 { &[scale][..] } else { &[] };
            assert_eq!(listed(&net, &laws), [seen, &always].concat());
            holds(&laws, &net, &problem);
            holds(&laws, &Plain::<f32>::new(4, eps, seed), &problem);
        }
    }
}

/// The same norm and blocks, with the stream read through norms only: its writers may be shifted,
/// and with ε = 0 scaled.
#[derive(Debug, Clone)]
struct PreNorm<F: Real> {
    first: Linear<F>,
    norms: Vec<LayerNorm<F>>,
    blocks: Vec<Linear<F>>,
    last: Linear<F>,
}
emmy::module!(PreNorm: first, norms, blocks, last);

impl<F: Real> Network<F> for PreNorm<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let mut x = self.first.forward(pass, problem.input(pass.tape()));
        for (norm, block) in self.norms.iter().zip(&self.blocks) {
            // With ReLU, all neurons of a norm are sometimes dead, because the rows of x are similar.
            let y = norm.forward(pass, x).leaky_relu(F::of(0.2));
            x = x + block.forward(pass, y);
        }
        self.last
            .forward(pass, self.norms[self.blocks.len()].forward(pass, x))
    }
}

#[test]
fn a_norm_written_with_operations_is_read_like_a_layer() {
    let draw = |eps, seed| {
        let rng = &mut init::rng(0);
        let mut net = PreNorm::<f64> {
            first: Linear::new(4, 5, true, rng),
            norms: (0..3)
                .map(|_| LayerNorm {
                    eps,
                    ..LayerNorm::new(5)
                })
                .collect(),
            blocks: (0..2).map(|_| Linear::new(5, 5, true, rng)).collect(),
            last: Linear::new(5, 3, true, rng),
        };
        draw_all(&mut net, seed);
        net
    };
    for seed in cases(10) {
        let problem = example(4, Loss::Smooth, seed);
        for (eps, scales) in [(0.0, 1), (0.1, 0)] {
            let net = draw(eps, seed);
            let laws = trace_on(&net, &problem).laws();
            let count = |what: &str| laws.iter().filter(|law| law.name.contains(what)).count();
            // Three writers of the stream with a weight and a bias each.
            assert_eq!(
                (count("shift"), count("scale"), count("neurons")),
                (6, scales, 3)
            );
            holds(&laws, &net, &problem);
        }
    }
}

/// One layer used in two places, in four ways.
#[derive(Debug, Clone)]
struct Tied<F: Real> {
    first: Linear<F>,
    inner: Linear<F>,
    last: Linear<F>,
    way: usize,
}
emmy::module!(Tied: first, inner, last);

impl<F: Real> Network<F> for Tied<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let x = problem.input(pass.tape());
        let first = |x| self.first.forward(pass, x);
        match self.way {
            // On one input, in two branches that one layer reads.
            0 => {
                let (a, b) = (first(x.clone()).relu(), first(x).leaky_relu(F::of(0.2)));
                self.last.forward(pass, a) + self.last.forward(pass, b).tanh()
            }
            // Repeatedly, as in a recurrent network: the layer reads its own output.
            1 => {
                let mut y = first(x).relu();
                for _ in 0..3 {
                    y = self.inner.forward(pass, y).relu();
                }
                self.last.forward(pass, y)
            }
            // By a layer, and also directly.
            2 => {
                let y = first(x).relu();
                let penalty = pass.param(&self.first.weight).tanh().sum_all();
                self.last.forward(pass, self.inner.forward(pass, y).relu()) + penalty
            }
            // Forwards and transposed, as in a tied autoencoder.
            _ => {
                let y = self.inner.forward(pass, first(x).relu()).relu();
                let back = y.matmul(pass.param(&self.inner.weight)).relu();
                self.last.forward(pass, back)
            }
        }
    }
}

#[test]
fn weights_in_two_places_have_no_false_laws() {
    // The number of laws of each way.
    for (way, expected) in [(0, 1), (1, 1), (2, 1), (3, 0)] {
        for seed in cases(20) {
            let problem = example(4, Loss::ALL[seed as usize % 5], seed);
            let rng = &mut init::rng(0);
            let mut net = Tied::<f64> {
                first: Linear::new(4, 5, true, rng),
                inner: Linear::new(5, 5, true, rng),
                last: Linear::new(5, 3, true, rng),
                way,
            };
            draw_all(&mut net, seed);
            let laws = trace_on(&net, &problem).laws();
            let found = listed(&net, &laws);
            assert_eq!(found.len(), expected, "way {way}: {found:?}");
            holds(&laws, &net, &problem);
        }
    }
}

/// Rows of a table, a map and logits by the table itself: the writer of the stream also reads it.
#[derive(Debug, Clone)]
struct TiedHead<F: Real> {
    table: Embedding<F>,
    up: Linear<F>,
    down: Linear<F>,
    tied: bool,
    head: Linear<F>,
}
emmy::module!(TiedHead: table, up, down, head);

impl<F: Real> Network<F> for TiedHead<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let tokens: Vec<usize> = (0..problem.graph.nodes()).map(|i| i * i % 6).collect();
        let x = self.table.forward(pass, &tokens);
        let x = x + self.down.forward(pass, self.up.forward(pass, x).relu());
        match self.tied {
            true => x.linear(pass.param(&self.table.weight)),
            false => self.head.forward(pass, x),
        }
    }
}

#[test]
fn a_tied_head_leaves_the_laws_inside_the_blocks() {
    for (tied, expected) in [
        (
            false,
            vec!["table, neurons", "table, space of neurons", "up, neurons"],
        ),
        (true, vec!["up, neurons"]),
    ] {
        for seed in cases(10) {
            let rng = &mut init::rng(0);
            let mut net = TiedHead::<f64> {
                table: Embedding::new(6, 4, rng),
                up: Linear::new(4, 5, true, rng),
                down: Linear::new(5, 4, true, rng),
                head: Linear::new(4, 3, true, rng),
                tied,
            };
            draw_all(&mut net, seed);
            let problem = example(4, Loss::Smooth, seed);
            let laws = trace_on(&net, &problem).laws();
            let names: Vec<&str> = laws.iter().map(|law| law.name.as_str()).collect();
            assert_eq!(names, expected);
            holds(&laws, &net, &problem);
        }
    }
    let embedding = Embedding::<f64>::new(2, 2, &mut init::rng(0));
    assert_eq!(embedding.parameters()[0].role, Role::Table);
}

/// A traced loss has the laws of the outputs, and those of a loss of their softmax.
#[test]
fn a_loss_of_the_logits_has_the_laws_of_both() {
    let net: emmy::nn::Mlp<f64> = mlp(&[4, 5, 3], emmy::nn::Activation::Relu, true, 1);
    let problem = example(4, Loss::CrossEntropy, 1);
    let loss = Trace::of(&net, |pass| {
        problem.loss.of(net.outputs(pass, &problem), problem.seed)
    });
    let outputs = trace_on(&net, &problem);
    assert_eq!(outputs.laws().len(), 1);
    assert_eq!(outputs.softmax_laws().len(), 2);
    let kinds: Vec<Symmetry> = loss.laws().iter().map(|law| law.symmetry).collect();
    assert_eq!(
        kinds,
        [
            Symmetry::Rescaling,
            Symmetry::Translation,
            Symmetry::Translation
        ]
    );
    holds(&loss.laws(), &net, &problem);
}

/// A layer that reads more than its ports state, and one whose inner values are read from outside: no law is
/// claimed for the streams that they read.
#[derive(Debug, Clone)]
struct Sly<F: Real> {
    first: Linear<F>,
    layer: Linear<F>,
    last: Linear<F>,
    way: usize,
}
emmy::module!(Sly: first, layer, last);

impl<F: Real> Network<F> for Sly<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let x = self.first.forward(pass, problem.input(pass.tape()));
        let mut inside = None;
        let y = pass.call(&self.layer, &[x.relu()], || {
            let y = x.relu().linear(pass.param(&self.layer.weight));
            inside = Some(y.relu());
            match self.way {
                0 => y + x.tanh(),
                _ => y.tanh(),
            }
        });
        let inside = inside.expect("the layer was called");
        match self.way {
            0 => self.last.forward(pass, y.relu()),
            1 => self.last.forward(pass, y.relu()) + inside.sum_all(),
            2 => self.last.forward(pass, inside),
            _ => pass.call(&self.last, &[y], || {
                (y + inside).linear(pass.param(&self.last.weight))
            }),
        }
    }
}

#[test]
fn streams_that_cannot_be_followed_have_no_laws() {
    // The ports of the layer do not mention the tanh of way 1. The trace cannot detect that, but it
    // sees that the inside is read.
    for (way, expected) in [(0, 1), (1, 0), (2, 0), (3, 0)] {
        let rng = &mut init::rng(0);
        let mut net = Sly::<f64> {
            first: Linear::new(4, 5, true, rng),
            layer: Linear::new(5, 5, false, rng),
            last: Linear::new(5, 3, true, rng),
            way,
        };
        draw_all(&mut net, 1);
        let problem = example(4, Loss::Smooth, 1);
        let laws = trace_on(&net, &problem).laws();
        assert_eq!(laws.len(), expected, "{laws:?}");
        if way == 0 {
            assert_eq!(laws[0].name, "layer, neurons");
        }
    }
}
