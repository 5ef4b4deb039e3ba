//! The Lipschitz constants of a model and of its layers, read off a trace.

use super::collapse::Measured;
use super::{Call, Trace};
use crate::autodiff::Tape;
use crate::error::{Error, Result};
use crate::lipschitz::{
    Domain, Interval, Lower, Lp, Rounding, Unbounded, Upper, Walk, check_radius, jacobian_norm,
    local, of_nodes,
};
use crate::real::Real;
use std::fmt;
use std::rc::Rc;

/// The tape of a trace, and the nodes of its input, if there is one, and output.
#[derive(Clone)]
pub(super) struct Recorded {
    pub(super) input: Option<usize>,
    output: usize,
    pub(super) tape: Rc<dyn Kept>,
}

impl Recorded {
    #[inline(never)]
    pub fn new<F: Real>(tape: Tape<F>, input: Option<usize>, output: usize) -> Self {
        Self {
            input,
            output,
            tape: Rc::new(tape),
        }
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recorded {:?} → {}", self.input, self.output)
    }
}

/// A tape of either type.
pub(super) trait Kept: Measured {
    /// The bounds of several nodes with respect to one.
    fn upper(&self, ys: &[usize], x: usize, p: Lp, domain: Domain)
    -> Vec<Result<Upper, Unbounded>>;

    /// A lower bound of the norm of the Jacobian at the recorded input.
    fn lower(&self, y: usize, x: usize, p: Lp) -> Lower;

    /// The domain, if the recorded input is one of its inputs.
    fn around(&self, domain: Domain, x: usize) -> Result<Domain>;

    /// How far the computed output is from the exact one.
    fn rounding(&self, y: usize, x: usize, radius: f64) -> Result<Rounding, Unbounded>;

    fn op(&self, node: usize) -> &'static str;

    fn is_constant(&self, node: usize) -> bool;
}

/// Jacobians of at most so many entries are computed as a whole.
const SMALL: usize = 1 << 20;

/// Steps of power iteration.
const STEPS: usize = 100;

impl<F: Real> Kept for Tape<F> {
    fn upper(
        &self,
        ys: &[usize],
        x: usize,
        p: Lp,
        domain: Domain,
    ) -> Vec<Result<Upper, Unbounded>> {
        let mut walk = Walk::new(self.handle(x), p, domain);
        let bounds = ys.iter().map(|&y| walk.to(y));
        bounds.map(|b| b.map(|b| b.upper())).collect()
    }

    fn lower(&self, y: usize, x: usize, p: Lp) -> Lower {
        let (y, x) = (self.handle(y), self.handle(x));
        let mark = self.len();
        let found = match p {
            Lp::Two => local(y, x, STEPS, 0),
            _ if y.len() * x.len() <= SMALL => jacobian_norm(y, x, p).0.lower,
            // A Jacobian too large to be computed as a whole: no lower bound was looked for.
            _ => Lower::ZERO,
        };
        self.truncate(mark);
        found
    }

    fn around(&self, domain: Domain, x: usize) -> Result<Domain> {
        domain.around(self, x)
    }

    fn rounding(&self, y: usize, x: usize, radius: f64) -> Result<Rounding, Unbounded> {
        of_nodes(self, y, x, radius)
    }

    fn op(&self, node: usize) -> &'static str {
        self.node(node).kind.name()
    }

    fn is_constant(&self, node: usize) -> bool {
        !self.handle(node).is_differentiable()
    }
}

/// The constant of one layer: of its output with respect to the first of its inputs that is no constant.
#[derive(Debug, Clone)]
pub struct Constant {
    /// The path of fields that leads to the layer.
    pub path: String,
    /// The layer's type.
    pub kind: &'static str,
    /// The number of calls that enclose this one.
    pub depth: usize,
    /// A lower bound, found at the recorded input.
    pub lower: Lower,
    /// An upper bound; or the reason why there is none.
    pub upper: Result<Upper, String>,
}

/// The constants of a model and its layers; displayed as a table.
#[derive(Debug, Clone)]
pub struct Constants {
    /// The norm.
    pub p: Lp,
    /// The inputs for which the bounds hold.
    pub domain: Domain,
    /// One per call.
    pub layers: Vec<Constant>,
    /// The whole model.
    pub whole: Constant,
}

impl Trace {
    /// The Lipschitz constant of the model in the norm ‖·‖_p as an interval: the proven bound for all inputs
    /// ([`crate::lipschitz::bound`]), and the norm of the Jacobian at the recorded one. For p = 1 and p = ∞
    /// the lower end is 0 if outputs times inputs exceed 2²⁰.
    ///
    /// ```
    /// use emmy::{init, lipschitz::Lp, nn::{Linear, Trace}};
    /// let rng = &mut init::rng(0);
    /// let net = vec![Linear::<f64>::new(4, 8, true, rng), Linear::new(8, 3, true, rng)];
    /// let x = init::normal(&[1, 4], 1.0, rng);
    /// let trace = Trace::at(&net, &x, |pass, x| net[1].forward(pass, net[0].forward(pass, x).relu()));
    /// let interval = trace.lipschitz(Lp::Two)?;
    /// assert!(0.0 < interval.lower.get() && interval.ratio() < 10.0);
    /// # Ok::<(), emmy::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an operation between input and output has no bound; the message names the layer by its path. If the
    /// trace was not taken [at an input](Self::at).
    pub fn lipschitz(&self, p: Lp) -> Result<Interval> {
        self.lipschitz_on(p, Domain::Everywhere)
    }

    /// The same for the inputs of a domain. The recorded input, where the lower end is found, must be one of
    /// them; its rows may exceed [`Domain::Rows`] by rounding.
    ///
    /// # Errors
    /// As [`lipschitz`](Self::lipschitz); and if the radius is negative or not finite, or the recorded input
    /// has a number that is not finite or lies outside the domain.
    pub fn lipschitz_on(&self, p: Lp, domain: Domain) -> Result<Interval> {
        let (recorded, x) = self.recorded()?;
        let (y, domain) = (recorded.output, recorded.tape.around(domain, x)?);
        let upper = recorded.tape.upper(&[y], x, p, domain).swap_remove(0);
        let upper = upper.map_err(|unbounded| self.error(recorded, unbounded))?;
        Ok(Interval {
            lower: recorded.tape.lower(y, x, p),
            upper,
        })
    }

    /// e, how far the output that the model's type of numbers computes is from the exact one
    /// ([`crate::lipschitz::rounding`]), for each input whose rows are within `radius` of those of the
    /// recorded one. With the constant L of [`lipschitz`](Self::lipschitz) the computed outputs ŷ have
    /// ‖ŷ(x) − ŷ(x′)‖ ≤ L ‖x − x′‖ + e(x) + e(x′).
    ///
    /// ```
    /// use emmy::{init, lipschitz::Lp, nn::{Activation, Mlp, Trace}};
    /// let net = Mlp::<f32>::new(&[16, 64, 4], Activation::Relu, true, &mut init::rng(0));
    /// let x = init::normal(&[8, 16], 1.0, &mut init::rng(1));
    /// let trace = Trace::at(&net, &x, |pass, x| net.forward(pass, x));
    /// let e = [0.0, 0.5].map(|radius| trace.rounding(radius).unwrap().norm(Lp::Two).get());
    /// assert!(e[0] < e[1] && e[1] < 1e-3);
    /// ```
    ///
    /// # Errors
    /// If the rounding error of an operation between input and output is not known; the message names the
    /// layer by its path. If the trace was not taken [at an input](Self::at), or the radius is not a finite
    /// number of at least 0.
    pub fn rounding(&self, radius: f64) -> Result<Rounding> {
        let (recorded, x) = self.recorded()?;
        check_radius(radius)?;
        let found = recorded.tape.rounding(recorded.output, x, radius);
        found.map_err(|unbounded| self.error(recorded, unbounded))
    }

    /// The constants of all layers, and of the model. For a domain that limits the inputs of the model,
    /// those of a layer are for all inputs of the layer.
    ///
    /// # Errors
    /// If the trace was not taken [at an input](Self::at), or the domain is refused as by
    /// [`lipschitz_on`](Self::lipschitz_on).
    pub fn lipschitz_by_layer(&self, p: Lp, domain: Domain) -> Result<Constants> {
        let (recorded, input) = self.recorded()?;
        let given = domain;
        let domain = recorded.tape.around(given, input)?;
        let constant = |x: usize, y: usize, path: &str, kind, depth, domain| {
            let upper = recorded.tape.upper(&[y], x, p, domain).swap_remove(0);
            let reason = |u: Unbounded| format!("{}: {}", self.place(u.node), u.reason);
            Constant {
                path: path.to_owned(),
                kind,
                depth,
                lower: recorded.tape.lower(y, x, p),
                upper: upper.map_err(reason),
            }
        };
        // A limit of the inputs of the model is not a limit of the inputs of a layer.
        let inner = match domain {
            Domain::Rows(_) | Domain::Ball(_) => Domain::Everywhere,
            other => other,
        };
        let calls = self.calls.iter().filter_map(|call| {
            // The first state of a recurrent layer is a constant, for example.
            let mut inputs = call.inputs.iter();
            let x = *inputs.find(|x| !recorded.tape.is_constant(**x))?;
            // The layer depends on constants only, or its output is its input.
            if x < input || call.output <= x {
                return None;
            }
            let depth = std::iter::successors(call.parent, |&p| self.calls[p].parent).count();
            Some(constant(
                x,
                call.output,
                &call.path,
                call.kind,
                depth,
                inner,
            ))
        });
        Ok(Constants {
            p,
            domain: given,
            layers: calls.collect(),
            whole: constant(input, recorded.output, "model", "", 0, domain),
        })
    }

    fn recorded(&self) -> Result<(&Recorded, usize)> {
        let found = self.recorded.as_ref().and_then(|s| Some((s, s.input?)));
        found.ok_or_else(|| {
            Error::invalid(
                "Lipschitz constant of a trace",
                "a trace that was taken at an input (`Trace::at`)",
                "a trace that does not know its input",
            )
        })
    }

    fn error(&self, recorded: &Recorded, unbounded: Unbounded) -> Error {
        Error::Unbounded {
            place: self.place(unbounded.node),
            operation: recorded.tape.op(unbounded.node),
            reason: unbounded.reason,
        }
    }

    /// The layer that recorded a node, in words.
    fn place(&self, node: usize) -> String {
        let within = |call: &&Call| call.nodes.contains(&node);
        match self.calls.iter().rfind(within) {
            Some(call) if call.path.is_empty() => format!("a {}", call.kind),
            Some(call) => format!("{} ({})", call.path, call.kind),
            None => "the model, between its layers".to_owned(),
        }
    }
}

impl fmt::Display for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 4]> = (self.layers.iter().chain([&self.whole]))
            .map(|c| {
                let upper = match &c.upper {
                    Ok(upper) if upper.is_finite() => format!("{upper:.4}").replace("≤ ", ""),
                    _ => "none".to_owned(),
                };
                [
                    format!("{}{}", "  ".repeat(c.depth), c.path),
                    c.kind.to_owned(),
                    format!("{:.4}", c.lower).replace("≥ ", ""),
                    upper,
                ]
            })
            .collect();
        let head = ["layer", "type", "found", "proven"].map(str::to_owned);
        let width = |k: usize| {
            let cells = rows.iter().chain([&head]).map(|row| row[k].chars().count());
            cells.max().unwrap_or(0)
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(width);
        for [x, y, z, w] in [&head].into_iter().chain(&rows) {
            writeln!(f, "{x:<a$}  {y:<b$}  {z:>c$}  {w:>d$}")?;
        }
        // What the inputs of a layer are limited to.
        let own = match self.domain {
            Domain::Here => "at its recorded input",
            _ => "for all inputs of its own",
        };
        for c in &self.layers {
            if let Err(reason) = &c.upper {
                let name = if c.path.is_empty() { c.kind } else { &c.path };
                writeln!(f, "no bound of {name} {own}: {reason}")?;
            }
        }
        if let Err(reason) = &self.whole.upper {
            writeln!(f, "no bound of the model: {reason}")?;
        }
        Ok(())
    }
}
