//! What a policy does, as plain data: a host and a device do the same from it.

use std::sync::Arc;

use super::error::PolicyError;
use super::text_segment::{Opening, TextSegment};

#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Everything stays; a sequence longer than the cache is an error.
    Keep,
    /// The oldest leave.
    Recent(RecentRule),
    /// Those with the lowest score leave, in each head by itself.
    Scored(ScoredRule),
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecentRule {
    /// First tokens of the sequence that never leave.
    pub protected_tokens: usize,
    /// Where to look for the end of the protected tokens; `protected_tokens` is then their most.
    pub text_segment: Option<Arc<TextSegment>>,
    pub key_positions: KeyPositions,
}

/// How far away a protected key is from a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPositions {
    /// As far as in the sequence.
    InSequence,
    /// As far as in the cache, as if what was evicted had never been: protected keys are rotated
    /// on by one position with every token that leaves. A model then never sees a distance it was
    /// not trained for, however long the sequence.
    InCache,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredRule {
    /// First tokens of the sequence that never leave.
    pub protected_tokens: usize,
    /// Newest tokens that do not leave yet.
    pub grace_tokens: usize,
    /// Slots that stay when the first tokens leave a cache filled by its first chunk, which has
    /// left no scores; never fewer than the protected ones.
    pub initial_slots: usize,
    /// Longest chunk, where it is limited.
    pub chunk_tokens_max: Option<usize>,
    pub weighting: Weighting,
    /// Whether a score is divided by how long its token has been scored.
    pub per_age: bool,
    /// Share `a` of the score; the rest is how well the token is stored:
    /// `a * N(score) + (a - 1) / 2 * N(error) + (1 - a)`, where `N` maps the tokens that may leave,
    /// those of all heads together, to 0..=1.
    pub score_share: Option<f32>,
}

/// What a chunk's attention adds to the scores of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// The weights.
    Attention,
    /// The weights times the norms of the values, as shares that sum to the chunk's tokens.
    ByValueNorm,
    /// What [`KvPolicy::score`](super::KvPolicy::score) does, and what it wants to know.
    Custom { value_norms: bool, errors: bool },
}

impl Rule {
    /// The rule for a sequence that opens so: where it protects a segment, its length is found.
    pub fn for_sequence(&self, opening: &Opening<'_>) -> Result<Rule, PolicyError> {
        match self {
            Rule::Recent(rule @ RecentRule { text_segment: Some(segment), .. }) => {
                let protected = segment.protected_tokens(opening, rule.protected_tokens)?;
                let key_positions = rule.key_positions;
                Ok(Rule::Recent(RecentRule { key_positions, ..RecentRule::new(protected) }))
            }
            other => Ok(other.clone()),
        }
    }

    /// Whether protected keys are re-rotated as others leave.
    pub fn rerotates_keys(&self) -> bool {
        matches!(self, Rule::Recent(rule) if rule.key_positions == KeyPositions::InCache)
    }

    pub fn wants_weights(&self) -> bool {
        matches!(self, Rule::Scored(_))
    }

    pub fn wants_value_norms(&self) -> bool {
        let Rule::Scored(rule) = self else { return false };
        match rule.weighting {
            Weighting::Attention => false,
            Weighting::ByValueNorm => true,
            Weighting::Custom { value_norms, .. } => value_norms,
        }
    }

    pub fn wants_errors(&self) -> bool {
        let Rule::Scored(rule) = self else { return false };
        let by_policy = matches!(rule.weighting, Weighting::Custom { errors: true, .. });
        by_policy || rule.score_share.is_some()
    }

    /// First tokens that never leave, and newest that do not leave yet.
    fn held(&self) -> (usize, usize) {
        match self {
            Rule::Keep => (usize::MAX, 0),
            Rule::Recent(rule) => (rule.protected_tokens, 0),
            Rule::Scored(rule) => (rule.protected_tokens, rule.grace_tokens),
        }
    }

    /// Longest chunk, where it is limited.
    fn chunk_tokens_max(&self) -> Option<usize> {
        if let Rule::Scored(rule) = self { rule.chunk_tokens_max } else { None }
    }

    /// Most tokens that a chunk may evict from `slots` full slots.
    pub fn evictable(&self, slots: usize) -> usize {
        let (protected, grace) = self.held();
        let most = self.chunk_tokens_max().unwrap_or(slots);
        slots.saturating_sub(protected.saturating_add(grace)).min(most)
    }

    /// The arguments that keep chunks shorter than the cache, with their values.
    pub(super) fn chunk_limits(&self) -> Vec<String> {
        let (protected, grace) = self.held();
        if let Rule::Recent(RecentRule { text_segment: Some(_), .. }) = self {
            return vec![format!("max_initial_fraction ({protected} tokens)")];
        }
        let held = [("init_grace_tokens", protected), ("grace_period", grace)];
        let held = held.into_iter().filter(|(_, tokens)| *tokens > 0);
        let held = held.map(|(argument, tokens)| format!("{argument} ({tokens})"));
        let longest = self.chunk_tokens_max().map(|tokens| format!("max_chunk_size ({tokens})"));
        held.chain(longest).collect()
    }

    /// Most tokens of the chunk after `seen_tokens`, which is not the first.
    pub(super) fn room(&self, seen_tokens: usize, slots: usize) -> usize {
        let free = slots.saturating_sub(seen_tokens);
        match self {
            Rule::Keep => free,
            Rule::Scored(_) if free > 0 => free,
            Rule::Recent(_) | Rule::Scored(_) => self.evictable(slots),
        }
    }

    /// A rule that can evict nothing would stop at the first token past the cache.
    pub fn checked(self, slots: usize) -> Result<Rule, PolicyError> {
        if let Some(tokens) = self.chunk_tokens_max()
            && !(1..=slots / 2).contains(&tokens)
        {
            return Err(PolicyError::BadArgument {
                argument: "max_chunk_size".into(),
                value: tokens.to_string(),
                wanted: format!("from 1 to {}, half of the {slots} slots", slots / 2),
            });
        }
        if self != Rule::Keep && self.evictable(slots) == 0 {
            let (protected, grace) = self.held();
            return Err(PolicyError::NothingToEvict { slots, protected, grace });
        }
        Ok(self)
    }
}

impl RecentRule {
    /// The first tokens stay, as many as are given.
    pub fn new(protected_tokens: usize) -> Self {
        let key_positions = KeyPositions::InSequence;
        RecentRule { protected_tokens, text_segment: None, key_positions }
    }

    /// The slot of the token at `position`: the first fill the cache in order, later ones go round
    /// behind the protected ones.
    pub fn slot(&self, position: usize, slots: usize) -> usize {
        match position.checked_sub(slots) {
            None => position,
            Some(beyond) => self.protected_tokens + beyond % (slots - self.protected_tokens),
        }
    }

    /// By how many positions the protected keys are re-rotated after `seen_tokens` tokens.
    pub fn rerotated(&self, seen_tokens: usize, slots: usize) -> usize {
        match self.key_positions {
            KeyPositions::InSequence => 0,
            KeyPositions::InCache => seen_tokens.saturating_sub(slots),
        }
    }
}

impl ScoredRule {
    /// Attention's weights, first tokens protected, no grace.
    pub fn new(slots: usize) -> Self {
        ScoredRule {
            protected_tokens: Self::protected_by_default(slots),
            grace_tokens: 0,
            initial_slots: (Self::INITIAL_FRACTION * slots as f64) as usize,
            chunk_tokens_max: None,
            weighting: Weighting::Attention,
            per_age: false,
            score_share: None,
        }
    }

    pub(crate) const INITIAL_FRACTION: f64 = 0.05;

    /// First tokens that a policy protects where nobody says how many: losing them ruins what
    /// follows, for much of attention rests on them whatever they say.
    pub fn protected_by_default(slots: usize) -> usize {
        (slots / 8).clamp(1, 16)
    }

    /// The first slot that leaves when a full cache has no scores yet.
    pub(crate) fn first_initial(&self, chunk_tokens: usize, slots: usize) -> usize {
        self.initial_slots.min(slots - self.grace_tokens - chunk_tokens).max(self.protected_tokens)
    }
}
