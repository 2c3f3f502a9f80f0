//! What a route with a JSON body takes.

use std::sync::Arc;

use axum::extract::{FromRequest, Request};

use super::Fields;
use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::middleware::RequestLog;

pub struct JsonRequest {
    pub state: Arc<AppState>,
    pub log: Arc<RequestLog>,
    pub fields: Fields,
}

impl FromRequest<Arc<AppState>> for JsonRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<AppState>) -> ApiResult<Self> {
        let log = request.extensions().get::<Arc<RequestLog>>();
        let log = Arc::clone(log.expect("every request has a log before it reaches a route"));
        let fields = Fields::from_request(request, state).await?;
        Ok(Self { state: Arc::clone(state), log, fields })
    }
}
