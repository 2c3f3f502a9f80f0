//! `lastrec`: the newest tokens stay, and the first ones of the sequence.

use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{RecentRule, Rule, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lastrec",
    build: |args| {
        by_rule(args.count("init_grace_tokens")?, |first_tokens, slots| {
            let by_default = ScoredRule::protected_by_default(slots);
            Rule::Recent(RecentRule::new(first_tokens.unwrap_or(by_default)))
        })
    },
};
