//! The multilayer perceptron.

use super::{Activation, Input, Layer, Linear, Pass, Trace, Traced};
use crate::autodiff::Var;
use crate::init::Rng;
use crate::real::Real;
use crate::tensor::Tensor;

/// x ← x W_lᵀ + b_l, with σ between the layers.
///
/// ```
/// use emmy::{Tape, init, nn::{Activation, Mlp, Pass, Traced}};
///
/// let mlp = Mlp::<f64>::new(&[4, 8, 3], Activation::Relu, true, &mut init::rng(0));
/// let tape = Tape::new();
/// let x = tape.constant(init::normal(&[5, 4], 1.0, &mut init::rng(1)));
/// assert_eq!(mlp.forward(&Pass::eval(&tape, &mlp), x).shape(), [5, 3]);
/// assert_eq!(mlp.laws()[0].name, "layer 1, neurons");
/// ```
#[derive(Debug, Clone)]
pub struct Mlp<F: Real> {
    /// The layers, first to last.
    pub layers: Vec<Linear<F>>,
    /// σ.
    pub activation: Activation,
}
crate::module!(Mlp: layers as "lins");

impl<F: Real> Mlp<F> {
    /// A network from `widths[0]` features over hidden layers to the last width.
    ///
    /// # Panics
    /// If there are fewer than two widths.
    #[track_caller]
    pub fn new(widths: &[usize], activation: Activation, bias: bool, rng: &mut Rng) -> Self {
        assert!(
            widths.len() >= 2,
            "Mlp: widths {widths:?}: there must be two, of input and output"
        );
        let layers = widths.windows(2);
        Self {
            layers: layers.map(|w| Linear::new(w[0], w[1], bias, rng)).collect(),
            activation,
        }
    }

    /// The outputs, `[n, widths.last()]`.
    ///
    /// # Panics
    /// If the number of features of x is not the number of columns of the first weight.
    #[track_caller]
    pub fn forward<'t>(&self, pass: &Pass<'t, '_, F>, x: impl Into<Input<'t, F>>) -> Var<'t, F> {
        let x = x.into();
        let (first, others) = self.layers.split_first().expect("it has a layer");
        x.check_features("Mlp", first.weight.shape()[1]);
        pass.call(self, &[x.var()], || {
            let mut y = first.forward(pass, x);
            for layer in others {
                y = layer.forward(pass, self.activation.consume(y));
            }
            y
        })
    }
}

impl<F: Real> Layer<F> for Mlp<F> {}

impl<F: Real> Traced<F> for Mlp<F> {
    fn trace(&self) -> Trace {
        let first = self.layers.first().expect("it has a layer");
        let x = Tensor::ones(vec![2, first.weight.shape()[1]]);
        Trace::of(self, |pass| self.forward(pass, pass.tape().constant(x)))
    }
}
