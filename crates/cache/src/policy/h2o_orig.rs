//! `h2o-orig`: heavy hitters as published: by the sum of attention, without grace, and without
//! protected first tokens unless `init_grace_tokens` asks for some.
//!
//! The original sums the scores of all rows of a batch. Sequences here share a batch by chance, so
//! each is a batch of its own; the sum lives in the reference of a fixed batch.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KvPolicy, Rule, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o-orig",
    build: |args| {
        let protected_tokens = args.count("init_grace_tokens")?.unwrap_or(0);
        Ok(Arc::new(H2oOrig { protected_tokens }))
    },
};

#[derive(Debug)]
struct H2oOrig {
    protected_tokens: usize,
}

impl KvPolicy for H2oOrig {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let protected_tokens = self.protected_tokens;
        Ok(Rule::Scored(ScoredRule { protected_tokens, ..ScoredRule::new(slots) }))
    }
}
