//! The outputs of a chat as a chat completion, whole or streamed.

use axum::Json;
use axum::response::{IntoResponse, Response};
use terrace_engine::text::TokenInfo;

use crate::api_error::ApiResult;
use crate::chat::{ChatDelta, ChatFinish, ChatOutputs, OutputSegment, WholeMessage};
use crate::language::sse::{Frame, Frames, Source};
use crate::language::{TokenNames, Usage, UsedHandle};
use crate::openai::chat_shape::{
    ChatChoice, ChatChunk, ChatCompletion, ChatLogprobs, ChatMessage, ChunkChoice, Delta,
    ToolCallDelta,
};
use crate::openai::delivery::StreamUsage;
use crate::openai::logprobs::{ChatLogprob, PromptLogprobs};
use crate::openai::shape::{FinishReason, Head, UsageShape};

const ROLE: &str = "assistant";

/// Turns outputs into OpenAI's shapes.
pub struct ChatWriter {
    /// Names the tokens where log-probabilities are requested.
    pub logprobs: Option<TokenNames>,
    pub returns_token_ids: bool,
}

impl ChatWriter {
    pub async fn whole(self, mut outputs: ChatOutputs) -> ApiResult<Response> {
        let messages = outputs.collect().await?;
        let choices = messages.into_iter().enumerate();
        let choices = choices.map(|(index, message)| self.choice(index, message)).collect();
        let names = outputs.model().token_names();
        let prompt = outputs.prompt_tokens();
        let prompt_logprobs =
            outputs.prompt_logprobs().map(|given| PromptLogprobs::new(prompt, given, &names));
        let head = Head::new("chatcmpl-", "chat.completion", outputs.model().name());
        outputs.sent_as(&head.id);
        let completion = ChatCompletion {
            head,
            choices,
            usage: outputs.usage().into(),
            warnings: outputs.warnings().to_vec(),
            prompt_token_ids: self.returns_token_ids.then(|| prompt.to_vec()),
            prompt_logprobs,
            kv_cache: outputs.used_handle().cloned(),
        };
        Ok(Json(completion).into_response())
    }

    pub fn streamed(self, outputs: &ChatOutputs, usage: StreamUsage) -> ChatFrames {
        let prompt = outputs.prompt_tokens();
        let head = Head::new("chatcmpl-", "chat.completion.chunk", outputs.model().name());
        outputs.sent_as(&head.id);
        ChatFrames {
            head,
            calls: vec![0; outputs.choices()],
            warnings: outputs.warnings().to_vec(),
            prompt_token_ids: self.returns_token_ids.then(|| prompt.to_vec()),
            prompt_tokens: prompt.len(),
            used_handle: outputs.used_handle().cloned(),
            usage,
            writer: self,
        }
    }

    fn choice(&self, index: usize, message: WholeMessage) -> ChatChoice {
        let WholeMessage { reasoning, mut text, calls, tokens, finish } = message;
        // A message without calls has a text, if an empty one.
        if calls.is_empty() {
            text.get_or_insert_default();
        }
        ChatChoice {
            index,
            logprobs: self.logprobs_of(&tokens),
            token_ids: self.token_ids_of(&tokens),
            finish_reason: finish.as_ref().map(FinishReason::from),
            message: ChatMessage {
                role: ROLE,
                content: text,
                reasoning_content: reasoning,
                refusal: None,
                tool_calls: calls.into_iter().map(Into::into).collect(),
            },
        }
    }

    fn logprobs_of(&self, tokens: &[TokenInfo]) -> Option<ChatLogprobs> {
        let names = self.logprobs.as_ref()?;
        let content = tokens.iter().filter_map(|info| ChatLogprob::of(info, names)).collect();
        Some(ChatLogprobs::new(content))
    }

    fn token_ids_of(&self, tokens: &[TokenInfo]) -> Option<Vec<u32>> {
        self.returns_token_ids.then(|| tokens.iter().map(|token| token.id).collect())
    }
}

impl From<&ChatFinish> for FinishReason {
    fn from(finish: &ChatFinish) -> Self {
        match finish {
            ChatFinish::Stop | ChatFinish::StopText(_) => Self::Stop,
            ChatFinish::Length => Self::Length,
            ChatFinish::ToolCalls => Self::ToolCalls,
        }
    }
}

pub struct ChatFrames {
    writer: ChatWriter,
    /// Calls begun in each choice.
    calls: Vec<usize>,
    head: Head,
    warnings: Vec<String>,
    prompt_token_ids: Option<Vec<u32>>,
    prompt_tokens: usize,
    used_handle: Option<UsedHandle>,
    usage: StreamUsage,
}

impl Frames<ChatDelta> for ChatFrames {
    fn open(&mut self) -> Vec<Frame> {
        let usage = Usage { prompt_tokens: self.prompt_tokens, ..Usage::default() };
        let mut frames = Vec::with_capacity(self.calls.len());
        for index in 0..self.calls.len() {
            let delta =
                Delta { role: Some(ROLE), content: Some(String::new()), ..Delta::default() };
            let choice = ChunkChoice::new(index, delta);
            let chunk = ChatChunk {
                warnings: std::mem::take(&mut self.warnings),
                prompt_token_ids: self.prompt_token_ids.take(),
                ..self.chunk(choice, usage)
            };
            frames.push(Frame::json(&chunk));
        }
        frames
    }

    fn delta(&mut self, delta: ChatDelta, usage: Usage) -> Vec<Frame> {
        let ChatDelta { choice: index, segments, tokens, finish } = delta;
        let mut logprobs = self.writer.logprobs_of(&tokens).filter(|new| !new.content.is_empty());
        let mut token_ids = self.writer.token_ids_of(&tokens).filter(|ids| !ids.is_empty());
        let mut deltas: Vec<_> =
            segments.into_iter().map(|segment| self.shape_of(index, segment)).collect();
        if deltas.is_empty() && (logprobs.is_some() || token_ids.is_some()) {
            // Their tokens' text is not decided yet.
            deltas.push(Delta { content: Some(String::new()), ..Delta::default() });
        }
        let finish_reason = finish.as_ref().map(FinishReason::from);
        let mut choices: Vec<_> = deltas
            .into_iter()
            .map(|delta| ChunkChoice {
                logprobs: logprobs.take(),
                token_ids: token_ids.take(),
                ..ChunkChoice::new(index, delta)
            })
            .collect();
        if finish_reason.is_some() {
            let end = ChunkChoice::new(index, Delta::default());
            choices.push(ChunkChoice { finish_reason, ..end });
        }
        choices.into_iter().map(|choice| Frame::json(&self.chunk(choice, usage))).collect()
    }

    fn close(&mut self, usage: Usage) -> Vec<Frame> {
        let usage = self.usage.at_end.then(|| Some(UsageShape::from(usage)));
        let last = usage.map(|usage| {
            Frame::json(&ChatChunk {
                head: &self.head,
                choices: Vec::new(),
                usage: Some(usage),
                warnings: Vec::new(),
                prompt_token_ids: None,
                kv_cache: self.used_handle.clone(),
            })
        });
        last.into_iter().chain([Frame::done()]).collect()
    }
}

impl ChatFrames {
    fn shape_of(&mut self, choice: usize, segment: OutputSegment) -> Delta {
        let calls = &mut self.calls[choice];
        let call = match segment {
            OutputSegment::Text(text) => return Delta { content: Some(text), ..Delta::default() },
            OutputSegment::Reasoning(text) => {
                return Delta { reasoning_content: Some(text), ..Delta::default() };
            }
            OutputSegment::Call { name } => {
                *calls += 1;
                ToolCallDelta::begin(*calls - 1, name)
            }
            OutputSegment::Arguments(text) => ToolCallDelta::arguments(*calls - 1, text),
        };
        Delta { tool_calls: Some([call]), ..Delta::default() }
    }

    fn chunk(&self, choice: ChunkChoice, usage: Usage) -> ChatChunk<'_> {
        let counts = self.usage.in_chunks.then(|| UsageShape::from(usage));
        let is_last = choice.finish_reason.is_some();
        ChatChunk {
            head: &self.head,
            kv_cache: self.used_handle.clone().filter(|_| is_last),
            choices: vec![choice],
            usage: self.usage.at_end.then_some(counts),
            warnings: Vec::new(),
            prompt_token_ids: None,
        }
    }
}

#[cfg(test)]
mod tests;
