//! Other programs whose numbers can be reproduced, defects and all.
//!
//! What they do that only makes sense for a fixed batch, or is wrong, lives in
//! [`FixedBatchCache`](crate::reference::FixedBatchCache): slow, and for comparison alone.

use super::error::PolicyError;
use super::rule::{KeyPositions, Rule, ScoredRule, Weighting};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// awslabs/keys_values.
    KeysValues,
}

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

    /// Whether the original has anything like it.
    pub(crate) fn knows(rule: &Rule) -> bool {
        match rule {
            Rule::Keep => true,
            Rule::Recent(rule) => rule.key_positions == KeyPositions::InSequence,
            Rule::Scored(rule) => rule.weighting != Weighting::Custom,
        }
    }

    /// There, scores protect no first tokens, and where errors count norms of values do not.
    pub(crate) fn rule(self, rule: Rule) -> Rule {
        match rule {
            Rule::Scored(scored) => Rule::Scored(ScoredRule {
                protected_tokens: 0,
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
