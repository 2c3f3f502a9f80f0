//! `GET /`: what is here, with lines to try.

use axum::response::Html;

pub async fn show() -> Html<&'static str> {
    Html(include_str!("home.html"))
}
