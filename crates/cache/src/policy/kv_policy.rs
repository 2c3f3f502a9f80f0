//! What every policy gives: its rule, and its own score where it has one.

use std::fmt;

use terrace_kernels::HeadSlots;

use super::error::PolicyError;
use super::rule::Rule;

pub trait KvPolicy: fmt::Debug + Send + Sync {
    /// What is done in a layer of `slots` slots.
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError>;

    /// Takes what a chunk attended to into the scores of one head; those with the lowest leave
    /// first. Asked only by a rule with [`Weighting::Custom`](super::Weighting::Custom), for one
    /// head at a time, from several threads; it may depend on nothing but its arguments.
    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        for (score, weight) in scores.iter_mut().zip(head.weights) {
            *score += weight;
        }
    }
}
