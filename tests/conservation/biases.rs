//! Biases that move together without effect.

use crate::compositions::{Composition, any_loss, conserved, is_whole, linear, listed};
use emmy::nn::{
    BatchNorm, Fields, Layer, LayerNorm, Linear, Module, Params, Pass, Trace, discover,
};
use emmy::symmetry::{Law, Passage, Ports, Search};
use emmy::{Real, Tape, Tensor, Var, init};
use proptest::prelude::*;

/// A stream to which blocks add, each of which reads it through a batch norm; the readout reads it as it is,
/// or through a norm too.
#[derive(Debug, Clone)]
struct Stream<F: Real> {
    embed: Linear<F>,
    norms: Vec<BatchNorm<F>>,
    blocks: Vec<Linear<F>>,
    last: Option<BatchNorm<F>>,
    readout: Linear<F>,
    seed: u64,
}
emmy::module!(Stream: embed, norms, blocks, last, readout);

impl<F: Real> Stream<F> {
    fn draw(normed: bool, seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        Self {
            embed: linear(3, 4, true, rng),
            norms: (0..2).map(|_| BatchNorm::new(4)).collect(),
            blocks: (0..2).map(|_| linear(4, 4, true, rng)).collect(),
            last: normed.then(|| BatchNorm::new(4)),
            readout: linear(4, 2, true, rng),
            seed,
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let x: Tensor<F> = init::normal(&[7, 3], 1.0, &mut init::rng(seed));
        let mut x = self.embed.forward(pass, pass.tape().constant(x));
        for (norm, block) in self.norms.iter().zip(&self.blocks) {
            x = x + block.forward(pass, norm.forward(pass, x).relu());
        }
        let x = self.last.as_ref().map_or(x, |norm| norm.forward(pass, x));
        self.readout.forward(pass, x)
    }
}

impl<F: Real> Composition<F> for Stream<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        // A training pass: in an evaluation the norms are affine maps.
        any_loss(self.output(pass, self.seed), self.seed)
    }
}

proptest! {
    #![proptest_config(crate::support::proptest_cases(20))]

    /// What one writer adds, the next can subtract, since between them every reader is a norm.
    #[test]
    fn writers_of_a_stream_can_cancel_each_other(seed: u64) {
        let draw = |seed| {
            let mut net = Stream::<f64>::draw(false, seed);
            net.norms.iter_mut().for_each(|norm| norm.running = None);
            net
        };
        let net = draw(seed);
        let laws = Trace::of(&net, |pass| net.output(pass, seed)).laws();
        let biases: Vec<Law> = laws.iter().filter(|law| law.name.contains("bias")).cloned().collect();
        prop_assert_eq!(listed(&net, &biases), [
            "block 1, bias, against embed: G of blocks.0.bias[j] − G of embed.bias[j] = 0",
            "block 2, bias, against embed: G of blocks.1.bias[j] − G of embed.bias[j] = 0",
        ]);
        let mut single = Stream::<f32>::draw(false, seed);
        single.norms.iter_mut().for_each(|norm| norm.running = None);
        conserved(&net, &single, &laws);
    }
}

/// The lists are whole: the search finds no other law.
#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn lists_are_whole() {
    for (normed, count) in [(false, 2 * 4 + 2 * 4), (true, 3 * 4 + 2 * 4 + 4)] {
        let net = Stream::<f64>::draw(normed, 0);
        let found = discover(&net, &Search::default(), |pass, seed| {
            net.output(pass, seed)
        });
        is_whole(&found, count, &format!("stream, {normed}"));
    }
}

/// A block reads the stream behind a LayerNorm, the readout as it is.
struct Block {
    embed: Linear<f64>,
    norm: LayerNorm<f64>,
    block: Linear<f64>,
    readout: Linear<f64>,
}
emmy::module!(Block for f64: embed, norm, block, readout);

impl Block {
    fn draw() -> Self {
        let rng = &mut init::rng(0);
        Self {
            embed: linear(3, 4, true, rng),
            norm: LayerNorm::new(4),
            block: linear(4, 4, true, rng),
            readout: linear(4, 2, true, rng),
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, f64>, seed: u64) -> Var<'t, f64> {
        self.behind(pass, seed, |x| x)
    }

    /// The output with another function behind the embedding.
    fn behind<'t>(
        &self,
        pass: &Pass<'t, '_, f64>,
        seed: u64,
        f: impl FnOnce(Var<'t, f64>) -> Var<'t, f64>,
    ) -> Var<'t, f64> {
        let x = init::normal(&[7, 3], 1.0, &mut init::rng(seed));
        let x = f(self.embed.forward(pass, pass.tape().constant(x)));
        let x = x + self.block.forward(pass, self.norm.forward(pass, x));
        self.readout.forward(pass, x)
    }
}

/// A layer that multiplies the rows, and says that a shift of each row stays one.
struct Doubled;

impl Module<f64> for Doubled {
    fn collect<'a>(&'a self, _: &mut Fields<&'a Tensor<f64>>) {}
    fn collect_mut<'a>(&'a mut self, _: &mut Fields<&'a mut Tensor<f64>>) {}
}

impl Layer<f64> for Doubled {
    fn ports(&self, _: &Params<'_, f64>) -> Option<Ports> {
        Some(Ports::passing(Passage::ROWS))
    }
}

/// What a number is behind such a layer, its passage does not say.
#[test]
fn n_behind_a_layer_that_mixes_rows_biases_do_not_cancel() {
    let net = Block::draw();
    let trace = Trace::of(&net, |pass| {
        net.behind(pass, 0, |x| pass.call(&Doubled, &[x], || x * 2.0))
    });
    let laws = trace.laws();
    let biases = laws.iter().filter(|law| law.name.contains("bias"));
    assert_eq!(biases.count(), 0);
}

/// One number that the embedding adds to all neurons passes the norm, and the block can subtract it. A
/// number per neuron does not pass.
#[test]
fn the_sum_of_a_bias_passes_a_norm_that_removes_the_mean() {
    let net = Block::draw();
    let laws = Trace::of(&net, |pass| net.output(pass, 0)).laws();
    let biases = laws.iter().filter(|law| law.name.contains("bias"));
    let biases: Vec<Law> = biases.cloned().collect();
    assert_eq!(
        listed(&net, &biases),
        ["block, bias, against embed, sum: Σ G of block.bias − Σ G of embed.bias = 0"]
    );
    let tape = Tape::new();
    let pass = Pass::train(&tape, &net, 0);
    let gradients = pass.gradients(any_loss(net.output(&pass, 0), 0));
    let found = biases[0].measure(&net.tensors(), &gradients);
    let terms = [&net.embed, &net.block].map(|map| {
        let bias = map.bias.as_ref().unwrap();
        let at = net.tensors().iter().position(|t| std::ptr::eq(*t, bias));
        gradients[at.unwrap()].sum()
    });
    assert!(terms[0].abs() > 1e-3, "{terms:?}");
    assert!(found.delta[0].abs() < 1e-12, "{found:?}");
}

#[test]
#[ignore = "takes seconds: cargo test -- --include-ignored"]
fn with_the_sum_the_list_is_whole() {
    let net = Block::draw();
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, seed)
    });
    is_whole(&found, found.declared, "a block behind a norm");
}
