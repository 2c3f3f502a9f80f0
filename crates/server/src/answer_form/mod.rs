//! What an answer must look like: the fields that ask for JSON, an expression, a choice or a
//! grammar.
//!
//! OpenAI's `response_format` with what other servers put into it, and vLLM's `structured_outputs`
//! with its older spelling `guided_*`. A request may say it once, in one of these ways. What is
//! there is taken or refused by its path; nothing is dropped.

mod form_values;
mod response_format;
mod structured_outputs;

use terrace_engine::guidance::{Grammar, GrammarRule};

use crate::api_error::ApiError;
use crate::fields::Fields;

/// The form that was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnswerForm {
    pub grammar: Option<Grammar>,
    /// What is taken otherwise than it is written.
    pub warnings: Vec<String>,
}

pub fn take_grammar(fields: &mut Fields) -> Result<AnswerForm, ApiError> {
    let mut found: Option<Grammar> = None;
    let asked = [
        response_format::take(fields)?,
        structured_outputs::take(fields)?,
        structured_outputs::take_guided(fields, "guided_json", form_values::json_rule)?,
        structured_outputs::take_guided(fields, "guided_regex", form_values::regex_rule)?,
        structured_outputs::take_guided(fields, "guided_choice", form_values::choice_rule)?,
        structured_outputs::take_guided(fields, "guided_grammar", form_values::grammar_rule)?,
    ];
    for grammar in asked.into_iter().flatten() {
        if let Some(first) = &found {
            let (first, second) = (field_of(first), field_of(&grammar));
            let message = format!("{first} and {second} both say what the answer must look like");
            return Err(ApiError::invalid(second, message));
        }
        found = Some(grammar);
    }
    let warnings = found.as_ref().map(|grammar| grammar.rule.warnings()).unwrap_or_default();
    Ok(AnswerForm { grammar: found, warnings })
}

/// The request's own field, of the path at which the grammar stood.
fn field_of(grammar: &Grammar) -> &'static str {
    grammar.option.split('.').next().unwrap_or(grammar.option)
}

fn grammar(option: &'static str, rule: GrammarRule) -> Option<Grammar> {
    Some(Grammar { option, rule })
}

#[cfg(test)]
mod tests;
