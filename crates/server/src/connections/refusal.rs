//! What a client is answered whose request hyper cannot read: the same error as everywhere.

use std::time::Duration;

use axum::http::StatusCode;

use crate::api_error::ApiError;
use crate::ids;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX, URI_BYTES_MAX};

/// Why a connection ended with `error`, as reported to the client; `None` where nobody waits for an
/// response. `unread` is what came of the request's head, and `idle` the time it had to come.
pub fn refusal(error: &hyper::Error, unread: &[u8], idle: Duration) -> Option<ApiError> {
    let has_begun = !unread.is_empty();
    let (status, message) = if error.is_parse_version_h2() || is_version(error) {
        let message = "this port speaks HTTP/1.1, HTTP/1.0 and HTTP/2";
        (StatusCode::HTTP_VERSION_NOT_SUPPORTED, message.to_owned())
    } else if error.is_parse_too_large() {
        too_large(unread)
    } else if error.is_parse() {
        let message = format!("the head of the request cannot be read: {error}");
        (StatusCode::BAD_REQUEST, message)
    } else if error.is_timeout() && has_begun {
        let message =
            format!("the head of the request did not come within {} s", idle.as_secs_f32());
        (StatusCode::REQUEST_TIMEOUT, message)
    } else if error.is_incomplete_message() && has_begun {
        let message = "the connection was closed before the head of the request was complete";
        (StatusCode::BAD_REQUEST, message.to_owned())
    } else {
        return None;
    };
    Some(ApiError::bad_request(status, message))
}

/// The whole response, after which the connection is closed.
pub fn response(error: &ApiError) -> String {
    let (status, body) = (error.status(), error.to_json());
    let id = ids::unique("req-");
    tracing::debug!(id, status = status.as_u16(), "a request could not be read: {body}");
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// hyper has no other way to say this.
fn is_version(error: &hyper::Error) -> bool {
    error.to_string() == "invalid HTTP version parsed"
}

fn too_large(unread: &[u8]) -> (StatusCode, String) {
    let mut lines = unread.split(|&byte| byte == b'\n');
    if lines.next().is_some_and(|line| line.len() > URI_BYTES_MAX) {
        (StatusCode::URI_TOO_LONG, uri_too_long())
    } else if unread.len() >= HEAD_BYTES_MAX {
        let message =
            format!("the head of the request is longer than {HEAD_BYTES_MAX} bytes, the limit");
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
    } else if lines.count() > HEADERS_MAX {
        let message = format!("the request has more than {HEADERS_MAX} headers, the limit");
        (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
    } else {
        let message = "the request's Content-Length is more than any body has";
        (StatusCode::PAYLOAD_TOO_LARGE, message.to_owned())
    }
}

pub fn uri_too_long() -> String {
    format!("the request's address is longer than {URI_BYTES_MAX} bytes, the limit")
}
