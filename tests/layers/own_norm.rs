//! A norm of a user's own inside a `GraphNet` and inside the blocks of a language model: built from a
//! configuration, trained, saved and loaded, with laws, a Lipschitz bound and a summary.

use crate::support::{is_saved_and_loaded, logits, train_on_karate};
use emmy::error::Rules;
use emmy::init::Rng;
use emmy::lipschitz::{Domain, Lp};
use emmy::nn::{
    GraphNet, GraphNetConfig, LanguageConfig, LanguageModel, Layer, Module, Norm, NormContext,
    NormOptions, Normalizer, Params, Pass, Trace, Traced, entries_mut,
};
use emmy::ops::attention::Mask;
use emmy::optim::{Algorithm, Optimizer};
use emmy::store::weights;
use emmy::symmetry::{Change, Passage, Ports, Reader, Term, Way};
use emmy::{Real, Result, Tape, Tensor, Var, data, init, train};

/// y = γ ⊙ x / ‖x‖₄ per row.
#[derive(Debug, Clone)]
struct PowerNorm<F: Real> {
    gain: Tensor<F>,
}
emmy::module!(PowerNorm: gain = Gain);

/// The norm does not depend on the size of x; γ writes the output, and reads the input entry by entry.
impl<F: Real> Layer<F> for PowerNorm<F> {
    fn ports(&self, params: &Params<'_, F>) -> Option<Ports> {
        let gain = params.rows(&self.gain);
        Some(Ports {
            writers: vec![Term::incoming(gain.clone())],
            readers: vec![Reader {
                passage: Passage::BREAKS.with(Change::All, Way::Absorbs),
                terms: vec![Term::outgoing(gain)],
                mixes: false,
            }],
            ..Ports::opaque(0)
        })
    }
}

impl<F: Real> Normalizer<F> for PowerNorm<F> {
    fn on<'t>(&self, pass: &Pass<'t, '_, F>, x: Var<'t, F>, _: NormContext<'_, F>) -> Var<'t, F> {
        pass.call(self, &[x], || {
            let size = x.square().square().sum(&[-1], true).sqrt().sqrt();
            x / size * pass.param(&self.gain)
        })
    }

    fn mixes_rows(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct PowerOptions {
    gain: f64,
    most: usize,
}

impl NormOptions for PowerOptions {
    type Layer<F: Real> = PowerNorm<F>;

    fn build<F: Real>(&self, width: usize, _: &mut Rng) -> PowerNorm<F> {
        PowerNorm {
            gain: Tensor::from_elem(vec![width], F::of(self.gain)),
        }
    }

    fn validate(&self, width: usize) -> Result<()> {
        let rule = format!("at most {}", self.most);
        Rules("PowerNorm").hold(width <= self.most, "width", rule, width)
    }
}

fn register(name: &str) -> Norm {
    let options = PowerOptions {
        gain: 1.5,
        most: 64,
    };
    Norm::register(name, options).unwrap()
}

/// The configuration of a network with such norms, under a name of its own.
fn config(name: &str) -> GraphNetConfig {
    let karate = data::karate();
    GraphNetConfig {
        norm: Some(register(name)),
        ..GraphNetConfig::gcn(karate.feature_count(), karate.classes).without_dropout()
    }
}

#[test]
fn a_network_with_it_is_trained_saved_and_loaded() {
    let mut net = GraphNet::<f64>::new(config("power, trained"), 1).unwrap();
    train_on_karate(&mut net);
    let norm: &PowerNorm<f64> = net.norms[0].downcast_ref().unwrap();
    assert!(norm.gain.iter().all(|&g| g != 1.5), "{:?}", norm.gain);
    is_saved_and_loaded(&net);
}

#[test]
fn a_network_with_it_has_laws_a_bound_and_a_summary() {
    let net = GraphNet::<f64>::new(config("power, read"), 2).unwrap();
    let set = data::karate();
    let neighbours = net.config.neighbourhood(&set.graph);
    let tape = Tape::new();
    let pass = Pass::train(&tape, &net, 0);
    let x = tape.sparse(&set.raw_features());
    let loss = net.forward(&pass, x, &neighbours).tanh().sum_all();
    let gradients = pass.gradients(loss);
    let laws = net.laws();
    let names: Vec<String> = net.parameters().into_iter().map(|p| p.name).collect();
    let formulas: Vec<String> = laws.iter().map(|law| law.formula(&names)).collect();
    assert_eq!(
        formulas,
        [
            "⟨layers.0.weight, G⟩ + ⟨layers.0.bias, G⟩ = 0",
            "⟨norms.0.gain[j], G⟩ − ⟨layers.1.weight[:,j], G⟩ = 0"
        ]
    );
    for law in &laws {
        let delta = law.measure(&net.tensors(), &gradients).worst();
        assert!(delta < 1e-12, "{}: {delta}", law.formula(&names));
    }

    let x = set.raw_features().to_dense();
    let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x, &neighbours));
    let interval = trace.lipschitz_on(Lp::Two, Domain::Here).unwrap();
    assert!(
        interval.lower.get() > 0.0 && interval.upper.get().is_finite(),
        "{interval:?}"
    );
    let summary = net.trace().summary().to_string();
    assert!(summary.contains("PowerNorm"), "{summary}");
}

/// The loss of three sequences of six symbols, each of which is the last one plus 1.
fn of_text<'t>(model: &LanguageModel<f64>, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
    let symbols: Vec<usize> = (0..18).map(|k| (k / 6 + k) % 7).collect();
    let next: Vec<usize> = symbols.iter().map(|s| (s + 1) % 7).collect();
    let logits = model.forward(pass, &symbols, 3);
    logits.reshape(&[18, 7]).cross_entropy(&next, None)
}

#[test]
fn a_language_model_with_it_is_trained_saved_and_continued() {
    let mut config = LanguageConfig::gpt(7, 6, 2, 2, 8);
    config.block.norm = register("power, language");
    let mut model = LanguageModel::<f64>::new(config, 1).unwrap();
    let mut optimizer = Optimizer::new(Algorithm::ADAM);
    let mut losses = Vec::new();
    for step in 0..60 {
        let found = train::step(&mut model, &mut optimizer, 0.02, step, of_text);
        losses.push(found.unwrap());
    }
    assert!(losses[59] < 0.3 * losses[0], "{losses:?}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    weights::save(&path, &model, &config).unwrap();
    let loaded = weights::load(&path, |config| LanguageModel::<f64>::new(config, 0)).unwrap();
    assert_eq!(loaded.config, config);

    // Its rows do not depend on each other, so tokens may come one by one.
    let symbols = [3, 1, 6, 0, 2];
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &model);
    let at_once = model.forward(&pass, &symbols, 1).value();
    let pass = Pass::eval(&tape, &loaded);
    let mut cache = Vec::new();
    let one_by_one = symbols.map(|s| loaded.continued(&pass, &[s], &mut cache));
    let difference = &at_once - &Var::concat(&one_by_one, 1).value();
    assert!(difference.iter().all(|d| d.abs() < 1e-12), "{difference}");

    // γ of the first block is balanced against the maps of queries, keys and values.
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 0);
    let loss = of_text(&model, &pass);
    let gradients = pass.gradients(loss);
    let names: Vec<String> = model.parameters().into_iter().map(|p| p.name).collect();
    let trace = Trace::of(&model, |pass| of_text(&model, pass));
    let laws = trace.laws();
    let balanced = laws
        .iter()
        .filter(|law| law.formula(&names).contains("norm1.gain[j], G⟩ −"));
    assert_eq!(balanced.count(), 2);
    for law in &laws {
        let delta = law.measure(&model.tensors(), &gradients).worst();
        assert!(delta < 1e-11, "{}: {delta}", law.formula(&names));
    }
}

/// x times 1, 2 or 3: what is known of the rows is seen in the output.
#[derive(Debug, Clone)]
struct Seen;

impl<F: Real> Module<F> for Seen {
    fn collect<'a>(&'a self, _: &mut emmy::nn::Fields<&'a Tensor<F>>) {}

    fn collect_mut<'a>(&'a mut self, _: &mut emmy::nn::Fields<&'a mut Tensor<F>>) {}
}

impl<F: Real> Layer<F> for Seen {}

impl<F: Real> Normalizer<F> for Seen {
    fn on<'t>(
        &self,
        _: &Pass<'t, '_, F>,
        x: Var<'t, F>,
        context: NormContext<'_, F>,
    ) -> Var<'t, F> {
        x.scale(F::of(match context {
            NormContext::None => 1.0,
            NormContext::Graph(neighbours) => neighbours.nodes() as f64,
            NormContext::Tokens(mask) => f64::from(u8::from(!mask.is_none())) + 2.0,
        }))
    }
}

#[derive(Debug)]
struct SeenOptions;

impl NormOptions for SeenOptions {
    type Layer<F: Real> = Seen;

    fn build<F: Real>(&self, _: usize, _: &mut Rng) -> Seen {
        Seen
    }
}

#[test]
fn it_is_told_what_its_rows_are() {
    let norm = Norm::register("seen", SeenOptions).unwrap();
    let layer = norm.build::<f64>(3, &mut init::rng(0));
    let tape = Tape::new();
    let pass = Pass::eval(&tape, &layer);
    let x = tape.constant(Tensor::ones(vec![2, 3]));
    assert_eq!(layer.forward(&pass, x).value()[[0, 0]], 1.0);
    assert_eq!(layer.masked(&pass, x, &Mask::none()).value()[[0, 0]], 2.0);

    // In a network of one hidden layer, the norm multiplies by the number of nodes.
    let set = data::karate();
    let plain = GraphNetConfig::gcn(set.feature_count(), set.classes).without_dropout();
    let with = |norm| {
        let mut net = GraphNet::<f64>::new(GraphNetConfig { norm, ..plain }, 0).unwrap();
        for p in entries_mut(&mut net) {
            if p.name.ends_with("bias") {
                p.tensor.fill(0.0);
            }
        }
        logits(&net)
    };
    let (seen, alone) = (with(Some(norm)), with(None));
    let difference = seen - alone.mapv(|y| 34.0 * y);
    assert!(difference.iter().all(|d| d.abs() < 1e-10), "{difference}");

    // It may read other rows, so a cache of tokens is refused.
    let mut config = LanguageConfig::gpt(7, 6, 1, 2, 8);
    config.block.norm = norm;
    let model = LanguageModel::<f64>::new(config, 1).unwrap();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let tape = Tape::new();
        model.continued(&Pass::eval(&tape, &model), &[1], &mut Vec::new());
    }));
    let found = caught.expect_err("it must panic");
    let found = found.downcast_ref::<&str>().unwrap();
    assert!(found.contains("which a cache does not hold"), "{found}");
}

#[test]
fn its_name_is_saved_and_its_rules_are_checked() {
    let norm = register("power, named");
    assert_eq!(Norm::registered("power, named").unwrap(), norm);
    let again = Norm::register("power, named", SeenOptions).unwrap_err();
    let message = again.to_string();
    assert!(
        message.contains("norms: name: expected one that is not registered, found power, named"),
        "{message}"
    );
    let saved = serde_json::to_string(&norm).unwrap();
    assert_eq!(saved, r#"{"registered":"power, named"}"#);
    let unknown = serde_json::from_str::<Norm>(r#"{"registered":"median"}"#).unwrap_err();
    let message = unknown.to_string();
    assert!(
        message.contains("a name given to Norm::register before: "),
        "{message}"
    );

    let karate = data::karate();
    let config = GraphNetConfig {
        hidden: 65,
        norm: Some(norm),
        ..GraphNetConfig::gcn(karate.feature_count(), karate.classes)
    };
    let message = GraphNet::<f32>::new(config, 0).unwrap_err().to_string();
    assert_eq!(message, "PowerNorm: width: expected at most 64, found 65");
    let mut config = LanguageConfig::gpt(7, 6, 1, 1, 65);
    config.block.norm = norm;
    let message = LanguageModel::<f32>::new(config, 0)
        .unwrap_err()
        .to_string();
    assert_eq!(message, "PowerNorm: width: expected at most 64, found 65");
}
