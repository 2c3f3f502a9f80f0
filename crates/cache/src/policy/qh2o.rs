//! `qh2o`: heavy hitters, where tokens that the buffer stores badly leave sooner.

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::{PolicyArgs, Rule, ScoredOptions, ScoredRule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "qh2o",
    build: |args| by_rule(options(args)?, |options, slots| Rule::Scored(rule(options, slots))),
};

/// How much of the decision is the score, beside what all policies with scores take.
type Options = (ScoredOptions, f32);

pub(super) fn options(args: &mut PolicyArgs) -> Result<Options, PolicyError> {
    let options = ScoredOptions::take(args)?;
    Ok((options, args.share("combination_constant")?.unwrap_or(0.5) as f32))
}

pub(super) fn rule((options, score_share): &Options, slots: usize) -> ScoredRule {
    ScoredRule { score_share: Some(*score_share), ..options.rule(slots) }
}
