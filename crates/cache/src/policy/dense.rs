//! `dense`: every token stays; a sequence cannot be longer than its cache.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KvPolicy, Rule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry { name: "dense", build: |_| Ok(Arc::new(Dense)) };

#[derive(Debug)]
struct Dense;

impl KvPolicy for Dense {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, _slots: usize) -> Result<Rule, PolicyError> {
        Ok(Rule::Keep)
    }
}
