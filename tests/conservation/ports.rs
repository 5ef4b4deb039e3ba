//! A layer states what writes and what reads; the shifts, offsets and mixes follow from the recorded pass,
//! where they hold, and nowhere else.

use emmy::nn::{BatchNorm, Layer, LayerNorm, Linear, Module, Params, Pass, Trace};
use emmy::symmetry::Ports;
use emmy::{Tape, Tensor, Var, init};

/// How the parameters enter: variations of y = x Wᵀ + b.
#[derive(Debug, Clone, Copy)]
enum Form {
    Plain,
    /// ½ b in place of b.
    HalfBias,
    /// x times the transpose of W, as a product of two matrices.
    Transposed,
    /// The rows in two groups, and side by side again.
    Grouped,
    /// tanh b in place of b.
    BentBias,
    /// W / ‖W‖ in place of W.
    Normalised,
    /// W once more, in a factor of the whole output.
    Twice,
    /// b as the last operand of a LayerNorm of x Wᵀ.
    Behind,
}

const FORMS: [Form; 8] = [
    Form::Plain,
    Form::HalfBias,
    Form::Transposed,
    Form::Grouped,
    Form::BentBias,
    Form::Normalised,
    Form::Twice,
    Form::Behind,
];

struct Own {
    form: Form,
    weight: Tensor<f64>,
    bias: Tensor<f64>,
}
emmy::module!(Own for f64: weight, bias = Bias);

impl Own {
    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>, x: Var<'t, f64>) -> Var<'t, f64> {
        pass.call(self, &[x], || {
            let (w, b) = (pass.param(&self.weight), pass.param(&self.bias));
            let n = x.shape()[0];
            match self.form {
                Form::Plain => x.linear(w) + b,
                Form::HalfBias => x.linear(w) + b.scale(0.5),
                Form::Transposed => x.matmul(w.t()) + b,
                Form::Grouped => {
                    let y = x.linear(w).reshape(&[n, 2, 2]).scale(3.0);
                    y.mean(&[1], false) + b.reshape(&[2, 2]).mean(&[0], false)
                }
                Form::BentBias => x.linear(w) + b.tanh(),
                Form::Normalised => x.linear(w / w.square().sum_all().sqrt()) + b,
                Form::Twice => x.linear(w) * w.square().sum_all() + b,
                Form::Behind => {
                    let one = pass.tape().constant(Tensor::ones(vec![4]));
                    x.linear(w).layer_norm(Some(one), Some(b), 0.1)
                }
            }
        })
    }
}

impl Layer<f64> for Own {
    fn ports(&self, params: &Params<'_, f64>) -> Option<Ports> {
        let written = [&self.weight, &self.bias];
        let written = match self.form {
            Form::Plain | Form::HalfBias | Form::Transposed => written.map(|p| params.rows(p)),
            Form::Grouped => written.map(|p| params.grouped(p, 2, 2)),
            // A factor of a row of W is none of a neuron.
            Form::BentBias | Form::Normalised | Form::Twice | Form::Behind => {
                return Some(Ports::opaque(1));
            }
        };
        Some(Ports::writes(written).reads([params.columns(&self.weight)]))
    }
}

/// What follows the layer.
#[derive(Debug, Clone, Copy)]
enum After {
    /// A norm that does not see shifts.
    LayerNorm,
    /// A norm that does not see offsets.
    BatchNorm,
    /// A map that can compensate any matrix.
    Linear,
}

struct Net {
    first: Linear<f64>,
    own: Own,
    last: Linear<f64>,
    after: After,
}
emmy::module!(Net for f64: first, own, last);

impl Net {
    fn new(form: Form, after: After) -> Self {
        let rng = &mut init::rng(3);
        let width = if matches!(form, Form::Grouped) { 2 } else { 4 };
        Self {
            first: Linear::new(3, 5, true, rng),
            own: Own {
                form,
                weight: init::normal(&[4, 5], 0.7, rng),
                bias: init::normal(&[4], 0.7, rng),
            },
            last: Linear::new(width, 2, false, rng),
            after,
        }
    }

    fn forward<'t>(&self, pass: &Pass<'t, '_, f64>) -> Var<'t, f64> {
        let x = init::normal(&[6, 3], 1.0, &mut init::rng(4));
        let x = self.first.forward(pass, pass.tape().constant(x));
        let x = self.own.forward(pass, x.relu());
        match self.after {
            After::LayerNorm => LayerNorm::plain(0.1).forward(pass, x).square(),
            After::BatchNorm => BatchNorm::plain(0.1).forward(pass, x).tanh(),
            After::Linear => self.last.forward(pass, x),
        }
    }

    /// The names of the laws about the layer, all of which hold.
    fn laws(&self) -> Vec<String> {
        let tape = Tape::new();
        let pass = Pass::train(&tape, self, 0);
        let y = self.forward(&pass);
        let gradients = pass.gradients((y * y).tanh().sum_all());
        let laws = Trace::of(self, |pass| self.forward(pass)).laws();
        for law in &laws {
            // A gradient that vanishes alone is a rounding error, as large as its terms.
            let found = law.measure(&self.tensors(), &gradients);
            let small = |(delta, size): (&f64, &f64)| delta.abs() < 1e-12 * (1.0 + size);
            let holds = found.delta.iter().zip(&found.size).all(small);
            assert!(holds, "{:?}, {}: {found:?}", self.own.form, law.name);
        }
        let own = laws.into_iter().map(|law| law.name);
        own.filter(|name| name.starts_with("own")).collect()
    }
}

#[test]
fn shifts_offsets_and_mixes_follow_from_the_pass() {
    for form in FORMS {
        let laws = |after| Net::new(form, after).laws();
        let shifts: &[&str] = match form {
            Form::Plain | Form::HalfBias | Form::Transposed | Form::Grouped => {
                &["own, shift, 1", "own, shift, 2"]
            }
            // Of a weight that is not only added nothing is known; the bias is.
            Form::Normalised | Form::Twice | Form::Behind => &["own, bias, sum"],
            Form::BentBias => &[],
        };
        assert_eq!(laws(After::LayerNorm), shifts, "{form:?}");
        let offsets: &[&str] = match form {
            // Groups of b are two numbers per neuron.
            Form::BentBias | Form::Grouped => &[],
            _ => &["own, bias"],
        };
        assert_eq!(laws(After::BatchNorm), offsets, "{form:?}");
        let spaces: &[&str] = match form {
            Form::Plain | Form::HalfBias | Form::Transposed => {
                &["own, neurons", "own, space of neurons"]
            }
            Form::Grouped => &["own, neurons"],
            Form::BentBias | Form::Normalised | Form::Twice | Form::Behind => &[],
        };
        assert_eq!(laws(After::Linear), spaces, "{form:?}");
    }
}

#[test]
fn the_ports_of_a_call_are_complete() {
    for form in FORMS {
        let net = Net::new(form, After::Linear);
        let trace = Trace::of(&net, |pass| net.forward(pass));
        let ports = trace.calls()[1].ports.as_ref().expect("stated ports");
        let params = Params::of(&net);
        let (columns, whole) = (params.columns(&net.own.weight), params.whole(&net.own.bias));
        let shifts = match form {
            Form::BentBias => vec![columns],
            // W takes part in what is no sum, or its shifts are removed.
            Form::Normalised | Form::Twice | Form::Behind => vec![whole],
            _ => vec![columns, whole],
        };
        assert_eq!(ports.shifts, shifts, "{form:?}");
        let weights: Vec<f64> = ports.offsets.iter().map(|terms| terms[0].weight).collect();
        let expected: &[f64] = match form {
            Form::BentBias | Form::Grouped => &[],
            Form::HalfBias => &[2.0],
            _ => &[1.0],
        };
        assert_eq!(weights, expected, "{form:?}");
        let mixes = matches!(form, Form::Plain | Form::HalfBias | Form::Transposed);
        assert_eq!(ports.mixes, mixes, "{form:?}");
        // A product of two matrices may take x as either.
        let compensates = matches!(form, Form::Plain | Form::HalfBias | Form::Grouped);
        assert_eq!(ports.readers[0].mixes, compensates, "{form:?}");
    }
}
