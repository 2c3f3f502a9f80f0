//! `POST /v2/models/{model}/infer`, also with `/versions/{version}` behind the model

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::infer_body::InferBody;
use super::model_path::ModelPath;
use super::reply_body::ReplyBody;
use super::reply_form::ReplyForm;
use crate::api_error::{ApiError, ApiResult, Reply};
use crate::app_state::AppState;
use crate::bounded_work::{off_thread_if_large, within_limits};
use crate::connections::HeldBody;
use crate::docs::{InferBodyShape, InferRefusals, InferReplyShape};
use crate::fields::read_body;
use crate::kserve::inference::{self, Inferred};
use crate::middleware::{Caller, RequestLog};

/// Where the JSON of a body ends that has bytes behind it; of requests and of responses.
const JSON_BYTES: HeaderName = HeaderName::from_static("inference-header-content-length");

/// Runs a model on tensors. Also as `/v2/models/{model}/versions/{version}/infer`.
///
/// The bytes of tensors may stand behind the JSON, one after the other: the header
/// `Inference-Header-Content-Length` then says how long the JSON is, and each such input has the
/// parameter `binary_data_size`. Outputs come in the same way where `binary_data` or
/// `binary_data_output` asks for it.
#[utoipa::path(post, path = "/v2/models/{model}/infer", tag = "Inference",
    operation_id = "infer", request_body = InferBodyShape,
    params(("model" = String, Path, description = "its name")),
    responses((status = 200, description = "the outputs", body = InferReplyShape),
        InferRefusals))]
pub async fn create(
    State(state): State<Arc<AppState>>,
    path: ModelPath,
    request: Request,
) -> Reply {
    let log = request.extensions().get::<Arc<RequestLog>>();
    let log = Arc::clone(log.expect("every request has a log before it reaches a route"));
    let caller = request.extensions().get::<Caller>().copied();
    let caller = caller.expect("every request that passes has one");
    let json_bytes = json_bytes(request.headers())?;
    let body = read_body(request, &state.config.limits).await?;
    let _held = state.memory.for_prompt(body.len()).await?;
    let bytes = json_bytes.unwrap_or(body.len());
    let read = move || Ok(InferBody::parse(&body, json_bytes)?);
    let InferBody { mut request, form, unknown } = off_thread_if_large(bytes, read).await?;
    if state.config.ignore_unknown_fields {
        log.ignored_fields.extend(unknown.into_iter());
    } else if let Some(name) = unknown.first() {
        let message = format!("unknown field {name:?}");
        return Err(ApiError::with_status(StatusCode::BAD_REQUEST, message));
    }
    request.tenant = caller.owner(&state.config.api_keys).unwrap_or_default();
    log.set_model(&path.model);
    let inferring = async {
        let models = &state.services.inference;
        Ok(inference::infer(models, &path.model, &path.version, request).await?)
    };
    let inferred = within_limits(&state, &log, inferring).await?;
    reply(inferred, form).await
}

fn json_bytes(headers: &HeaderMap) -> ApiResult<Option<usize>> {
    let Some(value) = headers.get(JSON_BYTES) else { return Ok(None) };
    match value.to_str().ok().and_then(|text| text.trim().parse().ok()) {
        Some(bytes) => Ok(Some(bytes)),
        None => {
            let message =
                format!("Inference-Header-Content-Length is {value:?}: it must be a whole number");
            Err(ApiError::with_status(StatusCode::BAD_REQUEST, message))
        }
    }
}

async fn reply(mut inferred: Inferred, form: ReplyForm) -> ApiResult<Response> {
    let held = inferred.outputs.held.take();
    let bytes: usize = inferred.outputs.tensors.iter().map(|it| it.data().raw_len()).sum();
    let write = move || Ok(ReplyBody::new(&inferred, &form)?);
    let ReplyBody { bytes, json_bytes } = off_thread_if_large(bytes, write).await?;
    let kind = match json_bytes {
        Some(_) => "application/octet-stream",
        None => "application/json",
    };
    let body = Body::new(HeldBody::new(Body::from(bytes), held));
    let mut response = ([(header::CONTENT_TYPE, kind)], body).into_response();
    if let Some(json_bytes) = json_bytes {
        response.headers_mut().insert(JSON_BYTES, HeaderValue::from(json_bytes));
    }
    Ok(response)
}
