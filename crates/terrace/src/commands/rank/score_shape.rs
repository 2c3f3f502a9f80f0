//! The lines that `terrace rank score` reads and writes.

use serde::{Deserialize, Serialize};
use terrace_engine::rank::{RankOutput, RankRequest};
use terrace_model::hstu::metrics::{sigmoid, softmax};

use super::history_line::HistoryLine;
use super::request_file::{RequestLine, UnknownFields};

/// One request.
#[derive(Debug, Deserialize)]
pub struct ScoreLine {
    #[serde(flatten)]
    history: HistoryLine,
    candidates: Vec<i64>,
    /// Fields that are not known.
    #[serde(flatten)]
    unknown: UnknownFields,
}

impl RequestLine for ScoreLine {
    fn unknown(&self) -> &UnknownFields {
        &self.unknown
    }
}

impl ScoreLine {
    pub fn into_request(self) -> RankRequest {
        self.history.into_request(self.candidates)
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
