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
    /// Whether what is decided is written down, and reported when the sequence ends.
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
    /// Pages that a sequence of at most `tokens` holds at most, in steps of at most `step_tokens`.
    pub fn most_pages(&self, tokens: usize, step_tokens: usize) -> usize {
        let groups = self.groups.iter().enumerate();
        let pages = groups.map(|(index, group)| match &self.policy {
            Some(policy) => group.pages_for(policy.rules[index].slots.min(tokens)),
            None => group.most_pages(tokens, step_tokens),
        });
        pages.sum()
    }

    /// The cache of a sequence that goes on after `kept` tokens, of which those behind its prompt
    /// were generated, with a prompt that ends at `prompt_end`.
    pub fn continued(&self, kept: usize, prompt_end: usize) -> SeqCache {
        let policy = self.policy.as_ref().map(|policy| policy.continued(kept, prompt_end));
        SeqCache { groups: self.groups.clone(), policy }
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

    /// The same decisions for the first `kept` tokens, then chunks up to `prompt_end`.
    fn continued(&self, kept: usize, prompt_end: usize) -> SeqPolicy {
        let mut chunk_ends = self.chunk_ends.clone();
        let prompt = chunk_ends.last().copied().unwrap_or(0);
        chunk_ends.extend(prompt + 1..=kept);
        let chunk = self.longest_whole_chunk();
        chunk_ends.extend((kept + chunk..prompt_end).step_by(chunk));
        if kept < prompt_end {
            chunk_ends.push(prompt_end);
        }
        SeqPolicy { chunk_ends, ..self.clone() }
    }

    /// Tokens of the longest chunk that must be computed whole.
    pub fn longest_whole_chunk(&self) -> usize {
        self.chunk_ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1)
    }
}
