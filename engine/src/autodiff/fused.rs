//! Operations with hand-written kernels for value and first derivative ([`Fused`]), and recomputation instead
//! of storage ([`checkpoint`]). Both are differentiable to any order: where the graph of a derivative is
//! wanted, a reference composition is traced instead. Nothing detaches silently.

use super::grad::{constants, vjp, vjp_graph};
use super::kind::Kind;
use super::tape::{Tape, Vjp};
use super::var::Var;
use crate::real::Real;
use crate::tensor::Tensor;
use std::rc::Rc;

/// An operation whose value and first derivative are fused kernels, with a composition of ordinary operations
/// that defines it.
///
/// The kernels exist for speed. The reference defines what they compute; it is traced when a derivative is to
/// be differentiated again. A test must hold kernel and reference together, to first and second order.
pub trait Fused<F: Real>: 'static {
    /// The results that the forward kernel keeps for the backward one.
    type Saved: 'static;

    /// What it is; `"name".into()` for an operation that says nothing of itself but its name.
    fn kind(&self) -> Kind;

    /// The value, and the results that the backward kernel needs.
    fn forward(&self, args: &[Tensor<F>]) -> (Tensor<F>, Self::Saved);

    /// The adjoints of the wanted arguments from the adjoint `gy` of the output; `None` where it is not
    /// wanted.
    fn backward(
        &self,
        args: &[Tensor<F>],
        y: &Tensor<F>,
        saved: &Self::Saved,
        gy: &Tensor<F>,
        wanted: &[bool],
    ) -> Vec<Option<Tensor<F>>>;

    /// The same value by ordinary operations.
    fn reference<'t>(&self, args: &[Var<'t, F>]) -> Var<'t, F>;
}

/// Applies a fused operation.
///
/// # Panics
/// If the operands stand on different tapes, and where the operation itself panics.
#[track_caller]
pub fn fused<'t, F: Real, O: Fused<F>>(op: O, args: &[Var<'t, F>]) -> Var<'t, F> {
    let kind = op.kind();
    let (tape, values) = operands(kind.name(), args);
    let (value, saved) = op.forward(&values);
    let op = Rc::new(op);
    let again = Rc::clone(&op);
    let y = tape.record(kind, args, value, move |p| {
        if p.tape.recording.get() {
            let (y, aliases) = trace(p, |args| op.reference(args));
            return spread(vjp_graph(y, &aliases, p.gy()), &p.wanted);
        }
        let args: Vec<_> = (0..p.args.len()).map(|k| p.arg(k).value()).collect();
        let (y, gy) = (p.y().value(), p.gy().value());
        let adjoints = op.backward(&args, &y, &saved, &gy, &p.wanted);
        adjoints
            .into_iter()
            .map(|adjoint| adjoint.map(|g| p.tape.constant(g)))
            .collect()
    });
    if y.is_differentiable() {
        tape.define(
            y.id,
            Rc::new(move |args: &[Var<'_, F>]| again.reference(args)),
        );
    }
    y
}

/// Runs `f` without keeping its intermediate values; the backward pass runs it again. This saves memory and
/// costs time.
///
/// `op` is the name, or the [`Kind`], of the whole. `f` may capture owned data only, and must compute the
/// same value each time it is called.
///
/// ```
/// use emmy::{autodiff::{checkpoint, grad}, Tape};
/// let tape = Tape::new();
/// let x = tape.scalar(0.5_f64);
/// let y = checkpoint("twice sine", &[x], |args| args[0].sin().sin());
/// let plain = x.sin().sin();
/// assert_eq!(grad(y, &[x]), grad(plain, &[x]));
/// ```
///
/// # Panics
/// If there is no argument, or the arguments stand on different tapes.
#[track_caller]
pub fn checkpoint<'t, F: Real>(
    op: impl Into<Kind>,
    args: &[Var<'t, F>],
    f: impl for<'a> Fn(&[Var<'a, F>]) -> Var<'a, F> + 'static,
) -> Var<'t, F> {
    let kind = op.into();
    let (tape, values) = operands(kind.name(), args);
    let value = tape.scratch(false, || f(&constants(tape, values)).value());
    tape.record(kind, args, value, move |p| {
        let graph = p.tape.recording.get();
        let on = p.tape.set_recording(true);
        let (y, aliases) = trace(p, &f);
        drop(on);
        let adjoints = match graph {
            true => vjp_graph(y, &aliases, p.gy()),
            false => constants(p.tape, vjp(y, &aliases, &p.gy().value())),
        };
        spread(adjoints, &p.wanted)
    })
}

#[track_caller]
fn operands<'t, F: Real>(op: &str, args: &[Var<'t, F>]) -> (&'t Tape<F>, Vec<Tensor<F>>) {
    let Some(first) = args.first() else {
        panic!("{op}: it needs at least one argument")
    };
    first.tape.accept(op, args);
    (first.tape, args.iter().map(|a| a.value()).collect())
}

/// Traces `f` on aliases of the arguments: the backward sweep stops at the aliases, and an argument that is
/// given twice has two aliases, each with its own derivative. Returns the value and the aliases of the
/// wanted arguments.
fn trace<'t, F: Real>(
    p: &Vjp<'t, F>,
    f: impl FnOnce(&[Var<'t, F>]) -> Var<'t, F>,
) -> (Var<'t, F>, Vec<Var<'t, F>>) {
    let aliases: Vec<_> = (0..p.args.len()).map(|k| alias(p.arg(k))).collect();
    let y = f(&aliases);
    let wanted = aliases.into_iter().zip(&p.wanted).filter(|(_, on)| **on);
    (y, wanted.map(|(a, _)| a).collect())
}

/// y = x, a new node for the same value.
fn alias<F: Real>(x: Var<'_, F>) -> Var<'_, F> {
    x.tape
        .record(Kind::Alias, &[x], x.value(), |p| vec![Some(p.gy())])
}

/// Puts one item in each wanted place.
fn spread<T>(items: Vec<T>, wanted: &[bool]) -> Vec<Option<T>> {
    let mut items = items.into_iter();
    let place = |&on: &bool| if on { items.next() } else { None };
    wanted.iter().map(place).collect()
}
