//! What calls of methods pass on their way: every refusal becomes a status of gRPC.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use tonic::{Code, Status};

use super::inference_calls::HeldReply;
use super::status::{http_status, refusal, status};
use super::timed_body::TimedBody;
use crate::api_error::ApiError;
use crate::app_state::AppState;
use crate::connections::HeldBody;
use crate::fields::body_too_long;
use crate::middleware::LoggedStatus;

/// Of requests and responses.
const CONTENT_TYPE: &str = "application/grpc";

/// Its requests come when the client has some.
const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

pub async fn as_grpc(
    State(state): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    if !is_grpc(request.headers()) {
        return next.run(request).await;
    }
    if request.uri().path() != STREAM {
        let limit = state.config.limits.idle_time;
        request = request.map(|body| Body::new(TimedBody::new(body, limit)));
    }
    let response = next.run(request).await;
    let refused = match response.extensions().get::<ApiError>() {
        Some(error) => Some(refusal(error)),
        None => response.extensions().get::<Status>().map(|it| reworded(it, &state)),
    };
    match refused {
        Some(status) => {
            let shown = LoggedStatus(http_status(status.code()));
            let mut response = status.into_http();
            response.extensions_mut().insert(shown);
            response
        }
        None => held(response),
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(CONTENT_TYPE.as_bytes()))
}

/// tonic has a code of its own for a message that is too long.
fn reworded(found: &Status, state: &AppState) -> Status {
    match found.code() {
        Code::OutOfRange => status(Code::ResourceExhausted, &body_too_long(&state.config.limits)),
        _ => found.clone(),
    }
}

fn held(mut response: Response) -> Response {
    match response.extensions_mut().remove::<HeldReply>() {
        Some(held) => response.map(|body| Body::new(HeldBody::new(body, held))),
        None => response,
    }
}
