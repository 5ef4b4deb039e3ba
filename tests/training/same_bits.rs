//! The same seed gives the same run, bit for bit: on one, three and eight threads, and with vectors of 256 and
//! of 512 bits.

use emmy::data::{Dataset, cora_like};
use emmy::kernels::par;
use emmy::nn::{GraphNet, GraphNetConfig, LanguageConfig, LanguageModel, Pass};
use emmy::train::{NodeClassification, TrainConfig, TrainState, Trainer};
use emmy::{Tape, Tensor};
use std::fmt::Write;

/// Where a short training ends, without the times that epochs took.
fn trained(set: &Dataset, config: GraphNetConfig) -> TrainState<f32> {
    let how = TrainConfig {
        epochs: 4,
        weight_decay: 5e-4,
        seed: 3,
        ..TrainConfig::default()
    };
    let (x, neighbours) = (set.normalized_features(), config.neighbourhood(&set.graph));
    let task = NodeClassification::new(&set.labels, &set.splits[0], |net: &GraphNet<_>, pass| {
        net.forward(pass, pass.tape().sparse(&x), &neighbours)
    });
    let mut trainer = Trainer::new(GraphNet::new(config, 3).unwrap(), how).unwrap();
    trainer.fit(&task.unwrap(), |_, _| Ok(())).unwrap();
    let mut state = trainer.state();
    state.history.records.iter_mut().for_each(|r| r.ms = 0.0);
    state
}

/// Every number of a state, and a checksum of their bits.
fn digest(state: &TrainState<f32>) -> u32 {
    let (parameters, best) = (state.parameters.iter().map(|(_, p)| p), &state.best);
    let numbers = parameters.chain(best).flatten();
    let mut hasher = crc32fast::Hasher::new();
    numbers.for_each(|x| hasher.update(&x.to_bits().to_le_bytes()));
    for step in &state.history.steps {
        let norms = step.gradient_norms.iter();
        norms
            .chain([&step.loss])
            .for_each(|x| hasher.update(&x.to_bits().to_le_bytes()));
    }
    for record in &state.history.records {
        let metrics = record.metrics.iter();
        metrics.for_each(|(_, x)| hasher.update(&x.to_bits().to_le_bytes()));
    }
    hasher.finalize()
}

fn configs(set: &Dataset, layers: usize) -> Vec<(&'static str, GraphNetConfig)> {
    let (inputs, classes) = (set.feature_count(), set.classes);
    let of = |config: GraphNetConfig| GraphNetConfig { layers, ..config };
    vec![
        ("gcn", of(GraphNetConfig::gcn(inputs, classes))),
        ("gat", of(GraphNetConfig::gat(inputs, classes))),
        ("gatv2", of(GraphNetConfig::gatv2(inputs, classes))),
        ("sage", of(GraphNetConfig::sage(inputs, classes))),
    ]
}

#[test]
fn a_run_is_the_same_on_any_number_of_threads() {
    let set = cora_like(0);
    for (name, config) in configs(&set, 2) {
        let run = |threads| par::with_threads(threads, || trained(&set, config));
        let one = run(1);
        for threads in [3, 8] {
            let other = run(threads);
            assert_eq!(digest(&one), digest(&other), "{name}, {threads} threads");
            assert!(one == other, "{name}, {threads} threads");
        }
    }
}

/// A checksum of the bits of the loss of a small language model and of its gradients: dense products, attention
/// and norms, whose sizes are no multiples of a vector.
fn digest_of_a_transformer() -> u32 {
    let config = LanguageConfig::gpt(11, 13, 2, 2, 24);
    let model: LanguageModel<f32> = LanguageModel::new(config, 5).unwrap();
    let symbols: Vec<usize> = (0..4 * 13).map(|i| i * i % 11).collect();
    let targets: Vec<usize> = symbols.iter().map(|s| (s + 3) % 11).collect();
    let tape = Tape::new();
    let pass = Pass::train(&tape, &model, 7);
    let logits = model.forward(&pass, &symbols, 4);
    let loss = logits.reshape(&[4 * 13, 11]).cross_entropy(&targets, None);
    let mut hasher = crc32fast::Hasher::new();
    let mut add = |tensor: &Tensor<f32>| {
        (tensor.iter()).for_each(|x| hasher.update(&x.to_bits().to_le_bytes()));
    };
    add(&loss.value());
    pass.gradients(loss).iter().for_each(&mut add);
    hasher.finalize()
}

/// The vectors are chosen once per process, so two processes are compared: with `EMMY_DIGESTS=FILE` this
/// writes what the runs end in. `.ci/run` does so with `EMMY_VECTORS=256` and without, and compares the files.
#[test]
fn digests_of_runs_for_comparison() {
    let Some(file) = std::env::var_os("EMMY_DIGESTS") else {
        return;
    };
    let set = cora_like(0);
    let mut lines = String::new();
    for (name, config) in configs(&set, 2) {
        writeln!(lines, "{name} {:08x}", digest(&trained(&set, config))).unwrap();
    }
    writeln!(lines, "transformer {:08x}", digest_of_a_transformer()).unwrap();
    std::fs::write(file, lines).unwrap();
}
