//! Reverse-mode differentiation and what is built on it.
//!
//! With y = f(x) and a cotangent u, one backward sweep gives the product uᵀJ. The same derivative code runs in two modes:
//!
//! - **values**: every derivative runs in a scratch region that is freed as soon as its value is known;
//! - **graph** (`_graph` in the name, `create_graph` elsewhere): what the derivatives compute stays on the tape and can be
//!   differentiated again, to any order.

use super::Var;
use super::tape::{Derivative, Joint, NodeId, Pull, Rule, Tape};
use crate::kernels;
use crate::real::Real;
use crate::tensor::{Tensor, memory};

/// ∂y/∂x for each x, as plain values; y must hold one element. What the sweep makes is freed.
///
/// An x on which y does not depend gets zeros.
///
/// # Panics
/// If y has not exactly one element, or an x is a constant or stands on another tape.
#[track_caller]
pub fn grad<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>]) -> Vec<Tensor<F>> {
    let u = Tensor::ones(one_element(y));
    vjp(y, xs, &u)
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
pub fn grad_graph<'t, F: Real>(y: Var<'t, F>, xs: &[Var<'t, F>]) -> Vec<Var<'t, F>> {
    let u = y.tape.constant(Tensor::ones(one_element(y)));
    vjp_graph(y, xs, u)
}

/// The vector–Jacobian product uᵀ ∂y/∂x for each x; `u` has the shape of y.
///
/// # Panics
/// If the shape of `u` is not that of y, or an x is a constant or stands on another tape.
#[track_caller]
pub fn vjp<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], u: &Tensor<F>) -> Vec<Tensor<F>> {
    let path = Path::new(y, xs, u.shape());
    let tape = y.tape;
    let adjoints = path.sweep(
        u.clone(),
        |id, gy| {
            tape.scratch(false, || {
                let (pull, rule) = open(tape.constant(gy), id);
                let each = |rule: &Derivative<F>| rule(&pull).value();
                path.contributions(&pull, &rule, each, |joint, on| joint.values(&pull, on))
            })
        },
        |sum, term| {
            kernels::map::add_assign(sum, &term);
            memory::recycle(term);
        },
    );
    xs.iter()
        .map(|x| path.adjoint(&adjoints, x.id))
        .zip(xs)
        .map(|(adjoint, x)| adjoint.unwrap_or_else(|| Tensor::zeros(x.shape())))
        .collect()
}

/// The vector–Jacobian product as variables that can be differentiated again, with respect to `u` too.
///
/// # Panics
/// As [`vjp`].
#[track_caller]
pub fn vjp_graph<'t, F: Real>(y: Var<'t, F>, xs: &[Var<'t, F>], u: Var<'t, F>) -> Vec<Var<'t, F>> {
    let path = Path::new(y, xs, &u.shape());
    let tape = y.tape;
    let adjoints = path.sweep(
        u,
        |id, gy| {
            let (pull, rule) = open(gy, id);
            let each = |rule: &Derivative<F>| rule(&pull);
            path.contributions(&pull, &rule, each, |joint, on| joint.graph(&pull, on))
        },
        |sum, term| *sum = *sum + term,
    );
    xs.iter()
        .map(|x| path.adjoint(&adjoints, x.id))
        .zip(xs)
        .map(|(adjoint, x)| adjoint.unwrap_or_else(|| tape.constant(Tensor::zeros(x.shape()))))
        .collect()
}

/// The Jacobian–vector product Σ ∂y/∂x · v, by two pullbacks: uᵀJ is linear in u, and its derivative along v is Jv.
///
/// # Panics
/// If there is not one `v` an x, of its shape, or an x is a constant or stands on another tape.
#[track_caller]
pub fn jvp<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], vs: &[Tensor<F>]) -> Tensor<F> {
    let tape = y.tape;
    tape.scratch(true, || {
        let u = tape.var(Tensor::zeros(y.shape()));
        let pulled = vjp_graph(y, xs, u);
        let along = contract(tape, "jvp", &pulled, vs);
        grad(along, &[u]).remove(0)
    })
}

/// The Jacobian–vector product as a variable that can be differentiated again, with respect to the `vs` too.
///
/// # Panics
/// As [`jvp`].
#[track_caller]
pub fn jvp_graph<'t, F: Real>(y: Var<'t, F>, xs: &[Var<'t, F>], vs: &[Var<'t, F>]) -> Var<'t, F> {
    let u = y.tape.var(Tensor::zeros(y.shape()));
    let pulled = vjp_graph(y, xs, u);
    grad_graph(contract_vars(y.tape, "jvp", &pulled, vs), &[u])[0]
}

/// The Hessian–vector product ∂/∂x Σ ⟨∂y/∂x, v⟩ of a y with one element, for each x.
///
/// # Panics
/// As [`jvp`], and if y has not exactly one element.
#[track_caller]
pub fn hvp<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], vs: &[Tensor<F>]) -> Vec<Tensor<F>> {
    let tape = y.tape;
    tape.scratch(true, || {
        let gradients = grad_graph(y, xs);
        grad(contract(tape, "hvp", &gradients, vs), xs)
    })
}

/// The dense Jacobian ∂y/∂x, of shape `[shape of y.., shape of x..]`: one backward sweep for each element of y.
///
/// # Panics
/// If x is a constant or stands on another tape.
#[track_caller]
pub fn jacobian<F: Real>(y: Var<'_, F>, x: Var<'_, F>) -> Tensor<F> {
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
fn one_element<F: Real>(y: Var<'_, F>) -> Vec<usize> {
    let shape = y.shape();
    assert!(
        shape.iter().product::<usize>() == 1,
        "grad: y must hold one element, its shape is {shape:?}; give vjp a cotangent instead"
    );
    shape
}

#[track_caller]
fn contract<'t, F: Real>(
    tape: &'t Tape<F>,
    op: &str,
    gs: &[Var<'t, F>],
    vs: &[Tensor<F>],
) -> Var<'t, F> {
    let vs: Vec<_> = vs.iter().map(|v| tape.constant(v.clone())).collect();
    contract_vars(tape, op, gs, &vs)
}

/// Σ_k ⟨g_k, v_k⟩
#[track_caller]
fn contract_vars<'t, F: Real>(
    tape: &'t Tape<F>,
    op: &str,
    gs: &[Var<'t, F>],
    vs: &[Var<'t, F>],
) -> Var<'t, F> {
    assert!(
        gs.len() == vs.len() && gs.iter().zip(vs).all(|(g, v)| g.shape() == v.shape()),
        "{op}: the directions have shapes {:?}, the variables {:?}",
        vs.iter().map(|v| v.shape()).collect::<Vec<_>>(),
        gs.iter().map(|g| g.shape()).collect::<Vec<_>>()
    );
    gs.iter()
        .zip(vs)
        .map(|(&g, &v)| (g * v).sum_all())
        .reduce(|a, b| a + b)
        .unwrap_or_else(|| tape.constant(crate::tensor::scalar(F::zero())))
}

/// The nodes between the xs and y: what a sweep has to visit.
struct Path {
    /// The smallest id asked for; nothing below it matters.
    low: NodeId,
    /// For each node from `low` to y: does it depend on an x?
    reaches: Vec<bool>,
    /// For each node from `low` to y: is it an x?
    wanted: Vec<bool>,
}

impl Path {
    #[track_caller]
    fn new<F: Real>(y: Var<'_, F>, xs: &[Var<'_, F>], u_shape: &[usize]) -> Self {
        assert!(
            y.shape() == u_shape,
            "vjp: the cotangent has shape {u_shape:?}, y has {:?}",
            y.shape()
        );
        for x in xs {
            assert!(
                std::ptr::eq(x.tape, y.tape),
                "grad: x and y stand on different tapes"
            );
            assert!(
                x.is_differentiable(),
                "grad: asked for the derivative with respect to a constant, {x:?}"
            );
        }
        // An x made after y cannot have influenced it.
        let earlier = xs.iter().map(|x| x.id).filter(|&id| id <= y.id);
        let low = earlier.clone().min().unwrap_or(y.id);
        let mut reaches = vec![false; y.id + 1 - low];
        for id in earlier {
            reaches[id - low] = true;
        }
        let wanted = reaches.clone();
        for id in low..=y.id {
            let node = y.tape.node(id);
            let through = |&arg: &NodeId| arg >= low && reaches[arg - low];
            if node.args.iter().any(through) {
                reaches[id - low] = true;
            }
        }
        Self {
            low,
            reaches,
            wanted,
        }
    }

    fn contains(&self, id: NodeId) -> bool {
        id >= self.low && self.reaches[id - self.low]
    }

    /// Visits the nodes from y down, so that every consumer comes before what it consumes and sums have a fixed order. Returns
    /// the adjoints of what was asked for.
    ///
    /// `pull` turns the finished adjoint of a node into contributions to the adjoints of its arguments, `add` sums them.
    fn sweep<T: Clone>(
        &self,
        seed: T,
        pull: impl Fn(NodeId, T) -> Vec<(NodeId, T)>,
        add: impl Fn(&mut T, T),
    ) -> Vec<Option<T>> {
        let mut adjoints: Vec<Option<T>> = vec![None; self.reaches.len()];
        *adjoints.last_mut().expect("y is on the path") = Some(seed);
        for slot in (0..adjoints.len()).rev() {
            // What was asked for is kept; the rest is given away, and freed as soon as it has been used.
            let finished = match self.wanted[slot] {
                true => adjoints[slot].clone(),
                false => adjoints[slot].take(),
            };
            let Some(gy) = finished.filter(|_| self.reaches[slot]) else {
                continue;
            };
            for (arg, term) in pull(self.low + slot, gy) {
                match &mut adjoints[arg - self.low] {
                    Some(sum) => add(sum, term),
                    empty => *empty = Some(term),
                }
            }
        }
        adjoints
    }

    /// What one node contributes to the adjoints of those of its arguments that lie on the path.
    fn contributions<F: Real, T: Contribution>(
        &self,
        pull: &Pull<'_, F>,
        rule: &Rule<F>,
        each: impl Fn(&Derivative<F>) -> T,
        joint: impl Fn(&dyn Joint<F>, &[bool]) -> Vec<Option<T>>,
    ) -> Vec<(NodeId, T)> {
        let on: Vec<bool> = pull.args.iter().map(|&id| self.contains(id)).collect();
        let terms = match rule {
            Rule::Leaf => return Vec::new(),
            Rule::Each(rules) => (rules.iter().zip(&on))
                .map(|(rule, &on)| on.then(|| each(rule)))
                .collect(),
            Rule::Joint(rule) => joint(rule.as_ref(), &on),
        };
        let op = pull.tape.node(pull.node).op;
        let mut out = Vec::with_capacity(terms.len());
        for (k, (term, &id)) in terms.into_iter().zip(&pull.args).enumerate() {
            if !on[k] {
                continue;
            }
            let term = term.unwrap_or_else(|| {
                panic!("{op}: it has no derivative with respect to argument {k}")
            });
            let shape = pull.arg(k).shape();
            assert!(
                term.has_shape(&shape),
                "{op}: its derivative with respect to argument {k} does not have that argument's shape {shape:?}"
            );
            out.push((id, term));
        }
        out
    }

    fn adjoint<T: Clone>(&self, adjoints: &[Option<T>], id: NodeId) -> Option<T> {
        let slot = id.checked_sub(self.low)?;
        adjoints.get(slot)?.clone()
    }
}

/// An adjoint in either mode; only its shape is of interest here.
trait Contribution {
    fn has_shape(&self, shape: &[usize]) -> bool;
}

impl<F: Real> Contribution for Tensor<F> {
    fn has_shape(&self, shape: &[usize]) -> bool {
        self.shape() == shape
    }
}

impl<F: Real> Contribution for Var<'_, F> {
    fn has_shape(&self, shape: &[usize]) -> bool {
        self.shape() == shape
    }
}

/// What the derivative code of one node needs, copied out of the arena so that it is not borrowed while that code runs.
fn open<'t, F: Real>(gy: Var<'t, F>, id: NodeId) -> (Pull<'t, F>, Rule<F>) {
    let node = gy.tape.node(id);
    let pull = Pull {
        tape: gy.tape,
        node: id,
        gy: gy.id,
        args: node.args.clone(),
    };
    (pull, node.rule.clone())
}
