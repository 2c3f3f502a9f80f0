//! `GET /metrics`

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use prometheus::{TEXT_FORMAT, TextEncoder};
use terrace_embedding::ServedSets;
use terrace_engine::TierReading;

use crate::api_error::{ApiError, Reply};
use crate::app_state::AppState;
use crate::metrics::{
    engine_readings, feed_readings, inference_readings, process_memory, rank_readings,
    table_readings, tier_readings,
};

/// Counters and gauges for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "Service", operation_id = "metrics",
    responses((status = 200, description = "Prometheus' text format", body = String)))]
pub async fn show(State(state): State<Arc<AppState>>) -> Reply {
    let mut families = state.metrics.gather();
    families.extend(engine_readings::gather(state.services.language.models()));
    let mut tiers: Vec<(String, TierReading)> = Vec::new();
    for model in state.services.language.models() {
        let readings = model.engine().tier_readings().into_iter();
        tiers.extend(readings.map(|reading| (model.name().to_owned(), reading)));
    }
    let mut ranking = Vec::new();
    for model in state.services.ranking.models() {
        let stats = model.engine.stats().await?;
        tiers.extend(stats.tiers.iter().map(|reading| (model.name.clone(), reading.clone())));
        ranking.push((model.name.clone(), stats));
    }
    families.extend(rank_readings::gather(&ranking));
    families.extend(tier_readings::gather(&tiers));
    let sets = state.services.tables.sets();
    if !sets.is_empty() {
        families.extend(table_readings::gather(ServedSets(&sets)));
        families.extend(feed_readings::gather(&ServedSets(&sets).consumers()));
    }
    families.extend(inference_readings::gather(&state.services.inference.served("", "")?));
    families.extend(process_memory::gather());
    let text = TextEncoder::new().encode_to_string(&families);
    let text =
        text.map_err(|error| ApiError::internal(format!("cannot write metrics: {error}")))?;
    Ok(([(header::CONTENT_TYPE, TEXT_FORMAT)], text).into_response())
}
