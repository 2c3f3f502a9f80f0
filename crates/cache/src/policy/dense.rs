//! `dense`: every token stays; a sequence cannot be longer than its cache.

use super::Rule;
use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;

pub(super) const ENTRY: PolicyEntry =
    PolicyEntry { name: "dense", build: |_| by_rule((), |(), _slots| Rule::Keep) };
