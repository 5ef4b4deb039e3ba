//! How a whole network starts.

use crate::error::{Error, Result, Rules};
use crate::init::{self, Balancing, Position, Rng};
use crate::real::Real;
use crate::symmetry::Law;
use crate::tensor::{Tensor, tensor};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// How weights are drawn, before any balancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightInit {
    /// [`init::xavier_normal`].
    XavierNormal,
    /// [`init::xavier_uniform`].
    XavierUniform,
    /// [`init::kaiming_normal`], for the slope of the activation for negative arguments: 1 for the identity,
    /// that of a LeakyReLU, 0 for all others.
    KaimingNormal,
    /// [`init::looks_linear`] with an orthogonal block D.
    LooksLinearOrthogonal,
    /// [`init::looks_linear`] with a Xavier-normal block D; the fans are those of D.
    LooksLinearXavier,
    /// [`init::identity`] in hidden layers, Xavier normal in the first and last.
    Identity,
    /// [`init::looks_linear`] with D the identity in hidden layers, Xavier normal in the first and last.
    LooksLinearIdentity,
}

/// How attention vectors are drawn, where balancing does not set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionInit {
    /// Xavier normal for `[H, C]` read as `[1, H, C]`: standard deviation √(2 / (H·C + C)), as PyTorch counts
    /// the fans.
    Xavier,
    /// All neighbours weigh the same.
    Zero,
}

/// The second of two weights that read the same neurons: W_t of [`Gatv2Conv`](crate::nn::Gatv2Conv) with
/// separate weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetInit {
    /// Drawn like the first, independently, and balanced with it.
    Balanced,
    /// Zero, as in the paper's published code for citation graphs.
    Zero,
}

/// How a network starts: weights and attention drawn anew, then balanced if wanted; biases and the weights of
/// skip connections zero.
///
/// Mustafa, Bojchevski and Burkholz, "Are GATs Out of Balance?", NeurIPS 2023, Table 1 and Figure 9. A
/// recorded pass gives the order of the layers, and each parameter states its role
/// ([`Role`](crate::nn::Role)), so one rule serves every model.
///
/// *Heads.* Heads that are put side by side are one layer of H·C neurons: looks-linear pairs and identities
/// run over all of them, so neuron j and its partner j + ⌈H·C/2⌉ are in general neurons of different heads.
/// Heads that are averaged have a looks-linear or identity weight each, since the two neurons of a pair would
/// cancel in the mean. Balancing acts on each neuron of each head.
///
/// *Odd widths.* The last pair is incomplete, see [`init::looks_linear`]; balancing gives c = 0 all the same.
///
/// *Activations.* A looks-linear network is linear with ReLU and no biases. With an activation that lets both
/// signs through (the identity, and ELU near 0), the two neurons of a pair hold u and −u in place of relu(u)
/// and relu(−u). Their difference is 2u, so every layer after the first doubles the signal, and a deep
/// network starts exploded. An activation that is not homogeneous has no conservation law; it is balanced as
/// if it were of degree 1. [`is_for_relu`](Self::is_for_relu) says which schemes these two points concern.
///
/// ```
/// use emmy::init::Initialization;
/// use emmy::nn::{GraphNet, GraphNetConfig, Module, Traced, Activation};
///
/// let config = GraphNetConfig { activation: Activation::Relu, ..GraphNetConfig::gat(6, 3) };
/// let mut net = GraphNet::<f64>::new(config, 0)?;
/// Initialization::BAL_O.apply(&mut net, 0)?;
/// for law in net.laws() {
///     assert!(law.balance(&net.tensors()).unwrap().iter().all(|c| c.abs() < 1e-12));
/// }
/// # Ok::<(), emmy::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Initialization {
    /// How weights are drawn.
    pub base: WeightInit,
    /// How attention is drawn; balancing sets that of all layers but the last.
    pub attention: AttentionInit,
    /// How they are then balanced.
    pub balance: Option<Balancing>,
    /// How the second of two weights starts.
    pub target: TargetInit,
}

/// The facts about a model that initialisation needs, by the numbers of its parameters:
/// [`Trace::weight_order`](crate::nn::Trace::weight_order) reads them off a recorded pass.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightOrder {
    /// The layers that hold weights, in the order in which a pass calls them.
    pub layers: Vec<LayerWeights>,
    /// The slope of the activation for negative arguments: 1 without an activation, that of a LeakyReLU, 0
    /// for all others.
    pub slope: f64,
    /// The laws of neurons, which balancing balances.
    pub laws: Vec<Law>,
}

/// The parameters of one layer as initialisation draws them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerWeights {
    /// The weights that read neurons and write neurons, with the number of averaged heads that each writes to
    /// (1 without).
    pub weights: Vec<(usize, usize)>,
    /// The parameters of attention scores.
    pub attention: Vec<usize>,
    /// Biases, and weights of skip connections.
    pub zeros: Vec<usize>,
}

impl Initialization {
    /// Xav: Xavier normal for weights and attention.
    pub const XAVIER: Self = Self {
        base: WeightInit::XavierNormal,
        attention: AttentionInit::Xavier,
        balance: None,
        target: TargetInit::Balanced,
    };

    /// Xav_Z: Xavier normal for weights, a = 0.
    pub const XAVIER_ZERO: Self = Self {
        attention: AttentionInit::Zero,
        ..Self::XAVIER
    };

    /// Bal_X: Xavier normal balanced, β = 2, a = 0.
    pub const BAL_X: Self = Self::XAVIER_ZERO.balanced(2.0);

    /// Bal_O: [`LL_ORTHO`](Self::LL_ORTHO) balanced, β = 2.
    pub const BAL_O: Self = Self::LL_ORTHO.balanced(2.0);

    /// Looks-linear orthogonal, a = 0.
    pub const LL_ORTHO: Self = Self {
        base: WeightInit::LooksLinearOrthogonal,
        ..Self::XAVIER_ZERO
    };

    /// The identity in hidden layers, Xavier in the first and last, a = 0.
    pub const IDENTITY: Self = Self {
        base: WeightInit::Identity,
        ..Self::XAVIER_ZERO
    };

    /// [`IDENTITY`](Self::IDENTITY) balanced, β = 1: hidden layers stay as they are.
    pub const IDENTITY_BAL: Self = Self::IDENTITY.balanced(1.0);

    /// The looks-linear identity in hidden layers, Xavier in the first and last, a = 0.
    pub const LL_IDENTITY: Self = Self {
        base: WeightInit::LooksLinearIdentity,
        ..Self::XAVIER_ZERO
    };

    /// [`LL_IDENTITY`](Self::LL_IDENTITY) balanced, β = 2: hidden layers of an even width stay as they are.
    pub const LL_IDENTITY_BAL: Self = Self::LL_IDENTITY.balanced(2.0);

    /// The schemes with a name. `ll-ortho-bal` is accepted too, and means `bal-o`.
    pub const NAMED: [(&'static str, Self); 9] = [
        ("xavier", Self::XAVIER),
        ("xavier-zero", Self::XAVIER_ZERO),
        ("bal-x", Self::BAL_X),
        ("bal-o", Self::BAL_O),
        ("ll-ortho", Self::LL_ORTHO),
        ("identity", Self::IDENTITY),
        ("identity-bal", Self::IDENTITY_BAL),
        ("ll-identity", Self::LL_IDENTITY),
        ("ll-identity-bal", Self::LL_IDENTITY_BAL),
    ];

    const fn balanced(self, beta: f64) -> Self {
        Self {
            balance: Some(Balancing::constant(beta)),
            ..self
        }
    }

    /// Whether it is made for ReLU: its weights are looks-linear or balanced. See the *activations* above.
    pub fn is_for_relu(&self) -> bool {
        let looks_linear = matches!(
            self.base,
            WeightInit::LooksLinearOrthogonal
                | WeightInit::LooksLinearXavier
                | WeightInit::LooksLinearIdentity
        );
        looks_linear || self.balance.is_some()
    }

    /// Its name among [`NAMED`](Self::NAMED), if it has one.
    pub fn name(&self) -> Option<&'static str> {
        let named = Self::NAMED.iter().find(|(_, scheme)| scheme == self);
        named.map(|(name, _)| *name)
    }

    /// Draws parameters anew, given in the model's order: layer by layer, weights before attention, β at the
    /// end. Draws are in `f64`: models of both types and one seed start from the same numbers, up to
    /// rounding. Parameters that `order` does not name stay as they are.
    ///
    /// # Errors
    /// If the balancing is not [valid](Balancing::validate), or cannot be done because the entries to be
    /// scaled are all zero, as in an identity with more columns than rows. The message names layer and
    /// neuron, and the parameters stay as they were.
    ///
    /// # Panics
    /// If `order` names a parameter that is not there.
    pub fn draw<F: Real>(
        &self,
        order: &WeightOrder,
        parameters: &mut [&mut Tensor<F>],
        seed: u64,
    ) -> Result<()> {
        let rng = &mut init::rng(seed);
        let mut fresh: Vec<Tensor<F>> = parameters.iter().map(|p| (**p).clone()).collect();
        for (l, layer) in order.layers.iter().enumerate() {
            let position = Position::of(l, order.layers.len());
            let weights = layer.weights.iter().map(|&(weight, _)| weight);
            for k in weights.chain(layer.attention.iter().chain(&layer.zeros).copied()) {
                fresh[k] = init::zeros(fresh[k].shape());
            }
            for (k, &(weight, heads)) in layer.weights.iter().enumerate() {
                let is_matrix = fresh[weight].ndim() >= 2;
                let rule = "two axes [out, in] or more; a vector states another role";
                let found = format!("shape {:?}", fresh[weight].shape());
                Rules("initialisation").hold(is_matrix, "weight", rule, found)?;
                // Only a layer with attention vectors has a target.
                let is_target = k > 0 && !layer.attention.is_empty();
                if !is_target || self.target == TargetInit::Balanced {
                    let shape = fresh[weight].shape();
                    fresh[weight] = self.base.draw(shape, heads, position, order.slope, rng);
                }
            }
            if self.attention == AttentionInit::Xavier {
                for &a in &layer.attention {
                    fresh[a] = xavier_attention(fresh[a].shape(), rng);
                }
            }
        }
        if let Some(balancing) = self.balance {
            let mut parameters: Vec<_> = fresh.iter_mut().collect();
            balancing.apply(&order.laws, &mut parameters, rng)?;
        }
        for (parameter, fresh) in parameters.iter_mut().zip(fresh) {
            **parameter = fresh;
        }
        Ok(())
    }
}

impl FromStr for Initialization {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = if text == "ll-ortho-bal" {
            "bal-o"
        } else {
            text
        };
        let named = Self::NAMED.iter().find(|(name, _)| *name == wanted);
        named.map(|(_, scheme)| *scheme).ok_or_else(|| {
            let all = Self::NAMED.map(|(name, _)| name).join(", ");
            Error::invalid(
                "initialisation",
                format!("one of {all}"),
                format!("{text:?}"),
            )
        })
    }
}

impl WeightInit {
    /// A weight `[out, in]` of a layer with `heads` averaged heads, the rows of one head after those of
    /// another.
    fn draw<F: Real>(
        self,
        shape: &[usize],
        heads: usize,
        position: Position,
        slope: f64,
        rng: &mut Rng,
    ) -> Tensor<F> {
        let hidden = position == Position::Hidden;
        let (rows, columns) = (shape[0] / heads, shape[1]);
        let mut mirrored = |block: fn(usize, usize, &mut Rng) -> Tensor<F>| {
            let parts: Vec<Tensor<F>> = (0..heads)
                .map(|_| init::looks_linear(rows, columns, position, |m, n| block(m, n, rng)))
                .collect();
            stack(shape, &parts)
        };
        match self {
            Self::LooksLinearOrthogonal => mirrored(|m, n, rng| init::orthogonal(m, n, 1.0, rng)),
            Self::LooksLinearXavier => mirrored(|m, n, rng| init::xavier_normal(&[m, n], 1.0, rng)),
            Self::LooksLinearIdentity if hidden => mirrored(|m, n, _| init::identity(m, n)),
            Self::Identity if hidden => stack(shape, &vec![init::identity(rows, columns); heads]),
            Self::XavierNormal | Self::Identity | Self::LooksLinearIdentity => {
                init::xavier_normal(shape, 1.0, rng)
            }
            Self::XavierUniform => init::xavier_uniform(shape, 1.0, rng),
            Self::KaimingNormal => init::kaiming_normal(shape, slope, rng),
        }
    }
}

/// The rows of all parts, one below the other.
fn stack<F: Real>(shape: &[usize], parts: &[Tensor<F>]) -> Tensor<F> {
    tensor(shape, parts.iter().flatten().copied().collect())
}

/// Xavier normal for `[H, C]` read as `[1, H, C]`.
fn xavier_attention<F: Real>(shape: &[usize], rng: &mut Rng) -> Tensor<F> {
    let drawn: Tensor<F> = init::xavier_normal(&[&[1], shape].concat(), 1.0, rng);
    tensor(shape, drawn.iter().copied().collect())
}
