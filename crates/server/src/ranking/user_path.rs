//! A request about the user whose name is in the path.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use terrace_engine::rank::UserKey;

use super::rank_fields::user_key;
use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::middleware::Caller;

pub struct UserPath {
    pub state: Arc<AppState>,
    pub user: String,
    pub key: UserKey,
}

impl FromRequestParts<Arc<AppState>> for UserPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<AppState>) -> ApiResult<Self> {
        let not_text = |_| ApiError::invalid("user", "the user in the path is not UTF-8");
        let Path(user) =
            Path::<String>::from_request_parts(parts, state).await.map_err(not_text)?;
        let caller = parts.extensions.get::<Caller>().expect("every request that passes has one");
        let key = user_key(state, *caller, &user)?;
        Ok(UserPath { state: Arc::clone(state), user, key })
    }
}
