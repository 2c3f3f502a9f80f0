//! Which tokens of a sequence a policy keeps, and in which chunks it is computed for that.

use std::sync::Arc;

use terrace_cache::policy::Rule;
use terrace_kernels::SlotScorer;

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
    pub(crate) fn continued(&self, kept: usize, prompt_end: usize) -> SeqPolicy {
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
