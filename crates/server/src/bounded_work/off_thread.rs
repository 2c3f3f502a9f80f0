//! Work that blocks, on a thread where it cannot hold up other requests.

use crate::api_error::{ApiError, ApiResult};

/// Runs tokenising, templating and the like.
pub async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!("work on a request failed: {error}");
            Err(ApiError::internal("the request could not be prepared; the server's log says why"))
        }
    }
}

/// Longer bodies take longer to read or write than it takes to change threads.
const SHORT_BYTES: usize = 64 << 10;

/// Runs work on so many bytes: here where they are few, else as [`off_thread`].
pub async fn off_thread_if_large<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    match bytes <= SHORT_BYTES {
        true => work(),
        false => off_thread(work).await,
    }
}
