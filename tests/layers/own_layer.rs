//! A graph layer of a user's own inside a `GraphNet`: built from a configuration, trained, saved and loaded,
//! with laws, a Lipschitz bound and a summary.

use crate::support::{is_saved_and_loaded, logits, train_on_karate};
use emmy::error::Rules;
use emmy::init::Rng;
use emmy::lipschitz::Lp;
use emmy::nn::{
    Conv, ConvOptions, GraphContext, GraphConv, GraphNet, GraphNetConfig, Input, Layer, Linear,
    Module, Pass, Site, Trace, Traced,
};
use emmy::{Real, Result, Tape, Var, data};

/// y_i = W (mean of x_j over the neighbours j of i) + b.
#[derive(Debug, Clone)]
struct MeanConv<F: Real> {
    map: Linear<F>,
}
emmy::module!(MeanConv: map);

impl<F: Real> Layer<F> for MeanConv<F> {}

impl<F: Real> GraphConv<F> for MeanConv<F> {
    fn on<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        context: GraphContext<'_, 't, F>,
    ) -> Var<'t, F> {
        let mean = pass.tape().sparse(context.neighbours.mean());
        pass.call(self, &[x.var()], || {
            let mixed = mean.matmul(x.to_dense());
            self.map.forward(pass, mixed)
        })
    }
}

#[derive(Debug)]
struct MeanOptions {
    most: usize,
}

impl ConvOptions for MeanOptions {
    type Layer<F: Real> = MeanConv<F>;

    fn build<F: Real>(&self, at: Site, rng: &mut Rng) -> MeanConv<F> {
        MeanConv {
            map: Linear::new(at.input, at.width, true, rng),
        }
    }

    fn validate(&self, at: Site) -> Result<()> {
        let rule = format!("at most {}", self.most);
        Rules("mean").hold(at.width <= self.most, "width", rule, at.width)
    }
}

/// The configuration of a network of such layers, under a name of its own.
fn config(name: &str) -> GraphNetConfig {
    let conv = Conv::register(name, MeanOptions { most: 64 }).unwrap();
    let karate = data::karate();
    GraphNetConfig::gcn(karate.feature_count(), karate.classes)
        .of(conv)
        .without_dropout()
}

#[test]
fn it_is_trained_saved_and_loaded() {
    let mut net = GraphNet::<f64>::new(config("mean, trained"), 1).unwrap();
    train_on_karate(&mut net);
    is_saved_and_loaded(&net);
}

#[test]
fn it_has_laws_a_bound_and_a_summary() {
    let net = GraphNet::<f64>::new(config("mean, read"), 2).unwrap();
    let set = data::karate();
    let neighbours = net.config.neighbourhood(&set.graph);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &net, 0);
    let x = tape.sparse(&set.raw_features());
    let loss = net.forward(&pass, x, &neighbours).tanh().sum_all();
    let gradients = pass.gradients(loss);
    let laws = net.laws();
    assert_eq!(laws.len(), 1);
    let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
    assert_eq!(
        laws[0].formula(&names),
        "⟨layers.0.map.weight[j,:], G⟩ + ⟨layers.0.map.bias[j], G⟩ − ⟨layers.1.map.weight[:,j], G⟩ = 0"
    );
    let delta = laws[0].measure(&net.tensors(), &gradients).worst();
    assert!(delta < 1e-12, "{delta}");

    let x = set.raw_features().to_dense();
    let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &neighbours));
    let interval = trace.lipschitz(Lp::Two).unwrap();
    assert!(
        interval.lower.get() > 0.0 && interval.upper.get().is_finite(),
        "{interval:?}"
    );
    let summary = net.trace().summary().to_string();
    assert!(summary.contains("MeanConv"), "{summary}");
}

/// A layer may also be put in without a configuration.
#[test]
fn it_stands_beside_layers_of_the_library() {
    let set = data::karate();
    let config = GraphNetConfig::gat(set.feature_count(), set.classes).without_dropout();
    let mut net = GraphNet::<f64>::new(config, 0).unwrap();
    let map = Linear::new(set.feature_count(), 64, true, &mut emmy::init::rng(3));
    net.layers[0] = Box::new(MeanConv { map });
    assert_eq!(logits(&net).shape(), [34, 2]);
    assert!(net.layers[0].downcast_ref::<MeanConv<f64>>().is_some());
    assert!(net.layers[1].downcast_ref::<MeanConv<f64>>().is_none());
}

#[test]
fn names_are_unique_and_known_when_a_configuration_is_loaded() {
    let conv = Conv::register("mean, unique", MeanOptions { most: 64 }).unwrap();
    assert_eq!(Conv::registered("mean, unique").unwrap(), conv);
    let again = Conv::register("mean, unique", MeanOptions { most: 1 });
    let message = again.unwrap_err().to_string();
    assert!(
        message.contains("expected one that is not registered, found mean, unique"),
        "{message}"
    );
    let empty = Conv::register("", MeanOptions { most: 1 }).unwrap_err();
    assert!(empty.to_string().contains("expected a name"), "{empty}");

    let saved = serde_json::to_string(&conv).unwrap();
    assert_eq!(saved, r#"{"registered":"mean, unique"}"#);
    let unknown = serde_json::from_str::<Conv>(r#"{"registered":"median"}"#).unwrap_err();
    let message = unknown.to_string();
    assert!(
        message.contains("given to Conv::register before"),
        "{message}"
    );
    assert!(message.contains("found median"), "{message}");
}

#[test]
fn its_rules_are_checked_with_the_network() {
    let config = GraphNetConfig {
        hidden: 65,
        ..config("mean, refused")
    };
    let message = GraphNet::<f32>::new(config, 0).unwrap_err().to_string();
    assert_eq!(message, "mean: width: expected at most 64, found 65");
}
