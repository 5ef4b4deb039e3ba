//! Operations of a user's own between layers: a name proves nothing; what they say of themselves gives laws.

use crate::support::*;
use emmy::autodiff::{Function, Fused, Kind, Map, checkpoint, fused};
use emmy::kernels::map;
use emmy::nn::{Linear, Pass, Trace};
use emmy::{Real, Tensor, Var, init};

/// y = eˣ, under the name of an operation that is homogeneous.
fn misnamed<'t, F: Real>(x: Var<'t, F>, how: usize) -> Var<'t, F> {
    match how {
        0 => x.unary("relu", map::unary(&x.value(), F::exp), |p| p.gy() * p.y()),
        1 => x.binary(
            "add",
            x,
            map::unary(&x.value(), F::exp),
            |p| p.gy() * p.y(),
            |p| p.gy() * F::zero(),
        ),
        2 => checkpoint("relu", &[x], |x| x[0].exp()),
        _ => fused(Misnamed, &[x]),
    }
}

struct Misnamed;

impl<F: Real> Fused<F> for Misnamed {
    type Saved = ();

    fn kind(&self) -> Kind {
        "relu".into()
    }

    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, ()) {
        (map::unary(&args[0], F::exp), ())
    }

    fn backward(
        &self,
        _: &[Tensor<F>],
        y: &Tensor<F>,
        _: &(),
        gy: &Tensor<F>,
        _: &[bool],
    ) -> Vec<Option<Tensor<F>>> {
        vec![Some((gy * y).into_shared())]
    }

    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F> {
        args[0].exp()
    }
}

#[derive(Debug, Clone)]
struct Chain<F: Real> {
    first: Linear<F>,
    last: Linear<F>,
}
emmy::module!(Chain: first, last);

/// A user's operation that has the name of one of the crate's is not taken for it: e^(c x) is not c eˣ.
#[test]
fn the_name_of_an_operation_proves_nothing() {
    let rng = &mut init::rng(0);
    let net = Chain::<f64> {
        first: Linear::new(4, 5, true, rng),
        last: Linear::new(5, 3, true, rng),
    };
    let problem = example(4, Loss::ALL[0], 0);
    let laws = |activation: &dyn for<'t> Fn(Var<'t, f64>) -> Var<'t, f64>| {
        let trace = Trace::of(&net, |pass| {
            let x = net.first.forward(pass, problem.input(pass.tape()));
            net.last.forward(pass, activation(x))
        });
        trace.laws()
    };
    assert_eq!(laws(&|x| x.relu()).len(), 1);
    for how in 0..4 {
        assert!(laws(&|x| misnamed(x, how)).is_empty(), "definition {how}");
    }
}

/// x |x|, an activation of a user's own, which says that it is homogeneous of degree 2.
fn signed_square<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let function = Function {
        degree: Some(2.0),
        ..Function::named("signed_square")
    };
    x.unary(function, map::unary(&x.value(), |x: F| x * x.abs()), |p| {
        p.gy() * p.x().abs() * 2.0
    })
}

/// The neurons in reverse order, a linear map of a user's own.
fn reversed<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    let mut value = x.value();
    value.invert_axis(emmy::ndarray::Axis(1));
    let map = Map::Own {
        name: "reversed",
        norms: [1.0; 3],
    };
    x.unary(map, value, |p| reversed(p.gy()))
}

/// A chain with an operation of a user's own between its layers.
#[derive(Debug, Clone)]
struct Own<F: Real> {
    first: Linear<F>,
    last: Linear<F>,
    turned: bool,
}
emmy::module!(Own: first, last);

impl<F: Real> Network<F> for Own<F> {
    fn outputs<'t>(&self, pass: &Pass<'t, '_, F>, problem: &Problem) -> Var<'t, F> {
        let x = self.first.forward(pass, problem.input(pass.tape()));
        let x = match self.turned {
            true => reversed(x.relu()),
            false => signed_square(x),
        };
        self.last.forward(pass, x)
    }
}

/// What a user's operation says of itself gives laws, and they hold: five neurons with a factor of 2 each,
/// and one factor for all neurons through a map that may mix them.
#[test]
fn an_operation_of_a_user_that_says_what_it_is_has_laws() {
    for (turned, expected) in [(false, 5), (true, 1)] {
        let rng = &mut init::rng(0);
        let mut net = Own::<f64> {
            first: Linear::new(4, 5, true, rng),
            last: Linear::new(5, 3, true, rng),
            turned,
        };
        draw_all(&mut net, 1);
        let problem = example(4, Loss::Smooth, 1);
        let laws = trace_on(&net, &problem).laws();
        let width: usize = laws.iter().map(|law| law.entries()).sum();
        assert_eq!(width, expected, "{laws:?}");
        holds(&laws, &net, &problem);
        assert!(alive(&laws, &net, &problem) > 0.0);
    }
}
