//! The tables of "ContraNorm" on GLUE and ImageNet, which no program here repeats.
//!
//! Guo, Wang, Du and Wang, ICLR 2023, Tables 1, 2, 4 to 6, 8 and 9. Their Table 7 has seconds.

use super::repeats::AVERAGE;

/// The columns: the tasks, and their average.
pub const TASKS: [&str; 10] = [
    "COLA", "SST-2", "MRPC", "QQP", "STS-B", "MNLI-m", "MNLI-mm", "QNLI", "RTE", AVERAGE,
];

/// The examples of the validation sets whose score is an accuracy (Wang et al., "GLUE", ICLR 2019). The other
/// scores are no fractions: correlations for COLA and STS-B, F1 for MRPC and QQP.
pub const EXAMPLES: [(&str, u32); 5] = [
    ("SST-2", 872),
    ("MNLI-m", 9815),
    ("MNLI-mm", 9832),
    ("QNLI", 5463),
    ("RTE", 277),
];

/// A row and its numbers.
type Row = (&'static str, [&'static str; 10]);

const BERT: [&str; 10] = [
    "55.28", "92.89", "88.96", "88.24", "88.61", "84.65", "84.61", "91.51", "68.59", "82.59",
];
const CONTRA: [&str; 10] = [
    "58.83", "93.12", "89.49", "88.30", "88.66", "84.87", "84.66", "91.78", "70.76", "83.39",
];

/// A number of a table, and its rows.
#[rustfmt::skip]
pub const TABLES: [(u32, &[Row]); 6] = [
    (1, &[
        ("BERT-base", BERT),
        ("BERT + ContraNorm", CONTRA),
        ("BERT + ContraNorm*", ["59.57", "93.23", "89.97", "88.30", "88.93", "84.87", "84.67", "91.78", "70.76", "83.54"]),
        ("ALBERT-base", ["57.35", "93.69", "92.09", "87.23", "90.54", "84.56", "84.37", "90.90", "76.53", "83.74"]),
        ("ALBERT + ContraNorm", ["58.51", "92.89", "92.86", "87.45", "90.56", "84.33", "84.62", "91.76", "79.06", "84.67"]),
        ("ALBERT + ContraNorm*", ["58.76", "93.23", "92.89", "87.67", "90.72", "84.69", "84.95", "92.28", "79.06", "84.92"]),
    ]),
    (4, &[
        ("LN", ["58.80", "93.12", "89.60", "88.35", "88.97", "84.81", "84.67", "91.47", "68.23", "83.11"]),
        ("SG, L2N", ["59.82", "93.00", "89.64", "88.37", "88.92", "84.72", "84.58", "91.58", "68.95", "83.29"]),
        ("SG, LN", ["59.57", "93.12", "89.97", "88.30", "88.93", "84.84", "84.67", "91.58", "68.95", "83.33"]),
    ]),
    (5, &[
        ("BERT-base", BERT),
        ("BERT + uniformity loss", ["58.08", "93.00", "89.46", "88.14", "88.69", "84.45", "84.43", "91.60", "68.59", "82.94"]),
        ("BERT + ContraNorm", CONTRA),
    ]),
    (6, &[
        ("BERT-base", BERT),
        ("before residual", ["59.57", "93.12", "89.97", "88.30", "88.93", "84.84", "84.67", "91.58", "68.95", "83.33"]),
        ("after residual", CONTRA),
    ]),
    (8, &[
        ("BERT-base", BERT),
        ("BERT + ContraNorm-v2", ["62.08", "93.69", "91.78", "88.36", "89.59", "85.24", "85.19", "91.95", "70.04", "84.21"]),
    ]),
    (9, &[
        ("BERT-base", ["53.3", "92.8", "86.8", "71.2", "82.8", "84.4", "83.2", "90.9", "66.3", "79.1"]),
        ("BERT + ContraNorm", ["54.5", "93.0", "87.9", "71.4", "83.0", "84.5", "83.4", "91.0", "66.9", "79.5"]),
    ]),
];

/// Table 2: the set, the model, and its accuracies with 12, 16 and 24 blocks.
pub const IMAGES: [(&str, &str, [&str; 3]); 4] = [
    ("ImageNet100", "DeiT-tiny", ["76.58", "75.34", "76.76"]),
    ("ImageNet100", "+ContraNorm", ["79.34", "80.44", "81.28"]),
    ("ImageNet1k", "DeiT-small", ["77.32", "78.25", "77.69"]),
    ("ImageNet1k", "+ContraNorm", ["77.80", "79.04", "78.67"]),
];
