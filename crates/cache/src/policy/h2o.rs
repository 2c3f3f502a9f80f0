//! `h2o`: tokens that were attended to most stay (heavy hitters).

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KvPolicy, Rule, ScoredOptions};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o",
    build: |args| Ok(Arc::new(H2o { options: ScoredOptions::take(args)? })),
};

#[derive(Debug)]
struct H2o {
    options: ScoredOptions,
}

impl KvPolicy for H2o {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        Ok(Rule::Scored(self.options.rule(slots)))
    }
}
