//! `h2o-vlen`: as `h2o`, with attention weighed by the length of the values it brings.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KvPolicy, Rule, ScoredOptions, ScoredRule, Weighting};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o-vlen",
    build: |args| Ok(Arc::new(H2oVlen { options: ScoredOptions::take(args)? })),
};

#[derive(Debug)]
struct H2oVlen {
    options: ScoredOptions,
}

impl KvPolicy for H2oVlen {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let rule = self.options.rule(slots);
        Ok(Rule::Scored(ScoredRule { weighting: Weighting::ByValueNorm, ..rule }))
    }
}
