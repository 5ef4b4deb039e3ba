//! Verifies a certificate of a Lipschitz constant. This program shares no code with the search that found
//! it: it forms one matrix from the weights and the certificate, and shows that it is positive definite.
//!
//! `cargo run --example verify -- WEIGHTS CERTIFICATE [OUTPUT]`. A copy needs the crates `emmy`,
//! `serde` 1 with its feature `derive`, `serde_json` 1 and `hmac-sha256` 1.1.
//!
//! WEIGHTS is a safetensors file with the matrices W₁, …, W_l of a chain W_l σ(… σ(W₁ x)), named
//! `NAME.weight` and ordered by the numbers in their names; OUTPUT, counted from 0, takes one row of W_l.
//! CERTIFICATE is JSON.
//!
//! With Λ the multipliers and l, u the slopes of the neurons, P is the symmetric matrix of blocks
//!
//! ```text
//! input     I + W₁ᵀ lu Λ₁ W₁
//! layer k   −½ (l + u) Λ_k W_k    Λ_k + W_{k+1}ᵀ lu Λ_{k+1} W_{k+1}
//! output                          W_l                                 L² I
//! ```
//!
//! If P is positive definite, the chain is L-Lipschitz in the 2-norm; `emmy::lipschitz::joint` says why.

use emmy::ndarray::{Array2, s};
use emmy::store::weights::Weights;
use emmy::{Error, Result};
use hmac_sha256::Hash;
use serde::Deserialize;

const HELP: &str =
    "verify WEIGHTS CERTIFICATE [OUTPUT]: verifies a certificate of a Lipschitz constant

  WEIGHTS       a safetensors file with the matrices of a chain
  CERTIFICATE   a file of JSON, as `cargo run --release -p papers -- lipschitz` writes it
  OUTPUT        the number of one output, from 0 [default: all outputs]";

#[derive(Deserialize)]
struct Certificate {
    norm: u32,
    lipschitz: f64,
    slopes: Vec<Vec<[f64; 2]>>,
    multipliers: Vec<Vec<f64>>,
    weights: String,
}

/// The matrices of the file, in their order.
fn chain(path: &str, output: Option<usize>) -> Result<Vec<Array2<f64>>> {
    let file = Weights::open(path)?;
    let mut keys: Vec<&str> = file.keys().filter(|key| key.ends_with("weight")).collect();
    let digits = |key: &str| key.chars().filter(char::is_ascii_digit).collect::<String>();
    keys.sort_by_key(|key| digits(key).parse::<u64>().ok());
    let mut all = Vec::new();
    for key in keys {
        let shape = format!("the shape {:?}", file.shape(key));
        let matrix = file.get(key)?.into_owned().into_dimensionality();
        all.push(matrix.map_err(|_| Error::invalid(key, "a matrix [out, in]", shape))?);
    }
    let fits = |w: &[Array2<f64>]| w[0].nrows() == w[1].ncols();
    if all.len() < 2 || !all.windows(2).all(fits) {
        let rule = "two matrices or more, each as wide as the one before is high";
        return Err(Error::invalid(path, rule, "others"));
    }
    let last = all.len() - 1;
    if let Some(row) = output {
        let rule = format!("below {}", all[last].nrows());
        let row = (row < all[last].nrows()).then_some(row);
        let row = row.ok_or_else(|| Error::invalid("OUTPUT", rule, "a larger number"))?;
        all[last] = all[last].slice(s![row..=row, ..]).to_owned();
    }
    Ok(all)
}

/// SHA-256 of the chain: for each matrix the number of the layer that it reads, its rows and its columns as 8
/// bytes, then its entries row by row, all little-endian.
fn digest(chain: &[Array2<f64>]) -> String {
    let mut hash = Hash::new();
    for (k, w) in chain.iter().enumerate() {
        let sizes = [k, w.nrows(), w.ncols()].into_iter();
        sizes.for_each(|n| hash.update((n as u64).to_le_bytes()));
        w.iter().for_each(|x| hash.update(x.to_le_bytes()));
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A lower triangle, row by row.
type Triangle = Vec<Vec<f64>>;

/// P, and for each entry the sum of the sizes of its terms.
fn form(chain: &[Array2<f64>], of: &Certificate) -> (Triangle, Triangle) {
    let inputs = chain[0].ncols();
    let rows = inputs + chain.iter().map(|w| w.nrows()).sum::<usize>();
    let zeros: Triangle = (0..rows).map(|i| vec![0.0; i + 1]).collect();
    let (mut p, mut sizes) = (zeros.clone(), zeros);
    // A product may be too small for a number. The factors that follow make this error larger; `behind` is
    // their size.
    let mut add = |i: usize, j: usize, x: f64, behind: f64| {
        p[i][j] += x;
        sizes[i][j] += x.abs() + 4.0 * f64::MIN_POSITIVE * behind;
    };
    (0..inputs).for_each(|i| add(i, i, 1.0, 0.0));
    let (mut left, mut top) = (0, inputs);
    for (k, w) in chain.iter().enumerate() {
        for (i, row) in w.outer_iter().enumerate() {
            let hidden = k + 1 < chain.len();
            let ([l, u], m) = match hidden {
                true => (of.slopes[k][i], of.multipliers[k][i]),
                // W_l stands in P as it is.
                false => ([0.0, -2.0], 1.0),
            };
            let own = if hidden {
                m
            } else {
                of.lipschitz.powi(2).next_down()
            };
            add(top + i, top + i, own, 0.0);
            for (j, x) in row.iter().enumerate() {
                let behind = (m + 1.0) * (x.abs() + 1.0);
                add(top + i, left + j, -0.5 * (l + u) * m * x, behind);
                let has_product = l != 0.0 && u != 0.0;
                let before = row.iter().take(if has_product { j + 1 } else { 0 });
                for (c, y) in before.enumerate() {
                    let behind = behind * (y.abs() + 1.0);
                    add(left + j, left + c, l * u * m * x * y, behind);
                }
            }
        }
        (left, top) = (top, top + w.nrows());
    }
    (p, sizes)
}

/// Whether P is positive definite: its Cholesky factorisation runs to the end after a margin for all rounding
/// errors is taken from the diagonal (Rump, BIT 46, 2006). Powers of two scale the diagonal to about 1 first.
fn is_positive_definite((mut p, sizes): (Triangle, Triangle)) -> bool {
    let n = p.len();
    let scale = |i: usize| (-0.5 * p[i][i].log2()).round().exp2();
    let scales: Vec<f64> = (0..n).map(scale).collect();
    // Entries before the first that is not zero stay zero.
    let not_zero = |row: &Vec<f64>| row.iter().position(|x| *x != 0.0).unwrap_or(0);
    let first: Vec<usize> = p.iter().map(not_zero).collect();
    // 2⁻⁵³, and the most roundings of a sum of products of five factors.
    let longest = (0..n).map(|i| i + 1 - first[i]).max().unwrap_or(0);
    let (unit, count) = (0.5 * f64::EPSILON, (longest + 8) as f64);
    let roots: Vec<f64> = (0..n).map(|i| p[i][i].sqrt() * scales[i]).collect();
    let of_factors = count / (1.0 - 2.0 * count * unit);
    let mut wrong = vec![0.0; n];
    for i in 0..n {
        for j in 0..=i {
            p[i][j] *= scales[i] * scales[j];
            let mut each = 2.0 * count * sizes[i][j] * scales[i] * scales[j];
            each += if j < first[i] {
                0.0
            } else {
                of_factors * roots[i] * roots[j]
            };
            wrong[i] += each;
            wrong[j] += if i == j { 0.0 } else { each };
        }
    }
    let margin = 2.0 * unit * (wrong.into_iter().fold(0.0, f64::max) + 8.0);
    for i in 0..n {
        p[i][i] -= margin;
        for j in first[i]..=i {
            let from = first[i].max(first[j]);
            let pairs = (from..j).map(|k| p[i][k] * p[j][k]);
            let rest = p[i][j] - pairs.sum::<f64>();
            p[i][j] = if i == j { rest.sqrt() } else { rest / p[j][j] };
        }
        if !(p[i][i] > 0.0 && p[i][i].is_finite()) {
            return false;
        }
    }
    true
}

fn main() -> Result<()> {
    let arguments = std::env::args_os().skip(1);
    let arguments: Vec<String> = arguments.map(|a| a.to_string_lossy().into()).collect();
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        println!("{HELP}");
        return Ok(());
    }
    let (weights, path, output) = match &arguments[..] {
        [weights, path] => (weights, path, None),
        [weights, path, output] => (weights, path, Some(output)),
        others => {
            eprintln!("{HELP}\n");
            let found = match others {
                [] => "none".into(),
                _ => others.join(" "),
            };
            return Err(Error::invalid("arguments", "two or three", found));
        }
    };
    let number = |text: &String| {
        text.parse()
            .map_err(|_| Error::invalid("OUTPUT", "a number", text))
    };
    let chain = chain(weights, output.map(number).transpose()?)?;
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    let of: Certificate = serde_json::from_str(&text)
        .map_err(|e| Error::invalid(path, "a certificate as JSON", e.to_string()))?;
    let hidden = || chain[..chain.len() - 1].iter().map(|w| w.nrows());
    let numbers = || of.multipliers.iter().flatten().chain([&of.lipschitz]);
    let ordered = |s: &[f64; 2]| s[0] <= s[1] && s.iter().all(|x| x.is_finite());
    let of_chain = hidden().eq(of.multipliers.iter().map(Vec::len))
        && hidden().eq(of.slopes.iter().map(Vec::len))
        && of.weights == digest(&chain);
    let sound = of.norm == 2
        && of.slopes.iter().flatten().all(ordered)
        && numbers().all(|x| *x > 0.0 && x.is_finite());
    if !of_chain {
        return Err(Error::invalid(
            path,
            "a certificate of these weights",
            "one of others",
        ));
    }
    if !(sound && is_positive_definite(form(&chain, &of))) {
        return Err(Error::invalid(path, "multipliers that prove L", "others"));
    }
    let l = of.lipschitz;
    println!("verified: |f(x) - f(y)| <= {l} |x - y| for the slopes of the certificate");
    Ok(())
}
