//! Initialisation of a whole model. [`crate::init`] draws the numbers; a recorded pass shows to which layer
//! each parameter belongs.

use super::{Module, Trace, Traced};
use crate::error::Result;
use crate::init::Initialization;
use crate::real::Real;

impl Initialization {
    /// Draws the parameters of a model anew: [`apply_to`](Self::apply_to) with the model's own
    /// trace.
    ///
    /// # Errors
    /// As [`draw`](Self::draw).
    pub fn apply<F: Real>(&self, model: &mut impl Traced<F>, seed: u64) -> Result<()> {
        let trace = model.trace();
        self.apply_to(model, &trace, seed)
    }

    /// Draws the parameters of a model anew, in the order of a recorded pass over it. Gains, tables
    /// and state keep their values, and so do parameters that belong to no layer of the pass, or to a
    /// layer without weights, such as the bias of a norm.
    ///
    /// # Errors
    /// As [`draw`](Self::draw); the model is then unchanged.
    ///
    /// # Panics
    /// If the trace is of another model.
    #[track_caller]
    pub fn apply_to<F: Real>(
        &self,
        model: &mut (impl Module<F> + ?Sized),
        trace: &Trace,
        seed: u64,
    ) -> Result<()> {
        let names = model.parameters().into_iter().map(|p| p.name);
        assert!(
            names.eq(trace.names().iter().cloned()),
            "initialisation: the trace is of another model"
        );
        self.draw(&trace.weight_order(), &mut model.tensors_mut(), seed)
    }
}
