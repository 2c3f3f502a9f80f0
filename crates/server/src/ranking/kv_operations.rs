//! `POST /v1/kv_cache/get_user_kvdata_info` and the other operations of the original's manager, by
//! their names.

use std::sync::Arc;

use axum::Json;
use serde::Serialize;
use terrace_engine::rank::UserKey;
use utoipa::ToSchema;

use super::rank::HistoryUsage;
use super::rank_fields::{take_history, user_key};
use super::ranking_service::RankedModel;
use super::users::RemovedUser;
use crate::api_error::{ApiResult, JsonReply};
use crate::app_state::AppState;
use crate::docs::{KvUsersBody, ModelBody, Refusals, UserHistoryBody};
use crate::fields::{Fields, JsonRequest};
use crate::language::take_model;

/// What is cached of users, in the request's order.
#[derive(Serialize, ToSchema)]
pub struct KvDataInfo {
    /// The first position that is on the device; -1 where none is.
    cached_start_positions: Vec<i64>,
    /// Tokens that are cached, on any level.
    cached_lengths: Vec<usize>,
}

#[derive(Serialize, ToSchema)]
pub struct PreparedKvCache {
    /// Of each user, in the request's order.
    usage: Vec<HistoryUsage>,
}

#[derive(Serialize, ToSchema)]
pub struct AppendedKvCache {
    /// Whose it is.
    user: String,
    usage: HistoryUsage,
}

#[derive(Serialize, ToSchema)]
pub struct OffloadedKvCache {
    /// Tokens of each user that are on their way to host memory, in the request's order.
    offloaded_tokens: Vec<usize>,
}

/// First cached position and cached length of users.
#[utoipa::path(post, path = "/v1/kv_cache/get_user_kvdata_info", tag = "Recommenders",
    operation_id = "getUserKvdataInfo", request_body = KvUsersBody,
    responses((status = 200, description = "of each user", body = KvDataInfo), Refusals))]
pub async fn get_user_kvdata_info(
    JsonRequest { state, fields, .. }: JsonRequest,
) -> JsonReply<KvDataInfo> {
    let (model, users) = take_users(&state, fields)?;
    let mut info = KvDataInfo { cached_start_positions: Vec::new(), cached_lengths: Vec::new() };
    for user in users {
        let span = model.engine.span(user).await?;
        let start = span.device_start.map_or(-1, |start| start as i64);
        info.cached_start_positions.push(start);
        info.cached_lengths.push(span.length);
    }
    Ok(Json(info))
}

/// Brings what is cached of users to the device, for requests to come. Nothing is computed unless
/// a level has lost its part.
#[utoipa::path(post, path = "/v1/kv_cache/prepare_kv_cache", tag = "Recommenders",
    operation_id = "prepareKvCache", request_body = KvUsersBody,
    responses((status = 200, description = "of each user", body = PreparedKvCache), Refusals))]
pub async fn prepare_kv_cache(
    JsonRequest { state, fields, .. }: JsonRequest,
) -> JsonReply<PreparedKvCache> {
    let (model, users) = take_users(&state, fields)?;
    let mut prepared = PreparedKvCache { usage: Vec::new() };
    for user in users {
        prepared.usage.push(HistoryUsage::of(&model.engine.prepare(user).await?));
    }
    Ok(Json(prepared))
}

/// Computes what is new of a user's history, and keeps it. Look-up and preparation are one step:
/// nothing comes between them.
#[utoipa::path(post, path = "/v1/kv_cache/append_kvcache", tag = "Recommenders",
    operation_id = "appendKvcache", request_body = UserHistoryBody,
    responses((status = 200, description = "it is cached", body = AppendedKvCache), Refusals))]
pub async fn append_kvcache(
    JsonRequest { state, mut fields, .. }: JsonRequest,
) -> JsonReply<AppendedKvCache> {
    let user: String = fields.require("user")?;
    let key = user_key(&state, fields.caller, &user)?;
    let request = take_history(&mut fields, key)?;
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.ranking.model(model.as_deref())?;
    let output = model.engine.append(request).await?;
    Ok(Json(AppendedKvCache { user, usage: HistoryUsage::of(&output) }))
}

/// Copies what no other level has of users to host memory. Their pages on the device stay.
#[utoipa::path(post, path = "/v1/kv_cache/offload_kv_cache", tag = "Recommenders",
    operation_id = "offloadKvCache", request_body = KvUsersBody,
    responses((status = 200, description = "they are on their way", body = OffloadedKvCache),
        Refusals))]
pub async fn offload_kv_cache(
    JsonRequest { state, fields, .. }: JsonRequest,
) -> JsonReply<OffloadedKvCache> {
    let (model, users) = take_users(&state, fields)?;
    let mut offloaded_tokens = Vec::new();
    for user in users {
        offloaded_tokens.push(model.engine.offload(user).await?);
    }
    Ok(Json(OffloadedKvCache { offloaded_tokens }))
}

/// Removes all users of a model, whoever's they are, from every level.
#[utoipa::path(post, path = "/v1/kv_cache/evict_kv_cache", tag = "Recommenders",
    operation_id = "evictKvCache", request_body = ModelBody,
    responses((status = 200, description = "what went, level by level", body = RemovedUser),
        Refusals))]
pub async fn evict_kv_cache(
    JsonRequest { state, mut fields, .. }: JsonRequest,
) -> JsonReply<RemovedUser> {
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.ranking.model(model.as_deref())?;
    let removed = model.engine.evict_all().await?;
    Ok(Json(RemovedUser::new(&model, None, removed).await?))
}

fn take_users(state: &AppState, mut fields: Fields) -> ApiResult<(Arc<RankedModel>, Vec<UserKey>)> {
    let users: Vec<String> = fields.require("users")?;
    let users = users.iter().map(|user| user_key(state, fields.caller, user));
    let users = users.collect::<Result<_, _>>()?;
    let model = take_model(&mut fields)?;
    fields.finish()?;
    Ok((state.services.ranking.model(model.as_deref())?, users))
}
