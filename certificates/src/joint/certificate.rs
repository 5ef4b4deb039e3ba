//! A certificate: what one has to know besides the weights to check a Lipschitz constant.

use super::Network;
use super::fixed::search;
use super::search::{Barrier, Point};
use crate::error::{Error, Result, Rules};
use crate::linalg::Upper;
use hmac_sha256::Hash;
use serde::{Deserialize, Serialize};

/// A proof that a network is L-Lipschitz in the 2-norm. Everyone who has the weights can check it with one
/// Cholesky factorisation; the [module](super) says why it is a proof.
///
/// As JSON ([`to_json`](Self::to_json)) it is one object with these keys:
///
/// | key | what |
/// |---|---|
/// | `norm` | `2` |
/// | `lipschitz` | L |
/// | `slopes` | \[l, u\] of each neuron, one list per layer |
/// | `multipliers` | λ of each neuron, one list per layer |
/// | `weights` | [the digest](Network::digest) of the weights |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The p of the norm, 2.
    pub norm: u32,
    /// L.
    pub lipschitz: f64,
    /// The slopes of each neuron, layer by layer.
    pub slopes: Vec<Vec<[f64; 2]>>,
    /// Λ, layer by layer.
    pub multipliers: Vec<Vec<f64>>,
    /// [`Network::digest`] of the network.
    pub weights: String,
}

impl Certificate {
    /// The certificate as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings")
    }

    /// Reads what [`to_json`](Self::to_json) wrote. This checks the form alone; [`Network::verify`] is the
    /// proof.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not JSON with the keys of a certificate; the message has the line and
    /// column.
    pub fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|e| {
            Error::invalid(
                "certificate",
                "JSON with the keys of a certificate",
                e.to_string(),
            )
        })
    }
}

/// The parts by which L² may be above the value that the search reached, so that rounding does not stand in
/// the way of the proof; from the smallest on.
const SLACK: [f64; 7] = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2];

/// A certificate is written with this many times the margin that its verification needs, so that other
/// programs, which bound the rounding in another way, accept it too.
pub(super) const CARE: f64 = 4.0;

/// In place of a τ that is 0.
const TINY: f64 = 1e-100;

/// L² is proven to this part of the smallest number that the multipliers prove.
const SHARP: f64 = 2e-10;

impl Network {
    /// The smallest L that the semidefinite relaxation proves, to about 10⁻⁵ of it, with its proof.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the output does not depend on the input, or the numbers of the search or the
    /// proof leave the range of `f64`, as for weights of extreme sizes.
    pub fn certify(&self) -> Result<Certificate> {
        let Point {
            multipliers,
            square,
        } = self.proven_point()?;
        let lipschitz = square.sqrt();
        let mut rest = multipliers.into_iter();
        Ok(Certificate {
            norm: 2,
            lipschitz,
            slopes: self.layers.iter().map(|l| l.slopes.clone()).collect(),
            multipliers: self
                .layers
                .iter()
                .map(|l| rest.by_ref().take(l.slopes.len()).collect())
                .collect(),
            weights: self.digest(),
        })
    }

    /// The smallest τ that is found, with multipliers that prove it.
    pub(super) fn proven_point(&self) -> Result<Point> {
        let refused = |found| {
            Error::invalid(
                "network",
                "a Lipschitz constant that can be certified",
                found,
            )
        };
        let all = search(self);
        if all.is_empty() {
            return Err(refused(
                "a network that is constant, or weights of extreme sizes",
            ));
        }
        let best = self.best(all, CARE);
        let (at, below) = best.ok_or_else(|| refused("a matrix that is singular to rounding"))?;
        Ok(self.sharpened(at, below, CARE))
    }

    /// A constant that these multipliers prove, to the smallest slack; infinite if they prove none.
    pub(super) fn proven_with(&self, multipliers: &[f64]) -> Upper {
        let (network, _) = self.with_fewer_inputs();
        let reached = Barrier::new(&network).reached(multipliers);
        let proven = reached.and_then(|square| {
            let at = Point {
                multipliers: multipliers.to_vec(),
                square: square.max(TINY),
            };
            self.proven(at, CARE)
        });
        proven.map_or(Upper::INFINITE, |(at, _)| Upper::new(at.square.sqrt()))
    }

    /// The smallest τ that one of these points proves, which come in the order of their τ, and one below it
    /// that its multipliers do not prove, with so many times the margin for rounding.
    pub(super) fn best(&self, points: Vec<Point>, margins: f64) -> Option<(Point, f64)> {
        let mut best: Option<(Point, f64)> = None;
        for at in points {
            if best
                .as_ref()
                .is_some_and(|(best, _)| best.square <= at.square)
            {
                break;
            }
            let proven = self.proven(at, margins);
            best = match (best, proven) {
                (Some(a), Some(b)) if a.0.square <= b.0.square => Some(a),
                (a, b) => b.or(a),
            };
        }
        best
    }

    /// A τ that the multipliers prove, and one below it that they do not.
    fn proven(&self, at: Point, margins: f64) -> Option<(Point, f64)> {
        let mut below = at.square * (1.0 - 1e-6);
        for slack in SLACK {
            let square = at.square * (1.0 + slack);
            if self.proves(&at.multipliers, square_below(square.sqrt()), margins) {
                return Some((Point { square, ..at }, below));
            }
            below = square;
        }
        None
    }

    /// About the smallest τ that the multipliers prove.
    pub(super) fn sharpened(&self, mut at: Point, mut below: f64, margins: f64) -> Point {
        while at.square - below > SHARP * at.square {
            let middle = 0.5 * (at.square + below);
            match self.proves(&at.multipliers, square_below(middle.sqrt()), margins) {
                true => at.square = middle,
                false => below = middle,
            }
        }
        at
    }

    /// Proves the certificate for this network anew: nothing but Λ and L is taken from it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is of other weights, slopes or another norm, a number is not positive and
    /// finite, or Λ does not prove L.
    pub fn verify(&self, certificate: &Certificate) -> Result<()> {
        let rules = Rules("certificate");
        let Certificate {
            norm,
            lipschitz,
            slopes,
            multipliers,
            weights,
        } = certificate;
        rules.hold(*norm == 2, "norm", "2", norm)?;
        let digest = self.digest();
        rules.hold(
            *weights == digest,
            "weights",
            format!("the digest {digest} of the network"),
            weights,
        )?;
        let own = || self.layers.iter().map(|l| &l.slopes);
        rules.hold(own().eq(slopes), "slopes", "those of the network", "others")?;
        let lengths = multipliers.iter().map(Vec::len);
        let as_many = lengths.eq(own().map(Vec::len));
        rules.hold(as_many, "multipliers", "one per neuron", "another number")?;
        let all = multipliers.concat();
        for &x in all.iter().chain([lipschitz]) {
            rules.hold(x > 0.0 && x.is_finite(), "number", "above 0 and finite", x)?;
        }
        let proven = self.proves(&all, square_below(*lipschitz), 1.0);
        rules.hold(
            proven,
            "L",
            "a constant that the multipliers prove",
            lipschitz,
        )
    }

    /// SHA-256 of all maps, those of the layers first and in their order: for each matrix the number of the
    /// block that it reads, of its rows and of its columns as 8 bytes, then its entries row by row as
    /// `f64`, all little-endian; in hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut hash = Hash::new();
        for (j, a) in self.maps() {
            for n in [*j, a.nrows(), a.ncols()] {
                hash.update((n as u64).to_le_bytes());
            }
            a.iter().for_each(|x| hash.update(x.to_le_bytes()));
        }
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// A number that is at most L².
fn square_below(l: f64) -> f64 {
    (l * l).next_down()
}
