//! Policies of a program outside the workspace: each writes its score, or takes the one there is.

use std::sync::Arc;

use terrace_cache::policy::{
    HeadSlots, KvPolicy, PolicyEntry, PolicyError, Rule, ScoredOptions, ScoredRule, Weighting,
};

/// Scores by everything it is told, and forgets.
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
    kept_share: f32,
}

impl KvPolicy for Fading {
    fn name(&self) -> &str {
        FADING.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let weighting = Weighting::Custom { value_norms: true, errors: true };
        Ok(Rule::Scored(ScoredRule { weighting, ..self.options.rule(slots) }))
    }

    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        for (slot, score) in scores.iter_mut().enumerate() {
            let gained = head.weights[slot] * head.value_norms[slot] / head.chunk_tokens as f32;
            let recent = head.positions[slot] as f32 / head.seen_tokens as f32;
            *score = *score * self.kept_share + gained * recent - head.errors[slot];
        }
    }
}

/// As `h2o`, by the score that a policy has when it writes none.
pub const REPEATING: PolicyEntry = PolicyEntry {
    name: "repeating",
    build: |args| Ok(Arc::new(Repeating { options: ScoredOptions::take(args)? })),
};

#[derive(Debug)]
struct Repeating {
    options: ScoredOptions,
}

impl KvPolicy for Repeating {
    fn name(&self) -> &str {
        REPEATING.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let weighting = Weighting::Custom { value_norms: false, errors: false };
        Ok(Rule::Scored(ScoredRule { weighting, ..self.options.rule(slots) }))
    }
}
