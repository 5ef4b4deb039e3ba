//! The paper's numbers: test loss per character, learning rate fixed, by layers. The paper does not state the
//! unit; nats are inferred from the size of the numbers.
//!
//! Kim, Papamakarios and Mnih, "The Lipschitz Constant of Self-Attention", ICML 2021, Table 1.

use crate::self_attention::cell::Attention;

/// Layers, dot products, L2 with tied weights, contractive; a training that fails has no number.
pub const TABLE_1: [(u32, [&str; 3]); 9] = [
    (2, ["1.061", "1.168", "1.246"]),
    (4, ["1.032", "1.040", "1.135"]),
    (6, ["1.021", "1.023", "1.103"]),
    (8, ["1.017", "1.024", "1.079"]),
    (10, ["1.025", "1.019", "1.072"]),
    (12, ["fails", "1.008", "1.060"]),
    (14, ["fails", "1.018", "1.039"]),
    (16, ["fails", "1.027", "1.029"]),
    (18, ["fails", "1.034", "1.031"]),
];

/// The number of a depth, if it has that depth.
pub fn table_1(attention: Attention, layers: u32) -> Option<&'static str> {
    let (_, row) = TABLE_1.iter().find(|(depth, _)| *depth == layers)?;
    match attention {
        Attention::Dot => Some(row[0]),
        Attention::L2 => Some(row[1]),
        Attention::Contractive => Some(row[2]),
        Attention::L2Plain => None,
    }
}
