//! What users may say about any policy with scores.

use super::args::PolicyArgs;
use super::error::PolicyError;
use super::rule::ScoredRule;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredOptions {
    /// First tokens that never leave; unset, [`ScoredRule::protected_by_default`].
    pub init_grace_tokens: Option<usize>,
    /// Newest tokens that do not leave yet.
    pub grace_period: usize,
    /// Share of the slots that stays when a cache filled by the first chunk first evicts.
    pub keep_initial_fraction: f64,
    pub max_chunk_size: Option<usize>,
    pub normalize_scores: bool,
}

impl ScoredOptions {
    pub fn take(args: &mut PolicyArgs) -> Result<Self, PolicyError> {
        Ok(ScoredOptions {
            init_grace_tokens: args.count("init_grace_tokens")?,
            grace_period: args.count("grace_period")?.unwrap_or(0),
            keep_initial_fraction: args
                .fraction("keep_initial_fraction")?
                .unwrap_or(ScoredRule::INITIAL_FRACTION),
            max_chunk_size: args.count("max_chunk_size")?,
            normalize_scores: args.flag("normalize_scores")?.unwrap_or(false),
        })
    }

    /// Attention's weights by these options; a policy changes what it does differently.
    pub fn rule(&self, slots: usize) -> ScoredRule {
        let plain = ScoredRule::new(slots);
        ScoredRule {
            protected_tokens: self.init_grace_tokens.unwrap_or(plain.protected_tokens),
            grace_tokens: self.grace_period,
            initial_slots: (self.keep_initial_fraction * slots as f64) as usize,
            chunk_tokens_max: self.max_chunk_size,
            per_age: self.normalize_scores,
            ..plain
        }
    }
}
