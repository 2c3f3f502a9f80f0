//! The fields of a JSON object as they came, each name once.

use std::fmt;

use axum::http::StatusCode;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::field_limits::MAX_FIELDS;
use crate::api_error::{ApiError, ApiResult};

/// The fields of a JSON object, their values as they came.
pub fn fields_of(json: &RawValue, path: &str) -> ApiResult<Vec<(String, Box<RawValue>)>> {
    let mut deserializer = serde_json::Deserializer::from_str(json.get());
    let read = deserializer.deserialize_map(FieldsVisitor);
    read.map_err(|error| {
        // What the visitor says, without the position that follows it.
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
