//! A policy that forgets: what was attended to long ago counts less with every chunk.
//!
//! It writes its score and nothing else. Protected first tokens, a grace period, any quantised
//! buffer, the replay log, and all that an engine does with a cache come with the rule's data.

use std::sync::Arc;

use terrace_cache::policy::{
    HeadSlots, KvPolicy, PolicyEntry, PolicyError, Rule, ScoredOptions, ScoredRule, Weighting,
};

pub const FADING: PolicyEntry = PolicyEntry {
    name: "fading",
    build: |args| {
        let kept_share = args.share("kept_share")?.unwrap_or(0.9) as f32;
        Ok(Arc::new(Fading { options: ScoredOptions::take(args)?, kept_share }))
    },
};

#[derive(Debug)]
struct Fading {
    options: ScoredOptions,
    /// What is left of a score after a chunk.
    kept_share: f32,
}

impl KvPolicy for Fading {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let weighting = Weighting::Custom { value_norms: true, errors: true };
        Ok(Rule::Scored(ScoredRule { weighting, ..self.options.rule(slots) }))
    }

    /// By all that a head has: attention that brings long values to new tokens counts most, and
    /// what the buffer stores badly counts less.
    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        for (slot, score) in scores.iter_mut().enumerate() {
            let gained = head.weights[slot] * head.value_norms[slot] / head.chunk_tokens as f32;
            let recent = head.positions[slot] as f32 / head.seen_tokens as f32;
            *score = *score * self.kept_share + gained * recent - head.errors[slot];
        }
    }
}
