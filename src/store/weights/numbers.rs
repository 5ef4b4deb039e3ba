//! The conversion of numbers from and to a file.

use crate::real::Real;
use crate::tensor::Tensor;
use safetensors::Dtype;

/// The numbers that were read, and counts of special cases.
pub(super) struct Numbers<F> {
    pub values: Vec<F>,
    /// How many numbers in the file are infinite or NaN.
    pub not_finite: usize,
    /// How many numbers are finite in the file and infinite as an F.
    pub overflowing: usize,
}

/// The numbers in `bytes`, each the nearest F to the one in the file; none if numbers of this type cannot
/// be those of a model.
#[inline(never)]
pub(super) fn decode<F: Real>(dtype: Dtype, bytes: &[u8]) -> Option<Numbers<F>> {
    Some(match dtype {
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::F32 => each(bytes, |b| f64::from(f32::from_le_bytes(b))),
        Dtype::F16 => each(bytes, |b| half(u16::from_le_bytes(b))),
        Dtype::BF16 => each(bytes, |[a, b]| f64::from(f32::from_le_bytes([0, 0, a, b]))),
        _ => return None,
    })
}

/// Whether [`decode`] reads numbers of this type.
pub(super) fn is_read(dtype: Dtype) -> bool {
    decode::<f32>(dtype, &[]).is_some()
}

fn each<F: Real, const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Numbers<F> {
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

/// The type of F in a file.
pub(super) fn dtype_of<F: Real>() -> Dtype {
    match size_of::<F>() {
        4 => Dtype::F32,
        _ => Dtype::F64,
    }
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
