//! vLLM's `structured_outputs`, which has exactly one of its kinds.

use terrace_engine::guidance::{Grammar, GrammarRule};

use super::rules::{Take, take_choice, take_grammar, take_json, take_regex};
use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

const FIELD: &str = "structured_outputs";

const KINDS: [(&str, &str, Take); 5] = [
    ("json", "structured_outputs.json", take_json),
    ("json_object", "structured_outputs.json_object", take_json_object),
    ("regex", "structured_outputs.regex", take_regex),
    ("choice", "structured_outputs.choice", take_choice),
    ("grammar", "structured_outputs.grammar", take_grammar),
];

pub fn take(fields: &mut Fields) -> ApiResult<Option<Grammar>> {
    let Some(mut object) = fields.take_object(FIELD)? else { return Ok(None) };
    let kinds = KINDS.map(|(name, path, take)| take(&mut object, name, path));
    let found: Vec<_> =
        kinds.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    object.finish()?;
    match <[Grammar; 1]>::try_from(found) {
        Ok([grammar]) => Ok(Some(grammar)),
        Err(_) => {
            let message = "structured_outputs must have one of json, json_object, regex, choice \
                           and grammar";
            Err(ApiError::invalid(FIELD, message))
        }
    }
}

/// A flag; `false` means no grammar.
fn take_json_object(
    fields: &mut Fields,
    name: &str,
    path: &'static str,
) -> ApiResult<Option<Grammar>> {
    let is_requested = fields.take(name)?.unwrap_or(false);
    Ok(is_requested.then(|| Grammar { option: path, rule: GrammarRule::json_object() }))
}
