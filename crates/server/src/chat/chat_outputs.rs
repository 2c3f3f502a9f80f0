//! The outputs of a chat as they are decoded, taken apart into reasoning, text and calls.

use std::sync::Arc;

use terrace_engine::text::TextFinish;
use terrace_engine::{TokenId, TokenLogprobs};

use crate::api_error::ApiResult;
use crate::chat::chat_delta::{ChatDelta, ChatFinish};
use crate::chat::output_reader::{OutputReader, OutputSegment};
use crate::chat::whole_message::WholeMessage;
use crate::language::sse::Source;
use crate::language::{RequestOutputs, ServedModel, Usage, UsedHandle};

pub struct ChatOutputs {
    outputs: RequestOutputs,
    /// One for each choice.
    readers: Vec<OutputReader>,
    model: Arc<ServedModel>,
    /// Of the prompt's tokens, once the first delta has come, if requested.
    prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
}

impl ChatOutputs {
    pub fn new(
        outputs: RequestOutputs,
        readers: Vec<OutputReader>,
        model: Arc<ServedModel>,
    ) -> Self {
        Self { outputs, readers, model, prompt_logprobs: None }
    }

    /// The output of a prompt that is no chat: all of it is text.
    pub fn plain(outputs: RequestOutputs, model: Arc<ServedModel>) -> Self {
        Self::new(outputs, vec![OutputReader::new(None, None)], model)
    }

    pub fn model(&self) -> &Arc<ServedModel> {
        &self.model
    }

    pub fn choices(&self) -> usize {
        self.readers.len()
    }

    /// What the request got in another way than requested.
    pub fn warnings(&self) -> &[String] {
        self.outputs.warnings()
    }

    /// The handle that it goes on from.
    pub fn used_handle(&self) -> Option<&UsedHandle> {
        self.outputs.used_handle()
    }

    /// Notes under which id the response is sent, so that a handle can be made of it.
    pub fn sent_as(&self, id: &str) {
        self.outputs.sent_as(id);
    }

    /// The prompt's tokens.
    pub fn prompt_tokens(&self) -> &[TokenId] {
        self.outputs.prompts().first().map_or(&[], AsRef::as_ref)
    }

    /// Log-probabilities of the prompt's tokens, once the first delta has come, if requested.
    pub fn prompt_logprobs(&self) -> Option<&[Option<TokenLogprobs>]> {
        self.prompt_logprobs.as_deref()
    }

    /// The whole message of every choice.
    pub async fn collect(&mut self) -> ApiResult<Vec<WholeMessage>> {
        let mut messages: Vec<WholeMessage> = Vec::new();
        messages.resize_with(self.choices(), WholeMessage::default);
        while let Some(delta) = self.next().await {
            let delta = delta?;
            messages[delta.choice].add(delta);
        }
        Ok(messages)
    }

    fn read(
        &mut self,
        choice: usize,
        text: String,
        finish: Option<TextFinish>,
    ) -> (Vec<OutputSegment>, Option<ChatFinish>) {
        let reader = &mut self.readers[choice];
        let mut segments = reader.push(text);
        let Some(finish) = finish else {
            let is_over = reader.is_over();
            if is_over {
                segments.extend(reader.finish());
                self.outputs.end(choice);
            }
            return (segments, is_over.then_some(ChatFinish::ToolCalls));
        };
        let is_cut = finish == TextFinish::Length;
        segments.extend(if is_cut { reader.cut() } else { reader.finish() });
        let finish = match finish {
            _ if is_cut => ChatFinish::Length,
            _ if reader.has_calls() => ChatFinish::ToolCalls,
            TextFinish::StopText(text) => ChatFinish::StopText(text),
            _ => ChatFinish::Stop,
        };
        (segments, Some(finish))
    }
}

impl Source for ChatOutputs {
    type Delta = ChatDelta;

    async fn next(&mut self) -> Option<ApiResult<ChatDelta>> {
        let delta = match self.outputs.next().await? {
            Ok(delta) => delta,
            Err(error) => return Some(Err(error)),
        };
        if delta.prompt_logprobs.is_some() {
            self.prompt_logprobs = delta.prompt_logprobs;
        }
        let choice = delta.output;
        let (segments, finish) = self.read(choice, delta.text, delta.finish);
        Some(Ok(ChatDelta { choice, segments, tokens: delta.tokens, finish }))
    }

    fn usage(&self) -> Usage {
        self.outputs.usage()
    }
}
