//! `POST /v1/rank/reload`

use std::sync::Arc;

use axum::Json;
use serde::Serialize;
use terrace_engine::rank::{ModelChange, Reloaded};
use terrace_model::hstu::HstuFiles;
use utoipa::ToSchema;

use super::ranking_service::RankedModel;
use crate::api_error::{ApiError, JsonReply};
use crate::docs::{ModelBody, Refusals};
use crate::fields::JsonRequest;
use crate::language::take_model;

#[derive(Serialize, ToSchema)]
pub struct ReloadedModel {
    /// The model.
    model: String,
    /// What was another: `layers` (nothing that was cached is found any more), `tables` (the
    /// embedding tables alone: what is cached stays usable), or `nothing`.
    changed: &'static str,
    /// Of the embedding tables; rises with each version that is loaded.
    generation: u32,
    /// Users whose histories are being computed again, the most recently used first.
    rewarmed_users: usize,
}

/// Serves the checkpoint that is in a model's folder now, without an interruption.
///
/// It is loaded beside the one that is served; requests under way end with that one, those that
/// come later are the new one's. After an error the one before is served still.
#[utoipa::path(post, path = "/v1/rank/reload", tag = "Recommenders", operation_id = "reloadModel",
    request_body = ModelBody,
    responses((status = 200, description = "it is served", body = ReloadedModel), Refusals))]
pub async fn create(
    JsonRequest { state, mut fields, .. }: JsonRequest,
) -> JsonReply<ReloadedModel> {
    let model = take_model(&mut fields)?;
    fields.finish()?;
    let model = state.services.ranking.model(model.as_deref())?;
    let loading = Arc::clone(&model);
    let reloaded = tokio::task::spawn_blocking(move || reload(&loading)).await;
    let reloaded = reloaded.map_err(|_| ApiError::internal("loading has failed"))?;
    let reloaded = reloaded.map_err(|message| ApiError::invalid("model", message))?;
    let Reloaded { change, generation, to_rewarm } = reloaded;
    let rewarmed_users = to_rewarm.len();
    let (engine, name) = (model.engine.clone(), model.name.clone());
    tokio::spawn(async move {
        match engine.rewarm(to_rewarm).await {
            Ok(users) => tracing::info!(model = name, users, "histories are computed again"),
            Err(error) => tracing::warn!(model = name, %error, "histories are not computed again"),
        }
    });
    let changed = match change {
        ModelChange::None => "nothing",
        ModelChange::Tables => "tables",
        ModelChange::Layers => "layers",
    };
    let model = model.name.clone();
    Ok(Json(ReloadedModel { model, changed, generation, rewarmed_users }))
}

fn reload(model: &RankedModel) -> Result<Reloaded, String> {
    let files = HstuFiles::open(&model.folder);
    let mut files = files.map_err(|error| error.to_string())?;
    files.hash_store = model.hash_store.clone();
    model.engine.reload(&files).map_err(|error| error.to_string())
}
