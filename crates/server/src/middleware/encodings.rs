//! Compressed bodies, in gzip and deflate; gRPC compresses its messages itself.
//!
//! Limits count what a body becomes. Streamed responses are never compressed: their
//! tokens must not be held back.

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::middleware::Next;
use axum::response::IntoResponse;
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionLayer, Predicate};
use tower_http::decompression::RequestDecompressionLayer;

use crate::api_error::{ApiError, ApiResult};

const TAKEN: &str = "gzip, deflate";

/// Below this, compressing costs more than it saves.
const COMPRESSED_BYTES_MIN: u64 = 1024;

/// Puts bodies back into what they were; below `check_encoding`.
pub fn decompression() -> RequestDecompressionLayer {
    RequestDecompressionLayer::new()
}

pub fn compression() -> CompressionLayer<IsWorthIt> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(IsWorthIt)
}

/// Refuses encodings that are not known.
pub async fn check_encoding(mut request: Request, next: Next) -> axum::response::Response {
    match encoding(request.headers()) {
        Ok(None) => {}
        Ok(Some(name)) => {
            let name = HeaderValue::from_static(name);
            request.headers_mut().insert(header::CONTENT_ENCODING, name);
        }
        Err(error) => return ([(header::ACCEPT_ENCODING, TAKEN)], error).into_response(),
    }
    next.run(request).await
}

/// The body's encoding by its usual name.
fn encoding(headers: &HeaderMap) -> ApiResult<Option<&'static str>> {
    let mut given = headers.get_all(header::CONTENT_ENCODING).iter();
    let name = match (given.next(), given.next()) {
        (None, _) => return Ok(None),
        (Some(name), None) => name.to_str().unwrap_or_default().trim().to_ascii_lowercase(),
        (Some(_), Some(_)) => "several".to_owned(),
    };
    match name.as_str() {
        "" | "identity" => Ok(Some("identity")),
        "gzip" | "x-gzip" => Ok(Some("gzip")),
        "deflate" => Ok(Some("deflate")),
        other => {
            let message =
                format!("the body's Content-Encoding is {other:.40}; send one of {TAKEN}, or none");
            Err(ApiError::bad_body(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

#[derive(Clone, Copy)]
pub struct IsWorthIt;

impl Predicate for IsWorthIt {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_left = ["image/", "application/grpc"]
            .iter()
            .any(|left| kind.is_some_and(|kind| kind.as_bytes().starts_with(left.as_bytes())));
        let bytes = response.body().size_hint().exact();
        !is_left && bytes.is_some_and(|bytes| bytes >= COMPRESSED_BYTES_MIN)
    }
}
