//! Reverse-mode differentiation, and the products and Jacobians built on it.
//!
//! With y = f(x) and a cotangent u, one backward sweep gives the product uᵀJ. The same derivative code runs
//! in two modes:
//!
//! - **values**: every derivative runs in a scratch region that is freed as soon as its value is known;
//! - **graph** (`_graph` in the name, `create_graph` in PyTorch): the nodes that the derivatives record stay
//!   on the tape and can be differentiated again, to any order.

use super::Var;
use super::path::Path;
use super::tape::Tape;
use crate::real::Real;
use crate::tensor::Tensor;

/// ∂y/∂x for each x, as plain values; y must hold one element. The nodes that the sweep makes are freed.
///
/// An x on which y does not depend gets zeros.
///
/// ```
/// use emmy::{Tape, autodiff::grad};
/// let tape = Tape::new();
/// let (x, w) = (tape.var(vec![1.0_f64, 2.0]), tape.var(vec![3.0, 4.0]));
/// let g = grad((x * w).sum_all(), &[x, w]);
/// assert_eq!(g[0].as_slice(), Some(&[3.0, 4.0][..]));
/// assert_eq!(g[1].as_slice(), Some(&[1.0, 2.0][..]));
/// ```
///
/// # Panics
/// If y has not exactly one element, or an x is a constant or stands on another tape.
#[track_caller]
#[inline(never)]
pub fn grad<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>]) -> Vec<Tensor<F>> {
    let shape = one_element("grad", y, xs);
    Path::new(y, xs).sweep(y.tape, Tensor::ones(shape), xs)
}

/// [`grad`] as the last use of the tape. The sweep frees the value of each operation that it has passed. The
/// values of y and of leaves stay. Reading a freed value panics, and so does another derivative through it.
///
/// # Panics
/// As [`grad`].
#[track_caller]
#[inline(never)]
pub fn grad_and_free<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>]) -> Vec<Tensor<F>> {
    let shape = one_element("grad_and_free", y, xs);
    let mut path = Path::new(y, xs);
    path.frees = true;
    path.sweep(y.tape, Tensor::ones(shape), xs)
}

/// ∂y/∂x for each x, as variables that can be differentiated again.
///
/// ```
/// use emmy::{autodiff::grad_graph, Tape};
/// let tape = Tape::new();
/// let x = tape.scalar(2.0_f64);
/// let y = x.powf(5.0);
/// let first = grad_graph(y, &[x])[0];
/// let second = grad_graph(first, &[x])[0];
/// let third = grad_graph(second, &[x])[0];
/// assert_eq!(third.item(), 5.0 * 4.0 * 3.0 * 4.0);
/// ```
///
/// # Panics
/// As [`grad`].
#[track_caller]
#[inline(never)]
pub fn grad_graph<'t, F: Real>(y: Var<'t, F>, xs: &[Var<'t, F>]) -> Vec<Var<'t, F>> {
    let shape = one_element("grad_graph", y, xs);
    let one = y.tape.constant(Tensor::ones(shape));
    Path::new(y, xs).sweep(y.tape, one, xs)
}

/// The vector–Jacobian product uᵀ ∂y/∂x for each x; `u` has the shape of y.
///
/// ```
/// use emmy::{Tape, autodiff::vjp, tensor::tensor};
/// let tape = Tape::new();
/// let x = tape.var(vec![2.0_f64, 3.0]);
/// // The Jacobian of (x₁², x₂²) has 4 and 6 on its diagonal.
/// let u = tensor(&[2], vec![1.0, 10.0]);
/// assert_eq!(vjp(x.square(), &[x], &u)[0], tensor(&[2], vec![4.0, 60.0]));
/// ```
///
/// # Panics
/// If the shape of `u` is not that of y, or an x is a constant or stands on another tape.
#[track_caller]
#[inline(never)]
pub fn vjp<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], u: &Tensor<F>) -> Vec<Tensor<F>> {
    check("vjp", y, xs, u.shape());
    Path::new(y, xs).sweep(y.tape, u.clone(), xs)
}

/// The vector–Jacobian product as variables that can be differentiated again, with respect to `u` too.
///
/// # Panics
/// As [`vjp`].
#[track_caller]
#[inline(never)]
pub fn vjp_graph<'t, F: Real>(y: Var<'t, F>, xs: &[Var<'t, F>], u: Var<'t, F>) -> Vec<Var<'t, F>> {
    y.tape.accept("vjp_graph", &[u]);
    check("vjp_graph", y, xs, &u.shape());
    Path::new(y, xs).sweep(y.tape, u, xs)
}

/// The Jacobian–vector product Σ ∂y/∂x · v, by two pullbacks: uᵀJ is linear in u, and its derivative along v
/// is Jv. It has the shape of y.
///
/// ```
/// use emmy::{Tape, autodiff::{hvp, jvp}, tensor::tensor};
/// let tape = Tape::new();
/// let x = tape.var(vec![1.0_f64, 2.0]);
/// let v = [tensor(&[2], vec![1.0, 1.0])];
/// let y = x * x * x;
/// assert_eq!(jvp(y, &[x], &v).as_slice(), Some(&[3.0, 12.0][..])); // 3 x² v
/// assert_eq!(hvp(y.sum_all(), &[x], &v)[0].as_slice(), Some(&[6.0, 12.0][..])); // 6 x v
/// ```
///
/// # Panics
/// If there is not one `v` per x, of the shape of this x, or an x is a constant or stands on another tape.
#[track_caller]
pub fn jvp<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], vs: &[Tensor<F>]) -> Tensor<F> {
    check("jvp", y, xs, &y.shape());
    check_directions("jvp", xs, vs.iter().map(|v| v.shape().to_vec()));
    y.tape.scratch(true, || {
        let (u, along) = transposed(y, xs, &constants(y.tape, vs.to_vec()));
        grad(along, &[u]).remove(0)
    })
}

/// The Jacobian–vector product as a variable that can be differentiated again, with respect to the `vs` too.
///
/// # Panics
/// As [`jvp`].
#[track_caller]
pub fn jvp_graph<'t, F: Real>(y: Var<'t, F>, xs: &[Var<'t, F>], vs: &[Var<'t, F>]) -> Var<'t, F> {
    check("jvp_graph", y, xs, &y.shape());
    check_directions("jvp_graph", xs, vs.iter().map(|v| v.shape()));
    y.tape.accept("jvp_graph", vs);
    let (u, along) = transposed(y, xs, vs);
    grad_graph(along, &[u])[0]
}

/// The Hessian–vector product ∂/∂x Σ ⟨∂y/∂x, v⟩ of a y with one element, for each x.
///
/// ```
/// use emmy::{Tape, autodiff::hvp, tensor::tensor};
/// let tape = Tape::new();
/// let x = tape.var(vec![2.0_f64, 3.0]);
/// // The Hessian of x₁³ + x₂³ has 12 and 18 on its diagonal.
/// let y = (x * x * x).sum_all();
/// let v = tensor(&[2], vec![1.0, 10.0]);
/// assert_eq!(hvp(y, &[x], &[v])[0], tensor(&[2], vec![12.0, 180.0]));
/// ```
///
/// # Panics
/// As [`jvp`], and if y has not exactly one element.
#[track_caller]
pub fn hvp<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], vs: &[Tensor<F>]) -> Vec<Tensor<F>> {
    one_element("hvp", y, xs);
    check_directions("hvp", xs, vs.iter().map(|v| v.shape().to_vec()));
    y.tape.scratch(true, || {
        let along = contract(y.tape, &grad_graph(y, xs), &constants(y.tape, vs.to_vec()));
        grad(along, xs)
    })
}

/// The dense Jacobian ∂y/∂x, of shape `[shape of y.., shape of x..]`: one backward sweep for each element of
/// y.
///
/// ```
/// use emmy::{Tape, autodiff::jacobian, tensor::tensor};
/// let tape = Tape::new();
/// let x = tape.var(vec![2.0_f64, 3.0]);
/// // (x₁², x₂²)
/// let j = jacobian(x.square(), x);
/// assert_eq!(j, tensor(&[2, 2], vec![4.0, 0.0, 0.0, 6.0]));
/// ```
///
/// # Panics
/// If x is a constant or stands on another tape.
#[track_caller]
pub fn jacobian<F: Real>(y: Var<'_, F>, x: Var<'_, F>) -> Tensor<F> {
    check("jacobian", y, &[x], &y.shape());
    let (rows, columns) = (y.len(), x.len());
    let mut data = Vec::with_capacity(rows * columns);
    for k in 0..rows {
        let mut u = vec![F::zero(); rows];
        u[k] = F::one();
        let row = vjp(y, &[x], &crate::tensor::tensor(&y.shape(), u)).remove(0);
        data.extend(row.iter().copied());
    }
    crate::tensor::tensor(&[y.shape(), x.shape()].concat(), data)
}

#[track_caller]
fn one_element<F: Real>(op: &str, y: Var<'_, F>, xs: &[Var<'_, F>]) -> Vec<usize> {
    let shape = y.shape();
    assert!(
        shape.iter().product::<usize>() == 1,
        "{op}: y must hold one element, its shape is {shape:?}; give vjp a cotangent instead"
    );
    check(op, y, xs, &shape);
    shape
}

/// Refuses a cotangent of another shape than y, and xs by which y cannot be differentiated.
#[track_caller]
fn check<F: Real>(op: &str, y: Var<'_, F>, xs: &[Var<'_, F>], u_shape: &[usize]) {
    assert!(
        y.shape() == u_shape,
        "{op}: the cotangent has shape {u_shape:?}, y has {:?}",
        y.shape()
    );
    for x in xs {
        assert!(
            std::ptr::eq(x.tape, y.tape),
            "{op}: x and y stand on different tapes"
        );
        assert!(
            x.is_differentiable(),
            "{op}: asked for the derivative with respect to a constant, {x:?}"
        );
    }
}

#[track_caller]
fn check_directions<F: Real>(op: &str, xs: &[Var<'_, F>], vs: impl Iterator<Item = Vec<usize>>) {
    let xs: Vec<_> = xs.iter().map(|x| x.shape()).collect();
    let vs: Vec<_> = vs.collect();
    assert!(
        xs == vs,
        "{op}: the directions have shapes {vs:?}, the variables {xs:?}"
    );
}

pub(super) fn constants<F: Real>(tape: &Tape<F>, vs: Vec<Tensor<F>>) -> Vec<Var<'_, F>> {
    vs.into_iter().map(|v| tape.constant(v)).collect()
}

/// A variable u and Σ ⟨uᵀ ∂y/∂x, v⟩, which is linear in u.
fn transposed<'t, F: Real>(
    y: Var<'t, F>,
    xs: &[Var<'t, F>],
    vs: &[Var<'t, F>],
) -> (Var<'t, F>, Var<'t, F>) {
    let u = y.tape.var(Tensor::zeros(y.shape()));
    (u, contract(y.tape, &vjp_graph(y, xs, u), vs))
}

/// Σ_k ⟨g_k, v_k⟩
fn contract<'t, F: Real>(tape: &'t Tape<F>, gs: &[Var<'t, F>], vs: &[Var<'t, F>]) -> Var<'t, F> {
    (gs.iter().zip(vs))
        .map(|(&g, &v)| (g * v).sum_all())
        .reduce(|a, b| a + b)
        .unwrap_or_else(|| tape.constant(crate::tensor::scalar(F::zero())))
}
