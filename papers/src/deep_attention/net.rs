//! The deep network of the paper, in the order of its published code.

use clap::ValueEnum;
use emmy::data::Dataset;
use emmy::graph::Neighbourhood;
use emmy::init;
use emmy::nn::{
    Dropout, GraphContext, GraphLayer, GraphNet, GraphNetConfig, Input, Layer, Linear, Module,
    Norm, Pass, Role, entries_mut,
};
use emmy::{Real, Result, Var};
use serde::{Deserialize, Serialize};

/// A [`GraphNet`] whose parts are in the order of the published `DeepGAT` and `DeepGT`:
///
/// linear → L × (dropout → layer → LayerNorm → σ → PairNorm → + x) → linear
///
/// There is no σ after the last layer. x is the input of the layer; it is added if the network has residuals
/// and the widths are equal. The published code has no residuals; [`Place`] names other ways to add them.
#[derive(Debug, Clone)]
pub struct DeepNet<F: Real> {
    pub net: GraphNet<F>,
    place: Place,
}

emmy::module!(DeepNet: net);

/// Where a residual is added. y is what LayerNorm returns, or the layer if there is no LayerNorm.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// σ(y) + x
    #[default]
    Last,
    /// σ(y + x)
    BeforeActivation,
    /// σ(y) + dropout(x), the x that the layer reads
    Dropped,
}

impl Place {
    /// Whether it is the place of the tables.
    pub fn is_last(&self) -> bool {
        *self == Self::Last
    }
}

/// What the layers of a [`DeepNet`] read and return.
pub struct Through<'t, F: Real> {
    /// The input of each layer, before dropout.
    pub inputs: Vec<Var<'t, F>>,
    /// The output of the last layer.
    pub last: Var<'t, F>,
}

impl<F: Real> Layer<F> for DeepNet<F> {}

impl<F: Real> DeepNet<F> {
    /// A network with freshly drawn parameters. With `published_start` linear maps are drawn as by PyTorch's
    /// `nn.Linear`, W and b uniform in ±1/√inputs, as in the published code; the weights of graph attention,
    /// which are Glorot-uniform there too, are not drawn again.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(config: GraphNetConfig, seed: u64, published_start: bool) -> Result<Self> {
        let mut net = GraphNet::new(config, seed)?;
        if published_start {
            let maps = ["input", "output", "query", "key", "value", "skip"];
            let rng = &mut init::rng(!seed);
            let mut bound = 0.0;
            for entry in entries_mut(&mut net) {
                // The bias of a map follows its weight.
                if entry.name.split('.').any(|part| maps.contains(&part)) {
                    if let [_, inputs] = entry.tensor.shape() {
                        bound = (*inputs as f64).sqrt().recip();
                    }
                    *entry.tensor = init::uniform(entry.tensor.shape(), bound, rng);
                }
            }
        }
        Ok(Self {
            net,
            place: Place::Last,
        })
    }

    /// The same network with its residuals at this place.
    pub fn with_residuals(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The logits `[n, classes]` on a data set with these features.
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        neighbours: &Neighbourhood<F>,
    ) -> Var<'t, F> {
        let x = x.into();
        pass.call(self, &[x.var()], || {
            let through = self.through(pass, x, neighbours, |layer, x, around| {
                layer.forward(pass, x, around)
            });
            self.ends().1.forward(pass, through.last)
        })
    }

    /// The linear maps before and after the layers.
    fn ends(&self) -> (&Linear<F>, &Linear<F>) {
        match (&self.net.input, &self.net.output) {
            (Some(input), Some(output)) => (input, output),
            _ => panic!("DeepNet: a network without linear maps at its ends"),
        }
    }

    /// The way of a data set's features through the layers, each computed by `run`, without the linear map
    /// after them.
    pub fn through<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: Input<'t, F>,
        neighbours: &Neighbourhood<F>,
        mut run: impl FnMut(&GraphLayer<F>, Input<'t, F>, GraphContext<'_, 't, F>) -> Var<'t, F>,
    ) -> Through<'t, F> {
        let Self { net, place } = self;
        let config = &net.config;
        let dropout = Dropout { p: config.dropout };
        let mut x = self.ends().0.forward(pass, x);
        if config.ends.activated {
            x = config.activation.apply(x);
        }
        let around = GraphContext {
            neighbours,
            first: Some(x),
        };
        let mut inputs = Vec::new();
        for (l, layer) in net.layers.iter().enumerate() {
            let dropped = dropout.forward(pass, x);
            inputs.push(x);
            let residual = match place {
                Place::Dropped => dropped.var(),
                Place::Last | Place::BeforeActivation => x,
            };
            x = run(layer, dropped, around);
            let norm = net.norms.get(l);
            let stands_behind = matches!(config.norm, Some(Norm::Pair(_)));
            if let Some(norm) = norm.filter(|_| !stands_behind) {
                x = norm.forward(pass, x);
            }
            let has_residual = config.residual.is_some() && residual.shape() == x.shape();
            let before = *place == Place::BeforeActivation;
            if has_residual && before {
                x = x + residual;
            }
            if l + 1 < net.layers.len() {
                x = config.activation.apply(x);
            }
            if let Some(norm) = norm.filter(|_| stands_behind) {
                x = norm.forward(pass, x);
            }
            if has_residual && !before {
                x = x + residual;
            }
        }
        Through { inputs, last: x }
    }

    /// The numbers of the parameters of each layer that make up its attention: a_s and a_t of GAT, queries
    /// and keys of a graph transformer. A layer without attention has none.
    pub fn attention(&self) -> Vec<Vec<usize>> {
        let parameters = self.parameters();
        let of = |l: usize| {
            let layer = format!("net.layers.{l}.");
            let is_its = |k: &usize| {
                let own = &parameters[*k];
                let rest = own.name.strip_prefix(&layer);
                rest.is_some_and(|name| {
                    let scored = name.split('.').any(|part| part == "query" || part == "key");
                    scored || own.role == Role::Attention
                })
            };
            (0..parameters.len()).filter(is_its).collect()
        };
        (0..self.net.layers.len()).map(of).collect()
    }

    /// The numbers of all parameters of each layer.
    pub fn layers(&self) -> Vec<Vec<usize>> {
        let parameters = self.parameters();
        let of = |l: usize| {
            let layer = format!("net.layers.{l}.");
            let is_its = |k: &usize| parameters[*k].name.starts_with(&layer);
            (0..parameters.len()).filter(is_its).collect()
        };
        (0..self.net.layers.len()).map(of).collect()
    }
}

/// The features of a data set, as published or with rows that sum to 1. The features of the nodes in
/// `erased` are set to zero.
pub fn features<F: Real>(set: &Dataset, normalized: bool, erased: &[bool]) -> emmy::sparse::Csr<F> {
    let mut x = match normalized {
        true => set.normalized_features::<F>(),
        false => set.raw_features::<F>(),
    };
    let rows = x.pattern.rows_of().to_vec();
    for (value, row) in x.values.iter_mut().zip(rows) {
        if erased[row as usize] {
            *value = F::zero();
        }
    }
    x
}
