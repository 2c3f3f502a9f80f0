//! A request about the keys of a table that is named in the path.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};

use super::table_keys::TableKeys;
use super::table_service::FoundTable;
use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::fields::{Fields, JsonRequest};
use crate::language::take_model;
use crate::middleware::RequestLog;

/// Its fields are not all taken yet.
pub struct TableRequest {
    pub state: Arc<AppState>,
    pub log: Arc<RequestLog>,
    pub fields: Fields,
    pub keys: Vec<i64>,
    table: String,
    model: Option<String>,
}

impl FromRequest<Arc<AppState>> for TableRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<AppState>) -> ApiResult<Self> {
        let (mut parts, body) = request.into_parts();
        let not_text = |_| ApiError::invalid("table", "the table in the path is not UTF-8");
        let Path(table) =
            Path::<String>::from_request_parts(&mut parts, state).await.map_err(not_text)?;
        let request = Request::from_parts(parts, body);
        let JsonRequest { state, log, mut fields } =
            JsonRequest::from_request(request, state).await?;
        let TableKeys(keys) = fields.require("keys")?;
        let model = take_model(&mut fields)?;
        Ok(TableRequest { state, log, fields, keys, table, model })
    }
}

/// What is left of a request when its fields are taken: all of it is right.
pub struct KeysOfTable {
    pub state: Arc<AppState>,
    pub log: Arc<RequestLog>,
    pub keys: Vec<i64>,
    pub found: FoundTable,
}

impl TableRequest {
    /// Refuses fields that nobody took, and finds the table.
    pub fn finish(self) -> ApiResult<KeysOfTable> {
        let TableRequest { state, log, fields, keys, table, model } = self;
        fields.finish()?;
        let found = state.services.tables.find(&table, model.as_deref())?;
        log.set_model(&found.model);
        let kind = found.table.spec().key_kind;
        kind.check(&keys).map_err(|error| ApiError::invalid("keys", error.to_string()))?;
        Ok(KeysOfTable { state, log, keys, found })
    }
}
