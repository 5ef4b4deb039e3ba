//! The types of numbers in a file, and their conversion.

use crate::real::Real;
use crate::tensor::Tensor;

/// The types of numbers that the format knows, with their bits.
const TYPES: [(&str, u64); 22] = [
    ("F64", 64),
    ("F32", 32),
    ("F16", 16),
    ("BF16", 16),
    ("I64", 64),
    ("U64", 64),
    ("C64", 64),
    ("I32", 32),
    ("U32", 32),
    ("I16", 16),
    ("U16", 16),
    ("I8", 8),
    ("U8", 8),
    ("BOOL", 8),
    ("F8_E5M2", 8),
    ("F8_E4M3", 8),
    ("F8_E8M0", 8),
    ("F8_E4M3FNUZ", 8),
    ("F8_E5M2FNUZ", 8),
    ("F6_E2M3", 6),
    ("F6_E3M2", 6),
    ("F4", 4),
];

/// A type of numbers in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dtype {
    pub name: &'static str,
    pub bits: u64,
}

/// The numbers that were read, and counts of special cases.
pub(super) struct Numbers<F> {
    pub values: Vec<F>,
    /// How many numbers in the file are infinite or NaN.
    pub not_finite: usize,
    /// How many numbers are finite in the file and infinite as an F.
    pub overflowing: usize,
}

impl Dtype {
    pub fn named(name: &str) -> Option<Self> {
        let &(name, bits) = TYPES.iter().find(|(known, _)| *known == name)?;
        Some(Self { name, bits })
    }

    /// Whether its numbers can be those of a model.
    pub fn is_read(self) -> bool {
        matches!(self.name, "F64" | "F32" | "F16" | "BF16")
    }

    /// The numbers in `bytes`, each the nearest F to the one in the file.
    #[inline(never)]
    pub fn decode<F: Real>(self, bytes: &[u8]) -> Numbers<F> {
        match self.name {
            "F64" => decode(bytes, f64::from_le_bytes),
            "F32" => decode(bytes, |b| f64::from(f32::from_le_bytes(b))),
            "F16" => decode(bytes, |b| half(u16::from_le_bytes(b))),
            "BF16" => decode(bytes, |[a, b]| f64::from(f32::from_le_bytes([0, 0, a, b]))),
            other => unreachable!("{other} is not read"),
        }
    }
}

fn decode<F: Real, const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Numbers<F> {
    let (mut not_finite, mut overflowing) = (0, 0);
    let (chunks, _) = bytes.as_chunks::<N>();
    let values = chunks.iter().map(|&chunk| {
        let exact = number(chunk);
        let value = F::of(exact);
        not_finite += usize::from(!exact.is_finite());
        overflowing += usize::from(exact.is_finite() && !value.is_finite());
        value
    });
    Numbers {
        values: values.collect(),
        not_finite,
        overflowing,
    }
}

/// The number with these bits of IEEE's binary16: a sign, five bits of exponent, ten of mantissa.
fn half(bits: u16) -> f64 {
    let (exponent, mantissa) = (bits >> 10 & 31, u64::from(bits & 1023));
    let size = match exponent {
        31 if mantissa == 0 => f64::INFINITY,
        31 => f64::NAN,
        // Both are whole multiples of 2⁻²⁵.
        0 => (mantissa << 1) as f64 / f64::from(1 << 25),
        e => ((1024 + mantissa) << e) as f64 / f64::from(1 << 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The name of F in a file.
pub(super) fn name_of<F: Real>() -> String {
    F::NAME.to_uppercase()
}

/// The numbers of a tensor as a file holds them: in row-major order, little-endian.
#[inline(never)]
pub(super) fn encode<F: Real>(tensor: &Tensor<F>, out: &mut Vec<u8>) {
    out.reserve(tensor.len() * size_of::<F>());
    match size_of::<F>() {
        4 => (tensor.iter()).for_each(|x| out.extend((x.as_f64() as f32).to_le_bytes())),
        _ => (tensor.iter()).for_each(|x| out.extend(x.as_f64().to_le_bytes())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the definition of IEEE 754, for all bit patterns.
    #[test]
    fn every_half_is_read() {
        for bits in 0..=u16::MAX {
            let (e, m) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
            let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
            let found = half(bits);
            let expected = match e {
                31 if m != 0.0 => {
                    assert!(found.is_nan());
                    continue;
                }
                31 => sign * f64::INFINITY,
                0 => sign * m / 1024.0 * 2.0_f64.powi(-14),
                _ => sign * (1.0 + m / 1024.0) * 2.0_f64.powi(e - 15),
            };
            assert_eq!(found.to_bits(), expected.to_bits(), "{bits:#x}");
        }
    }

    #[test]
    fn numbers_too_large_and_not_finite_are_counted() {
        let numbers = [1.0, 1e300, f64::NAN, f64::NEG_INFINITY, -1e39, 0.1];
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let f64s = Dtype::named("F64").unwrap();
        let found = f64s.decode::<f32>(&bytes);
        assert_eq!((found.not_finite, found.overflowing), (2, 2));
        assert_eq!((found.values[0], found.values[5]), (1.0, 0.1));
        let found = f64s.decode::<f64>(&bytes);
        assert_eq!((found.not_finite, found.overflowing), (2, 0));
    }
}
