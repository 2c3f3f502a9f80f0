//! `streamingllm`: the first few tokens as sinks of attention, and a window of the newest, at
//! positions as if nothing had been between them.

use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{KeyPositions, RecentRule, Rule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "streamingllm",
    build: |args| {
        by_rule(args.count("init_grace_tokens")?.unwrap_or(SINKS), |sinks, _slots| {
            let key_positions = KeyPositions::InCache;
            Rule::Recent(RecentRule { key_positions, ..RecentRule::new(*sinks) })
        })
    },
};

/// Enough for the models of Xiao et al., "Efficient streaming language models with attention sinks"
/// (ICLR 2024), table 2.
const SINKS: usize = 4;
