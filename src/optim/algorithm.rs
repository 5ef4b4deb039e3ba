//! The rules of updates that a configuration can name.

use super::rule::{AnyRule, RuleOf};
use super::{Adam, AdamW, Muon, Rule, Sgd};
use crate::error::Result;
use crate::real::Real;
use crate::registry::{Family, Registered, Registry, same_type};
use serde::{Deserialize, Serialize};

/// A [`Rule`] with its options, as a configuration and a checkpoint hold it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Algorithm {
    /// Gradient descent, [`Sgd`].
    Sgd(Sgd),
    /// [`Adam`].
    Adam(Adam),
    /// [`AdamW`].
    AdamW(AdamW),
    /// [`Muon`].
    Muon(Muon),
    /// A rule of another crate, under the name that [`Algorithm::register`] gave it.
    Registered(RegisteredRule),
}

/// A rule of another crate: its name, and options that do not change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RegisteredRule(Registered<dyn AnyRule>);

impl RegisteredRule {
    /// The name.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }
}

impl Algorithm {
    /// Plain gradient descent.
    pub const SGD: Self = Self::Sgd(Sgd::PLAIN);

    /// Adam with β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸.
    pub const ADAM: Self = Self::Adam(Adam {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
    });

    /// AdamW with β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸.
    pub const ADAMW: Self = Self::AdamW(AdamW {
        beta1: 0.9,
        beta2: 0.999,
        eps: 1e-8,
    });

    /// Muon with the constants of its authors.
    pub const MUON: Self = Self::Muon(Muon::DEFAULT);

    /// Gives a rule of another crate a name. A configuration names the rule by the result. What is saved
    /// holds the name alone, so the options belong to the name, and a program that loads it registers the
    /// same name with the same options before. Names and options stay for the life of the process.
    ///
    /// # Errors
    /// If an option breaks its rule, or the name is empty, or registered already.
    pub fn register(name: impl Into<String>, rule: impl Rule) -> Result<Self> {
        rule.validate()?;
        let rule = REGISTRY.add(name, Box::new(rule))?;
        Ok(Self::Registered(RegisteredRule(rule)))
    }

    /// The rule that was registered under this name.
    ///
    /// # Errors
    /// If there is none; the message lists those that are registered.
    pub fn registered(name: &str) -> Result<Self> {
        let rule = REGISTRY.find(name)?;
        Ok(Self::Registered(RegisteredRule(rule)))
    }

    /// Checks the options.
    ///
    /// # Errors
    /// If one breaks its rule; the message names it.
    pub fn validate(&self) -> Result<()> {
        self.any().validate()
    }

    fn any(&self) -> &dyn AnyRule {
        match self {
            Self::Sgd(rule) => rule,
            Self::Adam(rule) => rule,
            Self::AdamW(rule) => rule,
            Self::Muon(rule) => rule,
            Self::Registered(rule) => rule.0.options(),
        }
    }

    /// The rule for numbers of one type.
    // Not inlined: a program that calls it would compile all rules again.
    #[inline(never)]
    pub(super) fn rule<F: Real>(&self) -> Box<dyn RuleOf<F>> {
        match size_of::<F>() {
            4 => same_type(self.any().of_f32()),
            _ => same_type(self.any().of_f64()),
        }
    }
}

static REGISTRY: Registry<dyn AnyRule> = Registry::new("optimisers", "Algorithm::register");

impl Family for dyn AnyRule {
    fn registry() -> &'static Registry<Self> {
        &REGISTRY
    }
}
