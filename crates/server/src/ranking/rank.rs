//! `POST /v1/rank`

use axum::Json;
use serde::Serialize;
use terrace_engine::rank::{RankOutput, StageTimes};
use terrace_model::hstu::metrics::{sigmoid, softmax};
use utoipa::ToSchema;

use super::rank_fields::{Ids, take_history, user_key};
use crate::api_error::JsonReply;
use crate::docs::{RankBody, Refusals};
use crate::fields::JsonRequest;
use crate::ids;
use crate::language::take_model;

#[derive(Serialize, ToSchema)]
pub struct RankedCandidates {
    /// Names this response and no other.
    id: String,
    /// The model that has ranked.
    model: String,
    /// Whose history it was.
    user: String,
    /// In the order of the request.
    results: Vec<CandidateScores>,
    usage: HistoryUsage,
    times: RankTimes,
}

#[derive(Serialize, ToSchema)]
struct CandidateScores {
    /// The candidate.
    item: i64,
    /// What the model's head gives, one for each output.
    logits: Vec<f32>,
    /// Of each task by itself, or of classes that exclude each other, as the model has them.
    probabilities: Vec<f32>,
}

/// Tokens of the history: context, items and actions.
#[derive(Serialize, ToSchema)]
pub struct HistoryUsage {
    /// In all.
    history_tokens: usize,
    /// Those whose keys and values were kept.
    cached_tokens: usize,
    /// Of these, those that came from host memory.
    host_tokens: usize,
    /// Of these, those that came from disk or Redis.
    lower_tokens: usize,
    /// Those that were computed.
    computed_tokens: usize,
    /// Ids that no table had; they have taken its default row.
    unknown_ids: usize,
    /// Whether what was kept was of another history, and was dropped.
    edited: bool,
}

/// How long the request was where, in microseconds.
#[derive(Serialize, ToSchema)]
pub struct RankTimes {
    /// Until nobody else had its user and a step had room.
    queued_us: u64,
    /// Until disk or Redis had given what they have.
    fetched_us: u64,
    /// In steps.
    computed_us: u64,
}

impl HistoryUsage {
    pub fn of(output: &RankOutput) -> Self {
        HistoryUsage {
            history_tokens: output.history_tokens,
            cached_tokens: output.cached_tokens,
            host_tokens: output.host_tokens,
            lower_tokens: output.lower_tokens,
            computed_tokens: output.history_tokens - output.cached_tokens,
            unknown_ids: output.unknown_ids,
            edited: output.was_edited,
        }
    }
}

impl RankTimes {
    pub fn of(times: StageTimes) -> Self {
        let StageTimes { queued_us, fetched_us, computed_us } = times;
        RankTimes { queued_us, fetched_us, computed_us }
    }
}

/// Scores candidates after a user's history. What is cached of the history is not computed again.
#[utoipa::path(post, path = "/v1/rank", tag = "Recommenders", operation_id = "rank",
    request_body = RankBody,
    responses((status = 200, description = "scores, in the request's order",
        body = RankedCandidates), Refusals))]
pub async fn create(
    JsonRequest { state, mut fields, .. }: JsonRequest,
) -> JsonReply<RankedCandidates> {
    let user: String = fields.require("user")?;
    let key = user_key(&state, fields.caller, &user)?;
    let mut request = take_history(&mut fields, key)?;
    request.candidates = fields.require::<Ids>("candidates")?.0;
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.ranking.model(model.as_deref())?;
    let candidates = request.candidates.clone();
    let output = model.engine.rank(request).await?;
    state.metrics.ranked(&model.name, output.times);
    let (usage, times) = (HistoryUsage::of(&output), RankTimes::of(output.times));
    let scores = |(item, logits): (i64, &[f32])| CandidateScores {
        item,
        probabilities: match model.has_classes() {
            true => softmax(logits),
            false => logits.iter().map(|logit| sigmoid(*logit)).collect(),
        },
        logits: logits.to_vec(),
    };
    Ok(Json(RankedCandidates {
        id: ids::unique("rank-"),
        model: model.name.clone(),
        user,
        results: candidates.into_iter().zip(output.candidates()).map(scores).collect(),
        usage,
        times,
    }))
}
