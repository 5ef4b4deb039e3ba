//! Networks on a ball around one input, where many neurons can have one slope alone.

use super::certificate::CARE;
use super::fixed::search;
use super::{Network, Neurons, Read};
use crate::error::Result;
use crate::kernels::gemm::matmul;
use crate::linalg::{Lp, Upper, frobenius_norm, gamma};
use ndarray::{Array1, Array2, Axis};

/// Up to so many neurons of a layer that may have several slopes are bounded one by one.
const MOST_ALONE: usize = 64;

/// The least width of a range of slopes that is not one slope, as a part of the largest slope anywhere.
const NARROWEST: f64 = 3e-4;

impl Network {
    /// The same network for inputs within the distance `radius` of one, layer by layer: `slopes` gives the
    /// slopes of neuron i of layer k (both from 0) if its argument is at most `distance` away from its value
    /// at this one input, called as `slopes(k, i, distance)`.
    ///
    /// The distance is the radius times a Lipschitz constant of the argument: the norm of a row of weights
    /// in the first layer, and the bound of the network before it, with the slopes that were found so far,
    /// in the others. So the more neurons are found to have one slope, the sharper is the bound of those
    /// behind them. A range that is narrower than 3 · 10⁻⁴ of the largest slope of the neuron is widened to
    /// this.
    ///
    /// ```
    /// use emmy::lipschitz::joint::Network;
    /// use ndarray::array;
    ///
    /// // 2 relu(x) − 2 relu(x − 1): on the ball of radius ½ around 3 both neurons are on, and nothing moves.
    /// let net = Network::chain(vec![array![[1.0], [1.0]], array![[2.0, -2.0]]], [0.0, 1.0])?;
    /// let arguments = [3.0, 2.0];
    /// let relu = |low: f64, high: f64| [f64::from(u8::from(low > 0.0)), f64::from(u8::from(high > 0.0))];
    /// let near = net.within(0.5, |_, i, d| relu(arguments[i] - d, arguments[i] + d))?;
    /// assert!(near.lipschitz()?.get() < 1e-12);
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new), for the slopes that are given.
    ///
    /// # Panics
    /// If the radius is negative or not finite.
    #[track_caller]
    pub fn within(
        &self,
        radius: f64,
        mut slopes: impl FnMut(usize, usize, f64) -> [f64; 2],
    ) -> Result<Self> {
        assert!(
            radius >= 0.0 && radius.is_finite(),
            "Network::within: the radius is {radius}; it must be at least 0 and finite"
        );
        let radius = Upper::new(radius);
        let mut layers: Vec<Neurons> = Vec::new();
        for (k, layer) in self.layers.iter().enumerate() {
            let before = Self {
                layers: layers.clone(),
                output: layer.reads.clone(),
                ..self.clone()
            };
            let mut own = layer.clone();
            let mut set = |own: &mut Neurons, i: usize, constant: Upper| {
                let found = slopes(k, i, (radius * constant).get());
                own.slopes[i] = not_too_narrow(found, layer.slopes[i]);
            };
            for (i, constant) in before.constants().into_iter().enumerate() {
                set(&mut own, i, constant);
            }
            let open: Vec<usize> = (0..own.slopes.len())
                .filter(|&i| own.slopes[i][0] < own.slopes[i][1])
                .collect();
            if k > 0 && open.len() <= MOST_ALONE {
                for i in open {
                    if let Ok(constant) = before.one_output(i).lipschitz() {
                        set(&mut own, i, constant);
                    }
                }
            }
            layers.push(own);
        }
        let near = Self {
            layers,
            ..self.clone()
        };
        let roundings = near.roundings;
        Ok(Self::new(near.inputs, near.layers, near.output)?.with_roundings(roundings))
    }

    /// The proven Lipschitz constant alone: that of [`certify`](Self::certify), or the norm of the product of
    /// all maps if all neurons have one slope each.
    ///
    /// # Errors
    /// As for [`certify`](Self::certify), but not for a network that is constant since all slopes are 0.
    pub fn lipschitz(&self) -> Result<Upper> {
        if self.is_linear() {
            let Product { value, error } = self.product();
            return Ok(Lp::Two.matrix(value.view()) + error);
        }
        Ok(Upper::new(self.certify()?.lipschitz))
    }

    /// Whether every neuron has one slope.
    pub(super) fn is_linear(&self) -> bool {
        let mut slopes = self.layers.iter().flat_map(|layer| &layer.slopes);
        slopes.all(|[l, u]| l == u)
    }

    /// A proven constant of each output: with the multipliers that are best for all together.
    fn constants(&self) -> Vec<Upper> {
        if self.is_linear() {
            let Product { value, error } = self.product();
            let rows = value.outer_iter();
            return rows
                .map(|row| Lp::Two.matrix(row.insert_axis(Axis(0))) + error)
                .collect();
        }
        let at = self.best(search(self), CARE).map(|(at, _)| at);
        let prove = |i: usize| match &at {
            Some(at) => self.one_output(i).proven_with(&at.multipliers),
            None => Upper::INFINITE,
        };
        (0..self.outputs()).map(prove).collect()
    }

    /// The product of all maps and slopes of a network whose neurons have one slope each.
    ///
    /// A neuron of slope 0 passes nothing on. Its row and its columns are 0 here, which makes the norms of the
    /// maps smaller, and with them the bound of the rounding errors: by many orders of size in a deep network.
    pub(super) fn product(&self) -> Product {
        let slopes = |layer: &Neurons| layer.slopes.iter().map(|[_, u]| *u).collect();
        let slopes: Vec<Array1<f64>> = self.layers.iter().map(slopes).collect();
        let mut passes = vec![Array1::ones(self.inputs)];
        let on = |each: &Array1<f64>| each.mapv(|slope| f64::from(u8::from(slope != 0.0)));
        passes.extend(slopes.iter().map(on));
        passes.push(Array1::ones(self.outputs()));
        let passing = |reads: &[Read], block: usize| -> Vec<Read> {
            let rows = passes[block].view().insert_axis(Axis(1));
            let maps = reads.iter().map(|(j, a)| (*j, a * &passes[*j] * rows));
            maps.collect()
        };
        let mut values = vec![Product {
            value: Array2::eye(self.inputs),
            error: Upper::ZERO,
        }];
        for (k, layer) in self.layers.iter().enumerate() {
            let mut own = self.sum(&passing(&layer.reads, k + 1), &values);
            let sizes = slopes[k].iter().map(|s| Upper::new(s.abs()));
            let steepest = sizes.fold(Upper::ZERO, Upper::max);
            own.error = own.error * steepest + own.size() * steepest * Upper::new(f64::EPSILON);
            own.value *= &slopes[k].view().insert_axis(Axis(1));
            values.push(own);
        }
        self.sum(&passing(&self.output, self.layers.len() + 1), &values)
    }

    /// Σ A_j V_j.
    fn sum(&self, reads: &[Read], values: &[Product]) -> Product {
        let products = reads.iter().map(|(j, a)| {
            let value = matmul(a.view(), values[*j].value.view());
            let size = frobenius_norm(a.view());
            let terms = gamma(a.ncols() + 1 + self.roundings + reads.len());
            let rounding = Upper::new(2.0 * terms) * size * values[*j].size();
            let carried = match values[*j].error {
                Upper::ZERO => Upper::ZERO,
                error => Lp::Two.matrix(a.view()) * error,
            };
            let error = carried + rounding;
            Product { value, error }
        });
        products
            .reduce(|a, b| Product {
                value: a.value + b.value,
                error: a.error + b.error,
            })
            .expect("a map")
    }
}

/// One slope, or a range of a width with which the search can compute: its multipliers grow with the square
/// of the reciprocal.
fn not_too_narrow([l, u]: [f64; 2], everywhere: [f64; 2]) -> [f64; 2] {
    let least = NARROWEST * everywhere[0].abs().max(everywhere[1].abs());
    let missing = 0.5 * (least - (u - l));
    match l < u && missing > 0.0 {
        true => [l - missing, u + missing],
        false => [l, u],
    }
}

/// A product of matrices, and a bound of the Frobenius norm of its rounding error.
pub(super) struct Product {
    pub value: Array2<f64>,
    pub error: Upper,
}

impl Product {
    fn size(&self) -> Upper {
        frobenius_norm(self.value.view()) + self.error
    }
}
