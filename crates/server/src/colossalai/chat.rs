//! `POST /chat`: a conversation and the message that follows.
//!
//! With `add_generation_prompt`, which is the default here, the model answers in the server's
//! `response_role`. With `false`, it goes on writing the last message, in the role of that message;
//! `echo` then puts what was there in front.

use axum::Json;
use axum::response::IntoResponse;
use serde::Serialize;
use terrace_engine::text::Prompt;
use terrace_model::RenderOptions;
use utoipa::ToSchema;

use crate::api_error::{ApiResult, Reply};
use crate::chat::{Conversation, rendered_prompt, take_render_options};
use crate::colossalai::refuse_unsupported;
use crate::docs::{PlainChatBody, Refusals};
use crate::fields::{Fields, JsonRequest};
use crate::language::sse::{self, Frame, Frames, Source};
use crate::language::{OutputDelta, RequestOptions, RequestOutputs, RouteDefaults, Usage};

/// The output. With `n` above 1, `text` is the first one and `texts` has all of them.
#[derive(Debug, Serialize, ToSchema)]
struct ChatText<'a> {
    /// Who speaks.
    role: &'a str,
    /// What is said; of several outputs, the first.
    text: &'a str,
    /// All outputs, where several were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<&'a [String]>,
}

/// The message that follows a conversation.
#[utoipa::path(post, path = "/chat", tag = "Plain", operation_id = "plainChat",
    request_body = PlainChatBody, responses(Refusals, (status = 200,
        description = "the output; streamed, its role, then deltas",
        content((ChatText<'_> = "application/json"), (ContentFrame<'_> = "text/event-stream")))))]
pub async fn create(JsonRequest { state, log, fields }: JsonRequest) -> Reply {
    let request = ChatRequest::take(fields)?;
    let role = request.role(&state.config.response_role).to_owned();
    let echo = request.echoed(&role).to_owned();
    let ChatRequest { conversation, render, stream, options, .. } = request;
    let choices = options.check_choices(1, &state.config.limits)?;
    let model = state.services.language.model(options.model.as_deref())?;
    let prompt = rendered_prompt(&state, &model, conversation, render).await?;
    let defaults = RouteDefaults::colossalai();
    let request = options.text_request(Prompt::Rendered(prompt), &state.config.presets, defaults);
    let mut outputs = RequestOutputs::submit(&state, log, model, vec![request], &options).await?;
    if stream {
        return Ok(sse::respond(outputs, ChatFrames { role, echo, choices }));
    }
    let mut texts = vec![echo; choices];
    while let Some(delta) = outputs.next().await {
        let delta = delta?;
        texts[delta.output].push_str(&delta.text);
    }
    let all = (choices > 1).then_some(texts.as_slice());
    Ok(Json(ChatText { role: &role, text: &texts[0], texts: all }).into_response())
}

#[derive(Debug)]
struct ChatRequest {
    conversation: Conversation,
    render: RenderOptions,
    stream: bool,
    echo: bool,
    options: RequestOptions,
}

impl ChatRequest {
    fn take(mut fields: Fields) -> ApiResult<Self> {
        let conversation = Conversation::take(&mut fields)?;
        let render = take_render_options(&mut fields)?;
        let stream = fields.take_flag("stream")?.unwrap_or(false);
        let echo = fields.take_flag("echo")?.unwrap_or(false);
        let options = RequestOptions::take(&mut fields)?;
        refuse_unsupported(&mut fields)?;
        fields.finish()?;
        Ok(Self { conversation, render, stream, echo, options })
    }

    fn role<'a>(&'a self, response_role: &'a str) -> &'a str {
        match self.render.add_generation_prompt {
            true => response_role,
            false => self.conversation.last_role(),
        }
    }

    /// What comes before the output: the last message, if the output is of the same role.
    fn echoed(&self, role: &str) -> &str {
        match self.echo && self.conversation.last_role() == role {
            true => self.conversation.last_content(),
            false => "",
        }
    }
}

struct ChatFrames {
    role: String,
    echo: String,
    choices: usize,
}

#[derive(Serialize)]
struct RoleFrame<'a> {
    index: usize,
    message: RoleOnly<'a>,
}

#[derive(Serialize)]
struct RoleOnly<'a> {
    role: &'a str,
}

#[derive(Serialize, ToSchema)]
struct ContentFrame<'a> {
    /// Which output.
    index: usize,
    /// A delta of it.
    content: &'a str,
}

impl Frames<OutputDelta> for ChatFrames {
    fn open(&mut self) -> Vec<Frame> {
        let message = || RoleOnly { role: &self.role };
        let roles =
            (0..self.choices).map(|index| Frame::json(&RoleFrame { index, message: message() }));
        let echoed = if self.echo.is_empty() { 0 } else { self.choices };
        let echoes = (0..echoed).map(|index| content(index, &self.echo));
        roles.chain(echoes).collect()
    }

    fn delta(&mut self, delta: OutputDelta, _usage: Usage) -> Vec<Frame> {
        match delta.text.is_empty() {
            true => Vec::new(),
            false => vec![content(delta.output, &delta.text)],
        }
    }

    fn close(&mut self, _usage: Usage) -> Vec<Frame> {
        vec![Frame::done()]
    }
}

fn content(index: usize, content: &str) -> Frame {
    Frame::json(&ContentFrame { index, content })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(rest: &str) -> ChatRequest {
        let messages = r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]"#;
        let body = format!(r#"{{"messages": {messages}{rest}}}"#);
        ChatRequest::take(Fields::parse(body.as_bytes()).unwrap()).expect("a good request")
    }

    #[test]
    fn the_role_follows_the_generation_prompt() {
        assert_eq!(take("").role("assistant"), "assistant");
        assert_eq!(take(r#", "add_generation_prompt": false"#).role("assistant"), "user");
        assert_eq!(take(r#", "add_generation_prompt": "false""#).role("assistant"), "user");
    }

    #[test]
    fn the_echo_is_the_last_message_of_the_same_role() {
        let going_on = take(r#", "echo": true, "add_generation_prompt": false"#);
        assert_eq!(going_on.echoed("user"), "u");
        assert_eq!(take(r#", "echo": "true""#).echoed("assistant"), "");
    }

    #[test]
    fn a_stream_opens_with_roles_and_echoes() {
        let mut frames = ChatFrames { role: "user".to_owned(), echo: "u".to_owned(), choices: 2 };
        assert_eq!(
            frames.open(),
            [
                r#"{"index":0,"message":{"role":"user"}}"#,
                r#"{"index":1,"message":{"role":"user"}}"#,
                r#"{"index":0,"content":"u"}"#,
                r#"{"index":1,"content":"u"}"#,
            ]
            .map(|data| Frame::from(data.to_owned()))
        );
    }

    #[test]
    fn one_output_has_two_fields() {
        let one = ChatText { role: "assistant", text: "2", texts: None };
        assert_eq!(serde_json::to_string(&one).unwrap(), r#"{"role":"assistant","text":"2"}"#);
    }
}
