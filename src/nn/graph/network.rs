//! A network of graph layers.

use super::{GraphContext, GraphLayer, GraphNetConfig};
use crate::autodiff::Var;
use crate::error::Result;
use crate::graph::{Duplicates, Graph, Neighbourhood, SelfLoops};
use crate::init;
use crate::nn::{Dropout, Input, Layer, Linear, NormLayer, Pass, Trace, Traced};
use crate::real::Real;
use crate::tensor::Tensor;

/// A network that gives each node its logits. Every hidden layer is, in this order,
///
/// dropout → layer → norm → σ → residual.
///
/// | part | when | what |
/// |---|---|---|
/// | map before the layers | [`EndMaps::input`](super::EndMaps) | dropout → linear map → σ, if it is activated; its output is x₀ |
/// | hidden layer | all layers except the last; all layers if there is a map after them | as above |
/// | residual | [`residual`](GraphNetConfig::residual) = r | every r layers x ← x + x_old, x_old ← x |
/// | last layer | if there is no map after the layers | dropout → layer |
/// | map after the layers | [`EndMaps::output`](super::EndMaps) | dropout → linear map |
///
/// x_old starts as the first representation that has the width of the hidden layers: x₀ if it has this width,
/// else the output of the first layer. Dropout of the features, before the first layer or map, can be
/// switched off.
///
/// This is the order of the published DeepGCN (Zhao and Akoglu, "PairNorm", ICLR 2020) and of the GNN of
/// ContraNorm (Guo et al., ICLR 2023), and that of GCNII with its two maps. The deep GAT of LipschitzNorm
/// (Dasoulas et al., ICML 2021) has its norm after σ, and no σ after the last of its layers.
///
/// ```
/// use emmy::{Tape, data, nn::{GraphNet, GraphNetConfig, Pass}};
///
/// let karate = data::karate();
/// let config = GraphNetConfig::gat(karate.feature_count(), karate.classes);
/// let net = GraphNet::<f32>::new(config, 0)?;
///
/// let tape = Tape::new();
/// let x = tape.sparse(&karate.raw_features());
/// let logits = net.forward(&Pass::eval(&tape, &net), x, &config.neighbourhood(&karate.graph));
/// assert_eq!(logits.shape(), [34, 2]);
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct GraphNet<F: Real> {
    /// The linear map before the layers, if there is one.
    pub input: Option<Linear<F>>,
    /// The layers, first to last.
    pub layers: Vec<GraphLayer<F>>,
    /// The norms of the hidden layers, first to last; none if there are no norms.
    pub norms: Vec<NormLayer<F>>,
    /// The linear map after the layers, if there is one.
    pub output: Option<Linear<F>>,
    /// The configuration of the network.
    pub config: GraphNetConfig,
}
crate::module!(GraphNet: input, layers as "convs", norms, output);

impl<F: Real> GraphNet<F> {
    /// A network with freshly drawn parameters.
    ///
    /// # Errors
    /// If the configuration is not [valid](GraphNetConfig::validate).
    pub fn new(config: GraphNetConfig, seed: u64) -> Result<Self> {
        config.validate()?;
        let rng = &mut init::rng(seed);
        let ends = config.ends;
        let input = (ends.input).then(|| Linear::new(config.inputs, config.hidden, ends.bias, rng));
        let layers: Vec<_> = (config.plan())
            .map(|(conv, at)| conv.build(at, rng))
            .collect();
        let hidden = layers.len() - usize::from(!ends.output);
        let wide = config.conv.output(config.hidden);
        let norms = (0..hidden).filter_map(|_| config.norm.map(|norm| norm.build(wide, rng)));
        let norms = norms.collect();
        Ok(Self {
            input,
            layers,
            norms,
            output: (ends.output).then(|| Linear::new(wide, config.classes, ends.bias, rng)),
            config,
        })
    }

    /// The logits, shape `[n, classes]`.
    ///
    /// # Panics
    /// If x does not have one row per node, or as many features as the network reads.
    #[track_caller]
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        x.check_nodes("GraphNet", neighbours.nodes());
        x.check_features("GraphNet", self.config.inputs);
        pass.call(self, &[x.var()], || self.run(pass, x, neighbours))
    }

    fn run<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let config = &self.config;
        let dropout = Dropout { p: config.dropout };
        let mut context = GraphContext::from(neighbours);
        let mut x = match config.input_dropout {
            true => dropout.forward(pass, x),
            false => x,
        };
        if let Some(map) = &self.input {
            let mut first = map.forward(pass, x);
            if config.ends.activated {
                first = config.activation.consume(first);
            }
            context.first = Some(first);
            x = dropout.forward(pass, first);
        }
        let hidden = self.layers.len() - usize::from(self.output.is_none());
        let mut residual = SkipConnection::new(config, context.first);
        for (l, layer) in self.layers[..hidden].iter().enumerate() {
            let mut y = layer.forward(pass, x, context);
            if let Some(norm) = self.norms.get(l) {
                y = norm.on_graph(pass, y, neighbours);
            }
            let y = residual.add(config.activation.consume(y));
            x = dropout.forward(pass, y);
        }
        match &self.output {
            Some(map) => map.forward(pass, x),
            None => self.layers[hidden].forward(pass, x, context),
        }
    }
}

/// x_old of residuals with a period, and the number of layers since x_old was set.
struct SkipConnection<'t, F: Real> {
    period: Option<usize>,
    old: Option<Var<'t, F>>,
    since: usize,
}

impl<'t, F: Real> SkipConnection<'t, F> {
    fn new(config: &GraphNetConfig, first: Option<Var<'t, F>>) -> Self {
        let width = config.conv.output(config.hidden);
        Self {
            period: config.residual,
            old: first.filter(|x| x.shape()[1] == width),
            since: 0,
        }
    }

    /// The output y of the next layer, plus x_old if a period ends here.
    fn add(&mut self, y: Var<'t, F>) -> Var<'t, F> {
        let Some(period) = self.period else { return y };
        let Some(old) = self.old else {
            self.old = Some(y);
            return y;
        };
        self.since += 1;
        if self.since < period {
            return y;
        }
        let sum = y + old;
        (self.old, self.since) = (Some(sum), 0);
        sum
    }
}

impl<F: Real> Layer<F> for GraphNet<F> {}

impl<F: Real> Traced<F> for GraphNet<F> {
    /// A pass over three nodes with one edge. A law that fails where a node has no neighbours is in the list
    /// only if the network adds self-loops.
    fn trace(&self) -> Trace {
        let graph = Graph::new(3, &[(0, 1)], Duplicates::Reject, SelfLoops::Reject);
        let neighbours = self.config.neighbourhood(&graph.expect("an edge"));
        let x = Tensor::ones(vec![3, self.config.inputs]);
        Trace::of(self, |pass| {
            self.forward(pass, pass.tape().constant(x), &neighbours)
        })
    }
}
