//! `qh2o-vlen`: as `qh2o`, with attention weighed by the length of the values it brings.

use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{Rule, ScoredRule, Weighting, qh2o};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "qh2o-vlen",
    build: |args| {
        by_rule(qh2o::options(args)?, |options, slots| {
            let weighting = Weighting::ByValueNorm;
            Rule::Scored(ScoredRule { weighting, ..qh2o::rule(options, slots) })
        })
    },
};
