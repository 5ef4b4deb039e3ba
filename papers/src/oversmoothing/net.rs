//! The deep graph convolutional network of the paper, in the order of its published code.

use crate::layers::DiffGroupOptions;
use crate::oversmoothing::cell::{Cell, Method};
use emmy::graph::Neighbourhood;
use emmy::init::{self, Rng};
use emmy::nn::{
    Dropout, GcnConv, Input, Layer, LayerNorm, Norm, NormLayer, PairMode, PairNorm, Pass,
};
use emmy::{Real, Result, Tape, Tensor, Var};

/// Hidden layers, then a layer for the classes:
///
/// dropout → (D⁻¹(A + I) x) Wᵀ + b → norm → LayerNorm → ReLU, and at the end dropout → convolution
///
/// All layers share one LayerNorm, with one γ and β, as in the published code; only the methods that have a
/// LayerNorm there have it here.
#[derive(Debug, Clone)]
pub struct DeepGcn<F: Real> {
    pub convs: Vec<GcnConv<F>>,
    pub norms: Vec<NormLayer<F>>,
    pub shared: Option<LayerNorm<F>>,
    pub dropout: f64,
}
emmy::module!(DeepGcn: convs, norms, shared);

impl<F: Real> Layer<F> for DeepGcn<F> {}

/// A convolution whose W and b are uniform in ±1/√out, as in the published code.
fn conv<F: Real>(input: usize, out: usize, rng: &mut Rng) -> GcnConv<F> {
    let bound = (out as f64).sqrt().recip();
    GcnConv {
        weight: init::uniform(&[out, input], bound, rng),
        bias: Some(init::uniform(&[out], bound, rng)),
    }
}

impl<F: Real> DeepGcn<F> {
    /// A network with freshly drawn parameters.
    ///
    /// # Errors
    /// If the options of the norm are not valid.
    pub fn new(cell: &Cell, inputs: usize, classes: usize) -> Result<Self> {
        let norm = cell.norm();
        norm.map_or(Ok(()), |norm| norm.validate(cell.width))?;
        let rng = &mut init::rng(cell.seed);
        let width = |l: usize| if l == 0 { inputs } else { cell.width };
        let hidden = cell.layers - 1;
        let mut convs: Vec<_> = (0..hidden)
            .map(|l| conv(width(l), cell.width, rng))
            .collect();
        convs.push(conv(width(hidden), classes, rng));
        let norms = (0..hidden).filter_map(|_| norm.map(|norm| norm.build(cell.width, rng)));
        Ok(Self {
            convs,
            norms: norms.collect(),
            shared: cell
                .method
                .has_layer_norm()
                .then(|| LayerNorm::new(cell.width)),
            dropout: cell.dropout,
        })
    }

    /// The logits `[n, classes]`; `look` is called with the output of each hidden layer.
    pub fn forward<'t>(
        &self,
        pass: &Pass<'t, '_, F>,
        x: impl Into<Input<'t, F>>,
        neighbours: &Neighbourhood<F>,
        look: &mut dyn FnMut(Var<'t, F>),
    ) -> Var<'t, F> {
        let dropout = Dropout { p: self.dropout };
        let x = x.into();
        let adjacency = neighbours.mean();
        let (last, hidden) = self.convs.split_last().expect("at least one layer");
        pass.call(self, &[x.var()], || {
            let mut x = dropout.forward(pass, x);
            for (l, conv) in hidden.iter().enumerate() {
                let mut y = conv.forward(pass, x, adjacency);
                if let Some(norm) = self.norms.get(l) {
                    y = norm.on_graph(pass, y, neighbours);
                }
                if let Some(norm) = &self.shared {
                    y = norm.forward(pass, y);
                }
                let y = y.relu();
                look(y);
                x = dropout.forward(pass, y);
            }
            last.forward(pass, x, adjacency)
        })
    }

    /// The outputs of the hidden layers of an evaluation, and the logits.
    pub fn by_layer(
        &self,
        x: &emmy::sparse::Csr<F>,
        neighbours: &Neighbourhood<F>,
    ) -> (Vec<Tensor<F>>, Tensor<F>) {
        let tape = Tape::new();
        let pass = Pass::eval(&tape, self);
        let mut layers = Vec::new();
        let mut keep = |y: Var<'_, F>| layers.push(y.value());
        let logits = self.forward(&pass, tape.sparse(x), neighbours, &mut keep);
        (layers, logits.value())
    }
}

impl Cell {
    /// The norm in front of the shared LayerNorm, if there is one.
    pub fn norm(&self) -> Option<Norm> {
        let pair = |mode| {
            Some(Norm::Pair(PairNorm {
                scale: self.scale,
                ..PairNorm::new(mode)
            }))
        };
        let contra = |config: emmy::nn::ContraConfig| Some(Norm::Contra(config));
        use emmy::nn::{ContraConfig, contra::After};
        match self.method {
            Method::None | Method::Layer => None,
            Method::Pair | Method::PairLayer => pair(PairMode::Pn),
            Method::PairSi => pair(PairMode::PnSi),
            Method::PairScs => pair(PairMode::PnScs),
            // Its LayerNorm is the shared one.
            Method::Contra => contra(ContraConfig {
                after: After::Nothing,
                ..ContraConfig::graph_code(self.scale)
            }),
            Method::ContraPaper => contra(ContraConfig::new(self.scale)),
            Method::ContraV2 => contra(ContraConfig::v2(self.scale)),
            Method::Dgn => {
                let options = DiffGroupOptions {
                    groups: 10,
                    scale: self.scale,
                };
                Some(options.norm())
            }
        }
    }
}
