//! What an output must look like: the fields that ask for JSON, an expression, a choice or a
//! grammar.
//!
//! OpenAI's `response_format` with what other servers put into it, vLLM's `structured_outputs` with
//! its older spelling `guided_*`, and llama.cpp's `grammar` and `json_schema`. A request may say it
//! once, in one of these ways. What is there is taken or refused by its path; nothing is dropped.

mod response_format;
mod rules;
mod structured_outputs;

use terrace_engine::guidance::Grammar;

use crate::api_error::{ApiError, ApiResult};
use crate::fields::Fields;

pub fn take_grammar(fields: &mut Fields) -> ApiResult<Option<Grammar>> {
    let mut found: Option<Grammar> = None;
    let requested = [
        response_format::take(fields)?,
        structured_outputs::take(fields)?,
        rules::take_json(fields, "json_schema", "json_schema")?,
        rules::take_grammar(fields, "grammar", "grammar")?,
        rules::take_json(fields, "guided_json", "guided_json")?,
        rules::take_regex(fields, "guided_regex", "guided_regex")?,
        rules::take_choice(fields, "guided_choice", "guided_choice")?,
        rules::take_grammar(fields, "guided_grammar", "guided_grammar")?,
    ];
    for grammar in requested.into_iter().flatten() {
        if let Some(first) = &found {
            let (first, second) = (field_of(first), field_of(&grammar));
            let message = format!("{first} and {second} both say what the output must look like");
            return Err(ApiError::invalid(second, message));
        }
        found = Some(grammar);
    }
    Ok(found)
}

/// The request's own field, of the path at which the grammar stood.
fn field_of(grammar: &Grammar) -> &'static str {
    grammar.option.split('.').next().unwrap_or(grammar.option)
}

#[cfg(test)]
mod tests;
