//! `streamingllm`: the first few tokens as sinks of attention, and a window of the newest, at
//! positions as if nothing had been between them.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KeyPositions, KvPolicy, RecentRule, Rule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "streamingllm",
    build: |args| {
        let sinks = args.count("init_grace_tokens")?.unwrap_or(SINKS);
        Ok(Arc::new(StreamingLlm { sinks }))
    },
};

/// Enough for the models of Xiao et al., "Efficient streaming language models with attention sinks"
/// (ICLR 2024), table 2.
const SINKS: usize = 4;

#[derive(Debug)]
struct StreamingLlm {
    sinks: usize,
}

impl KvPolicy for StreamingLlm {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, _slots: usize) -> Result<Rule, PolicyError> {
        let rule = RecentRule {
            protected_tokens: self.sinks,
            text_segment: None,
            key_positions: KeyPositions::InCache,
        };
        Ok(Rule::Recent(rule))
    }
}
