//! The plain routes of ColossalAI-Inference's server: `/completion` and `/chat`. Its
//! `/ping` and `/engine_check` are in `status`.
//!
//! The same requests get responses of the same shape. Where that server had a defect, we differ:
//! streams come token by token, options belong to their request, and what we cannot do is refused.

pub mod chat;
pub mod completion;

use crate::api_error::ApiResult;
use crate::fields::Fields;

/// Options of other routes whose results these responses have no field for.
fn refuse_unsupported(fields: &mut Fields) -> ApiResult<()> {
    let reason = "this route's response has no field for it; use /v1/completions";
    fields.refuse("logprobs", reason)?;
    fields.refuse("top_logprobs", reason)?;
    fields.refuse("stream_options", reason)
}
