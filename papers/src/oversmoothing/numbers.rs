//! The paper's Table 3: mean test accuracy in percent ± the standard deviation, five runs.
//!
//! Guo, Wang, Du and Wang, "ContraNorm: A Contrastive Learning Perspective on Oversmoothing and Beyond", ICLR
//! 2023.

use crate::oversmoothing::cell::Method;

/// The columns.
pub const LAYERS: [usize; 5] = [2, 4, 8, 16, 32];

/// A method and its numbers by depth.
pub type Row = (Method, [&'static str; 5]);

/// The data sets, and per method the numbers by depth.
#[rustfmt::skip]
pub const TABLE_3: [(&str, [Row; 4]); 4] = [
    ("cora", [
        (Method::None, ["81.75 ± 0.51", "72.61 ± 2.42", "17.71 ± 6.89", "20.71 ± 8.54", "19.69 ± 9.54"]),
        (Method::Layer, ["79.96 ± 0.73", "77.45 ± 0.67", "39.09 ± 4.68", "7.79 ± 0.00", "7.79 ± 0.00"]),
        (Method::Pair, ["75.32 ± 1.05", "72.64 ± 2.67", "71.86 ± 3.31", "54.11 ± 9.49", "36.62 ± 2.73"]),
        (Method::Contra, ["79.75 ± 0.33", "77.02 ± 0.96", "74.01 ± 0.64", "68.75 ± 2.10", "46.39 ± 2.46"]),
    ]),
    ("citeseer", [
        (Method::None, ["69.18 ± 0.34", "55.01 ± 4.36", "19.65 ± 0.00", "19.65 ± 0.00", "19.65 ± 0.00"]),
        (Method::Layer, ["63.27 ± 1.15", "60.91 ± 0.76", "33.74 ± 6.15", "19.65 ± 0.00", "19.65 ± 0.00"]),
        (Method::Pair, ["61.59 ± 1.35", "53.01 ± 2.19", "55.76 ± 4.45", "44.21 ± 1.73", "36.68 ± 2.55"]),
        (Method::Contra, ["64.06 ± 0.85", "60.55 ± 0.72", "59.30 ± 0.67", "49.01 ± 3.49", "36.94 ± 1.70"]),
    ]),
    ("chameleon", [
        (Method::None, ["45.79 ± 1.20", "37.85 ± 1.35", "22.37 ± 0.00", "22.37 ± 0.00", "23.37 ± 0.00"]),
        (Method::Layer, ["63.95 ± 1.29", "55.79 ± 1.25", "34.08 ± 2.62", "22.37 ± 0.00", "22.37 ± 0.00"]),
        (Method::Pair, ["62.24 ± 1.73", "58.38 ± 1.48", "49.12 ± 2.32", "37.54 ± 1.70", "30.66 ± 1.58"]),
        (Method::Contra, ["64.78 ± 1.68", "58.73 ± 1.12", "48.99 ± 1.52", "40.92 ± 1.74", "35.44 ± 3.16"]),
    ]),
    ("squirrel", [
        (Method::None, ["29.47 ± 0.96", "19.31 ± 0.00", "19.31 ± 0.00", "19.31 ± 0.00", "19.31 ± 0.00"]),
        (Method::Layer, ["43.04 ± 1.25", "29.64 ± 5.50", "19.63 ± 0.45", "19.96 ± 0.44", "19.40 ± 0.19"]),
        (Method::Pair, ["43.86 ± 0.41", "40.25 ± 0.55", "36.03 ± 1.43", "29.55 ± 2.19", "29.05 ± 0.91"]),
        (Method::Contra, ["47.24 ± 0.66", "40.31 ± 0.74", "35.85 ± 1.58", "32.37 ± 0.93", "27.80 ± 0.72"]),
    ]),
];

/// Whether five runs with these numbers are one constant prediction: runs that learn do not agree to two
/// digits. Its accuracy is the share of one class among the test nodes.
pub fn is_constant(printed: &str) -> bool {
    printed.ends_with("± 0.00")
}
