//! `qh2o`: heavy hitters, where tokens that the buffer stores badly leave sooner.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::{KvPolicy, PolicyArgs, Rule, ScoredOptions, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "qh2o",
    build: |args| {
        let options = ScoredOptions::take(args)?;
        Ok(Arc::new(QH2o { options, score_share: score_share(args)? }))
    },
};

#[derive(Debug)]
struct QH2o {
    options: ScoredOptions,
    score_share: f32,
}

/// How much of the decision is the score.
pub(super) fn score_share(args: &mut PolicyArgs) -> Result<f32, PolicyError> {
    Ok(args.share("combination_constant")?.unwrap_or(0.5) as f32)
}

impl KvPolicy for QH2o {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let rule = self.options.rule(slots);
        let score_share = Some(self.score_share);
        Ok(Rule::Scored(ScoredRule { score_share, ..rule }))
    }
}
