//! How long a request may take.

use std::pin::Pin;
use std::time::Instant;

use tokio::time::Sleep;

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::limits::Limits;
use crate::middleware::RequestLog;

/// When the request must have ended.
pub struct TimeLimit {
    sleep: Pin<Box<Sleep>>,
    seconds: u64,
}

impl TimeLimit {
    pub fn new(limits: &Limits, started: Instant) -> Option<Self> {
        let deadline = started + limits.request_time()?;
        let sleep = Box::pin(tokio::time::sleep_until(deadline.into()));
        Some(Self { sleep, seconds: limits.request_seconds })
    }

    /// Waits for the end of the time; for ever, if there is no limit.
    pub async fn reached(limit: &mut Option<Self>) -> ApiError {
        match limit {
            Some(limit) => {
                limit.sleep.as_mut().await;
                ApiError::timed_out(limit.seconds)
            }
            None => std::future::pending().await,
        }
    }
}

/// Work on a request that ends when its time is over, or when the server stops.
pub async fn within_limits<T>(
    state: &AppState,
    log: &RequestLog,
    work: impl Future<Output = ApiResult<T>>,
) -> ApiResult<T> {
    within_time(state, log.started, work).await
}

/// The same of work that began later than its request.
pub async fn within_time<T>(
    state: &AppState,
    started: Instant,
    work: impl Future<Output = ApiResult<T>>,
) -> ApiResult<T> {
    let mut cancel = state.cancel.clone();
    let mut time_limit = TimeLimit::new(&state.config.limits, started);
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ApiError::stopping()),
        error = TimeLimit::reached(&mut time_limit) => Err(error),
        done = work => done,
    }
}
