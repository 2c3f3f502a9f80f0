//! The statuses that a request may get instead of a response.

use std::collections::BTreeMap;

use utoipa::openapi::{Content, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::anthropic;
use crate::api_error::ErrorShape;
use crate::kserve::InferErrorShape;

/// Those of any request with a body.
pub enum Refusals {}

/// The same, in Anthropic's shape.
pub enum AnthropicRefusals {}

/// Those of the inference protocol, in its shape.
pub enum InferRefusals {}

pub enum UnknownParameter {}
pub enum UnknownModel {}
pub enum UnknownResponse {}
pub enum UnknownHandle {}
/// Of requests that make, change or import a handle.
pub enum HandleRefusals {}
pub enum UnknownSession {}
/// Of requests that need a hot cache.
pub enum TableRefusals {}

const STATUSES: [(&str, &str); 11] = [
    ("400", "the request is wrong; `message` and `param` say where"),
    ("401", "the key is missing or wrong"),
    ("404", "no such model"),
    ("408", "the request did not come in time"),
    ("409", "the prompt does not begin as the handle that it goes on from"),
    ("413", "the body is too long"),
    ("415", "the body is not sent as JSON, or in an encoding that is not known"),
    ("429", "too many requests wait; `Retry-After` says when to come back"),
    ("500", "a step failed; the server's log says why"),
    ("503", "the engine has stopped, or the server is stopping"),
    ("504", "the response took too long"),
];

const INFER_STATUSES: [(&str, &str); 9] = [
    ("400", "the request is wrong; `error` says where"),
    ("401", "the key is missing or wrong"),
    ("404", "no such model, version or region"),
    ("408", "the request did not come in time"),
    ("413", "the body is too long"),
    ("500", "the model has failed; the server's log says why"),
    ("501", "known to the protocol, and not to this server"),
    ("503", "the model is not ready, or too many requests wait"),
    ("504", "the response took too long"),
];

/// Implements `IntoResponses` for a type: these statuses, with errors of this shape.
macro_rules! refusals {
    ($type:ident, $shape:ty, $statuses:expr) => {
        impl IntoResponses for $type {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                refusals(&<$shape>::name(), &$statuses)
            }
        }
    };
}

refusals!(Refusals, ErrorShape<'_>, STATUSES);
refusals!(AnthropicRefusals, anthropic::ErrorShape<'_>, STATUSES);
refusals!(InferRefusals, InferErrorShape<'_>, INFER_STATUSES);
refusals!(UnknownParameter, ErrorShape<'_>, [("400", "an unknown parameter")]);
refusals!(UnknownModel, ErrorShape<'_>, [("404", "no such model")]);
refusals!(UnknownResponse, ErrorShape<'_>, [("404", "no such response, or no longer")]);
refusals!(UnknownHandle, ErrorShape<'_>, [("404", "no such handle of this caller")]);
refusals!(
    HandleRefusals,
    ErrorShape<'_>,
    [
        ("404", "no such model, handle or response"),
        ("409", "it does not fit what is here: another model, a name in use, no budget for a pin"),
        ("507", "no room for it; `message` has the numbers"),
    ]
);
refusals!(
    TableRefusals,
    ErrorShape<'_>,
    [("404", "no such table"), ("409", "the table has no hot cache")]
);
refusals!(UnknownSession, ErrorShape<'_>, [("404", "no such session of this key")]);

fn refusals(shape: &str, statuses: &[(&str, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let content = || Content::new(Some(Ref::from_schema_name(shape)));
    let refusal = |(status, when): &(&str, &str)| {
        let response = ResponseBuilder::new().description(*when);
        let response = response.content("application/json", content()).build();
        ((*status).to_owned(), RefOr::T(response))
    };
    statuses.iter().map(refusal).collect()
}
