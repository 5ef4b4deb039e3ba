//! Whether a training fits into the memory of this machine; checked before anything is allocated.

use emmy::data::Dataset;
use emmy::nn::{Conv, GraphNetConfig};
use emmy::{Error, Real, Result};

/// Numbers held for each parameter: value, gradient, two of Adam's, the best value, one in passing.
const OF_A_PARAMETER: f64 = 6.0;

/// Numbers held for each neuron of each node: the layer's values on the way to its output, and gradients.
const OF_A_NEURON: f64 = 6.0;

/// Bytes of a layer besides its numbers: tensors, their names and shapes, nodes of the tape.
const OF_A_LAYER: f64 = 16_384.0;

/// The memory that is assumed where the system does not say how much there is: 16 GiB.
const ASSUMED: f64 = 17_179_869_184.0;

const GIB: f64 = 1_073_741_824.0;

/// Refuses a network whose training on a data set needs more memory than the machine has. The need is an
/// estimate: it counts parameters, neurons of nodes, heads of edges, and layers.
pub fn check<F: Real>(config: &GraphNetConfig, set: &Dataset) -> Result<()> {
    config.validate()?;
    let heads = |conv: &Conv| conv.attention().map_or(1, |a| a.heads) as f64;
    let hidden = (config.layers - 1) as f64;
    let neurons = hidden * config.conv.output(config.hidden) as f64
        + heads(&config.last) * config.classes as f64;
    let edges = (set.graph.edges() + set.graph.nodes()) as f64;
    let numbers = OF_A_PARAMETER * config.parameter_count()
        + OF_A_NEURON * set.graph.nodes() as f64 * neurons
        + 4.0 * edges * (hidden * heads(&config.conv) + heads(&config.last));
    let needed = size_of::<F>() as f64 * numbers + OF_A_LAYER * config.layers as f64;
    let there = physical();
    if needed <= there {
        return Ok(());
    }
    Err(Error::invalid(
        "memory to train the network",
        format!("at most {:.1} GiB, which this machine has", there / GIB),
        format!(
            "about {:.1} GiB for {:.3e} parameters in {} layers",
            needed / GIB,
            config.parameter_count(),
            config.layers
        ),
    ))
}

/// The memory of the machine in bytes, or that of its container if that is less.
pub fn physical() -> f64 {
    let read = |path| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
        let kibibytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(1024.0 * kibibytes)
    });
    // The word "max" there stands for no limit, and is no number.
    let limit = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<f64>().ok());
    let known = total.into_iter().chain(limit);
    known.reduce(f64::min).unwrap_or(ASSUMED)
}
