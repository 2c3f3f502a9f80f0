//! From a request's body to its fields: read within limits, each name once.

use std::fmt;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::{Fields, MAX_FIELDS};
use crate::api_error::ApiError;
use crate::logging::RequestLog;
use crate::state::AppState;

impl FromRequest<Arc<AppState>> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<AppState>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(is_json) {
            let message = "send the body with the header `Content-Type: application/json`";
            return Err(ApiError::bad_body(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let limits = &state.config.limits;
        let log = request.extensions().get::<Arc<RequestLog>>().cloned();
        let body = timeout(limits.idle_time, Bytes::from_request(request, state)).await;
        let body =
            body.map_err(|_| ApiError::late_body(limits.idle_time))?.map_err(|rejection| {
                let status = rejection.status();
                let message = match status {
                    StatusCode::PAYLOAD_TOO_LARGE => {
                        let limit = limits.body_bytes;
                        format!("the body is longer than {limit} bytes, the server's limit")
                    }
                    _ => "the body could not be read to its end: it is cut off, or not what its \
                          Content-Encoding says"
                        .to_owned(),
                };
                ApiError::bad_body(status, message)
            })?;
        let ignored = log.filter(|_| state.config.ignore_unknown_fields);
        Ok(Self { ignored, max_choices: limits.choices, ..Self::parse(&body)? })
    }
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

/// The fields of a JSON object, their values as they came.
pub fn fields_of(json: &RawValue, path: &str) -> Result<Vec<(String, Box<RawValue>)>, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_str(json.get());
    let read = deserializer.deserialize_map(FieldsVisitor);
    read.map_err(|error| {
        // What the visitor says, without the place that follows it.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        match path.is_empty() {
            true => ApiError::bad_body(StatusCode::BAD_REQUEST, format!("the body: {message}")),
            false => ApiError::invalid(path, format!("{path}: {message}")),
        }
    })
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Self::Value = Vec::new();
        while let Some((name, json)) = map.next_entry::<String, Box<RawValue>>()? {
            if fields.len() == MAX_FIELDS {
                return Err(serde::de::Error::custom(format!(
                    "there are more than {MAX_FIELDS} fields"
                )));
            }
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(serde::de::Error::custom(format!("{name:?} is given twice")));
            }
            fields.push((name, json));
        }
        Ok(fields)
    }
}
