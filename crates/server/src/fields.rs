//! The fields of a JSON request, taken one by one by name.
//!
//! Reading by name, not by one large struct, gives each complaint its field, and leaves what
//! nobody took. Invariant: a field is taken, refused with a reason, or refused as unknown; an
//! option that changes the answer is never dropped in silence.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::api_error::ApiError;
use crate::state::AppState;

#[derive(Debug)]
pub struct Fields {
    fields: Map<String, Value>,
}

impl Fields {
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let bad = |message| ApiError::bad_body(StatusCode::BAD_REQUEST, message);
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| bad(format!("the body is not valid JSON: {error}")))?;
        match value {
            Value::Object(fields) => Ok(Self { fields }),
            other => Err(bad(format!("the body must be a JSON object, not {}", kind_of(&other)))),
        }
    }

    /// The field's value; `null` is as good as absent.
    pub fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(value) = self.take_value(name) else { return Ok(None) };
        serde_json::from_value(value)
            .map(Some)
            .map_err(|error| ApiError::invalid(name, abbreviated(format!("{name}: {error}"))))
    }

    pub fn take_value(&mut self, name: &str) -> Option<Value> {
        #[cfg(test)]
        tests::TAKEN.with_borrow_mut(|taken| taken.insert(name.to_owned()));
        self.fields.remove(name).filter(|value| !value.is_null())
    }

    /// The one value given under any of several names for the same thing.
    pub fn take_alias<T>(&mut self, names: &[&str]) -> Result<Option<T>, ApiError>
    where
        T: DeserializeOwned + PartialEq,
    {
        let mut found: Option<(&str, T)> = None;
        for name in names {
            let Some(value) = self.take::<T>(name)? else { continue };
            match &found {
                Some((first, other)) if *other != value => {
                    let message = format!("{name} and {first} mean the same but differ");
                    return Err(ApiError::invalid(name, message));
                }
                _ => found = Some((name, value)),
            }
        }
        Ok(found.map(|(_, value)| value))
    }

    /// One text or a list of texts.
    pub fn take_texts(&mut self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        match self.fields.get(name) {
            Some(Value::String(_)) => Ok(self.take(name)?.map(|text| vec![text])),
            _ => self.take(name),
        }
    }

    /// A boolean; `"true"` and `"false"` are taken too, as some older clients send them.
    pub fn take_flag(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.fields.get(name).and_then(Value::as_str) {
            Some("true") => self.fields.insert(name.to_owned(), Value::Bool(true)),
            Some("false") => self.fields.insert(name.to_owned(), Value::Bool(false)),
            _ => None,
        };
        self.take(name)
    }

    /// Refuses the field with a reason, unless its value asks for nothing.
    pub fn refuse(&mut self, name: &str, reason: &str) -> Result<(), ApiError> {
        match self.fields.remove(name) {
            Some(value) if !asks_for_nothing(&value) => {
                Err(ApiError::invalid(name, format!("{name} is not supported: {reason}")))
            }
            _ => Ok(()),
        }
    }

    /// Drops fields that cannot change the answer.
    pub fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.fields.remove(*name);
        }
    }

    /// Refuses what nobody took.
    pub fn finish(self) -> Result<(), ApiError> {
        match self.fields.into_iter().find(|(_, value)| !value.is_null()) {
            Some((name, _)) => Err(ApiError::invalid(&name, format!("unknown field {name:?}"))),
            None => Ok(()),
        }
    }
}

impl FromRequest<Arc<AppState>> for Fields {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &Arc<AppState>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !kind.is_some_and(is_json) {
            let message = "send the body with the header `Content-Type: application/json`";
            return Err(ApiError::bad_body(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        let limits = &state.config.limits;
        let body = timeout(limits.idle_time, Bytes::from_request(request, state)).await;
        let body =
            body.map_err(|_| ApiError::late_body(limits.idle_time))?.map_err(|rejection| {
                let status = rejection.status();
                let message = match status {
                    StatusCode::PAYLOAD_TOO_LARGE => {
                        let limit = limits.body_bytes;
                        format!("the body is longer than {limit} bytes, the server's limit")
                    }
                    _ => rejection.body_text(),
                };
                ApiError::bad_body(status, message)
            })?;
        Self::parse(&body)
    }
}

fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json")
}

fn asks_for_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A message that quotes the client's value, which may be as long as the body.
fn abbreviated(mut message: String) -> String {
    const SHOWN_CHARS: usize = 200;
    if let Some((end, _)) = message.char_indices().nth(SHOWN_CHARS) {
        message.truncate(end);
        message.push('…');
    }
    message
}

#[cfg(test)]
pub mod tests;
