//! Layers and models.
//!
//! A layer owns its parameters as plain tensors; its forward function takes a [`Pass`], which binds them to a
//! tape. Weights are stored `[out, in]`, so row i of W holds the incoming weights of neuron i, and
//! a layer computes x Wᵀ.
//!
//! | layer | formula | paper |
//! |---|---|---|
//! | [`Linear`] | x Wᵀ + b | |
//! | [`Embedding`] | rows of a table | |
//! | [`Dropout`], [`Activation`] | | Srivastava et al. 2014 |
//! | [`GcnConv`] | Â x Wᵀ + b | Kipf and Welling, ICLR 2017 |
//! | [`GatConv`] | Σ_j α_ij W x_j, static attention | Veličković et al., ICLR 2018 |
//! | [`Gatv2Conv`] | Σ_j α_ij W x_j, dynamic attention | Brody et al., ICLR 2022 |
//! | [`SageConv`] | W_n mean_j x_j + W_r x_i + b | Hamilton et al., NeurIPS 2017 |
//! | [`MultiHeadAttention`] | softmax(q kᵀ/√d) v, heads side by side | Vaswani et al., NeurIPS 2017 |
//! | [`SgcConv`] | Â^K x Wᵀ + b | Wu et al., ICML 2019 |
//! | [`GinConv`] | a perceptron of (1 + ε) x_i + Σ_j x_j | Xu et al., ICLR 2019 |
//! | [`GcniiConv`] | ((1 − β) I + β W) ((1 − α) Â x + α x₀) | Chen et al., ICML 2020 |
//! | [`TransformerConv`] | Σ_j α_ij (W_v x_j + W_e e_ij), dot-product attention | Shi et al., IJCAI 2021 |
//! | [`GatedGraphConv`] | GRU(Σ_j W_k h_j, h_i), K times | Li et al., ICLR 2016 |
//! | [`LayerNorm`] | γ (x − mean) / √(var + ε) + β, per row | Ba et al. 2016 |
//! | [`RmsNorm`] | γ x / √(mean x² + ε), per row | Zhang and Sennrich, NeurIPS 2019 |
//! | [`BatchNorm`] | γ (x − mean) / √(var + ε) + β, per feature | Ioffe and Szegedy, ICML 2015 |
//! | [`GraphNorm`] | γ c / √(mean c² + ε) + β, c = x − α mean, per feature | Cai et al., ICML 2021 |
//! | [`PairNorm`] | s (x − mean) / √(ε + mean ‖x_i − mean‖²), and two more modes | Zhao and Akoglu, ICLR 2020 |
//! | [`Lstm`], [`LstmCell`] | h' = o ⊙ tanh c', c' = f ⊙ c + i ⊙ g | Hochreiter and Schmidhuber 1997 |
//! | [`Gru`], [`GruCell`] | h' = (1 − z) ⊙ n + z ⊙ h | Cho et al., EMNLP 2014 |
//! | [`ActNorm`] | s x + b, which starts from data | Kingma and Dhariwal, NeurIPS 2018 |
//! | [`Spectral`] | W / uᵀ W v | Miyato et al., ICLR 2018 |
//! | [`MultiHeadAttention`] with a [`Contraction`] | c f(x) / L, L a bound of f's constant | Kim et al., ICML 2021 |
//! | [`LipschitzNorm`] | scores of attention divided by a bound of their size | Dasoulas et al., ICML 2021 |
//! | [`ContraNorm`] | LayerNorm(H − s/τ softmax(HHᵀ/τ) H), and more forms | Guo et al., ICLR 2023 |
//! | [`FeedForward`] | σ(x W_upᵀ) W_downᵀ, also gated | Vaswani et al. 2017; Shazeer 2020 |
//! | [`TransformerBlock`], [`Transformer`] | x + f(norm x), or norm(x + f(x)) | Vaswani et al. 2017; Xiong et al. 2020 |
//! | [`LanguageModel`], [`VisionTransformer`], [`Bert`] | models with a [`Transformer`] | GPT-2 2019; ViT 2021; BERT 2019 |
//! | [`Mlp`] | a stack of [`Linear`] | |
//! | [`GraphNet`] | a stack of graph layers | |
//!
//! [`Sampling`] draws symbols from logits; [`LanguageModel::generate`] writes a text with it.
//!
//! A model is described once, by its forward function. Its conservation laws, a summary, and the
//! order of weights for [`Initialization`](crate::init::Initialization) are read off a recorded
//! pass ([`Trace`]).

mod attention;
mod declare;
mod discover;
mod dropout;
mod embedding;
mod fields;
mod graph;
mod initialize;
mod input;
mod linear;
mod log;
mod mlp;
mod module;
mod norm;
mod params;
mod pass;
mod recurrent;
mod sampling;
mod torch;
mod trace;
mod transformer;

pub(crate) use crate::kernels::random::mix;
pub use crate::ops::Activation;
pub use attention::{
    AttentionConfig, Contraction, Invariance, KeyValues, LipschitzNorm, MultiHeadAttention, Score,
    ScoreNormalizer, sinusoidal,
};
pub use discover::discover;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use fields::{Entry, Fields, Role};
pub use graph::{
    AnyGraphConv, AttentionOptions, CommonOptions, Conv, ConvOptions, EndMaps, GatConv,
    GatedGraphConv, GatedGraphOptions, Gatv2Conv, Gatv2Options, GcnConv, GcnOptions, GcniiConv,
    GcniiOptions, GinConv, GinOptions, GraphContext, GraphConv, GraphLayer, GraphNet,
    GraphNetConfig, Heads, MOST_LAYERS, MOST_WEIGHTS, SageConv, SageOptions, SgcConv, SgcOptions,
    Site, TransformerConv, TransformerOptions,
};
pub use input::Input;
pub use linear::Linear;
pub use log::Call;
pub use mlp::Mlp;
pub use module::{Module, entries, entries_mut, parameter_count, roles};
pub(crate) use module::{in_order, places};
pub use norm::contra;
pub use norm::{
    ActNorm, AnyNorm, BatchNorm, ContraConfig, ContraNorm, GraphNorm, LayerNorm, Norm, NormContext,
    NormLayer, NormOptions, Normalizer, PairEps, PairMode, PairNorm, RmsNorm, Running, Spectral,
};
pub use params::Params;
pub use pass::{Layer, Output, Pass, Updates};
pub use recurrent::{Gru, GruCell, Lstm, LstmCell, LstmState};
pub use sampling::Sampling;
pub use torch::TorchName;
pub(crate) use torch::TorchPlace;
pub use trace::{Collapse, Constant, Constants, Measures, Summary, Trace, Traced};
pub use transformer::{
    Bert, BertConfig, BlockConfig, BlockContra, ContraPlace, DropPath, FeedForward,
    FeedForwardConfig, LanguageConfig, LanguageModel, Positions, Transformer, TransformerBlock,
    VisionConfig, VisionTransformer,
};
