//! `h2o-orig`: heavy hitters as published, without arguments.
//!
//! The original sums the scores of all rows of a batch. Sequences here share a batch by chance, so
//! each is a batch of its own; the sum lives in the reference of a fixed batch.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KvPolicy, Rule, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o-orig",
    build: |args| Ok(Arc::new(H2oOrig { init_grace_tokens: args.count("init_grace_tokens")? })),
};

#[derive(Debug)]
struct H2oOrig {
    init_grace_tokens: Option<usize>,
}

impl KvPolicy for H2oOrig {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let plain = ScoredRule::new(slots);
        let protected_tokens = self.init_grace_tokens.unwrap_or(plain.protected_tokens);
        Ok(Rule::Scored(ScoredRule { protected_tokens, ..plain }))
    }
}
