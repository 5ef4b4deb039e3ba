//! Operations with a fault each.

use emmy::autodiff::{Function, Map};
use emmy::kernels::map;
use emmy::lipschitz::{Bound, Lp, Upper, declare};
use emmy::{Tensor, Var};

/// sin x, whose derivative is wrong by this factor.
pub fn sine(x: Var<'_, f64>, factor: f64) -> Var<'_, f64> {
    x.unary("sine", map::unary(&x.value(), f64::sin), move |p| {
        p.gy() * p.x().cos() * factor
    })
}

/// sin x with a first derivative that is right, and none of its own.
pub fn flat_derivative(x: Var<'_, f64>) -> Var<'_, f64> {
    x.unary("sine", map::unary(&x.value(), f64::sin), |p| {
        let slope = map::unary(&p.x().value(), f64::cos);
        p.gy() * p.gy().tape().constant(slope)
    })
}

/// sin x, which says that it is homogeneous.
pub fn not_homogeneous(x: Var<'_, f64>) -> Var<'_, f64> {
    let function = Function {
        degree: Some(1.0),
        ..Function::named("sine")
    };
    x.unary(function, map::unary(&x.value(), f64::sin), |p| {
        p.gy() * p.x().cos()
    })
}

/// max(x, 0), which says nothing.
pub fn silent_relu(x: Var<'_, f64>) -> Var<'_, f64> {
    x.unary("mine", map::unary(&x.value(), |x| x.max(0.0)), |p| {
        let step = map::unary(&p.x().value(), |x| f64::from(u8::from(x > 0.0)));
        p.gy() * p.gy().tape().constant(step)
    })
}

/// atan x, whose largest slope is 1, with a declared bound.
pub fn atan(x: Var<'_, f64>, bound: f64) -> Var<'_, f64> {
    let y = x.unary("atan", map::unary(&x.value(), f64::atan), |p| {
        p.gy() / p.x().square().add_scalar(1.0)
    });
    let upper = Upper::new(bound);
    declare(
        y,
        &[x],
        Lp::ALL.map(|p| (p, Bound::number(x.tape(), upper))),
    )
}

/// 2 x as a map of a user's own, which states this norm.
pub fn twice(x: Var<'_, f64>, norm: f64) -> Var<'_, f64> {
    let map = Map::Own {
        name: "twice",
        norms: [norm; 3],
    };
    let value: Tensor<f64> = x.value().mapv(|x| 2.0 * x).into_shared();
    x.unary(map, value, |p| p.gy() * 2.0)
}
