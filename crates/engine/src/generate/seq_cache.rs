//! What a sequence's cache is: its groups of layers, and which tokens a policy keeps in each.
//!
//! Made with the request and never changed: neither load nor other sequences decide what a policy
//! sees.

use std::sync::Arc;

use terrace_cache::KvGroup;
use terrace_cache::policy::Rule;
use terrace_kernels::SlotScorer;

#[derive(Clone, Debug)]
pub struct SeqCache {
    pub groups: Vec<KvGroup>,
    /// `None` where everything is kept, however many bits it has.
    pub policy: Option<SeqPolicy>,
}

/// A policy's rules for one sequence.
#[derive(Clone, Debug)]
pub struct SeqPolicy {
    /// For each group.
    pub rules: Vec<GroupRule>,
    /// Where the chunks of the prompt end; after it each token is a chunk. At least one.
    pub chunk_ends: Vec<usize>,
    /// Whether what is decided is written down, and told when the sequence ends.
    pub keeps_log: bool,
}

#[derive(Clone, Debug)]
pub struct GroupRule {
    /// Slots of each layer.
    pub slots: usize,
    pub rule: Rule,
    /// The policy's own score, where the rule has one.
    pub scorer: Option<Arc<dyn SlotScorer>>,
}

impl SeqCache {
    /// Slots of each group that a sequence which will have at most `tokens` ever fills.
    pub fn slots_for(&self, tokens: usize) -> Vec<usize> {
        match &self.policy {
            Some(policy) => policy.rules.iter().map(|rule| rule.slots.min(tokens)).collect(),
            None => vec![tokens; self.groups.len()],
        }
    }
}

impl SeqPolicy {
    /// Tokens of the first chunk, which evicts nothing, leaves no scores, and may be computed in
    /// parts. Pages are final inside it alone.
    pub fn first_chunk(&self) -> usize {
        self.chunk_ends[0]
    }

    /// Where the chunk that begins at `start`, or has begun before, ends.
    pub fn chunk_end(&self, start: usize) -> usize {
        let next = self.chunk_ends.partition_point(|end| *end <= start);
        self.chunk_ends.get(next).copied().unwrap_or(start + 1)
    }

    /// Tokens of the longest chunk that must be computed whole.
    pub fn longest_whole_chunk(&self) -> usize {
        self.chunk_ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1)
    }
}
