//! What is said where no route is: to an unknown path, and to a method that a path does not take.

use axum::http::{Method, StatusCode, Uri};

use crate::api_error::ApiError;

pub async fn unknown_path(uri: Uri) -> ApiError {
    // A proxy's request names a host and no path.
    let path = if uri.path().is_empty() { uri.to_string() } else { uri.path().to_owned() };
    let message = format!("nothing is at {path}; GET /docs lists the routes");
    ApiError::unknown_route(StatusCode::NOT_FOUND, message)
}

pub async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("{} does not take {method}; GET /docs lists the routes", uri.path());
    ApiError::unknown_route(StatusCode::METHOD_NOT_ALLOWED, message)
}
