//! The statuses that any request with a body may get instead of a response.

use std::collections::BTreeMap;

use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::anthropic;
use crate::api_error::ErrorShape;

pub enum Refusals {}

/// The same, in Anthropic's shape.
pub enum AnthropicRefusals {}

const STATUSES: [(&str, &str); 10] = [
    ("400", "the request is wrong; `message` and `param` say where"),
    ("401", "the key is missing or wrong"),
    ("404", "no such model"),
    ("408", "the request did not come in time"),
    ("413", "the body is too long"),
    ("415", "the body is not sent as JSON, or in an encoding that is not known"),
    ("429", "too many requests wait; `Retry-After` says when to come back"),
    ("500", "a step failed; the server's log says why"),
    ("503", "the engine has stopped, or the server is stopping"),
    ("504", "the response took too long"),
];

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&ErrorShape::name())
    }
}

impl IntoResponses for AnthropicRefusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&anthropic::ErrorShape::name())
    }
}

fn refusals(shape: &str) -> BTreeMap<String, RefOr<Response>> {
    let content = || Content::new(Some(Ref::from_schema_name(shape)));
    let refusal = |(status, when): (&str, &str)| {
        let response = ResponseBuilder::new().description(when);
        let response = response.content("application/json", content()).build();
        (status.to_owned(), RefOr::T(response))
    };
    STATUSES.into_iter().map(refusal).collect()
}
