//! Properties of the engine: derivatives of any order, no scratch nodes left on the tape, no
//! recursion, clear error messages.

use emmy::autodiff::{
    Fused, Kind, checkpoint, fused, grad, grad_graph, hvp, jacobian, jvp, jvp_graph, vjp, vjp_graph,
};
use emmy::tensor::{scalar, tensor};
use emmy::{Tape, Tensor, Var};
use std::time::{Duration, Instant};

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 * (1.0 + b.abs()), "{a} is not {b}");
}

#[test]
fn third_derivatives_of_a_composition() {
    let tape = Tape::new();
    let x = tape.scalar(0.7_f64);
    let y = (x.sin() * x.exp()).sin();
    let f = |x: f64| (x.sin() * x.exp()).sin();
    let mut derivative = y;
    for _ in 0..3 {
        derivative = grad_graph(derivative, &[x])[0];
    }
    // A central third difference, with an error of order h²; h is large enough to limit rounding
    // errors.
    let h = 1e-3;
    let third = (f(0.7 + 2.0 * h) - 2.0 * f(0.7 + h) + 2.0 * f(0.7 - h) - f(0.7 - 2.0 * h))
        / (2.0 * h * h * h);
    assert!((derivative.item() - third).abs() < 1e-4 * third.abs());
    // And exactly: e^x sin x has the derivatives √2ⁿ e^x sin(x + nπ/4); chain rule of the third order.
    let n = |n: i32| {
        let shift = 0.7 + f64::from(n) * std::f64::consts::FRAC_PI_4;
        2.0_f64.powf(f64::from(n) / 2.0) * 0.7_f64.exp() * shift.sin()
    };
    let (g0, g1, g2, g3) = (n(0), n(1), n(2), n(3));
    close(
        derivative.item(),
        g3 * g0.cos() - 3.0 * g1 * g2 * g0.sin() - g1.powi(3) * g0.cos(),
    );
}

#[test]
fn first_order_gradient_frees_what_it_makes() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[3], vec![0.1_f64, 0.2, 0.3]));
    let y = (x.sin() * x).sum_all();
    let before = tape.len();
    grad(y, &[x]);
    jvp(y, &[x], &[tensor(&[3], vec![1.0; 3])]);
    hvp(y, &[x], &[tensor(&[3], vec![1.0; 3])]);
    jacobian(y, x);
    assert_eq!(tape.len(), before);
    grad_graph(y, &[x]);
    assert!(tape.len() > before);
}

#[test]
fn a_long_chain_needs_no_recursion_and_linear_time() {
    let start = Instant::now();
    let tape = Tape::new();
    let x = tape.scalar(1e-3_f64);
    let y = (0..100_000).fold(x, |y, _| y.sin());
    let first = grad(y, &[x]).remove(0);
    drop(tape);
    assert!(first.first().is_some_and(|g| *g > 0.0 && *g < 1.0));
    // It should take less than a second. The limit here only catches a quadratic cost, so that the
    // test passes on a busy machine.
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn products_with_the_jacobian_agree() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2, 2], vec![0.1_f64, -0.4, 0.3, 0.8]));
    let y = x.exp() * x.t();
    let j = jacobian(y, x);
    assert_eq!(j.shape(), [2, 2, 2, 2]);
    let v = tensor(&[2, 2], vec![1.0, -2.0, 0.5, 0.25]);
    let u = tensor(&[2, 2], vec![0.3, 0.7, -1.0, 2.0]);
    let (jv, uj) = (
        jvp(y, &[x], std::slice::from_ref(&v)),
        vjp(y, &[x], &u).remove(0),
    );
    for a in 0..2 {
        for b in 0..2 {
            let (mut row, mut column) = (0.0, 0.0);
            for c in 0..2 {
                for d in 0..2 {
                    row += j[[a, b, c, d]] * v[[c, d]];
                    column += j[[c, d, a, b]] * u[[c, d]];
                }
            }
            close(jv[[a, b]], row);
            close(uj[[a, b]], column);
        }
    }
}

#[test]
fn forward_products_can_be_differentiated_again() {
    // d/dx of (d/dx sin x) v = −v sin x, and with respect to v: cos x.
    let tape = Tape::new();
    let (x, v) = (tape.scalar(0.4_f64), tape.scalar(1.7));
    let along = jvp_graph(x.sin(), &[x], &[v]);
    close(along.item(), 1.7 * 0.4_f64.cos());
    let g = grad(along, &[x, v]);
    close(g[0][[]], -1.7 * 0.4_f64.sin());
    close(g[1][[]], 0.4_f64.cos());
}

#[test]
fn hessian_vector_product() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2], vec![0.5_f64, -1.5]));
    let y = (x * x * x).sum_all();
    let hv = hvp(y, &[x], &[tensor(&[2], vec![2.0, 3.0])]).remove(0);
    close(hv[0], 6.0 * 0.5 * 2.0);
    close(hv[1], 6.0 * -1.5 * 3.0);
}

#[test]
fn constants_and_detached_values_stop_derivatives() {
    let tape = Tape::new();
    let x = tape.scalar(2.0_f64);
    let c = tape.constant(scalar(3.0));
    assert!(!(c * c).is_differentiable());
    close(grad(x * c + (x * x).detach(), &[x])[0][[]], 3.0);
    assert!(tape.no_grad(|| !(x * x).is_differentiable()));
}

#[test]
fn independent_variables_get_zeros() {
    let tape = Tape::new();
    let (x, z) = (tape.scalar(2.0_f64), tape.var(tensor(&[2], vec![1.0, 2.0])));
    let y = x * x;
    let later = tape.scalar(1.0);
    let g = grad(y, &[z, x, later]);
    assert_eq!(g[0], tensor(&[2], vec![0.0, 0.0]));
    close(g[1][[]], 4.0);
    close(g[2][[]], 0.0);
    assert_eq!(grad_graph(y, &[z])[0].value(), tensor(&[2], vec![0.0, 0.0]));
}

#[test]
fn a_variable_on_the_way_to_another() {
    let tape = Tape::new();
    let x = tape.scalar(0.3_f64);
    let m = x.sin();
    let y = m * m;
    let g = grad(y, &[x, m, y]);
    close(g[0][[]], 2.0 * 0.3_f64.sin() * 0.3_f64.cos());
    close(g[1][[]], 2.0 * 0.3_f64.sin());
    close(g[2][[]], 1.0);
}

#[test]
#[should_panic(expected = "derivative with respect to a constant")]
fn a_constant_has_no_derivative() {
    let tape = Tape::new();
    let c = tape.constant(scalar(1.0_f64));
    grad(c.exp(), &[c]);
}

#[test]
#[should_panic(expected = "y must hold one element")]
fn a_gradient_is_of_one_number() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2], vec![1.0_f64, 2.0]));
    grad(x.exp(), &[x]);
}

#[test]
#[should_panic(expected = "different tapes")]
fn operands_share_a_tape() {
    let (a, b) = (Tape::new(), Tape::new());
    let _ = a.scalar(1.0_f64) + b.scalar(1.0);
}

#[test]
fn checkpoint_equals_plain_to_second_order_and_keeps_less() {
    fn body<'a>(args: &[Var<'a, f64>]) -> Var<'a, f64> {
        (args[0] * args[1]).sin().exp().sin() * args[0]
    }
    let tape = Tape::new();
    let (a, b) = (
        tape.var(tensor(&[2], vec![0.3, -0.8])),
        tape.var(tensor(&[2], vec![1.1, 0.6])),
    );
    let before = tape.len();
    let kept = checkpoint("body", &[a, b], body);
    assert_eq!(tape.len(), before + 1);
    let plain = body(&[a, b]);
    assert_eq!(kept.value(), plain.value());
    let (kept, plain) = (kept.sum_all(), plain.sum_all());
    assert_eq!(grad(kept, &[a, b]), grad(plain, &[a, b]));
    let v = [tensor(&[2], vec![1.0, 2.0]), tensor(&[2], vec![-1.0, 0.5])];
    let (h, g) = (hvp(kept, &[a, b], &v), hvp(plain, &[a, b], &v));
    for k in 0..2 {
        for i in 0..2 {
            close(h[k][i], g[k][i]);
        }
    }
}

#[test]
fn checkpoints_nest_and_take_one_argument_twice() {
    let tape = Tape::new();
    let x = tape.scalar(0.9_f64);
    let nested = checkpoint("outer", &[x, x], |o| {
        checkpoint("inner", &[o[0], o[1]], |i| i[0].sin() * i[1]) * o[0]
    });
    let plain = x.sin() * x * x;
    close(grad(nested, &[x])[0][[]], grad(plain, &[x])[0][[]]);
    let v = [scalar(1.0)];
    close(hvp(nested, &[x], &v)[0][[]], hvp(plain, &[x], &v)[0][[]]);
}

#[test]
fn checkpoint_recomputes_with_the_masks_of_the_forward_pass() {
    fn body<'a>(args: &[Var<'a, f64>]) -> Var<'a, f64> {
        (args[0].sin().dropout(0.5, 3).exp() * args[0]).dropout(0.3, 4)
    }
    let tape = Tape::new();
    let x = tape.var(tensor(&[64], (0..64).map(|k| f64::from(k) / 9.0).collect()));
    let (kept, plain) = (checkpoint("body", &[x], body), body(&[x]));
    assert_eq!(kept.value(), plain.value());
    let (kept, plain) = (kept.sum_all(), plain.sum_all());
    assert_eq!(grad(kept, &[x]), grad(plain, &[x]));
    let v = [Tensor::ones(vec![64])];
    assert_eq!(hvp(kept, &[x], &v), hvp(plain, &[x], &v));
}

/// y = x², with a kernel derivative that counts as 2x ȳ.
struct Square;

impl Fused<f64> for Square {
    type Saved = ();

    fn kind(&self) -> Kind {
        "square".into()
    }

    fn forward(&self, args: &[Tensor<f64>]) -> (Tensor<f64>, ()) {
        (args[0].mapv(|x| x * x).into_shared(), ())
    }

    fn backward(
        &self,
        args: &[Tensor<f64>],
        _: &Tensor<f64>,
        _: &(),
        gy: &Tensor<f64>,
        wanted: &[bool],
    ) -> Vec<Option<Tensor<f64>>> {
        vec![wanted[0].then(|| (2.0 * &args[0] * gy).into_shared())]
    }

    fn reference<'t>(&self, args: &[Var<'t, f64>]) -> Var<'t, f64> {
        args[0] * args[0]
    }
}

#[test]
fn fused_operations_have_all_orders() {
    let tape = Tape::new();
    let x = tape.scalar(1.5_f64);
    let y = fused(Square, &[x]) * x;
    close(grad(y, &[x])[0][[]], 3.0 * 1.5 * 1.5);
    let first = grad_graph(y, &[x])[0];
    let second = grad_graph(first, &[x])[0];
    close(second.item(), 6.0 * 1.5);
    close(grad(second, &[x])[0][[]], 6.0);
    let v = [scalar(2.0)];
    close(jvp(y, &[x], &v)[[]], 3.0 * 1.5 * 1.5 * 2.0);
    close(hvp(y, &[x], &v)[0][[]], 6.0 * 1.5 * 2.0);
}

#[test]
fn cotangents_can_be_variables() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2], vec![0.2_f64, 0.4]));
    let u = tape.var(tensor(&[2], vec![1.0, -1.0]));
    let pulled = vjp_graph(x.exp(), &[x], u)[0].sum_all();
    let by_u = grad(pulled, &[u]).remove(0);
    close(by_u[0], 0.2_f64.exp());
    close(by_u[1], 0.4_f64.exp());
}

#[test]
#[should_panic(
    expected = "halved: its derivative with respect to argument 0 has shape [1], that argument [2]"
)]
fn a_derivative_of_another_shape_is_refused() {
    let tape = Tape::new();
    let x = tape.var(tensor(&[2], vec![1.0_f64, 2.0]));
    let y = x.unary("halved", x.scale(0.5).value(), |p| p.gy().slice(0, 0..1));
    grad(y.sum_all(), &[x]);
}

/// A fused operation whose kernel returns no derivative.
struct Silent;

impl Fused<f64> for Silent {
    type Saved = ();

    fn kind(&self) -> Kind {
        "silent".into()
    }

    fn forward(&self, args: &[Tensor<f64>]) -> (Tensor<f64>, ()) {
        (args[0].clone(), ())
    }

    fn backward(
        &self,
        _: &[Tensor<f64>],
        _: &Tensor<f64>,
        _: &(),
        _: &Tensor<f64>,
        _: &[bool],
    ) -> Vec<Option<Tensor<f64>>> {
        Vec::new()
    }

    fn reference<'t>(&self, args: &[Var<'t, f64>]) -> Var<'t, f64> {
        args[0]
    }
}

#[test]
#[should_panic(expected = "silent: it has no derivative with respect to argument 0")]
fn a_derivative_that_is_missing_is_refused() {
    let tape = Tape::new();
    let x = tape.scalar(1.0);
    grad(fused(Silent, &[x]), &[x]);
}

#[test]
fn without_recording_a_graph_holds_constants() {
    let tape = Tape::new();
    let x = tape.scalar(1.5_f64);
    for y in [
        fused(Square, &[x]) * x,
        checkpoint("cube", &[x], |x| x[0] * x[0] * x[0]),
    ] {
        let g = tape.no_grad(|| grad_graph(y, &[x])[0]);
        assert!(!g.is_differentiable());
        close(g.item(), 3.0 * 1.5 * 1.5);
    }
}
