//! Stop tokens: the model's end-of-sequence (EOS) ids, and those that a request names.

use std::collections::BTreeSet;

use crate::text::GenerationConfig;
use terrace_cache::TokenId;

impl GenerationConfig {
    /// The ids that end an output, each once: `eos`, unless ignored, and the request's own.
    pub(super) fn stop_ids(&self, eos: &[TokenId]) -> Vec<TokenId> {
        let eos = if self.ignore_eos.unwrap_or(false) { &[] } else { eos };
        let mut known = BTreeSet::new();
        let ids = eos.iter().chain(self.stop_token_ids.iter().flatten()).copied();
        ids.filter(|id| known.insert(*id)).collect()
    }
}
