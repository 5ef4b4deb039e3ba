//! Gradient ascent over inputs, on the norm of the Jacobian of a network with smooth slopes.

use super::Pieces;
use ndarray::Array1;

/// The first temperature, the factor from each to the next, their number, and the steps at each.
const HOTTEST: f64 = 1.0;
const COOLING: f64 = 0.6;
const TEMPERATURES: i32 = 12;
const STEPS: usize = 20;

/// The length of a step at temperature 1, as a part of the length of the input.
const STEP: f64 = 0.1;

/// The smooth slopes of a layer at an input.
struct Smooth {
    slopes: Array1<f64>,
    /// The derivative of each slope in its neuron's argument.
    bends: Array1<f64>,
}

impl Pieces {
    /// The input to which gradient ascent on ‖J‖ leads from this one.
    ///
    /// ‖J‖ is constant on each piece, so its own gradient leads nowhere. A slope l + (u − l) σ(y / T r) of a
    /// neuron with the argument y has one, where r is the root mean square of the arguments of its layer: in
    /// a deep network their sizes differ by many orders. T falls until the slopes are nearly those of the
    /// pieces. Only the
    /// direction of the gradient counts, since its size differs by many orders too.
    pub(super) fn ascend(&self, mut at: Array1<f64>) -> Array1<f64> {
        let mut u = None;
        for round in 0..TEMPERATURES {
            let temperature = HOTTEST * COOLING.powi(round);
            for _ in 0..STEPS {
                let layers = self.smooth(&at, temperature);
                let slopes: Vec<_> = layers.iter().map(|layer| layer.slopes.clone()).collect();
                let direction = self.direction(&slopes, u.take());
                // The derivative of ‖J‖² / 2 in a slope is (b · u) (a · Jᵀu). The arguments change with the
                // input by a.
                let mut gradient = Array1::zeros(at.len());
                for (k, a) in direction.arguments.iter().enumerate() {
                    let by =
                        a.dot(&direction.along) * &direction.backward[k + 1] * &layers[k].bends;
                    gradient += &a.t().dot(&by);
                }
                u = Some(direction.u);
                let size = gradient.dot(&gradient).sqrt();
                if size == 0.0 || !size.is_finite() {
                    break;
                }
                let length = STEP * temperature * at.dot(&at).sqrt();
                at.scaled_add(length / size, &gradient);
            }
        }
        at
    }

    /// The layers with slopes l + (u − l) σ(y / T r), at an input.
    fn smooth(&self, at: &Array1<f64>, temperature: f64) -> Vec<Smooth> {
        let mut values = vec![at.clone()];
        let mut layers = Vec::new();
        for (layer, bias) in self.network.layers.iter().zip(&self.biases) {
            let mut y = bias.clone();
            for (j, a) in &layer.reads {
                y += &a.dot(&values[*j]);
            }
            let mean_square = y.dot(&y) / y.len() as f64;
            let scale = temperature * mean_square.sqrt().max(f64::MIN_POSITIVE);
            let on = y.mapv(|y| 1.0 / (1.0 + (-y / scale).exp()));
            let lows: Array1<f64> = layer.slopes.iter().map(|[l, _]| *l).collect();
            let widths: Array1<f64> = layer.slopes.iter().map(|[l, u]| u - l).collect();
            let slopes = lows + &widths * &on;
            let bends = widths * on.mapv(|on| on * (1.0 - on) / scale);
            values.push(y * &slopes);
            layers.push(Smooth { slopes, bends });
        }
        layers
    }
}
