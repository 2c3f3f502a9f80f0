//! `POST /v1/tables/{table}/prefetch`

use axum::Json;
use axum::http::StatusCode;
use serde::Serialize;
use terrace_embedding::Prefetched;
use utoipa::ToSchema;

use super::table_request::{KeysOfTable, TableRequest};
use crate::api_error::{ApiError, ApiResult};
use crate::bounded_work::off_thread;
use crate::docs::{Refusals, TableKeysBody, TableRefusals};

/// What became of a hint, in the table's hot caches of all devices together.
#[derive(Serialize, ToSchema)]
pub struct PrefetchedRows {
    /// The table, as `MODEL.TABLE`.
    table: String,
    /// Different keys of the request.
    unique_keys: usize,
    /// Rows that are on their way because of it.
    queued_rows: usize,
    /// Rows that were on their way already.
    pending_rows: usize,
    /// Rows that were left out because too many wait; look-ups will fetch them.
    dropped_rows: usize,
}

/// Has rows brought into a table's hot caches, and does not wait for them.
///
/// It is a hint: nothing else changes, and a look-up is right without it.
#[utoipa::path(post, path = "/v1/tables/{table}/prefetch", tag = "Tables",
    operation_id = "prefetchRows", request_body = TableKeysBody,
    params(("table" = String, Path,
        description = "`MODEL.TABLE`, or the table's own name where only one model has it")),
    responses(Refusals, TableRefusals,
        (status = 202, description = "they are on their way", body = PrefetchedRows)))]
pub async fn create(request: TableRequest) -> ApiResult<(StatusCode, Json<PrefetchedRows>)> {
    let KeysOfTable { keys, found, .. } = request.finish()?;
    if found.table.caches().is_empty() {
        return Err(ApiError::no_hot_cache(&found.name));
    }
    let name = found.name.clone();
    // Who drops a set of tables last waits for its threads.
    let prefetched = off_thread(move || {
        let prefetched = found.table.prefetch(&keys);
        prefetched.map_err(|error| ApiError::invalid("keys", error.to_string()))
    });
    let Prefetched { unique, queued, pending, dropped } = prefetched.await?;
    let shape = PrefetchedRows {
        table: name,
        unique_keys: unique,
        queued_rows: queued,
        pending_rows: pending,
        dropped_rows: dropped,
    };
    Ok((StatusCode::ACCEPTED, Json(shape)))
}
