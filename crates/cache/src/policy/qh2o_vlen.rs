//! `qh2o-vlen`: as `qh2o`, with attention weighed by the length of the values it brings.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::qh2o::score_share;
use super::{KvPolicy, Rule, ScoredOptions, ScoredRule, Weighting};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "qh2o-vlen",
    build: |args| {
        let options = ScoredOptions::take(args)?;
        Ok(Arc::new(QH2oVlen { options, score_share: score_share(args)? }))
    },
};

#[derive(Debug)]
struct QH2oVlen {
    options: ScoredOptions,
    score_share: f32,
}

impl KvPolicy for QH2oVlen {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let rule = self.options.rule(slots);
        let (weighting, score_share) = (Weighting::ByValueNorm, Some(self.score_share));
        Ok(Rule::Scored(ScoredRule { weighting, score_share, ..rule }))
    }
}
