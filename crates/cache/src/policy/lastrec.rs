//! `lastrec`: the newest tokens stay, and the first ones of the sequence.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KeyPositions, KvPolicy, RecentRule, Rule, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "lastrec",
    build: |args| Ok(Arc::new(LastRec { init_grace_tokens: args.count("init_grace_tokens")? })),
};

#[derive(Debug)]
struct LastRec {
    init_grace_tokens: Option<usize>,
}

impl KvPolicy for LastRec {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let by_default = ScoredRule::protected_by_default(slots);
        let rule = RecentRule {
            protected_tokens: self.init_grace_tokens.unwrap_or(by_default),
            text_segment: None,
            key_positions: KeyPositions::InSequence,
        };
        Ok(Rule::Recent(rule))
    }
}
