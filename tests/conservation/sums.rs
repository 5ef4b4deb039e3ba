//! Sums of laws over a layer, and over all layers.

use crate::cases::cases;
use crate::support::*;
use emmy::Tensor;
use emmy::ndarray::Axis;
use emmy::nn::{Activation, Conv, Gatv2Conv, GraphLayer, GraphNet, GraphNetConfig, Module, Traced};
use emmy::symmetry::Law;
use proptest::prelude::*;

/// GATv2 with shared weights and without biases, as in the paper.
fn net(layers: usize, heads: usize, activation: Activation, seed: u64) -> GraphNet<f64> {
    let config = GraphNetConfig {
        layers,
        hidden: 3,
        dropout: 0.0,
        activation,
        ..GraphNetConfig::gcn(4, 3)
    }
    .of(Conv::gatv2(true))
    .heads(heads, 2)
    .biased(false);
    graph_net(config, seed)
}

/// ⟨W^l, G⟩ and ⟨a^l, G⟩ of each layer; with the parameters in place of G, their squared norms.
fn inner(net: &GraphNet<f64>, gradients: Option<&[Tensor<f64>]>) -> Vec<(f64, f64)> {
    let product = |x: &Tensor<f64>, g: &Tensor<f64>| (x * g).sum();
    let of = |(l, layer): (usize, &GraphLayer<f64>)| {
        let layer = layer.downcast_ref::<Gatv2Conv<f64>>().unwrap();
        // Two parameters per layer: W, then a.
        let (w, a) = (&layer.source.weight, &layer.att);
        match gradients {
            Some(g) => (product(w, &g[2 * l]), product(a, &g[2 * l + 1])),
            None => (product(w, w), product(a, a)),
        }
    };
    net.layers.iter().enumerate().map(of).collect()
}

#[track_caller]
fn same(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{a} and {b}");
}

/// Eq. (8): the law of a neuron between the last two layers, each product written as the square of a
/// parameter times its relative gradient: Σ_j w_ij² (g_ij/w_ij) − a_i² (g_i/a_i) = Σ_k w_ki² (g_ki/w_ki).
#[test]
fn by_relative_gradients() {
    for seed in cases(20) {
        let net = net(4, 1, Activation::Relu, seed);
        let (_, g) = point(&net, &example(4, Loss::ALL[0], seed));
        let weights = |l: usize| {
            let layer = net.layers[l].downcast_ref::<Gatv2Conv<f64>>().unwrap();
            [&layer.source.weight, &layer.att]
        };
        let term = |w: f64, g: f64| w * w * (g / w);
        let ([w, a], [next, _]) = (weights(2), weights(3));
        for i in 0..3 {
            let of = |x: &Tensor<f64>, g: &Tensor<f64>, column: bool| -> f64 {
                let lane = |t: &Tensor<f64>| -> Vec<f64> {
                    t.index_axis(Axis(usize::from(column)), i)
                        .iter()
                        .copied()
                        .collect()
                };
                lane(x)
                    .into_iter()
                    .zip(lane(g))
                    .map(|(w, g)| term(w, g))
                    .sum()
            };
            let attention = term(a[[0, i]], g[5][[0, i]]);
            let left = of(w, &g[4], false) - attention;
            // The last layer has two heads with three outputs each, all of which read the neuron.
            same(left, of(next, &g[6], true));
        }
    }
}

proptest! {
    #![proptest_config(proptest_cases(100))]

    /// Eq. (9): ⟨W¹, G⟩ − Σ_l ⟨a^l, G⟩ − ⟨W^L, G⟩ = 0, the sum over all hidden neurons.
    #[test]
    fn over_all_layers_telescope(
        (layers, heads, seed, loss) in (2_usize..6, 1_usize..4, 0_u64..1000, prop::sample::select(&Loss::ALL[..])),
    ) {
        let net = net(layers, heads, Activation::Relu, seed);
        let problem = example(4, loss, seed);
        let (_, g) = point(&net, &problem);
        let sum = Law::sum("all layers", &net.laws());

        let parts = inner(&net, Some(&g));
        let attention: f64 = parts[..layers - 1].iter().map(|(_, a)| a).sum();
        let by_hand = parts[0].0 - attention - parts[layers - 1].0;
        let measured = measure(&sum, &net, &g);
        prop_assert_eq!(measured.delta.len(), 1);
        same(measured.delta[0], by_hand);
        prop_assume!(holds_or_is_empty(std::slice::from_ref(&sum), &net, &problem).is_empty());
        // W¹, an a for each hidden layer, W^L.
        prop_assert_eq!(sum.terms.len(), layers + 1);

        let parts = inner(&net, None);
        let attention: f64 = parts[..layers - 1].iter().map(|(_, a)| a).sum();
        let by_hand = parts[0].0 - attention - parts[layers - 1].0;
        same(sum.balance(&net.tensors()).unwrap()[0], by_hand);
    }

    /// Corollary 2.4: along gradient flow d/dt (‖W^l‖² − ‖a^l‖² − ‖W^{l+1}‖²) = −2δ, the sum over the neurons
    /// of a layer; here that this δ is zero, at any point.
    #[test]
    fn over_a_layer_are_about_whole_matrices(
        (layers, heads, seed, loss) in (2_usize..6, 1_usize..4, 0_u64..1000, prop::sample::select(&Loss::ALL[..])),
    ) {
        let net = net(layers, heads, Activation::Relu, seed);
        let problem = example(4, loss, seed);
        let (_, g) = point(&net, &problem);
        let (inner_g, norms) = (inner(&net, Some(&g)), inner(&net, None));
        for l in 1..layers {
            let laws: Vec<Law> = net.laws().into_iter().filter(|law| law.layer == l).collect();
            prop_assert_eq!(laws.len(), heads);
            let sum = Law::sum("layer", &laws);
            prop_assert_eq!((sum.layer, sum.terms.len()), (l, 3));
            let by_hand = |p: &[(f64, f64)]| p[l - 1].0 - p[l - 1].1 - p[l].0;
            same(measure(&sum, &net, &g).delta[0], by_hand(&inner_g));
            same(sum.balance(&net.tensors()).unwrap()[0], by_hand(&norms));
            prop_assume!(holds_or_is_empty(&[sum], &net, &problem).is_empty());
        }
    }
}

/// With an activation of degree 2 nothing cancels: W² occurs once on the left and twice on the
/// right.
#[test]
fn of_degree_two_leave_the_layers_between() {
    let net = net(3, 1, Activation::ReluSquared, 1);
    let problem = example(4, Loss::Smooth, 1);
    let sum = Law::sum("all", &net.laws());
    let weights: Vec<(usize, f64)> = (sum.terms.iter())
        .map(|t| (t.slice.parameter, t.weight))
        .collect();
    // W¹, a¹, W², a², W³
    assert_eq!(
        weights,
        [(0, 1.0), (1, -1.0), (2, -1.0), (3, -1.0), (4, -2.0)]
    );
    holds(&[sum], &net, &problem);
}

#[test]
#[should_panic(expected = "sum: the laws do not weigh all of parameter")]
fn over_one_head_of_two_are_no_law_of_a_layer() {
    let net = net(2, 2, Activation::Relu, 1);
    let _ = Law::sum("one head", &net.laws()[..1]);
}
