//! The paper's numbers: mean test accuracy in percent ± the standard deviation, and in Tables 1 and 2 the
//! depth.
//!
//! Dasoulas, Scaman and Virmaux, "Lipschitz Normalization for Self-Attention Layers with Application to Graph
//! Neural Networks", ICML 2021.

use crate::deep_attention::cell::{Model, Normaliser};

/// A model with its normaliser.
pub type Variant = (Model, Normaliser);

/// The columns of Table 1: data set, percentage of missing features.
pub const TABLE_1_COLUMNS: [(&str, f64); 6] = [
    ("cora", 0.0),
    ("cora", 100.0),
    ("citeseer", 0.0),
    ("citeseer", 100.0),
    ("pubmed", 0.0),
    ("pubmed", 100.0),
];

#[rustfmt::skip]
pub const TABLE_1: [(Variant, [&str; 6]); 5] = [
    ((Model::Gcn, Normaliser::None),
     ["82.5 ± 1.2, L=2", "58.8 ± 3.5, L=2", "69.5 ± 2.1, L=2", "31.3 ± 2.7, L=2", "77.9 ± 1.4, L=2", "44.9 ± 4.4, L=2"]),
    ((Model::Ggnn, Normaliser::None),
     ["81.8 ± 2.0, L=2", "68.2 ± 2.5, L=6", "68.5 ± 1.9, L=3", "40.5 ± 1.4, L=5", "78.4 ± 2.1, L=4", "56.6 ± 1.9, L=4"]),
    ((Model::Gat, Normaliser::None),
     ["82.3 ± 2.3, L=2", "65.3 ± 2.1, L=4", "69.3 ± 1.6, L=2", "42.8 ± 1.6, L=4", "77.4 ± 0.5, L=6", "63.1 ± 0.7, L=4"]),
    ((Model::Gat, Normaliser::Pair),
     ["78.8 ± 0.6, L=4", "73.8 ± 1.2, L=12", "67.2 ± 0.8, L=4", "51.7 ± 1.1, L=10", "77.6 ± 1.6, L=8", "70.4 ± 1.1, L=12"]),
    ((Model::Gat, Normaliser::Lipschitz),
     ["83.1 ± 0.5, L=5", "75.3 ± 0.9, L=11", "69.1 ± 1.5, L=3", "50.9 ± 1.9, L=9", "78.9 ± 1.3, L=5", "73.3 ± 1.4, L=15"]),
];

/// Table 2 without ogbn-arxiv: the columns Cora and PubMed, 100 % missing.
pub const TABLE_2: [(Variant, [&str; 2]); 2] = [
    (
        (Model::Gcnii, Normaliser::None),
        ["74.9 ± 0.4, L=14", "73.9 ± 0.3, L=16"],
    ),
    (
        (Model::Gat, Normaliser::Lipschitz),
        ["75.3 ± 0.9, L=11", "73.3 ± 1.4, L=15"],
    ),
];

/// The columns of Table 3: data set, layers.
pub const TABLE_3_COLUMNS: [(&str, usize); 4] =
    [("cora", 15), ("cora", 30), ("pubmed", 15), ("pubmed", 30)];

/// Table 3: normaliser of GAT, whether there are residuals.
#[rustfmt::skip]
pub const TABLE_3: [((Normaliser, bool), [&str; 4]); 4] = [
    ((Normaliser::None, false), ["38.2 ± 1.7", "29.5 ± 3.6", "68.9 ± 1.5", "28.2 ± 3.1"]),
    ((Normaliser::None, true), ["76.1 ± 1.2", "63.5 ± 2.1", "76.2 ± 1.1", "63.8 ± 3.3"]),
    ((Normaliser::Lipschitz, false), ["79.4 ± 0.7", "69.3 ± 4.1", "76.4 ± 1.5", "67.2 ± 2.1"]),
    ((Normaliser::Lipschitz, true), ["80.2 ± 1.1", "69.4 ± 2.8", "77.3 ± 1.0", "68.7 ± 1.8"]),
];

/// Training accuracies of Figure 5 at depth 10 that the text gives.
pub const FIGURE_5_AT_10: [(Variant, &str); 2] = [
    ((Model::Gat, Normaliser::Lipschitz), "68.3"),
    ((Model::Gat, Normaliser::Pair), "47.8"),
];
