//! `POST /v1/retrieve`

use axum::Json;
use serde::Serialize;
use terrace_engine::rank::{RetrieveRequest, RetrievedItem};
use utoipa::ToSchema;

use super::rank::{HistoryUsage, RankTimes};
use super::rank_fields::{Ids, take_history, user_key};
use crate::api_error::JsonReply;
use crate::docs::{Refusals, RetrieveBody};
use crate::fields::JsonRequest;
use crate::ids;
use crate::language::take_model;

#[derive(Serialize, ToSchema)]
pub struct RetrievedItems {
    /// Names this response and no other.
    id: String,
    /// The model that has retrieved.
    model: String,
    /// Whose history it was.
    user: String,
    /// The best first; fewer than were asked for where the table has no more.
    results: Vec<ItemScore>,
    usage: HistoryUsage,
    times: RankTimes,
}

#[derive(Serialize, ToSchema)]
struct ItemScore {
    /// The item.
    item: i64,
    /// What the query's product with the item is, or their cosine, as the model has it.
    score: f32,
}

/// Items of a request that does not say how many.
const ITEMS: usize = 10;

/// Finds the items that best follow a user's history, among all of the model's: exactly, with seen
/// and blocked ones left out.
///
/// The last item is what is asked about: it is computed in every request and cached with the next.
#[utoipa::path(post, path = "/v1/retrieve", tag = "Recommenders", operation_id = "retrieve",
    request_body = RetrieveBody,
    responses((status = 200, description = "items, the best first", body = RetrievedItems),
        Refusals))]
pub async fn create(
    JsonRequest { state, mut fields, .. }: JsonRequest,
) -> JsonReply<RetrievedItems> {
    let user: String = fields.require("user")?;
    let key = user_key(&state, fields.caller, &user)?;
    let history = take_history(&mut fields, key)?;
    let mut ids = |name: &str| fields.take::<Ids>(name).map(|ids| ids.map(|ids| ids.0));
    let (blocked, times) = (ids("blocked")?.unwrap_or_default(), ids("times")?.unwrap_or_default());
    let request = RetrieveRequest {
        history,
        count: fields.take("count")?.unwrap_or(ITEMS),
        blocked,
        keeps_seen: fields.take("include_seen")?.unwrap_or(false),
        times,
        time: fields.take("time")?,
    };
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.ranking.model(model.as_deref())?;
    let found = model.engine.retrieve(request).await?;
    state.metrics.ranked(&model.name, found.output.times);
    let result = |RetrievedItem { item, score }| ItemScore { item, score };
    Ok(Json(RetrievedItems {
        id: ids::unique("retrieve-"),
        model: model.name.clone(),
        user,
        usage: HistoryUsage::of(&found.output),
        times: RankTimes::of(found.output.times),
        results: found.items.into_iter().map(result).collect(),
    }))
}
