//! The norm of learnt groups.

use crate::compositions::{Composition, any_loss, conserved, is_whole, linear, listed};
use emmy::autodiff::check_grads;
use emmy::nn::{GraphNet, GraphNetConfig, Linear, Module, Pass, Trace, discover};
use emmy::symmetry::Search;
use emmy::{Real, Tape, Tensor, Var, init};
use papers::layers::{DiffGroupNorm, DiffGroupOptions};
use proptest::prelude::*;

/// y = x + λ Σ_g BN_g(s_g ⊙ x) by loops.
#[test]
fn the_norm_of_learnt_groups_is_its_formula() {
    let (n, d, groups, scale) = (7, 3, 2, 0.3);
    let layer = DiffGroupNorm::<f64>::new(d, groups, scale, &mut init::rng(1));
    let h: Tensor<f64> = init::normal(&[n, d], 1.0, &mut init::rng(9));
    let tape = Tape::new();
    let y = layer
        .forward(&Pass::train(&tape, &layer, 0), tape.constant(&h))
        .value();
    let u = &layer.groups.weight;
    let share = |i: usize, g: usize| {
        let e = |g: usize| (0..d).map(|k| h[[i, k]] * u[[g, k]]).sum::<f64>().exp();
        e(g) / (0..groups).map(e).sum::<f64>()
    };
    for i in 0..n {
        for k in 0..d {
            let term = |g: usize| {
                let part = |i: usize| share(i, g) * h[[i, k]];
                let mean = (0..n).map(part).sum::<f64>() / n as f64;
                let var = (0..n).map(|i| (part(i) - mean).powi(2)).sum::<f64>() / n as f64;
                (part(i) - mean) / (var + 1e-5).sqrt()
            };
            let expected = h[[i, k]] + scale * (0..groups).map(term).sum::<f64>();
            assert!((y[[i, k]] - expected).abs() < 1e-12);
        }
    }
    let inputs = [
        vec![h.clone()],
        layer.tensors().into_iter().cloned().collect(),
    ]
    .concat();
    check_grads(
        |args| {
            let pass = Pass::bound(args[0].tape(), &layer, &args[1..]);
            layer.forward(&pass, args[0])
        },
        &inputs,
    )
    .unwrap();
}

#[test]
fn a_configuration_names_it() {
    let options = DiffGroupOptions {
        groups: 3,
        scale: 0.1,
    };
    assert_eq!(options.norm(), options.norm());
    let config = GraphNetConfig {
        norm: Some(options.norm()),
        ..GraphNetConfig::gcn(5, 2)
    };
    let net = GraphNet::<f32>::new(config, 0).unwrap();
    let norm: &DiffGroupNorm<f32> = net.norms[0].downcast_ref().unwrap();
    assert_eq!(norm.groups.weight.shape(), [3, 16]);
    for (groups, scale) in [(0, 0.1), (3, f64::NAN)] {
        let norm = DiffGroupOptions { groups, scale }.norm();
        assert!(norm.validate(4).is_err(), "{groups} groups, {scale}");
    }
}

/// Two maps around a norm of learnt groups.
#[derive(Debug, Clone)]
struct Groups<F: Real> {
    first: Linear<F>,
    norm: DiffGroupNorm<F>,
    last: Linear<F>,
    seed: u64,
}
emmy::module!(Groups: first, norm, last);

impl<F: Real> Groups<F> {
    fn draw(seed: u64) -> Self {
        let rng = &mut init::rng(seed);
        let mut norm = DiffGroupNorm::new(3, 3, 0.5, rng);
        // In every pass the statistics of its rows.
        norm.norm.running = None;
        Self {
            first: linear(2, 3, true, rng),
            norm,
            last: linear(3, 2, true, rng),
            seed,
        }
    }

    fn output<'t>(&self, pass: &Pass<'t, '_, F>, seed: u64) -> Var<'t, F> {
        let x: Tensor<F> = init::normal(&[7, 2], 1.0, &mut init::rng(seed));
        let x = self.first.forward(pass, pass.tape().constant(x));
        self.last.forward(pass, self.norm.forward(pass, x).relu())
    }
}

impl<F: Real> Composition<F> for Groups<F> {
    fn loss<'t>(&self, pass: &Pass<'t, '_, F>) -> Var<'t, F> {
        any_loss(self.output(pass, self.seed), self.seed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_share_what_they_add(seed: u64) {
        let net = Groups::<f64>::draw(seed);
        let laws = Trace::of(&net, |pass| net.output(pass, seed)).laws();
        prop_assert_eq!(listed(&net, &laws), [
            "norm, shares: Σ G of norm.groups.weight[:,j] = 0",
            "norm, biases: 2 G of norm.norm.bias[3+j] − 2 G of norm.norm.bias[j] = 0",
            "norm, biases: 2 G of norm.norm.bias[6+j] − 2 G of norm.norm.bias[j] = 0",
        ]);
        conserved(&net, &Groups::<f32>::draw(seed), &laws);
    }
}

/// The list is whole: the search finds no other law.
#[test]
fn the_list_is_whole() {
    let net = Groups::<f64>::draw(0);
    let found = discover(&net, &Search::default(), |pass, seed| {
        net.output(pass, seed)
    });
    is_whole(&found, 3 + 6, "groups");
}
