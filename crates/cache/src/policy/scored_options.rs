//! What users may say about any policy with scores.

use super::error::PolicyError;
use super::policy_args::PolicyArgs;
use super::rule::ScoredRule;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredOptions {
    /// First tokens that never leave; unset, [`ScoredRule::protected_by_default`].
    pub init_grace_tokens: Option<usize>,
    /// Newest tokens that do not leave yet; unset, [`ScoredOptions::grace_by_default`].
    pub grace_period: Option<usize>,
    /// Share of the slots that stays when a cache filled by the first chunk first evicts.
    pub keep_initial_fraction: f64,
    pub max_chunk_size: Option<usize>,
    /// On unless it is switched off: a sum grows with age, so that old tokens would push out what
    /// was written after them.
    pub normalize_scores: bool,
}

impl ScoredOptions {
    pub fn take(args: &mut PolicyArgs) -> Result<Self, PolicyError> {
        Ok(ScoredOptions {
            init_grace_tokens: args.count("init_grace_tokens")?,
            grace_period: args.count("grace_period")?,
            keep_initial_fraction: args
                .fraction("keep_initial_fraction")?
                .unwrap_or(ScoredRule::INITIAL_FRACTION),
            max_chunk_size: args.count("max_chunk_size")?,
            normalize_scores: args.flag("normalize_scores")?.unwrap_or(true),
        })
    }

    /// A token must have been seen by some queries before its score says anything: without grace
    /// the words right before a chunk are the first to leave.
    pub fn grace_by_default(slots: usize) -> usize {
        slots / 4
    }

    /// Attention's weights by these options; a policy changes what it does differently.
    pub fn rule(&self, slots: usize) -> ScoredRule {
        let plain = ScoredRule::new(slots);
        ScoredRule {
            protected_tokens: self.init_grace_tokens.unwrap_or(plain.protected_tokens),
            grace_tokens: self.grace_period.unwrap_or(Self::grace_by_default(slots)),
            initial_slots: (self.keep_initial_fraction * slots as f64) as usize,
            chunk_tokens_max: self.max_chunk_size,
            per_age: self.normalize_scores,
            ..plain
        }
    }
}
