//! The registry: every operation with a way to draw operands for it and its value by a plain loop in `f64`.
//!
//! The generic tests walk it: value, derivatives to second order, forward against reverse mode, `f32` against
//! `f64`, strided operands, sizes 0 and 1. An operation that is not in it fails a test.

mod attention;
mod dense_attention;
mod elementwise;
mod losses;
mod norms;
mod recurrent;
mod reductions;
mod reference;
mod sampler;
mod shapes;
mod sparse;

pub use sampler::Sampler;

use emmy::autodiff::Var;
use emmy::real::Real;
use emmy::tensor::Tensor;

/// An operation.
pub struct Operation {
    /// Its name: that of the function, or of the operator.
    pub name: &'static str,
    /// Draws operands, and the other inputs of the operation (axes, masks, patterns).
    pub draw: fn(&mut Sampler) -> Case,
}

/// An operation with operands.
pub struct Case {
    /// The operands.
    pub args: Vec<Tensor<f64>>,
    /// The operation.
    pub function: Function,
    /// Its value from the operands by a plain loop.
    pub reference: Reference,
}

/// A function of plain tensors.
pub type Reference = Box<dyn Fn(&[Tensor<f64>]) -> Tensor<f64>>;

/// A function of variables, for both types of numbers.
pub struct Function {
    /// For `f32`.
    pub f32: Boxed<f32>,
    /// For `f64`.
    pub f64: Boxed<f64>,
}

/// A function of variables.
pub type Boxed<F> = Box<dyn for<'t> Fn(&[Var<'t, F>]) -> Var<'t, F>>;

/// All operations.
pub fn operations() -> Vec<Operation> {
    [
        elementwise::operations(),
        reductions::operations(),
        shapes::operations(),
        losses::operations(),
        sparse::operations(),
        attention::operations(),
        dense_attention::operations(),
        norms::operations(),
        recurrent::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Case {
    fn new(
        args: Vec<Tensor<f64>>,
        function: Function,
        reference: impl Fn(&[Tensor<f64>]) -> Tensor<f64> + 'static,
    ) -> Self {
        Self {
            args,
            function,
            reference: Box::new(reference),
        }
    }
}

/// The bound lets the lifetimes of the closure infer.
fn boxed<F: Real>(f: impl for<'t> Fn(&[Var<'t, F>]) -> Var<'t, F> + 'static) -> Boxed<F> {
    Box::new(f)
}

/// A [`Function`] from one body in which `F` is the type of numbers; the captured variables are listed in
/// front and cloned.
macro_rules! function {
    ([$($captured:ident),*] |$x:ident| $body:expr) => {
        $crate::registry::Function {
            f32: {
                $(let $captured = $captured.clone();)*
                #[allow(dead_code, reason = "not every body names it")]
                type F = f32;
                $crate::registry::boxed::<f32>(move |$x| $body)
            },
            f64: {
                $(let $captured = $captured.clone();)*
                #[allow(dead_code, reason = "not every body names it")]
                type F = f64;
                $crate::registry::boxed::<f64>(move |$x| $body)
            },
        }
    };
    (|$x:ident| $body:expr) => { $crate::registry::function!([] |$x| $body) };
}
use function;
