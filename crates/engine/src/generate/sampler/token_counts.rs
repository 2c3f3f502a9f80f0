//! How often each token occurs in a text.
//!
//! Invariant: every count is zero between two uses, so nothing is cleared but what was counted.

use terrace_cache::TokenId;

#[derive(Default)]
pub struct TokenCounts {
    counts: Vec<u32>,
}

impl TokenCounts {
    /// Calls `visit` once for each distinct token below `vocab`, with how often it occurs.
    pub fn for_each(
        &mut self,
        vocab: usize,
        tokens: impl Iterator<Item = TokenId> + Clone,
        mut visit: impl FnMut(usize, u32),
    ) {
        if self.counts.len() < vocab {
            self.counts.resize(vocab, 0);
        }
        let ids = tokens.map(|token| token as usize).filter(|&id| id < vocab);
        for id in ids.clone() {
            self.counts[id] += 1;
        }
        for id in ids {
            let count = std::mem::take(&mut self.counts[id]);
            if count > 0 {
                visit(id, count);
            }
        }
    }
}
