//! A graph layer of a user's own, and the whole test of it: the chapter "Testing your own model" shows this
//! file. It runs where emmy is a dependency.

use emmy::nn::{Layer, Params, Pass};
use emmy::symmetry::Ports;
use emmy::testing::*;
use emmy::{Graph, Tensor, Var, init, lipschitz::Lp, module};
use emmy_strategies::{proptest::prelude::*, *};

/// y = x Wᵀ + (M x) Vᵀ + b with M the matrix of means over the neighbours.
struct Mean {
    own: Tensor<f64>,
    others: Tensor<f64>,
    bias: Tensor<f64>,
}
module!(Mean for f64: own = Weight, others = Weight, bias = Bias);

impl Layer<f64> for Mean {
    fn ports(&self, params: &Params<'_, f64>) -> Option<Ports> {
        let rows = [&self.own, &self.others, &self.bias].map(|p| params.rows(p));
        let columns = [&self.own, &self.others].map(|w| params.columns(w));
        Some(Ports::writes(rows).reads(columns))
    }
}

impl Mean {
    fn new(input: usize, out: usize, rng: &mut init::Rng) -> Self {
        let [own, others] = [(); 2].map(|()| init::xavier_uniform(&[out, input], 1.0, rng));
        Self { own, others, bias: init::normal(&[out], 0.5, rng) }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>, graph: &Graph) -> Var<'t, f64> {
        pass.call(self, &[x], || {
            let mean = pass.tape().sparse(&graph.mean_norm()).matmul(x);
            let y = x.linear(pass.param(&self.own)) + mean.linear(pass.param(&self.others));
            y + pass.param(&self.bias)
        })
    }
}

/// Two layers with a ReLU between them.
struct Net {
    hidden: Mean,
    out: Mean,
}
module!(Net for f64: hidden, out);

impl Net {
    fn new(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        Self { hidden: Mean::new(3, 4, rng), out: Mean::new(4, 2, rng) }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>, graph: &Graph) -> Var<'t, f64> {
        self.out.forward(pass, self.hidden.forward(pass, x, graph).relu(), graph)
    }
}

proptest! {
    #[test]
    fn the_layer_holds(graph in graphs(), seed in seeds()) {
        let (net, x) = (Net::new(seed), init::normal(&[graph.nodes(), 3], 1.0, &mut init::rng(seed)));
        let subject = Subject::on_graph(&net, &x, &graph, seed, |pass, x, graph| net.forward(pass, x, graph));
        prop_assume!(!assert_laws(&subject).is_vacuous());
        assert_invariant(&subject);
        assert_grads(&subject);
        assert_equivariant(&subject);
        assert_lipschitz(&subject, Lp::Two);
        assert_round_trip(&net, &mut Net::new(seed + 1));
    }
}
