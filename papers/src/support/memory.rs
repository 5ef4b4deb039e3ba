//! Whether a training fits into the memory of this machine; checked before anything is allocated.

use emmy::data::Dataset;
use emmy::nn::{Conv, GraphNetConfig};
use emmy::{Error, Real, Result};

/// Numbers held for each parameter: value, gradient, two of Adam's, the best value, one temporary.
const OF_A_PARAMETER: f64 = 6.0;

/// Numbers held for each head of each edge: scores, coefficients, masks, and gradients.
const OF_A_HEAD: f64 = 10.0;

/// Numbers held for each feature of a node that is not zero: those of the data, and those left by dropout.
const OF_A_FEATURE: f64 = 6.0;

/// Bytes per layer in addition to its numbers: tensors, their names and shapes, nodes of the tape.
const OF_A_LAYER: f64 = 16_384.0;

/// Bytes for any training: the stacks of threads, the record of the run, buffers of products.
const OF_A_RUN: f64 = 8_388_608.0;

/// Numbers held for each output of a layer and each node: the values on the way to the output, dropout and
/// activation included, and gradients. They are measured, and rounded up; `tests/commands/memory.rs` compares
/// them with the memory that programs use.
fn of_a_neuron(conv: &Conv) -> f64 {
    match conv {
        Conv::Gcn(_) => 5.0,
        Conv::Sage(_) => 9.0,
        Conv::Gat(_) => 9.0,
        Conv::Gatv2(_) => 12.0,
        Conv::Sgc(options) => 7.0 + options.steps as f64,
        Conv::Gin(_) => 13.0,
        Conv::Gcnii(options) if options.shared => 13.0,
        Conv::Gcnii(_) => 20.0,
        Conv::GatedGraph(options) => 5.0 + 16.0 * options.steps as f64,
        Conv::Transformer(_) => 19.0,
        // The layers of `crate::layers`: GATv2, two products and their sum; GAT and the graph transformer
        // with published divisors.
        Conv::Registered(_) => 20.0,
    }
}

/// The attention heads of a layer; 1 without attention.
fn heads(conv: &Conv) -> f64 {
    conv.heads() as f64
}

/// The memory that is assumed if the system does not say how much there is: 16 GiB.
const ASSUMED: f64 = 17_179_869_184.0;

const GIB: f64 = 1_073_741_824.0;

/// Refuses a network whose training on a data set needs more memory than the machine has. The need is
/// estimated from above: it counts parameters, neurons of nodes, heads of edges, features, and layers.
pub fn check<F: Real>(config: &GraphNetConfig, set: &Dataset) -> Result<()> {
    config.validate()?;
    let (parameters, layers) = (config.weight_count(), config.layers);
    let what = format!("at most {parameters:.1e} parameters in {layers} layers");
    fits(needed::<F>(config, set), &what)
}

/// The need that [`check`] compares with the memory of the machine, in words.
pub fn estimate<F: Real>(config: &GraphNetConfig, set: &Dataset) -> String {
    format!(
        "memory: at most {:.2} GiB to train it, estimated; this machine has {:.1} GiB",
        needed::<F>(config, set) / GIB,
        physical() / GIB
    )
}

/// Refuses a training that needs more bytes than the machine has; `what` is what needs them.
pub fn fits(needed: f64, what: &str) -> Result<()> {
    let there = physical();
    if needed <= there {
        return Ok(());
    }
    Err(Error::invalid(
        "memory to train the model",
        format!("at most {:.1} GiB, which this machine has", there / GIB),
        format!("about {:.1} GiB for {what}", needed / GIB),
    ))
}

/// The sizes of transformer blocks and of their training.
pub struct Blocks {
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    /// Tokens of an example.
    pub tokens: usize,
    /// Examples of a step.
    pub examples: usize,
    /// Examples that an evaluation computes together.
    pub evaluated: usize,
    pub steps: usize,
}

/// Numbers held for each parameter of a block: as [`OF_A_PARAMETER`], and buffers of products, which are
/// kept. This number and the next two are measured, and rounded up; `tests/commands/memory.rs` compares them
/// with the memory that programs use.
const OF_A_BLOCK_PARAMETER: f64 = 12.0;

/// Numbers held in a block for each token of a step and each entry of its vector: values and gradients.
const OF_A_TOKEN: f64 = 80.0;

/// Numbers held in a block for each token of an evaluation and each entry of its vector.
const OF_AN_EVALUATED_TOKEN: f64 = 25.0;

/// Bytes held for each step and layer: the record of the step, with a norm per parameter.
pub const OF_A_STEP: f64 = 128.0;

impl Blocks {
    /// Refuses a training that needs more memory than the machine has.
    pub fn check<F: Real>(&self) -> Result<()> {
        let what = format!(
            "{:.3e} parameters in {} blocks, {:.3e} tokens per step, {} steps",
            self.parameters(),
            self.layers,
            self.tokens as f64 * self.examples as f64,
            self.steps
        );
        fits(self.needed::<F>(), &what)
    }

    /// An upper bound of the bytes that the training needs, without those of the data. It counts parameters,
    /// values of tokens, pairs of tokens, layers, and the record of the steps.
    pub fn needed<F: Real>(&self) -> f64 {
        let [layers, width, heads, tokens, examples, evaluated, steps] = [
            self.layers,
            self.width,
            self.heads,
            self.tokens,
            self.examples,
            self.evaluated,
            self.steps,
        ]
        .map(|n| n as f64);
        let of_tokens = OF_A_TOKEN * examples + OF_AN_EVALUATED_TOKEN * evaluated;
        // Scores of attention, and those of a norm that compares tokens.
        let pairs = 2.0 * (heads + 2.0) * (examples + evaluated) * tokens * tokens;
        let numbers = OF_A_BLOCK_PARAMETER * self.parameters()
            + layers * (of_tokens * tokens * width + pairs);
        let records = OF_A_STEP * steps * (1.0 + layers);
        OF_A_RUN + OF_A_LAYER * layers + records + size_of::<F>() as f64 * numbers
    }

    /// The parameters of attention and of feed-forward layers four times as wide.
    fn parameters(&self) -> f64 {
        12.0 * self.layers as f64 * (self.width as f64).powi(2)
    }
}

/// An upper bound of the bytes that the training of a network on a data set needs, without those of the data.
pub fn needed<F: Real>(config: &GraphNetConfig, set: &Dataset) -> f64 {
    let (nodes, ends) = (set.graph.nodes() as f64, config.ends);
    // The last layer, or the map after the layers, writes one output per class.
    let last = usize::from(!ends.output);
    let hidden = (config.layers - last) as f64;
    // A norm, and a residual sum.
    let more = |on: bool| if on { 2.0 } else { 0.0 };
    let between =
        of_a_neuron(&config.conv) + more(config.norm.is_some()) + more(config.residual.is_some());
    let mut numbers = hidden * between * config.conv.output(config.hidden) as f64;
    if ends.input {
        numbers += 5.0 * config.hidden as f64;
    }
    numbers += config.classes as f64
        * match ends.output {
            true => 5.0,
            false => of_a_neuron(&config.last) * heads(&config.last),
        };
    let edges = (set.graph.edges() + set.graph.nodes()) as f64;
    let heads = hidden * heads(&config.conv) + last as f64 * heads(&config.last);
    let numbers = nodes * numbers
        + OF_A_PARAMETER * config.weight_count()
        + OF_A_HEAD * edges * heads
        + OF_A_FEATURE * set.features.pattern.nnz() as f64;
    OF_A_RUN + OF_A_LAYER * config.layers as f64 + size_of::<F>() as f64 * numbers
}

/// The memory of the machine in bytes, or that of its container if that is less.
pub fn physical() -> f64 {
    let read = |path| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(1024.0 * kibibytes)
    });
    // The word "max" there means no limit; it is not a number.
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<f64>().ok());
    let known = total.into_iter().chain(limit);
    known.reduce(f64::min).unwrap_or(ASSUMED)
}
