//! `GET /`: what is here, with lines to try.

use axum::response::Html;

/// What is here, with lines to try.
#[utoipa::path(get, path = "/", tag = "Service", operation_id = "index",
    responses((status = 200, description = "a page", body = String, content_type = "text/html")))]
pub async fn show() -> Html<&'static str> {
    Html(include_str!("index.html"))
}
