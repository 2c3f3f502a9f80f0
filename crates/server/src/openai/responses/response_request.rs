//! From the request's fields to what is done.

use terrace_model::RenderOptions;

use crate::api_error::{ApiError, ApiResult};
use crate::chat::{take_effort, take_render_options};
use crate::fields::Fields;
use crate::language::RequestOptions;
use crate::openai::responses::input::{InputEntry, take_input};
use crate::openai::responses::request_echo::{ReasoningConfig, RequestEcho, take_metadata};
use crate::openai::responses::response_tools::ResponseTools;
use crate::openai::responses::text_format::TextConfig;
use crate::tools::ToolOffer;

#[derive(Debug)]
pub struct ResponseRequest {
    pub input: Vec<InputEntry>,
    pub render: RenderOptions,
    pub offer: Option<ToolOffer>,
    pub options: RequestOptions,
    pub echo: RequestEcho,
    pub is_streamed: bool,
}

impl ResponseRequest {
    pub fn take(mut body: Fields) -> ApiResult<Self> {
        let fields = &mut body;
        let input = take_input(fields)?;
        let tools = ResponseTools::take(fields)?;
        let text = TextConfig::take(fields)?;
        let mut render = take_render_options(fields)?;
        let reasoning = take_reasoning(fields, &mut render)?;
        let logprobs = take_logprobs(fields)?;
        let max_output_tokens = fields.take("max_output_tokens")?;
        let is_streamed = take_stream(fields)?;
        refuse_unsupported(fields)?;
        let mut echo = RequestEcho {
            background: false,
            instructions: fields.take("instructions")?,
            max_output_tokens,
            max_tool_calls: fields.take("max_tool_calls")?,
            metadata: take_metadata(fields)?,
            parallel_tool_calls: tools.is_parallel,
            previous_response_id: fields.take("previous_response_id")?,
            prompt_cache_key: None,
            reasoning,
            safety_identifier: fields.take("safety_identifier")?,
            service_tier: "default",
            store: fields.take("store")?.unwrap_or(true),
            temperature: None,
            text,
            tool_choice: tools.choice,
            tools: tools.tools,
            top_logprobs: logprobs.unwrap_or(0),
            top_p: None,
            truncation: "disabled",
            user: fields.take("user")?,
        };
        let mut options = RequestOptions::take(fields)?;
        options.generation.logprobs = logprobs;
        check_choices(&options)?;
        set_length(&mut options, &mut echo)?;
        set_grammar(&mut options, &echo.text)?;
        let session = options.retention.session.as_ref();
        echo.prompt_cache_key = session.map(|session| session.id.clone());
        echo.temperature = options.generation.temperature;
        echo.top_p = options.generation.top_p;
        body.finish()?;
        Ok(Self { input, render, offer: tools.offer, options, echo, is_streamed })
    }
}

fn take_reasoning(fields: &mut Fields, render: &mut RenderOptions) -> ApiResult<ReasoningConfig> {
    let Some(mut reasoning) = fields.take_object("reasoning")? else {
        return Ok(ReasoningConfig::default());
    };
    let effort = take_effort(&mut reasoning, "effort")?;
    if let Some(effort) = &effort {
        let given = render.extra.entry("reasoning_effort").or_insert(effort.as_str().into());
        if *given != effort.as_str() {
            let message = format!("reasoning.effort is {effort:?} and reasoning_effort {given}");
            return Err(ApiError::invalid("reasoning.effort", message));
        }
    }
    let summary = reasoning.take("summary")?;
    // The older name of `summary`.
    reasoning.ignore(&["generate_summary"]);
    reasoning.finish()?;
    Ok(ReasoningConfig { effort, summary })
}

const LOGPROBS: &str = "message.output_text.logprobs";

/// What else may be included is of tools that are not run here, of images, or encrypted: it never
/// comes, so asking for it asks for nothing.
const NEVER_THERE: [&str; 7] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// How many of the best tokens to report at each position, if any are requested.
fn take_logprobs(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let top: Option<usize> = fields.take("top_logprobs")?;
    let included = fields.take::<Vec<String>>("include")?.unwrap_or_default();
    let unknown = |name: &&String| *name != LOGPROBS && !NEVER_THERE.contains(&name.as_str());
    if let Some(name) = included.iter().find(unknown) {
        return Err(ApiError::invalid("include", format!("include: {name:?} is not known")));
    }
    let is_requested =
        included.iter().any(|name| name == LOGPROBS) || top.is_some_and(|top| top > 0);
    Ok(is_requested.then(|| top.unwrap_or(0)))
}

fn take_stream(fields: &mut Fields) -> ApiResult<bool> {
    let is_streamed = fields.take_flag("stream")?.unwrap_or(false);
    if let Some(mut options) = fields.take_object("stream_options")? {
        if !is_streamed {
            let message = "stream_options needs \"stream\": true";
            return Err(ApiError::invalid("stream_options", message));
        }
        options.refuse("include_obfuscation", "events are not padded")?;
        options.finish()?;
    }
    Ok(is_streamed)
}

/// OpenAI's options that would change the response and that we cannot honour.
fn refuse_unsupported(fields: &mut Fields) -> ApiResult<()> {
    fields.refuse("background", "a response is made while its request waits")?;
    fields.refuse("conversation", "go on from a response with previous_response_id")?;
    fields.refuse("prompt", "there are no prompt templates here; send input and instructions")?;
    fields.refuse("context_management", "conversations are not compacted here")?;
    fields.refuse("moderation", "nothing is moderated here")?;
    fields.ignore(&["prompt_cache_options"]);
    match fields.take::<String>("truncation")?.as_deref() {
        None | Some("disabled") => Ok(()),
        Some(other) => {
            let message = format!(
                "truncation is {other:?}: only \"disabled\" is supported; a conversation that is \
                 too long is refused, so send fewer items"
            );
            Err(ApiError::invalid("truncation", message))
        }
    }
}

fn check_choices(options: &RequestOptions) -> ApiResult<()> {
    match options.choices() {
        1 => Ok(()),
        n => {
            let message = format!("n is {n}: a response has one output; a chat may have several");
            Err(ApiError::invalid("n", message))
        }
    }
}

fn set_length(options: &mut RequestOptions, echo: &mut RequestEcho) -> ApiResult<()> {
    let length = &mut options.generation.max_new_tokens;
    match (echo.max_output_tokens, *length) {
        (Some(max), Some(other)) if max != other => {
            let message = format!("max_output_tokens is {max}, and {other} under another name");
            return Err(ApiError::invalid("max_output_tokens", message));
        }
        (Some(max), _) => {
            *length = Some(max);
            options.alias("max_new_tokens", "max_output_tokens");
        }
        (None, other) => echo.max_output_tokens = other,
    }
    Ok(())
}

fn set_grammar(options: &mut RequestOptions, text: &TextConfig) -> ApiResult<()> {
    match (text.grammar(), &options.grammar) {
        (None, _) => {}
        (Some(grammar), None) => options.grammar = Some(grammar),
        (Some(grammar), Some(other)) => {
            let (first, second) = (grammar.option, other.option);
            let message = format!("{first} and {second} both say what the output must look like");
            return Err(ApiError::invalid(second, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn take(rest: Value) -> ApiResult<ResponseRequest> {
        let mut body = json!({"input": "hi"});
        for (name, value) in rest.as_object().expect("an object") {
            body[name] = value.clone();
        }
        ResponseRequest::take(Fields::parse(body.to_string().as_bytes())?)
    }

    #[track_caller]
    fn check_refused(rest: Value, param: &str, want: &str) {
        take(rest).unwrap_err().check_says(param, want);
    }

    #[test]
    fn a_plain_request_asks_for_nothing_more() {
        let request = take(json!({})).unwrap();
        assert_eq!(request.options.generation, RequestOptions::default().generation);
        assert!(request.echo.store && !request.is_streamed);
        assert!(request.render.add_generation_prompt && request.offer.is_none());
    }

    #[test]
    fn options_reach_the_engine_and_come_back() {
        let request = take(json!({
            "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.25, "seed": 3, "top_k": 4,
            "reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"a": "b"},
            "text": {"format": {"type": "json_object"}, "verbosity": "low"}, "store": false,
            "instructions": "Be kind.", "user": "u", "safety_identifier": "s", "stream": true,
            "prompt_cache_key": "k", "service_tier": "auto", "max_tool_calls": 2,
            "truncation": "disabled", "background": false, "stream_options": {},
        }));
        let ResponseRequest { render, options, echo, is_streamed, .. } = request.unwrap();
        let generation = &options.generation;
        assert_eq!((generation.max_new_tokens, generation.top_k), (Some(9), Some(4)));
        assert_eq!((generation.seed, generation.temperature), (Some(3), Some(0.5)));
        assert_eq!(options.grammar.map(|grammar| grammar.option), Some("text.format"));
        assert_eq!(render.extra["reasoning_effort"], "low");
        assert!(is_streamed);
        let echo = serde_json::to_value(&echo).unwrap();
        assert_eq!(
            echo,
            json!({
                "background": false, "instructions": "Be kind.", "max_output_tokens": 9,
                "max_tool_calls": 2, "metadata": {"a": "b"}, "parallel_tool_calls": true,
                "previous_response_id": null, "prompt_cache_key": "k",
                "reasoning": {"effort": "low", "summary": "auto"}, "safety_identifier": "s",
                "service_tier": "default", "store": false, "temperature": 0.5,
                "text": {"format": {"type": "json_object"}, "verbosity": "low"},
                "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 0.25,
                "truncation": "disabled", "user": "u",
            })
        );
    }

    #[test]
    fn logprobs_are_requested_by_either_field() {
        let logprobs = |rest| take(rest).unwrap().options.generation.logprobs;
        assert_eq!(logprobs(json!({"include": [LOGPROBS]})), Some(0));
        assert_eq!(logprobs(json!({"include": [LOGPROBS], "top_logprobs": 2})), Some(2));
        assert_eq!(logprobs(json!({"top_logprobs": 2})), Some(2));
        assert_eq!(logprobs(json!({"include": NEVER_THERE, "top_logprobs": 0})), None);
        check_refused(json!({"include": ["everything"]}), "include", "\"everything\"");
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_a_reason() {
        check_refused(json!({"background": true}), "background", "not supported");
        check_refused(json!({"conversation": "conv_1"}), "conversation", "previous_response_id");
        check_refused(json!({"prompt": {"id": "p"}}), "prompt", "no prompt templates");
        check_refused(json!({"truncation": "auto"}), "truncation", "send fewer items");
        check_refused(json!({"n": 2}), "n", "one output");
        check_refused(json!({"moderation": {"model": "m"}}), "moderation", "not supported");
        check_refused(json!({"reasoning": {"effort": "huge"}}), "reasoning.effort", "\"huge\"");
        check_refused(json!({"messages": []}), "messages", "unknown field");
        check_refused(json!({"stream_options": {}}), "stream_options", "needs");
    }

    #[test]
    fn two_names_for_one_thing_must_agree() {
        let length = json!({"max_output_tokens": 8, "max_tokens": 9});
        check_refused(length, "max_output_tokens", "9 under another name");
        assert!(take(json!({"max_output_tokens": 8, "max_tokens": 8})).is_ok());
        assert_eq!(take(json!({"max_tokens": 8})).unwrap().echo.max_output_tokens, Some(8));
        let formats = json!({"text": {"format": {"type": "json_object"}}, "guided_regex": "a"});
        check_refused(formats, "guided_regex", "text.format and guided_regex both say");
        let efforts = json!({"reasoning": {"effort": "low"}, "reasoning_effort": "high"});
        check_refused(efforts, "reasoning.effort", "\"high\"");
    }
}
