//! `h2o`: tokens that were attended to most stay (heavy hitters).

use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{Rule, ScoredOptions};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "h2o",
    build: |args| {
        let options = ScoredOptions::take(args)?;
        by_rule(options, |options, slots| Rule::Scored(options.rule(slots)))
    },
};
