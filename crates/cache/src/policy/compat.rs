//! Other programs whose numbers can be reproduced, defects and all.
//!
//! What they do that only makes sense for a fixed batch, or is wrong, lives in
//! [`FixedBatchCache`](crate::reference::FixedBatchCache): slow, and for comparison alone.

use super::error::PolicyError;
use super::policy_args::ArgValue;
use super::rule::{KeyPositions, Rule, ScoredRule, Weighting};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// awslabs/keys_values.
    KeysValues,
}

/// Its scores are sums, and the newest tokens may leave at once.
const KEYS_VALUES_DEFAULTS: [(&str, ArgValue); 2] =
    [("grace_period", ArgValue::Number(0.0)), ("normalize_scores", ArgValue::Flag(false))];

impl Compat {
    pub fn named(name: &str) -> Result<Compat, PolicyError> {
        if name == "keys_values" {
            return Ok(Compat::KeysValues);
        }
        Err(PolicyError::BadArgument {
            argument: "compat".into(),
            value: format!("{name:?}"),
            wanted: "left out, or \"keys_values\"".into(),
        })
    }

    /// What the original takes for arguments that nobody gives, where ours takes something else.
    pub(crate) fn defaults(self) -> &'static [(&'static str, ArgValue)] {
        &KEYS_VALUES_DEFAULTS
    }

    /// Whether the original has anything like it.
    pub(crate) fn knows(rule: &Rule) -> bool {
        match rule {
            Rule::Keep => true,
            Rule::Recent(rule) => rule.key_positions == KeyPositions::InSequence,
            Rule::Scored(rule) => !matches!(rule.weighting, Weighting::Custom { .. }),
        }
    }

    /// There, scores protect no first tokens, where errors count norms of values do not, and chunks
    /// are not limited to more than half of the slots.
    pub(crate) fn rule(self, rule: Rule, slots: usize) -> Rule {
        match rule {
            Rule::Scored(scored) => Rule::Scored(ScoredRule {
                protected_tokens: 0,
                chunk_tokens_max: scored.chunk_tokens_max.filter(|most| *most <= slots / 2),
                weighting: match scored.score_share {
                    Some(_) => Weighting::Attention,
                    None => scored.weighting,
                },
                ..scored
            }),
            other => other,
        }
    }
}
