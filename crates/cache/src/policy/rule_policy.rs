//! A policy that is no more than its rule: options, and what follows from them in a layer.

use std::fmt::Debug;
use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::BuiltPolicy;
use super::{KvPolicy, Rule};

#[derive(Debug)]
struct RulePolicy<O> {
    options: O,
    rule: fn(&O, usize) -> Rule,
}

/// `rule` is given the options and the slots of a layer.
pub(super) fn by_rule<O>(options: O, rule: fn(&O, usize) -> Rule) -> BuiltPolicy
where
    O: Debug + Send + Sync + 'static,
{
    Ok(Arc::new(RulePolicy { options, rule }))
}

impl<O: Debug + Send + Sync> KvPolicy for RulePolicy<O> {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        Ok((self.rule)(&self.options, slots))
    }
}
