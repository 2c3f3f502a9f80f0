//! What a sequence's cache is: its groups of layers, and the policy that keeps tokens in each.
//!
//! Made with the request and never changed: neither load nor other sequences decide what a policy
//! sees.

use serde_json::Value;
use terrace_cache::KvGroup;

use crate::generate::seq_policy::SeqPolicy;

#[derive(Clone, Debug)]
pub struct SeqCache {
    pub groups: Vec<KvGroup>,
    /// `None` where everything is kept, however many bits it has.
    pub policy: Option<SeqPolicy>,
    /// What it was made of, in a user's words and complete, so that it can be made again.
    pub options: Option<Value>,
}

impl SeqCache {
    /// Keeps everything, in pages of these groups.
    pub fn whole(groups: Vec<KvGroup>) -> Self {
        SeqCache { groups, policy: None, options: None }
    }

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
        SeqCache { policy, ..self.clone() }
    }
}
