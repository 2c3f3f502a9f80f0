//! `h2o-orig`: heavy hitters as published: by the sum of attention, without grace, and without
//! protected first tokens unless `init_grace_tokens` asks for some.
//!
//! The original sums the scores of all rows of a batch. Sequences here share a batch by chance, so
//! each is a batch of its own; the sum lives in the reference of a fixed batch.

use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{Rule, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o-orig",
    build: |args| {
        let protected_tokens = args.count("init_grace_tokens")?.unwrap_or(0);
        by_rule(protected_tokens, |&protected_tokens, slots| {
            Rule::Scored(ScoredRule { protected_tokens, ..ScoredRule::new(slots) })
        })
    },
};
