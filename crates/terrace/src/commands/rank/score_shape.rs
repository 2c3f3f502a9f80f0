//! The lines that `terrace rank score` reads and writes.

use serde::{Deserialize, Serialize};
use terrace_engine::rank::{RankOutput, RankRequest, UserKey};
use terrace_model::hstu::metrics::{sigmoid, softmax};

/// One request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreLine {
    user: String,
    #[serde(default)]
    tenant: String,
    #[serde(default)]
    context: Vec<i64>,
    items: Vec<i64>,
    #[serde(default)]
    actions: Vec<i64>,
    candidates: Vec<i64>,
    #[serde(default)]
    start: Option<usize>,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    strict: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

impl ScoreLine {
    pub fn into_request(self) -> RankRequest {
        RankRequest {
            user: UserKey::new(&self.tenant, &self.user),
            context: self.context,
            items: self.items,
            actions: self.actions,
            candidates: self.candidates,
            start: self.start,
            priority: self.priority,
            strict: self.strict,
            timeout_ms: self.timeout_ms,
        }
    }
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct ScoredLine {
    pub user: String,
    pub scores: Vec<CandidateScore>,
    pub history_tokens: usize,
    pub cached_tokens: usize,
    pub unknown_ids: usize,
}

#[derive(Debug, Serialize)]
pub struct CandidateScore {
    pub candidate: i64,
    pub logits: Vec<f32>,
    /// Of each task, or of each class.
    pub probabilities: Vec<f32>,
}

impl ScoredLine {
    /// `is_classes`: the outputs exclude each other.
    pub fn new(request: &RankRequest, output: RankOutput, is_classes: bool) -> Self {
        let score = |(candidate, logits): (&i64, &[f32])| CandidateScore {
            candidate: *candidate,
            probabilities: if is_classes { softmax(logits) } else { sigmoids(logits) },
            logits: logits.to_vec(),
        };
        ScoredLine {
            user: request.user.user.to_string(),
            scores: request.candidates.iter().zip(output.candidates()).map(score).collect(),
            history_tokens: output.history_tokens,
            cached_tokens: output.cached_tokens,
            unknown_ids: output.unknown_ids,
        }
    }
}

fn sigmoids(logits: &[f32]) -> Vec<f32> {
    logits.iter().map(|logit| sigmoid(*logit)).collect()
}
