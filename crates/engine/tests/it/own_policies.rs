//! Policies of a program outside the workspace: the example's, which writes its score, and one that
//! takes the score there is.

use std::sync::Arc;

use terrace_cache::policy::{
    KvPolicy, PolicyEntry, PolicyError, Rule, ScoredOptions, ScoredRule, Weighting,
};

#[path = "../../../../examples/custom_policy/fading.rs"]
mod fading;

pub use fading::FADING;

/// As `h2o`, by the score that a policy has when it writes none.
pub const REPEATING: PolicyEntry = PolicyEntry {
    name: "repeating",
    build: |args| Ok(Arc::new(Repeating(ScoredOptions::take(args)?))),
};

#[derive(Debug)]
struct Repeating(ScoredOptions);

impl KvPolicy for Repeating {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let weighting = Weighting::Custom { value_norms: false, errors: false };
        Ok(Rule::Scored(ScoredRule { weighting, ..self.0.rule(slots) }))
    }
}
