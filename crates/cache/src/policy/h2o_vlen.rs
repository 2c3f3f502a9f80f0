//! `h2o-vlen`: as `h2o`, with attention weighed by the length of the values it brings.

use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{Rule, ScoredOptions, ScoredRule, Weighting};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o-vlen",
    build: |args| {
        by_rule(ScoredOptions::take(args)?, |options, slots| {
            let weighting = Weighting::ByValueNorm;
            Rule::Scored(ScoredRule { weighting, ..options.rule(slots) })
        })
    },
};
