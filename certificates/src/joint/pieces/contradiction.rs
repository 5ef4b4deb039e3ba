//! The proof that a pattern of slopes has no input, in integers.
//!
//! Weights, biases and slopes are numbers m · 2ᵉ with an integer m. Multiplied by a power of two they are
//! integers, and so are the arguments of all neurons as maps of the input, each times a positive factor.

use super::Pieces;
use num_bigint::{BigInt, Sign};
use num_traits::Float;

/// An affine map of the input, times a positive number: its n coefficients, then its constant.
type Row = Vec<BigInt>;

/// Whether no open set of inputs has the signs of this pattern at these neurons: a combination Σ y_i s_i
/// (a_i · x + b_i) with y ≥ 0, not all 0, has Σ y_i s_i a_i = 0 and Σ y_i s_i b_i ≤ 0, where s_i is the sign
/// of neuron i and a_i ≠ 0 for a y_i > 0. Then not all terms can be positive. (Farkas, "Theorie der
/// einfachen Ungleichungen", 1902.)
///
/// y is the only combination that is 0; if there are several, or none, nothing is proven.
pub(super) fn is_contradiction(
    pieces: &Pieces,
    pattern: &[Option<bool>],
    neurons: &[usize],
) -> bool {
    let Some(rows) = arguments(pieces, pattern, neurons) else {
        return false;
    };
    let signed = rows.into_iter().zip(neurons).map(|(row, i)| {
        let negative = pattern[*i] == Some(false);
        row.into_iter()
            .map(|x| if negative { -x } else { x })
            .collect::<Row>()
    });
    let rows: Vec<Row> = signed.collect();
    let is_zero = |x: &BigInt| x.sign() == Sign::NoSign;
    let Some(mut factors) = combination(&rows) else {
        return false;
    };
    if factors.iter().any(|y| y.sign() == Sign::Minus) {
        factors.iter_mut().for_each(|y| *y = -std::mem::take(y));
    }
    let constant: BigInt = (rows.iter().zip(&factors))
        .map(|(row, y)| row.last().expect("a constant") * y)
        .sum();
    let positive = factors.iter().all(|y| y.sign() != Sign::Minus);
    let counts = rows.iter().zip(&factors).any(|(row, y)| {
        let coefficients = &row[..row.len() - 1];
        !is_zero(y) && !coefficients.iter().all(is_zero)
    });
    let negative_constant = constant.sign() == Sign::Minus;
    positive && (negative_constant || counts && constant.sign() == Sign::NoSign)
}

/// The factors y, up to a common one, for which Σ y_i a_i = 0 over the coefficients of the rows; `None`
/// unless there is exactly one. Gauss–Jordan elimination without fractions (Bareiss, "Sylvester's identity
/// and multistep integer-preserving Gaussian elimination", 1968).
fn combination(rows: &[Row]) -> Option<Vec<BigInt>> {
    let count = rows.len();
    let n = rows[0].len() - 1;
    // Column i has the coefficients of row i.
    let mut a: Vec<Vec<BigInt>> = (0..n)
        .map(|j| rows.iter().map(|row| row[j].clone()).collect())
        .collect();
    let mut pivots: Vec<usize> = Vec::new();
    let mut last = BigInt::from(1);
    for column in 0..count {
        let rank = pivots.len();
        let Some(found) = (rank..n).find(|&i| a[i][column].sign() != Sign::NoSign) else {
            continue;
        };
        a.swap(rank, found);
        let top = a[rank].clone();
        for (i, row) in a.iter_mut().enumerate() {
            if i == rank {
                continue;
            }
            let factor = row[column].clone();
            for (x, y) in row.iter_mut().zip(&top) {
                *x = (&top[column] * &*x - &factor * y) / &last;
            }
        }
        last = top[column].clone();
        pivots.push(column);
    }
    if pivots.len() + 1 != count {
        return None;
    }
    // All pivots are `last` now.
    let free = (0..count).find(|i| !pivots.contains(i))?;
    let mut factors = vec![BigInt::from(0); count];
    for (row, column) in a.iter().zip(&pivots) {
        factors[*column] = -&row[free];
    }
    factors[free] = last;
    Some(factors)
}

/// The arguments of these neurons as maps of the input; `None` if one is not affine under the pattern.
fn arguments(pieces: &Pieces, pattern: &[Option<bool>], neurons: &[usize]) -> Option<Vec<Row>> {
    let network = &pieces.network;
    let n = network.inputs;
    let shift = shift(pieces);
    let integer = |x: f64| scaled(x, shift);
    let zero = || vec![BigInt::from(0); n + 1];
    let input = (0..n).map(|i| {
        let mut row = zero();
        row[i] = BigInt::from(1);
        Some(row)
    });
    // Values of block k are times 2^(shift · 2k): each layer multiplies with a weight and a slope.
    let mut blocks: Vec<Vec<Option<Row>>> = vec![input.collect()];
    let mut all = Vec::new();
    let mut next = 0;
    for (k, layer) in network.layers.iter().enumerate() {
        let mut values = Vec::new();
        for (i, slopes) in layer.slopes.iter().enumerate() {
            let mut sum = zero();
            sum[n] = integer(pieces.biases[k][i]) << (2 * k * shift);
            let mut known = true;
            for (j, a) in &layer.reads {
                for (weight, value) in a.row(i).iter().zip(&blocks[*j]) {
                    if *weight == 0.0 {
                        continue;
                    }
                    let Some(value) = value else {
                        known = false;
                        continue;
                    };
                    let weight = integer(*weight) << (2 * (k - j) * shift);
                    sum.iter_mut()
                        .zip(value)
                        .for_each(|(x, v)| *x += &weight * v);
                }
            }
            let slope = match pattern[next] {
                _ if slopes[0] == slopes[1] => Some(slopes[0]),
                Some(on) => Some(slopes[usize::from(on)]),
                None => None,
            };
            values.push(match slope {
                Some(0.0) => Some(zero()),
                Some(slope) if known => {
                    let slope = integer(slope);
                    Some(sum.iter().map(|x| x * &slope).collect())
                }
                _ => None,
            });
            if let Some(place) = neurons.iter().position(|i| *i == next) {
                if !known {
                    return None;
                }
                all.push((place, sum));
            }
            next += 1;
        }
        blocks.push(values);
    }
    all.sort_by_key(|(place, _)| *place);
    Some(all.into_iter().map(|(_, row)| row).collect())
}

/// The power of two with which all weights, biases and slopes are integers.
fn shift(pieces: &Pieces) -> usize {
    let network = &pieces.network;
    let slopes = network.layers.iter().flat_map(|l| l.slopes.as_flattened());
    let weights = network.maps().flat_map(|(_, a)| a.iter());
    let biases = pieces.biases.iter().flatten();
    let exponents = weights.chain(biases).chain(slopes).map(|x| {
        let (mantissa, exponent, _) = x.integer_decode();
        match mantissa {
            0 => 0,
            _ => -(i32::from(exponent) + mantissa.trailing_zeros() as i32),
        }
    });
    exponents.max().unwrap_or(0).max(0) as usize
}

/// x · 2^shift, which is an integer.
fn scaled(x: f64, shift: usize) -> BigInt {
    let (mantissa, exponent, sign) = x.integer_decode();
    if mantissa == 0 {
        return BigInt::from(0);
    }
    let zeros = mantissa.trailing_zeros();
    let up = i64::from(exponent) + i64::from(zeros) + shift as i64;
    let mantissa = BigInt::from(mantissa >> zeros) << (up as usize);
    mantissa * i64::from(sign)
}
