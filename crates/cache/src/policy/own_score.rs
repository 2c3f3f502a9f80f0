//! A policy's own score in the words of the CPU's ops.

use std::sync::Arc;

use terrace_kernels::{HeadSlots, SlotScorer};

use super::kv_policy::KvPolicy;
use super::rule::{Rule, ScoredRule, Weighting};

impl Rule {
    /// Whether [`KvPolicy::score`] decides: only the host can run it.
    pub fn has_own_score(&self) -> bool {
        matches!(self, Rule::Scored(ScoredRule { weighting: Weighting::Custom { .. }, .. }))
    }

    /// What ops ask for scores in layers with this rule, which is `policy`'s; `None` where they
    /// know how by themselves.
    pub fn scorer(&self, policy: &Arc<dyn KvPolicy>) -> Option<Arc<dyn SlotScorer>> {
        self.has_own_score().then(|| Arc::new(OwnScore(Arc::clone(policy))) as Arc<dyn SlotScorer>)
    }
}

#[derive(Debug)]
struct OwnScore(Arc<dyn KvPolicy>);

impl SlotScorer for OwnScore {
    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        self.0.score(head, scores);
    }
}
