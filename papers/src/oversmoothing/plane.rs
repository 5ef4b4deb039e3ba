//! Figure 1: points of the plane that propagation along a graph collapses, and ContraNorm keeps apart.

use crate::support::figures::Figure;
use crate::support::paper::Options;
use crate::support::plot::{Axis, COLOURS, Mark, Panel, Series};
use crate::support::{note, say};
use emmy::collapse::{Spectrum, value, variance};
use emmy::graph::{Neighbourhood, generators};
use emmy::nn::{ContraConfig, Pass};
use emmy::{Result, Tape, Tensor, init};
use serde_json::json;

/// The communities of the graph.
const COMMUNITIES: [usize; 4] = [40; 4];

/// The number of layers.
const LAYERS: usize = 12;

/// The points after each layer, beginning with the start.
///
/// A layer takes the mean over the neighbours of each node and itself, then ContraNorm (1 + s) H − s
/// softmax(ĤĤᵀ/τ) H, if it is there. Then one factor scales all points to a mean square of 1: collapse is not
/// a matter of scale.
fn pass(contra: Option<ContraConfig>, seed: u64) -> Vec<Tensor<f64>> {
    let (near, far) = (0.25, 0.02);
    let of = |i: usize| (0..4).map(|j| if i == j { near } else { far }).collect();
    let probabilities: Vec<Vec<f64>> = (0..4).map(of).collect();
    let graph = generators::stochastic_block_model(&COMMUNITIES, &probabilities, seed);
    let neighbours = Neighbourhood::<f64>::of(graph.with_self_loops());
    let norm = contra.map(|config| config.build::<f64>(2));
    let n: usize = COMMUNITIES.iter().sum();
    let mut all = vec![init::normal(&[n, 2], 1.0, &mut init::rng(seed))];
    for _ in 0..LAYERS {
        let tape = Tape::new();
        let x = tape.constant(all.last().expect("the start"));
        let mut y = tape.sparse(neighbours.mean()).matmul(x);
        if let Some(norm) = &norm {
            y = norm.forward(&Pass::eval(&tape, norm), y);
        }
        let size = y.square().mean_all().sqrt();
        all.push((y / size).value());
    }
    all
}

/// Draws the points, and prints effective rank and variance by layer.
///
/// # Errors
/// If standard output or the figure cannot be written.
pub fn draw(options: &Options) -> Result<()> {
    let seed = options.seed;
    let contra = ContraConfig {
        temperature: 0.5,
        ..ContraConfig::text_code(1.0)
    };
    let ways = [("without", None), ("with ContraNorm", Some(contra))];
    let ways = ways.map(|(name, config)| (name, pass(config, seed)));
    let scatter = |title: &str, points: &Tensor<f64>| {
        let axis = || Axis::new("").within(-3.0..3.0);
        let mut panel = Panel::new(title, axis(), axis());
        let mut from = 0;
        for (k, size) in COMMUNITIES.into_iter().enumerate() {
            let at = |i: usize| (points[[i, 0]], points[[i, 1]]);
            let dots = (from..from + size).map(at).collect();
            from += size;
            panel
                .series
                .push(Series::new("", COLOURS[k], Mark::Dots(dots)));
        }
        panel
    };
    let mut panels = vec![scatter("the start", &ways[0].1[0])];
    for (name, points) in &ways {
        let title = format!("{LAYERS} layers {name}");
        panels.push(scatter(&title, points.last().expect("layers")));
    }
    let mut ranks = Panel::new(
        "effective rank by layer",
        Axis::new("layer"),
        Axis::new("").within(0.95..2.05),
    );
    let mut lines = vec!["layer  norm             effective rank  variance".to_owned()];
    for (k, (name, points)) in ways.iter().enumerate() {
        let mut curve = Vec::new();
        for (layer, x) in points.iter().enumerate() {
            let (rank, spread) = (Spectrum::of(x).effective_rank(), value(x, variance));
            curve.push((layer as f64, rank));
            lines.push(format!("{layer:5}  {name:15}  {rank:14.4}  {spread:8.3}"));
            if options.json {
                say(json!({
                    "figure": 1, "layer": layer, "norm": name, "erank": rank, "variance": spread,
                }))?;
            }
        }
        ranks
            .series
            .push(Series::new(*name, COLOURS[k], Mark::Line(curve)));
    }
    panels.push(ranks);
    match options.json {
        true => note(lines.join("\n")),
        false => say(lines.join("\n"))?,
    }
    let title = "Figure 1: propagation collapses four communities, ContraNorm keeps them apart";
    crate::oversmoothing::write(
        Figure::new("oversmoothing-figure-1", title, 2, panels),
        options,
    )
}
