//! The history and the candidates of a request, from its fields.

use serde_json::value::RawValue;
use terrace_engine::rank::{RankError, RankRequest, UserKey};

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::fields::{FieldValue, Fields, check_items};
use crate::middleware::Caller;

/// Ids, of which there may be a million in a list.
pub struct Ids(pub Vec<i64>);

impl FieldValue for Ids {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        check_items(json, path, MOST_IDS)?;
        serde_json::from_str(json.get()).map(Ids).map_err(|error| {
            let column = error.column();
            let message =
                format!("{path} must be a list of whole numbers; character {column} is wrong");
            ApiError::invalid(path, message)
        })
    }
}

/// The model says less, with its own number.
const MOST_IDS: usize = 1 << 24;

/// Bytes of a user's name.
const NAME_BYTES: usize = 512;

/// A user of the caller's.
pub fn user_key(state: &AppState, caller: Caller, user: &str) -> ApiResult<UserKey> {
    if user.is_empty() || NAME_BYTES < user.len() {
        let message = format!("user has {} bytes; 1 to {NAME_BYTES} name one", user.len());
        return Err(ApiError::invalid("user", message));
    }
    let tenant = caller.owner(&state.config.api_keys).unwrap_or_default();
    Ok(UserKey::new(&tenant, user))
}

/// Takes the fields of a history.
pub fn take_history(fields: &mut Fields, user: UserKey) -> ApiResult<RankRequest> {
    let mut ids = |name: &str| -> ApiResult<Vec<i64>> {
        Ok(fields.take::<Ids>(name)?.map(|ids| ids.0).unwrap_or_default())
    };
    Ok(RankRequest {
        user,
        context: ids("context")?,
        items: ids("items")?,
        actions: ids("actions")?,
        candidates: Vec::new(),
        start: fields.take("start")?,
        priority: fields.take("priority")?.unwrap_or(0),
        strict: fields.take("strict")?.unwrap_or(false),
        timeout_ms: fields.take::<usize>("timeout_ms")?.map(|ms| ms as u64),
    })
}

impl From<RankError> for ApiError {
    fn from(error: RankError) -> Self {
        let message = error.to_string();
        let param = match &error {
            RankError::Context { .. } => "context",
            RankError::Actions { .. } | RankError::NoActions { .. } => "actions",
            RankError::TooManyCandidates { .. } | RankError::NoCandidates => "candidates",
            RankError::NegativeId { .. } | RankError::UnknownId { .. } => "items",
            RankError::WrongId { .. } => "items",
            RankError::TooLong { .. } | RankError::TooLarge { .. } => "items",
            RankError::Retrieves | RankError::Ranks | RankError::NeedsTimes => "model",
            RankError::ItemCount { .. } => "count",
            RankError::NoItems => "items",
            RankError::TooManyExcluded { .. } => "blocked",
            RankError::Times { .. } | RankError::NoTimes { .. } => "times",
            RankError::Span(_) => return ApiError::other_history(message),
            RankError::Outdated | RankError::RowsMissing => return ApiError::full(message),
            RankError::Unanswered { .. } => return ApiError::rows_unanswered(message),
            RankError::Busy { .. } => return ApiError::full(message),
            RankError::Late { .. } => return ApiError::deadline_passed(message),
            RankError::Failed(_) => return ApiError::internal(message),
            RankError::Stopped => return ApiError::stopping(),
        };
        ApiError::invalid(param, message)
    }
}
